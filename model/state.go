package model

import (
	"encoding/binary"
	"math"

	"flint/gpu"
	"flint/shaders"
)

// state is everything a sequence's steps work in, allocated once for the widest step. Each tensor owns its buffer.
type state struct {
	x, last, normed         gpu.Tensor // [T, D]
	q, qNormed, attended    gpu.Tensor // [T, H, Dh]
	k, kNormed, v           gpu.Tensor // [T, KV, Dh]
	branch                  gpu.Tensor // [T, D]
	gate, up, activated     gpu.Tensor // [T, F]
	logits                  gpu.Tensor // [rows, V]
	scratch                 gpu.Tensor // attention partials
	samplingScratch, choice gpu.Tensor
	rope                    gpu.Tensor // [P, Dh/2, 2]
	tokens                  gpu.Tensor // [P] u32
	decode, config, stops   gpu.Tensor // decode state, sampling settings, stop ids
	report                  gpu.Tensor
	taps                    map[int]gpu.Tensor // layer -> [T, D]
	cache                   *KVCache
	buffers                 []*gpu.Buffer
}

// step is the view of a state that one recording works on.
type step struct {
	state
	maxKeys int // upper bound of the keys any row sees
}

// newState allocates for steps of up to rows rows, of which at most logitRows get logits.
func newState(d *gpu.Device, c *Config, opt Options) (s *state, err error) {
	s = &state{taps: map[int]gpu.Tensor{}}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	tensor := func(label string, dtype gpu.DType, shape ...int) gpu.Tensor {
		if err != nil {
			return gpu.Tensor{}
		}
		var t gpu.Tensor
		if t, err = d.NewTensor(label, dtype, shape...); err == nil {
			s.buffers = append(s.buffers, t.Buffer)
		}
		return t
	}
	uniform := func(label string, words int) gpu.Tensor {
		if err != nil {
			return gpu.Tensor{}
		}
		var b *gpu.Buffer
		if b, err = d.NewUniformBuffer(label, int64(4*words)); err == nil {
			s.buffers = append(s.buffers, b)
		}
		return gpu.Tensor{Buffer: b, Shape: []int{words}, DType: gpu.U32}
	}
	rows, positions := opt.PrefillChunk, opt.Context+shaders.TokenSlack
	h, kv, dh := c.NumAttentionHeads, c.NumKeyValueHeads, c.HeadDim
	s.x = tensor("x", gpu.F32, rows, c.HiddenSize)
	s.last = tensor("last", gpu.F32, opt.LogitRows, c.HiddenSize)
	s.normed = tensor("normed", gpu.F32, rows, c.HiddenSize)
	s.q = tensor("q", gpu.F32, rows, h, dh)
	s.k = tensor("k", gpu.F32, rows, kv, dh)
	s.v = tensor("v", gpu.F32, rows, kv, dh)
	if c.QKNorm {
		s.qNormed = tensor("q_normed", gpu.F32, rows, h, dh)
		s.kNormed = tensor("k_normed", gpu.F32, rows, kv, dh)
	}
	s.attended = tensor("attended", gpu.F32, rows, h, dh)
	s.branch = tensor("branch", gpu.F32, rows, c.HiddenSize)
	s.gate = tensor("gate", gpu.F32, rows, c.IntermediateSize)
	s.up = tensor("up", gpu.F32, rows, c.IntermediateSize)
	s.activated = tensor("activated", gpu.F32, rows, c.IntermediateSize)
	s.logits = tensor("logits", gpu.F32, opt.LogitRows, c.VocabSize)
	s.scratch = tensor("attention_scratch", gpu.F32, max(shaders.AttentionScratch(rows, h, dh, positions), 1))
	s.samplingScratch = tensor("sampling_scratch", gpu.F32, max(shaders.SampleScratch(1, c.VocabSize), 1))
	s.choice = tensor("choice", gpu.U32, 1)
	s.tokens = tensor("tokens", gpu.U32, positions)
	s.report = tensor("report", gpu.U32, shaders.ReportWords)
	s.stops = tensor("stops", gpu.U32, shaders.MaxStops+1)
	s.decode = uniform("state", shaders.StateWords)
	s.config = uniform("sampling", shaders.SettingsWords)
	s.rope = tensor("rope", gpu.F32, positions, dh/2, 2)
	for _, layer := range opt.Taps {
		s.taps[layer] = tensor(layerName(layer, "tap"), gpu.F32, rows, c.HiddenSize)
	}
	if err != nil {
		return s, err
	}
	table, err := c.RopeTable(opt.Context)
	if err != nil {
		return s, err
	}
	if err = d.Write(s.rope.Buffer, 0, wordBytes(table.CosSin(positions))); err != nil {
		return s, err
	}
	s.cache, err = NewKVCache(d, c, opt.Context, opt.KV)
	return s, err
}

// rows views the state for a step of t rows that leaves logits for its last logitRows rows.
func (s *state) rows(t, logitRows, maxKeys int) *step {
	v := *s
	for _, x := range []*gpu.Tensor{&v.x, &v.normed, &v.q, &v.qNormed, &v.k, &v.kNormed, &v.v, &v.attended, &v.branch, &v.gate, &v.up, &v.activated} {
		if x.Buffer != nil {
			*x = x.Rows(0, t)
		}
	}
	v.taps = map[int]gpu.Tensor{}
	for layer, tap := range s.taps {
		v.taps[layer] = tap.Rows(0, t)
	}
	if logitRows == 0 {
		v.logits = gpu.Tensor{}
	} else {
		v.logits, v.last = s.logits.Rows(0, logitRows), s.last.Rows(0, logitRows)
	}
	return &step{state: v, maxKeys: maxKeys}
}

func (s *state) release() {
	for _, b := range s.buffers {
		b.Destroy()
	}
	if s.cache != nil {
		s.cache.Release()
	}
}

// wordBytes lays 32-bit values out as the GPU reads them.
func wordBytes[T uint32 | int32 | float32](values []T) []byte {
	out := make([]byte, 4*len(values))
	for i, v := range values {
		var w uint32
		switch v := any(v).(type) {
		case float32:
			w = math.Float32bits(v)
		case int32:
			w = uint32(v)
		case uint32:
			w = v
		}
		binary.LittleEndian.PutUint32(out[4*i:], w)
	}
	return out
}
