package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"flint/gpu"
	"flint/model/sample"
	"flint/shaders"
)

// Options shape a Decoder. The zero value of a field means its default.
type Options struct {
	Context      int       // positions; default the config's maximum, at most 4096
	KV           gpu.DType // F32 (default) or F16
	PrefillChunk int       // rows a prefill step processes; default by the kind of device
	LogitRows    int       // rows of a step that can have logits; default 1
	Taps         []int     // layers whose outputs are kept
	Depth        int       // steps in flight; default 2
}

// maxDefaultContext bounds the key/value cache nobody asked for: checkpoints name contexts of 128k tokens and more.
const maxDefaultContext = 4096

func (o Options) withDefaults(c *Config, d *gpu.Device) Options {
	if o.Context == 0 {
		o.Context = min(c.MaxPositionEmbeddings, maxDefaultContext)
	}
	if o.PrefillChunk == 0 {
		o.PrefillChunk = 512
		if d.Features.Serial || d.Info.Software {
			o.PrefillChunk = 64 // a CPU needs long for a chunk, and Stop waits for the one under way
		}
	}
	o.PrefillChunk = min(o.PrefillChunk, o.Context)
	o.LogitRows = max(o.LogitRows, 1)
	o.Depth = max(o.Depth, 1)
	return o
}

// ErrContextFull says that no position is left.
var ErrContextFull = errors.New("the context is full")

// Decoder generates one sequence, a token a step. It owns the sequence's cache and may be used for many turns: a
// prefill processes only what differs from the tokens already in the cache.
type Decoder struct {
	model *Transformer
	opt   Options
	state *state
	lists map[listKey]*gpu.CommandList

	ids    []int32 // committed tokens, the host's truth
	cached int     // leading ids whose keys and values are in the cache

	position int // of the newest step submitted: it processes rows up to and including this one
	limit    int // first position that may not be committed
	inflight []*gpu.Pending
	done     bool // nothing more to come: the answer ended, or was given up

	Processed int // rows run through the model since the decoder was made, for tests and figures
}

// listKey says what a recording depends on.
type listKey struct {
	rows, logitRows, maxKeys int
	sample                   bool
}

// NewDecoder allocates a sequence's working memory on the model's device.
func NewDecoder(m *Transformer, opt Options) (*Decoder, error) {
	opt = opt.withDefaults(m.Config, m.device)
	if opt.Context < 1 || opt.Context > m.Config.MaxPositionEmbeddings {
		return nil, fmt.Errorf("a context of %d tokens: this model has positions for 1 to %d", opt.Context, m.Config.MaxPositionEmbeddings)
	}
	s, err := newState(m.device, m.Config, opt)
	if err != nil {
		return nil, err
	}
	return &Decoder{model: m, opt: opt, state: s, lists: map[listKey]*gpu.CommandList{}}, nil
}

// MaxStops is the number of stop tokens a request may have.
const MaxStops = shaders.MaxStops

// Request is what one generation asks for.
type Request struct {
	Sampling  sample.Config
	Seed      uint64
	Stops     []int32 // stop token ids, committed and then final; at most MaxStops
	MaxTokens int     // tokens to generate; 0 is as many as the context holds
}

// Step is one decode step's result.
type Step struct {
	Tokens []int32 // committed by this step
	Done   bool    // a stop token was committed, or the limit reached
}

// Context is the number of positions.
func (d *Decoder) Context() int { return d.opt.Context }

// IDs returns the committed tokens.
func (d *Decoder) IDs() []int32 { return d.ids }

// Prefill makes ids the sequence and starts generating after them: it keeps the longest common prefix with the tokens
// already in the cache, processes the rest in chunks, and samples the first new token, which Next returns. It returns
// how many tokens it reused. A refused request changes nothing; after any other error or a cancelled context nothing
// comes from Next, and the decoder stays usable.
func (d *Decoder) Prefill(ctx context.Context, ids []int32, req Request) (reused int, err error) {
	if err := d.check(ids, req); err != nil {
		return 0, err
	}
	stops, err := stopWords(req.Stops)
	if err != nil {
		return 0, err
	}
	if err := d.drain(ctx); err != nil {
		return 0, err
	}
	reused = min(commonPrefix(d.ids[:d.cached], ids), len(ids)-1)
	d.ids, d.cached = append(d.ids[:reused:reused], ids[reused:]...), reused
	d.limit = d.opt.Context
	if room := d.limit - len(ids); req.MaxTokens > 0 && req.MaxTokens < room {
		d.limit = len(ids) + req.MaxTokens
	}
	writes := []gpu.Write{
		{Buffer: d.state.tokens.Buffer, Offset: int64(4 * reused), Data: wordBytes(ids[reused:])},
		{Buffer: d.state.config.Buffer, Data: wordBytes(req.Sampling.Words())},
		{Buffer: d.state.stops.Buffer, Data: wordBytes(stops)},
	}
	for start := reused; start < len(ids); {
		// Chunks end at multiples of the chunk size, so that a row's result depends on (start, count) alone.
		count := min(d.opt.PrefillChunk-start%d.opt.PrefillChunk, len(ids)-start)
		last := start+count == len(ids)
		key := listKey{rows: count, maxKeys: keyBound(start + count), sample: last}
		if last {
			key.logitRows = 1
		}
		if err := ctx.Err(); err != nil {
			return reused, err
		}
		s := shaders.State{Position: uint32(start), Limit: uint32(d.limit), Seed: req.Seed}
		writes = append(writes, gpu.Write{Buffer: d.state.decode.Buffer, Data: s.Bytes()})
		p, err := d.submit(ctx, key, writes)
		if err != nil {
			return reused, err
		}
		writes = nil
		start += count
		d.Processed += count
		if !last {
			// Waiting here bounds what is queued, so that Stop takes effect within a chunk and other users of the GPU
			// get their turn.
			if err := d.model.device.Sync(ctx); err != nil {
				return reused, err
			}
			d.cached = start
			continue
		}
		d.position, d.done = len(ids)-1, false
		d.inflight = append(d.inflight, p)
	}
	return reused, nil
}

func (d *Decoder) check(ids []int32, req Request) error {
	switch {
	case len(ids) == 0:
		return errors.New("nothing to continue: the prompt has no tokens")
	case len(ids) >= d.opt.Context:
		return fmt.Errorf("%w: the prompt has %d tokens, the context %d, and an answer needs room", ErrContextFull, len(ids), d.opt.Context)
	}
	if req.MaxTokens < 0 {
		return fmt.Errorf("%d tokens to generate: want 0 (as many as the context holds) or more", req.MaxTokens)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= d.model.Config.VocabSize {
			return fmt.Errorf("token %d of the prompt is %d: this model's vocabulary has %d", i, id, d.model.Config.VocabSize)
		}
	}
	return req.Sampling.Validate()
}

// Next returns the next step's tokens, keeping further steps in flight while it waits. After a step that is Done it
// returns no more tokens. A cancelled context loses nothing: the step can be asked for again.
func (d *Decoder) Next(ctx context.Context) (Step, error) {
	if err := ctx.Err(); err != nil {
		return Step{}, err
	}
	// The row at d.position+1 chooses the token at d.position+2.
	for !d.done && len(d.inflight) < d.opt.Depth && d.position+2 < d.limit {
		key := listKey{rows: 1, logitRows: 1, maxKeys: keyBound(d.position + 2), sample: true}
		p, err := d.submit(ctx, key, nil)
		if err != nil {
			return Step{}, err
		}
		d.position++
		d.Processed++
		d.inflight = append(d.inflight, p)
	}
	if d.done || len(d.inflight) == 0 {
		return Step{Done: true}, nil
	}
	data, err := d.inflight[0].Wait(ctx)
	if err != nil {
		return Step{}, err
	}
	d.inflight = d.inflight[1:]
	report, err := shaders.ParseReport(data)
	if err != nil {
		return Step{}, err
	}
	d.cached = len(d.ids)
	for _, id := range report.Tokens {
		d.ids = append(d.ids, int32(id))
	}
	d.done = report.Done
	return Step{Tokens: d.ids[d.cached:], Done: d.done}, nil
}

// drain ends the answer: it waits for the steps in flight and forgets them. What they committed past the tokens the
// caller has seen is not part of the sequence, and the next prefill overwrites it.
func (d *Decoder) drain(ctx context.Context) error {
	d.done = true // with steps missing, the next one's tokens would not follow those the caller has
	for len(d.inflight) > 0 {
		if _, err := d.inflight[0].Wait(ctx); err != nil {
			return err
		}
		d.inflight = d.inflight[1:]
	}
	return nil
}

// Truncate keeps the first n tokens of the sequence, which is all it takes to forget the rest. An answer under way ends
// when it loses a token.
func (d *Decoder) Truncate(n int) {
	if n >= len(d.ids) {
		return
	}
	d.ids = d.ids[:max(n, 0)]
	d.cached, d.done = min(d.cached, len(d.ids)), true
}

// submit runs the recording of a key, making it first when it is new.
func (d *Decoder) submit(ctx context.Context, key listKey, writes []gpu.Write) (*gpu.Pending, error) {
	list, err := d.list(ctx, key)
	if err != nil {
		return nil, err
	}
	return list.Submit(writes...)
}

// maxLists bounds the recordings kept; prefills of many lengths would otherwise pile up.
const maxLists = 24

func (d *Decoder) list(ctx context.Context, key listKey) (*gpu.CommandList, error) {
	if l := d.lists[key]; l != nil {
		return l, nil
	}
	if len(d.lists) >= maxLists {
		for k, l := range d.lists {
			if k.rows != 1 {
				l.Release()
				delete(d.lists, k)
			}
		}
	}
	l, err := d.record(ctx, key)
	if err == nil {
		d.lists[key] = l
	}
	return l, err
}

// record makes the recording of a step: forward, and for the last rows of a prefill and for decode steps the choice of
// the next token.
func (d *Decoder) record(ctx context.Context, key listKey) (*gpu.CommandList, error) {
	r := d.model.device.NewRecorder(fmt.Sprintf("step of %d rows", key.rows))
	s := d.state.rows(key.rows, key.logitRows, min(key.maxKeys, d.opt.Context+shaders.TokenSlack))
	d.model.record(r, s)
	if key.sample {
		logits := s.logits.Rows(s.logits.Dim(0)-1, 1)
		shaders.Sample(r, s.choice, logits, s.tokens, s.decode, s.config, s.samplingScratch, key.rows-1)
		shaders.Accept(r, s.decode, s.tokens, s.report, s.choice, s.stops, key.rows)
		r.Readback(s.report)
	}
	return r.Finish(ctx)
}

// keyBound rounds a count of visible keys up to a power of two of at least one attention chunk: recordings are shared
// by all positions under one bound.
func keyBound(keys int) int {
	bound := shaders.AttentionChunk
	for bound < keys {
		bound *= 2
	}
	return bound
}

func stopWords(ids []int32) ([]uint32, error) {
	words := make([]uint32, len(ids))
	for i, id := range ids {
		words[i] = uint32(id)
	}
	return shaders.StopWords(words)
}

func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Release frees the sequence's memory and recordings.
func (d *Decoder) Release() {
	for _, l := range d.lists {
		l.Release()
	}
	clear(d.lists)
	d.state.release()
}

// Forward runs ids[from:] at positions from onwards, after whatever the cache holds before them, in steps of the given
// row counts, the last of which repeats. It returns the logits of every row and, for each tapped layer, its output
// rows: what tests compare with golden numbers. It needs LogitRows of at least the widest step.
func (d *Decoder) Forward(ctx context.Context, ids []int32, from int, widths ...int) (logits []float32, taps map[int][]float32, err error) {
	if err := d.check(ids, Request{Sampling: sample.Default()}); err != nil {
		return nil, nil, err
	}
	if err := d.drain(ctx); err != nil {
		return nil, nil, err
	}
	d.Truncate(0)
	taps = map[int][]float32{}
	for start, i := from, 0; start < len(ids); i++ {
		count := min(widths[min(i, len(widths)-1)], len(ids)-start)
		list, err := d.list(ctx, listKey{rows: count, logitRows: count, maxKeys: keyBound(start + count)})
		if err != nil {
			return nil, nil, err
		}
		s := shaders.State{Position: uint32(start), Limit: uint32(d.opt.Context)}
		if _, err := list.Submit(
			gpu.Write{Buffer: d.state.tokens.Buffer, Offset: int64(4 * start), Data: wordBytes(ids[start : start+count])},
			gpu.Write{Buffer: d.state.decode.Buffer, Data: s.Bytes()},
		); err != nil {
			return nil, nil, err
		}
		rows, err := d.download(ctx, d.state.logits.Rows(0, count))
		if err != nil {
			return nil, nil, err
		}
		logits = append(logits, rows...)
		for layer, t := range d.state.taps {
			rows, err := d.download(ctx, t.Rows(0, count))
			if err != nil {
				return nil, nil, err
			}
			taps[layer] = append(taps[layer], rows...)
		}
		start += count
	}
	return logits, taps, nil
}

func (d *Decoder) download(ctx context.Context, t gpu.Tensor) ([]float32, error) {
	data, err := d.model.device.Download(ctx, t)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out, nil
}

// Warm records the steps that every answer takes, which compiles their kernels, so that the first answer need not wait
// for compilers.
func (d *Decoder) Warm(ctx context.Context) error {
	for _, key := range []listKey{
		{rows: 1, logitRows: 1, maxKeys: keyBound(1), sample: true},
		{rows: d.opt.PrefillChunk, logitRows: 1, maxKeys: keyBound(d.opt.PrefillChunk), sample: true},
	} {
		if _, err := d.list(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// Profile returns the GPU time of a decode step at a position, by kernel. The sequence in the cache is lost.
func (d *Decoder) Profile(ctx context.Context, position, repeats int) ([]gpu.LabelTime, error) {
	if err := d.drain(ctx); err != nil {
		return nil, err
	}
	d.Truncate(0)
	list, err := d.list(ctx, listKey{rows: 1, logitRows: 1, maxKeys: keyBound(position + 1), sample: true})
	if err != nil {
		return nil, err
	}
	s := shaders.State{Position: uint32(position), Limit: uint32(d.opt.Context)}
	if err := d.model.device.Write(d.state.decode.Buffer, 0, s.Bytes()); err != nil {
		return nil, err
	}
	return list.Profile(ctx, repeats)
}
