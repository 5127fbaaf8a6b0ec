package model

import (
	"fmt"

	"flint/gpu"
	"flint/shaders"
)

// KVCache holds the keys and values of every layer by absolute position. Truncation needs no work here: rows past the
// decode position are stale, never read, and overwritten by whoever comes next.
type KVCache struct {
	K, V []gpu.Tensor // per layer [P, KV, Dh]; P is the context and shaders.TokenSlack rows more
}

// NewKVCache allocates a cache for context positions as F32 or packed F16.
func NewKVCache(d *gpu.Device, c *Config, context int, dtype gpu.DType) (*KVCache, error) {
	if dtype != gpu.F32 && dtype != gpu.F16 {
		return nil, fmt.Errorf("a key/value cache is f32 or f16, not %v", dtype)
	}
	cache := &KVCache{}
	for i := range c.NumHiddenLayers {
		for _, part := range []struct {
			label string
			list  *[]gpu.Tensor
		}{{"cache.k", &cache.K}, {"cache.v", &cache.V}} {
			t, err := d.NewTensor(layerName(i, part.label), dtype, context+shaders.TokenSlack, c.NumKeyValueHeads, c.HeadDim)
			if err != nil {
				cache.Release()
				return nil, fmt.Errorf("a context of %d tokens needs %d bytes of keys and values: choose a shorter context: %w",
					context, c.KVBytes(context, dtype == gpu.F16), err)
			}
			*part.list = append(*part.list, t)
		}
	}
	return cache, nil
}

// Release frees the cache.
func (c *KVCache) Release() {
	for _, t := range append(c.K, c.V...) {
		t.Buffer.Destroy()
	}
}
