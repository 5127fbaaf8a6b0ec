package model

import (
	"math"

	"flint/gpu"
	"flint/shaders"
)

// record appends the forward pass of the step's rows: tokens at state.position onwards in, logits of the last rows
// out.
func (m *Transformer) record(r *gpu.Recorder, s *step) {
	shaders.Embed(r, s.x, s.tokens, s.decode, m.EmbedTokens, float32(m.Config.EmbedScale))
	for i := range m.Layers {
		m.Layers[i].record(r, m.Config, s, i)
		if tap, ok := s.taps[i]; ok {
			r.Copy(tap, s.x)
		}
	}
	if s.logits.Buffer != nil {
		m.recordHead(r, s)
	}
}

func (l *Layer) record(r *gpu.Recorder, c *Config, s *step, i int) {
	eps, scale := float32(c.RMSNormEps), float32(c.ResidualScale)
	r.Push(l.label)
	shaders.RMSNorm(r, s.normed, s.x, l.InputNorm, eps)
	l.Attn.record(r, c, s, i)
	shaders.Add(r, s.x, s.branch, scale)
	shaders.RMSNorm(r, s.normed, s.x, l.PostAttnNorm, eps)
	l.MLP.record(r, s)
	shaders.Add(r, s.x, s.branch, scale)
	r.Pop()
}

// record turns s.normed into s.branch and leaves the rows' keys and values in the layer's cache.
func (a *Attention) record(r *gpu.Recorder, c *Config, s *step, i int) {
	r.Push("self_attn")
	a.QProj.record(r, "q_proj", flat(s.q), s.normed)
	a.KProj.record(r, "k_proj", flat(s.k), s.normed)
	a.VProj.record(r, "v_proj", flat(s.v), s.normed)
	q, k := s.q, s.k
	if a.QNorm != nil {
		eps := float32(c.RMSNormEps)
		shaders.RMSNorm(r, heads(s.qNormed), heads(q), *a.QNorm, eps)
		shaders.RMSNorm(r, heads(s.kNormed), heads(k), *a.KNorm, eps)
		q, k = s.qNormed, s.kNormed
	}
	shaders.Rope(r, q, s.rope, s.decode)
	shaders.Rope(r, k, s.rope, s.decode)
	shaders.KVStore(r, s.cache.K[i], s.cache.V[i], k, s.v, s.decode)
	shaders.Attention(r, s.attended, q, s.cache.K[i], s.cache.V[i], s.scratch, s.decode, shaders.AttentionConfig{
		Scale: float32(1 / math.Sqrt(float64(c.HeadDim))), Causal: true, Window: a.window, MaxKeys: s.maxKeys,
	})
	a.OProj.record(r, "o_proj", s.branch, flat(s.attended))
	r.Pop()
}

// record turns s.normed into s.branch.
func (m *MLP) record(r *gpu.Recorder, s *step) {
	r.Push("mlp")
	m.GateProj.record(r, "gate_proj", s.gate, s.normed)
	m.UpProj.record(r, "up_proj", s.up, s.normed)
	shaders.SwiGLU(r, s.activated, s.gate, s.up)
	m.DownProj.record(r, "down_proj", s.branch, s.activated)
	r.Pop()
}

// recordHead turns the last rows of s.x into s.logits.
func (m *Transformer) recordHead(r *gpu.Recorder, s *step) {
	x := s.x
	if last := s.logits.Dim(0); last < x.Dim(0) { // a view of the last rows may lie at an offset no binding can have
		from := x
		from.Offset += int64(x.Dim(0)-last) * int64(x.Dim(1)) * 4
		from.Shape = s.last.Shape
		r.Copy(s.last, from)
		x = s.last
	}
	normed := s.normed.Rows(0, s.logits.Dim(0))
	shaders.RMSNorm(r, normed, x, m.Norm, float32(m.Config.RMSNormEps))
	if m.Config.LogitScale != 1 {
		shaders.Scale(r, normed, float32(m.Config.LogitScale))
	}
	Linear{Weight: m.LMHead}.record(r, "lm_head", s.logits, normed)
}

// flat views [T, H, Dh] as [T, H*Dh]; heads as [T*H, Dh].
func flat(t gpu.Tensor) gpu.Tensor  { return t.Reshape(t.Dim(0), t.Dim(1)*t.Dim(2)) }
func heads(t gpu.Tensor) gpu.Tensor { return t.Reshape(t.Dim(0)*t.Dim(1), t.Dim(2)) }
