package model_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
	"flint/model"
	"flint/model/modeltest"
	"flint/model/sample"
)

// TestCancelAnywhereThenContinue cancels a prefill, and then an answer, at every point where they look at their context.
// Steps can be asked for again and lose nothing; after a prefill that failed nothing goes on by itself; the next prefill
// answers as a fresh decoder does.
func TestCancelAnywhereThenContinue(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "qwen3"})
		opt := model.Options{Context: 96, PrefillChunk: 8, Depth: 3}
		prompt, other := someIDs(29, m.Config.VocabSize), someIDs(40, m.Config.VocabSize)[9:]
		req := model.Request{Sampling: greedy, MaxTokens: 7}
		want := generate(t, decoder(t, m, opt), prompt, req)
		dec := decoder(t, m, opt)
		for looks, cancelled := 0, true; cancelled; looks++ {
			ctx := gputest.CancelAfter(looks)
			_, err := dec.Prefill(ctx, prompt, req)
			cancelled = err != nil
			if cancelled {
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("look %d: %v", looks, err)
				}
				if step, err := dec.Next(context.Background()); err != nil || !step.Done || len(step.Tokens) > 0 {
					t.Fatalf("look %d: a cancelled prefill goes on: %+v %v", looks, step, err)
				}
				if looks%2 == 1 { // another prompt in between must not leave traces
					generate(t, dec, other, req)
				}
				if _, err := dec.Prefill(context.Background(), prompt, req); err != nil {
					t.Fatal(err)
				}
			}
			if got := finish(t, dec, looks); !slices.Equal(got, want) {
				t.Fatalf("cancelled at look %d: %v, want %v", looks, got, want)
			}
			dec.Truncate(looks % 30)
			if looks > 200 {
				t.Fatal("a prefill looks at its context without end")
			}
		}
	})
}

// finish takes an answer to its end. Each step is first asked for with a context that is cancelled after some looks.
func finish(t *testing.T, dec *model.Decoder, looks int) []int32 {
	t.Helper()
	var out []int32
	for i := 0; ; i++ {
		step, err := dec.Next(gputest.CancelAfter((looks + i) % 4))
		if errors.Is(err, context.Canceled) {
			step, err = dec.Next(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, step.Tokens...)
		if step.Done {
			return out
		}
	}
}

// TestRefusedRequestEndsNothingHalfway: a request that is refused leaves the answer before it as it was.
func TestRefusedRequestEndsNothingHalfway(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		req := model.Request{Sampling: greedy, MaxTokens: 9}
		prompt := someIDs(11, m.Config.VocabSize)
		want := generate(t, decoder(t, m, model.Options{Context: 64}), prompt, req)
		for name, bad := range map[string]model.Request{
			"too many stops": {Sampling: greedy, Stops: make([]int32, 99)},
			"bad sampling":   {Sampling: sample.Config{}},
			"negative count": {Sampling: greedy, MaxTokens: -1},
		} {
			dec := decoder(t, m, model.Options{Context: 64})
			if _, err := dec.Prefill(context.Background(), prompt, req); err != nil {
				t.Fatal(err)
			}
			step, err := dec.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(step.Tokens)
			if _, err := dec.Prefill(context.Background(), prompt, bad); err == nil {
				t.Fatalf("%s: accepted", name)
			}
			for !step.Done {
				if step, err = dec.Next(context.Background()); err != nil {
					t.Fatal(err)
				}
				got = append(got, step.Tokens...)
			}
			if !slices.Equal(got, want) || !slices.Equal(dec.IDs(), slices.Concat(prompt, want)) {
				t.Fatalf("%s in the middle of an answer: %v, want %v", name, got, want)
			}
		}
	})
}

// TestTruncateEndsTheAnswer: what is forgotten does not come back from steps in flight.
func TestTruncateEndsTheAnswer(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		opt := model.Options{Context: 64, Depth: 4, PrefillChunk: 8}
		dec := decoder(t, m, opt)
		prompt := someIDs(21, m.Config.VocabSize)
		req := model.Request{Sampling: greedy, MaxTokens: 12}
		want := generate(t, decoder(t, m, opt), prompt, req)
		for _, n := range []int{0, 1, 20, 21, 22, 23, 1000, -1} {
			if _, err := dec.Prefill(context.Background(), prompt, req); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := dec.Next(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			before := slices.Clone(dec.IDs())
			dec.Truncate(n)
			if kept := max(0, min(n, len(before))); !slices.Equal(dec.IDs(), before[:kept]) {
				t.Fatalf("Truncate(%d): %d ids, want %d", n, len(dec.IDs()), kept)
			}
			if n < len(before) {
				if step, err := dec.Next(context.Background()); err != nil || !step.Done || len(step.Tokens) > 0 {
					t.Fatalf("after Truncate(%d): %+v %v", n, step, err)
				}
			}
			if got := generate(t, dec, prompt, req); !slices.Equal(got, want) {
				t.Fatalf("after Truncate(%d): %v, want %v", n, got, want)
			}
		}
	})
}

// TestNoStepIsWasted: with one step in flight an answer of n tokens takes the prompt and n-1 rows.
func TestNoStepIsWasted(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	m := tiny(t, d, modeltest.Options{Family: "llama"})
	for depth := 1; depth <= 4; depth++ {
		for _, n := range []int{1, 2, 5} {
			dec := decoder(t, m, model.Options{Context: 64, Depth: depth})
			if got := generate(t, dec, someIDs(11, m.Config.VocabSize), model.Request{Sampling: greedy, MaxTokens: n}); len(got) != n {
				t.Fatalf("depth %d: %d tokens, want %d", depth, len(got), n)
			}
			if want := 11 + n - 1; dec.Processed != want {
				t.Errorf("depth %d: %d rows for a prompt of 11 and %d tokens, want %d", depth, dec.Processed, n, want)
			}
		}
	}
}

// TestLongestPromptAndShortestContext walks the edges of the context.
func TestLongestPromptAndShortestContext(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "qwen2"})
		for _, positions := range []int{2, 3, 7, 8, 9} {
			for _, chunk := range []int{1, 2, 8, 512} {
				dec := decoder(t, m, model.Options{Context: positions, PrefillChunk: chunk, Depth: 3})
				for n := 1; n <= positions+1; n++ {
					_, err := dec.Prefill(context.Background(), someIDs(n, m.Config.VocabSize), model.Request{Sampling: greedy})
					if n >= positions {
						if !errors.Is(err, model.ErrContextFull) {
							t.Fatalf("%d tokens in a context of %d: %v", n, positions, err)
						}
						continue
					}
					got := generate(t, dec, someIDs(n, m.Config.VocabSize), model.Request{Sampling: greedy})
					if len(got) != positions-n || len(dec.IDs()) != positions {
						t.Fatalf("%d of %d positions, chunks of %d: %d tokens, %d in all", n, positions, chunk, len(got), len(dec.IDs()))
					}
				}
			}
		}
	})
}

// TestAnyScriptEqualsAFreshDecoder runs random conversations (prompts that extend, cut, repeat or replace what is in the
// cache; answers that stop early, are abandoned or cancelled) and compares each whole answer with a fresh decoder's.
func TestAnyScriptEqualsAFreshDecoder(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		for script := range uint64(3) {
			random := rand.New(rand.NewPCG(script, 5))
			opt := model.Options{Context: 72, PrefillChunk: 1 + random.IntN(24), Depth: 1 + random.IntN(4)}
			dec, fresh := decoder(t, m, opt), decoder(t, m, opt)
			for step := range 25 {
				ids := slices.Clone(dec.IDs())
				switch random.IntN(5) {
				case 0:
					ids = nil
				case 1:
					ids = ids[:random.IntN(len(ids)+1)]
				case 2:
					if len(ids) > 0 {
						ids[random.IntN(len(ids))] = int32(random.IntN(m.Config.VocabSize))
					}
				case 3:
					dec.Truncate(random.IntN(len(ids) + 1))
				}
				for range random.IntN(20) {
					ids = append(ids, int32(random.IntN(m.Config.VocabSize)))
				}
				if len(ids) == 0 || len(ids) >= opt.Context {
					ids = someIDs(1+random.IntN(30), m.Config.VocabSize)
				}
				req := model.Request{Sampling: greedy, Seed: random.Uint64() >> 11, MaxTokens: random.IntN(14)}
				if random.IntN(2) == 0 {
					req.Sampling = sample.Config{
						Temperature: 1.3, TopK: random.IntN(400), TopP: 0.97, MinP: 0.001, RepetitionPenalty: 1.2,
						PenaltyWindow: []int{0, 1, 8, 1000}[random.IntN(4)],
					}
				}
				for range random.IntN(3) {
					req.Stops = append(req.Stops, int32(random.IntN(m.Config.VocabSize)))
				}
				what := fmt.Sprintf("script %d step %d: %d ids, %+v, %+v", script, step, len(ids), req, opt)
				if random.IntN(3) == 0 { // not to the end
					ctx := gputest.CancelAfter(random.IntN(20))
					_, err := dec.Prefill(ctx, ids, req)
					for n := random.IntN(6); n > 0 && err == nil; n-- {
						_, err = dec.Next(ctx)
					}
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Fatalf("%s: %v", what, err)
					}
					if random.IntN(2) == 0 {
						continue
					}
				}
				got := generate(t, dec, ids, req)
				fresh.Truncate(0)
				if want := generate(t, fresh, ids, req); !slices.Equal(got, want) {
					t.Fatalf("%s: %v, a fresh decoder %v", what, got, want)
				}
			}
		}
	})
}

// TestExtremesOfARequest: settings at their bounds give an answer, the same twice and on a fresh decoder, whatever is left of
// another answer in the state.
func TestExtremesOfARequest(t *testing.T) {
	gputest.RunModels(t, func(t *testing.T, d *gpu.Device) {
		m := tiny(t, d, modeltest.Options{Family: "llama"})
		opt := model.Options{Context: 48, Depth: 3, PrefillChunk: 8}
		dec := decoder(t, m, opt)
		prompt := someIDs(13, m.Config.VocabSize)
		with := func(change func(*sample.Config)) sample.Config {
			c := sample.Config{Temperature: 1, TopP: 1, RepetitionPenalty: 1}
			change(&c)
			return c
		}
		free := generate(t, dec, prompt, model.Request{Sampling: greedy, MaxTokens: 1})
		for name, req := range map[string]model.Request{
			"first token stops":     {Sampling: greedy, Stops: free},
			"one token":             {Sampling: greedy, MaxTokens: 1},
			"more than fits":        {Sampling: greedy, MaxTokens: 1 << 62},
			"coldest":               {Sampling: with(func(c *sample.Config) { c.Temperature = sample.MinTemperature }), MaxTokens: 6},
			"hottest":               {Sampling: with(func(c *sample.Config) { c.Temperature = sample.MaxTemperature }), Seed: 1<<53 - 1, MaxTokens: 6},
			"largest seed":          {Sampling: with(func(*sample.Config) {}), Seed: 1<<64 - 1, MaxTokens: 6},
			"top_k of everything":   {Sampling: with(func(c *sample.Config) { c.TopK = 1 << 30 }), MaxTokens: 6},
			"top_p of nothing":      {Sampling: with(func(c *sample.Config) { c.TopP = 0 }), MaxTokens: 6},
			"min_p of everything":   {Sampling: with(func(c *sample.Config) { c.MinP = 1 }), MaxTokens: 6},
			"window past the start": {Sampling: with(func(c *sample.Config) { c.RepetitionPenalty, c.PenaltyWindow = sample.MaxPenalty, 1<<31-1 }), MaxTokens: 6},
			"reward":                {Sampling: with(func(c *sample.Config) { c.RepetitionPenalty, c.PenaltyWindow = sample.MinPenalty, 1 }), MaxTokens: 6},
		} {
			got := generate(t, dec, prompt, req)
			want := min(max(req.MaxTokens, 1), opt.Context-len(prompt))
			if len(req.Stops) > 0 {
				want = 1
			}
			if len(got) != want {
				t.Errorf("%s: %d tokens, want %d", name, len(got), want)
			}
			if again := generate(t, dec, prompt, req); !slices.Equal(again, got) {
				t.Errorf("%s: %v, then %v", name, got, again)
			}
			if fresh := generate(t, decoder(t, m, opt), prompt, req); !slices.Equal(fresh, got) {
				t.Errorf("%s: %v, a fresh decoder %v", name, got, fresh)
			}
		}
	})
}
