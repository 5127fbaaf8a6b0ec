package shaders

import (
	_ "embed"
	"math"

	"flint/gpu"
)

//go:embed swiglu.wgsl
var swiGLUWGSL string

var swiGLU = &gpu.Kernel{
	Name: "swiglu",
	WGSL: swiGLUWGSL,
	Bindings: []gpu.Binding{
		{Name: "out", Access: gpu.ReadWrite},
		{Name: "gate", Access: gpu.Read},
		{Name: "up", Access: gpu.Read},
	},
	Reference: refSwiGLU,
}

// SwiGLU records out = silu(gate) * up, where silu(g) = g / (1 + exp(-g)).
//
//	out, gate, up [T, F] f32
func SwiGLU(r *gpu.Recorder, out, gate, up gpu.Tensor) {
	t, f := gate.Dim(0), gate.Dim(1)
	if !r.Check("swiglu", "gate", gate, f32, -1, -1) || !r.Check("swiglu", "up", up, f32, t, f) || !r.Check("swiglu", "out", out, f32, t, f) {
		return
	}
	v, grid, count := elements(r, out)
	r.Dispatch(swiGLU, v, grid, gpu.Params(count), out, gate, up)
}

func refSwiGLU(c *gpu.Call) {
	out, gate, up := c.F32(0), c.F32(1), c.F32(2)
	for i := range out {
		g := float64(gate[i])
		out[i] = float32(g / (1 + math.Exp(-g)) * float64(up[i]))
	}
}
