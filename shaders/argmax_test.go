package shaders

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestArgmax(t *testing.T) {
	for _, rows := range []int{1, 2, 8} {
		for _, vocab := range []int{5, 97, 512, 8192, 130560} {
			t.Run(fmt.Sprintf("%dx%d", rows, vocab), func(t *testing.T) {
				gputest.Same(t, 0, func(h *gputest.Harness) []gpu.Tensor {
					values := h.Normal(rows*vocab, 3)
					for i := range rows { // a tie over chunks, at the top
						row := values[i*vocab : (i+1)*vocab]
						top := slices.Max(row)
						row[h.IntN(vocab)], row[h.IntN(vocab)] = top, top
					}
					return runArgmax(h, values, rows, vocab)
				})
			})
		}
	}
}

func runArgmax(h *gputest.Harness, values []float32, rows, vocab int) []gpu.Tensor {
	logits := h.In("logits", gpu.F32, values, rows, vocab)
	out := h.Out("out", gpu.U32, rows)
	scratch := h.Out("scratch", gpu.F32, ArgmaxScratch(rows, vocab))
	h.Run(func(r *gpu.Recorder) { Argmax(r, out, logits, scratch) })
	return []gpu.Tensor{out}
}

func TestArgmaxEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	rows := []struct {
		logits []float32
		want   uint32
	}{
		{[]float32{nan, -1, 2, nan, 2}, 2},
		{[]float32{nan, nan, nan, nan, nan}, 0},
		{[]float32{-inf, -inf, nan, -inf, -inf}, 0},
		{[]float32{-inf, -3e38, -inf, -inf, nan}, 1},
		{[]float32{3e38, inf, inf, 0, nan}, 1},
		{[]float32{float32(math.Copysign(0, -1)), 0, -1, 0, 0}, 0},
		{[]float32{-1, -2, -0.5, -3, -0.5}, 2},
	}
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, t.Name())
		var values []float32
		for _, r := range rows {
			values = append(values, r.logits...)
		}
		got := h.U32(runArgmax(h, values, len(rows), 5)[0])
		for i, r := range rows {
			if got[i] != r.want {
				t.Errorf("%v: got %d, want %d", r.logits, got[i], r.want)
			}
		}
	})
}
