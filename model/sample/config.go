// Package sample defines how the next token is chosen from a row of logits. It is the exact definition that the GPU
// kernels follow: everything after the logits is integer arithmetic, so a seed gives the same tokens in Go and on
// every device that computes the same logits.
//
// The steps, in this order:
//
//  1. repetition penalty: the logit of every token among the last PenaltyWindow ones, the row's own included, is
//     divided by RepetitionPenalty when positive and multiplied by it otherwise; a token seen twice is penalised once
//  2. top-k: the TopK largest logits stay
//  3. top-p: of those, the fewest largest stay that hold the share TopP of their probability; at least one
//  4. min-p: of those, the ones at least MinP times as probable as the likeliest stay
//  5. temperature: logits are divided by it
//  6. choice: the largest logit plus Gumbel noise of (seed, position, id), which is a draw from the softmax
//
// Equal logits rank by id, lower first, so steps 2 to 4 leave a prefix of one order and together are one Threshold.
// They see the probabilities before temperature, so that a high temperature flattens what is left and lets nothing
// back in. Temperature 0, TopK 1 and TopP 0 are the same thing: the largest logit, after the penalty.
package sample

import (
	"fmt"
	"math"
)

// Config is what a person sets. Its zero value is refused: see Default.
type Config struct {
	Temperature       float32 // 0: greedy; else MinTemperature to MaxTemperature
	TopK              int     // 0: the full vocabulary
	TopP              float32 // 0 to 1; 1: off
	MinP              float32 // 0 to 1; 0: off
	RepetitionPenalty float32 // 1: off; above discourages
	PenaltyWindow     int     // tokens looked back at; 0: off
}

// Limits of Config. The kernels measure logits down to 256 below the largest: at MaxTemperature what lies further has
// less than 2e-14 of the largest one's probability.
const (
	MinTemperature = 0.001
	MaxTemperature = 8
	MinPenalty     = 0.01
	MaxPenalty     = 100
)

// Default samples from the model's own distribution.
func Default() Config { return Config{Temperature: 1, TopP: 1, RepetitionPenalty: 1} }

// Validate says which setting is out of range, what is allowed and what switches it off.
func (c Config) Validate() error {
	within := func(v, low, high float32) bool { return v >= low && v <= high } // false for NaN
	switch {
	case c.Temperature != 0 && !within(c.Temperature, MinTemperature, MaxTemperature):
		return fmt.Errorf("temperature is %v, want 0 (always the likeliest token) or %v to %v", c.Temperature, MinTemperature, MaxTemperature)
	case c.TopK < 0 || c.TopK > math.MaxInt32:
		return fmt.Errorf("top_k is %d, want 0 (the full vocabulary) or a number of tokens", c.TopK)
	case !within(c.TopP, 0, 1):
		return fmt.Errorf("top_p is %v, want 0 to 1 (1 is off)", c.TopP)
	case !within(c.MinP, 0, 1):
		return fmt.Errorf("min_p is %v, want 0 to 1 (0 is off)", c.MinP)
	case !within(c.RepetitionPenalty, MinPenalty, MaxPenalty):
		return fmt.Errorf("repetition_penalty is %v, want %v to %v (1 is off)", c.RepetitionPenalty, MinPenalty, MaxPenalty)
	case c.PenaltyWindow < 0 || c.PenaltyWindow > math.MaxInt32:
		return fmt.Errorf("the window of the repetition penalty is %d, want 0 (off) or a number of tokens", c.PenaltyWindow)
	}
	return nil
}

// Settings are a valid Config in the units of the definition.
type Settings struct {
	Greedy      bool
	TopK        uint32  // 0: off
	TopP        uint32  // of One; One: off
	MinP        uint32  // largest distance kept; Farthest: off
	InverseTemp uint32  // 1/temperature, of Unity
	Penalty     float32 // multiplies logits that are not positive
	InvPenalty  float32 // multiplies positive ones: a product rounds alike everywhere, a quotient need not
	Window      uint32  // 0: off
}

// One is the whole of a top-p share, Unity the temperature that changes nothing.
const (
	One   = 1 << 24
	Unity = 1 << 22
)

// Settings converts; the Config must be valid.
func (c Config) Settings() Settings {
	s := Settings{
		TopK: uint32(c.TopK), TopP: uint32(math.RoundToEven(float64(c.TopP) * One)), MinP: Farthest, InverseTemp: Unity,
		Penalty: c.RepetitionPenalty, InvPenalty: 1 / c.RepetitionPenalty, Window: uint32(c.PenaltyWindow),
	}
	if c.MinP > 0 {
		s.MinP = uint32(min(-math.Log(float64(c.MinP))*Nat, Farthest))
	}
	if c.Temperature > 0 {
		s.InverseTemp = uint32(math.RoundToEven(Unity / float64(c.Temperature)))
	}
	if c.RepetitionPenalty == 1 {
		s.Window = 0
	}
	s.Greedy = c.Temperature == 0 || s.TopK == 1 || s.TopP == 0
	return s
}

// SettingsWords is the size of Settings as the kernels bind them, in 32-bit words.
const SettingsWords = 16

const flagGreedy = 1

// Words lays the settings out for the kernels.
func (s Settings) Words() []uint32 {
	w := make([]uint32, SettingsWords)
	if s.Greedy {
		w[0] = flagGreedy
	}
	w[1], w[2], w[3], w[4] = s.TopK, s.TopP, s.MinP, s.InverseTemp
	w[5], w[6], w[7] = math.Float32bits(s.Penalty), math.Float32bits(s.InvPenalty), s.Window
	return w
}

// Words lays the configuration out for the kernels; it must be valid.
func (c Config) Words() []uint32 { return c.Settings().Words() }

// ParseSettings reads what Words wrote.
func ParseSettings(w []uint32) Settings {
	return Settings{
		Greedy: w[0]&flagGreedy != 0, TopK: w[1], TopP: w[2], MinP: w[3], InverseTemp: w[4],
		Penalty: math.Float32frombits(w[5]), InvPenalty: math.Float32frombits(w[6]), Window: w[7],
	}
}
