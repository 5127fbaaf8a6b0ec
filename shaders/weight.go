package shaders

import "flint/gpu"

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
