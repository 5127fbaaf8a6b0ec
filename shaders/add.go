package shaders

import (
	_ "embed"

	"flint/gpu"
)

//go:embed add.wgsl
var addWGSL string

var add = &gpu.Kernel{
	Name:      "add",
	WGSL:      addWGSL,
	Bindings:  []gpu.Binding{{Name: "x", Access: gpu.ReadWrite}, {Name: "y", Access: gpu.Read}},
	Reference: refAdd,
}

// Add records x += y * scale in place: the residual connection. scale is 1, or what muP models multiply a branch by.
//
//	x, y [T, D] f32
func Add(r *gpu.Recorder, x, y gpu.Tensor, scale float32) {
	if !r.Check("add", "x", x, f32, -1, -1) || !r.Check("add", "y", y, f32, x.Dim(0), x.Dim(1)) {
		return
	}
	v, grid, count := elements(r, x)
	r.Dispatch(add, v, grid, gpu.Params(count, scale), x, y)
}

func refAdd(c *gpu.Call) {
	x, y, scale := c.F32(0), c.F32(1), float64(c.F(1))
	for i := range x {
		x[i] = float32(float64(x[i]) + float64(y[i])*scale)
	}
}
