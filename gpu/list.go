package gpu

import (
	"context"
	"sort"
	"time"
)

type opKind uint8

const (
	opDispatch opKind = iota
	opCopy
	opCut
)

// op is one recorded command.
type op struct {
	kind       opKind
	kernel     *Kernel
	variant    Variant
	grid       Grid
	params     []uint32
	paramBlock int
	tensors    []Tensor // of a copy: destination, source
	label      string   // for profiles
	path       string   // for errors
}

// CommandList is a finished recording. It can be submitted any number of times, each time in one crossing.
type CommandList struct {
	Label string

	device      *Device
	ops         []op
	paramBlocks [][]uint32
	readback    Tensor
	buffers     []*Buffer // all that it uses, each once
	built       builtList // nil once released
}

func (l *CommandList) collectBuffers() {
	seen := map[*Buffer]bool{nil: true}
	add := func(t Tensor) {
		if !seen[t.Buffer] {
			seen[t.Buffer] = true
			l.buffers = append(l.buffers, t.Buffer)
		}
	}
	for _, o := range l.ops {
		for _, t := range o.tensors {
			add(t)
		}
	}
	add(l.readback)
}

// runnable says what keeps the list from being run again. WebGPU would find the same, but late, and hold it against the
// whole device.
func (l *CommandList) runnable() error {
	if l.built == nil {
		return &Error{Kind: ErrValidation, Label: l.Label, Need: "a list that can run", Have: "it is released"}
	}
	for _, b := range l.buffers {
		if b.destroyed {
			return &Error{Kind: ErrValidation, Label: l.Label, Need: "live tensors", Have: "buffer " + b.Label + " is destroyed"}
		}
	}
	return l.device.Err()
}

// Write is a small update that goes along with a submission, before its first command.
type Write struct {
	Buffer *Buffer
	Offset int64
	Data   []byte // whole words
}

// Dispatches counts the kernels a submission runs.
func (l *CommandList) Dispatches() int {
	n := 0
	for _, o := range l.ops {
		if o.kind == opDispatch {
			n++
		}
	}
	return n
}

// Submit runs the list after everything submitted before. It does not wait: the returned Pending does.
func (l *CommandList) Submit(writes ...Write) (*Pending, error) {
	for _, w := range writes {
		if err := l.device.checkRange(w.Buffer, w.Offset, int64(len(w.Data))); err != nil {
			return nil, err
		}
	}
	if err := l.runnable(); err != nil {
		return nil, err
	}
	p := &Pending{device: l.device, done: make(chan struct{})}
	if l.readback.Buffer == nil {
		close(p.done)
	} else {
		p.data = make([]byte, l.readback.Bytes())
	}
	if err := l.built.submit(writes, p); err != nil {
		return nil, err
	}
	return p, nil
}

// Release frees what the driver keeps for the list. The tensors it was recorded with stay.
func (l *CommandList) Release() {
	if l != nil && l.built != nil {
		l.built.release()
		l.built = nil
	}
}

// LabelTime is the GPU time of all dispatches under one label in a profile.
type LabelTime struct {
	Label      string
	Dispatches int
	Time       time.Duration // of one run of the list
}

// Profile runs the list repeats times with a timestamp around each dispatch and sums by kernel, longest first. It is a
// run of its own because a pass per dispatch, which timestamps need, costs time that normal submissions do not pay.
func (l *CommandList) Profile(ctx context.Context, repeats int) ([]LabelTime, error) {
	if err := l.runnable(); err != nil {
		return nil, err
	}
	nanos, err := l.built.profile(ctx, repeats)
	if err != nil {
		return nil, err
	}
	sums := map[string]*LabelTime{}
	i := 0
	for _, o := range l.ops {
		if o.kind != opDispatch {
			continue
		}
		s := sums[o.label]
		if s == nil {
			s = &LabelTime{Label: o.label}
			sums[o.label] = s
		}
		s.Dispatches++
		s.Time += time.Duration(nanos[i])
		i++
	}
	out := make([]LabelTime, 0, len(sums))
	for _, s := range sums {
		out = append(out, *s)
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Time > out[j].Time || out[i].Time == out[j].Time && out[i].Label < out[j].Label
	})
	return out, nil
}

// Pending is the result of a submission on its way back.
type Pending struct {
	device *Device
	data   []byte
	done   chan struct{}
	err    error
}

// Wait returns the bytes named by Recorder.Readback, or at once when the list has none. Several submissions may be
// waited for late and in any order; a cancelled context leaves the GPU's work untouched.
func (p *Pending) Wait(ctx context.Context) ([]byte, error) {
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-p.device.shared.lost:
			return nil, p.device.Err()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.data, p.device.Err()
}

// Download reads a tensor back, for tests and rare large results; steps use Recorder.Readback.
func (d *Device) Download(ctx context.Context, t Tensor) ([]byte, error) {
	whole := t
	whole.DType, whole.Shape = U32, []int{int(roundUp(t.Bytes(), 4) / 4)}
	r := d.NewRecorder("download")
	r.Readback(whole)
	l, err := r.Finish(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	p, err := l.Submit()
	if err != nil {
		return nil, err
	}
	data, err := p.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return data[:t.Bytes()], nil
}
