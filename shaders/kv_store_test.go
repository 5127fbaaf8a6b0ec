package shaders

import (
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestKVStore(t *testing.T) {
	for _, c := range []struct {
		class                          string
		t, kv, dh, position, positions int
		dtype                          gpu.DType
	}{
		{"one_row", 1, 2, 16, 3, 8, gpu.F32},
		{"one_row", 1, 2, 16, 3, 8, gpu.F16},
		{"many_rows", 70, 2, 64, 10, 96, gpu.F32},
		{"many_rows", 70, 2, 64, 10, 96, gpu.F16},
		{"odd_pairs", 3, 5, 18, 0, 8, gpu.F16},
		{"past_the_cache", 4, 2, 16, 6, 8, gpu.F32},
		{"past_the_cache", 4, 2, 16, 6, 8, gpu.F16},
		{"all_past_the_cache", 2, 2, 16, 9, 8, gpu.F16},
		{"position_that_wraps", 4, 1, 16, math.MaxUint32 - 1, 8, gpu.F32},
	} {
		t.Run(c.class+"_"+c.dtype.String(), func(t *testing.T) {
			// Both sides round to the nearest half, ties to even: not a bit may differ.
			gputest.Same(t, 0, func(h *gputest.Harness) []gpu.Tensor {
				n := c.t * c.kv * c.dh
				cacheK := h.InOut("cacheK", c.dtype, h.Normal(c.positions*c.kv*c.dh, 1), c.positions, c.kv, c.dh)
				cacheV := h.InOut("cacheV", c.dtype, h.Normal(c.positions*c.kv*c.dh, 1), c.positions, c.kv, c.dh)
				k := h.In("k", gpu.F32, h.Normal(n, 1), c.t, c.kv, c.dh)
				v := h.In("v", gpu.F32, h.Normal(n, 1e-6), c.t, c.kv, c.dh)
				state := positionState(h, c.position)
				h.Run(func(r *gpu.Recorder) { KVStore(r, cacheK, cacheV, k, v, state) })
				return []gpu.Tensor{cacheK, cacheV}
			})
		})
	}
}

func TestKVStoreRoundsAndClampsHalves(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "halves")
		in := []float32{1, -2.5, 1 + 1.0/2048, 1 + 3.0/2048, 1e6, -1e6, 65504, 6e-8}
		want := []float32{1, -2.5, 1, 1 + 2.0/1024, 65504, -65504, 65504, 5.9604645e-08}
		cacheK := h.Out("cacheK", gpu.F16, 1, 1, len(in))
		cacheV := h.Out("cacheV", gpu.F16, 1, 1, len(in))
		x := h.In("x", gpu.F32, in, 1, 1, len(in))
		state := positionState(h, 0)
		h.Run(func(r *gpu.Recorder) { KVStore(r, cacheK, cacheV, x, x, state) })
		for name, cache := range map[string]gpu.Tensor{"cacheK": cacheK, "cacheV": cacheV} {
			for i, got := range h.Floats(cache) {
				if got != want[i] {
					t.Errorf("%s: %v is stored as %v, want %v", name, in[i], got, want[i])
				}
			}
		}
	})
}

func TestKVStoreRefusesWrongShapes(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	cache := func(dtype gpu.DType, shape ...int) gpu.Tensor { return h.Out("cache", dtype, shape...) }
	row := h.In("row", gpu.F32, make([]float32, 16), 1, 1, 16)
	odd := h.In("odd", gpu.F32, make([]float32, 15), 1, 1, 15)
	for name, c := range map[string]struct{ cacheK, cacheV, k gpu.Tensor }{
		"caches of two types":    {cache(gpu.F32, 4, 1, 16), cache(gpu.F16, 4, 1, 16), row},
		"caches of two lengths":  {cache(gpu.F32, 4, 1, 16), cache(gpu.F32, 5, 1, 16), row},
		"another head dimension": {cache(gpu.F32, 4, 1, 32), cache(gpu.F32, 4, 1, 32), row},
		"an odd head dimension":  {cache(gpu.F16, 4, 1, 15), cache(gpu.F16, 4, 1, 15), odd},
		"a bfloat16 cache":       {cache(gpu.BF16, 4, 1, 16), cache(gpu.BF16, 4, 1, 16), row},
		"one buffer as two caches": func() struct{ cacheK, cacheV, k gpu.Tensor } {
			one := cache(gpu.F32, 4, 1, 16)
			return struct{ cacheK, cacheV, k gpu.Tensor }{one, one, row}
		}(),
	} {
		r := h.Device.NewRecorder("kv_store")
		KVStore(r, c.cacheK, c.cacheV, c.k, c.k, positionState(h, 0))
		if r.Err() == nil {
			t.Errorf("%s: recorded without an error", name)
		}
	}
}
