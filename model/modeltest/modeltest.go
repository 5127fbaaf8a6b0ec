// Package modeltest builds tiny seeded checkpoints in memory and computes what they should answer. A checkpoint is a
// complete model folder (config.json, weights, tokenizer, chat template), so that whole loads and whole turns can be
// tested without any downloaded file; Reference is the forward pass in float64, to be compared with.
package modeltest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing/fstest"

	"flint/gpu"
	"flint/model"
	"flint/model/safetensors"
)

// Options choose the checkpoint. The zero value is a llama in BF16 in one file.
type Options struct {
	Family string            // model_type: llama (default), minicpm, qwen2, qwen3
	DType  safetensors.DType // BF16 (default), F16 or F32
	Shards int               // above 1: that many files and an index
	// Config replaces or adds keys of config.json, a nil value removes one. The weights follow: other sizes, biases,
	// rope types and ties need nothing else.
	Config map[string]any
}

// Checkpoint builds the model folder. The same seed and options give the same bytes, and each tensor depends on the
// seed, its name and its shape alone. Weights are scaled so that logits spread by about 3 and greedy text does not
// settle into repeating a token. It panics on options that describe no model: that is the test's mistake.
func Checkpoint(seed uint64, opts Options) fstest.MapFS {
	configJSON := marshal(config(opts))
	cfg, err := model.ParseConfig(configJSON)
	if err != nil {
		panic(fmt.Errorf("modeltest: %w", err))
	}
	files := fstest.MapFS{}
	put := func(name string, data []byte) { files[name] = &fstest.MapFile{Data: data, Mode: 0o644} }
	put("config.json", configJSON)
	put("generation_config.json", marshal(map[string]any{"bos_token_id": idBOS, "eos_token_id": []int{idEOS, idEnd}}))
	put("tokenizer.json", tokenizerJSON(cfg.VocabSize))
	put("tokenizer_config.json", tokenizerConfigJSON(cfg.MaxPositionEmbeddings))

	dtype := opts.DType
	if dtype == "" {
		dtype = safetensors.BF16
	}
	var tensors []safetensors.Named
	for _, spec := range cfg.Tensors() {
		if spec.Role == model.RoleIgnored {
			continue
		}
		data := encode(values(seed, cfg, spec), dtype)
		tensors = append(tensors, safetensors.Named{Name: spec.Name, DType: dtype, Shape: spec.Shape, Data: data})
	}
	if opts.Shards <= 1 {
		put("model.safetensors", file(tensors))
		return files
	}
	if opts.Shards > len(tensors) {
		panic(fmt.Errorf("modeltest: %d shards for %d tensors", opts.Shards, len(tensors)))
	}
	weightMap, total := map[string]string{}, 0
	for i := range opts.Shards {
		shard := tensors[i*len(tensors)/opts.Shards : (i+1)*len(tensors)/opts.Shards]
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, opts.Shards)
		for _, t := range shard {
			weightMap[t.Name] = name
			total += len(t.Data)
		}
		put(name, file(shard))
	}
	put("model.safetensors.index.json", marshal(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": weightMap}))
	return files
}

// config returns the family's default config.json with the test's changes. Sizes are small but not degenerate: query
// heads share KV heads, and where the family allows it the query width differs from the hidden size.
func config(opts Options) map[string]any {
	c := map[string]any{
		"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
		"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512,
		"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": true, "dtype": "bfloat16",
		"bos_token_id": idBOS, "eos_token_id": []int{idEOS, idEnd}, "pad_token_id": idPad,
		"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 10000.0},
	}
	family := opts.Family
	if family == "" {
		family = "llama"
	}
	c["model_type"] = family
	switch family {
	case "llama":
		maps.Copy(c, map[string]any{"architectures": []string{"LlamaForCausalLM"}, "head_dim": 32, "tie_word_embeddings": false})
	case "minicpm":
		maps.Copy(c, map[string]any{
			"architectures": []string{"MiniCPMForCausalLM"},
			"scale_emb":     12, "scale_depth": 1.4, "dim_model_base": 32,
		})
	case "qwen2":
		c["architectures"] = []string{"Qwen2ForCausalLM"}
	case "qwen3":
		maps.Copy(c, map[string]any{"architectures": []string{"Qwen3ForCausalLM"}, "head_dim": 32})
	default:
		panic(fmt.Errorf("modeltest: family %q is unknown; known: llama, minicpm, qwen2, qwen3", family))
	}
	for key, value := range opts.Config {
		if value == nil {
			delete(c, key)
		} else {
			c[key] = value
		}
	}
	return c
}

// embedSpread weighs a token's embedding against what the layers add to it, about 2 each. Much less, and the slowly
// moving context picks the same next token for ever; much more, and the layers hardly matter.
const embedSpread = 1.5

const logitSpread = 3

func values(seed uint64, cfg *model.Config, spec model.TensorSpec) []float32 {
	hash := fnv.New64a()
	hash.Write([]byte(spec.Name))
	random := rand.New(rand.NewPCG(seed, hash.Sum64()))
	mean, spread, flip := 0.0, 0.0, false
	width := math.Sqrt(float64(spec.Shape[len(spec.Shape)-1]))
	switch spec.Role {
	case model.RoleEmbedding:
		spread = embedSpread / cfg.EmbedScale
	case model.RoleHead:
		spread = logitSpread / (width * cfg.LogitScale)
	case model.RoleProjection:
		spread = 2.5 / width
		if strings.HasSuffix(spec.Name, "q_proj.weight") || strings.HasSuffix(spec.Name, "k_proj.weight") {
			spread = 1.25 / width // scores spread by about 1.5: attention prefers some keys and ignores none
		}
	case model.RoleBias:
		spread = 0.3
	case model.RoleNorm:
		mean, spread = 1, 0.2
		if spec.Name == "model.norm.weight" && cfg.TieWordEmbeddings {
			mean = logitSpread * cfg.EmbedScale / (embedSpread * width * cfg.LogitScale)
			spread *= mean
			flip = true
		}
	}
	n := 1
	for _, dim := range spec.Shape {
		n *= dim
	}
	out := make([]float32, n)
	for i := range out {
		v := mean + spread*random.NormFloat64()
		if flip && random.Uint64()&1 == 1 {
			v = -v // a tied head of one sign would compare the residual stream with the token just read, and repeat it
		}
		out[i] = float32(v)
	}
	return out
}

func encode(values []float32, dtype safetensors.DType) []byte {
	var out []byte
	for _, v := range values {
		switch dtype {
		case safetensors.BF16:
			out = binary.LittleEndian.AppendUint16(out, gpu.ToBF16(v))
		case safetensors.F16:
			out = binary.LittleEndian.AppendUint16(out, gpu.ToF16(v))
		case safetensors.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		default:
			panic(fmt.Errorf("modeltest: dtype %q is not one of BF16, F16, F32", dtype))
		}
	}
	return out
}

func file(tensors []safetensors.Named) []byte {
	var b bytes.Buffer
	if err := safetensors.Write(&b, tensors); err != nil {
		panic(fmt.Errorf("modeltest: %w", err))
	}
	return b.Bytes()
}

func marshal(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // <|im_end|> should be readable in a failing test's file
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		panic(fmt.Errorf("modeltest: %w", err))
	}
	return []byte(b.String())
}
