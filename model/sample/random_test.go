package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The known answers of the generator's authors.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
			[2]uint32{0xffffffff, 0xffffffff},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := Philox(c.counter, c.key); got != c.want {
			t.Errorf("Philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// exactGumbel is the same transformation in float64.
func exactGumbel(high, low uint32) float64 {
	whole := 32.0
	if high != 0 {
		whole = 31 - math.Floor(math.Log2(float64(high)))
	}
	v := math.Ldexp(float64(max(low, 1))+float64(high&0x7fffffff)/(1<<31), -33)
	return -math.Log(math.Ln2*whole - math.Log1p(-v))
}

func TestGumbelPrecision(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	edges := []uint32{0, 1, 2, 3, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff}
	worst := 0.0
	check := func(high, low uint32) {
		got, want := float64(Gumbel(high, low))/Nat, exactGumbel(high, low)
		worst = max(worst, math.Abs(got-want))
		if math.Abs(got-want) > 1.5e-6 {
			t.Fatalf("Gumbel(%#x, %#x) is %v, want %v", high, low, got, want)
		}
	}
	for _, h := range edges {
		for _, l := range edges {
			check(h, l)
		}
	}
	for range 1_000_000 {
		check(rng.Uint32()>>rng.IntN(32), rng.Uint32()>>rng.IntN(32))
	}
	t.Logf("largest error %.2g", worst)
}

// The noise follows the Gumbel distribution: its values in 64 equally likely bins.
func TestNoiseDistribution(t *testing.T) {
	const bins, draws = 64, 400_000
	counts := make([]float64, bins)
	for i := range uint32(draws) {
		g := float64(Noise(7, i/1000, i%1000)) / Nat
		counts[int(math.Exp(-math.Exp(-g))*bins)]++
	}
	chi := 0.0
	for _, c := range counts {
		d := c - draws/bins
		chi += d * d / (draws / bins)
	}
	if limit := chiLimit(bins - 1); chi > limit {
		t.Fatalf("chi-square %.1f, want at most %.1f", chi, limit)
	}
}

func TestNoiseKeys(t *testing.T) {
	base := Noise(1, 2, 3)
	for name, other := range map[string]int32{
		"low seed": Noise(2, 2, 3), "high seed": Noise(1+1<<32, 2, 3), "position": Noise(1, 3, 3), "id": Noise(1, 2, 2), "block": Noise(1, 2, 5),
	} {
		if other == base {
			t.Errorf("another %s has the same noise", name)
		}
	}
	if Noise(1, 2, 3) != base {
		t.Error("the same key has other noise")
	}
}

func TestWeightPrecision(t *testing.T) {
	for q := uint32(0); q < 40*Nat; q += 7919 {
		got, want := float64(Weight(q)), math.Exp(-float64(q)/Nat)*(1<<31)
		if math.Abs(got-want) > 1+2e-8*want {
			t.Fatalf("Weight(%d) is %v, want %v", q, got, want)
		}
	}
	if w := Weight(Farthest); w != 0 {
		t.Errorf("Weight of the farthest is %d, want 0", w)
	}
}

// chiLimit is the chi-square value that a true hypothesis passes in about 1 run of 10,000 (Wilson and Hilferty's
// approximation). Seeds are fixed, so a test either passes always or never.
func chiLimit(freedom int) float64 {
	k := float64(freedom)
	return k * math.Pow(1-2/(9*k)+3.719*math.Sqrt(2/(9*k)), 3)
}
