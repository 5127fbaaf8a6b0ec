// Package engine answers chats: it loads a model folder onto a device, keeps the conversation's keys and values between
// turns, and tells what happens as wire events. It compiles everywhere; the worker gives it a browser's GPU, tests give
// it the software driver.
package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"flint/gpu"
	"flint/model"
	"flint/model/chat"
	"flint/model/tokenizer"
	"flint/wasm/wire"
)

// Session is one engine: at most one loaded model and one conversation in its cache. Its methods are called one at a
// time.
type Session struct {
	emit   func(wire.Event)
	open   func(context.Context) (*gpu.Device, error)
	device *gpu.Device
	loaded *loaded
}

// loaded is everything that lives as long as a model.
type loaded struct {
	name      string
	model     *model.Transformer
	decoder   *model.Decoder
	tokenizer *tokenizer.Tokenizer
	template  *chat.Template // nil: the model has none and continues plain text
	special   []string       // the strings of the added tokens
	added     map[int32]bool // and their ids
	stops     []int32
	sampling  wire.Sampling
	history   history
}

// New returns a session that opens WebGPU with its first load.
func New(emit func(wire.Event)) *Session {
	return &Session{emit: emit, open: func(ctx context.Context) (*gpu.Device, error) { return gpu.Open(ctx, gpu.Options{}) }}
}

// NewOn returns a session on a device that the caller has opened. Close closes it too.
func NewOn(d *gpu.Device, emit func(wire.Event)) *Session {
	return &Session{emit: emit, open: func(context.Context) (*gpu.Device, error) { return d, nil }}
}

// Load replaces the current model by the one in files. Its last event is loaded, or error. A cancelled or failed load
// leaves no model behind and frees what it took.
func (s *Session) Load(ctx context.Context, files fs.FS, opt wire.Load) error {
	err := s.load(ctx, files, opt)
	if err != nil {
		s.unload()
		s.emit(errorEvent(opt.ID, err))
	}
	return err
}

func (s *Session) load(ctx context.Context, files fs.FS, opt wire.Load) error {
	start := time.Now()
	s.unload()
	if err := s.acquire(ctx); err != nil {
		return err
	}
	before := s.device.Allocated()
	s.emit(wire.Progress{ID: opt.ID, Phase: wire.Tokenizer})
	l := &loaded{name: opt.Name}
	s.loaded = l // from here on unload frees what there is
	if err := l.readText(files); err != nil {
		return err
	}
	progress := throttle(func(done, total int64) {
		s.emit(wire.Progress{ID: opt.ID, Phase: wire.Weights, Done: done, Total: total})
	})
	var err error
	if l.model, err = model.Load(ctx, s.device, files, func(_ string, done, total int64) { progress(done, total) }); err != nil {
		return err
	}
	if have, want := l.tokenizer.VocabSize(), l.model.Config.VocabSize; have > want {
		return fmt.Errorf("tokenizer.json has token ids up to %d, but config.json says vocab_size %d: the two files belong to different models", have-1, want)
	}
	for _, id := range l.model.Config.EOSTokenIDs {
		l.stops = addStop(l.stops, int32(id))
	}
	if len(l.stops) > model.MaxStops {
		return fmt.Errorf("generation_config.json and config.json name %d tokens that end an answer (eos_token_id), this engine takes at most %d", len(l.stops), model.MaxStops)
	}
	if l.decoder, err = model.NewDecoder(l.model, model.Options{Context: opt.ContextLength}); err != nil {
		return err
	}
	s.emit(wire.Progress{ID: opt.ID, Phase: wire.Kernels})
	if err := l.decoder.Warm(ctx); err != nil {
		return err
	}
	s.emit(wire.Loaded{
		ID: opt.ID, Name: l.name, Architecture: l.model.Config.Architecture, Parameters: l.model.Config.Parameters(),
		ContextLength: l.decoder.Context(), GPUBytes: s.device.Allocated() - before,
		MS: milliseconds(time.Since(start)), Sampling: l.sampling,
	})
	return nil
}

// acquire opens the device, again after a loss.
func (s *Session) acquire(ctx context.Context) error {
	if s.device != nil && s.device.Err() == nil {
		return nil
	}
	if s.device != nil {
		s.device.Close()
		s.device = nil
	}
	d, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.device = d
	s.emit(wire.Hello{Adapter: adapter(d)})
	return nil
}

func adapter(d *gpu.Device) wire.Adapter {
	a := wire.Adapter{
		Vendor: d.Info.Vendor, Architecture: d.Info.Architecture, Device: d.Info.Device, Description: d.Info.Description,
		Software: d.Info.Software,
	}
	for name, on := range map[string]bool{"subgroups": d.Features.Subgroups, "shader-f16": d.Features.F16, "timestamp-query": d.Features.Timestamps} {
		if on {
			a.Features = append(a.Features, name)
		}
	}
	slices.Sort(a.Features)
	if d.Info.Software {
		a.Notes = append(a.Notes, "This adapter computes on the CPU: answers come slowly.")
	}
	return a
}

// readText reads everything of a model folder that is not weights.
func (l *loaded) readText(files fs.FS) error {
	f, err := files.Open("tokenizer.json")
	if err != nil {
		return fmt.Errorf("a model folder needs tokenizer.json: %w", err)
	}
	defer f.Close()
	if l.tokenizer, err = tokenizer.Load(bufio.NewReaderSize(f, 1<<20)); err != nil {
		return err
	}
	l.added = map[int32]bool{}
	for _, a := range l.tokenizer.AddedTokens() {
		l.special, l.added[a.ID] = append(l.special, a.Content), true
	}
	if l.template, err = chat.Load(files); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return err
	}
	stops, err := chat.StopTokens(files)
	if err != nil {
		return err
	}
	for _, id := range stops {
		l.stops = addStop(l.stops, id)
	}
	defaults, err := chat.LoadDefaults(files)
	if err != nil {
		return err
	}
	l.sampling = sampling(defaults)
	if err := errors.Join(l.sampling.Check(), samplingConfig(l.sampling).Validate()); err != nil {
		return fmt.Errorf("generation_config.json recommends what cannot be done: %w", err)
	}
	return nil
}

func (s *Session) unload() {
	if l := s.loaded; l != nil {
		if l.decoder != nil {
			l.decoder.Release()
		}
		if l.model != nil {
			l.model.Release()
		}
	}
	s.loaded = nil
}

// Close frees the model and the device.
func (s *Session) Close() {
	s.unload()
	if s.device != nil {
		s.device.Close()
		s.device = nil
	}
}

func addStop(stops []int32, id int32) []int32 {
	if slices.Contains(stops, id) {
		return stops
	}
	return append(stops, id)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// throttle passes on at most ten reports a second, and the last.
func throttle(report func(done, total int64)) func(done, total int64) {
	var next time.Time
	return func(done, total int64) {
		if now := time.Now(); done == total || now.After(next) {
			next = now.Add(100 * time.Millisecond)
			report(done, total)
		}
	}
}
