package model_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"flint/gpu/gputest"
	"flint/model"
)

// transformers' own tables, each entry read through both spellings a config may use for it.
func TestRopeTableMatchesReference(t *testing.T) {
	data, err := os.ReadFile(gputest.Reference(t, "rope.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entries map[string]struct {
		RopeParameters        map[string]any `json:"rope_parameters"`
		HeadDim               int            `json:"head_dim"`
		MaxPositionEmbeddings int            `json:"max_position_embeddings"`
		SeqLen                *int           `json:"seq_len"`
		InvFreq               []float64      `json:"inv_freq"`
		AttentionScaling      float64        `json:"attention_scaling"`
	}
	if err := json.Unmarshal(data, &entries); err != nil {
		t.Fatal(err)
	}
	types := map[any]bool{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		types[e.RopeParameters["rope_type"]] = true
		t.Run(name, func(t *testing.T) {
			sizes := set{"head_dim": e.HeadDim, "max_position_embeddings": e.MaxPositionEmbeddings, "rope_theta": absent, "rope_parameters": e.RopeParameters}
			old := maps.Clone(e.RopeParameters)
			old["type"] = old["rope_type"]
			delete(old, "rope_type")
			delete(old, "rope_theta")
			oldSizes := set{"head_dim": e.HeadDim, "max_position_embeddings": e.MaxPositionEmbeddings, "rope_theta": e.RopeParameters["rope_theta"], "rope_scaling": old}
			length := e.MaxPositionEmbeddings
			if e.SeqLen != nil {
				length = *e.SeqLen
			}
			for _, changes := range []set{sizes, oldSizes} {
				table, err := parse(t, "llama", changes).RopeTable(length)
				if err != nil {
					t.Fatal(err)
				}
				if len(table.InvFreq) != len(e.InvFreq) || len(e.InvFreq) != e.HeadDim/2 {
					t.Fatalf("%d frequencies, reference has %d, want %d", len(table.InvFreq), len(e.InvFreq), e.HeadDim/2)
				}
				worst := relative(table.AttentionScaling, e.AttentionScaling)
				for i, want := range e.InvFreq {
					worst = math.Max(worst, relative(table.InvFreq[i], want))
				}
				if !(worst <= 1e-6) {
					t.Errorf("largest relative difference %g, want at most 1e-6", worst)
				}
				t.Logf("largest relative difference %.2g", worst)
			}
		})
	}
	for _, kind := range []string{"default", "linear", "dynamic", "llama3", "yarn", "longrope"} {
		if !types[kind] {
			t.Errorf("rope.json has no entry of type %s", kind)
		}
	}
}

func relative(got, want float64) float64 { return math.Abs(got-want) / math.Abs(want) }

func TestYarnAttentionFactorVariants(t *testing.T) {
	for name, tc := range map[string]struct {
		extra set
		want  float64
	}{
		"computed":           {nil, 0.1*math.Log(40) + 1},
		"given":              {set{"attention_factor": 0.75}, 0.75},
		"given beside scale": {set{"attention_factor": 0.75, "mscale": 1.0, "mscale_all_dim": 0.5}, 0.75},
		"both scales":        {set{"mscale": 1.0, "mscale_all_dim": 0.5}, (0.1*math.Log(40) + 1) / (0.05*math.Log(40) + 1)},
		"one scale is none":  {set{"mscale": 0.5}, 0.1*math.Log(40) + 1},
		"zero is none":       {set{"mscale": 0.5, "mscale_all_dim": 0}, 0.1*math.Log(40) + 1},
		"null is none":       {set{"mscale": nil, "mscale_all_dim": nil, "attention_factor": nil}, 0.1*math.Log(40) + 1},
	} {
		rope := set{"rope_type": "yarn", "rope_theta": 1e4, "factor": 40, "original_max_position_embeddings": 64}
		maps.Copy(rope, tc.extra)
		table, err := parse(t, "llama", set{"rope_parameters": rope}).RopeTable(512)
		if err != nil {
			t.Fatal(err)
		}
		if relative(table.AttentionScaling, tc.want) > 1e-15 {
			t.Errorf("%s: attention scaling %g, want %g", name, table.AttentionScaling, tc.want)
		}
	}
}

// Where the original context is far shorter than the slowest rotation, the blend's upper bound is clamped to dim-1
// (in elements) though pairs are counted: the reference does so, and a clamp to pairs would scale more of them.
func TestYarnBoundsAreClampedLikeTheReference(t *testing.T) {
	table, err := parse(t, "llama", set{"head_dim": 8, "rope_theta": absent, "rope_parameters": set{
		"rope_type": "yarn", "rope_theta": 2, "factor": 4, "original_max_position_embeddings": 4096,
	}}).RopeTable(512)
	if err != nil {
		t.Fatal(err)
	}
	// low = floor(17.4) exceeds high = 7, so (i-17)/(7-17) is at least 1 for every pair: all are divided by the factor.
	for i, f := range table.InvFreq {
		if want := math.Pow(2, -float64(i)/4) / 4; relative(f, want) > 1e-12 {
			t.Errorf("pair %d: %g, want %g", i, f, want)
		}
	}
}

func TestLongropeFactorComesFromTheLengthsWhenAbsent(t *testing.T) {
	ones := []int{1, 1, 1, 1, 1, 1, 1, 1}
	for maxPositions, want := range map[int]float64{64: 1, 256: math.Sqrt(1 + math.Log(4)/math.Log(64))} {
		for _, inside := range []bool{true, false} {
			changes := set{"max_position_embeddings": maxPositions}
			rope := set{"rope_type": "longrope", "short_factor": ones, "long_factor": []int{2, 2, 2, 2, 2, 2, 2, 2}}
			if inside {
				rope["original_max_position_embeddings"] = 64
			} else {
				changes["original_max_position_embeddings"] = 64 // where Phi-3 keeps it
			}
			changes["rope_scaling"] = rope
			c := parse(t, "minicpm", changes)
			for length, divisor := range map[int]float64{64: 1, 65: 2} {
				table, err := c.RopeTable(length)
				if err != nil {
					t.Fatal(err)
				}
				if relative(table.AttentionScaling, want) > 1e-15 || table.InvFreq[0] != 1/divisor {
					t.Errorf("positions %d, length %d: scaling %g, first frequency %g; want %g, %g", maxPositions, length, table.AttentionScaling, table.InvFreq[0], want, 1/divisor)
				}
			}
		}
	}
}

func TestRopeTableRefusesImpossibleLengths(t *testing.T) {
	c := parse(t, "llama", nil)
	for _, length := range []int{0, -1, 1<<24 + 1} {
		if _, err := c.RopeTable(length); err == nil {
			t.Errorf("length %d was accepted", length)
		}
	}
}

func TestCosSinLayoutAndPrecision(t *testing.T) {
	table := model.RopeTable{InvFreq: []float64{1, 0.3}, AttentionScaling: 1.25}
	const positions = 100_001
	got := table.CosSin(positions)
	if len(got) != positions*2*2 {
		t.Fatalf("%d entries, want [%d][2][2]", len(got), positions)
	}
	for _, p := range []int{0, 1, 7, 100_000} {
		for pair, f := range table.InvFreq {
			// Exactly rounded float64 results: an angle computed in float32 would be off by 1e-3 at position 100000.
			cos, sin := float32(1.25*math.Cos(float64(p)*f)), float32(1.25*math.Sin(float64(p)*f))
			if entry := got[(p*2+pair)*2:][:2]; entry[0] != cos || entry[1] != sin {
				t.Errorf("position %d pair %d: %v, want [%v %v]", p, pair, entry, cos, sin)
			}
		}
	}
	if n := len(table.CosSin(-1)); n != 0 {
		t.Errorf("%d entries for -1 positions", n)
	}
}
