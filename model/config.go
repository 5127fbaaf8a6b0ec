package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Config describes a dense decoder-only transformer as its checkpoint's config.json does. Fields are named for the
// file's keys; where a key means something else in each family, the field holds what the forward pass needs. Values
// come from ParseConfig, which has checked them: code that uses a Config need not check again.
type Config struct {
	Architecture string // class name, such as LlamaForCausalLM
	ModelType    string
	DType        string // how the weights were saved, such as "bfloat16"; "" when not stated. The tensors say for themselves.

	HiddenSize            int // D
	IntermediateSize      int // F
	NumHiddenLayers       int // L
	NumAttentionHeads     int // H
	NumKeyValueHeads      int // KV, a divisor of H
	HeadDim               int // Dh, even; H·Dh may differ from D
	VocabSize             int // V
	MaxPositionEmbeddings int // tokens

	RMSNormEps        float64
	HiddenAct         string // always "silu"
	TieWordEmbeddings bool   // the head is the embedding matrix

	AttentionBias AttentionBias
	MLPBias       bool // gate, up and down projections have biases
	QKNorm        bool // queries and keys pass an RMSNorm over each head before RoPE

	EmbedScale    float64 // x = embedding · EmbedScale
	ResidualScale float64 // x += ResidualScale · (attention or MLP output)
	LogitScale    float64 // logits = head · (LogitScale · final norm)

	// SlidingWindows has one entry per layer. Position i sees key j when j ≤ i and i-j < window; 0 means every earlier key.
	SlidingWindows []int

	Rope Rope

	BOSTokenID  int   // -1 when there is none
	EOSTokenIDs []int // may be empty; generation_config.json and the tokenizer may name more
}

// AttentionBias says which attention projections add a bias.
type AttentionBias struct{ Q, K, V, O bool }

// Bounds on what a config may ask for. They lie well above any published dense model and keep sizes computed from a
// hostile file (at most L·(4·H·Dh·D + 3·D·F), and KV bytes) inside int64.
const (
	maxConfigBytes  = 1 << 20
	maxHidden       = 1 << 16
	maxIntermediate = 1 << 20
	maxLayers       = 1 << 10
	maxHeads        = 1 << 10
	maxHeadDim      = 1 << 10
	maxVocab        = 1 << 22
	maxPositions    = 1 << 24
)

// family holds what differs between the architectures: what the class of that name does without being told by the file.
type family struct {
	architecture, modelType string
	tied                    bool    // value of an absent tie_word_embeddings
	theta                   float64 // rope base of a file that has no key for it; 0: such a file is refused
	kvHeads                 bool    // an absent num_key_value_heads means as many as attention heads; else it is refused
	headDim                 int     // value of an absent head_dim (a null one is D/H); 0: D/H
	attentionBias           bool    // attention_bias puts biases on q, k, v and o
	qkvBias                 bool    // q, k and v always have biases, o never
	mlpBias                 bool    // mlp_bias is read
	qkNorm                  bool
	mup                     bool // scale_emb, scale_depth and dim_model_base are read
	windows                 bool // use_sliding_window, sliding_window and max_window_layers are read
}

// Absent keys follow the transformers class of the name where every release agrees on the default. The rope base is
// the exception to be wary of: a wrong one gives fluent nonsense instead of an error. Llama's and MiniCPM's first
// checkpoints predate the key and were all trained with 10000, so there its absence is well defined; no Qwen was
// trained with its class default of 10000, so there it is refused.
var families = []family{
	{architecture: "LlamaForCausalLM", modelType: "llama", theta: 10000, kvHeads: true, attentionBias: true, mlpBias: true},
	{architecture: "MiniCPMForCausalLM", modelType: "minicpm", tied: true, theta: 10000, kvHeads: true, attentionBias: true, mup: true},
	{architecture: "Qwen2ForCausalLM", modelType: "qwen2", qkvBias: true, windows: true},
	{architecture: "Qwen3ForCausalLM", modelType: "qwen3", headDim: 128, attentionBias: true, qkNorm: true, windows: true},
}

// ParseConfig reads a config.json. The families are Llama (MiniCPM5 among them), MiniCPM 1, 2 and 4, Qwen2 and Qwen3,
// in the spellings of old and new transformers releases. Anything that would change the computation and cannot be done
// exactly (another architecture, activation, quantisation or kind of RoPE) is refused by name. The error names every
// problem found: key, what was expected, what was found.
func ParseConfig(data []byte) (*Config, error) {
	o, err := configObject(data)
	if err != nil {
		return nil, err
	}
	fam, err := findFamily(o)
	if err != nil {
		return nil, err
	}
	refuseUnsupported(o, fam)
	c := &Config{
		Architecture: fam.architecture,
		ModelType:    fam.modelType,
		DType:        strings.TrimPrefix(o.stringOr("dtype", o.stringOr("torch_dtype", "")), "torch."),

		HiddenSize:            o.int("hidden_size", 1, maxHidden),
		IntermediateSize:      o.int("intermediate_size", 1, maxIntermediate),
		NumHiddenLayers:       o.int("num_hidden_layers", 1, maxLayers),
		NumAttentionHeads:     o.int("num_attention_heads", 1, maxHeads),
		VocabSize:             o.int("vocab_size", 1, maxVocab),
		MaxPositionEmbeddings: o.int("max_position_embeddings", 1, maxPositions),

		RMSNormEps:        o.float("rms_norm_eps", interval{0, 1, true}),
		HiddenAct:         o.stringOr("hidden_act", "silu"),
		TieWordEmbeddings: o.boolOr("tie_word_embeddings", fam.tied),
		QKNorm:            fam.qkNorm,
		AttentionBias:     AttentionBias{Q: fam.qkvBias, K: fam.qkvBias, V: fam.qkvBias},
		BOSTokenID:        -1,
	}
	if len(*o.problems) > 0 {
		return nil, configError(*o.problems) // checks between values need the values
	}
	if c.HiddenAct != "silu" {
		o.problem("hidden_act", "activation %s is not supported; supported: silu", show(c.HiddenAct))
	}
	if fam.attentionBias && o.boolOr("attention_bias", false) {
		c.AttentionBias = AttentionBias{true, true, true, true}
	}
	if fam.mlpBias {
		c.MLPBias = o.boolOr("mlp_bias", false)
	}
	c.readHeads(o, fam)
	c.readScales(o, fam)
	c.readWindows(o, fam)
	c.readTokens(o)
	if len(*o.problems) > 0 {
		return nil, configError(*o.problems)
	}
	c.Rope = readRope(o, fam, c)
	if len(*o.problems) > 0 {
		return nil, configError(*o.problems)
	}
	if _, err := c.RopeTable(c.MaxPositionEmbeddings); err != nil {
		return nil, configError([]string{err.Error()})
	}
	return c, nil
}

func configObject(data []byte) (object, error) {
	o := object{problems: new([]string)}
	if len(data) > maxConfigBytes {
		return o, fmt.Errorf("config.json: expected at most %d bytes, found %d", maxConfigBytes, len(data))
	}
	if err := json.Unmarshal(data, &o.fields); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return o, fmt.Errorf("config.json: expected a JSON object: at byte %d: %w", syntax.Offset, err)
		}
		return o, fmt.Errorf("config.json: expected a JSON object: %w", err)
	}
	if o.fields == nil {
		return o, errors.New("config.json: expected a JSON object, found null")
	}
	return o, nil
}

func configError(problems []string) error {
	const most = 8
	if n := len(problems); n > most {
		problems = append(slices.Clone(problems[:most]), fmt.Sprintf("and %d more", n-most))
	}
	return errors.New("config.json: " + strings.Join(problems, "; "))
}

// findFamily goes by architectures, which names the class that runs the model, and by model_type where a file has no
// architectures. Both present must agree.
func findFamily(o object) (family, error) {
	names := o.list("architectures", "a list with one class name")
	modelType := o.stringOr("model_type", "")
	switch {
	case len(*o.problems) > 0:
	case len(names) > 1:
		o.problem("architectures", "expected one class name, found %d", len(names))
	case len(names) == 1:
		name, ok := jsonString(names[0])
		if !ok {
			o.problem("architectures", "expected a class name, found %s", describeJSON(names[0]))
			break
		}
		for _, f := range families {
			if f.architecture != name {
				continue
			}
			if modelType != "" && modelType != f.modelType {
				o.problem("model_type", "expected %s for %s, found %s", f.modelType, name, show(modelType))
				break
			}
			return f, nil
		}
		if len(*o.problems) == 0 {
			return family{}, unsupportedArchitecture(name)
		}
	case modelType != "":
		for _, f := range families {
			if f.modelType == modelType {
				return f, nil
			}
		}
		return family{}, unsupportedArchitecture(modelType)
	default:
		o.mismatch("architectures", "a list with one of "+supportedArchitectures())
	}
	return family{}, configError(*o.problems)
}

func unsupportedArchitecture(name string) error {
	return fmt.Errorf("config.json: architecture %s is not supported; supported: %s", show(name), supportedArchitectures())
}

func supportedArchitectures() string {
	var names []string
	for _, f := range families {
		names = append(names, f.architecture)
	}
	return strings.Join(names, ", ")
}

// refuseUnsupported notes the keys that change what the model computes or how its weights are stored in ways the
// forward pass does not have.
func refuseUnsupported(o object, fam family) {
	if o.has("quantization_config") {
		method := o.object("quantization_config").stringOr("quant_method", "of unknown method")
		o.problem("quantization_config", "quantisation %s is not supported; use a checkpoint in bfloat16, float16 or float32", show(method))
	}
	if o.has("quantization") {
		o.problem("quantization", "MLX quantisation is not supported; use a checkpoint in bfloat16, float16 or float32")
	}
	for _, key := range []string{"num_experts", "num_local_experts"} {
		if n := o.intOr(key, 0, 0, math.MaxInt32); n > 0 {
			o.problem(key, "a %s with %d experts is not supported, only dense ones", fam.architecture, n)
		}
	}
	if o.has("sparse_config") {
		o.problem("sparse_config", "sparse attention (InfLLM v2) is not supported; without this key the model attends densely")
	}
	if o.boolOr("rope_interleaved", false) || !o.boolOr("rope_is_neox_style", true) {
		o.problem("rope_interleaved", "interleaved RoPE pairs are not supported, only pairs (i, i+head_dim/2)")
	}
	if o.boolOr("use_mrope", false) {
		o.problem("use_mrope", "multimodal RoPE is not supported")
	}
	if fam.mup {
		return
	}
	for _, key := range []string{"scale_emb", "scale_depth", "dim_model_base"} {
		if o.has(key) {
			o.problem(key, "a %s has no muP scaling; found %s: the file contradicts itself", fam.architecture, describeJSON(o.fields[key]))
		}
	}
}

func (c *Config) readHeads(o object, fam family) {
	if fam.kvHeads || o.has("num_key_value_heads") {
		c.NumKeyValueHeads = o.intOr("num_key_value_heads", c.NumAttentionHeads, 1, maxHeads)
	} else if _, null := o.fields["num_key_value_heads"]; null {
		c.NumKeyValueHeads = c.NumAttentionHeads
	} else {
		o.mismatch("num_key_value_heads", "an integer or null")
		return
	}
	if c.NumAttentionHeads%c.NumKeyValueHeads != 0 {
		o.problem("num_key_value_heads", "expected a divisor of num_attention_heads %d, found %d", c.NumAttentionHeads, c.NumKeyValueHeads)
	}
	even := c.HiddenSize / c.NumAttentionHeads
	_, stated := o.fields["head_dim"]
	switch {
	case o.has("head_dim"):
		c.HeadDim = o.int("head_dim", 2, maxHeadDim)
		if fam.mup && c.HeadDim != even {
			o.problem("head_dim", "expected hidden_size / num_attention_heads = %d, as a %s always uses, found %d", even, fam.architecture, c.HeadDim)
		}
	case !stated && fam.headDim > 0:
		c.HeadDim = fam.headDim
	case c.HiddenSize%c.NumAttentionHeads != 0:
		o.problem("head_dim", "not given, and hidden_size %d is not divisible by num_attention_heads %d", c.HiddenSize, c.NumAttentionHeads)
		return
	default:
		c.HeadDim = even
	}
	if c.HeadDim < 2 || c.HeadDim > maxHeadDim || c.HeadDim%2 != 0 {
		o.problem("head_dim", "expected an even number from 2 to %d (RoPE turns pairs), found %d", maxHeadDim, c.HeadDim)
	}
}

// readScales sets the three muP factors of MiniCPM 1 to 4. The class's own defaults (1, 1, 1) would shrink every
// branch by √L and every logit by D, so a file that lacks a key is refused rather than guessed at. mup_denominator,
// which MiniCPM4 files carry too, belongs to their draft heads and is not used here.
func (c *Config) readScales(o object, fam family) {
	c.EmbedScale, c.ResidualScale, c.LogitScale = 1, 1, 1
	if !fam.mup {
		return
	}
	positive := interval{0, 1e6, true}
	c.EmbedScale = o.float("scale_emb", positive)
	c.ResidualScale = o.float("scale_depth", positive) / math.Sqrt(float64(c.NumHiddenLayers))
	c.LogitScale = o.float("dim_model_base", positive) / float64(c.HiddenSize)
}

// readWindows works out each layer's attention window. In Qwen a window exists only with use_sliding_window; it then
// holds for the layers from max_window_layers on, or for those layer_types names. In the other families it never exists.
func (c *Config) readWindows(o object, fam family) {
	c.SlidingWindows = make([]int, c.NumHiddenLayers)
	window := 0
	if fam.windows && o.boolOr("use_sliding_window", false) && o.has("sliding_window") {
		window = o.int("sliding_window", 1, maxPositions)
	}
	if !fam.windows && o.has("sliding_window") {
		o.problem("sliding_window", "a %s has no sliding window; found %s: the file contradicts itself", fam.architecture, describeJSON(o.fields["sliding_window"]))
	}
	if types := o.list("layer_types", "a list of strings"); types != nil {
		c.readLayerTypes(o, types, window)
		return
	}
	if window == 0 {
		return
	}
	full := o.int("max_window_layers", 0, math.MaxInt32)
	for i := range c.SlidingWindows {
		if i >= full {
			c.SlidingWindows[i] = window
		}
	}
}

func (c *Config) readLayerTypes(o object, types []json.RawMessage, window int) {
	if len(types) != c.NumHiddenLayers {
		o.problem("layer_types", "expected num_hidden_layers = %d entries, found %d", c.NumHiddenLayers, len(types))
		return
	}
	for i, raw := range types {
		switch t, _ := jsonString(raw); {
		case t == "full_attention":
		case t == "sliding_attention" && window > 0:
			c.SlidingWindows[i] = window
		case t == "sliding_attention":
			o.problem("layer_types", "layer %d is sliding_attention, but no sliding window is in use", i)
			return
		default:
			o.problem("layer_types", "layer %d: expected full_attention or sliding_attention, found %s", i, describeJSON(raw))
			return
		}
	}
}

func (c *Config) readTokens(o object) {
	c.BOSTokenID = o.intOr("bos_token_id", -1, 0, c.VocabSize-1)
	if !o.has("eos_token_id") {
		return
	}
	if o.fields["eos_token_id"][0] != '[' {
		c.EOSTokenIDs = []int{o.int("eos_token_id", 0, c.VocabSize-1)}
		return
	}
	for _, raw := range o.list("eos_token_id", "a list of token ids") {
		id, ok := jsonInt(raw)
		if !ok || id < 0 || id >= c.VocabSize {
			o.problem("eos_token_id", "expected token ids from 0 to %d, found %s", c.VocabSize-1, describeJSON(raw))
			return
		}
		c.EOSTokenIDs = append(c.EOSTokenIDs, id)
	}
}
