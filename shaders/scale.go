package shaders

import (
	_ "embed"

	"flint/gpu"
)

//go:embed scale.wgsl
var scaleWGSL string

var scale = &gpu.Kernel{
	Name:      "scale",
	WGSL:      scaleWGSL,
	Bindings:  []gpu.Binding{{Name: "x", Access: gpu.ReadWrite}},
	Reference: refScale,
}

// Scale records x *= factor in place.
//
//	x [T, D] f32
func Scale(r *gpu.Recorder, x gpu.Tensor, factor float32) {
	if !r.Check("scale", "x", x, f32, -1, -1) {
		return
	}
	v, grid, count := elements(r, x)
	r.Dispatch(scale, v, grid, gpu.Params(count, factor), x)
}

func refScale(c *gpu.Call) {
	x, factor := c.F32(0), float64(c.F(1))
	for i := range x {
		x[i] = float32(float64(x[i]) * factor)
	}
}
