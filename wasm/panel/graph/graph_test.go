package graph

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestTheSeriesKeepsTheLastSteps(t *testing.T) {
	var s Series
	if s.Mean() != 0 || len(s.Rates()) != 0 {
		t.Error("an empty series has figures")
	}
	for i := range Kept + 5 {
		s.Add(1, float64(i+1))
	}
	rates := s.Rates()
	if len(rates) != Kept || rates[0] != 1000.0/6 || rates[Kept-1] != 1000.0/(Kept+5) {
		t.Errorf("%d rates from %v to %v", len(rates), rates[0], rates[len(rates)-1])
	}
	s.Reset()
	for _, ms := range []float64{0, -1, math.NaN()} {
		s.Add(1, ms)
	}
	if len(s.Rates()) != 0 {
		t.Error("a step without a time has a rate")
	}
	s.Add(1, 10) // 100 tokens/s
	s.Add(1, 90) // 11
	if got := s.Mean(); got != 20 {
		t.Errorf("mean %v, want 20 = 2 tokens in 100 ms", got)
	}
}

func TestAxisEndsAreRound(t *testing.T) {
	for highest, want := range map[float64]float64{0: 10, -1: 10, math.Inf(1): 10, math.NaN(): 10, 1: 1, 1.01: 2, 4: 5, 5.5: 10, 35: 50, 99: 100, 101: 200, 0.03: 0.05, 1e6: 1e6} {
		if got := Axis(highest); math.Abs(got-want) > 1e-9*want {
			t.Errorf("Axis(%v) = %v, want %v", highest, got, want)
		}
	}
}

func TestFigure(t *testing.T) {
	for x, want := range map[float64]string{0: "0.000", 0.0123: "0.012", 0.412: "0.41", 0.999: "1.00", 9.994: "9.99", 9.996: "10.0", 35.24: "35.2", 99.96: "100", 1234.5: "1234"} {
		if got := Figure(x); got != want {
			t.Errorf("Figure(%v) = %q, want %q", x, got, want)
		}
	}
}

func rates(n int) []float64 {
	r := make([]float64, n)
	for i := range r {
		r[i] = 30 + 20*math.Sin(float64(i)/5)
	}
	return r
}

// TestEverythingLiesInsideThePlot checks every size and pixel ratio that a frame can have, silly ones included.
func TestEverythingLiesInsideThePlot(t *testing.T) {
	for _, scale := range []float64{1, 1.25, 1.5, 2, 3} {
		for _, css := range [][2]float64{{1, 1}, {20, 40}, {60, 60}, {130, 100}, {280, 176}, {318, 174}, {1000, 400}} {
			for _, n := range []int{0, 1, 7, Kept, Kept + 30} {
				w, h := int(css[0]*scale), int(css[1]*scale)
				name := fmt.Sprintf("%dx%d at %v with %d", w, h, scale, n)
				p := Layout(rates(n), 30, w, h, scale)
				for _, r := range append(append(append([]Rect{}, p.Grid...), p.Bars...), p.Mean) {
					if r == (Rect{}) {
						continue
					}
					if r.X < 0 || r.Y < 0 || r.W < 1 || r.H < 1 || r.X+r.W > w || r.Y+r.H > h {
						t.Errorf("%s: %+v is outside", name, r)
					}
				}
				for i := 1; i < len(p.Bars); i++ {
					if a, b := p.Bars[i-1], p.Bars[i]; a.X+a.W > b.X {
						t.Errorf("%s: bars %d and %d overlap", name, i-1, i)
					}
				}
				for _, tick := range p.Ticks {
					if tick.Y < 0 || tick.Y > css[1] {
						t.Errorf("%s: label %q at %v", name, tick.Label, tick.Y)
					}
				}
			}
		}
	}
}

func TestBarsStandOnTheBaselineAndEndAtTheRight(t *testing.T) {
	for _, scale := range []float64{1, 2} {
		w, h := int(300*scale), int(176*scale)
		p := Layout([]float64{0, 25, 50}, 25, w, h, scale)
		if len(p.Bars) != 2 {
			t.Fatalf("%d bars, want 2: a rate of 0 has none", len(p.Bars))
		}
		base := p.Grid[2].Y
		right := w - int((margin+gutter)*scale)
		slot := float64(right-int(margin*scale)) / Kept
		for i, b := range p.Bars {
			if b.Y+b.H != base {
				t.Errorf("bar %d ends at %d, the baseline is %d", i, b.Y+b.H, base)
			}
			if want := right - int(math.Round(float64(2-i)*slot)); b.X != want {
				t.Errorf("bar %d at x %d, want %d", i, b.X, want)
			}
		}
		if p.Bars[1].Y != p.Grid[0].Y || p.Bars[0].Y != p.Grid[1].Y || p.Mean.Y != p.Grid[1].Y {
			t.Errorf("50 must reach the end of the axis, 25 and the mean its half: %+v", p)
		}
		if p.Ticks[0].Label != "50" || p.Ticks[1].Label != "25" || p.Ticks[2].Label != "0" {
			t.Errorf("labels %+v", p.Ticks)
		}
	}
}

func TestAFullSeriesFillsThePlot(t *testing.T) {
	for _, w := range []int{200, 318, 640, 999} {
		p := Layout(rates(Kept), 30, w, 176, 1)
		if len(p.Bars) != Kept || p.Bars[0].X != margin {
			t.Errorf("width %d: %d bars from x %d, want %d from %d", w, len(p.Bars), p.Bars[0].X, Kept, margin)
		}
	}
}

func TestAFrameTwiceAsFineShowsTheSamePicture(t *testing.T) {
	one, two := Layout(rates(50), 30, 320, 176, 1), Layout(rates(50), 30, 640, 352, 2)
	for i := range one.Ticks {
		if d := one.Ticks[i].Y - two.Ticks[i].Y; math.Abs(d) > 0.5 || one.Ticks[i].Label != two.Ticks[i].Label {
			t.Errorf("tick %d: %+v and %+v", i, one.Ticks[i], two.Ticks[i])
		}
	}
	if len(one.Bars) != len(two.Bars) || two.Mean.H != 2 {
		t.Errorf("%d bars and %d, mean line %d thick", len(one.Bars), len(two.Bars), two.Mean.H)
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(100, 0)
	var p Pace
	if after, draw := p.Changed(now); after != 0 || !draw {
		t.Fatalf("first change: %v %v, want at once", after, draw)
	}
	if _, draw := p.Changed(now); draw {
		t.Fatal("a second frame is promised while one is due")
	}
	if !p.Due(now) {
		t.Fatal("not drawn when due")
	}
	now = now.Add(30 * time.Millisecond)
	if after, draw := p.Changed(now); after != 70*time.Millisecond || !draw {
		t.Fatalf("a change after 30 ms: %v %v, want 70 ms", after, draw)
	}
	p.SetHidden(true)
	if p.Due(now.Add(after70)) {
		t.Fatal("drawn while hidden")
	}
	if _, draw := p.Changed(now); draw {
		t.Fatal("a frame is promised while hidden")
	}
	if !p.SetHidden(false) {
		t.Fatal("the missed change is forgotten")
	}
	if p.SetHidden(false) {
		t.Fatal("the missed change is told twice")
	}
}

const after70 = 70 * time.Millisecond

func TestNoMoreThanTenFramesASecond(t *testing.T) {
	var p Pace
	start := time.Unix(0, 0)
	var due time.Time
	frames, pending := 0, false
	for ms := range 1000 {
		now := start.Add(time.Duration(ms) * time.Millisecond)
		if pending && !now.Before(due) {
			pending = false
			if p.Due(now) {
				frames++
			}
		}
		if after, draw := p.Changed(now); draw {
			due, pending = now.Add(after), true
		}
	}
	if frames < 9 || frames > 10 {
		t.Errorf("%d frames in a second of changes, want 9 or 10", frames)
	}
}
