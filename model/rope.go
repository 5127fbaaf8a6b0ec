package model

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Rope holds the rotary position parameters of a config, under the names of transformers' rope_parameters. A type's
// own optional parameters are filled in with their defaults; fields a type does not use are zero.
type Rope struct {
	Type   string // default, linear, dynamic, llama3, yarn, longrope
	Theta  float64
	Factor float64 // linear, dynamic, llama3, yarn, longrope

	OriginalMaxPositionEmbeddings int // llama3, yarn, longrope: context of the training before the stretch, tokens

	LowFreqFactor, HighFreqFactor float64 // llama3
	BetaFast, BetaSlow            float64 // yarn: rotations over the original context above (below) which a pair keeps (scales) its frequency
	MScale, MScaleAllDim          float64 // yarn; 0 when not given
	Truncate                      bool    // yarn: the bounds between the two are whole pairs
	AttentionFactor               float64 // yarn, longrope; 0: computed from Factor

	ShortFactor, LongFactor []float64 // longrope: a divisor for each pair
}

// ropeKeys lists the parameters each type has beyond rope_type and rope_theta. A key outside its type's list is
// refused: it would be a kind of RoPE this package does not know.
var ropeKeys = map[string][]string{
	"default":  {},
	"linear":   {"factor"},
	"dynamic":  {"factor"},
	"llama3":   {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
	"yarn":     {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "attention_factor"},
	"longrope": {"factor", "original_max_position_embeddings", "short_factor", "long_factor", "attention_factor"},
}

var ropeTypes = []string{"default", "linear", "dynamic", "llama3", "yarn", "longrope"}

// readRope reads the parameters in any of their three spellings: rope_parameters (transformers 5: theta inside),
// rope_scaling with rope_type, and rope_scaling with type (both: theta beside it). Values given twice must agree.
func readRope(o object, fam family, c *Config) Rope {
	if o.floatOr("partial_rotary_factor", 1, interval{0, 1, true}) != 1 {
		o.problem("partial_rotary_factor", "partial rotary embedding is not supported, expected 1, found %s", describeJSON(o.fields["partial_rotary_factor"]))
	}
	scaling, parameters := o.object("rope_scaling"), o.object("rope_parameters")
	if o.has("rope_scaling") && scaling.kind() == "" {
		scaling.mismatch("rope_type", "one of "+strings.Join(ropeTypes, ", "))
		return Rope{}
	}
	theta := ropeTheta(o, scaling, parameters, fam)
	switch {
	case !o.has("rope_scaling") && !o.has("rope_parameters"):
		return Rope{Type: "default", Theta: theta}
	case !o.has("rope_scaling"):
		return readRopeObject(o, parameters, theta, c)
	case !o.has("rope_parameters"):
		return readRopeObject(o, scaling, theta, c)
	}
	a, b := readRopeObject(o, scaling, theta, c), readRopeObject(o, parameters, theta, c)
	if len(*o.problems) == 0 && !reflect.DeepEqual(a, b) {
		o.problem("rope_scaling", "differs from rope_parameters; remove the one that is wrong")
	}
	return b
}

// ropeTheta finds the base. A file with rope_parameters that leaves it out is refused in every family: such files come
// from releases that always write it, and a wrong base is nearly silent.
func ropeTheta(o, scaling, parameters object, fam family) float64 {
	within := interval{1, 1e12, true}
	theta := 0.0
	for _, in := range []object{parameters, o, scaling} {
		if !in.has("rope_theta") {
			continue
		}
		t := in.float("rope_theta", within)
		if theta != 0 && t != theta {
			in.problem("rope_theta", "expected %g as given elsewhere in the file, found %g", theta, t)
		}
		theta = t
	}
	if theta == 0 && fam.theta != 0 && !o.has("rope_parameters") {
		return fam.theta
	}
	if theta == 0 {
		o.problem("rope_theta", "expected it in rope_parameters or beside it, found neither; the base cannot be guessed")
		return within.most
	}
	return theta
}

// kind returns the type under either of its names, "" when there is none.
func (o object) kind() string { return o.stringOr("rope_type", o.stringOr("type", "")) }

func readRopeObject(file, o object, theta float64, c *Config) Rope {
	r := Rope{Type: o.kind(), Theta: theta}
	if old := o.stringOr("type", r.Type); old != r.Type {
		o.problem("type", "expected %s as in rope_type, found %s", show(r.Type), show(old))
	}
	if r.Type == "" {
		r.Type = "default"
	}
	known, ok := ropeKeys[r.Type]
	if !ok {
		o.problem("rope_type", "%s is not supported; supported: %s", show(r.Type), strings.Join(ropeTypes, ", "))
		return r
	}
	if o.floatOr("partial_rotary_factor", 1, interval{0, 1, true}) != 1 {
		o.problem("partial_rotary_factor", "partial rotary embedding is not supported, expected 1, found %s", describeJSON(o.fields["partial_rotary_factor"]))
	}
	for _, key := range sortedKeys(o.fields) {
		common := key == "rope_type" || key == "type" || key == "rope_theta" || key == "partial_rotary_factor"
		if !common && !slices.Contains(known, key) && o.has(key) {
			o.problem(key, "is not a parameter of rope type %s", r.Type)
			break // one names the trouble; a hostile file may have thousands
		}
	}
	has := func(key string) bool { return slices.Contains(known, key) }
	if has("original_max_position_embeddings") {
		r.OriginalMaxPositionEmbeddings = originalPositions(file, o)
	}
	if r.Type == "longrope" && !o.has("factor") {
		// The only type whose published files leave it out: the stretch is what the two lengths say.
		r.Factor = float64(c.MaxPositionEmbeddings) / float64(r.OriginalMaxPositionEmbeddings)
	} else if has("factor") {
		r.Factor = o.float("factor", interval{1, 1e6, false})
	}
	if has("attention_factor") {
		r.AttentionFactor = o.floatOr("attention_factor", 0, interval{0, 1e6, true})
	}
	before := len(*o.problems)
	switch r.Type {
	case "llama3":
		r.LowFreqFactor = o.float("low_freq_factor", interval{0, 1e6, true})
		r.HighFreqFactor = o.float("high_freq_factor", interval{0, 1e6, true})
		if len(*o.problems) == before && r.HighFreqFactor <= r.LowFreqFactor {
			o.problem("high_freq_factor", "expected more than low_freq_factor %g, found %g", r.LowFreqFactor, r.HighFreqFactor)
		}
	case "yarn":
		r.BetaFast = o.floatOr("beta_fast", 32, interval{0, 1e6, true})
		r.BetaSlow = o.floatOr("beta_slow", 1, interval{0, 1e6, true})
		if len(*o.problems) == before && r.BetaFast < r.BetaSlow {
			o.problem("beta_fast", "expected at least beta_slow %g, found %g", r.BetaSlow, r.BetaFast)
		}
		r.MScale = o.floatOr("mscale", 0, interval{0, 1e6, false})
		r.MScaleAllDim = o.floatOr("mscale_all_dim", 0, interval{0, 1e6, false})
		r.Truncate = o.boolOr("truncate", true)
	case "longrope":
		r.ShortFactor = ropeFactors(o, "short_factor", c.HeadDim/2)
		r.LongFactor = ropeFactors(o, "long_factor", c.HeadDim/2)
	}
	return r
}

// originalPositions reads the length from the RoPE object or, where Phi-3-like files keep it, from the file itself.
func originalPositions(file, o object) int {
	const key = "original_max_position_embeddings"
	const least = 2 // longrope divides by its logarithm
	if !file.has(key) {
		return o.int(key, least, maxPositions)
	}
	n := file.int(key, least, maxPositions)
	if inner := o.intOr(key, n, least, maxPositions); inner != n {
		o.problem(key, "expected %d as given elsewhere in the file, found %d", n, inner)
	}
	return n
}

func ropeFactors(o object, key string, pairs int) []float64 {
	within := interval{0, 1e6, true}
	expected := fmt.Sprintf("a list of head_dim/2 = %d numbers", pairs)
	if !o.has(key) {
		o.mismatch(key, expected)
		return nil
	}
	items := o.list(key, expected)
	if items != nil && len(items) != pairs {
		o.problem(key, "expected %s, found %d", expected, len(items))
		return nil
	}
	factors := make([]float64, 0, len(items))
	for i, raw := range items {
		f, ok := jsonFloat(raw)
		if !ok || !within.contains(f) {
			o.problem(key, "entry %d: expected %s, found %s", i, within, describeJSON(raw))
			return nil
		}
		factors = append(factors, f)
	}
	return factors
}

// RopeTable holds what RoPE needs for one loaded model: at position p, pair i (elements i and i+Dh/2 of a head) turns
// by the angle p·InvFreq[i], and cosines and sines are multiplied by AttentionScaling.
type RopeTable struct {
	InvFreq          []float64 // [Dh/2] radians per position
	AttentionScaling float64
}

// RopeTable computes the table for a model loaded with room for contextLen tokens, in float64, as transformers'
// modeling_rope_utils does. Types dynamic and longrope depend on the length of the sequence there, which changes the
// keys already in the cache; here contextLen decides once, so that cached keys stay valid.
func (c *Config) RopeTable(contextLen int) (RopeTable, error) {
	if contextLen < 1 || contextLen > maxPositions {
		return RopeTable{}, fmt.Errorf("rope: context length: expected 1 to %d tokens, found %d", maxPositions, contextLen)
	}
	r, dim := c.Rope, float64(c.HeadDim)
	t := RopeTable{AttentionScaling: 1}
	switch r.Type {
	case "default":
		t.InvFreq = inverseFrequencies(r.Theta, c.HeadDim)
	case "linear":
		t.InvFreq = inverseFrequencies(r.Theta, c.HeadDim)
		for i := range t.InvFreq {
			t.InvFreq[i] /= r.Factor
		}
	case "dynamic":
		stretch := math.Max(1, float64(contextLen)/float64(c.MaxPositionEmbeddings))
		base := r.Theta
		if c.HeadDim > 2 { // with one pair every base gives the frequency 1, and the exponent would divide by 0
			base *= math.Pow(r.Factor*stretch-(r.Factor-1), dim/(dim-2))
		}
		t.InvFreq = inverseFrequencies(base, c.HeadDim)
	case "llama3":
		t.InvFreq = r.llama3(inverseFrequencies(r.Theta, c.HeadDim))
	case "yarn":
		t.InvFreq = r.yarn(inverseFrequencies(r.Theta, c.HeadDim), dim)
		t.AttentionScaling = r.yarnAttention()
	case "longrope":
		factors := r.ShortFactor
		if contextLen > r.OriginalMaxPositionEmbeddings {
			factors = r.LongFactor
		}
		t.InvFreq = inverseFrequencies(r.Theta, c.HeadDim)
		for i := range t.InvFreq {
			t.InvFreq[i] /= factors[i]
		}
		t.AttentionScaling = r.longropeAttention()
	default:
		return RopeTable{}, fmt.Errorf("rope: type %s is not supported; supported: %s", show(r.Type), strings.Join(ropeTypes, ", "))
	}
	usable := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	for i, f := range t.InvFreq {
		if !usable(f) {
			return RopeTable{}, fmt.Errorf("rope: type %s: the parameters give frequency %g for pair %d, expected a positive number", r.Type, f, i)
		}
	}
	if !usable(t.AttentionScaling) {
		return RopeTable{}, fmt.Errorf("rope: type %s: the parameters give attention scaling %g, expected a positive number", r.Type, t.AttentionScaling)
	}
	return t, nil
}

func inverseFrequencies(theta float64, headDim int) []float64 {
	f := make([]float64, headDim/2)
	for i := range f {
		f[i] = math.Pow(theta, -2*float64(i)/float64(headDim))
	}
	return f
}

// llama3 keeps fast pairs, divides slow ones by Factor and blends linearly (in rotations per original context) between.
func (r Rope) llama3(freq []float64) []float64 {
	for i, f := range freq {
		rotations := float64(r.OriginalMaxPositionEmbeddings) * f / (2 * math.Pi)
		keep := (rotations - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
		keep = math.Min(1, math.Max(0, keep))
		freq[i] = f * (keep + (1-keep)/r.Factor)
	}
	return freq
}

// yarn keeps the pairs below low, divides those above high by Factor and blends linearly (in the pair's index) between.
// The bounds are indices of elements, not pairs, clamped to [0, dim-1]: so transformers does it, and for short original
// contexts the clamp matters.
func (r Rope) yarn(freq []float64, dim float64) []float64 {
	bound := func(rotations float64) float64 {
		return dim * math.Log(float64(r.OriginalMaxPositionEmbeddings)/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := bound(r.BetaFast), bound(r.BetaSlow)
	if r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = math.Max(low, 0), math.Min(high, dim-1)
	if low == high {
		high += 0.001 // the blend becomes a step
	}
	for i, f := range freq {
		scale := math.Min(1, math.Max(0, (float64(i)-low)/(high-low)))
		freq[i] = f * (1 - scale + scale/r.Factor)
	}
	return freq
}

func (r Rope) yarnAttention() float64 {
	mscale := func(m float64) float64 { return 0.1*m*math.Log(r.Factor) + 1 }
	switch {
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.MScale != 0 && r.MScaleAllDim != 0:
		return mscale(r.MScale) / mscale(r.MScaleAllDim)
	}
	return mscale(1)
}

func (r Rope) longropeAttention() float64 {
	switch {
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.Factor <= 1:
		return 1
	}
	return math.Sqrt(1 + math.Log(r.Factor)/math.Log(float64(r.OriginalMaxPositionEmbeddings)))
}

// CosSin returns the table [positions][Dh/2][2] of cosine and sine, scaled, for positions 0 to positions-1. Each is
// computed in float64 and rounded once: the angle's error in float32 would grow with the position.
func (t RopeTable) CosSin(positions int) []float32 {
	table := make([]float32, 0, 2*len(t.InvFreq)*max(positions, 0))
	for p := range positions {
		for _, f := range t.InvFreq {
			sin, cos := math.Sincos(float64(p) * f)
			table = append(table, float32(cos*t.AttentionScaling), float32(sin*t.AttentionScaling))
		}
	}
	return table
}
