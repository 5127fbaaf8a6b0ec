package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
	"flint/model"
	"flint/model/safetensors"
	"flint/model/sample"
)

// requiredFamilies are the reference families this package has to pass; another folder in the same layout is run when its
// architecture is supported.
var requiredFamilies = []string{"llama_minicpm5", "llama3_rope", "qwen3", "qwen2", "minicpm_mup"}

// greedy takes the most likely token.
var greedy = sample.Config{TopP: 1, RepetitionPenalty: 1}

// TestReference compares whole models with golden numbers made by other people's code (transformers, float32).
func TestReference(t *testing.T) {
	root := gputest.Reference(t)
	folders, err := filepath.Glob(filepath.Join(root, "*", "golden.safetensors"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no folder with golden.safetensors in %s (%v)", root, err)
	}
	names := slices.Clone(requiredFamilies)
	for _, f := range folders {
		if name := filepath.Base(filepath.Dir(f)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if only := os.Getenv("FLINT_REFERENCE_ONLY"); only != "" {
		names = strings.Split(only, ",")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			dir := os.DirFS(filepath.Join(root, name))
			text, err := fs.ReadFile(dir, "config.json")
			if err != nil {
				if os.Getenv("FLINT_REFERENCE") != "" && slices.Contains(requiredFamilies, name) {
					t.Skipf("not among the cases of FLINT_REFERENCE: %v", err)
				}
				t.Fatal(err)
			}
			if _, err := model.ParseConfig(text); err != nil && !slices.Contains(requiredFamilies, name) {
				t.Skipf("not a dense model of this package: %v", err)
			}
			gputest.RunModels(t, func(t *testing.T, d *gpu.Device) { compareGolden(t, d, dir) })
		})
	}
}

// compareGolden checks logits, hidden states, greedy ids, chunkings and the half-precision cache of one folder.
func compareGolden(t *testing.T, d *gpu.Device, dir fs.FS) {
	golden, err := safetensors.OpenFile(dir, "golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	if _, ok := golden.Lookup("prompt0.ids"); !ok {
		t.Skip("its golden numbers are not a model's")
	}
	m, err := model.Load(context.Background(), d, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	for _, kv := range []gpu.DType{gpu.F32, gpu.F16} {
		logitTolerance, hiddenTolerance, gap := 3e-5, 1e-5, float32(1e-3)
		if kv == gpu.F16 {
			logitTolerance, hiddenTolerance, gap = 3e-3, 3e-3, 0.05
		}
		dec, err := model.NewDecoder(m, model.Options{Context: 512, KV: kv, PrefillChunk: 160, LogitRows: 160, Taps: tappedLayers(golden)})
		if err != nil {
			t.Fatal(err)
		}
		worstLogits, worstHidden := 0.0, 0.0
		for i := 0; ; i++ {
			prompt := fmt.Sprintf("prompt%d.", i)
			if _, ok := golden.Lookup(prompt + "ids"); !ok {
				break
			}
			ids := ints(t, golden, prompt+"ids")
			logits, taps, err := dec.Forward(context.Background(), ids, 0, len(ids))
			if err != nil {
				t.Fatal(err)
			}
			worstLogits = max(worstLogits, closeTo(t, golden, prompt+"logits", logits, logitTolerance))
			for layer, got := range taps {
				name := fmt.Sprintf("%shidden%d", prompt, layer)
				if _, ok := golden.Lookup(name); ok {
					worstHidden = max(worstHidden, closeTo(t, golden, name, got, hiddenTolerance))
				}
			}
			if kv == gpu.F32 {
				compareChunks(t, dec, ids, logits)
			}
			compareGreedy(t, dec, ids, ints(t, golden, prompt+"greedy"), floats(t, golden, prompt+"greedy_gap"), gap)
		}
		t.Logf("KV %v: largest error of logits %.2g (tolerance %.0e), of hidden states %.2g (%.0e)", kv, worstLogits, logitTolerance, worstHidden, hiddenTolerance)
		dec.Release()
	}
}

// compareChunks runs the prompt in other chunkings: within 1e-5 of each other, and bit-equal on repeat.
func compareChunks(t *testing.T, dec *model.Decoder, ids []int32, whole []float32) {
	t.Helper()
	for _, chunk := range []int{1, 7, 64, len(ids)} {
		if chunk > len(ids) || chunk == 1 && len(ids) > 20 && testing.Short() {
			continue
		}
		first, _, err := dec.Forward(context.Background(), ids, 0, chunk)
		if err != nil {
			t.Fatal(err)
		}
		gputest.AllClose(t, fmt.Sprintf("chunks of %d", chunk), first, whole, 1e-5)
		again, _, err := dec.Forward(context.Background(), ids, 0, chunk)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if math.Float32bits(first[i]) != math.Float32bits(again[i]) {
				t.Fatalf("chunks of %d: logit %d is %v, then %v", chunk, i, first[i], again[i])
			}
		}
	}
}

// compareGreedy generates greedily. Where the golden gap between the two best tokens is below minGap another order of
// summation may pick the other one; the sequence then goes on from the golden token.
func compareGreedy(t *testing.T, dec *model.Decoder, prompt, want []int32, gaps []float32, minGap float32) {
	t.Helper()
	ctx := context.Background()
	for at := 0; at < len(want); {
		if _, err := dec.Prefill(ctx, slices.Concat(prompt, want[:at]), model.Request{MaxTokens: len(want) - at, Sampling: greedy}); err != nil {
			t.Fatal(err)
		}
		for at < len(want) {
			step, err := dec.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(step.Tokens) != 1 {
				t.Fatalf("token %d: step of %d tokens, done %v", at, len(step.Tokens), step.Done)
			}
			same := step.Tokens[0] == want[at]
			if !same && gaps[at] > minGap {
				t.Fatalf("greedy token %d is %d, want %d (gap %v)", at, step.Tokens[0], want[at], gaps[at])
			}
			at++
			if !same {
				break
			}
		}
	}
}

func tappedLayers(golden *safetensors.Checkpoint) []int {
	var layers []int
	for _, name := range golden.Names() {
		var l int
		if _, err := fmt.Sscanf(name, "prompt0.hidden%d", &l); err == nil {
			layers = append(layers, l)
		}
	}
	return layers
}

// closeTo compares with a golden tensor and returns the largest error as a share of its largest value.
func closeTo(t *testing.T, golden *safetensors.Checkpoint, name string, got []float32, tolerance float64) float64 {
	t.Helper()
	want := floats(t, golden, name)
	gputest.AllClose(t, name, got, want, tolerance)
	worst, _ := gputest.MaxError(got, want)
	return worst
}

func floats(t *testing.T, c *safetensors.Checkpoint, name string) []float32 {
	t.Helper()
	v, err := c.Float32s(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ints(t *testing.T, c *safetensors.Checkpoint, name string) []int32 {
	t.Helper()
	v, err := c.Int32s(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestStories260KGreedy(t *testing.T) {
	dir := gputest.Shared(t, "models", "stories260K")
	text, err := os.ReadFile(filepath.Join(dir, "golden_greedy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		PromptIDs []int32 `json:"prompt_ids"`
		GreedyIDs []int32 `json:"greedy_ids"`
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m, err := model.Load(context.Background(), d, os.DirFS(dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		dec, err := model.NewDecoder(m, model.Options{Context: 256})
		if err != nil {
			t.Fatal(err)
		}
		defer dec.Release()
		got := generate(t, dec, golden.PromptIDs, model.Request{MaxTokens: len(golden.GreedyIDs), Sampling: greedy})
		if !slices.Equal(got, golden.GreedyIDs) {
			t.Fatalf("got %v\nwant %v", got, golden.GreedyIDs)
		}
		t.Logf("%d of %d ids equal", len(got), len(golden.GreedyIDs))
	})
}

func TestDemoTargetGolden(t *testing.T) {
	dir := os.DirFS(gputest.Shared(t, "models", "demo-target"))
	golden, err := safetensors.OpenFile(dir, "golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m, err := model.Load(context.Background(), d, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		ids := ints(t, golden, "prompt0.ids")
		dec, err := model.NewDecoder(m, model.Options{Context: 256, PrefillChunk: 64, LogitRows: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer dec.Release()
		logits, _, err := dec.Forward(context.Background(), ids, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		worst := closeTo(t, golden, "prompt0.logits", logits, 3e-5)
		compareGreedy(t, dec, ids, ints(t, golden, "prompt0.greedy"), floats(t, golden, "prompt0.greedy_gap"), 1e-3)
		t.Logf("largest error of logits %.2g", worst)
	})
}

// generate prefills and collects a whole answer.
func generate(t testing.TB, dec *model.Decoder, ids []int32, req model.Request) []int32 {
	t.Helper()
	if _, err := dec.Prefill(context.Background(), ids, req); err != nil {
		t.Fatal(err)
	}
	var out []int32
	for {
		step, err := dec.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, step.Tokens...)
		if step.Done {
			return out
		}
	}
}
