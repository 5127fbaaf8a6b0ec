// Package model is a decoder-only transformer on the GPU: its config and weights, the forward pass, the key/value
// cache and a plain decoder. It is dense by itself; package moe adds mixture-of-experts layers, package draft
// speculation.
//
// Shapes in comments: T rows of this step, D hidden size, H heads, KV key/value heads, Dh head dim, F intermediate
// size, V vocabulary, P positions of the cache.
package model

import (
	"flint/gpu"
	"flint/shaders"
)

// Transformer is a model's weights on a device.
type Transformer struct {
	Config *Config

	EmbedTokens shaders.Weight // [V, D]
	Layers      []Layer
	Norm        gpu.Tensor     // [D]
	LMHead      shaders.Weight // [V, D]; EmbedTokens itself when tied

	device  *gpu.Device
	tensors map[string]shaders.Weight // everything to free
}

// Layer is one block of attention and MLP.
type Layer struct {
	InputNorm    gpu.Tensor // [D]
	Attn         Attention
	PostAttnNorm gpu.Tensor // [D]
	MLP          MLP
	label        string // layers.12
}

// Attention is a layer's grouped-query attention.
type Attention struct {
	QProj        Linear      // [H*Dh, D]
	KProj, VProj Linear      // [KV*Dh, D]
	QNorm, KNorm *gpu.Tensor // [Dh], nil without QK-norm
	OProj        Linear      // [D, H*Dh]
	window       int         // keys a row sees, itself included; 0 is all
}

// MLP is a layer's SwiGLU feed-forward.
type MLP struct {
	GateProj, UpProj Linear // [F, D]
	DownProj         Linear // [D, F]
}

// Linear is a projection: y = x W^T + b.
type Linear struct {
	Weight shaders.Weight
	Bias   *gpu.Tensor // [N] f32, or nil
}

func (l Linear) record(r *gpu.Recorder, label string, out, x gpu.Tensor) {
	r.Push(label)
	shaders.Linear(r, out, x, l.Weight, l.Bias)
	r.Pop()
}
