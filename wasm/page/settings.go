package main

import (
	"strconv"
	"strings"

	"flint/wasm/wire"
)

// sampling combines what the model recommends with what the user chose. seed is the text of the seed field: empty lets
// the engine draw one. mistake is a sentence for the user, empty if there is none.
func sampling(recommended wire.Sampling, temperature, seed string) (s wire.Sampling, mistake string) {
	s = recommended
	t, err := strconv.ParseFloat(temperature, 64)
	s.Temperature = t
	if err != nil || s.Check() != nil { // the engine's message would be about a request that the page should not have made
		s.Temperature = recommended.Temperature
		return s, textBadTemperature
	}
	s.Seed = nil
	if seed = strings.TrimSpace(seed); seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil || n > wire.MaxSeed {
			return s, textBadSeed
		}
		s.Seed = &n
	}
	return s, ""
}
