package shaders

import (
	_ "embed"

	"flint/gpu"
)

//go:embed lib_reduce_subgroup.wgsl
var libReduceSubgroup string

//go:embed lib_reduce_shared.wgsl
var libReduceShared string

//go:embed lib_fold.wgsl
var libFold string

// reduction chooses how lanes add up: SHUFFLE lanes by shuffles, or none. Either gives the same bits.
func reduction(f gpu.Features) (name string, subgroups bool, consts []any, text string) {
	// put_sums4 shuffles over at least 4 lanes, and 32 are the lanes of an output.
	if f.Subgroups && f.SubgroupSize >= 4 && f.SubgroupSize&(f.SubgroupSize-1) == 0 {
		return "subgroup", true, []any{"SHUFFLE", min(f.SubgroupSize, 32)}, libReduceSubgroup + libFold
	}
	return "shared", false, nil, libReduceShared + libFold
}
