package gpu_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

const doubleWGSL = `
struct Params { n: u32, add: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < params.n) { out[id.x] = 2.0 * x[id.x] + params.add; }
}`

// double is the smallest kernel: out = 2 x + add.
var double = &gpu.Kernel{
	Name: "double", WGSL: doubleWGSL,
	Bindings: []gpu.Binding{{Name: "out", Access: gpu.ReadWrite}, {Name: "x", Access: gpu.Read}},
	Reference: func(c *gpu.Call) {
		out, x := c.F32(0), c.F32(1)
		for i := range c.U(0) {
			out[i] = 2*x[i] + c.F(1)
		}
	},
}

func TestDispatchesOfAListSeeEachOthersWrites(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "chain")
		x := h.In("x", gpu.F32, []float32{1, 2, 3}, 3)
		y := h.Out("y", gpu.F32, 3)
		z := h.Out("z", gpu.F32, 3)
		w := h.Out("w", gpu.F32, 3)
		h.Run(func(r *gpu.Recorder) {
			r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(3, float32(1)), y, x)
			r.Cut()
			r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(3, float32(0)), z, y)
			r.Copy(w, z)
		})
		gputest.AllClose(t, "w", h.Floats(w), []float32{6, 10, 14}, 0)
	})
}

func TestSubmissionsCarryWritesAndManyCanBeInFlight(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		ctx := context.Background()
		h := gputest.New(t, d, "flight")
		x := h.InOut("x", gpu.F32, []float32{0, 0}, 2)
		y := h.Out("y", gpu.F32, 2)
		r := d.NewRecorder("step")
		r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(2, float32(0)), y, x)
		r.Readback(y)
		list, err := r.Finish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Release()
		var pending []*gpu.Pending
		for i := range 5 {
			data := gputest.Encode(gpu.F32, []float32{float32(i), float32(10 * i)})
			p, err := list.Submit(gpu.Write{Buffer: x.Buffer, Offset: x.Offset, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			pending = append(pending, p)
		}
		for i := len(pending) - 1; i >= 0; i-- {
			data, err := pending[i].Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			gputest.AllClose(t, "y", gputest.Decode(gpu.F32, data), []float32{float32(2 * i), float32(20 * i)}, 0)
		}
	})
}

func TestRecorderRefusesWhatWebGPURefuses(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		d2 := gpu.OpenSoftware(gpu.Options{})
		h := gputest.New(t, d, "refuse")
		x := h.In("x", gpu.F32, make([]float32, 256), 256)
		y := h.Out("y", gpu.F32, 256)
		dead, _ := d.NewTensor("dead", gpu.F32, 4)
		dead.Buffer.Destroy()
		foreign, _ := d2.NewTensor("foreign", gpu.F32, 4)
		one := gpu.Grid{X: 1, Y: 1, Z: 1}
		p := gpu.Params(3, float32(1))
		shifted, long, before, after := x, x, x, x
		before.Offset, after.Offset = -4, x.Buffer.Size
		shifted.Offset += 4
		shifted.Shape = []int{4}
		long.Shape = []int{1 << 20}
		for _, c := range []struct {
			name, want string
			record     func(r *gpu.Recorder)
		}{
			{"aliased", "own its buffer", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, y) }},
			{"misaligned", "multiple of 256", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, shifted) }},
			{"out_of_range", "range inside", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, long) }},
			{"grid_too_large", "65535", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 65536, Y: 1, Z: 1}, p, y, x) }},
			{"grid_zero", "workgroups a dimension", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 0, Z: 1}, p, y, x) }},
			{"tensor_count", "2", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y) }},
			{"nil_tensor", "a buffer", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, gpu.Tensor{}) }},
			{"destroyed", "live buffer", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, dead) }},
			{"other_device", "one device", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, p, y, foreign) }},
			{"no_params", "1 to 64", func(r *gpu.Recorder) { r.Dispatch(double, gpu.Variant{}, one, nil, y, x) }},
			{"copy_in_place", "two buffers", func(r *gpu.Recorder) { r.Copy(x, x) }},
			{"copy_destroyed", "live buffer", func(r *gpu.Recorder) { r.Copy(y, dead) }},
			{"copy_other_device", "one device", func(r *gpu.Recorder) { r.Copy(foreign, y) }},
			{"copy_nil", "a buffer", func(r *gpu.Recorder) { r.Copy(y, gpu.Tensor{}) }},
			{"copy_before_the_start", "ranges inside", func(r *gpu.Recorder) { r.Copy(y, before) }},
			{"copy_past_the_end", "ranges inside", func(r *gpu.Recorder) { r.Copy(y, after) }},
			{"readback_destroyed", "live buffer", func(r *gpu.Recorder) { r.Readback(dead) }},
			{"readback_other_device", "one device", func(r *gpu.Recorder) { r.Readback(foreign) }},
			{"readback_nil", "a buffer", func(r *gpu.Recorder) { r.Readback(gpu.Tensor{}) }},
			{"readback_before_the_start", "one range", func(r *gpu.Recorder) { r.Readback(before) }},
			{"copy_sizes", "equal sizes", func(r *gpu.Recorder) { r.Copy(y, shifted) }},
			{"two_readbacks", "one range", func(r *gpu.Recorder) { r.Readback(y); r.Readback(y) }},
		} {
			r := d.NewRecorder("list")
			r.Push("layers.3")
			r.Push("mlp")
			c.record(r)
			_, err := r.Finish(context.Background())
			if err == nil || !errors.Is(err, gpu.ErrValidation) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "layers.3.mlp: ") {
				t.Errorf("%s: %v, want one with %q at layers.3.mlp", c.name, err, c.want)
			}
		}
	})
}

func TestStorageBuffersAreCounted(t *testing.T) {
	many := &gpu.Kernel{Name: "many", WGSL: doubleWGSL, Reference: func(*gpu.Call) {}}
	d := gpu.OpenSoftware(gpu.Options{})
	x, err := d.NewTensor("x", gpu.F32, 64)
	if err != nil {
		t.Fatal(err)
	}
	var tensors []gpu.Tensor
	for i := range d.Limits.MaxStorageBuffers + 1 {
		many.Bindings = append(many.Bindings, gpu.Binding{Name: string(rune('a' + i)), Access: gpu.Read})
		tensors = append(tensors, x)
	}
	r := d.NewRecorder("list")
	r.Dispatch(many, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(1), tensors...)
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "11 storage buffers, want at most 10") {
		t.Fatalf("got %v", err)
	}
}

func TestFirstErrorSticks(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	x, _ := d.NewTensor("x", gpu.F32, 8, 2304)
	r := d.NewRecorder("list")
	r.Push("layers.12.mlp.down_proj")
	if r.Check("matvec", "x", x, []gpu.DType{gpu.F32}, -1, 5760) {
		t.Fatal("accepted")
	}
	r.Check("matvec", "x", x, []gpu.DType{gpu.F32}, 1, 1)
	want := "layers.12.mlp.down_proj: matvec: x is [8 2304] f32, want [any 5760] [f32]"
	if r.Err() == nil || r.Err().Error() != want {
		t.Fatalf("got %v, want %s", r.Err(), want)
	}
}

func TestBuffersAreCountedAndBounded(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		before := d.Allocated()
		b, err := d.NewBuffer("b", 10)
		if err != nil || b.Size != 12 || d.Allocated() != before+12 {
			t.Fatalf("%v %+v %d", err, b, d.Allocated()-before)
		}
		b.Destroy()
		b.Destroy()
		if d.Allocated() != before {
			t.Fatal("not freed once")
		}
		if err := d.Write(b, 0, make([]byte, 4)); !errors.Is(err, gpu.ErrValidation) {
			t.Fatalf("write to destroyed: %v", err)
		}
		if _, err := d.NewBuffer("huge", d.Limits.MaxBufferSize+4); !errors.Is(err, gpu.ErrUnsupported) {
			t.Fatalf("huge: %v", err)
		}
	})
}

// offsetReader serves bytes by position and fails past its size, like a truncated file.
type offsetReader struct{ size int64 }

func (o offsetReader) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for ; n < len(p) && off+int64(n) < o.size; n++ {
		p[n] = byte((off + int64(n)) * 7)
	}
	if n < len(p) {
		return n, errors.New("end of file")
	}
	return n, nil
}

func TestUploadMovesAnyRange(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		ctx := context.Background()
		for _, n := range []int64{1, 2, 3, 4, 1001, 17<<20 + 2} {
			b, err := d.NewBuffer("b", n+300)
			if err != nil {
				t.Fatal(err)
			}
			told := int64(0)
			if err := d.Upload(ctx, b, 256, offsetReader{1 << 40}, 12346, n, func(k int64) { told += k }); err != nil {
				t.Fatal(err)
			}
			got, err := d.Download(ctx, gpu.Tensor{Buffer: b, Offset: 256, Shape: []int{int(n+3) / 4}, DType: gpu.U32})
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				want := byte((12346 + int64(i)) * 7)
				if int64(i) >= n {
					want = 0
				}
				if v != want {
					t.Fatalf("n=%d: byte %d is %d, want %d", n, i, v, want)
				}
			}
			if told != n {
				t.Fatalf("progress said %d of %d", told, n)
			}
			b.Destroy()
		}
		b, _ := d.NewBuffer("short", 64)
		defer b.Destroy()
		if err := d.Upload(ctx, b, 0, offsetReader{40}, 0, 64, nil); err == nil || !strings.Contains(err.Error(), "got 40") {
			t.Fatalf("truncated source: %v", err)
		}
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if err := d.Upload(cancelled, b, 0, offsetReader{64}, 0, 64, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
	})
}
