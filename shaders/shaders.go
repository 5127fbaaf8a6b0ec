// Package shaders holds every GPU kernel. Three files share a stem: x.wgsl is the kernel, x.go its record function and
// Go reference, x_test.go compares the two by shape class. References accumulate in float64 and round to float32 where
// the WGSL stores.
package shaders

import "flint/gpu"

// Element types that Recorder.Check accepts.
var (
	f32   = []gpu.DType{gpu.F32}
	u32   = []gpu.DType{gpu.U32}
	float = []gpu.DType{gpu.F32, gpu.F16, gpu.BF16}
)
