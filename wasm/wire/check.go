package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Limits on what a page may ask for; beyond them a request is a mistake or an attack, never a wish.
const (
	maxTurns       = 100_000
	maxStopStrings = 64
	maxStopBytes   = 1024
	maxLength      = 1 << 24 // tokens
)

var errNoID = errors.New("id is 0 or missing")

func (m Load) check() error {
	switch {
	case m.ID == 0:
		return errNoID
	case m.Files < 0:
		return fmt.Errorf("files is %d, want a count", m.Files)
	case (m.URL == "") == (m.Files == 0):
		return fmt.Errorf("want either url or files, got url %q and files %d", m.URL, m.Files)
	case m.URL != "" && !strings.HasSuffix(m.URL, "/"):
		return fmt.Errorf("url %q does not end in a slash, want a folder", m.URL)
	}
	return checkCount("contextLength", m.ContextLength)
}

func (m Chat) check() error {
	if m.ID == 0 {
		return errNoID
	}
	if len(m.Messages) == 0 || len(m.Messages) > maxTurns {
		return fmt.Errorf("%d messages, want 1 to %d", len(m.Messages), maxTurns)
	}
	for i, t := range m.Messages {
		switch t.Role {
		case System, User, Assistant:
		default:
			return fmt.Errorf("messages[%d].role is %.40q, want system, user or assistant", i, t.Role)
		}
	}
	return m.Sampling.Check()
}

// Check says which field is out of range. A chat with such sampling is refused, and so is an event that tells of it.
func (s Sampling) Check() error {
	switch {
	case !(s.Temperature >= 0 && s.Temperature <= 100): // also refuses NaN
		return fmt.Errorf("sampling.temperature is %v, want 0 to 100", s.Temperature)
	case !(s.TopP > 0 && s.TopP <= 1):
		return fmt.Errorf("sampling.topP is %v, want more than 0 and at most 1 (1 is off)", s.TopP)
	case !(s.MinP >= 0 && s.MinP < 1):
		return fmt.Errorf("sampling.minP is %v, want at least 0 and less than 1 (0 is off)", s.MinP)
	case !(s.RepetitionPenalty > 0 && s.RepetitionPenalty <= 100):
		return fmt.Errorf("sampling.repetitionPenalty is %v, want more than 0 and at most 100 (1 is off)", s.RepetitionPenalty)
	case s.Seed != nil && *s.Seed > MaxSeed:
		return fmt.Errorf("sampling.seed is %d, want at most %d", *s.Seed, uint64(MaxSeed))
	case len(s.Stop) > maxStopStrings:
		return fmt.Errorf("sampling.stop has %d strings, want at most %d", len(s.Stop), maxStopStrings)
	}
	for i, stop := range s.Stop {
		if stop == "" || len(stop) > maxStopBytes {
			return fmt.Errorf("sampling.stop[%d] has %d bytes, want 1 to %d", i, len(stop), maxStopBytes)
		}
	}
	return errors.Join(
		checkCount("sampling.topK", s.TopK),
		checkCount("sampling.penaltyWindow", s.PenaltyWindow),
		checkCount("sampling.maxTokens", s.MaxTokens))
}

func (m Cancel) check() error {
	if m.ID == 0 {
		return errNoID
	}
	return nil
}

func (Reset) check() error { return nil }
func (Ping) check() error  { return nil }
func (Hello) check() error { return nil }
func (Pong) check() error  { return nil }

func (m Progress) check() error {
	switch m.Phase {
	case Download, Tokenizer, Kernels, Weights, Prefill:
	default:
		return fmt.Errorf("phase is %.40q, want download, tokenizer, kernels, weights or prefill", m.Phase)
	}
	if m.ID == 0 {
		return errNoID
	}
	if m.Done < 0 || m.Total < 0 || (m.Total > 0 && m.Done > m.Total) {
		return fmt.Errorf("done is %d of %d", m.Done, m.Total)
	}
	return nil
}

func (m Loaded) check() error {
	if m.ID == 0 {
		return errNoID
	}
	if m.Parameters < 0 || m.GPUBytes < 0 {
		return fmt.Errorf("parameters is %d and gpuBytes %d, want counts", m.Parameters, m.GPUBytes)
	}
	return errors.Join(
		checkCount("contextLength", m.ContextLength), checkFigures("ms", m.MS), m.Sampling.Check())
}

func (m Token) check() error {
	if m.ID == 0 {
		return errNoID
	}
	return nil
}

func (m Step) check() error {
	if m.ID == 0 {
		return errNoID
	}
	return errors.Join(
		checkCount("index", m.Index), checkCount("tokens", m.Tokens), checkCount("position", m.Position),
		checkFigures("ms and tokensPerSecond", m.MS, m.TokensPerSecond))
}

func (m Done) check() error {
	if m.ID == 0 {
		return errNoID
	}
	switch m.Reason {
	case Stopped, LengthReached, Cancelled, ContextReached:
	default:
		return fmt.Errorf("reason is %.40q, want stop, length, cancelled or context", m.Reason)
	}
	if m.Seed > MaxSeed {
		return fmt.Errorf("seed is %d, want at most %d", m.Seed, uint64(MaxSeed))
	}
	t := m.Timings
	return errors.Join(
		checkCount("usage.prompt", m.Usage.Prompt), checkCount("usage.reused", m.Usage.Reused),
		checkCount("usage.completion", m.Usage.Completion),
		checkFigures("timings", t.PrefillMS, t.DecodeMS, t.FirstTokenMS, t.TokensPerSecond))
}

func (m Error) check() error {
	switch m.Code {
	case NoWebGPU, NoAdapter, DeviceLost, OutOfMemory, BadModel, FileChanged, Network, ContextOverflow, NoModel,
		CancelledLoad, BadRequest, Internal:
	default:
		return fmt.Errorf("unknown code %.40q", m.Code)
	}
	if m.Message == "" {
		return errors.New("message is empty")
	}
	return nil
}

func (m Fatal) check() error {
	if m.Message == "" {
		return errors.New("message is empty")
	}
	return nil
}

func checkCount(field string, n int) error {
	if n < 0 || n > maxLength {
		return fmt.Errorf("%s is %d, want 0 to %d", field, n, maxLength)
	}
	return nil
}

// checkFigures keeps a division by zero on one side from becoming "Infinity tokens/s" on the other.
func checkFigures(field string, values ...float64) error {
	for _, v := range values {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%s: %v, want a finite figure of at least 0", field, v)
		}
	}
	return nil
}
