package shaders

import (
	"fmt"
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestRMSNorm(t *testing.T) {
	for _, c := range []struct {
		class string
		t, d  int
	}{
		{"one_row_one_pass", 1, 64},
		{"several_passes", 3, 256},
		{"ragged_tail", 2, 97},
		{"shorter_than_workgroup", 2, 5},
		{"many_rows", 70, 32},
		{"many_lanes", 2, 1500},
	} {
		t.Run(fmt.Sprintf("%s_%dx%d", c.class, c.t, c.d), func(t *testing.T) {
			gputest.Same(t, 2e-6, func(h *gputest.Harness) []gpu.Tensor {
				x := h.In("x", gpu.F32, h.Normal(c.t*c.d, 1), c.t, c.d)
				w := h.In("weight", gpu.F32, h.Normal(c.d, 1), c.d)
				out := h.Out("out", gpu.F32, c.t, c.d)
				h.Run(func(r *gpu.Recorder) { RMSNorm(r, out, x, w, 1e-5) })
				return []gpu.Tensor{out}
			})
		})
	}
}

func TestRMSNormRowIsTheSameAloneAndAmongOthers(t *testing.T) {
	for _, d := range []int{97, 1500} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			gputest.Run(t, func(t *testing.T, dev *gpu.Device) {
				const rows = 8
				h := gputest.New(t, dev, "rows")
				values := h.Normal(rows*d, 1)
				w := h.In("weight", gpu.F32, h.Normal(d, 1), d)
				x := h.In("x", gpu.F32, values, rows, d)
				together := h.Out("out", gpu.F32, rows, d)
				row := h.In("row", gpu.F32, values[3*d:4*d], 1, d)
				alone := h.Out("alone", gpu.F32, 1, d)
				h.Run(func(r *gpu.Recorder) {
					RMSNorm(r, together, x, w, 1e-5)
					RMSNorm(r, alone, row, w, 1e-5)
				})
				equalBits(t, "row 3", h.Floats(together)[3*d:4*d], h.Floats(alone))
			})
		})
	}
}

func TestRMSNormReference(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	x := h.In("x", gpu.F32, []float32{3, 4}, 1, 2)
	w := h.In("weight", gpu.F32, []float32{1, 10}, 2)
	out := h.Out("out", gpu.F32, 1, 2)
	h.Run(func(r *gpu.Recorder) { RMSNorm(r, out, x, w, 0) })
	rms := float32(math.Sqrt(12.5))
	gputest.AllClose(t, "out", h.Floats(out), []float32{3 / rms, 40 / rms}, 1e-7)
}
