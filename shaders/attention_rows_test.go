package shaders

import (
	"fmt"
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// With queries of 0 every visible key has the same weight, and with one-hot values the output counts them.
func TestAttentionSeesExactlyItsKeys(t *testing.T) {
	const dh = 64
	for _, c := range []attentionCase{
		{class: "causal", t: 1, position: 0},
		{class: "causal", t: 4, position: 254},
		{class: "causal", t: 20, position: 300},
		{class: "window_16", t: 1, position: 300, window: 16},
		{class: "window_16", t: 8, position: 250, window: 16},
		{class: "window_16", t: 40, position: 3, window: 16},
		{class: "window_128", t: 1, position: 300, window: 128},
		{class: "window_128", t: 8, position: 378, window: 128},
		{class: "window_128", t: 9, position: 378, window: 128},
		{class: "not_causal", t: 7, position: 252, extra: 7},
		{class: "not_causal", t: 9, position: 60, extra: 9},
		{class: "sink", t: 1, position: 1, sinks: true},
		{class: "sink", t: 2, position: 300, sinks: true},
		{class: "sink", t: 9, position: 0, sinks: true},
	} {
		t.Run(fmt.Sprintf("%s_%d_at%d", c.class, c.t, c.position), func(t *testing.T) {
			gputest.Run(t, func(t *testing.T, d *gpu.Device) {
				h := gputest.New(t, d, t.Name())
				positions := c.seen() + 20
				oneHot := make([]float32, positions*dh)
				for key := range positions {
					oneHot[key*dh+key%dh] = 1
				}
				cacheK := h.In("cacheK", gpu.F32, h.Normal(positions*dh, 1), positions, 1, dh)
				cacheV := h.In("cacheV", gpu.F32, oneHot, positions, 1, dh)
				q := h.In("q", gpu.F32, make([]float32, c.t*2*dh), c.t, 2, dh)
				out := h.Out("out", gpu.F32, c.t, 2, dh)
				scratch := h.Out("scratch", gpu.F32, AttentionScratch(c.t, 2, dh, c.seen()))
				cfg := AttentionConfig{Scale: 1, Causal: c.extra == 0, VisibleExtra: c.extra, Window: c.window, MaxKeys: c.seen()}
				if c.sinks {
					sinks := h.In("sinks", gpu.F32, []float32{0, float32(math.Log(3))}, 2) // as much as 1 and 3 keys
					cfg.Sinks = &sinks
				}
				state := positionState(h, c.position)
				h.Run(func(r *gpu.Recorder) { Attention(r, out, q, cacheK, cacheV, scratch, state, cfg) })
				got := h.Floats(out)
				for row := range c.t {
					end := c.position + row + 1
					if c.extra > 0 {
						end = c.position + c.extra
					}
					first := 0
					if c.window > 0 {
						first = max(0, end-c.window)
					}
					for head, sink := range []int{1, 3} {
						total := float32(end - first)
						if c.sinks {
							total += float32(sink)
						}
						want := make([]float32, dh)
						for key := first; key < end; key++ {
							want[key%dh] += 1 / total
						}
						at := (row*2 + head) * dh
						gputest.AllClose(t, fmt.Sprintf("row %d, head %d", row, head), got[at:at+dh], want, 3e-6)
					}
				}
			})
		})
	}
}

// attentionRows holds the inputs of eight decoding rows, for the bit rule.
type attentionRows struct {
	c              attentionCase
	q              []float32
	cacheK, cacheV []float32
	sinks          []float32
}

// run computes rows first to first+count-1 and returns their output. The cache holds NaN from key `valid` on.
func (a attentionRows) run(t *testing.T, d *gpu.Device, first, count, maxKeys, valid int) []float32 {
	c := a.c
	h := gputest.New(t, d, "")
	width, row := c.kv*c.dh, c.h*c.dh
	cache := func(label string, rows []float32) gpu.Tensor {
		poisoned := append([]float32(nil), rows...)
		for i := valid * width; i < len(poisoned); i++ {
			poisoned[i] = float32(math.NaN())
		}
		return h.In(label, c.dtype, poisoned, len(rows)/width, c.kv, c.dh)
	}
	position := c.position
	if c.extra == 0 {
		position += first
	}
	q := h.In("q", gpu.F32, a.q[first*row:(first+count)*row], count, c.h, c.dh)
	cacheK, cacheV := cache("cacheK", a.cacheK), cache("cacheV", a.cacheV)
	sinks := h.In("sinks", gpu.F32, a.sinks, c.h)
	out := h.Out("out", gpu.F32, count, c.h, c.dh)
	scratch := h.Out("scratch", gpu.F32, AttentionScratch(count, c.h, c.dh, maxKeys))
	state := positionState(h, position)
	cfg := AttentionConfig{Scale: 0.125, Causal: c.extra == 0, VisibleExtra: c.extra, Window: c.window, Sinks: &sinks, MaxKeys: maxKeys}
	h.Run(func(r *gpu.Recorder) { Attention(r, out, q, cacheK, cacheV, scratch, state, cfg) })
	return h.Floats(out)
}

func sameBits(t *testing.T, label string, got, want []float32) {
	t.Helper()
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want the bits of %v", label, i, got[i], want[i])
		}
	}
}

func TestAttentionRowsKeepTheirBits(t *testing.T) {
	for _, c := range []attentionCase{
		{h: 4, kv: 4, position: 0},
		{h: 4, kv: 4, position: 1, dtype: gpu.F16},
		{h: 4, kv: 2, position: 249},
		{h: 4, kv: 1, position: 255, dtype: gpu.F16},
		{h: 8, kv: 1, position: 256},
		{h: 4, kv: 4, position: 700},
		{h: 4, kv: 1, position: 250, window: 16},
		{h: 4, kv: 4, position: 380, window: 128, dtype: gpu.F16},
		{h: 4, kv: 2, position: 252, extra: 7},
	} {
		c.t, c.dh = 8, 64
		if c.extra > 0 {
			c.t = c.extra
		}
		t.Run(fmt.Sprintf("%dx%d_at%d_window%d_extra%d_%v", c.h, c.kv, c.position, c.window, c.extra, c.dtype), func(t *testing.T) {
			gputest.Run(t, func(t *testing.T, d *gpu.Device) {
				h := gputest.New(t, d, "rows")
				keys := c.seen() + 30
				a := attentionRows{c: c, q: h.Normal(c.t*c.h*c.dh, 1), cacheK: h.Normal(keys*c.kv*c.dh, 1), cacheV: h.Normal(keys*c.kv*c.dh, 1), sinks: h.Normal(c.h, 1)}
				want := a.run(t, d, 0, c.t, 3000, c.seen())
				row := c.h * c.dh
				for _, count := range []int{1, 2, 4} {
					for first := 0; first+count <= c.t; first += count {
						end := c.seen()
						if c.extra == 0 {
							end = c.position + first + count
						}
						got := a.run(t, d, first, count, end, end)
						sameBits(t, fmt.Sprintf("rows %d to %d of %d alone", first, first+count-1, c.t), got, want[first*row:(first+count)*row])
					}
				}
				if c.extra == 0 {
					got := a.run(t, d, 0, c.t, 3000, c.position+4)
					sameBits(t, "rows before one with NaN in its key and value", got[:4*row], want[:4*row])
				}
			})
		})
	}
}

func TestAttentionOfManyRowsRepeatsItsBits(t *testing.T) {
	c := attentionCase{t: 70, h: 4, kv: 4, dh: 64, position: 100}
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		run := func(maxKeys int) []float32 {
			h := gputest.New(t, d, "many")
			in := newAttentionInputs(h, c)
			in.cfg.MaxKeys = maxKeys
			h.Run(in.record)
			return h.Floats(in.out)
		}
		want := run(c.seen())
		sameBits(t, "again", run(c.seen()), want)
		sameBits(t, "with a larger bound", run(1000), want)
	})
}

func TestAttentionSinkTakesItsShare(t *testing.T) {
	const dh = 64
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, "sink")
		unit := func(rows, row, column int, value float32) []float32 {
			v := make([]float32, rows*dh)
			v[row*dh+column] = value
			return v
		}
		keys, values := unit(2, 0, 0, 1), unit(2, 0, 0, 1)
		keys[dh], values[dh+1] = 2, 1
		q := h.In("q", gpu.F32, unit(1, 0, 0, 1), 1, 1, dh)
		cacheK, cacheV := h.In("cacheK", gpu.F32, keys, 2, 1, dh), h.In("cacheV", gpu.F32, values, 2, 1, dh)
		sinks := h.In("sinks", gpu.F32, []float32{0.5}, 1)
		out, scratch := h.Out("out", gpu.F32, 1, 1, dh), h.Out("scratch", gpu.F32, AttentionScratch(1, 1, dh, 2))
		state := positionState(h, 1)
		h.Run(func(r *gpu.Recorder) {
			Attention(r, out, q, cacheK, cacheV, scratch, state, AttentionConfig{Scale: 1, Causal: true, Sinks: &sinks, MaxKeys: 2})
		})
		// e^1 and e^2 over e^0.5 + e^1 + e^2.
		gputest.AllClose(t, "out", h.Floats(out)[:3], []float32{0.2312239, 0.62853172, 0}, 1e-6)
	})
}

func TestAttentionRefuses(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	tensor := func(dtype gpu.DType, shape ...int) gpu.Tensor { return h.Out("t", dtype, shape...) }
	causal := AttentionConfig{Scale: 1, Causal: true, MaxKeys: 8}
	with := func(change func(*AttentionConfig)) AttentionConfig {
		cfg := causal
		change(&cfg)
		return cfg
	}
	wrongSinks := tensor(gpu.F32, 3)
	for name, c := range map[string]struct {
		heads, kv, dh int
		dtype         gpu.DType
		scratch       int
		cfg           AttentionConfig
	}{
		"heads that do not divide":       {3, 2, 64, gpu.F32, 4096, causal},
		"a head dimension of 4":          {2, 2, 4, gpu.F32, 4096, causal},
		"a head dimension of 18":         {2, 2, 18, gpu.F32, 4096, causal},
		"a head dimension of 260":        {2, 2, 260, gpu.F32, 4096, causal},
		"a bfloat16 cache":               {2, 2, 64, gpu.BF16, 4096, causal},
		"no keys":                        {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.MaxKeys = 0 })},
		"a negative window":              {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.Window = -1 })},
		"causal with extra keys":         {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.VisibleExtra = 7 })},
		"not causal without keys":        {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.Causal = false })},
		"not causal with a window":       {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.Causal, c.VisibleExtra, c.Window = false, 7, 16 })},
		"sinks of another number":        {2, 2, 64, gpu.F32, 4096, with(func(c *AttentionConfig) { c.Sinks = &wrongSinks })},
		"scratch too small for 2 chunks": {2, 2, 64, gpu.F32, 271, with(func(c *AttentionConfig) { c.MaxKeys = 300 })},
	} {
		r := h.Device.NewRecorder("attention")
		const positions = 300
		q, out := tensor(gpu.F32, 1, c.heads, c.dh), tensor(gpu.F32, 1, c.heads, c.dh)
		cacheK, cacheV := tensor(c.dtype, positions, c.kv, c.dh), tensor(c.dtype, positions, c.kv, c.dh)
		Attention(r, out, q, cacheK, cacheV, tensor(gpu.F32, c.scratch), positionState(h, 0), c.cfg)
		if r.Err() == nil {
			t.Errorf("%s: recorded without an error", name)
		}
	}
	if got := AttentionScratch(1, 2, 64, 300); got != 272 {
		t.Errorf("scratch for 2 heads of 64 and 2 chunks is %d words, want 272", got)
	}
}
