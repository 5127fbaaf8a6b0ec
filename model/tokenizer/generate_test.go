package tokenizer_test

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"flint/model/tokenizer"
)

// generate makes n texts from fragments that tokenizers are known to disagree on. The same seed gives the same texts.
func generate(r *rand.Rand, tok *tokenizer.Tokenizer, n int) []string {
	var special []string
	for _, a := range tok.AddedTokens() {
		special = append(special, a.Content)
	}
	special = append(special, "<s>", "</s>", "<unk>", "<|im_start|>", "<|endoftext|>")
	out := make([]string, n)
	for i := range out {
		var s strings.Builder
		for range 1 + r.IntN(10) {
			s.WriteString(fragment(r, special))
			if r.IntN(3) == 0 {
				s.WriteByte(' ')
			}
		}
		out[i] = s.String()
	}
	return out
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func fragment(r *rand.Rand, special []string) string {
	switch r.IntN(17) {
	case 0:
		return pick(r, scripts)
	case 1:
		return pick(r, emoji)
	case 2: // white space, runs and mixtures
		var s strings.Builder
		space := pick(r, spaces)
		for range 1 + r.IntN(12) {
			if r.IntN(4) == 0 {
				space = pick(r, spaces)
			}
			s.WriteString(space)
		}
		return s.String()
	case 3:
		digits := pick(r, []string{"0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "Ⅷⅸ½¾²³①⑳", "𝟎𝟏𝟐𝟑"})
		return randomFrom(r, []rune(digits), 1+r.IntN(9))
	case 4:
		return pick(r, []string{"I", "we", "You", "L", "é"}) + pick(r, []string{"'", "’", "''", " '"}) +
			pick(r, []string{"s", "S", "t", "T", "re", "RE", "Ve", "m", "ll", "LL", "lL", "d", "D", "ſ", "x", "ss"})
	case 5: // special tokens, whole and cut
		s := pick(r, special)
		switch r.IntN(5) {
		case 0:
			return s[:boundaryAt(s, r.IntN(len(s)+1))]
		case 1:
			return s[boundaryAt(s, r.IntN(len(s)+1)):]
		case 2:
			return s + pick(r, special)
		}
		return s
	case 6: // control and format characters
		return randomFrom(r, []rune("\x00\x01\x07\x08\x0b\x0c\x1b\x1c\x1d\x1e\x1f\x7f\u0085\u00ad\u200b\u200c\u200d\u200e\u202e\u2060\ufeff\ufffd\uffff"), 1+r.IntN(5))
	case 7:
		return pick(r, code)
	case 8: // combining marks, in any order, some runs longer than thirty
		n := r.IntN(6)
		if r.IntN(6) == 0 {
			n = 20 + r.IntN(30)
		}
		return pick(r, []string{"e", "A", "ș", "ệ", "가", "ᄀ", "あ", "", " ", "क", "\u0344"}) +
			randomFrom(r, []rune("\u0301\u0323\u0308\u0327\u0302\u0338\u0345\u05b0\u064b\u093c\u3099\u1161\u11a8\u0344\u0340\u0343\u20d0"), n)
	case 9: // very long words
		if r.IntN(8) > 0 {
			return randomFrom(r, []rune("abcdefghij"), 20+r.IntN(60))
		}
		return strings.Repeat(pick(r, []string{"a", "ab", "A", "word", "猫", "е", "\u0301", "!", "0", "<", "é"}), 200+r.IntN(1500))
	case 10: // any code point
		out := make([]rune, 1+r.IntN(6))
		for i := range out {
			top := pick(r, []int{0x250, 0x3000, 0x10000, 0x20000, 0x110000})
			for out[i] = rune(r.IntN(top)); !utf8.ValidRune(out[i]); {
				out[i] = rune(r.IntN(top))
			}
		}
		return string(out)
	case 11: // characters newer than some tables
		return randomFrom(r, []rune("\u1c89\u1c8a\ua7cb\ua7dc\u0897\u0898\u089c\u08ca\u1715\u0c3c\u1abf\u07fd\u32ff\U00010d4a\U00010d50\U00010d40\U00011380\U000113b8\U00013460\U00016d43\U0001ccf0\U0001cc00\U0001fae9\U0002ebf0\U0002ee5d\U00011935\U00011930\U00011938\U00010d69"), 1+r.IntN(4))
	case 12: // the alphabets of the tokenizers themselves
		return pick(r, []string{"Ġ", "Ċ", "Ġthe", "▁", "▁▁", "▁the", "<0x0A>", "<0xE2>", "<0xZZ>", "##ing", "@@", "Â", "Ã©", "ĉ"})
	case 13:
		return randomFrom(r, []rune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»…—“”、。！？～"), 1+r.IntN(8))
	case 14:
		return pick(r, []string{"HTTPServer", "camelCase", "ÜBER", "ǅungla", "ŒUVRE", "ΑΒΓδ", "İstanbul", "straße", "ﬁn", "Å", "Ω", "½", "ｱｲｳ", "ᵃᵇ"})
	case 15:
		return pick(r, words) + "\n" + pick(r, words) + "\r\n\r\n" + pick(r, words)
	}
	return pick(r, words)
}

func randomFrom(r *rand.Rand, from []rune, n int) string {
	out := make([]rune, n)
	for i := range out {
		out[i] = pick(r, from)
	}
	return string(out)
}

// boundaryAt moves i back to the start of a character.
func boundaryAt(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

var (
	words  = []string{"the", "Hello", " world", "tokenization", "Once upon a time", "x", "don't", "e.g.", "3.14", "USA", "naïve", "I", "of", "1984", "v2", "end."}
	spaces = []string{" ", " ", " ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2003", "\u0085", "\v", "\u2028", "\u1680"}
	emoji  = []string{"😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "🇩", "☎️", "❤", "🦙", "🫠", "1️⃣", "\u200d", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"}

	scripts = []string{
		"Привет мир", "нещо на Български", "Καλημέρα", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "வணக்கம்", "สวัสดีชาวโลก", "你好，世界", "我想在apple工作1314151天～",
		"こんにちは世界", "カタカナ", "안녕하세요", "각힣", "ជំរាបសួរ", "ᠮᠣᠩᠭᠣᠯ", "ᏣᎳᎩ", "ქართული", "Հայերեն", "አማርኛ", "မြန်မာ", "ᚠᚢᚦ", "𐍈𐌰", "𠮷野家", "𝕳𝖊𝖑𝖑𝖔", "Ɓɔŋ", "tiếng Việt", "Zażółć", "ŽŠČ", "ı̇",
	}

	code = []string{
		"func main() {\n\tfmt.Println(\"hi\")\n}\n", "for (let i=0; i<n; ++i) {\n    x[i] *= 2;\n}", "def f(self, *args):\n        return {k: v for k, v in x}",
		"SELECT * FROM t WHERE a >= 10;", "<div class=\"a\">&amp;</div>", "https://example.org/a/b?c=d&e=%20#f", "C:\\path\\to\\file.txt", "{\"key\": [1, 2.5e-3, null]}",
		"0xDEADBEEF", "a_b__c", "--flag=value", "// ====\n\n\n", "\\frac{1}{2}", "$HOME/.config", "x+=y**2//3", "\t\t\tif x:\n\t\t\t\tpass\n", "@user #tag", "a\n \nb\n  \n\nc",
	}
)
