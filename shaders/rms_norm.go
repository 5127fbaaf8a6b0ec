package shaders

import (
	_ "embed"
	"math"

	"flint/gpu"
)

//go:embed rms_norm.wgsl
var rmsNormWGSL string

var rmsNorm = &gpu.Kernel{
	Name: "rms_norm",
	WGSL: rmsNormWGSL,
	Bindings: []gpu.Binding{
		{Name: "out", Access: gpu.ReadWrite},
		{Name: "x", Access: gpu.Read},
		{Name: "weight", Access: gpu.Read},
	},
	Reference: refRMSNorm,
}

// RMSNorm records out = x / sqrt(mean(x^2) + eps) * weight for each row.
//
//	out, x [T, D] f32   weight [D] f32
func RMSNorm(r *gpu.Recorder, out, x, weight gpu.Tensor, eps float32) {
	t, d := x.Dim(0), x.Dim(1)
	if !r.Check("rms_norm", "x", x, f32, -1, -1) || !r.Check("rms_norm", "out", out, f32, t, d) || !r.Check("rms_norm", "weight", weight, f32, d) {
		return
	}
	r.Dispatch(rmsNorm, gpu.Variant{}, gpu.Grid{X: t, Y: 1, Z: 1}, gpu.Params(d, eps), out, x, weight)
}

func refRMSNorm(c *gpu.Call) {
	d, eps := c.U(0), float64(c.F(1))
	out, x, weight := c.F32(0), c.F32(1), c.F32(2)
	for row := 0; row < len(x)/d; row++ {
		in := x[row*d : (row+1)*d]
		sum := 0.0
		for _, v := range in {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(d)+eps)
		for i, v := range in {
			out[row*d+i] = float32(float64(v) * scale * float64(weight[i]))
		}
	}
}
