// Package graph lays out the panel's graph: which rectangles to fill, where the axis is labelled and how figures are
// written. It is arithmetic alone, without a screen.
package graph

import (
	"math"
	"strconv"
)

// Kept is how many steps the graph shows.
const Kept = 120

// Series holds the last Kept steps.
type Series struct {
	steps []step
}

type step struct{ tokens, ms float64 }

// Add appends one step: how many tokens it brought, in how many milliseconds. A step without a time has no rate and is
// left out.
func (s *Series) Add(tokens int, ms float64) {
	if !(ms > 0) || tokens < 0 {
		return
	}
	if len(s.steps) == Kept {
		s.steps = append(s.steps[:0], s.steps[1:]...)
	}
	s.steps = append(s.steps, step{float64(tokens), ms})
}

// Reset forgets all steps.
func (s *Series) Reset() { s.steps = s.steps[:0] }

// Rates returns the tokens per second of each step, oldest first.
func (s *Series) Rates() []float64 {
	rates := make([]float64, len(s.steps))
	for i, st := range s.steps {
		rates[i] = st.tokens * 1000 / st.ms
	}
	return rates
}

// Mean returns the tokens per second over all steps: tokens over time, not the mean of the rates, in which fast steps
// would count too much. 0 without steps.
func (s *Series) Mean() float64 {
	var tokens, ms float64
	for _, st := range s.steps {
		tokens += st.tokens
		ms += st.ms
	}
	if ms == 0 {
		return 0
	}
	return tokens * 1000 / ms
}

// Rect is in device pixels, the origin at the upper left.
type Rect struct{ X, Y, W, H int }

// Tick is a labelled height of the axis. Y is in CSS pixels from the top.
type Tick struct {
	Y     float64
	Label string
}

// Picture is all there is to draw.
type Picture struct {
	Grid []Rect
	Bars []Rect // one for each rate, the newest at the right edge
	Mean Rect   // a line; empty without rates
	// Ticks label the grid, topmost first.
	Ticks []Tick
}

// Distances in CSS pixels: the figures stand above the plot, the axis labels in the gutter to its right.
const (
	top    = 38
	margin = 12
	gutter = 30
)

// Layout places rates and their mean in a picture of width by height device pixels, scale of which make a CSS pixel.
// All edges are whole device pixels, so that nothing is blurred. A picture too small for a plot is empty.
func Layout(rates []float64, mean float64, width, height int, scale float64) Picture {
	px := func(css float64) int { return int(math.Round(css * scale)) }
	left, right, upper, lower := px(margin), width-px(margin+gutter), px(top), height-px(margin)
	if right-left < 1 || lower-upper < 1 {
		return Picture{}
	}
	if len(rates) > Kept {
		rates = rates[len(rates)-Kept:]
	}
	highest := mean
	for _, r := range rates {
		highest = max(highest, r)
	}
	axis := Axis(highest)
	hair := max(1, px(1))
	y := func(rate float64) int {
		return lower - int(math.Round(float64(lower-upper)*min(max(rate/axis, 0), 1)))
	}

	var p Picture
	for _, value := range []float64{axis, axis / 2, 0} {
		p.Grid = append(p.Grid, Rect{left, y(value), right - left, hair})
		p.Ticks = append(p.Ticks, Tick{float64(y(value)) / scale, label(value)})
	}
	// Edges are rounded one by one, so that the bars fill the plot at every width.
	slot := max(1, float64(right-left)/Kept)
	edge := func(i int) int { return right - int(math.Round(float64(len(rates)-i)*slot)) }
	gap := 0
	if slot >= 3 {
		gap = max(1, int(slot/5))
	}
	for i, r := range rates {
		x := edge(i)
		if x < left { // fewer pixels than steps: the oldest fall off
			continue
		}
		if r > 0 {
			h := max(hair, lower-y(r)) // a step so slow that its bar would vanish still shows
			p.Bars = append(p.Bars, Rect{x, lower - h, edge(i+1) - x - gap, h})
		}
	}
	if mean > 0 {
		p.Mean = Rect{left, y(mean), right - left, hair}
	}
	return p
}

// Axis returns the end of the axis for values up to highest: the next of 1, 2 and 5 times a power of ten, so that half
// of it is a round figure too.
func Axis(highest float64) float64 {
	if !(highest > 0) || math.IsInf(highest, 1) {
		return 10
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, factor := range []float64{1, 2, 5} {
		if highest <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

func label(value float64) string {
	if value >= 1000 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// Figure writes x in as much detail as it is worth: 0.012, 0.12, 1.23, 12.3, 1234.
func Figure(x float64) string {
	digits := 3
	switch {
	case x >= 99.95:
		digits = 0
	case x >= 9.995:
		digits = 1
	case x >= 0.0995:
		digits = 2
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}
