package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func with(f func(*Config)) Config {
	c := Default()
	f(&c)
	return c
}

// probabilities follows the package comment in float64, step by step and on its own terms.
func probabilities(logits []float32, history []uint32, c Config) []float64 {
	x := make([]float64, len(logits))
	for i, v := range logits {
		x[i] = float64(v)
	}
	recent := history[max(0, len(history)-c.PenaltyWindow):]
	for i := range x {
		if slices.Contains(recent, uint32(i)) {
			if x[i] > 0 {
				x[i] /= float64(c.RepetitionPenalty)
			} else {
				x[i] *= float64(c.RepetitionPenalty)
			}
		}
	}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	if c.TopK > 0 {
		order = order[:min(c.TopK, len(order))]
	}
	softmax := func(temperature float64) []float64 {
		p, sum := make([]float64, len(x)), 0.0
		for _, i := range order {
			p[i] = math.Exp((x[i] - x[order[0]]) / temperature)
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	p, sum := softmax(1), 0.0
	for n, i := range order {
		sum += p[i]
		if sum >= float64(c.TopP) && c.TopP < 1 {
			order = order[:n+1]
			break
		}
	}
	for n, i := range order {
		if p[i] < float64(c.MinP)*p[order[0]] {
			order = order[:n]
			break
		}
	}
	return softmax(float64(c.Temperature))
}

var warpers = []struct {
	name   string
	config Config
}{
	{"temperature_1", Default()},
	{"temperature_low", with(func(c *Config) { c.Temperature = 0.6 })},
	{"temperature_high", with(func(c *Config) { c.Temperature = 2.5 })},
	{"top_k", with(func(c *Config) { c.TopK = 4 })},
	{"top_p", with(func(c *Config) { c.TopP = 0.8 })},
	{"min_p", with(func(c *Config) { c.MinP = 0.12 })},
	{"penalty", with(func(c *Config) { c.RepetitionPenalty, c.PenaltyWindow = 1.5, 4 })},
	{"all", Config{Temperature: 1.4, TopK: 8, TopP: 0.93, MinP: 0.05, RepetitionPenalty: 1.3, PenaltyWindow: 5}},
}

// small is a vocabulary of ten with a tie, and a text whose last tokens repeat one.
var (
	small   = []float32{1.5, 0.3, -0.7, 2.1, 0.3, -2.5, 1.1, 0.9, -0.1, 1.7}
	history = []uint32{8, 8, 1, 3, 5, 3, 9}
)

func TestPickDistribution(t *testing.T) {
	const draws = 20_000
	for _, w := range warpers {
		t.Run(w.name, func(t *testing.T) {
			want := probabilities(small, history, w.config)
			row := Warp(small, history, w.config.Settings())
			for id, p := range row.Probabilities() {
				if math.Abs(p-want[id]) > 2e-6 {
					t.Errorf("token %d has probability %v, want %v", id, p, want[id])
				}
			}
			counts := make([]int, len(small))
			for i := range uint32(draws) {
				counts[row.Pick(42, i)]++
			}
			chiSquare(t, counts, want)
		})
	}
}

func chiSquare(t *testing.T, counts []int, p []float64) {
	t.Helper()
	draws := 0
	for _, c := range counts {
		draws += c
	}
	chi, freedom := 0.0, -1
	for id, c := range counts {
		expect := p[id] * float64(draws)
		if expect == 0 {
			if c != 0 {
				t.Fatalf("token %d was drawn %d times, want never", id, c)
			}
			continue
		}
		freedom++
		chi += (float64(c) - expect) * (float64(c) - expect) / expect
	}
	if freedom > 0 && chi > chiLimit(freedom) {
		t.Fatalf("chi-square %.1f with %d degrees of freedom, want at most %.1f: counts %v, probabilities %.4f", chi, freedom, chiLimit(freedom), counts, p)
	}
}

// A large vocabulary keeps the tokens that the float64 steps keep.
func TestThresholdLarge(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	logits := make([]float32, 20_000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for _, w := range append(warpers, []struct {
		name   string
		config Config
	}{
		{"top_p_high", with(func(c *Config) { c.TopP = 0.999 })},
		{"top_k_half", with(func(c *Config) { c.TopK = 10_000 })},
		{"min_p_tiny", with(func(c *Config) { c.MinP = 1e-9 })},
	}...) {
		t.Run(w.name, func(t *testing.T) {
			want := probabilities(logits, nil, w.config)
			kept, wanted := 0, 0
			for id, p := range Warp(logits, nil, w.config.Settings()).Probabilities() {
				if p > 0 {
					kept++
				}
				if want[id] > 0 {
					wanted++
				}
				if math.Abs(p-want[id]) > 1e-6 {
					t.Fatalf("token %d has probability %v, want %v", id, p, want[id])
				}
			}
			if math.Abs(float64(kept-wanted)) > float64(wanted)*1e-3 {
				t.Fatalf("%d tokens kept, want %d", kept, wanted)
			}
		})
	}
}

func TestEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	kept := func(logits []float32, c Config) []uint32 {
		var ids []uint32
		for id, p := range Warp(logits, nil, c.Settings()).Probabilities() {
			if p > 0 {
				ids = append(ids, uint32(id))
			}
		}
		return ids
	}
	all := []uint32{0, 1, 2, 3}
	for _, c := range []struct {
		name   string
		logits []float32
		config Config
		want   []uint32
	}{
		{"temperature_0", []float32{1, 3, 3, 2}, with(func(c *Config) { c.Temperature = 0 }), []uint32{1}},
		{"top_k_1", []float32{1, 3, math.Nextafter32(3, 4), 2}, with(func(c *Config) { c.TopK = 1 }), []uint32{2}},
		{"top_k_vocabulary", []float32{1, 2, 3, 4}, with(func(c *Config) { c.TopK = 4 }), all},
		{"top_k_beyond", []float32{1, 2, 3, 4}, with(func(c *Config) { c.TopK = 1 << 30 }), all},
		{"top_k_ties", []float32{1, 2, 2, 2}, with(func(c *Config) { c.TopK = 2 }), []uint32{1, 2}},
		{"top_k_above_numbers", []float32{1, -inf, 2, nan}, with(func(c *Config) { c.TopK = 3 }), []uint32{0, 2}},
		{"top_p_0", []float32{1, 2, 4, 3}, with(func(c *Config) { c.TopP = 0 }), []uint32{2}},
		{"top_p_tiny", []float32{1, 2, 4, 4}, with(func(c *Config) { c.TopP = 1e-6 }), []uint32{2}},
		{"top_p_ties", []float32{2, 2, 2, 2}, with(func(c *Config) { c.TopP = 0.5 }), []uint32{0, 1}},
		{"min_p_1", []float32{2, 1, 2, 1}, with(func(c *Config) { c.MinP = 1 }), []uint32{0, 2}},
		{"equal", []float32{5, 5, 5, 5}, Default(), all},
		{"excluded", []float32{-inf, nan, 1, 1}, Default(), []uint32{2, 3}},
		{"nothing", []float32{-inf, nan, -inf, nan}, Default(), nil},
		{"huge", []float32{0, 3e38, 0, -3e38}, with(func(c *Config) { c.Temperature = MaxTemperature; c.TopP = 0.9 }), []uint32{1}},
		{"infinite", []float32{0, 1, inf, 2}, with(func(c *Config) { c.TopP = 0.99 }), []uint32{2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := kept(c.logits, c.config); !slices.Equal(got, c.want) {
				t.Fatalf("kept %v, want %v", got, c.want)
			}
			id := Warp(c.logits, nil, c.config.Settings()).Pick(3, 4)
			if len(c.want) > 0 && !slices.Contains(c.want, id) || len(c.want) == 0 && id != 0 {
				t.Fatalf("picked %d, kept %v", id, c.want)
			}
		})
	}
}

func TestPenaltyWindow(t *testing.T) {
	logits := []float32{4, 4, -2, 4}
	text := []uint32{0, 1, 2, 2}
	for _, c := range []struct {
		window int
		want   []float32
	}{
		{0, []float32{4, 4, -2, 4}},
		{1, []float32{4, 4, -4, 4}},
		{2, []float32{4, 4, -4, 4}},
		{3, []float32{4, 2, -4, 4}},
		{100, []float32{2, 2, -4, 4}},
	} {
		row := Warp(logits, text, with(func(o *Config) { o.RepetitionPenalty, o.PenaltyWindow = 2, c.window }).Settings())
		for id, x := range c.want {
			if want := uint32((4 - x) * Nat); row.Distance[id] != want {
				t.Errorf("window %d: token %d lies %d below the largest, want %d", c.window, id, row.Distance[id], want)
			}
		}
	}
	// A token outside the vocabulary (a placeholder, say) is no one's business.
	Warp(logits, []uint32{1 << 31}, with(func(o *Config) { o.RepetitionPenalty, o.PenaltyWindow = 2, 9 }).Settings())
}

func TestSeeds(t *testing.T) {
	logits := make([]float32, 100)
	row := Warp(logits, nil, Default().Settings())
	ids := func(seed uint64) string {
		s := ""
		for p := range uint32(20) {
			s += fmt.Sprint(row.Pick(seed, p), " ")
		}
		return s
	}
	first := ids(1)
	if again := ids(1); again != first {
		t.Errorf("one seed gives two texts: %sand %s", first, again)
	}
	for _, other := range []uint64{0, 2, 1 + 1<<32} {
		if ids(other) == first {
			t.Errorf("seeds 1 and %d give the same text", other)
		}
	}
}

func TestKeyOrder(t *testing.T) {
	inf := float32(math.Inf(1))
	ordered := []float32{-inf, -math.MaxFloat32, -1, -0x1p-126, 0, 0x1p-126, 1, 2, math.MaxFloat32, inf}
	for i := 1; i < len(ordered); i++ {
		if Key(ordered[i-1]) >= Key(ordered[i]) {
			t.Errorf("the key of %v is not below that of %v", ordered[i-1], ordered[i])
		}
	}
	if Key(float32(math.Copysign(0, -1))) != Key(0) || Key(1e-45) != Key(0) {
		t.Error("zeros and subnormals differ")
	}
	for _, x := range []float32{-1, 0, 0.5, 3e37, -3e37} {
		if got := KeyValue(Key(x)); got != x {
			t.Errorf("the value of the key of %v is %v", x, got)
		}
	}
}

func TestConfigRanges(t *testing.T) {
	nan := float32(math.NaN())
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Config){
		"temperature_negative": func(c *Config) { c.Temperature = -1 },
		"temperature_nan":      func(c *Config) { c.Temperature = nan },
		"temperature_tiny":     func(c *Config) { c.Temperature = 1e-5 },
		"temperature_huge":     func(c *Config) { c.Temperature = 9 },
		"top_k":                func(c *Config) { c.TopK = -1 },
		"top_p_above":          func(c *Config) { c.TopP = 1.1 },
		"top_p_nan":            func(c *Config) { c.TopP = nan },
		"min_p":                func(c *Config) { c.MinP = -0.1 },
		"penalty_zero":         func(c *Config) { c.RepetitionPenalty = 0 },
		"penalty_nan":          func(c *Config) { c.RepetitionPenalty = nan },
		"window":               func(c *Config) { c.PenaltyWindow = -1 },
	} {
		if err := with(bad).Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, w := range warpers {
		if s := w.config.Settings(); ParseSettings(s.Words()) != s {
			t.Errorf("%s: settings change on their way through words", w.name)
		}
	}
}
