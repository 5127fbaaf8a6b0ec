package model_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
	"flint/model"
)

// TestBitRuleOfDemoTarget: a row's bits do not depend on how many rows the step has, across the border of an attention
// chunk too.
func TestBitRuleOfDemoTarget(t *testing.T) {
	dir := os.DirFS(gputest.Shared(t, "models", "demo-target"))
	run := gputest.RunViews
	if os.Getenv("FLINT_ADAPTER") == "swiftshader" {
		run = gputest.RunModels // its barriers make the other kernels take minutes; the kernels' own tests run them all
	}
	run(t, func(t *testing.T, d *gpu.Device) {
		m, err := model.Load(context.Background(), d, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		dec := decoder(t, m, model.Options{Context: 512, PrefillChunk: 64, LogitRows: 64})
		ids := someIDs(264, m.Config.VocabSize)
		if _, _, err := dec.Forward(context.Background(), ids[:248], 0, 62); err != nil {
			t.Fatal(err)
		}
		var want []float32
		for _, width := range []int{1, 2, 4, 8} {
			got, _, err := dec.Forward(context.Background(), ids, 248, width)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			sameBits(t, fmt.Sprintf("rows 248 to 263 in steps of %d", width), got, want)
		}
	})
}
