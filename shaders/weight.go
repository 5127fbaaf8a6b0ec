package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
)

//go:embed lib_weight_f32.wgsl
var libWeightF32 string

//go:embed lib_weight_f16.wgsl
var libWeightF16 string

//go:embed lib_weight_bf16.wgsl
var libWeightBF16 string

// libWeight is the library text that widens words of a weight.
var libWeight = map[gpu.DType]string{gpu.F32: libWeightF32, gpu.F16: libWeightF16, gpu.BF16: libWeightBF16}

// Weight is a matrix [N, K] of a checkpoint, one row an output. A matrix larger than one binding is split by rows into
// blocks; the kernels run once a block.
type Weight struct {
	Blocks []gpu.Tensor
}

// NewWeight wraps a matrix that fits one binding.
func NewWeight(t gpu.Tensor) Weight { return Weight{Blocks: []gpu.Tensor{t}} }

// N is the number of rows (outputs).
func (w Weight) N() int {
	n := 0
	for _, b := range w.Blocks {
		n += b.Dim(0)
	}
	return n
}

// K is the length of a row (inputs).
func (w Weight) K() int {
	if len(w.Blocks) == 0 {
		return 0
	}
	return w.Blocks[0].Dim(1)
}

// checkWeight checks that w is a matrix in blocks of one type and width, whose rows start at whole words.
func checkWeight(r *gpu.Recorder, kernel string, w Weight) bool {
	if len(w.Blocks) == 0 {
		r.Errorf("a matrix", kernel+": a weight without blocks")
		return false
	}
	first := w.Blocks[0]
	for i, b := range w.Blocks {
		name := "weight"
		if i > 0 {
			name = fmt.Sprintf("weight block %d", i)
		}
		dtypes := float
		if i > 0 {
			dtypes = []gpu.DType{first.DType}
		}
		if !r.Check(kernel, name, b, dtypes, -1, max(first.Dim(1), 1)) {
			return false
		}
	}
	if first.DType.Size() == 2 && first.Dim(1)%2 != 0 {
		r.Errorf("rows of an even number of half-width elements, so that each starts at a whole word", fmt.Sprintf("%s: weight is %v", kernel, first))
		return false
	}
	return true
}

// weightRow widens row i of tensor t of a call, for references.
func weightRow(c *gpu.Call, t, i int, row []float64) {
	k := len(row)
	switch c.Tensors[t].DType {
	case gpu.F32:
		for j, v := range c.F32(t)[i*k : (i+1)*k] {
			row[j] = float64(v)
		}
	case gpu.F16:
		for j, v := range c.U16(t)[i*k : (i+1)*k] {
			row[j] = float64(gpu.FromF16(v))
		}
	case gpu.BF16:
		for j, v := range c.U16(t)[i*k : (i+1)*k] {
			row[j] = float64(gpu.FromBF16(v))
		}
	}
}
