package tokenizer

import (
	"sort"
	"unicode"
	"unicode/utf8"
)

// Three Unicode versions meet here. Go 1.26 and x/text classify by Unicode 15.0, the regular expressions of the
// tokenizers that models are trained with by 16.0, their digit test by 17.0, and their normalization forms by 9.0.
// The tables below are those differences, taken code point by code point; without them the same text would give other
// ids than the model saw in training.

// assigned lists what Unicode 15.1 and 16.0 assigned, each with a stand-in: an older character of the same general
// category (and, for ideographs, script). A pattern sees the stand-in, so that \p{L} matches new letters too.
var assigned = []struct{ lo, hi, standIn rune }{
	{0x0897, 0x0897, standMn},
	{0x1B4E, 0x1B4F, standPo},
	{0x1B7F, 0x1B7F, standPo},
	{0x1C89, 0x1C89, standLu},
	{0x1C8A, 0x1C8A, standLl},
	{0x2427, 0x2429, standSo},
	{0x2FFC, 0x2FFF, standSo},
	{0x31E4, 0x31E5, standSo},
	{0x31EF, 0x31EF, standSo},
	{0xA7CB, 0xA7CC, standLu},
	{0xA7CD, 0xA7CD, standLl},
	{0xA7DA, 0xA7DA, standLu},
	{0xA7DB, 0xA7DB, standLl},
	{0xA7DC, 0xA7DC, standLu},
	{0x105C0, 0x105F3, standLo},
	{0x10D40, 0x10D49, standNd},
	{0x10D4A, 0x10D4D, standLo},
	{0x10D4E, 0x10D4E, standLm},
	{0x10D4F, 0x10D4F, standLo},
	{0x10D50, 0x10D65, standLu},
	{0x10D69, 0x10D6D, standMn},
	{0x10D6E, 0x10D6E, standPd},
	{0x10D6F, 0x10D6F, standLm},
	{0x10D70, 0x10D85, standLl},
	{0x10D8E, 0x10D8F, standSm},
	{0x10EC2, 0x10EC4, standLo},
	{0x10EFC, 0x10EFC, standMn},
	{0x11380, 0x11389, standLo},
	{0x1138B, 0x1138B, standLo},
	{0x1138E, 0x1138E, standLo},
	{0x11390, 0x113B5, standLo},
	{0x113B7, 0x113B7, standLo},
	{0x113B8, 0x113BA, standMc},
	{0x113BB, 0x113C0, standMn},
	{0x113C2, 0x113C2, standMc},
	{0x113C5, 0x113C5, standMc},
	{0x113C7, 0x113CA, standMc},
	{0x113CC, 0x113CD, standMc},
	{0x113CE, 0x113CE, standMn},
	{0x113CF, 0x113CF, standMc},
	{0x113D0, 0x113D0, standMn},
	{0x113D1, 0x113D1, standLo},
	{0x113D2, 0x113D2, standMn},
	{0x113D3, 0x113D3, standLo},
	{0x113D4, 0x113D5, standPo},
	{0x113D7, 0x113D8, standPo},
	{0x113E1, 0x113E2, standMn},
	{0x116D0, 0x116E3, standNd},
	{0x11BC0, 0x11BE0, standLo},
	{0x11BE1, 0x11BE1, standPo},
	{0x11BF0, 0x11BF9, standNd},
	{0x11F5A, 0x11F5A, standMn},
	{0x13460, 0x143FA, standLo},
	{0x16100, 0x1611D, standLo},
	{0x1611E, 0x16129, standMn},
	{0x1612A, 0x1612C, standMc},
	{0x1612D, 0x1612F, standMn},
	{0x16130, 0x16139, standNd},
	{0x16D40, 0x16D42, standLm},
	{0x16D43, 0x16D6A, standLo},
	{0x16D6B, 0x16D6C, standLm},
	{0x16D6D, 0x16D6F, standPo},
	{0x16D70, 0x16D79, standNd},
	{0x18CFF, 0x18CFF, standLo},
	{0x1CC00, 0x1CCEF, standSo},
	{0x1CCF0, 0x1CCF9, standNd},
	{0x1CD00, 0x1CEB3, standSo},
	{0x1E5D0, 0x1E5ED, standLo},
	{0x1E5EE, 0x1E5EF, standMn},
	{0x1E5F0, 0x1E5F0, standLo},
	{0x1E5F1, 0x1E5FA, standNd},
	{0x1E5FF, 0x1E5FF, standPo},
	{0x1F8B2, 0x1F8BB, standSo},
	{0x1F8C0, 0x1F8C1, standSo},
	{0x1FA89, 0x1FA89, standSo},
	{0x1FA8F, 0x1FA8F, standSo},
	{0x1FABE, 0x1FABE, standSo},
	{0x1FAC6, 0x1FAC6, standSo},
	{0x1FADC, 0x1FADC, standSo},
	{0x1FADF, 0x1FADF, standSo},
	{0x1FAE9, 0x1FAE9, standSo},
	{0x1FBCB, 0x1FBEF, standSo},
	{0x2EBF0, 0x2EE5D, standHan},
}

// Stand-ins come from scripts that no pre-tokenizer names and whose case pairs are among themselves.
const (
	standLu  = 0x118A0 // WARANG CITI CAPITAL LETTER NGAA
	standLl  = 0x118C0 // WARANG CITI SMALL LETTER NGAA
	standLm  = 0x16B40 // PAHAWH HMONG SIGN VOS SEEV
	standLo  = 0x16800 // BAMUM LETTER PHASE-A NGKUE MFON
	standMn  = 0x16AF0 // BASSA VAH COMBINING HIGH TONE
	standMc  = 0x16F51 // MIAO SIGN ASPIRATION
	standNd  = 0x16A60 // MRO DIGIT ZERO
	standPd  = 0x2E3A  // TWO-EM DASH
	standPo  = 0x11C41 // BHAIKSUKI DANDA
	standSm  = 0x1D6C1 // MATHEMATICAL BOLD NABLA
	standSo  = 0x16B3C // PAHAWH HMONG SIGN XYEEM NTXIV
	standHan = 0x20000 // an ideograph of extension B
)

// patternRune returns the rune that patterns see for r.
func patternRune(r rune) rune {
	if r < assigned[0].lo {
		return r
	}
	i := sort.Search(len(assigned), func(i int) bool { return assigned[i].hi >= r })
	if i < len(assigned) && r >= assigned[i].lo {
		return assigned[i].standIn
	}
	return r
}

// numeric reports whether r is a digit or number (general category N) in Unicode 17.0: what Digits splits on.
func numeric(r rune) bool {
	return unicode.IsNumber(r) || r >= 0x10D40 && unicode.Is(newNumbers, r)
}

var newNumbers = &unicode.RangeTable{R32: []unicode.Range32{
	{Lo: 0x10D40, Hi: 0x10D49, Stride: 1},
	{Lo: 0x116D0, Hi: 0x116E3, Stride: 1},
	{Lo: 0x11BF0, Hi: 0x11BF9, Stride: 1},
	{Lo: 0x11DE0, Hi: 0x11DE9, Stride: 1},
	{Lo: 0x16130, Hi: 0x16139, Stride: 1},
	{Lo: 0x16D70, Hi: 0x16D79, Stride: 1},
	{Lo: 0x16FF4, Hi: 0x16FF6, Stride: 1},
	{Lo: 0x1CCF0, Hi: 0x1CCF9, Stride: 1},
	{Lo: 0x1E5F1, Hi: 0x1E5FA, Stride: 1},
}}

// inert lists the characters newer than Unicode 9.0 that x/text reorders, decomposes or composes; for the reference
// implementation they are plain starters that nothing combines with.
var inert = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x07FD, Hi: 0x07FD, Stride: 1},
		{Lo: 0x0898, Hi: 0x089F, Stride: 1},
		{Lo: 0x08CA, Hi: 0x08D3, Stride: 1},
		{Lo: 0x09FE, Hi: 0x09FE, Stride: 1},
		{Lo: 0x0C3C, Hi: 0x0C3C, Stride: 1},
		{Lo: 0x0D3B, Hi: 0x0D3C, Stride: 1},
		{Lo: 0x0EBA, Hi: 0x0EBA, Stride: 1},
		{Lo: 0x1715, Hi: 0x1715, Stride: 1},
		{Lo: 0x1ABF, Hi: 0x1ACE, Stride: 1},
		{Lo: 0x1DF6, Hi: 0x1DFA, Stride: 1},
		{Lo: 0x32FF, Hi: 0x32FF, Stride: 1},
		{Lo: 0xA7F2, Hi: 0xA7F4, Stride: 1},
		{Lo: 0xA82C, Hi: 0xA82C, Stride: 1},
		{Lo: 0xAB69, Hi: 0xAB69, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x10781, Hi: 0x10785, Stride: 1},
		{Lo: 0x10787, Hi: 0x107B0, Stride: 1},
		{Lo: 0x107B2, Hi: 0x107BA, Stride: 1},
		{Lo: 0x10D24, Hi: 0x10D27, Stride: 1},
		{Lo: 0x10EAB, Hi: 0x10EAC, Stride: 1},
		{Lo: 0x10EFD, Hi: 0x10EFF, Stride: 1},
		{Lo: 0x10F46, Hi: 0x10F50, Stride: 1},
		{Lo: 0x10F82, Hi: 0x10F85, Stride: 1},
		{Lo: 0x11070, Hi: 0x11070, Stride: 1},
		{Lo: 0x1133B, Hi: 0x1133B, Stride: 1},
		{Lo: 0x1145E, Hi: 0x1145E, Stride: 1},
		{Lo: 0x11839, Hi: 0x1183A, Stride: 1},
		{Lo: 0x11930, Hi: 0x11930, Stride: 1},
		{Lo: 0x11938, Hi: 0x11938, Stride: 1},
		{Lo: 0x1193D, Hi: 0x1193E, Stride: 1},
		{Lo: 0x11943, Hi: 0x11943, Stride: 1},
		{Lo: 0x119E0, Hi: 0x119E0, Stride: 1},
		{Lo: 0x11A34, Hi: 0x11A34, Stride: 1},
		{Lo: 0x11A47, Hi: 0x11A47, Stride: 1},
		{Lo: 0x11A99, Hi: 0x11A99, Stride: 1},
		{Lo: 0x11D42, Hi: 0x11D42, Stride: 1},
		{Lo: 0x11D44, Hi: 0x11D45, Stride: 1},
		{Lo: 0x11D97, Hi: 0x11D97, Stride: 1},
		{Lo: 0x11F41, Hi: 0x11F42, Stride: 1},
		{Lo: 0x16FF0, Hi: 0x16FF1, Stride: 1},
		{Lo: 0x1E030, Hi: 0x1E06D, Stride: 1},
		{Lo: 0x1E08F, Hi: 0x1E08F, Stride: 1},
		{Lo: 0x1E130, Hi: 0x1E136, Stride: 1},
		{Lo: 0x1E2AE, Hi: 0x1E2AE, Stride: 1},
		{Lo: 0x1E2EC, Hi: 0x1E2EF, Stride: 1},
		{Lo: 0x1E4EC, Hi: 0x1E4EF, Stride: 1},
		{Lo: 0x1F16C, Hi: 0x1F16C, Stride: 1},
		{Lo: 0x1FBF0, Hi: 0x1FBF9, Stride: 1},
	},
}

// wordRune reports whether r is a word character as \w of UTS 18 has it: alphabetic, mark, decimal number, connector
// punctuation or joiner.
func wordRune(r rune) bool {
	r = patternRune(r)
	return unicode.In(r, unicode.L, unicode.Nl, unicode.M, unicode.Nd, unicode.Pc, unicode.Other_Alphabetic,
		unicode.Join_Control)
}

// invalidPrefix returns how many bytes at the start of p, which does not begin with a whole character, one U+FFFD
// stands for: the longest prefix of some character, at least one byte (the practice of the Unicode standard, chapter 3,
// which browsers follow too). open reports that p ends inside what may still become a character.
func invalidPrefix(p string) (n int, open bool) {
	lo, hi, size := byte(0x80), byte(0xBF), 0
	switch c := p[0]; {
	case c >= 0xC2 && c <= 0xDF:
		size = 2
	case c >= 0xE0 && c <= 0xEF:
		size = 3
		if c == 0xE0 {
			lo = 0xA0
		}
		if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		size = 4
		if c == 0xF0 {
			lo = 0x90
		}
		if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 1, false
	}
	for n = 1; n < size; n++ {
		if n == len(p) {
			return n, true
		}
		if p[n] < lo || p[n] > hi {
			return n, false
		}
		lo, hi = 0x80, 0xBF
	}
	return n, false
}

// validText replaces what is not UTF-8 in text by U+FFFD and moves the spans along. A lone surrogate that was
// written as three bytes becomes one U+FFFD, as it does when a browser encodes a string.
func validText(text string, spans []Span) (string, []Span) {
	if utf8.ValidString(text) {
		return text, spans
	}
	out := make([]byte, 0, len(text))
	at := make([]int, len(text)+1) // byte offset in text -> offset in out of the character that holds it
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			n, _ = invalidPrefix(text[i:])
			if t := text[i:]; len(t) >= 3 && t[0] == 0xED && t[1] >= 0xA0 && t[1] <= 0xBF && t[2] >= 0x80 && t[2] <= 0xBF {
				n = 3
			}
		}
		for k := range n {
			at[i+k] = len(out)
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	at[len(text)] = len(out)
	moved := make([]Span, len(spans))
	for k, s := range spans {
		end := s.End
		for end > s.Start && end < len(text) && at[end] == at[end-1] {
			end++ // a span that ends inside a character covers all of it
		}
		moved[k] = Span{Start: at[s.Start], End: at[end]}
	}
	return string(out), moved
}
