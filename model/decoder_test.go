package model_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
	"flint/model"
	"flint/model/modeltest"
	"flint/shaders"
)

// tiny loads a small seeded model.
func tiny(t testing.TB, d *gpu.Device, opt modeltest.Options) *model.Transformer {
	t.Helper()
	m, err := model.Load(context.Background(), d, modeltest.Checkpoint(7, opt), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

func decoder(t testing.TB, m *model.Transformer, opt model.Options) *model.Decoder {
	t.Helper()
	dec, err := model.NewDecoder(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dec.Release)
	return dec
}

// someIDs are n ids of a vocabulary.
func someIDs(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*31 + i*7 + 3) % vocab)
	}
	return ids
}

// sameBits fails when two results differ in any bit.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: value %d is %x, want %x", what, i, math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	}
}

func TestSecondTurnPrefillsOnlyNewTokens(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "qwen3"})
		dec := decoder(t, m, model.Options{Context: 128, PrefillChunk: 16})
		req := model.Request{Sampling: greedy, MaxTokens: 10}
		prompt := someIDs(37, m.Config.VocabSize)
		first := generate(t, dec, prompt, req)
		turn2 := slices.Concat(prompt, first, someIDs(5, m.Config.VocabSize))
		before := dec.Processed
		reused, err := dec.Prefill(context.Background(), turn2, req)
		if err != nil {
			t.Fatal(err)
		}
		// The last token of an answer is committed but was never processed: it has no keys yet.
		if want := len(prompt) + len(first) - 1; reused != want || dec.Processed-before != len(turn2)-want {
			t.Fatalf("reused %d, processed %d; want %d and %d", reused, dec.Processed-before, want, len(turn2)-want)
		}
		var got []int32
		for len(got) < 10 {
			step, err := dec.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, step.Tokens...)
		}
		fresh := decoder(t, m, model.Options{Context: 128, PrefillChunk: 16})
		if want := generate(t, fresh, turn2, req); !slices.Equal(got, want) {
			t.Fatalf("with reuse %v, without %v", got, want)
		}
	})
}

func TestSeedRepeatsAndAnotherDiffers(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		dec := decoder(t, m, model.Options{Context: 128})
		prompt := someIDs(9, m.Config.VocabSize)
		answer := func(seed uint64) []int32 {
			s := greedy
			s.Temperature, s.TopK, s.TopP, s.MinP, s.RepetitionPenalty, s.PenaltyWindow = 1.5, 60, 0.99, 0.001, 1.1, 16
			return generate(t, dec, prompt, model.Request{Sampling: s, Seed: seed, MaxTokens: 24})
		}
		a, b := answer(1), answer(1)
		if !slices.Equal(a, b) {
			t.Fatalf("seed 1 gave %v, then %v", a, b)
		}
		if c := answer(2); slices.Equal(a, c) {
			t.Fatalf("seeds 1 and 2 both gave %v", a)
		}
	})
}

func TestStopTokenIsFinalWithStepsInFlight(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		for depth := 1; depth <= 3; depth++ {
			dec := decoder(t, m, model.Options{Context: 128, Depth: depth})
			prompt := someIDs(9, m.Config.VocabSize)
			free := generate(t, dec, prompt, model.Request{Sampling: greedy, MaxTokens: 12})
			stop := free[5]
			first := slices.Index(free, stop)
			got := generate(t, dec, prompt, model.Request{Sampling: greedy, MaxTokens: 12, Stops: []int32{stop}})
			if !slices.Equal(got, free[:first+1]) {
				t.Fatalf("depth %d: got %v, want %v", depth, got, free[:first+1])
			}
			if step, err := dec.Next(context.Background()); err != nil || len(step.Tokens) > 0 || !step.Done {
				t.Fatalf("after the end: %+v %v", step, err)
			}
		}
	})
}

func TestContextEndsTheAnswer(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		dec := decoder(t, m, model.Options{Context: 20})
		got := generate(t, dec, someIDs(15, m.Config.VocabSize), model.Request{Sampling: greedy})
		if len(got) != 5 || len(dec.IDs()) != 20 {
			t.Fatalf("%d tokens, %d in all, want 5 and 20", len(got), len(dec.IDs()))
		}
		_, err := dec.Prefill(context.Background(), someIDs(20, m.Config.VocabSize), model.Request{Sampling: greedy})
		if !errors.Is(err, model.ErrContextFull) || !strings.Contains(err.Error(), "20 tokens") {
			t.Fatalf("a full context: %v", err)
		}
	})
}

func TestRequestsAreChecked(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	m := tiny(t, d, modeltest.Options{Family: "llama"})
	dec := decoder(t, m, model.Options{Context: 64})
	bad := greedy
	bad.Temperature = float32(math.NaN())
	for _, c := range []struct {
		want string
		ids  []int32
		req  model.Request
	}{
		{"no tokens", nil, model.Request{Sampling: greedy}},
		{"vocabulary has", []int32{int32(m.Config.VocabSize)}, model.Request{Sampling: greedy}},
		{"vocabulary has", []int32{1, -1}, model.Request{Sampling: greedy}},
		{"stop tokens", []int32{1}, model.Request{Sampling: greedy, Stops: make([]int32, shaders.MaxStops+1)}},
		{"emperature", []int32{1}, model.Request{Sampling: bad}},
	} {
		if _, err := dec.Prefill(context.Background(), c.ids, c.req); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want an error with %q", err, c.want)
		}
	}
}

func TestCancelledAnswerLeavesTheDecoderUsable(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "qwen2"})
		dec := decoder(t, m, model.Options{Context: 128, PrefillChunk: 8})
		prompt := someIDs(40, m.Config.VocabSize)
		req := model.Request{Sampling: greedy, MaxTokens: 12}
		want := generate(t, dec, prompt, req)
		dec.Truncate(0)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := dec.Prefill(ctx, prompt, req); err == nil {
			if _, err = dec.Next(ctx); d.Info.Vendor != "flint" && !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled: %v", err)
			}
		}
		if got := generate(t, dec, prompt, req); !slices.Equal(got, want) {
			t.Fatalf("after a cancelled answer %v, want %v", got, want)
		}
		if _, err := dec.Prefill(context.Background(), prompt, req); err != nil {
			t.Fatal(err)
		}
		if _, err := dec.Next(context.Background()); err != nil { // steps are in flight now
			t.Fatal(err)
		}
		if got := generate(t, dec, prompt[:33], req); len(got) != 12 {
			t.Fatalf("got %v", got)
		}
		if got := generate(t, dec, prompt, req); !slices.Equal(got, want) {
			t.Fatalf("after an abandoned answer %v, want %v", got, want)
		}
	})
}

// TestTurnsAndStepsDoNotGrow: GPU bytes are constant over 50 turns, and 1,000 steps allocate no more in the end than in
// the beginning.
func TestTurnsAndStepsDoNotGrow(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama", Config: map[string]any{"max_position_embeddings": 2048}})
		dec := decoder(t, m, model.Options{Context: 1200, PrefillChunk: 16})
		req := model.Request{Sampling: greedy, MaxTokens: 4}
		ids := someIDs(5, m.Config.VocabSize)
		bytes := int64(0)
		for turn := range 50 {
			ids = append(ids, generate(t, dec, ids, req)...)
			ids = append(ids, someIDs(3+turn%5, m.Config.VocabSize)...)
			if turn == 5 {
				bytes = d.Allocated()
			}
		}
		if now := d.Allocated(); now != bytes {
			t.Fatalf("GPU bytes went from %d to %d over 45 turns", bytes, now)
		}
		dec.Truncate(0)
		if _, err := dec.Prefill(context.Background(), ids[:5], model.Request{Sampling: greedy}); err != nil {
			t.Fatal(err)
		}
		var heap [2]uint64
		for i := range 1000 {
			if _, err := dec.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
			if i == 299 || i == 999 {
				var ms runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&ms)
				heap[i/999] = ms.HeapAlloc
			}
		}
		if grown := int64(heap[1]) - int64(heap[0]); grown > 512<<10 {
			t.Fatalf("the heap grew by %d bytes over 700 steps", grown)
		}
	})
}

// TestHalfPrecisionCacheTakesHalf: an f16 cache is half of an f32 one and gives nearly the same logits.
func TestHalfPrecisionCacheTakesHalf(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	m := tiny(t, d, modeltest.Options{Family: "llama"})
	var sizes [2]int64
	for i, kv := range []gpu.DType{gpu.F32, gpu.F16} {
		cache, err := model.NewKVCache(d, m.Config, 100, kv)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range append(cache.K, cache.V...) {
			sizes[i] += k.Bytes()
		}
		cache.Release()
	}
	if sizes[0] != 2*sizes[1] || sizes[0] != m.Config.KVBytes(100+shaders.TokenSlack, false) {
		t.Fatalf("f32 %d, f16 %d bytes", sizes[0], sizes[1])
	}
}

// TestLoadRefusesByName: what is wrong with a folder is said with the names of the parts.
func TestLoadRefusesByName(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	ctx := context.Background()
	for _, c := range []struct {
		name, want string
		change     func(f map[string][]byte)
	}{
		{"no config", "config.json", func(f map[string][]byte) { delete(f, "config.json") }},
		{"endless config", "at most", func(f map[string][]byte) { f["config.json"] = append(f["config.json"], make([]byte, 2<<20)...) }},
		{"no weights", "model.safetensors", func(f map[string][]byte) { delete(f, "model.safetensors") }},
		{"truncated", "model.safetensors", func(f map[string][]byte) {
			f["model.safetensors"] = f["model.safetensors"][:len(f["model.safetensors"])-8]
		}},
		{"another architecture", "BertModel", func(f map[string][]byte) {
			f["config.json"] = []byte(strings.Replace(string(f["config.json"]), "LlamaForCausalLM", "BertModel", 1))
		}},
	} {
		fsys := modeltest.Checkpoint(3, modeltest.Options{Family: "llama"})
		files := map[string][]byte{}
		for name, f := range fsys {
			files[name] = f.Data
		}
		c.change(files)
		for name := range fsys {
			if data, ok := files[name]; ok {
				fsys[name].Data = data
			} else {
				delete(fsys, name)
			}
		}
		before := d.Allocated()
		_, err := model.Load(ctx, d, fsys, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to name %s", c.name, err, c.want)
		}
		if d.Allocated() != before {
			t.Errorf("%s: a failed load keeps %d bytes", c.name, d.Allocated()-before)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	before := d.Allocated()
	if _, err := model.Load(cancelled, d, modeltest.Checkpoint(3, modeltest.Options{Family: "llama"}), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled load: %v", err)
	}
	if d.Allocated() != before {
		t.Error("a cancelled load keeps its buffers")
	}
}
