package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func TestNewCharactersHaveAnOlderStandInOfTheirCategory(t *testing.T) {
	for i, a := range assigned {
		if a.lo > a.hi || i > 0 && assigned[i-1].hi >= a.lo {
			t.Errorf("row %d, %#x to %#x, is out of order", i, a.lo, a.hi)
		}
		if patternRune(a.standIn) != a.standIn || patternRune(a.lo) != a.standIn || patternRune(a.hi) != a.standIn {
			t.Errorf("row %d: a stand-in does not stand for itself and its row", i)
		}
	}
	for _, c := range []struct {
		r     rune
		class string
	}{
		{0x1C89, "Lu"},
		{0x1C8A, "Ll"},
		{0x10D4E, "Lm"},
		{0x10D4A, "Lo"},
		{0x0897, "Mn"},
		{0x113B8, "Mc"},
		{0x10D40, "Nd"},
		{0x10D6E, "Pd"},
		{0x1B4E, "Po"},
		{0x10D8E, "Sm"},
		{0x2427, "So"},
		{0x2EBF0, "Lo"},
		{0x2EE5D, "Han"},
	} {
		find, err := regexFinder(`\p{` + c.class + `}`)
		if err != nil {
			t.Fatal(err)
		}
		text := "a" + string(c.r) + "é" + string(c.r)
		n := utf8.RuneLen(c.r)
		want := [][2]int{{1, 1 + n}, {3 + n, 3 + 2*n}}
		if c.class == "Ll" {
			want = [][2]int{{0, 1}, {1, 1 + n}, {1 + n, 3 + n}, {3 + n, 3 + 2*n}}
		}
		if got, err := find(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%U as %s: found %v, %v, want %v", c.r, c.class, got, err, want)
		}
	}
	for _, r := range []rune{'0', '½', 'Ⅷ', 0x10D40, 0x11DE0, 0x1E5FA} {
		if !numeric(r) {
			t.Errorf("%U is a number", r)
		}
	}
	for _, r := range []rune{'a', '一', 0x10D4A, 0x16FF3} {
		if numeric(r) {
			t.Errorf("%U is no number", r)
		}
	}
}

// The slow path must be the fast one where both are right: on runs too short for stream-safe breaks.
func TestLongRunsNormalizeLikeShortOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pool := []rune("aeAEşộ가각ᄀ하ᅵᆨᇂあがｶﾞﬁ½Åक\u0344\u0301\u0323\u0308\u0327\u0338\u0345\u05b0\u064b\u093c\u0958\u3099\u0340\u0343\u20d0\u0f71\u0f72\u0f73\u1e9b")
	for _, form := range []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD} {
		for range 20_000 {
			s := make([]rune, 1+r.IntN(8))
			for i := range s {
				s[i] = pool[r.IntN(len(pool))]
			}
			if got, want := normalizeRun(form, string(s)), form.String(string(s)); got != want {
				t.Fatalf("form %v of %+q: got %+q, want %+q", form, string(s), got, want)
			}
		}
	}
	long := "e" + strings.Repeat("\u0301", 100)
	if got := normalizeForm(norm.NFC, normText{s: long}).s; got != "é"+strings.Repeat("\u0301", 99) {
		t.Errorf("got %+q", got)
	}
}

func TestOriginsLieUnderTheNormalizedText(t *testing.T) {
	text := "e\u0301 <a> \u0898" + strings.Repeat("\u0301\u0323", 20) + "ﬁ"
	n := replace(" ", "▁▁", prepend("▁", normalizeForm(norm.NFKC, track(text))))
	if len(n.origin) != len(n.s) {
		t.Fatalf("%d origins for %d bytes", len(n.origin), len(n.s))
	}
	last := 0
	for i, o := range n.origin {
		if o.Start < last || o.End <= o.Start || o.End > len(text) {
			t.Fatalf("byte %d comes from %v", i, o)
		}
		last = o.Start
	}
	i := strings.Index(n.s, "<a>")
	if from := n.covers(i, i+3); text[from.Start:from.End] != "<a>" {
		t.Errorf("<a> comes from %q", text[from.Start:from.End])
	}
	if from := n.covers(i-6, i); text[from.Start:from.End] != " " {
		t.Errorf("the space before comes from %q", text[from.Start:from.End])
	}
}

func TestWordCharactersAreThoseOfTheUnicodeStandard(t *testing.T) {
	for _, r := range "aß猫0٣_‿\u0301\u200dⅧ\u24b6" {
		if !wordRune(r) {
			t.Errorf("%U is a word character", r)
		}
	}
	for _, r := range " -.½€'😀\u00a0" {
		if wordRune(r) {
			t.Errorf("%U is no word character", r)
		}
	}
	if unicode.Version < "15.0.0" {
		t.Errorf("the tables are made for Unicode 15.0 or later, found %s", unicode.Version)
	}
}
