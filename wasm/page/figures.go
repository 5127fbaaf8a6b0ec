package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"flint/wasm/panel/graph"
	"flint/wasm/wire"
)

// recent is how many steps the live figure averages: enough to be readable, few enough to follow a change.
const recent = 16

// meter measures the decoding speed of the last few steps.
type meter struct {
	steps []wire.Step
}

func (m *meter) add(s wire.Step) {
	if s.Index == 0 {
		m.steps = m.steps[:0]
	}
	if len(m.steps) == recent {
		m.steps = append(m.steps[:0], m.steps[1:]...)
	}
	m.steps = append(m.steps, s)
}

// rate is in tokens per second; 0 if nothing has been measured.
func (m *meter) rate() float64 {
	var tokens, ms float64
	for _, s := range m.steps {
		tokens += float64(s.Tokens)
		ms += s.MS
	}
	if ms == 0 {
		return 0
	}
	return tokens * 1000 / ms
}

// scaled writes n with a decimal prefix: 27.3 M.
func scaled(n int64) string {
	x := float64(n)
	for _, prefix := range []string{"", "k", "M", "G"} {
		if x < 999.5 {
			if prefix == "" {
				return strconv.FormatInt(n, 10) + " "
			}
			return graph.Figure(x) + " " + prefix
		}
		x /= 1000
	}
	return graph.Figure(x) + " T"
}

func size(bytes int64) string { return scaled(bytes) + "B" }

func seconds(ms float64) string { return graph.Figure(ms/1000) + " s" }

// percent is for a progress bar; ok is false while the total is unknown.
func percent(p wire.Progress) (value int, ok bool) {
	if p.Total == 0 {
		return 0, false
	}
	return int(math.Floor(100 * float64(p.Done) / float64(p.Total))), true
}

// progressText says what is being done and how far it is.
func progressText(p wire.Progress) string {
	label := phaseTexts[p.Phase]
	amount := func(n int64) string { return strconv.FormatInt(n, 10) }
	if p.Phase == wire.Download || p.Phase == wire.Weights {
		amount = size
	}
	switch {
	case p.Total > 0:
		return fmt.Sprintf(textProgressOf, label, amount(p.Done), amount(p.Total))
	case p.Done > 0:
		return fmt.Sprintf(textProgress, label, amount(p.Done))
	}
	return label + "…"
}

// summary is the line under a finished answer.
func summary(d wire.Done) string {
	parts := []string{fmt.Sprintf(textTokens, d.Usage.Completion)}
	if d.Timings.TokensPerSecond > 0 {
		parts = append(parts, fmt.Sprintf(textRate, graph.Figure(d.Timings.TokensPerSecond)))
	}
	if d.Timings.FirstTokenMS > 0 {
		parts = append(parts, fmt.Sprintf(textFirstToken, seconds(d.Timings.FirstTokenMS)))
	}
	parts = append(parts, fmt.Sprintf(textSeed, d.Seed))
	if note := reasonTexts[d.Reason]; note != "" {
		parts = append(parts, note)
	}
	return strings.Join(parts, " · ")
}

// modelLine describes a loaded model.
func modelLine(l wire.Loaded) string {
	if l.Parameters == 0 {
		return l.Name
	}
	return l.Name + " · " + strings.ReplaceAll(scaled(l.Parameters), " ", "")
}

// adapterLine describes the GPU as far as the browser tells.
func adapterLine(a wire.Adapter) string {
	var parts []string
	for _, part := range []string{a.Vendor, a.Architecture, a.Device, a.Description} {
		if part != "" && !strings.Contains(strings.Join(parts, " "), part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		parts = []string{textUnnamedGPU}
	}
	line := strings.Join(parts, " ")
	if len(a.Features) > 0 {
		line += " · " + strings.Join(a.Features, ", ")
	}
	return line
}
