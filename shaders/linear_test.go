package shaders

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// linearTolerance is relative to the largest output: float32 sums against float64 ones.
const linearTolerance = 3e-6

type recordLinear func(r *gpu.Recorder, out, x gpu.Tensor, w Weight, bias *gpu.Tensor)

// testLinear compares a kernel with its reference for one shape, and with a bias when the shape is odd in N.
func testLinear(t *testing.T, record recordLinear, dtype gpu.DType, rows, n, k int) {
	t.Run(fmt.Sprintf("%v_%dx%dx%d", dtype, rows, n, k), func(t *testing.T) {
		gputest.Same(t, linearTolerance, func(h *gputest.Harness) []gpu.Tensor {
			x := h.In("x", gpu.F32, h.Normal(rows*k, 1), rows, k)
			w := NewWeight(h.In("weight", dtype, h.Normal(n*k, 1), n, k))
			out := h.Out("out", gpu.F32, rows, n)
			var bias *gpu.Tensor
			if n%2 == 1 {
				b := h.In("bias", gpu.F32, h.Normal(n, 5), n)
				bias = &b
			}
			h.Run(func(r *gpu.Recorder) { record(r, out, x, w, bias) })
			return []gpu.Tensor{out}
		})
	})
}

// linearDTypes are the weights a checkpoint may have.
var linearDTypes = []gpu.DType{gpu.F32, gpu.F16, gpu.BF16}

func TestLinearReference(t *testing.T) {
	for _, dtype := range linearDTypes {
		h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
		x := h.In("x", gpu.F32, []float32{1, 2, -1, 0.5}, 2, 2)
		w := NewWeight(h.In("weight", dtype, []float32{1, 0, 0.5, 2, -3, 4}, 3, 2))
		bias := h.In("bias", gpu.F32, []float32{0, 100, -1}, 3)
		out := h.Out("out", gpu.F32, 2, 3)
		h.Run(func(r *gpu.Recorder) { Linear(r, out, x, w, &bias) })
		gputest.AllClose(t, dtype.String(), h.Floats(out), []float32{1, 104.5, 4, -1, 100.5, 4}, 0)
	}
}

// Blocks of rows of one matrix fill their columns of out.
func TestLinearOverBlocksOfRows(t *testing.T) {
	const n, k = 5 + 40 + 3, 64
	for _, rows := range []int{1, 3, 20} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			gputest.Run(t, func(t *testing.T, d *gpu.Device) {
				h := gputest.New(t, d, "blocks")
				values := h.Normal(n*k, 1)
				whole := NewWeight(h.In("weight", gpu.BF16, values, n, k))
				blocks := Weight{Blocks: []gpu.Tensor{
					h.In("weight.0", gpu.BF16, values[:5*k], 5, k),
					h.In("weight.1", gpu.BF16, values[5*k:45*k], 40, k),
					h.In("weight.2", gpu.BF16, values[45*k:], 3, k),
				}}
				x := h.In("x", gpu.F32, h.Normal(rows*k, 1), rows, k)
				bias := h.In("bias", gpu.F32, h.Normal(n, 1), n)
				want, got := h.Out("want", gpu.F32, rows, n), h.Out("got", gpu.F32, rows, n)
				h.Run(func(r *gpu.Recorder) {
					Linear(r, want, x, whole, &bias)
					Linear(r, got, x, blocks, &bias)
				})
				equalBits(t, "blocks and whole", h.Floats(got), h.Floats(want))
			})
		})
	}
}

// A large matrix starts at any multiple of 256 of its buffer.
func TestLinearOnAViewOfRows(t *testing.T) {
	const n, k = 48, 64
	gputest.Same(t, linearTolerance, func(h *gputest.Harness) []gpu.Tensor {
		w := h.In("weight", gpu.F32, h.Normal(n*k, 1), n, k).Rows(8, 33)
		x := h.In("x", gpu.F32, h.Normal(6*k, 1), 6, k).Rows(2, 3)
		out := h.Out("out", gpu.F32, 3, 33)
		h.Run(func(r *gpu.Recorder) { Linear(r, out, x, NewWeight(w), nil) })
		return []gpu.Tensor{out}
	})
}

func TestLinearRefusesShapesThatDoNotFit(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	in := func(dtype gpu.DType, shape ...int) gpu.Tensor {
		n := (gpu.Tensor{Shape: shape}).Len()
		return h.In("in", dtype, make([]float32, n), shape...)
	}
	x, out := in(gpu.F32, 2, 6), h.Out("out", gpu.F32, 2, 4)
	bias := in(gpu.F32, 3)
	for _, c := range []struct {
		name, want string
		record     func(r *gpu.Recorder)
	}{
		{"no_blocks", "without blocks", func(r *gpu.Recorder) { Linear(r, out, x, Weight{}, nil) }},
		{"k", "x is [2 6] f32, want [any 8] [f32]", func(r *gpu.Recorder) { Linear(r, out, x, NewWeight(in(gpu.F32, 4, 8)), nil) }},
		{"n", "out is [2 4] f32, want [2 5] [f32]", func(r *gpu.Recorder) { Linear(r, out, x, NewWeight(in(gpu.F32, 5, 6)), nil) }},
		{"bias", "bias is [3] f32, want [4] [f32]", func(r *gpu.Recorder) { Linear(r, out, x, NewWeight(in(gpu.F32, 4, 6)), &bias) }},
		{"dtype", "weight is [4 6] u32", func(r *gpu.Recorder) {
			Linear(r, out, x, NewWeight(h.InU32("w", make([]uint32, 24), 4, 6)), nil)
		}},
		{"odd_halves", "even number of half-width elements", func(r *gpu.Recorder) {
			Linear(r, out, in(gpu.F32, 2, 7), NewWeight(in(gpu.BF16, 4, 7)), nil)
		}},
		{"mixed_blocks", "weight block 1 is [2 6] f16", func(r *gpu.Recorder) {
			Linear(r, out, x, Weight{Blocks: []gpu.Tensor{in(gpu.BF16, 2, 6), in(gpu.F16, 2, 6)}}, nil)
		}},
		{"too_many_rows", "at most 8 rows", func(r *gpu.Recorder) {
			MatVec(r, h.Out("out", gpu.F32, 9, 4), in(gpu.F32, 9, 6), NewWeight(in(gpu.F32, 4, 6)), nil)
		}},
	} {
		r := h.Device.NewRecorder("layers.0")
		c.record(r)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// equalBits fails unless the floats agree bit for bit.
func equalBits(t testing.TB, label string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d and %d elements", label, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v (%08x), want %v (%08x)", label, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// rowBits checks that each row alone equals the same row among others, for every given number of rows, and returns the
// rows. One list runs everything: the harness reads every tensor back after each.
func rowBits(t *testing.T, d *gpu.Device, record recordLinear, dtype gpu.DType, n, k int, widths []int) []float32 {
	t.Helper()
	h := gputest.New(t, d, fmt.Sprint(dtype, n, k))
	most := slices.Max(widths)
	values := h.Normal(most*k, 1)
	w := NewWeight(h.In("weight", dtype, h.Normal(n*k, 1), n, k))
	bias := h.In("bias", gpu.F32, h.Normal(n, 1), n)
	type run struct{ x, out gpu.Tensor }
	prepare := func(first, rows int) run {
		return run{h.In("x", gpu.F32, values[first*k:(first+rows)*k], rows, k), h.Out("out", gpu.F32, rows, n)}
	}
	var alone, together []run
	for row := range most {
		alone = append(alone, prepare(row, 1))
	}
	for _, width := range widths {
		together = append(together, prepare(0, width))
	}
	h.Run(func(r *gpu.Recorder) {
		for _, run := range slices.Concat(alone, together) {
			record(r, run.out, run.x, w, &bias)
		}
	})
	var want []float32
	for _, run := range alone {
		want = append(want, h.Floats(run.out)...)
	}
	for i, width := range widths {
		equalBits(t, fmt.Sprintf("%d rows of %v %dx%d", width, dtype, n, k), h.Floats(together[i].out), want[:width*n])
	}
	return want
}
