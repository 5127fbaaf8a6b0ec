package shaders

import (
	"fmt"
	"reflect"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// stepper runs Accept against one state.
type stepper struct {
	h                            *gputest.Harness
	state, tokens, report, stops gpu.Tensor
}

func newStepper(h *gputest.Harness, s State, tokens int, stops ...uint32) stepper {
	words, err := StopWords(stops)
	if err != nil {
		h.T.Fatal(err)
	}
	return stepper{
		h: h, state: h.InOutState("state", stateWords(s)), tokens: h.InOut("tokens", gpu.U32, make([]float32, tokens), tokens),
		report: h.Out("report", gpu.U32, ReportWords), stops: h.InU32("stops", words, len(words)),
	}
}

func stateWords(s State) []uint32 {
	w := make([]uint32, StateWords)
	w[StatePosition], w[StatePrevious], w[StateAccepted], w[StateDone] = s.Position, s.Previous, s.Accepted, s.Done
	w[StateRound], w[StateLimit], w[StateSeedLo], w[StateSeedHi] = s.Round, s.Limit, uint32(s.Seed), uint32(s.Seed>>32)
	return w
}

// step accepts the tokens one after the other in one submission, and returns the last report.
func (s stepper) step(rows int, ids ...uint32) Report {
	s.h.T.Helper()
	var choices []gpu.Tensor
	for i, id := range ids {
		choices = append(choices, s.h.InU32(fmt.Sprintf("choice%d", i), []uint32{id}, 1))
	}
	s.h.Run(func(r *gpu.Recorder) {
		for _, c := range choices {
			Accept(r, s.state, s.tokens, s.report, c, s.stops, rows)
		}
	})
	report, err := ParseReport(s.h.Bytes(s.report))
	if err != nil {
		s.h.T.Fatal(err)
	}
	return report
}

func (s stepper) want(what string, got, want Report, tokens ...uint32) {
	s.h.T.Helper()
	if !reflect.DeepEqual(got, want) {
		s.h.T.Fatalf("%s: report %+v, want %+v", what, got, want)
	}
	if have := s.h.U32(s.tokens); !reflect.DeepEqual(have, tokens) {
		s.h.T.Fatalf("%s: tokens %v, want %v", what, have, tokens)
	}
}

func TestAccept(t *testing.T) {
	gputest.Run(t, func(t *testing.T, d *gpu.Device) {
		h := func(t *testing.T) *gputest.Harness { return gputest.New(t, d, t.Name()) }
		t.Run("prefill_steps_stop", func(t *testing.T) {
			start := State{Limit: 100, Seed: 0x1_0000_0002}
			s := newStepper(h(t), start, 8, 50, 51)
			s.want("prefill", s.step(3, 7), Report{Round: 1, Position: 3, Tokens: []uint32{7}}, 0, 0, 0, 7, 0, 0, 0, 0)
			s.want("step", s.step(1, 8), Report{Round: 2, Position: 4, Tokens: []uint32{8}}, 0, 0, 0, 7, 8, 0, 0, 0)
			s.want("stop", s.step(1, 51), Report{Round: 3, Position: 5, Done: true, Tokens: []uint32{51}}, 0, 0, 0, 7, 8, 51, 0, 0)
			s.want("after", s.step(1, 9), Report{Round: 3, Position: 5, Done: true}, 0, 0, 0, 7, 8, 51, 0, 0)
			want := State{Position: 5, Previous: 4, Done: 1, Round: 3, Limit: 100, Seed: start.Seed}
			if got := ParseState(s.h.Bytes(s.state)); got != want {
				t.Fatalf("state %+v, want %+v", got, want)
			}
		})
		t.Run("two_queued_steps", func(t *testing.T) {
			s := newStepper(h(t), State{Position: 1, Limit: 100}, 6, 50)
			s.want("both", s.step(1, 4, 5), Report{Round: 2, Position: 3, Tokens: []uint32{5}}, 0, 0, 4, 5, 0, 0)
			s.want("stop first", s.step(1, 50, 6), Report{Round: 3, Position: 4, Done: true}, 0, 0, 4, 5, 50, 0)
		})
		t.Run("limit", func(t *testing.T) {
			s := newStepper(h(t), State{Position: 1, Limit: 4, Accepted: 3}, 6)
			s.want("before", s.step(1, 4), Report{Round: 1, Position: 2, Tokens: []uint32{4}}, 0, 0, 4, 0, 0, 0)
			s.want("last", s.step(1, 5), Report{Round: 2, Position: 3, Done: true, Tokens: []uint32{5}}, 0, 0, 4, 5, 0, 0)
		})
		t.Run("at_limit", func(t *testing.T) {
			s := newStepper(h(t), State{Position: 3, Limit: 4}, 6)
			s.want("none", s.step(1, 5), Report{Position: 3, Done: true}, 0, 0, 0, 0, 0, 0)
		})
		t.Run("buffer_end", func(t *testing.T) {
			s := newStepper(h(t), State{Position: 1, Limit: 1 << 30}, 3)
			s.want("last", s.step(1, 5), Report{Round: 1, Position: 2, Done: true, Tokens: []uint32{5}}, 0, 0, 5)
			s.want("beyond", s.step(1, 6), Report{Round: 1, Position: 2, Done: true}, 0, 0, 5)
		})
		t.Run("many_stops", func(t *testing.T) {
			ids := make([]uint32, MaxStops)
			for i := range ids {
				ids[i] = uint32(i) + 10
			}
			s := newStepper(h(t), State{Limit: 9}, 3, ids...)
			s.want("sixteenth", s.step(1, 25), Report{Round: 1, Position: 1, Done: true, Tokens: []uint32{25}}, 0, 25, 0)
		})
	})
	if _, err := StopWords(make([]uint32, MaxStops+1)); err == nil {
		t.Error("too many stop tokens: no error")
	}
	if _, err := ParseReport(make([]byte, 8)); err == nil {
		t.Error("short report: no error")
	}
	bad := make([]byte, 4*ReportWords)
	bad[4*reportCount] = 9
	if _, err := ParseReport(bad); err == nil {
		t.Error("report of nine tokens: no error")
	}
}
