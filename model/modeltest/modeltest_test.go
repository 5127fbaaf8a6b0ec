package modeltest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model/modeltest"
	"flint/model/safetensors"
)

// The reference's float64 forward pass against transformers' numbers proves every field of Config that a forward pass
// reads: scales, biases, norms, rope, ties, head sizes.
func TestForwardMatchesGolden(t *testing.T) {
	cases := []string{"reference/llama_minicpm5", "reference/llama3_rope", "reference/qwen3", "reference/qwen2", "reference/minicpm_mup", "models/demo-target"}
	for _, name := range cases {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			folder := os.DirFS(gputest.Shared(t, strings.Split(name, "/")...))
			ref, err := modeltest.Open(folder)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := safetensors.OpenFile(folder, "golden.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			defer golden.Close()
			prompts := 0
			for i := range 3 {
				prompt := fmt.Sprintf("prompt%d", i)
				if _, ok := golden.Lookup(prompt + ".ids"); !ok {
					continue
				}
				prompts++
				ids, err := golden.Int32s(prompt + ".ids")
				if err != nil {
					t.Fatal(err)
				}
				logits, hidden, err := ref.Forward(ints(ids), ref.Config.MaxPositionEmbeddings)
				if err != nil {
					t.Fatal(err)
				}
				compare(t, golden, prompt+".logits", logits, 3e-5)
				for l := range hidden {
					if key := fmt.Sprintf("%s.hidden%d", prompt, l); slices.Contains(golden.Names(), key) {
						compare(t, golden, key, hidden[l], 1e-5)
					}
				}
			}
			if prompts == 0 {
				t.Fatal("golden.safetensors has no prompt")
			}
		})
	}
}

// compare wants every element within tolerance of the golden tensor, relative to that tensor's largest element.
func compare(t *testing.T, golden *safetensors.Checkpoint, name string, got [][]float64, tolerance float64) {
	t.Helper()
	want, err := golden.Float32s(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != len(got)*len(got[0]) {
		t.Fatalf("%s: golden has %d elements, computed %d x %d", name, len(want), len(got), len(got[0]))
	}
	largest, worst := 0.0, 0.0
	for i, w := range want {
		largest = math.Max(largest, math.Abs(float64(w)))
		worst = math.Max(worst, math.Abs(float64(w)-got[i/len(got[0])][i%len(got[0])]))
	}
	if !(worst <= tolerance*largest) {
		t.Errorf("%s: largest difference %.3g of %.3g, tolerance %g relative", name, worst, largest, tolerance)
	}
	t.Logf("%s: largest relative difference %.2g", name, worst/largest)
}

func ints(ids []int32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

var variants = map[string]modeltest.Options{
	"llama":          {},
	"llama f16":      {DType: safetensors.F16},
	"llama sharded":  {DType: safetensors.F32, Shards: 3},
	"llama biases":   {Config: map[string]any{"attention_bias": true, "mlp_bias": true}},
	"llama tied":     {Config: map[string]any{"tie_word_embeddings": true}},
	"minicpm":        {Family: "minicpm"},
	"minicpm untied": {Family: "minicpm", Config: map[string]any{"tie_word_embeddings": false}},
	"qwen2":          {Family: "qwen2"},
	"qwen2 window":   {Family: "qwen2", Config: map[string]any{"use_sliding_window": true, "sliding_window": 5, "max_window_layers": 2}},
	"qwen3":          {Family: "qwen3"},
	"qwen3 yarn": {Family: "qwen3", Config: map[string]any{"rope_parameters": map[string]any{
		"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32,
	}}},
}

// A model whose logits are flat, or which repeats one token, would pass tests that a broken engine also passes.
func TestCheckpointsAreLively(t *testing.T) {
	for name, opts := range variants {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				ref, err := modeltest.Open(modeltest.Checkpoint(seed, opts))
				if err != nil {
					t.Fatal(err)
				}
				ids := []int{0, 40, 77}
				seen := map[int]bool{}
				for range 16 {
					logits, _, err := ref.Forward(ids, 64)
					if err != nil {
						t.Fatal(err)
					}
					last := logits[len(logits)-1]
					if s := spread(last); s < 1.5 || s > 6 {
						t.Errorf("seed %d: logits spread by %.2f after %d tokens, want about 3", seed, s, len(ids))
					}
					id := argmax(last)
					seen[id] = true
					ids = append(ids, id)
				}
				if len(seen) < 6 {
					t.Errorf("seed %d: 16 greedy tokens hold only %d different ones: %v", seed, len(seen), ids[3:])
				}
			}
		})
	}
}

func TestWindowAndRopeTypeChangeTheAnswer(t *testing.T) {
	ids := []int{0, 40, 77, 123, 90, 33, 210, 64, 8, 150}
	last := func(opts modeltest.Options) []float64 {
		ref, err := modeltest.Open(modeltest.Checkpoint(1, opts))
		if err != nil {
			t.Fatal(err)
		}
		logits, _, err := ref.Forward(ids, 64)
		if err != nil {
			t.Fatal(err)
		}
		return logits[len(ids)-1]
	}
	for _, pair := range [][2]string{{"qwen2", "qwen2 window"}, {"qwen3", "qwen3 yarn"}} {
		a, b := last(variants[pair[0]]), last(variants[pair[1]])
		differs := 0.0
		for i := range a {
			differs = math.Max(differs, math.Abs(a[i]-b[i]))
		}
		if differs < 0.05 {
			t.Errorf("%s and %s differ by only %g", pair[0], pair[1], differs)
		}
	}
}

func TestCheckpointIsRepeatableAndSeeded(t *testing.T) {
	weights := func(seed uint64) []byte {
		return modeltest.Checkpoint(seed, modeltest.Options{})["model.safetensors"].Data
	}
	if !bytes.Equal(weights(1), weights(1)) {
		t.Error("the same seed gave other weights")
	}
	if bytes.Equal(weights(1), weights(2)) {
		t.Error("another seed gave the same weights")
	}
}

func TestShardsHoldTheSameTensorsAsOneFile(t *testing.T) {
	read := func(shards int) map[string][]float32 {
		c, err := safetensors.Open(modeltest.Checkpoint(5, modeltest.Options{Shards: shards}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all := map[string][]float32{}
		for _, name := range c.Names() {
			if all[name], err = c.Float32s(name); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	one, four := read(1), read(4)
	if !maps.EqualFunc(one, four, slices.Equal) {
		t.Error("four shards hold other tensors than one file")
	}
}

func TestTokenizerFilesAreWhole(t *testing.T) {
	for _, vocab := range []int{264, 280, 320, 400} {
		folder := modeltest.Checkpoint(0, modeltest.Options{Config: map[string]any{"vocab_size": vocab}})
		data, err := fs.ReadFile(folder, "tokenizer.json")
		if err != nil {
			t.Fatal(err)
		}
		var tok struct {
			Model struct {
				Vocab  map[string]int
				Merges []string
			}
		}
		if err := json.Unmarshal(data, &tok); err != nil {
			t.Fatal(err)
		}
		ids := slices.Sorted(maps.Values(tok.Model.Vocab))
		for i, id := range ids {
			if i != id || id >= vocab {
				t.Fatalf("vocab_size %d: id %d in place %d; ids must be 0..n-1 and below vocab_size", vocab, id, i)
			}
		}
		for _, merge := range tok.Model.Merges {
			left, right, _ := strings.Cut(merge, " ")
			for _, piece := range []string{left, right, left + right} {
				if _, ok := tok.Model.Vocab[piece]; !ok {
					t.Errorf("vocab_size %d: merge %q needs %q, which has no id", vocab, merge, piece)
				}
			}
		}
		var cfg struct {
			ChatTemplate string `json:"chat_template"`
		}
		data, err = fs.ReadFile(folder, "tokenizer_config.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &cfg); err != nil || !strings.Contains(cfg.ChatTemplate, "<|im_start|>") {
			t.Errorf("tokenizer_config.json: no ChatML template (%v)", err)
		}
	}
}

func TestImpossibleOptionsPanic(t *testing.T) {
	for name, opts := range map[string]modeltest.Options{
		"family": {Family: "gemma"},
		"dtype":  {DType: safetensors.I8},
		"config": {Config: map[string]any{"num_key_value_heads": 3}},
		"vocab":  {Config: map[string]any{"vocab_size": 100}},
		"shards": {Shards: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			modeltest.Checkpoint(0, opts)
		})
	}
}

func spread(x []float64) float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
		square += v * v / float64(len(x))
	}
	return math.Sqrt(square - mean*mean)
}

func argmax(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
