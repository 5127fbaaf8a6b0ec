package shaders

import (
	_ "embed"
	"fmt"
	"strings"

	"flint/gpu"
)

//go:embed lib_load_wide.wgsl
var libLoadWide string

//go:embed lib_load_narrow.wgsl
var libLoadNarrow string

// matVecRows is the largest number of rows for which reading the weights is what takes the time.
const matVecRows = 8

// Linear records out = x weight^T + bias: by MatVec for up to 8 rows, by MatMul for more.
//
//	x [T, K] f32   w [N, K] f32, f16 or bf16   bias [N] f32, or nil   out [T, N] f32
func Linear(r *gpu.Recorder, out, x gpu.Tensor, w Weight, bias *gpu.Tensor) {
	if x.Dim(0) <= matVecRows {
		MatVec(r, out, x, w, bias)
	} else {
		MatMul(r, out, x, w, bias)
	}
}

// linearBindings are the tensors of matvec and matmul.
var linearBindings = []gpu.Binding{
	{Name: "out", Access: gpu.ReadWrite},
	{Name: "x", Access: gpu.Read},
	{Name: "weight", Access: gpu.Read},
	{Name: "bias", Access: gpu.Read},
}

// checkLinear checks the shapes of x weight^T + bias.
func checkLinear(r *gpu.Recorder, kernel string, out, x gpu.Tensor, w Weight, bias *gpu.Tensor) bool {
	return checkWeight(r, kernel, w) &&
		r.Check(kernel, "x", x, f32, -1, w.K()) &&
		r.Check(kernel, "out", out, f32, x.Dim(0), w.N()) &&
		(bias == nil || r.Check(kernel, "bias", *bias, f32, w.N()))
}

// dispatchLinear runs a kernel once for each block of the weight's rows, that is columns of out. build gives the variant
// and the grid for a block.
func dispatchLinear(r *gpu.Recorder, k *gpu.Kernel, out, x gpu.Tensor, w Weight, bias *gpu.Tensor, build func(block gpu.Tensor) (gpu.Variant, gpu.Grid)) {
	b := x // something must be bound; has_bias says that it is not read
	if bias != nil {
		b = *bias
	}
	column := 0
	for _, block := range w.Blocks {
		v, grid := build(block)
		params := gpu.Params(block.Dim(0), block.Dim(1), x.Dim(0), out.Dim(1), column, bias != nil)
		r.Dispatch(k, v, grid, params, out, x, block, b)
		column += block.Dim(0)
	}
}

// loads returns the library text that reads x and the weight, and a name for it. 16-byte loads need rows that divide
// into them.
func loads(block gpu.Tensor) (name, text string) {
	name, text = block.DType.String(), libWeight[block.DType]
	if block.Dim(1)*block.DType.Size()%16 == 0 {
		return name + ".wide", text + libLoadWide
	}
	return name + ".narrow", text + libLoadNarrow
}

// prelude joins constants, given as name and value in turn, and library text. enable directives come first, as WGSL
// demands.
func prelude(subgroups bool, consts []any, texts ...string) string {
	var b strings.Builder
	if subgroups {
		b.WriteString("enable subgroups;\n")
	}
	for i := 0; i < len(consts); i += 2 {
		fmt.Fprintf(&b, "const %s = %du;\n", consts[i], consts[i+1])
	}
	for _, text := range texts {
		b.WriteString(text)
	}
	return b.String()
}

// refLinear is the reference of matvec and matmul.
func refLinear(c *gpu.Call) {
	n, k, rows, stride, column, hasBias := c.U(0), c.U(1), c.U(2), c.U(3), c.U(4), c.U(5) == 1
	out, x := c.F32(0), widen64(c.F32(1)[:rows*k])
	weight := make([]float64, k)
	for i := range n {
		weightRow(c, 2, i, weight)
		for row := range rows {
			sum := 0.0
			in := x[row*k : (row+1)*k]
			for j, w := range weight {
				sum += in[j] * w
			}
			if hasBias {
				sum += float64(c.F32(3)[column+i])
			}
			out[row*stride+column+i] = float32(sum)
		}
	}
}

func widen64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
