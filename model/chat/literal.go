package chat

import (
	"errors"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// guard keeps typed text from reading as special strings. One rune of each occurrence is replaced by a private-use rune
// that occurs nowhere else; one rune for one rune, so lengths, slices, splits and trims come out as they would. After
// rendering restore puts the runes back and says where the occurrences lie.
type guard struct {
	special []string // sorted, unique
	longest int      // bytes of the longest
	taken   map[rune]bool
	mark    map[rune]rune // original -> private
	unmark  map[rune]rune
	next    rune
	edges   bool // a rim was protected, not only whole occurrences
	err     error
}

// newGuard notes the private-use runes in vars, so that none is used twice. private holds those of the template.
func newGuard(special []string, private map[rune]bool, vars map[string]jinja.Value) *guard {
	g := &guard{taken: map[rune]bool{}, mark: map[rune]rune{}, unmark: map[rune]rune{}, next: privateFirst}
	for r := range private {
		g.taken[r] = true
	}
	for _, s := range special {
		if strings.TrimSpace(s) != "" && utf8.ValidString(s) {
			g.special = append(g.special, s)
			g.longest = max(g.longest, len(s))
			notePrivate(g.taken, s)
		}
	}
	slices.Sort(g.special)
	g.special = slices.Compact(g.special)
	for _, v := range vars {
		mapStrings(v, "", func(_, s string) string {
			notePrivate(g.taken, s)
			return s
		})
	}
	return g
}

// The private-use areas, from the one that texts use least ahead: no case rule and no trim touches them.
const (
	privateFirst = 0xE000
	privateLast  = 0x10FFFD
)

func notePrivate(seen map[rune]bool, s string) {
	for _, r := range s {
		if r >= privateFirst && unicode.Is(unicode.Co, r) {
			seen[r] = true
		}
	}
}

// protect copies vars with the typed text guarded. rims says whether also to guard the ends of texts, where a special
// string could form together with what the template puts beside them.
func (g *guard) protect(vars map[string]jinja.Value, rims bool) map[string]jinja.Value {
	out := make(map[string]jinja.Value, len(vars))
	for name, v := range vars {
		out[name] = mapStrings(v, "", func(_, s string) string { return s })
	}
	if len(g.special) == 0 {
		return out
	}
	for _, m := range out["messages"].AsList().Items {
		d := m.AsDict()
		if d.Data["role"].AsString() == "assistant" {
			continue // the model's own text: its control strings are control strings
		}
		d.Data["content"] = mapStrings(d.Data["content"], "", func(key, s string) string {
			return g.text(s, rims && key != "type")
		})
		for _, key := range []string{"name", "tool_call_id"} {
			if v, ok := d.Get(key); ok {
				d.Data[key] = jinja.NewString(g.text(v.AsString(), false))
			}
		}
	}
	// Templates compare types and names in schemas, so only prose has its rims guarded.
	out["tools"] = mapStrings(out["tools"], "", func(key, s string) string {
		return g.text(s, rims && key == "description")
	})
	return out
}

// text guards one text.
func (g *guard) text(s string, rims bool) string {
	marked := map[int]bool{} // byte offsets of runes to replace
	for i := range len(s) {
		if utf8.RuneStart(s[i]) {
			g.narrow(s[i:], func(n int) { chooseRune(s, i, i+n, marked) })
		}
	}
	whole := len(marked)
	if rims && s != "" {
		g.markRims(s, marked)
	}
	if len(marked) > whole {
		g.edges = true
	}
	if len(marked) == 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if marked[i] {
			r = g.private(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// narrow follows s down the sorted special strings, byte by byte. It returns the range of those that begin with all of s,
// and calls whole with the length of each that s begins with.
func (g *guard) narrow(s string, whole func(n int)) (lo, hi int) {
	lo, hi = 0, len(g.special)
	for k := 0; k < len(s) && lo < hi; k++ {
		c := s[k]
		group := g.special[lo:hi]
		hi = lo + sort.Search(len(group), func(i int) bool { return len(group[i]) > k && group[i][k] > c })
		lo += sort.Search(len(group), func(i int) bool { return len(group[i]) > k && group[i][k] >= c })
		if lo < hi && len(g.special[lo]) == k+1 {
			whole(k + 1)
		}
	}
	return lo, hi
}

// chooseRune marks one rune of s[start:end] unless one is marked already. It avoids letters, which upper and lower
// would change, blanks, which trim would remove, and what JSON escapes.
func chooseRune(s string, start, end int, marked map[int]bool) {
	best, bestRank := start, -1
	for i, r := range s[start:end] {
		if marked[start+i] {
			return
		}
		rank := 0
		switch {
		case unicode.IsSpace(r):
		case unicode.ToUpper(r) != r || unicode.ToLower(r) != r:
			rank = 1
		case r == '"' || r == '\\' || r < ' ':
			rank = 2
		default:
			rank = 3
		}
		if rank > bestRank {
			best, bestRank = start+i, rank
		}
	}
	marked[best] = true
}

// markRims marks a rune in the shortest end of s that begins a special string, in the shortest beginning that ends one,
// and in all of s when it could lie inside one. The shortest is part of every longer one.
func (g *guard) markRims(s string, marked map[int]bool) {
	for i := len(s) - 1; i >= 0 && len(s)-i < g.longest; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		if lo, hi := g.narrow(s[i:], func(int) {}); lo < hi {
			chooseRune(s, i, len(s), marked)
			break
		}
	}
	for n := 1; n <= len(s) && n < g.longest; n++ {
		if n < len(s) && !utf8.RuneStart(s[n]) {
			continue
		}
		if slices.ContainsFunc(g.special, func(t string) bool { return len(t) > n && strings.HasSuffix(t, s[:n]) }) {
			chooseRune(s, 0, n, marked)
			break
		}
	}
	if len(s) < g.longest && slices.ContainsFunc(g.special, func(t string) bool { return strings.Contains(t, s) }) {
		chooseRune(s, 0, len(s), marked)
	}
}

// private returns the stand-in for a rune.
func (g *guard) private(r rune) rune {
	if p, ok := g.mark[r]; ok {
		return p
	}
	for g.next <= privateLast && (g.taken[g.next] || !unicode.Is(unicode.Co, g.next)) {
		g.next++
	}
	if g.next > privateLast {
		g.err = errors.New("chat: the conversation uses every private-use character, none is left to guard special strings with")
		return r
	}
	p := g.next
	g.next++
	g.mark[r], g.unmark[p] = p, r
	return p
}

// original puts the runes back in a string that is not part of the prompt.
func (g *guard) original(s string) string {
	return strings.Map(func(r rune) rune {
		if o, ok := g.unmark[r]; ok {
			return o
		}
		return r
	}, s)
}

// restore puts the runes back, and reports the special strings that contain one.
func (g *guard) restore(text string) Prompt {
	var b strings.Builder
	var typed []int // byte offsets of restored runes
	for _, r := range text {
		if o, ok := g.unmark[r]; ok {
			typed = append(typed, b.Len())
			r = o
		}
		b.WriteRune(r)
	}
	p := Prompt{Text: b.String()}
	for _, at := range typed {
		for start := max(0, at-g.longest+1); start <= at; start++ {
			if !utf8.RuneStart(p.Text[start]) {
				continue
			}
			g.narrow(p.Text[start:], func(n int) {
				if start+n > at {
					p.Literal = append(p.Literal, Span{start, start + n})
				}
			})
		}
	}
	p.Literal = merge(p.Literal)
	return p
}

// merge sorts spans and joins those that overlap or touch.
func merge(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return a.Start - b.Start })
	var out []Span
	for _, s := range spans {
		if n := len(out); n > 0 && s.Start <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, s.End)
			continue
		}
		out = append(out, s)
	}
	return out
}
