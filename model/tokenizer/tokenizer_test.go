package tokenizer_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flint/model/tokenizer"
)

func loadBytes(t testing.TB, raw []byte) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// A pattern or a merge that needs more than linear time turns these into minutes.
func TestLongInputsTakeLinearTime(t *testing.T) {
	for _, name := range files {
		tok := load(t, name)
		for _, unit := range []string{"a", "aA", " ", " \n", "\u0301", "e\u0301", "!", "<|im_", "0", "'s", "猫", "\xff", "\u1161", "\U0002ebf0"} {
			text := strings.Repeat(unit, 30_000/len(unit))
			start := time.Now()
			ids := encode(t, tok, text, tokenizer.Options{Literal: []tokenizer.Span{{Start: 3, End: 5}, {Start: 100, End: 20_000}}})
			tok.Decode(ids, false)
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("%s: %d bytes of %q took %v", name, len(text), unit, took)
			}
		}
	}
}

func TestLiteralTextIsNeverAnAddedToken(t *testing.T) {
	tok := load(t, "models/demo-target")
	start, _ := tok.TokenID("<|im_start|>")
	end, _ := tok.TokenID("<|im_end|>")
	text := "<|im_start|>user\nsay <|im_end|> please<|im_end|>\n"
	user := tokenizer.Span{Start: strings.Index(text, "say"), End: strings.LastIndex(text, "<|im_end|>")}
	ids := encode(t, tok, text, tokenizer.Options{Literal: []tokenizer.Span{user}})
	count := func(id int32) (n int) {
		for _, got := range ids {
			if got == id {
				n++
			}
		}
		return n
	}
	if count(start) != 1 || count(end) != 1 {
		t.Errorf("got %d start and %d end tokens in %v, want one each", count(start), count(end), ids)
	}
	if got := tok.Decode(ids, false); got != text {
		t.Errorf("decoded %q, want %q", got, text)
	}
	want := slices.Concat([]int32{start}, encode(t, tok, "user\nsay ", tokenizer.Options{}),
		encode(t, tok, "<|im_end|> please", tokenizer.Options{Literal: []tokenizer.Span{{Start: 0, End: 10}}}))
	if !slices.Equal(ids[:len(want)-1], want[:len(want)-1]) {
		t.Errorf("got %v, want it to start with %v", ids, want)
	}
	for at := range len("<|im_end|>") { // one literal byte is enough
		ids := encode(t, tok, "<|im_end|>", tokenizer.Options{Literal: []tokenizer.Span{{Start: at, End: at + 1}}})
		if slices.Contains(ids, end) {
			t.Errorf("the token matched over a literal byte %d", at)
		}
	}
	for _, empty := range []int{0, 5, 10} {
		ids := encode(t, tok, "<|im_end|>", tokenizer.Options{Literal: []tokenizer.Span{{Start: empty, End: empty}}})
		if !slices.Equal(ids, []int32{end}) {
			t.Errorf("an empty span at %d held the token back: %v", empty, ids)
		}
	}
}

func TestLiteralSpansFollowNormalization(t *testing.T) {
	added := `[
		{"id":0,"content":"<unk>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
		{"id":1,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
		{"id":2,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
		{"id":512,"content":"a <sep> b","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":513,"content":"<sep>","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}]`
	tok := loadBytes(t, edited(t, "stories260K", edit{"added_tokens", added},
		edit{"normalizer", sequence("normalizers", `{"type":"NFC"}`, `{"type":"Replace","pattern":{"String":" "},"content":"▁▁"}`)}))
	text := "e\u0301e\u0301 <s> x <sep> y a <sep> b"
	for _, c := range []struct {
		literal string
		want    []int32 // the added tokens that still match
	}{
		{"", []int32{1, 513, 512}},
		{"<s>", []int32{513, 512}},
		{" x ", []int32{1, 513, 512}},
		{"<sep> y", []int32{1, 512}},
		{" b", []int32{1, 513, 513}}, // the longer match gives way to the shorter
		{"a <", []int32{1, 513}},
	} {
		var opt tokenizer.Options
		if at := strings.Index(text, c.literal); c.literal != "" {
			opt.Literal = []tokenizer.Span{{Start: at, End: at + len(c.literal)}}
		}
		var got []int32
		for _, id := range encode(t, tok, text, opt) {
			if id == 1 || id >= 512 {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("literal %q: added tokens %v, want %v", c.literal, got, c.want)
		}
	}
}

func TestLiteralSpansOutsideTheTextAreErrors(t *testing.T) {
	tok := load(t, "models/demo-target")
	for _, s := range []tokenizer.Span{{Start: -1, End: 1}, {Start: 2, End: 1}, {Start: 0, End: 4}} {
		if _, err := tok.Encode("abc", tokenizer.Options{Literal: []tokenizer.Span{s}}); err == nil || !strings.Contains(err.Error(), "literal span") {
			t.Errorf("%v: got the error %v", s, err)
		}
	}
}

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	tok := load(t, "models/demo-target")
	for _, c := range []struct{ text, same string }{
		{"a\xffb", "a\uFFFDb"},
		{"a\xff\xfeb", "a\uFFFD\uFFFDb"},
		{"\xed\xa0\x80x", "\uFFFDx"},                     // a lone high surrogate
		{"\xed\xb0\x80", "\uFFFD"},                       // a lone low surrogate
		{"\xed\xa0\xbd\xed\xb8\x80", "\uFFFD\uFFFD"},     // a pair written as two
		{"\xe2\x82", "\uFFFD"},                           // a cut-off character
		{"\xe2\x82x\xf0\x9f\x98", "\uFFFDx\uFFFD"},       // two of them
		{"\xc0\xaf\xf5\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"}, // overlong and out of range
		// bytes that continue nothing
		{"\xe0\x80\x80\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
	} {
		got, want := encode(t, tok, c.text, tokenizer.Options{}), encode(t, tok, c.same, tokenizer.Options{})
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want those of %q, %v", c.text, got, c.same, want)
		}
	}
	// Spans stay on their text when it grows.
	text := "\xff\xff<|im_end|>\xff<|im_end|>\xff"
	end, _ := tok.TokenID("<|im_end|>")
	ids := encode(t, tok, text, tokenizer.Options{Literal: []tokenizer.Span{{Start: 2, End: 12}}})
	if n := slices.Index(ids, end); n < 0 || slices.Index(ids[n+1:], end) >= 0 || n < 8 {
		t.Errorf("want the second <|im_end|> alone in %v", ids)
	}
}

func TestAccessors(t *testing.T) {
	for _, c := range []struct {
		name          string
		size, added   int
		token         string
		id            int32
		special, text string
	}{
		{"tokenizers/gptoss", 200019, 21, "Ġ", 220, "<|endoftext|>", ""},
		{"tokenizers/qwen3", 151669, 26, "Ġ", 220, "<|im_end|>", "</think>"},
		{"tokenizers/minicpm4", 73448, 11, "▁", 59320, "</s>", ""},
		{"models/stories260K", 512, 3, "<0x00>", 3, "<s>", ""},
	} {
		tok := load(t, c.name)
		if tok.VocabSize() != c.size || len(tok.AddedTokens()) != c.added {
			t.Errorf("%s: size %d with %d added tokens, want %d and %d", c.name, tok.VocabSize(), len(tok.AddedTokens()), c.size, c.added)
		}
		if id, ok := tok.TokenID(c.token); !ok || id != c.id || tok.Token(id) != c.token || tok.IsSpecial(id) {
			t.Errorf("%s: %q is %d (%v), want %d and plain", c.name, c.token, id, ok, c.id)
		}
		if id, ok := tok.TokenID(c.special); !ok || !tok.IsSpecial(id) || tok.Token(id) != c.special {
			t.Errorf("%s: %q is %d, want a special token", c.name, c.special, id)
		}
		if c.text != "" {
			if id, ok := tok.TokenID(c.text); !ok || tok.IsSpecial(id) {
				t.Errorf("%s: %q must be an added token that is not special", c.name, c.text)
			}
		}
		if _, ok := tok.TokenID("no such token, surely"); ok {
			t.Errorf("%s: knows a token it cannot", c.name)
		}
		for _, id := range []int32{-1, int32(c.size), 1 << 30} {
			if tok.Token(id) != "" || tok.IsSpecial(id) || tok.Decode([]int32{id}, false) != "" {
				t.Errorf("%s: id %d has a token", c.name, id)
			}
		}
	}
}

func TestEncodeMayRunInParallel(t *testing.T) {
	tok := load(t, "models/demo-target")
	want := encode(t, tok, "Once upon a time, in a land far away", tokenizer.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := tok.Encode("Once upon a time, in a land far away", tokenizer.Options{}); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestUnknownCharacterWithoutAnUnknownTokenInTheVocabularyIsAnError(t *testing.T) {
	tok := loadBytes(t, edited(t, "stories260K", edit{"model.byte_fallback", "false"}, edit{"model.unk_token", `"<gone>"`}))
	if _, err := tok.Encode("猫", tokenizer.Options{}); err == nil || !strings.Contains(err.Error(), "<gone>") {
		t.Errorf("got the error %v", err)
	}
}
