package shaders

import (
	"context"
	"fmt"
	"math"
	"testing"

	"flint/gpu/gputest"
)

// BenchmarkAttention times one attention of 32 query and 8 key/value heads of 64 (4 and 4 on a CPU rasteriser), its
// combine included. The first, middle and last row are compared with the reference before the clock starts.
func BenchmarkAttention(b *testing.B) {
	d := gputest.WebGPU(b)
	heads, kv := 32, 8
	if d.Features.Serial {
		heads, kv = 4, 4
	}
	for _, c := range []struct {
		class   string
		t, keys int
	}{
		{"decode", 1, 128},
		{"decode", 1, 2048},
		{"decode", 1, 8192},
		{"decode", 8, 128},
		{"decode", 8, 2048},
		{"decode", 8, 8192},
		{"prefill", 150, 150},
		{"prefill", 512, 512},
		{"prefill", 2048, 2048},
	} {
		for _, dtype := range kvTypes {
			b.Run(fmt.Sprintf("%s_T%d_keys%d_%v", c.class, c.t, c.keys, dtype), func(b *testing.B) {
				h := gputest.New(b, d, b.Name())
				in := newAttentionInputs(h, attentionCase{t: c.t, h: heads, kv: kv, dh: 64, position: c.keys - c.t, dtype: dtype})
				h.Run(in.record)
				checkAttentionRows(b, h, in)
				const repeats = 16
				ctx := context.Background()
				r := d.NewRecorder("attention")
				for range repeats {
					in.record(r)
				}
				list, err := r.Finish(ctx)
				if err != nil {
					b.Fatal(err)
				}
				defer list.Release()
				runs := 0
				for b.Loop() {
					if _, err := list.Submit(); err != nil {
						b.Fatal(err)
					}
					if err := d.Sync(ctx); err != nil {
						b.Fatal(err)
					}
					runs += repeats
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(runs), "µs/attention")
			})
		}
	}
}

// checkAttentionRows compares the first, middle and last row of a causal attention with the reference's arithmetic.
func checkAttentionRows(b *testing.B, h *gputest.Harness, in attentionInputs) {
	c := in.c
	a := attentionCall{t: c.t, h: c.h, kv: c.kv, dh: c.dh, p: in.cacheK.Dim(0), causal: true, scale: float64(in.cfg.Scale), position: c.position}
	q, keys, values, got := h.Floats(in.q), h.Floats(in.cacheK), h.Floats(in.cacheV), h.Floats(in.out)
	want := make([]float32, c.dh)
	for _, row := range []int{0, c.t / 2, c.t - 1} {
		for head := range c.h {
			at := (row*c.h + head) * c.dh
			_, end := a.visible(row)
			value, peak, sum := a.softmax(q[at:at+c.dh], keys, values, head/(c.h/c.kv)*c.dh, end)
			a.merge(want, head, [][]float64{value}, []float64{peak}, []float64{sum})
			if worst, i := gputest.MaxError(got[at:at+c.dh], want); worst > 2e-5 || math.IsNaN(worst) {
				b.Fatalf("row %d, head %d, element %d: %v, want %v", row, head, i, got[at+i], want[i])
			}
		}
	}
}
