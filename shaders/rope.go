package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
)

//go:embed rope.wgsl
var ropeWGSL string

var rope = &gpu.Kernel{
	Name: "rope",
	WGSL: ropeWGSL,
	Bindings: []gpu.Binding{
		{Name: "x", Access: gpu.ReadWrite},
		{Name: "table", Access: gpu.Read},
		{Name: "state", Access: gpu.Uniform},
	},
	Reference: refRope,
}

// Rope rotates the pairs (i, i+Dh/2) of every head in place. Row i is at absolute position state.position+i; a row past
// the table is turned like its last position, and must not be read.
//
//	x [T, H, Dh] f32   table [P, Dh/2, 2] f32: cos and sin of each angle, factors of the rope type included
func Rope(r *gpu.Recorder, x, table, state gpu.Tensor) {
	t, h, dh := x.Dim(0), x.Dim(1), x.Dim(2)
	if !r.Check("rope", "x", x, f32, -1, -1, -1) || !r.Check("rope", "table", table, f32, -1, dh/2, 2) || !r.Check("rope", "state", state, u32, StateWords) {
		return
	}
	if dh%2 != 0 {
		r.Errorf("rope: an even head dimension", fmt.Sprintf("x is %v", x))
		return
	}
	const threads = 64
	grid := gpu.Grid{X: (h*dh/2 + threads - 1) / threads, Y: t, Z: 1}
	r.Dispatch(rope, gpu.Variant{Prelude: libState}, grid, gpu.Params(h, dh/2, table.Dim(0)), x, table, state)
}

func refRope(c *gpu.Call) {
	heads, half, positions := c.U(0), c.U(1), c.U(2)
	x, table := c.F32(0), c.F32(1)
	for row := range c.Grid.Y {
		position := min(int(c.U32(2)[StatePosition])+row, positions-1)
		for head := range heads {
			v := x[(row*heads+head)*2*half:]
			for i := range half {
				cos, sin := float64(table[(position*half+i)*2]), float64(table[(position*half+i)*2+1])
				a, b := float64(v[i]), float64(v[half+i])
				v[i], v[half+i] = float32(a*cos-b*sin), float32(b*cos+a*sin)
			}
		}
	}
}
