package shaders

import (
	"fmt"
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// elementShapes are the classes of element-wise kernels: by vectors and by scalars, one workgroup and several.
var elementShapes = []struct{ t, d int }{{1, 4}, {1, 1}, {3, 7}, {5, 256}, {70, 33}}

func TestSwiGLU(t *testing.T) {
	for _, c := range elementShapes {
		t.Run(fmt.Sprintf("%dx%d", c.t, c.d), func(t *testing.T) {
			gputest.Same(t, 1e-6, func(h *gputest.Harness) []gpu.Tensor {
				gate := h.In("gate", gpu.F32, h.Normal(c.t*c.d, 3), c.t, c.d)
				up := h.In("up", gpu.F32, h.Normal(c.t*c.d, 1), c.t, c.d)
				out := h.Out("out", gpu.F32, c.t, c.d)
				h.Run(func(r *gpu.Recorder) { SwiGLU(r, out, gate, up) })
				return []gpu.Tensor{out}
			})
		})
	}
}

// Far from zero silu is 0 on one side and the identity on the other, never a NaN.
func TestSwiGLUFarFromZero(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "far")
		gate := h.In("gate", gpu.F32, []float32{-1e4, -200, -89, 0, 89, 200, 1e4, 1}, 1, 8)
		up := h.In("up", gpu.F32, []float32{1, 1, 1, 1, 1, 1, 1, 2}, 1, 8)
		out := h.Out("out", gpu.F32, 1, 8)
		h.Run(func(r *gpu.Recorder) { SwiGLU(r, out, gate, up) })
		one := float32(2 / (1 + math.Exp(-1)))
		got := h.Floats(out)
		gputest.AllClose(t, "small", got[:3], []float32{0, 0, 0}, 1e-30)
		gputest.AllClose(t, "large", got[3:7], []float32{0, 89, 200, 1e4}, 1e-6)
		gputest.AllClose(t, "one", got[7:], []float32{one}, 1e-6)
	})
}

func TestAdd(t *testing.T) {
	for _, c := range elementShapes {
		for _, scale := range []float32{1, 0.2214} {
			t.Run(fmt.Sprintf("%dx%d_%v", c.t, c.d, scale), func(t *testing.T) {
				gputest.Same(t, 1e-7, func(h *gputest.Harness) []gpu.Tensor {
					x := h.InOut("x", gpu.F32, h.Normal(c.t*c.d, 1), c.t, c.d)
					y := h.In("y", gpu.F32, h.Normal(c.t*c.d, 1), c.t, c.d)
					h.Run(func(r *gpu.Recorder) { Add(r, x, y, scale) })
					return []gpu.Tensor{x}
				})
			})
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range elementShapes {
		t.Run(fmt.Sprintf("%dx%d", c.t, c.d), func(t *testing.T) {
			gputest.Same(t, 0, func(h *gputest.Harness) []gpu.Tensor {
				x := h.InOut("x", gpu.F32, h.Normal(c.t*c.d, 1), c.t, c.d)
				h.Run(func(r *gpu.Recorder) { Scale(r, x, 0.3) })
				return []gpu.Tensor{x}
			})
		})
	}
}

// One dimension of a grid holds 65,535 workgroups; more elements than those have fold over two.
func TestFoldGridCoversEveryWorkgroup(t *testing.T) {
	const limit = 65535
	for _, groups := range []int{1, 2, limit, limit + 1, limit + 2, 2*limit + 1, 1 << 20, limit * limit} {
		g := foldGrid(groups, limit)
		if g.X > limit || g.Y > limit || g.Z != 1 || g.X*g.Y < groups || g.X*g.Y-groups >= g.Y {
			t.Errorf("%d workgroups in grid %v", groups, g)
		}
	}
}

func TestScaleOverAFoldedGrid(t *testing.T) {
	const rows, d = 7, 4*elementThreads + 4
	gputest.Run(t, func(t *testing.T, dev *gpu.Device) {
		narrow := dev.Restrict(dev.Features)
		narrow.Limits.MaxWorkgroups = 3
		h := gputest.New(t, narrow, "fold")
		values := h.Normal(rows*d, 1)
		x := h.InOut("x", gpu.F32, values, rows, d)
		h.Run(func(r *gpu.Recorder) { Scale(r, x, 2) })
		for i := range values {
			values[i] *= 2
		}
		equalBits(t, "x", h.Floats(x), values)
	})
}
