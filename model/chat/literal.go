package chat

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// guard keeps typed text from reading as special strings. Runes of each occurrence are replaced by private-use runes
// that occur nowhere else; one rune for one rune, so lengths, slices, splits and trims come out as they would. After
// rendering restore puts the runes back and says where the occurrences lie.
type guard struct {
	special []string // sorted, unique
	longest int      // bytes of the longest
	starts  [256]bool
	borders map[rune]bool // first and last runes of special strings, those that no template changes
	taken   map[rune]bool
	mark    map[rune]rune // original -> private
	unmark  map[rune]rune
	next    rune
	edges   bool // more was guarded than whole occurrences
	err     error
}

// newGuard notes the private-use runes in vars, so that none is used twice. private holds those of the template.
func newGuard(special []string, private map[rune]bool, vars map[string]jinja.Value) *guard {
	g := &guard{borders: map[rune]bool{}, taken: map[rune]bool{}, mark: map[rune]rune{}, unmark: map[rune]rune{}, next: privateFirst}
	for r := range private {
		g.taken[r] = true
	}
	for _, s := range special {
		if strings.TrimSpace(s) != "" && utf8.ValidString(s) {
			g.special = append(g.special, s)
			g.longest = max(g.longest, len(s))
			g.starts[s[0]] = true
			first, _ := utf8.DecodeRuneInString(s)
			last, _ := utf8.DecodeLastRuneInString(s)
			for _, r := range []rune{first, last} {
				if steady(r) == 3 {
					g.borders[r] = true
				}
			}
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

// protect copies vars with the typed text guarded: whole occurrences and, with parts, also whatever could become part of
// one once the template has put text beside it or taken text out of it.
func (g *guard) protect(vars map[string]jinja.Value, parts bool) map[string]jinja.Value {
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
			return g.text(s, parts && key != "type")
		})
		for _, key := range []string{"name", "tool_call_id"} {
			if v, ok := d.Get(key); ok {
				d.Data[key] = jinja.NewString(g.text(v.AsString(), false))
			}
		}
	}
	// Templates compare types and names in schemas, so only prose has parts guarded.
	out["tools"] = mapStrings(out["tools"], "", func(key, s string) string {
		return g.text(s, parts && key == "description")
	})
	return out
}

// text guards one text.
func (g *guard) text(s string, parts bool) string {
	marked := make([]bool, len(s)) // at the first byte of runes to replace
	g.occurrences(s, func(start, end int) { markOccurrence(s, start, end, marked) })
	whole := count(marked)
	if parts && s != "" {
		for i, r := range s {
			if g.borders[r] {
				marked[i] = true
			}
		}
		g.markRims(s, marked)
	}
	all := count(marked)
	if all > whole {
		g.edges = true
	}
	if all == 0 {
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

func count(marked []bool) int {
	n := 0
	for _, m := range marked {
		if m {
			n++
		}
	}
	return n
}

// occurrences calls found for every special string in s, overlapping ones too.
func (g *guard) occurrences(s string, found func(start, end int)) {
	for i := range len(s) {
		if g.starts[s[i]] {
			g.narrow(s[i:], func(n int) { found(i, i+n) })
		}
	}
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

// markOccurrence marks the first and last rune of a special string, between which restore finds it again, or whichever
// rune it has that is not blank and needs no escape.
func markOccurrence(s string, start, end int, marked []bool) {
	first, _ := utf8.DecodeRuneInString(s[start:])
	last, n := utf8.DecodeLastRuneInString(s[:end])
	if plain(first) && plain(last) {
		marked[start], marked[end-n] = true, true
		return
	}
	chooseRune(s, start, end, marked)
}

func plain(r rune) bool { return steady(r) == 1 || steady(r) == 3 }

// chooseRune marks one rune of s[start:end], the first of the steadiest, unless one is marked already.
func chooseRune(s string, start, end int, marked []bool) {
	best, bestRank := start, -1
	for i, r := range s[start:end] {
		if marked[start+i] {
			return
		}
		if rank := steady(r); rank > bestRank {
			best, bestRank = start+i, rank
		}
	}
	marked[best] = true
}

// steady ranks runes by what templates do to text: blanks (0) are trimmed, letters (1) change case, quotes and control
// characters (2) are escaped in JSON, the others (3) stay.
func steady(r rune) int {
	switch {
	case unicode.IsSpace(r):
		return 0
	case unicode.ToUpper(r) != r || unicode.ToLower(r) != r:
		return 1
	case r == '"' || r == '\\' || r < ' ':
		return 2
	}
	return 3
}

// markRims marks a rune in the shortest end of s that begins a special string, in the shortest beginning that ends one,
// and in all of s when it could lie inside one. The shortest is part of every longer one.
func (g *guard) markRims(s string, marked []bool) {
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

// restore puts the runes back, and reports where special strings contain them.
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
	g.occurrences(p.Text, func(start, end int) {
		from, _ := slices.BinarySearch(typed, start)
		to, _ := slices.BinarySearch(typed, end)
		if from < to {
			// Only what is known to be typed: where the template completes the string, its own bytes may begin a token.
			_, n := utf8.DecodeRuneInString(p.Text[typed[to-1]:])
			p.Literal = append(p.Literal, Span{typed[from], typed[to-1] + n})
		}
	})
	p.Literal = merge(p.Literal)
	return p
}

// merge sorts spans and joins those that overlap or touch.
func merge(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
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
