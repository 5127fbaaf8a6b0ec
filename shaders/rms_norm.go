package shaders

import (
	_ "embed"
	"fmt"
	"math"

	"flint/gpu"
)

//go:embed rms_norm.wgsl
var rmsNormWGSL string

//go:embed rms_norm_lanes.wgsl
var rmsNormLanes string

//go:embed rms_norm_serial.wgsl
var rmsNormSerial string

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
	v, grid := rmsNormVariant(r.Device().Features, t, d)
	r.Dispatch(rmsNorm, v, grid, gpu.Params(d, t, eps), out, x, weight)
}

func rmsNormVariant(f gpu.Features, t, d int) (gpu.Variant, gpu.Grid) {
	if f.Serial {
		const threads = 8
		text := prelude(false, []any{"THREADS", threads, "LANES", 1}, rmsNormSerial)
		return gpu.Variant{Name: "serial", Prelude: text}, gpu.Grid{X: ceilDiv(t, threads), Y: 1, Z: 1}
	}
	lanes := 64
	if d > 1024 {
		lanes = 256 // a step has few rows, so it is the length of a lane's share that takes the time
	}
	how, subgroups, consts, lib := reduction(f)
	text := prelude(subgroups, append(consts, "THREADS", lanes, "LANES", lanes), lib, rmsNormLanes)
	return gpu.Variant{Name: fmt.Sprintf("l%d.%s", lanes, how), Prelude: text}, gpu.Grid{X: t, Y: 1, Z: 1}
}

func refRMSNorm(c *gpu.Call) {
	d, eps := c.U(0), float64(c.F(2))
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
