package shaders

import (
	"fmt"
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// attentionCase is one shape of attention.
type attentionCase struct {
	class        string
	t, h, kv, dh int
	position     int
	window       int
	extra        int // not causal when set
	sinks        bool
	dtype        gpu.DType
	maxKeys      int // 0: exactly what the last row sees
}

func (c attentionCase) seen() int {
	if c.extra > 0 {
		return c.position + c.extra
	}
	return c.position + c.t
}

// attentionInputs are the tensors of a case. The cache is longer than what is seen; the rest holds NaN.
type attentionInputs struct {
	c                          attentionCase
	q, cacheK, cacheV, scratch gpu.Tensor
	out, state                 gpu.Tensor
	cfg                        AttentionConfig
}

func newAttentionInputs(h *gputest.Harness, c attentionCase) attentionInputs {
	const stale = 40
	width := c.kv * c.dh
	positions := c.seen() + stale
	cache := func(label string) gpu.Tensor {
		rows := h.Normal(positions*width, 1)
		for i := c.seen() * width; i < len(rows); i++ {
			rows[i] = float32(math.NaN())
		}
		return h.In(label, c.dtype, rows, positions, c.kv, c.dh)
	}
	in := attentionInputs{
		c:      c,
		q:      h.In("q", gpu.F32, h.Normal(c.t*c.h*c.dh, 1), c.t, c.h, c.dh),
		cacheK: cache("cacheK"), cacheV: cache("cacheV"),
		state: positionState(h, c.position),
	}
	in.cfg = AttentionConfig{Scale: float32(1 / math.Sqrt(float64(c.dh))), Causal: c.extra == 0, VisibleExtra: c.extra, Window: c.window, MaxKeys: c.maxKeys}
	if in.cfg.MaxKeys == 0 {
		in.cfg.MaxKeys = c.seen()
	}
	if c.sinks {
		sinks := h.In("sinks", gpu.F32, h.Normal(c.h, 1), c.h)
		in.cfg.Sinks = &sinks
	}
	in.out = h.Out("out", gpu.F32, c.t, c.h, c.dh)
	in.scratch = h.Out("scratch", gpu.F32, AttentionScratch(c.t, c.h, c.dh, in.cfg.MaxKeys))
	return in
}

func (in attentionInputs) record(r *gpu.Recorder) {
	Attention(r, in.out, in.q, in.cacheK, in.cacheV, in.scratch, in.state, in.cfg)
}

func TestAttention(t *testing.T) {
	for _, c := range []attentionCase{
		{class: "one_row", t: 1, h: 4, kv: 4, dh: 64, position: 0},
		{class: "one_row", t: 1, h: 4, kv: 2, dh: 64, position: 1},
		{class: "one_row", t: 1, h: 4, kv: 4, dh: 64, position: 255, dtype: gpu.F16},
		{class: "one_row", t: 1, h: 4, kv: 1, dh: 64, position: 256},
		{class: "one_row", t: 1, h: 8, kv: 1, dh: 64, position: 257, dtype: gpu.F16},
		{class: "one_row", t: 1, h: 4, kv: 4, dh: 64, position: 511, maxKeys: 5000},
		{class: "one_row", t: 1, h: 4, kv: 4, dh: 64, position: 700, sinks: true, dtype: gpu.F16},
		{class: "few_rows", t: 2, h: 4, kv: 2, dh: 64, position: 255},
		{class: "few_rows", t: 3, h: 8, kv: 1, dh: 64, position: 254, dtype: gpu.F16},
		{class: "few_rows", t: 4, h: 4, kv: 1, dh: 64, position: 0, sinks: true},
		{class: "few_rows", t: 7, h: 4, kv: 4, dh: 64, position: 511},
		{class: "few_rows", t: 8, h: 4, kv: 2, dh: 64, position: 250, dtype: gpu.F16},
		{class: "few_rows", t: 8, h: 3, kv: 3, dh: 64, position: 700, maxKeys: 1024},
		{class: "window_16", t: 1, h: 4, kv: 2, dh: 64, position: 260, window: 16},
		{class: "window_16", t: 8, h: 4, kv: 2, dh: 64, position: 252, window: 16, sinks: true},
		{class: "window_128", t: 1, h: 4, kv: 1, dh: 64, position: 300, window: 128, sinks: true, dtype: gpu.F16},
		{class: "window_128", t: 4, h: 4, kv: 1, dh: 64, position: 700, window: 128},
		{class: "window_longer_than_keys", t: 2, h: 4, kv: 4, dh: 64, position: 20, window: 128},
		{class: "window_1", t: 1, h: 4, kv: 4, dh: 64, position: 300, window: 1},
		{class: "not_causal", t: 7, h: 4, kv: 2, dh: 64, position: 0, extra: 7},
		{class: "not_causal", t: 7, h: 4, kv: 2, dh: 64, position: 252, extra: 7, dtype: gpu.F16},
		{class: "not_causal", t: 7, h: 4, kv: 2, dh: 64, position: 511, extra: 7},
		{class: "not_causal", t: 20, h: 4, kv: 2, dh: 64, position: 30, extra: 20},
		{class: "narrow_head", t: 2, h: 2, kv: 1, dh: 16, position: 300},
		{class: "narrowest_head", t: 2, h: 8, kv: 4, dh: 8, position: 140},
		{class: "ragged_head", t: 2, h: 2, kv: 1, dh: 20, position: 270, dtype: gpu.F16},
		{class: "ragged_head", t: 5, h: 4, kv: 2, dh: 80, position: 270},
		{class: "wide_head", t: 4, h: 4, kv: 1, dh: 128, position: 300, dtype: gpu.F16},
		{class: "widest_head", t: 8, h: 2, kv: 1, dh: 256, position: 300},
		{class: "many_rows", t: 9, h: 4, kv: 2, dh: 64, position: 0},
		{class: "many_rows", t: 31, h: 4, kv: 4, dh: 64, position: 250},
		{class: "many_rows", t: 64, h: 4, kv: 1, dh: 64, position: 1, dtype: gpu.F16},
		{class: "many_rows", t: 150, h: 4, kv: 4, dh: 64, position: 0, sinks: true},
		{class: "many_rows", t: 65, h: 8, kv: 1, dh: 64, position: 511, dtype: gpu.F16},
		{class: "many_rows_many_heads", t: 130, h: 44, kv: 4, dh: 8, position: 3},
		{class: "many_rows_many_heads", t: 70, h: 64, kv: 8, dh: 16, position: 200, dtype: gpu.F16},
		{class: "many_rows_window", t: 150, h: 2, kv: 1, dh: 64, position: 200, window: 16, sinks: true},
		{class: "many_rows_window", t: 66, h: 2, kv: 2, dh: 64, position: 257, window: 128},
		{class: "many_rows_ragged", t: 33, h: 2, kv: 1, dh: 20, position: 10, dtype: gpu.F16},
		{class: "many_rows_ragged", t: 33, h: 2, kv: 1, dh: 80, position: 10},
		{class: "many_rows_widest", t: 17, h: 2, kv: 1, dh: 256, position: 20, dtype: gpu.F16},
	} {
		name := fmt.Sprintf("%s_%dx%dx%d_kv%d_at%d_%v", c.class, c.t, c.h, c.dh, c.kv, c.position, c.dtype)
		t.Run(name, func(t *testing.T) {
			gputest.Same(t, 5e-6, func(h *gputest.Harness) []gpu.Tensor {
				in := newAttentionInputs(h, c)
				h.Run(in.record)
				return []gpu.Tensor{in.out}
			})
		})
	}
}
