package shaders

import (
	"fmt"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// embedState is a decode state at a position.
func embedState(h *gputest.Harness, position int) gpu.Tensor {
	words := make([]uint32, StateWords)
	words[StatePosition] = uint32(position)
	return h.State("state", words)
}

func TestEmbed(t *testing.T) {
	for _, dtype := range linearDTypes {
		for _, c := range []struct{ t, position, v, d int }{{1, 0, 10, 64}, {8, 3, 50, 130}, {70, 5, 33, 2}} {
			t.Run(fmt.Sprintf("%v_%dx%d", dtype, c.t, c.d), func(t *testing.T) {
				gputest.Same(t, 1e-7, func(h *gputest.Harness) []gpu.Tensor {
					ids := make([]uint32, c.position+c.t+4)
					for i := range ids {
						ids[i] = uint32(h.IntN(c.v))
					}
					tokens := h.InU32("tokens", ids, len(ids))
					table := NewWeight(h.In("table", dtype, h.Normal(c.v*c.d, 1), c.v, c.d))
					out := h.Out("out", gpu.F32, c.t, c.d)
					state := embedState(h, c.position)
					h.Run(func(r *gpu.Recorder) { Embed(r, out, tokens, state, table, 12) })
					return []gpu.Tensor{out}
				})
			})
		}
	}
}

// Every token finds its row in a table of several blocks; tokens outside the vocabulary, and places outside tokens,
// give zeros on every device.
func TestEmbedOverBlocksAndOutsideTheVocabulary(t *testing.T) {
	const d = 6
	gputest.Run(t, func(t *testing.T, dev *gpu.Device) {
		h := gputest.New(t, dev, "blocks")
		values := make([]float32, 9*d)
		for i := range values {
			values[i] = float32(i/d) + 1
		}
		table := Weight{Blocks: []gpu.Tensor{
			h.In("table.0", gpu.F16, values[:4*d], 4, d),
			h.In("table.1", gpu.F16, values[4*d:5*d], 1, d),
			h.In("table.2", gpu.F16, values[5*d:], 4, d),
		}}
		ids := []uint32{99, 8, 0, 9, 3, 4, 0xffffffff, 5}
		want := []float32{9, 1, 0, 4, 5, 0, 6, 0, 0}
		tokens := h.InU32("tokens", ids, len(ids))
		out := h.Out("out", gpu.F32, len(want), d)
		state := embedState(h, 1)
		h.Run(func(r *gpu.Recorder) { Embed(r, out, tokens, state, table, 1) })
		for i, v := range h.Floats(out) {
			if v != want[i/d] {
				t.Fatalf("row %d is %v, want %v", i/d, v, want[i/d])
			}
		}
		far := embedState(h, 0xffffffff)
		h.Run(func(r *gpu.Recorder) { Embed(r, out, tokens, far, table, 1) })
		for i, v := range h.Floats(out) {
			if v != 0 {
				t.Fatalf("past every token, element %d is %v, want 0", i, v)
			}
		}
	})
}
