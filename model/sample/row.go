package sample

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Distances below the row's largest logit, and noise, are counted in 1/Nat: 6e-8, as fine as float32 logits below 1.
const (
	Nat      = 1 << 24
	Farthest = 0xffffff00     // just below 256 nats, and a float32; what lies further counts as this far
	Excluded = math.MaxUint32 // the distance of -Inf and NaN, which are never chosen
)

// Key orders logits as unsigned numbers: larger logit, larger key. -Inf and NaN get 0, below every number; zeros of
// either sign and subnormals are one.
func Key(logit float32) uint32 {
	b := math.Float32bits(logit)
	magnitude := b & 0x7fffffff
	switch {
	case magnitude > 0x7f800000 || b == 0xff800000:
		return 0
	case magnitude < 0x00800000:
		return 0x80000000
	case b&0x80000000 != 0:
		return ^b
	}
	return b | 0x80000000
}

// KeyValue is the logit of a key other than 0, limited to a magnitude of 2^126 so that differences stay finite.
func KeyValue(key uint32) float32 {
	b := ^key
	if key&0x80000000 != 0 {
		b = key & 0x7fffffff
	}
	return max(-0x1p126, min(0x1p126, math.Float32frombits(b)))
}

// Penalise is the key of a token that was seen inside the window.
func Penalise(key uint32, s Settings) uint32 {
	if key == 0 {
		return 0
	}
	x := max(-1e30, min(1e30, KeyValue(key)))
	if x > 0 {
		return Key(x * s.InvPenalty)
	}
	return Key(x * s.Penalty)
}

// Distance is how far below the largest key another one lies.
func Distance(largest, key uint32) uint32 {
	if key == 0 {
		return Excluded
	}
	return uint32(min((KeyValue(largest)-KeyValue(key))*Nat, Farthest))
}

// Weight is exp(-distance), before temperature, in units of 2^-31.
func Weight(distance uint32) uint32 {
	const log2e = 3098164009 // in 2^-31
	h, l := bits.Mul32(distance, log2e)
	whole, fraction := h>>23, h<<9|l>>23
	return exp2(^fraction) >> whole
}

// Tempered is distance / temperature, at most 64 nats: e^-64 is as good as never.
func Tempered(distance, inverse uint32) uint32 {
	return uint32(min(uint64(distance)*uint64(inverse)/Unity, 64*Nat))
}

// Threshold is the last token kept: those nearer to the largest are, and at its own distance the ids up to its own.
type Threshold struct{ Distance, ID uint32 }

// AllIDs in a Threshold keeps every token at its distance.
const AllIDs = math.MaxUint32

// Keeps reports whether a token is left after top-k, top-p and min-p.
func (t Threshold) Keeps(distance, id uint32) bool {
	return distance < t.Distance || distance == t.Distance && id <= t.ID
}

// Row is a row of logits after every warper.
type Row struct {
	Distance  []uint32 // of each id
	Best      uint32   // the likeliest id; 0 when every logit is excluded
	Threshold Threshold
	settings  Settings
}

// Warp applies the settings to a row of logits. history holds the tokens so far, the row's own last.
func Warp(logits []float32, history []uint32, s Settings) Row {
	r := Row{Distance: make([]uint32, len(logits)), settings: s}
	for id, x := range logits {
		r.Distance[id] = Key(x)
	}
	seen := map[uint32]bool{}
	for _, id := range history[len(history)-min(len(history), int(s.Window)):] {
		if int(id) < len(logits) && !seen[id] {
			seen[id] = true
			r.Distance[id] = Penalise(r.Distance[id], s)
		}
	}
	for id, k := range r.Distance {
		if k > r.Distance[r.Best] {
			r.Best = uint32(id)
		}
	}
	largest := r.Distance[r.Best]
	for id, k := range r.Distance {
		r.Distance[id] = Distance(largest, k)
	}
	r.Threshold = Select(r.Distance, s)
	return r
}

// Searches reports whether the settings need the order of a vocabulary's tokens, not each one's distance alone.
func (s Settings) Searches(vocab int) bool {
	return !s.Greedy && (s.TopK > 0 && int(s.TopK) < vocab || s.TopP < One)
}

// Select finds the threshold of a row.
func Select(distance []uint32, s Settings) Threshold {
	t := Threshold{min(s.MinP, Farthest), AllIDs}
	if !s.Searches(len(distance)) {
		return t
	}
	order := make([]uint32, 0, len(distance))
	for id, q := range distance {
		if q != Excluded {
			order = append(order, uint32(id))
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(distance[a], distance[b]) })
	if s.TopK > 0 && int(s.TopK) < len(order) {
		order = order[:s.TopK]
	}
	if s.TopP < One {
		total := uint64(0)
		for _, id := range order {
			total += uint64(Weight(distance[id]))
		}
		high, low := bits.Mul64(total, uint64(s.TopP))
		target, sum := max(high<<40|low>>24, 1), uint64(0)
		for i, id := range order {
			sum += uint64(Weight(distance[id]))
			if sum >= target {
				order = order[:i+1]
				break
			}
		}
	}
	if len(order) == 0 {
		return t
	}
	last := order[len(order)-1]
	if distance[last] <= t.Distance {
		t = Threshold{distance[last], last}
	}
	return t
}

// Score is what the choice maximises: the tempered logit plus noise.
func (r Row) Score(seed uint64, position, id uint32) int32 {
	return Noise(seed, position, id) - int32(Tempered(r.Distance[id], r.settings.InverseTemp))
}

// Pick chooses the token for an absolute position.
func (r Row) Pick(seed uint64, position uint32) uint32 {
	if r.settings.Greedy {
		return r.Best
	}
	best, found := r.Best, false
	var top int32
	for i, q := range r.Distance {
		id := uint32(i)
		if !r.Threshold.Keeps(q, id) {
			continue
		}
		if score := r.Score(seed, position, id); !found || score > top {
			best, top, found = id, score, true
		}
	}
	return best
}

// Sum adds the weights of the kept tokens after temperature.
func (r Row) Sum() uint64 {
	sum := uint64(0)
	for id, q := range r.Distance {
		if r.Threshold.Keeps(q, uint32(id)) {
			sum += uint64(Weight(Tempered(q, r.settings.InverseTemp)))
		}
	}
	return sum
}

// Probabilities is the chance that Pick chooses each token.
func (r Row) Probabilities() []float64 {
	p := make([]float64, len(r.Distance))
	if r.settings.Greedy {
		p[r.Best] = 1
		return p
	}
	sum := float64(r.Sum()) / (1 << 31)
	for id, q := range r.Distance {
		if r.Threshold.Keeps(q, uint32(id)) {
			p[id] = math.Exp(-float64(Tempered(q, r.settings.InverseTemp))/Nat) / sum
		}
	}
	return p
}
