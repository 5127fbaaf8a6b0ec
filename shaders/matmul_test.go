package shaders

import (
	"fmt"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestMatMul(t *testing.T) {
	for _, dtype := range linearDTypes {
		for _, c := range []struct{ rows, n, k int }{
			{1, 32, 32},  // one row of a tile
			{32, 32, 64}, // one small tile, two steps
			{9, 33, 40},  // ragged in every dimension
			{70, 3, 50},  // rows that do not divide into wide loads
			{33, 65, 2},  // one word
		} {
			testLinear(t, MatMul, dtype, c.rows, c.n, c.k)
		}
	}
	testLinear(t, MatMul, gpu.F32, 12, 5, 97)
}

// Both tiles, whatever MatMul would choose for so small a matrix: every edge is ragged, K takes several steps.
func TestMatMulTiles(t *testing.T) {
	for _, tile := range []matMulTile{matMulLarge, matMulSmall} {
		for _, dtype := range linearDTypes {
			for _, k := range []int{88, 50} {
				t.Run(fmt.Sprintf("%dx%d_%v_%d", tile.rows, tile.outputs, dtype, k), func(t *testing.T) {
					const rows, n = 70, 69
					gputest.Same(t, linearTolerance, func(h *gputest.Harness) []gpu.Tensor {
						x := h.In("x", gpu.F32, h.Normal(rows*k, 1), rows, k)
						w := NewWeight(h.In("weight", dtype, h.Normal(n*k, 1), n, k))
						out := h.Out("out", gpu.F32, rows, n)
						h.Run(func(r *gpu.Recorder) {
							dispatchLinear(r, matMul, out, x, w, nil, func(block gpu.Tensor) (gpu.Variant, gpu.Grid) {
								return matMulVariant(block, tile, rows)
							})
						})
						return []gpu.Tensor{out}
					})
				})
			}
		}
	}
}

// The tile is chosen to keep a large GPU busy.
func TestMatMulTileFor(t *testing.T) {
	for _, c := range []struct {
		t, n int
		want matMulTile
	}{{9, 256, matMulSmall}, {64, 2048, matMulSmall}, {512, 2048, matMulLarge}, {64, 16384, matMulLarge}, {2048, 2048, matMulLarge}} {
		if got := matMulTileFor(c.t, c.n); got != c.want {
			t.Errorf("%d rows of %d outputs: %v, want %v", c.t, c.n, got, c.want)
		}
	}
}

// A row depends on nothing but itself: not on the tile, not on the other rows.
func TestMatMulRowIsTheSameAloneAndAmongOthers(t *testing.T) {
	for _, dtype := range linearDTypes {
		for _, c := range []struct{ n, k int }{{40, 96}, {5, 50}} {
			t.Run(fmt.Sprintf("%v_%dx%d", dtype, c.n, c.k), func(t *testing.T) {
				gputest.Run(t, func(t *testing.T, d *gpu.Device) {
					rowBits(t, d, MatMul, dtype, c.n, c.k, []int{9, 12})
				})
			})
		}
	}
}

func TestMatMulTilesGiveTheSameBits(t *testing.T) {
	const rows, n, k = 70, 70, 88
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "tiles")
		x := h.In("x", gpu.F32, h.Normal(rows*k, 1), rows, k)
		w := NewWeight(h.In("weight", gpu.BF16, h.Normal(n*k, 1), n, k))
		large, small := h.Out("large", gpu.F32, rows, n), h.Out("small", gpu.F32, rows, n)
		h.Run(func(r *gpu.Recorder) {
			for _, c := range []struct {
				out  gpu.Tensor
				tile matMulTile
			}{{large, matMulLarge}, {small, matMulSmall}} {
				dispatchLinear(r, matMul, c.out, x, w, nil, func(block gpu.Tensor) (gpu.Variant, gpu.Grid) {
					return matMulVariant(block, c.tile, rows)
				})
			}
		})
		equalBits(t, "large and small tiles", h.Floats(large), h.Floats(small))
	})
}
