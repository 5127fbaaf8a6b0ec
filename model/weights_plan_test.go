package model_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model"
	"flint/model/safetensors"
)

func TestTensorsEqualTheCheckpoints(t *testing.T) {
	for _, folder := range []string{
		"reference/llama_minicpm5", "reference/llama3_rope", "reference/qwen3", "reference/qwen2", "reference/minicpm_mup",
		"models/demo-target", "models/stories260K",
	} {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			fsys := os.DirFS(gputest.Shared(t, strings.Split(folder, "/")...))
			data, err := os.ReadFile(gputest.Shared(t, append(strings.Split(folder, "/"), "config.json")...))
			if err != nil {
				t.Fatal(err)
			}
			c, err := model.ParseConfig(data)
			if err != nil {
				t.Fatal(err)
			}
			checkpoint, err := safetensors.Open(fsys)
			if err != nil {
				t.Fatal(err)
			}
			defer checkpoint.Close()
			have, elements := map[string][]int{}, int64(0)
			for _, name := range checkpoint.Names() {
				tensor, _ := checkpoint.Lookup(name)
				have[name] = tensor.Shape
				elements += tensor.Size / int64(tensor.DType.Bytes())
			}
			if err := c.CheckTensors(have); err != nil {
				t.Error(err)
			}
			if want := required(c); !maps.EqualFunc(have, want, slices.Equal) {
				t.Errorf("file has %d tensors, plan %d; the sets differ", len(have), len(want))
			}
			if c.Parameters() != elements {
				t.Errorf("Parameters() = %d, the file has %d elements", c.Parameters(), elements)
			}
			t.Logf("%d tensors, %d parameters", len(have), elements)
		})
	}
}

func required(c *model.Config) map[string][]int {
	have := map[string][]int{}
	for _, spec := range c.Tensors() {
		if spec.Role != model.RoleIgnored {
			have[spec.Name] = spec.Shape
		}
	}
	return have
}

func TestBiasesAndNormsFollowTheConfig(t *testing.T) {
	names := func(family string, changes set) []string {
		var found []string
		for _, name := range slices.Sorted(maps.Keys(required(parse(t, family, changes)))) {
			rest, layer0 := strings.CutPrefix(name, "model.layers.0.")
			if layer0 && (strings.HasSuffix(name, ".bias") || strings.Contains(name, "_norm.")) {
				found = append(found, rest)
			}
		}
		return found
	}
	qkvo := []string{"self_attn.k_proj.bias", "self_attn.o_proj.bias", "self_attn.q_proj.bias", "self_attn.v_proj.bias"}
	for _, tc := range []struct {
		family  string
		changes set
		want    []string
	}{
		{"llama", nil, nil},
		{"llama", set{"attention_bias": true}, qkvo},
		{"llama", set{"mlp_bias": true}, []string{"mlp.down_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias"}},
		{"minicpm", set{"attention_bias": true, "mlp_bias": true}, qkvo},
		{"qwen2", set{"attention_bias": false}, []string{"self_attn.k_proj.bias", "self_attn.q_proj.bias", "self_attn.v_proj.bias"}},
		{"qwen3", nil, []string{"self_attn.k_norm.weight", "self_attn.q_norm.weight"}},
	} {
		if got := names(tc.family, tc.changes); !slices.Equal(got, tc.want) {
			t.Errorf("%s %v: %v, want %v", tc.family, tc.changes, got, tc.want)
		}
	}
}

func TestCheckTensorsNamesEveryFault(t *testing.T) {
	c := parse(t, "llama", set{"num_hidden_layers": 1})
	have := required(c)
	delete(have, "model.norm.weight")
	delete(have, "lm_head.weight")
	have["model.layers.0.mlp.up_proj.weight"] = []int{64, 160}
	have["model.layers.1.mlp.up_proj.weight"] = []int{160, 64}
	have["evil\nname"] = nil
	err := c.CheckTensors(have)
	want := "the checkpoint's tensors do not fit its config.json (LlamaForCausalLM): " +
		"2 missing: model.norm.weight [64], lm_head.weight [320 64]; " +
		"1 of another shape: model.layers.0.mlp.up_proj.weight is [64 160], want [160 64]; " +
		`2 not part of the architecture: "evil\nname" [], model.layers.1.mlp.up_proj.weight [160 64]`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Each required tensor taken away alone, each misshaped alone: no tensor is checked in vain.
func TestEveryTensorMatters(t *testing.T) {
	for _, family := range []string{"llama", "minicpm", "qwen2", "qwen3"} {
		c := parse(t, family, set{"num_hidden_layers": 2})
		all := required(c)
		if err := c.CheckTensors(all); err != nil {
			t.Fatalf("%s: %v", family, err)
		}
		for name, shape := range all {
			have := maps.Clone(all)
			delete(have, name)
			if err := c.CheckTensors(have); err == nil || !strings.Contains(err.Error(), "1 missing: "+name+" ") {
				t.Errorf("%s without %s: %v", family, name, err)
			}
			have[name] = append(slices.Clone(shape), 1)
			if err := c.CheckTensors(have); err == nil || !strings.Contains(err.Error(), "1 of another shape: "+name+" ") {
				t.Errorf("%s with a reshaped %s: %v", family, name, err)
			}
		}
	}
}

func TestKnownExtrasAreTolerated(t *testing.T) {
	c := parse(t, "minicpm", nil) // tied
	have := required(c)
	have["lm_head.weight"] = []int{320, 64}
	have["model.rotary_emb.inv_freq"] = []int{8}
	have["model.layers.3.self_attn.rotary_emb.inv_freq"] = []int{8}
	if err := c.CheckTensors(have); err != nil {
		t.Error(err)
	}
	have["lm_head.weight"] = []int{321, 64}
	if err := c.CheckTensors(have); err == nil {
		t.Error("a tied head of another shape than the embedding was accepted")
	}
	if c.Parameters() != func() (n int64) {
		for _, shape := range required(c) {
			size := int64(1)
			for _, dim := range shape {
				size *= int64(dim)
			}
			n += size
		}
		return n
	}() {
		t.Error("Parameters counts tensors that are ignored")
	}
}

func TestCheckTensorsCapsItsList(t *testing.T) {
	c := parse(t, "llama", set{"num_hidden_layers": 1000})
	have := map[string][]int{}
	for i := range 5000 {
		have[fmt.Sprintf("junk.%d", i)] = []int{1}
	}
	err := c.CheckTensors(have)
	if err == nil || len(err.Error()) > 3000 {
		t.Fatalf("message of %d bytes", len(fmt.Sprint(err)))
	}
	for _, part := range []string{"9003 missing: ", "and 8991 more", "5000 not part of the architecture: ", "and 4988 more"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
}

func TestKVBytes(t *testing.T) {
	c := parse(t, "llama", nil) // 4 layers, 2 KV heads of 16
	for _, tc := range []struct {
		context int
		f16     bool
		want    int64
	}{
		{1, false, 4 * 2 * 2 * 16 * 4},
		{1, true, 4 * 2 * 2 * 16 * 2},
		{512, true, 512 * 512},
		{0, true, 0},
		{-5, true, 0},
		{math.MaxInt, false, math.MaxInt64},
	} {
		if got := c.KVBytes(tc.context, tc.f16); got != tc.want {
			t.Errorf("KVBytes(%d, %v) = %d, want %d", tc.context, tc.f16, got, tc.want)
		}
	}
}
