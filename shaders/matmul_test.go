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

// Large matrices choose the large tile; its edges are ragged here.
func TestMatMulLargeTile(t *testing.T) {
	for _, dtype := range linearDTypes {
		testLinear(t, MatMul, dtype, 65, 8192-3, 40)
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
	large, small := matMulLarge, matMulSmall
	t.Cleanup(func() { matMulLarge, matMulSmall = large, small })
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "tiles")
		x := h.In("x", gpu.F32, h.Normal(rows*k, 1), rows, k)
		w := NewWeight(h.In("weight", gpu.BF16, h.Normal(n*k, 1), n, k))
		var want []float32
		for _, tile := range []matMulTile{large, small} {
			matMulSmall = tile // few tiles: MatMul takes the small one
			out := h.Out("out", gpu.F32, rows, n)
			h.Run(func(r *gpu.Recorder) { MatMul(r, out, x, w, nil) })
			if want == nil {
				want = h.Floats(out)
			} else {
				equalBits(t, "small and large tiles", h.Floats(out), want)
			}
		}
	})
}
