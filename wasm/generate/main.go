// Command generate answers one prompt on the command line with the same engine that runs in the page. It is built for
// js/wasm and runs under Node with Dawn: make generate MODEL=dir PROMPT="...".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"flint/wasm/engine"
	"flint/wasm/wire"
)

func main() {
	dir := flag.String("model", "demo/target", "model folder")
	prompt := flag.String("prompt", "Tell me a short story about a lighthouse.", "what to say to the model")
	n := flag.Int("n", 64, "most tokens to generate")
	seed := flag.Uint64("seed", 1, "seed of the sampling")
	temperature := flag.Float64("temp", 0, "temperature; 0 takes the most likely token")
	flag.Parse()
	if err := run(*dir, *prompt, *n, *seed, *temperature); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(dir, prompt string, n int, seed uint64, temperature float64) error {
	ctx := context.Background()
	s := engine.New(print)
	defer s.Close()
	if err := s.Load(ctx, os.DirFS(dir), wire.Load{ID: 1, Name: filepath.Base(dir)}); err != nil {
		return err
	}
	sampling := wire.Greedy()
	sampling.Temperature, sampling.Seed, sampling.MaxTokens = temperature, &seed, n
	return s.Chat(ctx, wire.Chat{ID: 2, Messages: []wire.Turn{{Role: wire.User, Content: prompt}}, Sampling: sampling})
}

// print shows the events a person on the command line cares about; errors come back from the session's methods.
func print(e wire.Event) {
	switch e := e.(type) {
	case wire.Hello:
		fmt.Fprintf(os.Stderr, "adapter: %s %s %s %s %v\n", e.Adapter.Vendor, e.Adapter.Architecture, e.Adapter.Device, e.Adapter.Description, e.Adapter.Features)
	case wire.Loaded:
		fmt.Fprintf(os.Stderr, "loaded %s: %s, %.1f M parameters, context %d, %.1f MB on the GPU, %.0f ms\n",
			e.Name, e.Architecture, float64(e.Parameters)/1e6, e.ContextLength, float64(e.GPUBytes)/1e6, e.MS)
	case wire.Token:
		fmt.Print(e.Text)
	case wire.Done:
		fmt.Println()
		fmt.Fprintf(os.Stderr, "%s: prompt %d tokens, answer %d tokens, first token %.0f ms, %.1f tokens/s\n",
			e.Reason, e.Usage.Prompt, e.Usage.Completion, e.Timings.FirstTokenMS, e.Timings.TokensPerSecond)
	}
}
