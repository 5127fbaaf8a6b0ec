package gpu_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"flint/gpu"
	"flint/gpu/gputest"
)

// doubling is a list on tensors of its own: y = 2 x, y comes back.
func doubling(t *testing.T, d *gpu.Device) (list *gpu.CommandList, x, y gpu.Tensor) {
	t.Helper()
	var err error
	if x, err = d.NewTensor("x", gpu.F32, 4); err == nil {
		y, err = d.NewTensor("y", gpu.F32, 4)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Buffer.Destroy(); y.Buffer.Destroy() })
	r := d.NewRecorder("doubling")
	r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(4, float32(0)), y, x)
	r.Readback(y)
	if list, err = r.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(list.Release)
	return list, x, y
}

// runs checks that a list still gives what it should: that a mistake before left the device as it was.
func runs(t *testing.T, what string, list *gpu.CommandList, x gpu.Tensor) {
	t.Helper()
	p, err := list.Submit(gpu.Write{Buffer: x.Buffer, Data: gputest.Encode(gpu.F32, []float32{1, 2, 3, 4})})
	if err != nil {
		t.Fatalf("%s, then a good list: %v", what, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	data, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("%s, then a good list: %v", what, err)
	}
	gputest.AllClose(t, what, gputest.Decode(gpu.F32, data), []float32{2, 4, 6, 8}, 0)
}

// TestMistakesWithListsLeaveTheDeviceUsable: what WebGPU would only find after the submission, and hold against the whole
// device, is refused before.
func TestMistakesWithListsLeaveTheDeviceUsable(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		good, x, _ := doubling(t, d)
		other := gpu.OpenSoftware(gpu.Options{})
		foreign, err := other.NewTensor("foreign", gpu.F32, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, want string
			spoil      func(list *gpu.CommandList, x, y gpu.Tensor) []gpu.Write
		}{
			{"released", "released", func(list *gpu.CommandList, _, _ gpu.Tensor) []gpu.Write { list.Release(); list.Release(); return nil }},
			{"input destroyed", "buffer x is destroyed", func(_ *gpu.CommandList, x, _ gpu.Tensor) []gpu.Write { x.Buffer.Destroy(); return nil }},
			{"output destroyed", "buffer y is destroyed", func(_ *gpu.CommandList, _, y gpu.Tensor) []gpu.Write { y.Buffer.Destroy(); return nil }},
			{"write to nothing", "a buffer", func(*gpu.CommandList, gpu.Tensor, gpu.Tensor) []gpu.Write { return []gpu.Write{{}} }},
			{"write elsewhere", "one device", func(*gpu.CommandList, gpu.Tensor, gpu.Tensor) []gpu.Write {
				return []gpu.Write{{Buffer: foreign.Buffer, Data: make([]byte, 4)}}
			}},
			{"write past the end", "range of whole words", func(_ *gpu.CommandList, x, _ gpu.Tensor) []gpu.Write {
				return []gpu.Write{{Buffer: x.Buffer, Offset: 12, Data: make([]byte, 8)}}
			}},
		} {
			list, x2, y2 := doubling(t, d)
			writes := c.spoil(list, x2, y2)
			if _, err := list.Submit(writes...); !errors.Is(err, gpu.ErrValidation) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: submit: %v, want %q", c.name, err, c.want)
			}
			if _, err := list.Profile(context.Background(), 1); len(writes) == 0 && (!errors.Is(err, gpu.ErrValidation) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: profile: %v, want %q", c.name, err, c.want)
			}
			runs(t, c.name, good, x)
		}
		if err := d.Write(foreign.Buffer, 0, make([]byte, 4)); !errors.Is(err, gpu.ErrValidation) {
			t.Errorf("a write to another device's buffer: %v", err)
		}
		if _, err := d.Download(context.Background(), foreign); !errors.Is(err, gpu.ErrValidation) {
			t.Errorf("a download from another device: %v", err)
		}
		if _, err := d.Download(context.Background(), gpu.Tensor{}); !errors.Is(err, gpu.ErrValidation) {
			t.Errorf("a download of nothing: %v", err)
		}
		runs(t, "all of them", good, x)
	})
}

// TestReleasedAndDestroyedInFlight: a list may be released and its buffers destroyed while the GPU is at work on them; what
// was submitted still comes back, or fails, but always ends.
func TestReleasedAndDestroyedInFlight(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		good, goodX, _ := doubling(t, d)
		for i := range 6 {
			list, x, y := doubling(t, d)
			var pending []*gpu.Pending
			for range 3 {
				p, err := list.Submit(gpu.Write{Buffer: x.Buffer, Data: gputest.Encode(gpu.F32, []float32{4, 3, 2, 1})})
				if err != nil {
					t.Fatal(err)
				}
				pending = append(pending, p)
			}
			if i%2 == 0 {
				list.Release()
			}
			if i/2 > 0 {
				x.Buffer.Destroy()
				y.Buffer.Destroy()
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			for _, p := range pending {
				data, err := p.Wait(ctx)
				if err != nil {
					t.Fatalf("case %d: %v", i, err)
				}
				gputest.AllClose(t, "in flight", gputest.Decode(gpu.F32, data), []float32{8, 6, 4, 2}, 0)
			}
			cancel()
			runs(t, "in flight", good, goodX)
		}
	})
}

// TestClosedDeviceIsLost: after Close everything says that the device is lost, on every driver, and nothing hangs.
func TestClosedDeviceIsLost(t *testing.T) {
	open := func() (*gpu.Device, error) { return gpu.OpenSoftware(gpu.Options{}), nil }
	t.Run("software", func(t *testing.T) { closes(t, open) })
	t.Run("webgpu", func(t *testing.T) {
		gputest.WebGPU(t) // or skip
		closes(t, func() (*gpu.Device, error) { return gpu.Open(context.Background(), gpu.Options{}) })
	})
}

func closes(t *testing.T, open func() (*gpu.Device, error)) {
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	beside, err := open() // a second device in the program goes on
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	list, x, y := doubling(t, d)
	besideList, besideX, _ := doubling(t, beside)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var pending []*gpu.Pending
	for range 4 {
		p, err := list.Submit()
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	synced := make(chan error, 1)
	go func() { synced <- d.Sync(ctx) }()
	d.Close()
	d.Close()
	select {
	case <-d.Lost():
	default:
		t.Error("Lost is not closed after Close")
	}
	for i, p := range pending {
		if _, err := p.Wait(ctx); !errors.Is(err, gpu.ErrLost) {
			t.Errorf("step %d in flight: %v", i, err)
		}
	}
	if err := <-synced; !errors.Is(err, gpu.ErrLost) {
		t.Errorf("a sync in flight: %v", err)
	}
	for name, call := range map[string]func() error{
		"submit":     func() error { _, err := list.Submit(); return err },
		"profile":    func() error { _, err := list.Profile(ctx, 1); return err },
		"sync":       func() error { return d.Sync(ctx) },
		"write":      func() error { return d.Write(x.Buffer, 0, make([]byte, 4)) },
		"upload":     func() error { return d.Upload(ctx, x.Buffer, 0, strings.NewReader("abcd"), 0, 4, nil) },
		"new buffer": func() error { _, err := d.NewBuffer("b", 4); return err },
		"download":   func() error { _, err := d.Download(ctx, y); return err },
		"finish":     func() error { _, err := d.NewRecorder("r").Finish(ctx); return err },
	} {
		if err := call(); !errors.Is(err, gpu.ErrLost) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	runs(t, "beside a closed device", besideList, besideX)
}
