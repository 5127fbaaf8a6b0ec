package shaders

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"slices"

	"flint/gpu"
)

//go:embed accept.wgsl
var acceptWGSL string

var accept = &gpu.Kernel{
	Name: "accept",
	WGSL: acceptWGSL,
	Bindings: []gpu.Binding{
		{Name: "state", Access: gpu.ReadWrite},
		{Name: "tokens", Access: gpu.ReadWrite},
		{Name: "report", Access: gpu.ReadWrite},
		{Name: "choice", Access: gpu.Read},
		{Name: "stops", Access: gpu.Read},
	},
	Reference: refAccept,
}

// ReportWords is the size of a report in 32-bit words.
const ReportWords = 16

// Words of a report.
const (
	reportRound = iota
	reportPosition
	reportDone
	reportCount
	reportAccepted
	reportTokens = 8 // up to eight
)

// Report is what the host reads back from a step.
type Report struct {
	Round    uint32   // steps so far, this one included
	Position uint32   // of the last committed token
	Done     bool     // a stop token was committed or the limit reached
	Accepted uint32   // drafts among the tokens
	Tokens   []uint32 // committed by this step; none when the state was done before it
}

// ParseReport reads a report of Accept.
func ParseReport(b []byte) (Report, error) {
	if len(b) != 4*ReportWords {
		return Report{}, fmt.Errorf("report has %d bytes, want %d", len(b), 4*ReportWords)
	}
	w := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	r := Report{Round: w(reportRound), Position: w(reportPosition), Done: w(reportDone) != 0, Accepted: w(reportAccepted)}
	count := w(reportCount)
	if count > ReportWords-reportTokens {
		return Report{}, fmt.Errorf("report counts %d tokens, want at most %d", count, ReportWords-reportTokens)
	}
	for i := range int(count) {
		r.Tokens = append(r.Tokens, w(reportTokens+i))
	}
	return r, nil
}

// MaxStops is the number of stop tokens a request may have.
const MaxStops = 16

// StopWords lays stop tokens out for Accept: their count, then the ids, padded to 1+MaxStops words.
func StopWords(ids []uint32) ([]uint32, error) {
	if len(ids) > MaxStops {
		return nil, fmt.Errorf("%d stop tokens, want at most %d", len(ids), MaxStops)
	}
	w := make([]uint32, 1+MaxStops)
	w[0] = uint32(len(ids))
	copy(w[1:], ids)
	return w, nil
}

// Accept records the end of a plain step of rows rows that started at state.position: choice[0], drawn from the last
// row, is committed as the next token and the state moves to it. The state is done once that token is a stop token, or
// no further position is below state.limit and inside tokens. When the state is done before, nothing is committed and
// nothing changes, so steps queued past the end are harmless; the report says so.
//
//	state [16] u32   tokens [S] u32   report [16] u32   choice [T] u32   stops [1+n] u32, the count first
func Accept(r *gpu.Recorder, state, tokens, report, choice, stops gpu.Tensor, rows int) {
	if !r.Check("accept", "state", state, u32, StateWords) || !r.Check("accept", "tokens", tokens, u32, -1) ||
		!r.Check("accept", "report", report, u32, ReportWords) || !r.Check("accept", "choice", choice, u32, -1) ||
		!r.Check("accept", "stops", stops, u32, -1) {
		return
	}
	if rows < 1 {
		r.Errorf("1 row or more", fmt.Sprintf("accept: %d rows", rows))
		return
	}
	r.Dispatch(accept, gpu.Variant{Prelude: libState}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(rows), state, tokens, report, choice, stops)
}

func refAccept(c *gpu.Call) {
	state, tokens, report, choice, stops := c.U32(0), c.U32(1), c.U32(2), c.U32(3), c.U32(4)
	clear(report[:ReportWords])
	if state[StateDone] == 0 {
		position := state[StatePosition] + c.Params[0]
		limit := min(state[StateLimit], uint32(len(tokens)))
		done := position >= limit || position+1 >= limit
		if position < limit {
			token := choice[0]
			tokens[position] = token
			state[StatePrevious], state[StatePosition], state[StateAccepted] = state[StatePosition], position, 0
			state[StateRound]++
			report[reportCount], report[reportTokens] = 1, token
			done = done || slices.Contains(stops[1:1+min(int(stops[0]), len(stops)-1)], token)
		}
		state[StateDone] = 0
		if done {
			state[StateDone] = 1
		}
	}
	report[reportRound], report[reportPosition] = state[StateRound], state[StatePosition]
	report[reportDone], report[reportAccepted] = state[StateDone], state[StateAccepted]
}
