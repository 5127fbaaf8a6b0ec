package tokenizer

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normText is text on its way through the normalizers. origin, when somebody needs it, holds for each byte of s the
// bytes of the original text that it stands for.
type normText struct {
	s      string
	origin []Span
}

// track gives text an origin, itself.
func track(text string) normText {
	t := normText{s: text, origin: make([]Span, len(text))}
	for i := range t.origin {
		t.origin[i] = Span{Start: i, End: i + 1}
	}
	return t
}

// covers returns the original bytes that s[start:end] stands for.
func (t normText) covers(start, end int) Span {
	return Span{Start: t.origin[start].Start, End: t.origin[end-1].End}
}

// normalizer is one step. It keeps origin, if there is one, in step with s.
type normalizer func(normText) normText

func newNormalizer(where string, raw json.RawMessage) ([]normalizer, error) {
	if raw == nil {
		return nil, nil
	}
	c, err := newComponent(where, raw)
	if err != nil {
		return nil, err
	}
	return c.normalizer()
}

func (c component) normalizer() ([]normalizer, error) {
	var o struct {
		Type    *string  `json:"type"`
		Prepend *string  `json:"prepend"`
		Pattern *pattern `json:"pattern"`
		Content *string  `json:"content"`
	}
	switch c.kind {
	case "Sequence":
		parts, err := c.sequence("normalizers")
		var out []normalizer
		for _, p := range parts {
			n, err := p.normalizer()
			if err != nil {
				return nil, err
			}
			out = append(out, n...)
		}
		return out, err
	case "NFC", "NFD", "NFKC", "NFKD":
		var none struct {
			Type *string `json:"type"`
		}
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[c.kind]
		return []normalizer{func(t normText) normText { return normalizeForm(form, t) }}, c.options(&none)
	case "Prepend":
		if err := c.options(&o, "pattern", "content"); err != nil {
			return nil, err
		}
		prefix := *o.Prepend
		return []normalizer{func(t normText) normText { return prepend(prefix, t) }}, nil
	case "Replace":
		if err := c.options(&o, "prepend"); err != nil {
			return nil, err
		}
		old, err := o.Pattern.literal(c)
		if err != nil {
			return nil, err
		}
		content := *o.Content
		return []normalizer{func(t normText) normText { return replace(old, content, t) }}, nil
	}
	return nil, c.unsupported("NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence")
}

// literal returns the text a Replace looks for.
func (p *pattern) literal(c component) (string, error) {
	if p.Regex != nil {
		return "", fmt.Errorf("%s: %s by the regular expression %s is not supported, only by a string", c.where, c.kind, quote(*p.Regex))
	}
	if p.String == nil || *p.String == "" {
		return "", fmt.Errorf("%s: %s: want a pattern {\"String\": text} that is not empty", c.where, c.kind)
	}
	return *p.String, nil
}

func prepend(prefix string, t normText) normText {
	if t.s == "" {
		return t
	}
	if t.origin != nil {
		origin := make([]Span, len(prefix), len(prefix)+len(t.origin))
		for i := range origin {
			origin[i] = t.origin[0]
		}
		t.origin = append(origin, t.origin...)
	}
	t.s = prefix + t.s
	return t
}

func replace(old, content string, t normText) normText {
	if t.origin == nil {
		return normText{s: strings.ReplaceAll(t.s, old, content)}
	}
	var s strings.Builder
	origin := make([]Span, 0, len(t.origin))
	rest := 0
	for {
		i := strings.Index(t.s[rest:], old)
		if i < 0 {
			break
		}
		i += rest
		s.WriteString(t.s[rest:i])
		origin = append(origin, t.origin[rest:i]...)
		rest = i + len(old)
		s.WriteString(content)
		for range len(content) {
			origin = append(origin, t.covers(i, rest))
		}
	}
	s.WriteString(t.s[rest:])
	return normText{s: s.String(), origin: append(origin, t.origin[rest:]...)}
}

// longRun is the number of runes past which a combining sequence is normalized by normalizeRun: from 30 marks on x/text
// inserts a U+034F of its own (the stream-safe format), and one rune can hold several marks.
const longRun = 10

// normalizeForm is form.String with the differences that the reference has: no stream-safe breaks, and the characters
// of inert left as they are.
func normalizeForm(form norm.Form, t normText) normText {
	if t.origin == nil && plainFor(form, t.s) {
		return normText{s: form.String(t.s)}
	}
	var s strings.Builder
	var origin []Span
	for start := 0; start < len(t.s); {
		end, runes := nextSegment(form, t.s[start:])
		end += start
		seg := t.s[start:end]
		switch {
		case runes > longRun:
			seg = normalizeRun(form, seg)
		case runes == 1 && isInert(seg):
		default:
			seg = form.String(seg)
		}
		s.WriteString(seg)
		if t.origin != nil {
			from := t.covers(start, end)
			for range len(seg) {
				origin = append(origin, from)
			}
		}
		start = end
	}
	return normText{s: s.String(), origin: origin}
}

func isInert(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r >= 0x07FD && unicode.Is(inert, r)
}

// boundary reports whether nothing before the rune that s starts with combines with it.
func boundary(form norm.Form, s string) bool {
	return s[0] < utf8.RuneSelf || isInert(s) || form.PropertiesString(s).BoundaryBefore()
}

// nextSegment returns the length of the first segment of s that normalizes on its own, in bytes and in runes.
func nextSegment(form norm.Form, s string) (end, runes int) {
	for end < len(s) && (end == 0 || !boundary(form, s[end:])) {
		_, n := utf8.DecodeRuneInString(s[end:])
		inertStart := end == 0 && isInert(s)
		end += n
		runes++
		if inertStart {
			break // marks after it belong to it, but reorder among themselves only: a segment of their own
		}
	}
	return end, runes
}

// plainFor reports that s holds nothing on which the reference and x/text differ.
func plainFor(form norm.Form, s string) bool {
	run := 0
	for i, r := range s {
		if r < utf8.RuneSelf {
			run = 0
			continue
		}
		if r >= 0x07FD && unicode.Is(inert, r) {
			return false
		}
		if form.PropertiesString(s[i:]).BoundaryBefore() {
			run = 0
		} else if run++; run >= longRun {
			return false
		}
	}
	return true
}

// normalizeRun is the algorithm of Unicode Standard Annex 15 for one long combining sequence.
func normalizeRun(form norm.Form, s string) string {
	decompose := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decompose = norm.NFKD
	}
	type char struct {
		r     rune
		class uint8
	}
	var chars []char
	for _, r := range s {
		for _, d := range decompose.String(string(r)) {
			chars = append(chars, char{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(chars); {
		j := i + 1
		if chars[i].class != 0 {
			for j < len(chars) && chars[j].class != 0 {
				j++
			}
			marks := chars[i:j]
			sort.SliceStable(marks, func(a, b int) bool { return marks[a].class < marks[b].class })
		}
		i = j
	}
	out := make([]rune, 0, len(chars))
	starter, last := -1, uint8(0) // position in out; class of the rune before, 0 right after the starter
	for _, c := range chars {
		if starter >= 0 && form != norm.NFD && form != norm.NFKD && (last < c.class || starter == len(out)-1) {
			if one := []rune(norm.NFC.String(string(out[starter]) + string(c.r))); len(one) == 1 {
				out[starter] = one[0]
				continue
			}
		}
		if c.class == 0 {
			starter = len(out)
		}
		last = c.class
		out = append(out, c.r)
	}
	return string(out)
}
