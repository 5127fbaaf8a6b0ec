package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
)

var (
	//go:embed kv_store.wgsl
	kvStoreWGSL string
	//go:embed lib_kv_f32.wgsl
	libKVF32 string
	//go:embed lib_kv_f16.wgsl
	libKVF16 string
)

// kvTypes are the element types of a key/value cache.
var kvTypes = []gpu.DType{gpu.F32, gpu.F16}

var kvStore = &gpu.Kernel{
	Name: "kv_store",
	WGSL: kvStoreWGSL,
	Bindings: []gpu.Binding{
		{Name: "cacheK", Access: gpu.ReadWrite},
		{Name: "cacheV", Access: gpu.ReadWrite},
		{Name: "k", Access: gpu.Read},
		{Name: "v", Access: gpu.Read},
		{Name: "state", Access: gpu.Uniform},
	},
	Reference: refKVStore,
}

// libKV returns the snippet that packs and unpacks a cache's elements.
func libKV(dtype gpu.DType) string {
	if dtype == gpu.F16 {
		return libKVF16
	}
	return libKVF32
}

// KVStore writes row i of k and v to position state.position+i of the caches, rounding to their type. A position past
// the cache is dropped; values past the largest half are clamped to it.
//
//	cacheK, cacheV [P, KV, Dh] f32 or f16   k, v [T, KV, Dh] f32
func KVStore(r *gpu.Recorder, cacheK, cacheV, k, v, state gpu.Tensor) {
	t, kv, dh := k.Dim(0), k.Dim(1), k.Dim(2)
	if !r.Check("kv_store", "k", k, f32, -1, -1, -1) || !r.Check("kv_store", "v", v, f32, t, kv, dh) ||
		!r.Check("kv_store", "cacheK", cacheK, kvTypes, -1, kv, dh) ||
		!r.Check("kv_store", "cacheV", cacheV, []gpu.DType{cacheK.DType}, cacheK.Dim(0), kv, dh) ||
		!r.Check("kv_store", "state", state, u32, StateWords) {
		return
	}
	if dh%2 != 0 {
		r.Errorf("kv_store: an even head dimension", fmt.Sprintf("k is %v", k))
		return
	}
	const threads = 64
	grid := gpu.Grid{X: (kv*dh/2 + threads - 1) / threads, Y: t, Z: 1}
	variant := gpu.Variant{Name: cacheK.DType.String(), Prelude: libState + libKV(cacheK.DType)}
	r.Dispatch(kvStore, variant, grid, gpu.Params(kv*dh/2, cacheK.Dim(0)), cacheK, cacheV, k, v, state)
}

func refKVStore(c *gpu.Call) {
	width, positions := 2*c.U(0), c.U(1)
	for row := range c.Grid.Y {
		position := int(c.U32(4)[StatePosition]) + row
		if position >= positions {
			return
		}
		for i := range 2 {
			from := c.F32(2 + i)[row*width : (row+1)*width]
			if c.Tensors[i].DType == gpu.F32 {
				copy(c.F32(i)[position*width:], from)
				continue
			}
			to := c.U16(i)[position*width:]
			for j, v := range from {
				to[j] = gpu.ToF16(min(max(v, -65504), 65504))
			}
		}
	}
}
