package gpu_test

import (
	"math"
	"testing"

	"flint/gpu"
)

func TestBF16RoundsToNearestEven(t *testing.T) {
	for _, c := range []struct{ in, want uint32 }{
		{0x3f800000, 0x3f80},
		{0x3f808000, 0x3f80},
		{0x3f818000, 0x3f82},
		{0x3f808001, 0x3f81},
		{0x7f800000, 0x7f80},
		{0x7f7fffff, 0x7f80},
		{0xff800000, 0xff80},
	} {
		if got := gpu.ToBF16(math.Float32frombits(c.in)); uint32(got) != c.want {
			t.Errorf("%08x: %04x, want %04x", c.in, got, c.want)
		}
	}
	if nan := gpu.ToBF16(math.Float32frombits(0x7f800001)); !math.IsNaN(float64(gpu.FromBF16(nan))) {
		t.Error("a NaN became a number")
	}
}
