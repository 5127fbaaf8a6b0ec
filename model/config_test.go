package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model"
)

const architectures = "LlamaForCausalLM, MiniCPMForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM"

// base returns a valid config of the family, as the tests below then spoil or extend.
func base(family string) map[string]any {
	c := map[string]any{
		"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4,
		"num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
		"hidden_act": "silu", "rope_theta": 10000.0, "model_type": family,
	}
	switch family {
	case "llama":
		c["architectures"] = []string{"LlamaForCausalLM"}
	case "minicpm":
		c["architectures"] = []string{"MiniCPMForCausalLM"}
		c["scale_emb"], c["scale_depth"], c["dim_model_base"] = 12, 1.4, 32
	case "qwen2":
		c["architectures"] = []string{"Qwen2ForCausalLM"}
	case "qwen3":
		c["architectures"] = []string{"Qwen3ForCausalLM"}
		c["head_dim"] = 32
	}
	return c
}

type set = map[string]any

// absent removes a key in edited; nil writes null.
const absent = "\x00absent"

func edited(family string, changes set) []byte {
	c := base(family)
	for key, value := range changes {
		if value == absent {
			delete(c, key)
		} else {
			c[key] = value
		}
	}
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return data
}

func parse(t *testing.T, family string, changes set) *model.Config {
	t.Helper()
	c, err := model.ParseConfig(edited(family, changes))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigRefusals(t *testing.T) {
	scaling := func(kv ...any) set {
		m := set{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return set{"rope_scaling": m}
	}
	for _, tc := range []struct {
		name, family string
		changes      set
		want         string // the whole message after "config.json: "
	}{
		{"mixtral", "llama", set{"architectures": []string{"MixtralForCausalLM"}}, "architecture MixtralForCausalLM is not supported; supported: " + architectures},
		{"draft", "qwen3", set{"architectures": []string{"Qwen3DSparkModel"}}, "architecture Qwen3DSparkModel is not supported; supported: " + architectures},
		{"hostile name", "llama", set{"architectures": []string{"<b>\n" + strings.Repeat("x", 300)}}, `architecture "<b>\n` + strings.Repeat("x", 116) + `… (304 bytes)" is not supported; supported: ` + architectures},
		{"model type alone", "llama", set{"architectures": nil, "model_type": "gpt_oss"}, "architecture gpt_oss is not supported; supported: " + architectures},
		{"no name at all", "llama", set{"architectures": absent, "model_type": absent}, "architectures: expected a list with one of " + architectures + ", found nothing"},
		{"two architectures", "llama", set{"architectures": []string{"LlamaForCausalLM", "X"}}, "architectures: expected one class name, found 2"},
		{"architectures of numbers", "llama", set{"architectures": []int{3}}, "architectures: expected a class name, found 3"},
		{"architectures string", "llama", set{"architectures": "LlamaForCausalLM"}, `architectures: expected a list with one class name, found the string "LlamaForCausalLM"`},
		{"model type disagrees", "llama", set{"model_type": "mistral"}, "model_type: expected llama for LlamaForCausalLM, found mistral"},

		{"missing size", "llama", set{"hidden_size": absent}, "hidden_size: expected an integer from 1 to 65536, found nothing"},
		{"null size", "llama", set{"hidden_size": nil}, "hidden_size: expected an integer from 1 to 65536, found nothing"},
		{"size as string", "llama", set{"hidden_size": "64"}, `hidden_size: expected an integer from 1 to 65536, found the string "64"`},
		{"size as list", "llama", set{"hidden_size": []int{64}}, "hidden_size: expected an integer from 1 to 65536, found a list"},
		{"size as object", "llama", set{"hidden_size": set{}}, "hidden_size: expected an integer from 1 to 65536, found an object"},
		{"size as bool", "llama", set{"hidden_size": true}, "hidden_size: expected an integer from 1 to 65536, found true"},
		{"fraction", "llama", set{"hidden_size": 64.5}, "hidden_size: expected an integer from 1 to 65536, found 64.5"},
		{"zero", "llama", set{"vocab_size": 0}, "vocab_size: expected an integer from 1 to 4194304, found 0"},
		{"negative", "llama", set{"num_hidden_layers": -1}, "num_hidden_layers: expected an integer from 1 to 1024, found -1"},
		{"huge", "llama", set{"max_position_embeddings": 1e300}, "max_position_embeddings: expected an integer from 1 to 16777216, found 1e+300"},
		{"two at once", "llama", set{"hidden_size": 0, "vocab_size": "x"}, `hidden_size: expected an integer from 1 to 65536, found 0; vocab_size: expected an integer from 1 to 4194304, found the string "x"`},

		{"kv heads", "llama", set{"num_key_value_heads": 3}, "num_key_value_heads: expected a divisor of num_attention_heads 4, found 3"},
		{"qwen without kv heads", "qwen2", set{"num_key_value_heads": absent}, "num_key_value_heads: expected an integer or null, found nothing"},
		{"odd head dim", "llama", set{"head_dim": 15}, "head_dim: expected an even number from 2 to 1024 (RoPE turns pairs), found 15"},
		{"derived odd head dim", "llama", set{"hidden_size": 60}, "head_dim: expected an even number from 2 to 1024 (RoPE turns pairs), found 15"},
		{"indivisible", "llama", set{"hidden_size": 66}, "head_dim: not given, and hidden_size 66 is not divisible by num_attention_heads 4"},
		{"minicpm head dim", "minicpm", set{"head_dim": 32}, "head_dim: expected hidden_size / num_attention_heads = 16, as a MiniCPMForCausalLM always uses, found 32"},

		{"no eps", "llama", set{"rms_norm_eps": absent}, "rms_norm_eps: expected a number above 0, at most 1, found nothing"},
		{"negative eps", "llama", set{"rms_norm_eps": -1e-6}, "rms_norm_eps: expected a number above 0, at most 1, found -0.000001"},
		{"eps as string", "llama", set{"rms_norm_eps": "NaN"}, `rms_norm_eps: expected a number above 0, at most 1, found the string "NaN"`},
		{"activation", "llama", set{"hidden_act": "gelu"}, "hidden_act: activation gelu is not supported; supported: silu"},
		{"tie as number", "llama", set{"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false, found 1"},
		{"dtype as number", "llama", set{"torch_dtype": 16}, "torch_dtype: expected a string, found 16"},

		{"gptq", "llama", set{"quantization_config": set{"quant_method": "gptq", "bits": 4}}, "quantization_config: quantisation gptq is not supported; use a checkpoint in bfloat16, float16 or float32"},
		{"quantisation without method", "llama", set{"quantization_config": set{}}, `quantization_config: quantisation "of unknown method" is not supported; use a checkpoint in bfloat16, float16 or float32`},
		{"mlx", "llama", set{"quantization": set{"bits": 4}}, "quantization: MLX quantisation is not supported; use a checkpoint in bfloat16, float16 or float32"},
		{"minicpm moe", "minicpm", set{"num_experts": 8}, "num_experts: a MiniCPMForCausalLM with 8 experts is not supported, only dense ones"},
		{"sparse attention", "minicpm", set{"sparse_config": set{"dense_len": 8192}}, "sparse_config: sparse attention (InfLLM v2) is not supported; without this key the model attends densely"},
		{"interleaved rope", "llama", set{"rope_interleaved": true}, "rope_interleaved: interleaved RoPE pairs are not supported, only pairs (i, i+head_dim/2)"},
		{"not neox", "llama", set{"rope_is_neox_style": false}, "rope_interleaved: interleaved RoPE pairs are not supported, only pairs (i, i+head_dim/2)"},
		{"mrope", "qwen2", set{"use_mrope": true}, "use_mrope: multimodal RoPE is not supported"},
		{"mup without its keys", "minicpm", set{"scale_depth": absent}, "scale_depth: expected a number above 0, at most 1e+06, found nothing"},
		{"mup in a llama", "llama", set{"scale_emb": 12}, "scale_emb: a LlamaForCausalLM has no muP scaling; found 12: the file contradicts itself"},

		{"window in a llama", "llama", set{"sliding_window": 4096}, "sliding_window: a LlamaForCausalLM has no sliding window; found 4096: the file contradicts itself"},
		{"window without start", "qwen2", set{"use_sliding_window": true, "sliding_window": 128}, "max_window_layers: expected an integer from 0 to 2147483647, found nothing"},
		{"window zero", "qwen3", set{"use_sliding_window": true, "sliding_window": 0, "max_window_layers": 2}, "sliding_window: expected an integer from 1 to 16777216, found 0"},
		{"layer types too few", "qwen3", set{"layer_types": []string{"full_attention"}}, "layer_types: expected num_hidden_layers = 4 entries, found 1"},
		{"layer types without window", "qwen3", set{"layer_types": []string{"full_attention", "sliding_attention", "full_attention", "full_attention"}}, "layer_types: layer 1 is sliding_attention, but no sliding window is in use"},
		{"linear attention", "qwen3", set{"layer_types": []any{"full_attention", "linear_attention", 1, 2}}, `layer_types: layer 1: expected full_attention or sliding_attention, found the string "linear_attention"`},

		{"bos beyond vocabulary", "llama", set{"bos_token_id": 320}, "bos_token_id: expected an integer from 0 to 319, found 320"},
		{"eos beyond vocabulary", "llama", set{"eos_token_id": 320}, "eos_token_id: expected an integer from 0 to 319, found 320"},
		{"eos list", "llama", set{"eos_token_id": []any{1, "2"}}, `eos_token_id: expected token ids from 0 to 319, found the string "2"`},

		{"qwen without theta", "qwen2", set{"rope_theta": absent}, "rope_theta: expected it in rope_parameters or beside it, found neither; the base cannot be guessed"},
		{"new file without theta", "llama", set{"rope_theta": absent, "rope_parameters": set{"rope_type": "default"}}, "rope_theta: expected it in rope_parameters or beside it, found neither; the base cannot be guessed"},
		{"theta one", "llama", set{"rope_theta": 1}, "rope_theta: expected a number above 1, at most 1e+12, found 1"},
		{"two thetas", "llama", set{"rope_parameters": set{"rope_type": "default", "rope_theta": 5e6}}, "rope_theta: expected 5e+06 as given elsewhere in the file, found 10000"},
		{"partial rotary", "llama", set{"partial_rotary_factor": 0.5}, "partial_rotary_factor: partial rotary embedding is not supported, expected 1, found 0.5"},
		{"partial rotary inside", "llama", set{"rope_parameters": set{"rope_theta": 1e4, "partial_rotary_factor": 0.25}}, "rope_parameters.partial_rotary_factor: partial rotary embedding is not supported, expected 1, found 0.25"},
		{"unknown rope type", "llama", scaling("type", "su", "factor", 2), "rope_scaling.rope_type: su is not supported; supported: default, linear, dynamic, llama3, yarn, longrope"},
		{"rope type missing", "llama", scaling("factor", 2), "rope_scaling.rope_type: expected one of default, linear, dynamic, llama3, yarn, longrope, found nothing"},
		{"rope types differ", "llama", scaling("type", "linear", "rope_type", "dynamic", "factor", 2), "rope_scaling.type: expected dynamic as in rope_type, found linear"},
		{"rope as string", "llama", set{"rope_parameters": "yarn"}, `rope_parameters: expected an object, found the string "yarn"`},
		{"mrope section", "qwen2", scaling("rope_type", "default", "mrope_section", []int{16, 24, 24}), "rope_scaling.mrope_section: is not a parameter of rope type default"},
		{"per layer type", "qwen3", set{"rope_parameters": set{"full_attention": set{"rope_theta": 1e6}}}, "rope_parameters.full_attention: is not a parameter of rope type default"},
		{"two ropes", "llama", set{"rope_scaling": set{"type": "linear", "factor": 2}, "rope_parameters": set{"rope_type": "linear", "factor": 4, "rope_theta": 1e4}}, "rope_scaling: differs from rope_parameters; remove the one that is wrong"},
		{"linear without factor", "llama", scaling("type", "linear"), "rope_scaling.factor: expected a number from 1 to 1e+06, found nothing"},
		{"dynamic without factor", "llama", scaling("type", "dynamic"), "rope_scaling.factor: expected a number from 1 to 1e+06, found nothing"},
		{"factor below one", "llama", scaling("type", "linear", "factor", 0.5), "rope_scaling.factor: expected a number from 1 to 1e+06, found 0.5"},
		{"llama3 low", "llama", scaling("rope_type", "llama3", "factor", 8, "high_freq_factor", 4, "original_max_position_embeddings", 64), "rope_scaling.low_freq_factor: expected a number above 0, at most 1e+06, found nothing"},
		{"llama3 high", "llama", scaling("rope_type", "llama3", "factor", 8, "low_freq_factor", 1, "original_max_position_embeddings", 64), "rope_scaling.high_freq_factor: expected a number above 0, at most 1e+06, found nothing"},
		{"llama3 original", "llama", scaling("rope_type", "llama3", "factor", 8, "low_freq_factor", 1, "high_freq_factor", 4), "rope_scaling.original_max_position_embeddings: expected an integer from 2 to 16777216, found nothing"},
		{"llama3 order", "llama", scaling("rope_type", "llama3", "factor", 8, "low_freq_factor", 4, "high_freq_factor", 4, "original_max_position_embeddings", 64), "rope_scaling.high_freq_factor: expected more than low_freq_factor 4, found 4"},
		{"yarn factor", "llama", scaling("rope_type", "yarn", "original_max_position_embeddings", 64), "rope_scaling.factor: expected a number from 1 to 1e+06, found nothing"},
		{"yarn original", "llama", scaling("rope_type", "yarn", "factor", 4), "rope_scaling.original_max_position_embeddings: expected an integer from 2 to 16777216, found nothing"},
		{"yarn betas", "llama", scaling("rope_type", "yarn", "factor", 4, "original_max_position_embeddings", 64, "beta_fast", 0.5), "rope_scaling.beta_fast: expected at least beta_slow 1, found 0.5"},
		{"yarn truncate", "llama", scaling("rope_type", "yarn", "factor", 4, "original_max_position_embeddings", 64, "truncate", "no"), `rope_scaling.truncate: expected true or false, found the string "no"`},
		{"two originals", "llama", set{"original_max_position_embeddings": 32, "rope_scaling": set{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64}}, "rope_scaling.original_max_position_embeddings: expected 32 as given elsewhere in the file, found 64"},
		{"longrope short", "minicpm", scaling("rope_type", "longrope", "original_max_position_embeddings", 64, "long_factor", []int{1, 1, 1, 1, 1, 1, 1, 1}), "rope_scaling.short_factor: expected a list of head_dim/2 = 8 numbers, found nothing"},
		{"longrope length", "minicpm", scaling("rope_type", "longrope", "original_max_position_embeddings", 64, "short_factor", []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor", []int{1}), "rope_scaling.long_factor: expected a list of head_dim/2 = 8 numbers, found 1"},
		{"longrope zero", "minicpm", scaling("rope_type", "longrope", "original_max_position_embeddings", 64, "short_factor", []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor", []int{1, 1, 0, 1, 1, 1, 1, 1}), "rope_scaling.long_factor: entry 2: expected a number above 0, at most 1e+06, found 0"},
		{"longrope original", "minicpm", scaling("rope_type", "longrope", "short_factor", []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor", []int{1, 1, 1, 1, 1, 1, 1, 1}), "rope_scaling.original_max_position_embeddings: expected an integer from 2 to 16777216, found nothing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := model.ParseConfig(edited(tc.family, tc.changes))
			if err == nil {
				t.Fatalf("accepted: %+v", *c)
			}
			if got := err.Error(); got != "config.json: "+tc.want {
				t.Errorf("message\n%s\nwant\nconfig.json: %s", got, tc.want)
			}
		})
	}
}

func TestConfigThatIsNotAJSONObject(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "config.json: expected a JSON object: at byte 0: unexpected end of JSON input",
		"{":                          "config.json: expected a JSON object: at byte 1: unexpected end of JSON input",
		`{"rms_norm_eps": NaN}`:      "config.json: expected a JSON object: at byte 18: invalid character 'N' looking for beginning of value",
		"null":                       "config.json: expected a JSON object, found null",
		"[1]":                        "config.json: expected a JSON object: json: cannot unmarshal array into Go value of type map[string]json.RawMessage",
		"{}":                         "config.json: architectures: expected a list with one of " + architectures + ", found nothing",
		strings.Repeat(" ", 1<<20+1): "config.json: expected at most 1048576 bytes, found 1048577",
	} {
		if _, err := model.ParseConfig([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v\nwant %s", text, err, want)
		}
	}
}

func TestLongListsOfProblemsAreCut(t *testing.T) {
	_, err := model.ParseConfig([]byte(`{"architectures":["MiniCPMForCausalLM"],"num_experts":4,"quantization":{},"use_mrope":true,"sparse_config":{}}`))
	if err == nil || strings.Count(err.Error(), ": expected") != 4 || !strings.HasSuffix(err.Error(), "; and 3 more") {
		t.Errorf("want eight problems (four of them sizes) and a count: %v", err)
	}
}

func TestConfigDefaultsFollowTheClass(t *testing.T) {
	llama := parse(t, "llama", set{"num_key_value_heads": absent, "rope_theta": absent, "hidden_act": absent, "architectures": absent})
	if llama.NumKeyValueHeads != 4 || llama.HeadDim != 16 || llama.Rope.Theta != 10000 || llama.Rope.Type != "default" || llama.TieWordEmbeddings ||
		llama.BOSTokenID != -1 || llama.EOSTokenIDs != nil || llama.EmbedScale != 1 || llama.ResidualScale != 1 || llama.LogitScale != 1 ||
		llama.AttentionBias != (model.AttentionBias{}) || llama.MLPBias || llama.QKNorm || llama.Architecture != "LlamaForCausalLM" {
		t.Errorf("llama: %+v", *llama)
	}
	minicpm := parse(t, "minicpm", set{"rope_theta": nil})
	if !minicpm.TieWordEmbeddings || minicpm.EmbedScale != 12 || minicpm.ResidualScale != 1.4/2 || minicpm.LogitScale != 0.5 || minicpm.Rope.Theta != 10000 {
		t.Errorf("minicpm: %+v", *minicpm)
	}
	qwen2 := parse(t, "qwen2", set{"num_key_value_heads": nil})
	if qwen2.AttentionBias != (model.AttentionBias{Q: true, K: true, V: true}) || qwen2.QKNorm || qwen2.NumKeyValueHeads != 4 || qwen2.TieWordEmbeddings {
		t.Errorf("qwen2: %+v", *qwen2)
	}
	qwen3 := parse(t, "qwen3", set{"head_dim": absent})
	if qwen3.HeadDim != 128 || !qwen3.QKNorm || qwen3.AttentionBias != (model.AttentionBias{}) {
		t.Errorf("qwen3: %+v", *qwen3)
	}
	if c := parse(t, "qwen3", set{"head_dim": nil}); c.HeadDim != 16 {
		t.Errorf("qwen3 with a null head_dim: %d, want hidden_size / num_attention_heads = 16", c.HeadDim)
	}
}

func TestConfigSpellings(t *testing.T) {
	c := parse(t, "llama", set{
		"hidden_size": 64.0, "torch_dtype": "torch.float16", "eos_token_id": 2, "bos_token_id": 1, "attention_bias": true, "mlp_bias": true,
		"sliding_window": nil, "quantization_config": nil, "rope_scaling": nil, "head_dim": nil, "num_experts": 0,
	})
	if c.DType != "float16" || !slices.Equal(c.EOSTokenIDs, []int{2}) || c.BOSTokenID != 1 || !c.MLPBias ||
		c.AttentionBias != (model.AttentionBias{Q: true, K: true, V: true, O: true}) || c.HeadDim != 16 {
		t.Errorf("%+v", *c)
	}
	if c := parse(t, "llama", set{"dtype": "bfloat16", "torch_dtype": "float32", "eos_token_id": []int{1, 3}}); c.DType != "bfloat16" || !slices.Equal(c.EOSTokenIDs, []int{1, 3}) {
		t.Errorf("%+v", *c)
	}
}

func TestSlidingWindowsByLayer(t *testing.T) {
	for name, tc := range map[string]struct {
		changes set
		want    []int
	}{
		"off":          {set{"sliding_window": 128, "max_window_layers": 2, "use_sliding_window": false}, []int{0, 0, 0, 0}},
		"null":         {set{"sliding_window": nil, "max_window_layers": 2, "use_sliding_window": true}, []int{0, 0, 0, 0}},
		"from layer 3": {set{"sliding_window": 128, "max_window_layers": 3, "use_sliding_window": true}, []int{0, 0, 0, 128}},
		"beyond":       {set{"sliding_window": 128, "max_window_layers": 28, "use_sliding_window": true}, []int{0, 0, 0, 0}},
		"layer types": {set{
			"sliding_window": 9, "max_window_layers": 0, "use_sliding_window": true,
			"layer_types": []string{"sliding_attention", "full_attention", "sliding_attention", "full_attention"},
		}, []int{9, 0, 9, 0}},
	} {
		if c := parse(t, "qwen2", tc.changes); !slices.Equal(c.SlidingWindows, tc.want) {
			t.Errorf("%s: %v, want %v", name, c.SlidingWindows, tc.want)
		}
	}
}

// Published shapes whose parameter counts are known: they pin head widths, ties and biases at once.
func TestPublishedModelsHaveTheirParameterCounts(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       int64
	}{
		{"MiniCPM5-2B", `{"architectures":["LlamaForCausalLM"],"hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":42,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"vocab_size":130560,"max_position_embeddings":131072,"rms_norm_eps":1e-6,"tie_word_embeddings":false,"rope_theta":5000000,"bos_token_id":0,"eos_token_id":[1,130073]}`, 2_516_756_480},
		{"MiniCPM5-1B", `{"architectures":["LlamaForCausalLM"],"hidden_size":1536,"intermediate_size":4608,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"vocab_size":130560,"max_position_embeddings":131072,"rms_norm_eps":1e-6,"tie_word_embeddings":false,"rope_theta":5000000}`, 1_080_632_832},
	} {
		c, err := model.ParseConfig([]byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Parameters(); got != tc.want {
			t.Errorf("%s: %d parameters, want %d", tc.name, got, tc.want)
		}
	}
}

// Every config.json of the test data parses, or is refused by the name of its architecture.
func TestSharedConfigsParseOrAreRefusedByName(t *testing.T) {
	shared := gputest.Shared(t)
	accepted := []string{"demo-target", "llama3_rope", "llama_minicpm5", "minicpm_mup", "qwen2", "qwen3", "stories260K"}
	refused := map[string]string{
		"demo-draft": "Qwen3DSparkModel", "demo-moe": "GptOssForCausalLM",
		"dspark_gated": "Qwen3DSparkModel", "dspark_none": "Qwen3DSparkModel", "dspark_rnn": "Qwen3DSparkModel", "dspark_vanilla": "Qwen3DSparkModel",
		"gpt_oss": "GptOssForCausalLM", "mixtral": "MixtralForCausalLM", "olmoe": "OlmoeForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
	}
	files, err := filepath.Glob(filepath.Join(shared, "*", "*", "config.json"))
	if err != nil || len(files) < len(accepted)+len(refused) {
		t.Fatalf("found %d config files (%v), want at least %d", len(files), err, len(accepted)+len(refused))
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.ParseConfig(data)
		if slices.Contains(accepted, name) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := fmt.Sprintf("config.json: architecture %s is not supported; supported: %s", refused[name], architectures)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
}

// FuzzConfig wants no panic, and an accepted config to be usable: sane sizes, tables and plans.
func FuzzConfig(f *testing.F) {
	for _, family := range []string{"llama", "minicpm", "qwen2", "qwen3"} {
		f.Add(edited(family, nil))
	}
	f.Add(edited("llama", set{"rope_scaling": set{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}}))
	f.Add(edited("llama", set{"rope_parameters": set{"rope_type": "yarn", "rope_theta": 1e4, "factor": 40, "mscale": 0.7, "mscale_all_dim": 0.7, "truncate": false, "original_max_position_embeddings": 64}}))
	f.Add(edited("minicpm", set{"rope_scaling": set{"type": "longrope", "short_factor": []int{1, 1, 1, 1, 1, 1, 1, 1}, "long_factor": []int{1, 2, 3, 4, 5, 6, 7, 8}, "original_max_position_embeddings": 64}}))
	f.Add(edited("llama", set{"rope_scaling": set{"type": "dynamic", "factor": 4}, "eos_token_id": []int{1, 2}}))
	f.Add(edited("qwen2", set{"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 1, "layer_types": nil}))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := model.ParseConfig(data)
		if err != nil {
			if len(err.Error()) > 8192 {
				t.Errorf("message of %d bytes", len(err.Error()))
			}
			return
		}
		if c.NumAttentionHeads%c.NumKeyValueHeads != 0 || c.HeadDim%2 != 0 || len(c.SlidingWindows) != c.NumHiddenLayers {
			t.Errorf("inconsistent: %+v", *c)
		}
		for _, x := range []float64{c.EmbedScale, c.ResidualScale, c.LogitScale, c.RMSNormEps} {
			if !(x > 0) || math.IsInf(x, 0) {
				t.Errorf("scale %g in %+v", x, *c)
			}
		}
		for _, length := range []int{1, c.MaxPositionEmbeddings, 1 << 24} {
			table, err := c.RopeTable(length)
			if err != nil && length <= c.MaxPositionEmbeddings {
				t.Errorf("accepted, but no table for %d tokens: %v", length, err)
			}
			for i, v := range table.CosSin(2) {
				if math.IsNaN(float64(v)) {
					t.Fatalf("entry %d is NaN: %+v", i, c.Rope)
				}
			}
		}
		if c.Parameters() <= 0 || c.KVBytes(c.MaxPositionEmbeddings, false) <= 0 {
			t.Errorf("sizes overflow: %+v", *c)
		}
		if c.CheckTensors(nil) == nil {
			t.Error("an empty checkpoint passes")
		}
	})
}
