package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// piece is a stretch of text on its way to becoming a word. first says that it holds the first byte of the whole input.
type piece struct {
	s     string
	first bool
}

// preTokenizer is one step: it cuts pieces further, or changes them.
type preTokenizer func([]piece) ([]piece, error)

// gpt2Pattern is what ByteLevel splits by with use_regex (Radford et al. 2019, the GPT-2 release).
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// words is the pre-tokenizer as a whole.
type words struct {
	steps     []preTokenizer
	byteLevel bool // words are bytes, for the byte-level alphabet
}

func newWords(raw json.RawMessage) (words, error) {
	var w words
	if raw == nil {
		return w, nil
	}
	c, err := newComponent("pre_tokenizer", raw)
	if err != nil {
		return w, err
	}
	return w, c.preTokenizer(&w)
}

func (c component) preTokenizer(w *words) error {
	if w.byteLevel {
		return fmt.Errorf("%s: %s after ByteLevel is not supported: it would see the byte-level alphabet, not the text", c.where, c.kind)
	}
	switch c.kind {
	case "Sequence":
		parts, err := c.sequence("pretokenizers")
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := p.preTokenizer(w); err != nil {
				return err
			}
		}
		return nil
	case "Split":
		return c.split(w)
	case "Digits":
		var o struct {
			Type       *string `json:"type"`
			Individual *bool   `json:"individual_digits"`
		}
		if err := c.options(&o); err != nil {
			return err
		}
		how := "Contiguous"
		if *o.Individual {
			how = "Isolated"
		}
		w.steps = append(w.steps, splitStep(findNumbers, how, false))
		return nil
	case "ByteLevel":
		var o struct {
			Type           *string `json:"type"`
			AddPrefixSpace *bool   `json:"add_prefix_space"`
			TrimOffsets    *bool   `json:"trim_offsets"` // about offsets, which we do not give
			UseRegex       *bool   `json:"use_regex"`
		}
		if err := c.options(&o, "use_regex"); err != nil {
			return err
		}
		if *o.AddPrefixSpace {
			w.steps = append(w.steps, prefixSpace)
		}
		if o.UseRegex == nil || *o.UseRegex {
			find, err := regexFinder(gpt2Pattern)
			if err != nil {
				return err
			}
			w.steps = append(w.steps, splitStep(find, "Isolated", false))
		}
		w.byteLevel = true
		return nil
	case "Metaspace":
		m, err := c.metaspace()
		if err != nil {
			return err
		}
		w.steps = append(w.steps, m.mark)
		if m.split {
			find := func(s string) ([][2]int, error) { return findLiteral(s, m.replacement), nil }
			w.steps = append(w.steps, splitStep(find, "MergedWithNext", false))
		}
		return nil
	}
	return c.unsupported("Split, Digits, ByteLevel, Metaspace, Sequence")
}

func (c component) split(w *words) error {
	var o struct {
		Type     *string  `json:"type"`
		Pattern  *pattern `json:"pattern"`
		Behavior *string  `json:"behavior"`
		Invert   *bool    `json:"invert"`
	}
	if err := c.options(&o); err != nil {
		return err
	}
	switch *o.Behavior {
	case "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous":
	default:
		return fmt.Errorf("%s: Split: behavior %s is not supported", c.where, quote(*o.Behavior))
	}
	find, err := newFinder(c, o.Pattern)
	if err != nil {
		return err
	}
	w.steps = append(w.steps, splitStep(find, *o.Behavior, *o.Invert))
	return nil
}

// metaspace is SentencePiece's way with spaces: they become a visible character, and a word carries the one before it.
type metaspace struct {
	replacement string
	scheme      string // when to put a replacement in front: "always", "first" (at the start of the input), "never"
	split       bool
}

func (c component) metaspace() (metaspace, error) {
	var o struct {
		Type        *string `json:"type"`
		Replacement *string `json:"replacement"`
		AddPrefix   *bool   `json:"add_prefix_space"` // the name before prepend_scheme
		Scheme      *string `json:"prepend_scheme"`
		Split       *bool   `json:"split"`
	}
	if err := c.options(&o, "add_prefix_space", "prepend_scheme", "split"); err != nil {
		return metaspace{}, err
	}
	m := metaspace{replacement: *o.Replacement, scheme: "always", split: o.Split == nil || *o.Split}
	if o.Scheme != nil {
		m.scheme = *o.Scheme
	}
	switch {
	case utf8.RuneCountInString(m.replacement) != 1:
		return m, fmt.Errorf("%s: Metaspace: want a replacement of one character, found %s", c.where, quote(m.replacement))
	case m.scheme != "always" && m.scheme != "first" && m.scheme != "never":
		return m, fmt.Errorf("%s: Metaspace: prepend_scheme %s is not supported", c.where, quote(m.scheme))
	case o.AddPrefix != nil && !*o.AddPrefix && o.Scheme != nil && m.scheme != "never":
		return m, fmt.Errorf("%s: Metaspace: add_prefix_space false contradicts prepend_scheme %s", c.where, quote(m.scheme))
	case o.AddPrefix != nil && !*o.AddPrefix:
		m.scheme = "never"
	}
	return m, nil
}

func (m metaspace) mark(in []piece) ([]piece, error) {
	for i, p := range in {
		s := strings.ReplaceAll(p.s, " ", m.replacement)
		if (m.scheme == "always" || m.scheme == "first" && p.first) && !strings.HasPrefix(s, m.replacement) {
			s = m.replacement + s
		}
		in[i].s = s
	}
	return in, nil
}

func prefixSpace(in []piece) ([]piece, error) {
	for i, p := range in {
		if !strings.HasPrefix(p.s, " ") {
			in[i].s = " " + p.s
		}
	}
	return in, nil
}

func findNumbers(s string) (out [][2]int, err error) {
	for i, r := range s {
		if numeric(r) {
			out = append(out, [2]int{i, i + utf8.RuneLen(r)})
		}
	}
	return out, nil
}

// splitStep cuts each piece at the matches of find. behavior says where a match goes: Removed, Isolated (a piece of its
// own), MergedWithPrevious, MergedWithNext, or Contiguous (neighbouring matches together are one piece). With invert
// what lies between the matches counts as the match.
func splitStep(find finder, behavior string, invert bool) preTokenizer {
	return func(in []piece) ([]piece, error) {
		out := make([]piece, 0, len(in))
		for _, p := range in {
			matches, err := find(p.s)
			if err != nil {
				return nil, err
			}
			for _, c := range cuts(parts(p.s, matches, invert), behavior) {
				if c.start < c.end {
					out = append(out, piece{s: p.s[c.start:c.end], first: p.first && c.start == 0})
				}
			}
		}
		return out, nil
	}
}

// part is a match or what lies between two.
type part struct {
	start, end int
	match      bool
}

func parts(s string, matches [][2]int, invert bool) []part {
	out := make([]part, 0, 2*len(matches)+1)
	at := 0
	for _, m := range matches {
		if at < m[0] {
			out = append(out, part{at, m[0], invert})
		}
		out = append(out, part{m[0], m[1], !invert})
		at = m[1]
	}
	if at < len(s) {
		out = append(out, part{at, len(s), invert})
	}
	return out
}

// cuts joins or drops parts in place as behavior says.
func cuts(in []part, behavior string) []part {
	out := in[:0]
	switch behavior {
	case "Isolated":
		return in
	case "Removed":
		for _, p := range in {
			if !p.match {
				out = append(out, p)
			}
		}
	case "Contiguous", "MergedWithPrevious":
		before := false
		for _, p := range in {
			join := p.match && !before
			if behavior == "Contiguous" {
				join = p.match == before
			}
			if join && len(out) > 0 {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p)
			}
			before = p.match
		}
	case "MergedWithNext":
		// A match joins what follows unless a match follows; so a run of matches gives its last to the next part.
		before := false
		for _, p := range in {
			if before && !p.match {
				out[len(out)-1].end = p.end
			} else {
				out = append(out, p)
			}
			before = p.match
		}
	}
	return out
}
