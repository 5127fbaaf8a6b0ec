package shaders

import (
	"fmt"
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
	"flint/model/sample"
)

func sampling(f func(*SamplingConfig)) SamplingConfig {
	c := DefaultSampling()
	f(&c)
	return c
}

var samplings = []struct {
	name   string
	config SamplingConfig
}{
	{"greedy", sampling(func(c *SamplingConfig) { c.Temperature = 0; c.RepetitionPenalty, c.PenaltyWindow = 1.3, 16 })},
	{"temperature", sampling(func(c *SamplingConfig) { c.Temperature = 0.7 })},
	{"penalty", sampling(func(c *SamplingConfig) { c.RepetitionPenalty, c.PenaltyWindow = 1.5, 1000 })},
	{"top_k", sampling(func(c *SamplingConfig) { c.TopK = 40 })},
	{"top_p", sampling(func(c *SamplingConfig) { c.TopP = 0.9 })},
	{"top_p_tiny", sampling(func(c *SamplingConfig) { c.TopP = 1e-4 })},
	{"min_p", sampling(func(c *SamplingConfig) { c.MinP = 0.02; c.Temperature = 3 })},
	{"all", SamplingConfig{Temperature: 1.3, TopK: 60, TopP: 0.95, MinP: 0.01, RepetitionPenalty: 1.2, PenaltyWindow: 64}},
}

// sampler holds the tensors of a Sample.
type sampler struct {
	h                                                *gputest.Harness
	choice, logits, tokens, state, settings, scratch gpu.Tensor
}

func newSampler(h *gputest.Harness, c SamplingConfig, s State, logits []float32, text []uint32, rows int) sampler {
	h.T.Helper()
	if err := c.Validate(); err != nil {
		h.T.Fatal(err)
	}
	vocab := len(logits) / rows
	return sampler{
		h: h, choice: h.Out("choice", gpu.U32, rows), logits: h.In("logits", gpu.F32, logits, rows, vocab),
		tokens: h.InU32("tokens", text, len(text)), state: h.State("state", stateWords(s)), settings: h.State("settings", c.Words()),
		scratch: h.Out("scratch", gpu.F32, SampleScratch(rows, vocab)),
	}
}

func (s sampler) run(first int) []uint32 {
	s.h.T.Helper()
	s.h.Run(func(r *gpu.Recorder) {
		Sample(r, s.choice, s.logits, s.tokens, s.state, s.settings, s.scratch, first)
	})
	return s.h.U32(s.choice)
}

// head returns a row's threshold and sum.
func (s sampler) head(row int) (sample.Threshold, uint64) {
	words := s.h.U32(s.scratch.Rows(row*s.scratch.Len()/s.choice.Len(), sampleHead))
	return sample.Threshold{Distance: words[SampledDistance], ID: words[SampledID]}, uint64(words[SampledSumHigh])<<32 | uint64(words[SampledSumLow])
}

func randomText(h *gputest.Harness, n, vocab int) []uint32 {
	text := make([]uint32, n)
	for i := range text {
		text[i] = uint32(h.IntN(vocab))
	}
	return text
}

// check compares choices, thresholds and sums with the definition.
func (s sampler) check(t *testing.T, c SamplingConfig, st State, logits []float32, text []uint32, first int) {
	t.Helper()
	rows := s.choice.Len()
	vocab := len(logits) / rows
	got := s.run(first)
	for row, id := range got {
		position := int(st.Position) + first + row
		want := sample.Warp(logits[row*vocab:(row+1)*vocab], text[:position+1], c.Settings())
		if pick := want.Pick(st.Seed, uint32(position+1)); id != pick {
			t.Fatalf("row %d: chose %d, want %d", row, id, pick)
		}
		if c.Settings().Greedy {
			continue
		}
		threshold, sum := s.head(row)
		if exact := want.Sum(); sum != exact {
			t.Fatalf("row %d: sum %d, want %d", row, sum, exact)
		}
		for token, q := range want.Distance {
			if threshold.Keeps(q, uint32(token)) != want.Threshold.Keeps(q, uint32(token)) {
				t.Fatalf("row %d: threshold %v, want %v: they differ over token %d", row, threshold, want.Threshold, token)
			}
		}
	}
}

// onDevices runs f on the software driver and on the adapter. The sampling kernels are built one way whatever the
// device's features, so gputest's views would run the same pipeline several times.
func onDevices(t *testing.T, f func(t *testing.T, d *gpu.Device)) {
	t.Run("software", func(t *testing.T) { f(t, gpu.OpenSoftware(gpu.Options{})) })
	t.Run("webgpu", func(t *testing.T) { f(t, gputest.WebGPU(t)) })
}

func TestSample(t *testing.T) {
	for _, size := range []struct{ rows, vocab int }{{1, 5}, {2, 97}, {8, 512}, {2, 8192}, {1, 130560}, {8, 20000}} {
		for _, c := range samplings {
			t.Run(fmt.Sprintf("%s_%dx%d", c.name, size.rows, size.vocab), func(t *testing.T) {
				onDevices(t, func(t *testing.T, d *gpu.Device) {
					h := gputest.New(t, d, c.name)
					logits := h.Normal(size.rows*size.vocab, 3)
					text := randomText(h, 64+TokenSlack, size.vocab)
					st := State{Position: 40, Seed: 0x9876543210}
					newSampler(h, c.config, st, logits, text, size.rows).check(t, c.config, st, logits, text, 3)
				})
			})
		}
	}
}

func TestSampleEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	fill := func(n int, f func(i int) float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	configs := []SamplingConfig{
		sampling(func(c *SamplingConfig) { c.Temperature = 0 }),
		DefaultSampling(),
		sampling(func(c *SamplingConfig) { c.TopK = 1 }),
		sampling(func(c *SamplingConfig) { c.TopK = 300 }),
		sampling(func(c *SamplingConfig) { c.TopK = 9000 }),
		sampling(func(c *SamplingConfig) { c.TopK = 10 * 1000 * 1000 }),
		sampling(func(c *SamplingConfig) { c.TopP = 0 }),
		sampling(func(c *SamplingConfig) { c.TopP = 0.5 }),
		sampling(func(c *SamplingConfig) { c.TopP = 0.999999 }),
		sampling(func(c *SamplingConfig) { c.MinP = 1 }),
		sampling(func(c *SamplingConfig) { c.TopK, c.TopP, c.MinP = 5000, 0.6, 1 }),
		sampling(func(c *SamplingConfig) { c.Temperature = sample.MaxTemperature; c.TopP = 0.7 }),
		sampling(func(c *SamplingConfig) { c.Temperature = sample.MinTemperature; c.TopK = 3 }),
		sampling(func(c *SamplingConfig) { c.RepetitionPenalty, c.PenaltyWindow = 100, 1<<31-1 }),
	}
	for _, in := range []struct {
		name  string
		logit func(i int) float32
	}{
		{"equal", func(int) float32 { return 5 }},
		{"nothing", func(i int) float32 { return []float32{-inf, nan}[i%2] }},
		{"half_excluded", func(i int) float32 { return []float32{-inf, 1, nan, float32(i % 7)}[i%4] }},
		{"huge", func(i int) float32 { return []float32{float32(i % 5), 3e38}[i/8999%2] }},
		{"infinite", func(i int) float32 { return []float32{float32(i % 5), inf}[i/8999%2] }},
		{"near", func(i int) float32 { return 1 + float32(i%3)*0x1p-23 }},
		{"negative", func(i int) float32 { return -float32(i) }},
	} {
		t.Run(in.name, func(t *testing.T) {
			logits := fill(9000, in.logit)
			onDevices(t, func(t *testing.T, d *gpu.Device) {
				for i, c := range configs {
					t.Run(fmt.Sprint(i), func(t *testing.T) {
						h := gputest.New(t, d, in.name)
						text := randomText(h, 10, 9000)
						st := State{Position: 9, Seed: 1}
						newSampler(h, c, st, logits, text, 1).check(t, c, st, logits, text, 0)
					})
				}
			})
		})
	}
}

// One row is the same alone and among others: noise and penalty follow the absolute position alone.
func TestSampleRowAlone(t *testing.T) {
	c := samplings[len(samplings)-1].config
	onDevices(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, t.Name())
		const rows, vocab = 8, 3000
		logits, text := h.Normal(rows*vocab, 2), randomText(h, 40, vocab)
		all := newSampler(h, c, State{Position: 20, Seed: 5}, logits, text, rows).run(0)
		for row := range rows {
			one := logits[row*vocab : (row+1)*vocab]
			if got := newSampler(h, c, State{Position: uint32(20 + row), Seed: 5}, one, text, 1).run(0); got[0] != all[row] {
				t.Fatalf("row %d at its own position: %d, among others %d", row, got[0], all[row])
			}
			if got := newSampler(h, c, State{Position: 20, Seed: 5}, one, text, 1).run(row); got[0] != all[row] {
				t.Fatalf("row %d as the last of a prefill: %d, among others %d", row, got[0], all[row])
			}
		}
	})
}

// Settings change between submissions of one list.
func TestSampleSettingsWithoutRecording(t *testing.T) {
	onDevices(t, func(t *testing.T, d *gpu.Device) {
		h := gputest.New(t, d, t.Name())
		logits, text := h.Normal(5000, 2), randomText(h, 20, 5000)
		st := State{Position: 11, Seed: 8}
		s := newSampler(h, DefaultSampling(), st, logits, text, 1)
		r := d.NewRecorder("settings")
		Sample(r, s.choice, s.logits, s.tokens, s.state, s.settings, s.scratch, 0)
		r.Readback(s.choice)
		list, err := r.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer list.Release()
		for _, c := range samplings {
			words := gpu.Write{Buffer: s.settings.Buffer, Offset: s.settings.Offset, Data: wordBytes(c.config.Words())}
			p, err := list.Submit(words)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := sample.Warp(logits, text[:12], c.config.Settings()).Pick(8, 12)
			if id := uint32(got[0]) | uint32(got[1])<<8; id != want {
				t.Fatalf("%s: chose %d, want %d", c.name, id, want)
			}
		}
	})
}

func wordBytes(words []uint32) []byte {
	var out []byte
	for _, w := range words {
		out = append(out, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return out
}

// The kernel draws from the distribution that the definition names: 2,048 rows at as many positions. The
// software driver alone: TestSample shows that the adapter's choices are the same ones.
func TestSampleDistribution(t *testing.T) {
	const rows, vocab = 2048, 9
	row := []float32{1.5, 0.3, -0.7, 2.1, 0.3, -2.5, 1.1, 0.9, -0.1}
	var logits []float32
	for range rows {
		logits = append(logits, row...)
	}
	text := make([]uint32, rows)
	for i := range text {
		text[i] = 3 // penalised in every row alike
	}
	for _, c := range []struct {
		name   string
		config SamplingConfig
	}{
		{"temperature", sampling(func(c *SamplingConfig) { c.Temperature = 1.6 })},
		{"top_k", sampling(func(c *SamplingConfig) { c.TopK = 4 })},
		{"top_p", sampling(func(c *SamplingConfig) { c.TopP = 0.8 })},
		{"min_p", sampling(func(c *SamplingConfig) { c.MinP = 0.1 })},
		{"penalty", sampling(func(c *SamplingConfig) { c.RepetitionPenalty, c.PenaltyWindow = 1.8, 3 })},
		{"all", SamplingConfig{Temperature: 1.4, TopK: 7, TopP: 0.95, MinP: 0.05, RepetitionPenalty: 1.3, PenaltyWindow: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.Warp(row, text[:1], c.config.Settings()).Probabilities()
			h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), c.name)
			counts := make([]float64, vocab)
			for _, id := range newSampler(h, c.config, State{Seed: 77}, logits, text, rows).run(0) {
				counts[id]++
			}
			chi, freedom := 0.0, -1.0
			for id, n := range counts {
				if p[id] == 0 && n > 0 {
					t.Fatalf("token %d was drawn, but is not kept", id)
				}
				if p[id] > 0 {
					freedom++
					chi += (n - p[id]*rows) * (n - p[id]*rows) / (p[id] * rows)
				}
			}
			// Passed by 1 run in 10,000 of a true hypothesis (Wilson and Hilferty); the seed is fixed.
			if limit := freedom * math.Pow(1-2/(9*freedom)+3.719*math.Sqrt(2/(9*freedom)), 3); chi > limit {
				t.Fatalf("chi-square %.1f, want at most %.1f: %v of %.4f", chi, limit, counts, p)
			}
		})
	}
}

func TestSampleRefuses(t *testing.T) {
	d := gpu.OpenSoftware(gpu.Options{})
	h := gputest.New(t, d, t.Name())
	s := newSampler(h, DefaultSampling(), State{}, make([]float32, 8), []uint32{1}, 1)
	for name, record := range map[string]func(*gpu.Recorder){
		"first":   func(r *gpu.Recorder) { Sample(r, s.choice, s.logits, s.tokens, s.state, s.settings, s.scratch, -1) },
		"scratch": func(r *gpu.Recorder) { Sample(r, s.choice, s.logits, s.tokens, s.state, s.settings, s.logits, 0) },
		"rows":    func(r *gpu.Recorder) { Accept(r, s.state, s.tokens, s.settings, s.choice, s.tokens, 0) },
		"vocab": func(r *gpu.Recorder) {
			wide := s.logits
			wide.Shape = []int{1, MaxVocab + 1}
			Argmax(r, s.choice, wide, s.scratch)
		},
	} {
		r := d.NewRecorder("refuses")
		record(r)
		if r.Err() == nil {
			t.Errorf("%s: recorded", name)
		}
	}
}

// BenchmarkSample reports the GPU time of each kernel for one row and eight.
func BenchmarkSample(b *testing.B) {
	d := gputest.WebGPU(b)
	if !d.Features.Timestamps {
		b.Skip("no timestamp queries on this adapter, skipped")
	}
	const vocab = 130560
	for _, rows := range []int{1, 8} {
		for _, c := range samplings {
			b.Run(fmt.Sprintf("%s_%dx%d", c.name, rows, vocab), func(b *testing.B) {
				h := gputest.New(b, d, c.name)
				s := newSampler(h, c.config, State{Position: 70, Seed: 1}, h.Normal(rows*vocab, 3), randomText(h, 100, vocab), rows)
				r := d.NewRecorder("sample")
				Sample(r, s.choice, s.logits, s.tokens, s.state, s.settings, s.scratch, 0)
				list, err := r.Finish(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				defer list.Release()
				for b.Loop() {
					times, err := list.Profile(b.Context(), 20)
					if err != nil {
						b.Fatal(err)
					}
					for _, k := range times {
						b.ReportMetric(float64(k.Time.Nanoseconds())/1e3, "µs-"+k.Label)
					}
				}
			})
		}
	}
}
