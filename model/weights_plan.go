package model

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Role says what a checkpoint tensor is for, which decides how a loader stores it.
type Role uint8

// The roles of tensors.
const (
	RoleEmbedding  Role = iota // [V, D] token embedding, the head too when tied
	RoleHead                   // [V, D] lm_head of an untied model
	RoleProjection             // [out, in] matrix of a layer
	RoleBias                   // [out]
	RoleNorm                   // [D], or [Dh] for query and key norms
	RoleIgnored                // may be in a checkpoint; nothing reads it
)

// TensorSpec is one tensor of the checkpoint: its name as the file spells it, its shape and its role. A tensor is
// required unless its role is RoleIgnored.
type TensorSpec struct {
	Name  string
	Shape []int // outermost dimension first, [out, in] for projections
	Role  Role
}

// Tensors returns every tensor a checkpoint of this config has, in the order of the forward pass, followed by those it
// may have and nobody reads: RoPE frequency buffers that old releases saved (they follow from the config), and a tied
// model's lm_head.weight (a copy of the embedding: transformers ties it on loading, whatever the file holds).
func (c *Config) Tensors() []TensorSpec {
	d, q, kv := c.HiddenSize, c.NumAttentionHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	var specs, ignored []TensorSpec
	add := func(name string, role Role, shape ...int) {
		specs = append(specs, TensorSpec{name, shape, role})
	}
	ignore := func(name string, shape ...int) {
		ignored = append(ignored, TensorSpec{name, shape, RoleIgnored})
	}
	linear := func(name string, bias bool, out, in int) {
		add(name+".weight", RoleProjection, out, in)
		if bias {
			add(name+".bias", RoleBias, out)
		}
	}
	add("model.embed_tokens.weight", RoleEmbedding, c.VocabSize, d)
	for i := range c.NumHiddenLayers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		add(layer+"input_layernorm.weight", RoleNorm, d)
		linear(layer+"self_attn.q_proj", c.AttentionBias.Q, q, d)
		linear(layer+"self_attn.k_proj", c.AttentionBias.K, kv, d)
		linear(layer+"self_attn.v_proj", c.AttentionBias.V, kv, d)
		if c.QKNorm {
			add(layer+"self_attn.q_norm.weight", RoleNorm, c.HeadDim)
			add(layer+"self_attn.k_norm.weight", RoleNorm, c.HeadDim)
		}
		linear(layer+"self_attn.o_proj", c.AttentionBias.O, d, q)
		add(layer+"post_attention_layernorm.weight", RoleNorm, d)
		linear(layer+"mlp.gate_proj", c.MLPBias, c.IntermediateSize, d)
		linear(layer+"mlp.up_proj", c.MLPBias, c.IntermediateSize, d)
		linear(layer+"mlp.down_proj", c.MLPBias, d, c.IntermediateSize)
		ignore(layer+"self_attn.rotary_emb.inv_freq", c.HeadDim/2)
	}
	add("model.norm.weight", RoleNorm, d)
	if c.TieWordEmbeddings {
		ignore("lm_head.weight", c.VocabSize, d)
	} else {
		add("lm_head.weight", RoleHead, c.VocabSize, d)
	}
	ignore("model.rotary_emb.inv_freq", c.HeadDim/2)
	return append(specs, ignored...)
}

// CheckTensors compares the tensors a checkpoint has (name to shape) with those the config asks for. The one error
// names every tensor that is missing, has another shape or that nothing claims, up to a dozen of each.
func (c *Config) CheckTensors(have map[string][]int) error {
	var missing, wrong, unclaimed []string
	claimed := map[string]bool{}
	for _, spec := range c.Tensors() {
		claimed[spec.Name] = true
		shape, ok := have[spec.Name]
		switch {
		case !ok && spec.Role != RoleIgnored:
			missing = append(missing, fmt.Sprintf("%s %v", spec.Name, spec.Shape))
		case ok && !slices.Equal(shape, spec.Shape):
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", spec.Name, shape, spec.Shape))
		}
	}
	for _, name := range sortedKeys(have) {
		if !claimed[name] {
			unclaimed = append(unclaimed, fmt.Sprintf("%s %v", show(name), have[name]))
		}
	}
	var parts []string
	for _, kind := range []struct {
		what  string
		names []string
	}{{"missing", missing}, {"of another shape", wrong}, {"not part of the architecture", unclaimed}} {
		if len(kind.names) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s: %s", len(kind.names), kind.what, capped(kind.names)))
		}
	}
	if parts == nil {
		return nil
	}
	return fmt.Errorf("the checkpoint's tensors do not fit its config.json (%s): %s", c.Architecture, strings.Join(parts, "; "))
}

func capped(names []string) string {
	const most = 12
	if n := len(names); n > most {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(names, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Parameters returns the number of weights, a tied embedding counted once.
func (c *Config) Parameters() int64 {
	var total int64
	for _, spec := range c.Tensors() {
		if spec.Role == RoleIgnored {
			continue
		}
		n := int64(1)
		for _, dim := range spec.Shape {
			n *= int64(dim)
		}
		total += n
	}
	return total
}

// KVBytes returns the bytes that keys and values of context tokens take in all layers together, as packed float16 or as
// float32. Any slack rows a cache adds are the caller's to count in context.
func (c *Config) KVBytes(context int, f16 bool) int64 {
	element := uint64(4)
	if f16 {
		element = 2
	}
	perToken := 2 * uint64(c.NumHiddenLayers) * uint64(c.NumKeyValueHeads) * uint64(c.HeadDim) * element
	over, total := bits.Mul64(perToken, uint64(max(context, 0)))
	if over > 0 || total > math.MaxInt64 {
		return math.MaxInt64 // no memory has it, and a wrapped sum would pass for a small cache
	}
	return int64(total)
}
