package model_test

import (
	"context"
	"syscall/js"
	"testing"

	"flint/gpu/gputest"
	"flint/model"
	"flint/model/modeltest"
)

// TestStepIsOneCrossing counts the calls from Go into JavaScript while decoding, as the runner of these tests sees them.
func TestStepIsOneCrossing(t *testing.T) {
	if js.Global().Get("flintCalls").Type() != js.TypeNumber {
		t.Skip("this runner does not count calls into JavaScript")
	}
	m := tiny(t, gputest.WebGPU(t), modeltest.Options{Family: "llama"})
	dec := decoder(t, m, model.Options{Context: 200})
	ctx := context.Background()
	if _, err := dec.Prefill(ctx, someIDs(5, m.Config.VocabSize), model.Request{Sampling: greedy}); err != nil {
		t.Fatal(err)
	}
	step := func() {
		if s, err := dec.Next(ctx); err != nil || len(s.Tokens) != 1 {
			t.Fatalf("%+v %v", s, err)
		}
	}
	for range 10 { // the recording is made once
		step()
	}
	const steps = 100
	before := js.Global().Get("flintCalls").Int()
	for range steps {
		step()
	}
	if calls := js.Global().Get("flintCalls").Int() - before; calls != steps {
		t.Fatalf("%d calls into JavaScript for %d steps", calls, steps)
	}
}
