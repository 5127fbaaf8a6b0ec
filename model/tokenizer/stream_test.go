package tokenizer_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"flint/gpu/gputest"
	"flint/model/tokenizer"
)

// decodeWhole is the decoders' definition over a whole list of tokens, for the two kinds of the six files: byte-level,
// and Replace, ByteFallback, Fuse, Strip. It shares no code with the stream.
func decodeWhole(tok *tokenizer.Tokenizer, ids []int32, skipSpecial, byteLevel bool) string {
	var tokens []string
	for _, id := range ids {
		if token := tok.Token(id); token != "" && !(skipSpecial && tok.IsSpecial(id)) {
			tokens = append(tokens, token)
		}
	}
	if byteLevel {
		return lossy(byteLevelBytes(tokens))
	}
	var text strings.Builder
	var run []byte
	end := func() {
		if utf8.Valid(run) {
			text.Write(run)
		} else {
			text.WriteString(strings.Repeat("\uFFFD", len(run)))
		}
		run = nil
	}
	for _, token := range tokens {
		if strings.HasPrefix(token, "<0x") && strings.HasSuffix(token, ">") && len(token) == 6 {
			if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
				run = append(run, byte(b))
				continue
			}
		}
		end()
		text.WriteString(strings.ReplaceAll(token, "▁", " "))
	}
	end()
	return strings.TrimPrefix(text.String(), " ")
}

func byteLevelBytes(tokens []string) (out []byte) {
	alphabet := map[rune]byte{}
	next := rune(256)
	for b := range rune(256) {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			alphabet[b] = byte(b)
		} else {
			alphabet[next] = byte(b)
			next++
		}
	}
	for _, token := range tokens {
		var bytes []byte
		for _, r := range token {
			b, ok := alphabet[r]
			if !ok {
				bytes = []byte(token)
				break
			}
			bytes = append(bytes, b)
		}
		out = append(out, bytes...)
	}
	return out
}

// lossy puts U+FFFD for each longest piece that could have begun a character.
func lossy(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && n < 4 && !utf8.FullRune(b[:n]) && !utf8.FullRune(append(b[:n:n], b[n])) {
				n++
			}
			if n < len(b) && n < 4 && !utf8.FullRune(b[:n]) && b[n]&0xC0 == 0x80 && utf8.Valid(b[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

func TestStreamedTextIsTheWholeText(t *testing.T) {
	for _, name := range files {
		tok := load(t, name)
		_, fallback := tok.TokenID("<0x0A>")
		byteTokens := byteTokensOf(tok, fallback)
		r := rand.New(rand.NewPCG(5, 6))
		texts := generate(r, tok, 300)
		for i := range 1500 {
			var ids []int32
			switch i % 3 {
			case 0:
				ids = encode(t, tok, texts[r.IntN(len(texts))], tokenizer.Options{AddSpecialTokens: true})
			case 1: // any ids
				for range r.IntN(20) {
					ids = append(ids, int32(r.IntN(tok.VocabSize()+3))-1)
				}
			default: // mostly single bytes, so that characters break and mend at every place
				for range r.IntN(20) {
					ids = append(ids, pick(r, byteTokens))
					if r.IntN(6) == 0 {
						ids = append(ids, int32(r.IntN(tok.VocabSize())))
					}
				}
			}
			checkStream(t, name, tok, ids, i%2 == 0, !fallback)
			if t.Failed() {
				return
			}
		}
	}
}

func byteTokensOf(tok *tokenizer.Tokenizer, fallback bool) (ids []int32) {
	for id := range int32(tok.VocabSize()) {
		token := tok.Token(id)
		single := !fallback && utf8.RuneCountInString(token) == 1
		if single || fallback && len(token) == 6 && strings.HasPrefix(token, "<0x") {
			ids = append(ids, id)
		}
	}
	return ids
}

func checkStream(t *testing.T, name string, tok *tokenizer.Tokenizer, ids []int32, skip, byteLevel bool) {
	t.Helper()
	want := decodeWhole(tok, ids, skip, byteLevel)
	if got := tok.Decode(ids, skip); got != want {
		t.Errorf("%s: Decode of %v is %q, want %q", name, ids, got, want)
		return
	}
	s := tok.NewStream(skip)
	all := ""
	for i, id := range ids {
		part := s.Next(id)
		if !utf8.ValidString(part) {
			t.Errorf("%s: id %d of %v gave half a character: %q", name, i, ids, part)
		}
		all += part
		if len(ids) > 40 {
			continue // the check below takes quadratic time
		}
		// Nothing is held back but what may change: an unfinished character, or a run of byte tokens.
		if certain := decodeWhole(tok, ids[:i+1], skip, byteLevel); byteLevel && len(all) < len(strings.TrimRight(certain, "\uFFFD")) {
			t.Errorf("%s: after id %d of %v the stream has %q, but %q is certain", name, i, ids, all, certain)
		}
	}
	if all += s.Flush(); all != want {
		t.Errorf("%s: %v streams as %q, want %q", name, ids, all, want)
	}
	if again := s.Flush(); again != "" {
		t.Errorf("%s: a second Flush gives %q", name, again)
	}
}

func TestStripHoldsBackWhatMayGo(t *testing.T) {
	tok := loadBytes(t, edited(t, "stories260K", edit{"decoder", sequence("decoders", `{"type":"Replace","pattern":{"String":"▁"},"content":" "}`,
		`{"type":"ByteFallback"}`, `{"type":"Fuse"}`, `{"type":"Strip","content":" ","start":2,"stop":3}`)}))
	space, _ := tok.TokenID("▁")
	word, _ := tok.TokenID("▁a")
	for _, c := range []struct {
		ids  []int32
		want string
	}{
		{[]int32{space, space, space, word}, "  a"},
		{[]int32{word, space, space}, "a"},
		{[]int32{word, space, space, space, space, space}, "a  "},
		{[]int32{word, space, space, word, space}, "a   a"},
		{[]int32{space, space, space, space}, ""},
		{nil, ""},
	} {
		if got := tok.Decode(c.ids, false); got != c.want {
			t.Errorf("%v: got %q, want %q", c.ids, got, c.want)
		}
	}
}

// The reference looks for the normalized form among the special tokens and so leaves these in; we do not.
func TestSpecialTokensThatNormalizationChangesAreSkipped(t *testing.T) {
	tok := loadBytes(t, edited(t, "stories260K", edit{"added_tokens", strings.ReplaceAll(addedFlagsSP, `"normalized":false`, `"normalized":true`)}))
	if got := tok.Decode([]int32{0, 1}, true); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	if got := tok.Decode([]int32{1, 2}, false); got != "<s> </s>" {
		t.Errorf("got %q", got)
	}
}

func TestVectorsDecode(t *testing.T) {
	for _, name := range []string{"tokenizers/qwen3", "tokenizers/minicpm4"} {
		raw, err := os.ReadFile(gputest.Shared(t, name, "vectors.json"))
		if err != nil {
			t.Fatal(err)
		}
		var vectors struct {
			Cases []struct {
				Text    string
				IDs     []int32
				Decoded *string
			}
		}
		if err := json.Unmarshal(raw, &vectors); err != nil {
			t.Fatal(err)
		}
		tok := load(t, name)
		for _, c := range vectors.Cases {
			want := c.Text
			if c.Decoded != nil {
				want = *c.Decoded
			}
			if got := tok.Decode(c.IDs, false); got != want {
				t.Errorf("%s: %v: got %q, want %q", name, c.IDs, got, want)
			}
		}
	}
}
