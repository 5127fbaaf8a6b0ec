package tokenizer

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddedToken is a token that is cut out of the text before normalization and merging.
type AddedToken struct {
	Content string
	ID      int32
	Special bool // left out by Decode with skipSpecial

	SingleWord bool // matches only where no word character touches it
	LStrip     bool // takes the white space before it along
	RStrip     bool // takes the white space after it along
	Normalized bool // is looked for in the normalized text, in its own normalized form
}

func readAdded(raw json.RawMessage) ([]AddedToken, error) {
	if raw == nil {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	out := make([]AddedToken, len(list))
	for i, raw := range list {
		var a struct {
			ID         *int64  `json:"id"`
			Content    *string `json:"content"`
			SingleWord *bool   `json:"single_word"`
			LStrip     *bool   `json:"lstrip"`
			RStrip     *bool   `json:"rstrip"`
			Normalized *bool   `json:"normalized"`
			Special    *bool   `json:"special"`
		}
		c := component{where: fmt.Sprintf("added_tokens[%d]", i), kind: "the token", raw: raw}
		if err := c.options(&a); err != nil {
			return nil, err
		}
		switch {
		case *a.ID < 0 || *a.ID >= maxID:
			return nil, fmt.Errorf("%s: id %d is not from 0 to %d", c.where, *a.ID, maxID-1)
		case *a.Content == "":
			return nil, fmt.Errorf("%s: the content is empty", c.where)
		case len(*a.Content) > maxToken:
			return nil, fmt.Errorf("%s: the content is longer than %d bytes", c.where, maxToken)
		}
		out[i] = AddedToken{
			Content: *a.Content, ID: int32(*a.ID), Special: *a.Special,
			SingleWord: *a.SingleWord, LStrip: *a.LStrip, RStrip: *a.RStrip, Normalized: *a.Normalized,
		}
	}
	return out, nil
}

// matcher finds added tokens in a text: at each position the longest.
type matcher struct {
	tokens  map[string]AddedToken // by the form to look for
	lengths [256][]int            // lengths of the forms that start with a byte, longest first
}

func newMatcher() *matcher { return &matcher{tokens: map[string]AddedToken{}} }

// add makes a token known under form. Of two tokens with one form the first stays.
func (m *matcher) add(form string, a AddedToken) {
	if _, ok := m.tokens[form]; ok {
		return
	}
	m.tokens[form] = a
	l := m.lengths[form[0]]
	i := sort.Search(len(l), func(i int) bool { return l[i] <= len(form) })
	if i < len(l) && l[i] == len(form) {
		return
	}
	l = append(l, 0)
	copy(l[i+1:], l[i:])
	l[i] = len(form)
	m.lengths[form[0]] = l
}

// segment is a stretch of text: an added token, or plain text when token is false.
type segment struct {
	start, end int
	token      bool
	id         int32
}

// split cuts text into segments. blocked says that text[start:end] must stay plain; a match it holds back gives way to
// a shorter one or to the next position. White space that a token strips is not part of its match: it goes even when
// blocked would hold it.
func (m *matcher) split(text string, blocked func(start, end int) bool) []segment {
	var out []segment
	done := 0 // the text before is in out
	for i := 0; i < len(text); {
		a, n := m.match(text, i, blocked)
		if n == 0 {
			i++
			continue
		}
		start, end := i, i+n
		i = end
		if a.SingleWord {
			before, _ := utf8.DecodeLastRuneInString(text[:start])
			after, _ := utf8.DecodeRuneInString(text[end:])
			if start > 0 && wordRune(before) || end < len(text) && wordRune(after) {
				continue
			}
		}
		if a.LStrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if a.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if done < start {
			out = append(out, segment{start: done, end: start})
		}
		out = append(out, segment{start: start, end: end, token: true, id: a.ID})
		done = end
	}
	if done < len(text) {
		out = append(out, segment{start: done, end: len(text)})
	}
	return out
}

func (m *matcher) match(text string, i int, blocked func(start, end int) bool) (AddedToken, int) {
	for _, n := range m.lengths[text[i]] {
		if i+n > len(text) {
			continue
		}
		if a, ok := m.tokens[text[i:i+n]]; ok && (blocked == nil || !blocked(i, i+n)) {
			return a, n
		}
	}
	return AddedToken{}, 0
}

// blockedBy returns the test that split asks for; spans need no order. Nil when there are none.
func blockedBy(spans []Span) func(start, end int) bool {
	var sorted []Span
	for _, s := range spans {
		if s.Start < s.End {
			sorted = append(sorted, s)
		}
	}
	if len(sorted) == 0 {
		return nil
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Start < sorted[j].Start })
	merged := sorted[:1]
	for _, s := range sorted[1:] {
		if last := &merged[len(merged)-1]; s.Start <= last.End {
			last.End = max(last.End, s.End)
		} else {
			merged = append(merged, s)
		}
	}
	return func(start, end int) bool {
		i := sort.Search(len(merged), func(i int) bool { return merged[i].End > start })
		return i < len(merged) && merged[i].Start < end
	}
}
