package shaders

import (
	"math"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// positionState is a decode state at a position.
func positionState(h *gputest.Harness, position int) gpu.Tensor {
	words := make([]uint32, StateWords)
	words[StatePosition] = uint32(position)
	return h.State("state", words)
}

// ropeAngles is a table with frequency 10000^(-2i/dh).
func ropeAngles(positions, dh int) []float32 {
	table := make([]float32, 0, positions*dh)
	for p := range positions {
		for i := range dh / 2 {
			sin, cos := math.Sincos(float64(p) * math.Pow(10000, -2*float64(i)/float64(dh)))
			table = append(table, float32(cos), float32(sin))
		}
	}
	return table
}

func TestRope(t *testing.T) {
	for _, c := range []struct {
		class                      string
		t, h, dh, position, length int
	}{
		{"one_row", 1, 4, 64, 5, 32},
		{"first_position", 3, 2, 16, 0, 32},
		{"many_rows", 70, 3, 32, 10, 96},
		{"odd_half", 2, 5, 18, 7, 16},
		{"many_heads", 2, 33, 128, 3, 8},
		{"past_the_table", 4, 2, 16, 6, 8},
	} {
		t.Run(c.class, func(t *testing.T) {
			gputest.Same(t, 1e-6, func(h *gputest.Harness) []gpu.Tensor {
				x := h.InOut("x", gpu.F32, h.Normal(c.t*c.h*c.dh, 1), c.t, c.h, c.dh)
				table := h.In("table", gpu.F32, ropeAngles(c.length, c.dh), c.length, c.dh/2, 2)
				state := positionState(h, c.position)
				h.Run(func(r *gpu.Recorder) { Rope(r, x, table, state) })
				return []gpu.Tensor{x}
			})
		})
	}
}

func TestRopeTurnsPairsHalfAHeadApart(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	x := h.InOut("x", gpu.F32, []float32{1, 2, 3, 4}, 1, 1, 4)
	quarter := []float32{1, 0, 1, 0, 0, 1, 1, 0} // position 1: a quarter turn of pair 0, nothing for pair 1
	table := h.In("table", gpu.F32, quarter, 2, 2, 2)
	state := positionState(h, 1)
	h.Run(func(r *gpu.Recorder) { Rope(r, x, table, state) })
	gputest.AllClose(t, "x", h.Floats(x), []float32{-3, 2, 1, 4}, 0)
}

func TestRopeRefusesWrongShapes(t *testing.T) {
	h := gputest.New(t, gpu.OpenSoftware(gpu.Options{}), t.Name())
	r := h.Device.NewRecorder("rope")
	Rope(r, h.InOut("x", gpu.F32, make([]float32, 6), 1, 2, 3), h.In("table", gpu.F32, make([]float32, 4), 2, 1, 2), positionState(h, 0))
	if r.Err() == nil {
		t.Fatal("an odd head dimension was recorded")
	}
}
