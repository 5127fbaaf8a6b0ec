package shaders

import "flint/gpu"

// elementThreads is the workgroup size of the kernels that treat each element alone.
const elementThreads = 256

// elements returns the variant and grid of a kernel over every element of t: four at a time where rows divide by four.
// The choice depends on the row length alone, so that a row's bits do not depend on how many rows there are.
func elements(r *gpu.Recorder, t gpu.Tensor) (v gpu.Variant, grid gpu.Grid, count int) {
	name, element := "wide", "vec4<f32>"
	count = t.Len() / 4
	if t.Shape[len(t.Shape)-1]%4 != 0 {
		name, element, count = "narrow", "f32", t.Len()
	}
	text := prelude(false, []any{"THREADS", elementThreads}, "alias Element = "+element+";\n")
	return gpu.Variant{Name: name, Prelude: text}, foldGrid(ceilDiv(count, elementThreads), r.Device().Limits.MaxWorkgroups), count
}

// foldGrid lays a row of workgroups over two dimensions where it is longer than the limit of one. A kernel finds its
// place as group.y * groups.x + group.x and drops what lies past the end.
func foldGrid(groups, limit int) gpu.Grid {
	y := ceilDiv(groups, limit)
	return gpu.Grid{X: ceilDiv(groups, y), Y: y, Z: 1}
}
