package shaders

import (
	_ "embed"
	"encoding/binary"
)

//go:embed lib_state.wgsl
var libState string

// StateWords is the size of the decode state in 32-bit words: 64 bytes, bound as a uniform by every kernel but accept.
const StateWords = 16

// Words of the decode state. See lib_state.wgsl for what each means.
const (
	StatePosition = iota
	StatePrevious
	StateAccepted
	StateDone
	StateRound
	StateLimit
	StateSeedLo
	StateSeedHi
)

// TokenSlack is how many rows past the context every per-position buffer carries, so that a step near the end never
// writes outside.
const TokenSlack = 16

// State is the host's copy of the decode state, written before a prefill and read back after steps.
type State struct {
	Position, Previous, Accepted, Done, Round, Limit uint32
	Seed                                             uint64
}

// Bytes lays the state out as the GPU reads it.
func (s State) Bytes() []byte {
	words := [StateWords]uint32{s.Position, s.Previous, s.Accepted, s.Done, s.Round, s.Limit, uint32(s.Seed), uint32(s.Seed >> 32)}
	out := make([]byte, 4*StateWords)
	for i, w := range words {
		binary.LittleEndian.PutUint32(out[4*i:], w)
	}
	return out
}

// ParseState reads a state back.
func ParseState(b []byte) State {
	w := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return State{
		Position: w(StatePosition), Previous: w(StatePrevious), Accepted: w(StateAccepted), Done: w(StateDone),
		Round: w(StateRound), Limit: w(StateLimit), Seed: uint64(w(StateSeedLo)) | uint64(w(StateSeedHi))<<32,
	}
}
