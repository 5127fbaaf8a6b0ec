package shaders

import (
	"fmt"
	"path"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestMatVec(t *testing.T) {
	for _, dtype := range linearDTypes {
		for _, c := range []struct{ rows, n, k int }{
			{1, 64, 256},  // one pass of every lane
			{1, 20, 1024}, // several passes
			{2, 33, 40},   // fewer loads than lanes, ragged outputs
			{3, 3, 50},    // rows that do not divide into wide loads; a build with a masked row
			{4, 1, 2},     // one output, one word
			{5, 17, 1026}, // many lanes, ragged K
			{7, 130, 64},  // several workgroups
			{8, 40, 3000}, // the widest build, uneven passes
		} {
			testLinear(t, MatVec, dtype, c.rows, c.n, c.k)
		}
	}
	testLinear(t, MatVec, gpu.F32, 2, 5, 97)
	testLinear(t, MatVec, gpu.F32, 1, 1, 1)
}

// The bit rule: greedy decoding with and without a draft must see the same bits.
func TestMatVecRowIsTheSameAloneAndAmongOthers(t *testing.T) {
	for _, dtype := range linearDTypes {
		for _, c := range []struct{ n, k int }{{130, 264}, {3, 50}, {37, 1026}, {24, 2048}} {
			t.Run(fmt.Sprintf("%v_%dx%d", dtype, c.n, c.k), func(t *testing.T) {
				results := map[string][]float32{}
				gputest.Run(t, func(t *testing.T, d *gpu.Device) {
					results[path.Base(t.Name())] = rowBits(t, d, MatVec, dtype, c.n, c.k, []int{2, 3, 4, 8})
				})
				// Shuffles and workgroup memory add the same pairs.
				if a, b := results["subgroups"], results["shared"]; a != nil && b != nil {
					equalBits(t, "subgroups and shared memory", a, b)
				}
			})
		}
	}
}

func TestMatVecBuild(t *testing.T) {
	for tokens, want := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8} {
		if got := matVecBuild(tokens); got != want {
			t.Errorf("%d rows: build of %d, want %d", tokens, got, want)
		}
	}
}
