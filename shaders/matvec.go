package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
)

//go:embed matvec.wgsl
var matVecWGSL string

//go:embed matvec_lanes.wgsl
var matVecLanes string

//go:embed matvec_serial.wgsl
var matVecSerial string

var matVec = &gpu.Kernel{Name: "matvec", WGSL: matVecWGSL, Bindings: linearBindings, Reference: refLinear}

const (
	matVecThreads = 128
	// A CPU rasteriser runs a workgroup on one core: small ones keep all cores busy.
	serialThreads = 16
	// The sums of 4 rows and 4 outputs fill a CPU's vector registers; more rows spill them.
	serialRows = 4
)

// MatVec records out = x weight^T + bias for up to 8 rows, reading each weight once. Blocks of w fill their columns of
// out. Rows are bit for bit what they are alone.
//
//	x [T, K] f32   w [N, K] f32, f16 or bf16   bias [N] f32, or nil   out [T, N] f32
func MatVec(r *gpu.Recorder, out, x gpu.Tensor, w Weight, bias *gpu.Tensor) {
	if !checkLinear(r, "matvec", out, x, w, bias) {
		return
	}
	if x.Dim(0) > matVecRows {
		r.Errorf(fmt.Sprintf("at most %d rows", matVecRows), fmt.Sprintf("matvec: x is %v", x))
		return
	}
	rows := matVecBuild(x.Dim(0))
	dispatchLinear(r, matVec, out, x, w, bias, func(block gpu.Tensor) (gpu.Variant, gpu.Grid) {
		return matVecVariant(r.Device().Features, block, rows, x.Dim(0))
	})
}

// matVecBuild returns the number of rows of the build that serves t rows: 1, 2, 4 or 8.
func matVecBuild(t int) int {
	rows := 1
	for rows < t {
		rows *= 2
	}
	return rows
}

// matVecLaneCount is how many lanes share an output. It decides the order of each sum, so it depends on the matrix alone. Few
// outputs with long rows need more lanes each to keep a large GPU's memory busy.
func matVecLaneCount(n, k int) int {
	if n < 8192 && k >= 1024 {
		return 128
	}
	return 32
}

// matVecVariant builds the kernel for `rows` rows a workgroup and lays its grid over t rows.
func matVecVariant(f gpu.Features, block gpu.Tensor, rows, t int) (gpu.Variant, gpu.Grid) {
	name, load := loads(block)
	threads, lanes := matVecThreads, matVecLaneCount(block.Dim(0), block.Dim(1))
	how, subgroups, consts, lib := reduction(f)
	end := lib + matVecLanes
	if f.Serial {
		// The grid covers rows past the build's; with one lane every build adds in the same order.
		threads, lanes, rows = serialThreads, 1, min(rows, serialRows)
		how, subgroups, consts, end = "serial", false, nil, matVecSerial
	}
	consts = append(consts, "THREADS", threads, "LANES", lanes, "ROWS", rows)
	outputs := threads / lanes * 4
	v := gpu.Variant{
		Name:    fmt.Sprintf("%s.r%d.l%d.%s", name, rows, lanes, how),
		Prelude: prelude(subgroups, consts, load, end),
	}
	return v, gpu.Grid{X: ceilDiv(block.Dim(0), outputs), Y: ceilDiv(t, rows), Z: 1}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
