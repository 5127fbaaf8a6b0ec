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

func TestRMSNormReference(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	x := h.In("x", gpu.F32, []float32{3, 4}, 1, 2)
	w := h.In("weight", gpu.F32, []float32{1, 10}, 2)
	out := h.Out("out", gpu.F32, 1, 2)
	h.Run(func(r *gpu.Recorder) { RMSNorm(r, out, x, w, 0) })
	rms := float32(math.Sqrt(12.5))
	gputest.AllClose(t, "out", h.Floats(out), []float32{3 / rms, 40 / rms}, 1e-7)
}
