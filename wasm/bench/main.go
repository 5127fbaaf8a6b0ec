// Command bench prints one table of the engine's speed on this machine's GPU. It is built for js/wasm and runs under
// Node with Dawn: make bench. Every model is checked for repeatable output before it is timed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"flint/gpu"
	"flint/model"
	"flint/model/sample"
)

func main() {
	demo := flag.String("demo", "demo/target", "folder of the demo model")
	models := flag.String("models", "", "comma list of demo, 1b; default: demo, and 1b too on a GPU")
	profile := flag.Bool("profile", false, "add GPU time by kernel")
	flag.Parse()
	if err := run(*demo, *models, *profile); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(demo, models string, profile bool) error {
	ctx := context.Background()
	d, err := gpu.Open(ctx, gpu.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	fmt.Printf("adapter: %v, subgroups %d, f16 %v\n", d.Info, d.Features.SubgroupSize, d.Features.F16)
	if models == "" {
		models = "demo"
		if !d.Info.Software {
			models = "demo,1b"
		}
	}
	fmt.Printf("%-6s %-34s %12s %12s\n", "model", "what", "figure", "unit")
	for _, name := range strings.Split(models, ",") {
		var folder fs.FS = os.DirFS(demo)
		if name == "1b" {
			if folder, err = newSynthetic(oneBillion); err != nil {
				return err
			}
		}
		if err := bench(ctx, d, name, folder, profile); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// bench loads one model and times prefill and decode at short and long contexts.
func bench(ctx context.Context, d *gpu.Device, name string, folder fs.FS, profile bool) error {
	row := func(what string, figure float64, unit string) {
		fmt.Printf("%-6s %-34s %12.4g %12s\n", name, what, figure, unit)
	}
	start := time.Now()
	m, err := model.Load(ctx, d, folder, nil)
	if err != nil {
		return err
	}
	defer m.Release()
	if err := d.Sync(ctx); err != nil {
		return err
	}
	row("load", time.Since(start).Seconds(), "s")
	context := min(m.Config.MaxPositionEmbeddings, 4096)
	dec, err := model.NewDecoder(m, model.Options{Context: context})
	if err != nil {
		return err
	}
	defer dec.Release()
	row("parameters", float64(m.Config.Parameters())/1e6, "M")
	if err := repeatable(ctx, dec, m); err != nil {
		return err
	}
	lengths := []int{128, 512, min(2048, context-160)}
	times := map[int]time.Duration{}
	for _, n := range lengths {
		t, err := prefill(ctx, dec, m, n)
		if err != nil {
			return err
		}
		times[n] = t
		row(fmt.Sprintf("prefill of %d", n), float64(n)/t.Seconds(), "tokens/s")
	}
	row(fmt.Sprintf("prefill of %d over 512", lengths[2]), float64(times[lengths[2]])/float64(times[512]), "times")
	speeds := map[int]float64{}
	for _, n := range []int{128, lengths[2]} {
		t, err := decode(ctx, dec, m, n, 128)
		if err != nil {
			return err
		}
		speeds[n] = 1 / t.Seconds()
		row(fmt.Sprintf("decode at %d", n), speeds[n], "tokens/s")
		row(fmt.Sprintf("decode at %d", n), t.Seconds()*1e3, "ms/token")
	}
	row(fmt.Sprintf("decode at %d over 128", lengths[2]), speeds[lengths[2]]/speeds[128], "times")
	perToken := float64(m.BytesPerToken())
	row("weights read by a token", perToken/1e9, "GB")
	row("decode at 128", perToken*speeds[128]/1e9, "GB/s")
	if profile && d.Features.Timestamps {
		for _, n := range []int{128, lengths[2]} {
			labels, err := dec.Profile(ctx, n, 5)
			if err != nil {
				return err
			}
			for _, l := range labels {
				row(fmt.Sprintf("at %d: %d x %s", n, l.Dispatches, l.Label), float64(l.Time.Nanoseconds())/1e3, "µs GPU")
			}
		}
	}
	return nil
}

// tokens are the ids of a prompt of n tokens; they mean nothing.
func tokens(m *model.Transformer, n, seed int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*7919 + seed*104729 + 17) % m.Config.VocabSize)
	}
	return ids
}

func request(n int) model.Request { return model.Request{Sampling: greedy, MaxTokens: n} }

// repeatable answers twice from scratch and compares.
func repeatable(ctx context.Context, dec *model.Decoder, m *model.Transformer) error {
	var first []int32
	for range 2 {
		dec.Truncate(0)
		ids, _, err := answer(ctx, dec, tokens(m, 40, 0), 24)
		if err != nil {
			return err
		}
		if first != nil && !slices.Equal(first, ids) {
			return fmt.Errorf("the same prompt gave %v, then %v", first, ids)
		}
		first = ids
	}
	return nil
}

// answer returns n tokens and the time from the first to the last of them.
func answer(ctx context.Context, dec *model.Decoder, prompt []int32, n int) ([]int32, time.Duration, error) {
	if _, err := dec.Prefill(ctx, prompt, request(n)); err != nil {
		return nil, 0, err
	}
	var ids []int32
	var first time.Time
	for {
		step, err := dec.Next(ctx)
		if err != nil {
			return nil, 0, err
		}
		if ids == nil {
			first = time.Now()
		}
		ids = append(ids, step.Tokens...)
		if step.Done || len(ids) == n {
			return ids, time.Since(first), nil
		}
	}
}

// prefill is the best time of three to the first token after n prompt tokens, recordings made before.
func prefill(ctx context.Context, dec *model.Decoder, m *model.Transformer, n int) (time.Duration, error) {
	best := time.Hour
	for i := range 4 {
		dec.Truncate(0)
		start := time.Now()
		if _, _, err := answer(ctx, dec, tokens(m, n, i), 1); err != nil {
			return 0, err
		}
		if i > 0 {
			best = min(best, time.Since(start))
		}
	}
	return best, nil
}

// decode is the time a token takes after a prompt of n, over a run of count tokens.
func decode(ctx context.Context, dec *model.Decoder, m *model.Transformer, n, count int) (time.Duration, error) {
	best := time.Hour
	for range 3 {
		dec.Truncate(0)
		ids, took, err := answer(ctx, dec, tokens(m, n, 9), count)
		if err != nil {
			return 0, err
		}
		best = min(best, took/time.Duration(len(ids)-1))
	}
	return best, nil
}

// greedy takes the most likely token.
var greedy = sample.Config{TopP: 1, RepetitionPenalty: 1}
