package tokenizer_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"flint/gpu/gputest"
	"flint/model/tokenizer"
)

// small is a whole tokenizer.json with every part in it.
const small = `{"version":"1.0","truncation":null,"padding":null,
 "added_tokens":[{"id":6,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
 "normalizer":{"type":"NFC"},
 "pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+|\\S+"},"behavior":"Isolated","invert":false},
 "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[6],"tokens":["<s>"]}}},
 "decoder":{"type":"Fuse"},
 "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
  "vocab":{"a":0,"b":1,"ab":2,"\u00e9":3,"\ud83d\ude00":4,"\"\\\/\b\f\n\r\t":5},"merges":["a b"]}}`

func TestLoadReadsAnyOrderAndSpelling(t *testing.T) {
	text := "ab a é😀"
	want := []int32{6, 2, 0, 3, 4}
	for name, raw := range map[string]string{
		"as it is":            small,
		"pairs":               strings.Replace(small, `["a b"]`, `[ [ "a" , "b" ] ]`, 1),
		"a merge of old":      strings.Replace(small, `["a b"]`, `["#version: 0.2","a b"]`, 1),
		"merges before vocab": strings.Replace(strings.Replace(small, `,"merges":["a b"]`, "", 1), `"model":{`, `"model":{"merges":["a b"],`, 1),
		"no optional fields":  strings.Replace(small, `"dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,`, "", 1),
		"empty affixes":       strings.Replace(small, `"continuing_subword_prefix":null`, `"continuing_subword_prefix":""`, 1),
	} {
		for kind, r := range map[string]io.Reader{"": strings.NewReader(raw), ", byte by byte": iotest.OneByteReader(strings.NewReader(raw)), ", data with EOF": iotest.DataErrReader(strings.NewReader(raw))} {
			tok, err := tokenizer.Load(r)
			if err != nil {
				t.Errorf("%s%s: %v", name, kind, err)
				continue
			}
			if got := encode(t, tok, text, tokenizer.Options{AddSpecialTokens: true}); !slices.Equal(got, want) {
				t.Errorf("%s%s: got %v, want %v", name, kind, got, want)
			}
			if got := tok.Token(5); got != "\"\\/\b\f\n\r\t" {
				t.Errorf("%s%s: escapes read as %q", name, kind, got)
			}
		}
	}
}

func TestWhatIsNotSupportedIsRefusedByName(t *testing.T) {
	added := func(fields string) edit {
		return edit{"added_tokens", `[{"id":0,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},` + fields + `]`}
	}
	flags := `"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false`
	regex := func(expr string) edit { return edit{"pre_tokenizer", split(expr, "Isolated", false)} }
	for _, c := range []struct {
		edit edit
		want string
	}{
		{edit{"version", `"2.0"`}, `version is "2.0"`},
		{edit{"truncation", `{"max_length":5}`}, "truncation"},
		{edit{"padding", `{"strategy":"BatchLongest"}`}, "padding"},
		{edit{"extra", `1`}, `unknown key "extra"`},
		{edit{"model", `null`}, "model"},
		{edit{"model", ``}, `no "model"`},
		{edit{"model.type", `"Unigram"`}, `model of type "Unigram"`},
		{edit{"model.type", `"WordPiece"`}, `"WordPiece"`},
		{edit{"model.type", ``}, `no "type"`},
		{edit{"model.merges", ``}, `no "merges"`},
		{edit{"model.vocab", ``}, `no "vocab"`},
		{edit{"model.dropout", `0.1`}, "dropout 0.1"},
		{edit{"model.continuing_subword_prefix", `"##"`}, `continuing_subword_prefix "##"`},
		{edit{"model.end_of_word_suffix", `"</w>"`}, `end_of_word_suffix "</w>"`},
		{edit{"model.max_input_chars_per_word", `100`}, "max_input_chars_per_word"},
		{edit{"model.fuse_unk", `"yes"`}, "model.fuse_unk"},

		{edit{"normalizer", `{"type":"BertNormalizer"}`}, `normalizer of type "BertNormalizer"`},
		{edit{"normalizer", sequence("normalizers", `{"type":"NFC"}`, `{"type":"Precompiled","precompiled_charsmap":"AA=="}`)}, `normalizer[1] of type "Precompiled"`},
		{edit{"normalizer", `{"type":"NFC","form":"x"}`}, `unknown field "form"`},
		{edit{"normalizer", `{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}`}, "regular expression"},
		{edit{"normalizer", `{"type":"Replace","pattern":{"String":""},"content":" "}`}, "not empty"},
		{edit{"normalizer", `{"type":"Replace","content":" "}`}, `no "pattern"`},
		{edit{"normalizer", `{"type":"Prepend"}`}, `no "prepend"`},
		{edit{"normalizer", `{}`}, `no "type"`},
		{edit{"normalizer", `[]`}, "normalizer"},
		{edit{"normalizer", `{"type":"Sequence"}`}, `"normalizers"`},
		{edit{"normalizer", `{"type":"Sequence","normalizers":[],"x":1}`}, `"x"`},

		{edit{"pre_tokenizer", `{"type":"Whitespace"}`}, `pre_tokenizer of type "Whitespace"`},
		{edit{"pre_tokenizer", `{"type":"Punctuation","behavior":"Isolated"}`}, `"Punctuation"`},
		{edit{"pre_tokenizer", sequence("pretokenizers", byteLevel(false, true), `{"type":"Digits","individual_digits":true}`)}, "Digits after ByteLevel"},
		{edit{"pre_tokenizer", `{"type":"ByteLevel","trim_offsets":true}`}, `no "add_prefix_space"`},
		{edit{"pre_tokenizer", split(`a`, "Sideways", false)}, `behavior "Sideways"`},
		{edit{"pre_tokenizer", `{"type":"Split","pattern":{},"behavior":"Isolated","invert":false}`}, "want a pattern"},
		{edit{"pre_tokenizer", `{"type":"Metaspace","replacement":"__"}`}, "one character"},
		{edit{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"maybe"}`}, `"maybe"`},
		{edit{"pre_tokenizer", `{"type":"Metaspace","replacement":"_","prepend_scheme":"first","add_prefix_space":false}`}, "contradicts"},
		{regex(`(`), "regular expression"},
		{regex(`^a`), "anchor ^"},
		{regex(`a$`), "anchor $"},
		{regex(`\w+`), `\\w`},
		{regex(`\bfoo`), `\\b`},
		{regex(`\h`), `\\h`},
		{regex(`\p{IsGreek}`), `\\p{IsGreek}`},
		{regex(`\p{^L}`), "property"},
		{regex(`a++b`), "possessive"},
		{regex(`[a[b]]`), "class inside a class"},
		{regex(`[a-z&&[^b]]`), "&&"},
		{regex(`[]a]`), "starts with ]"},
		{regex(`(?<x>a)`), `"(?<x"`},
		{regex(`(?m)a`), `"(?m)"`},
		{regex(`(?i:straße|ss)`), "ss is also one character"},
		{regex(`a\`), "regular expression"},

		{edit{"post_processor", `{"type":"BertProcessing","sep":["a",1],"cls":["b",2]}`}, `post_processor of type "BertProcessing"`},
		{edit{"post_processor", strings.Replace(templateBoth, `"ids":[0]`, `"ids":[999999]`, 1)}, "id 999999"},
		{edit{"post_processor", strings.Replace(templateBoth, `"single":[{"SpecialToken":{"id":"<s>"`, `"single":[{"SpecialToken":{"id":"<t>"`, 1)}, `"<t>"`},
		{edit{"post_processor", `{"type":"TemplateProcessing","single":[],"pair":[],"special_tokens":{}}`}, "0 times"},
		{edit{"post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B","type_id":0}}],"pair":[],"special_tokens":{}}`}, "single[0]"},

		{edit{"decoder", `{"type":"WordPiece","prefix":"##","cleanup":true}`}, `decoder of type "WordPiece"`},
		{edit{"decoder", sequence("decoders", `{"type":"Fuse"}`, `{"type":"ByteFallback"}`)}, "ByteFallback after Fuse"},
		{edit{"decoder", `{"type":"Strip","content":"  ","start":1,"stop":0}`}, "one character"},
		{edit{"decoder", `{"type":"Strip","content":" ","start":-1,"stop":0}`}, "counts"},
		{edit{"decoder", `{"type":"Replace","pattern":{"Regex":"a"},"content":" "}`}, "regular expression"},

		{added(`{"id":8192,"content":"",` + flags + `}`), "empty"},
		{added(`{"id":-1,"content":"x",` + flags + `}`), "id -1"},
		{added(`{"id":99999999,"content":"x",` + flags + `}`), "id 99999999"},
		{added(`{"id":2000000,"content":"x",` + flags + `}`), "too sparse"},
		{added(`{"id":8192,"content":"x"}`), `no "single_word"`},
		{added(`{"id":8192,"content":"xyzzy",` + flags + `,"weight":1}`), `"weight"`},
		{added(`{"id":0,"content":"<s>",` + flags + `}`), "appears twice"},
		{added(`{"id":17,"content":"xyzzy",` + flags + `}`), "has the id 17 of"},
		{added(`{"id":8192,"content":"the",` + flags + `}`), "in the vocabulary"},
		{edit{"added_tokens", `{}`}, "added_tokens"},
	} {
		raw := edited(t, "demo-target", c.edit)
		_, err := tokenizer.Load(bytes.NewReader(raw))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %.120s: got the error %v, want one with %s", c.edit.path, c.edit.value, err, c.want)
		}
	}
}

func TestBrokenFilesAreErrorsWithAPlace(t *testing.T) {
	model := func(vocab, merges string) string {
		return `{"model":{"type":"BPE","vocab":` + vocab + `,"merges":` + merges + `}}`
	}
	for _, c := range []struct{ raw, want string }{
		{"", "byte 0"},
		{"[]", "byte 0"},
		{"<!DOCTYPE html>", "found '<'"},
		{`{"version":"1.0"}`, "not a tokenizer.json"},
		{`{"version":"1.0","version":"1.0"}`, `"version" appears twice`},
		{`{"version" "1.0"}`, "byte 11"},
		{`{"version":"1.0",}`, "after ','"},
		{model(`{"a":0}`, `[]`) + "x", "want the end of the file"},
		{model(`["a"]`, `[]`), "vocab"},
		{model(`{"a":-1}`, `[]`), "want an id"},
		{model(`{"a":1.5}`, `[]`), "whole number"},
		{model(`{"a":1e3}`, `[]`), "whole number"},
		{model(`{"a":01}`, `[]`), "whole number"},
		{model(`{"a":"0"}`, `[]`), "want an id"},
		{model(`{"a":2097152}`, `[]`), "below 2097152"},
		{model(`{"a":99999999999999999999999}`, `[]`), "below 2097152"},
		{model(`{"a":2000000}`, `[]`), "too sparse"},
		{model(`{"a":0,"a":1}`, `[]`), "appears twice"},
		{model(`{"a":0,"b":0}`, `[]`), "same id 0"},
		{model("{\"a\nb\":0}", `[]`), "control character"},
		{model("{\"\xff\":0}", `[]`), "UTF-8"},
		{model(`{"\ud800":0}`, `[]`), "surrogate"},
		{model(`{"\ud800\u0041":0}`, `[]`), "surrogate"},
		{model(`{"\udc00":0}`, `[]`), "surrogate"},
		{model(`{"\uZZZZ":0}`, `[]`), "hexadecimal"},
		{model(`{"\q":0}`, `[]`), "escape"},
		{model(`{"`+strings.Repeat("a", 20000)+`":0}`, `[]`), "longer than"},
		{model(`{"a":0}`, `["a a"]`), `merges[0] is "a" + "a"`},
		{model(`{"a":0}`, `["a b"]`), `"b" is not in the vocabulary`},
		{model(`{"a":0}`, `["aa"]`), "one space"},
		{model(`{"a":0}`, `["a a a"]`), "one space"},
		{model(`{"a":0,"aa":1}`, `["a a",["a","a"]]`), "mix"},
		{model(`{"a":0,"aa":1}`, `[["a","a","a"]]`), "want ']'"},
		{model(`{"a":0,"aa":1}`, `[["a"]]`), "want ','"},
		{model(`{"a":0}`, `[1]`), "found '1'"},
		{model(`{"a":0}`, `{}`), "merges"},
		{`{"model":{"type":"BPE","type":"BPE"}}`, "model.type appears twice"},
		{`{"model":"BPE"}`, "(the model)"},
		{`{"normalizer":` + strings.Repeat("[", 1000), "nested too deeply"},
		{`{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 1000), "nested too deeply"},
		{`{"normalizer":{"type":NFC},` + model(`{"a":0}`, `[]`)[1:], "normalizer"},
		{`{"normalizer":}`, ""},
		{`{"normalizer":"`, "inside normalizer"},
	} {
		if _, err := tokenizer.Load(strings.NewReader(c.raw)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100q: got the error %v, want one with %q", c.raw, err, c.want)
		}
	}
	for n := range len(small) {
		if _, err := tokenizer.Load(strings.NewReader(small[:n])); err == nil {
			t.Errorf("the first %d bytes of %d load", n, len(small))
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := tokenizer.Load(io.MultiReader(strings.NewReader(small[:500]), iotest.ErrReader(broken))); !errors.Is(err, broken) || !strings.Contains(err.Error(), "byte 500") {
		t.Errorf("got the error %v, want the reader's at byte 500", err)
	}
}

type endless struct{ text string }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.text) <= len(p) {
		n += copy(p[n:], e.text)
	}
	return n, nil
}

func TestEndlessFilesEndInAnErrorWithoutMuchMemory(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"white space": io.MultiReader(strings.NewReader("{"), endless{" "}),
		"a string":    io.MultiReader(strings.NewReader(`{"model":{"vocab":{"`), endless{"a"}),
		"a component": io.MultiReader(strings.NewReader(`{"decoder":[`), endless{"1,"}),
		"a number":    io.MultiReader(strings.NewReader(`{"model":{"vocab":{"a":`), endless{"0"}),
		"one token":   io.MultiReader(strings.NewReader(`{"model":{"vocab":{"a":0`), endless{`,"a":0`}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := tokenizer.Load(r)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 200<<20 {
			t.Errorf("%s: allocated %d MiB", name, grown>>20)
		}
	}
}

func TestLoadHoldsLittleMoreThanTheFile(t *testing.T) {
	raw, err := os.ReadFile(gputest.Shared(t, "tokenizers/qwen3/tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	loadBytes(t, raw)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*uint64(len(raw)) {
		t.Errorf("loading %d MiB allocated %d MiB", len(raw)>>20, grown>>20)
	}
}

// FuzzLoad loads anything; what loads must encode, and decode without a panic.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(small))
	for _, c := range []edit{
		{`"normalizer":{"type":"NFC"}`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}`},
		{`{"type":"Split","pattern":{"Regex":"\\s+|\\S+"},"behavior":"Isolated","invert":false}`, `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}]}`},
		{`{"type":"Split","pattern":{"Regex":"\\s+|\\S+"},"behavior":"Isolated","invert":false}`, `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`},
		{`{"type":"Fuse"}`, `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}`},
		{`{"type":"Fuse"}`, `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`},
		{`"normalized":false`, `"normalized":true`},
		{`["a b"]`, `[["a","b"]]`},
	} {
		raw := strings.Replace(small, c.path, c.value, 1)
		if raw == small {
			f.Fatalf("the seed lacks %s", c.path)
		}
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.Contains(raw, []byte("Regex")) && !bytes.Contains(raw, []byte(`{"Regex":"\\s+|\\S+"}`)) {
			return // a pattern may take exponential time; nothing here can stop it
		}
		tok, err := tokenizer.Load(bytes.NewReader(raw))
		if err != nil {
			return
		}
		text := "ab a1 é\u0301😀 <s>\xff▁"
		opt := tokenizer.Options{AddSpecialTokens: true, Literal: []tokenizer.Span{{Start: 3, End: 6}, {Start: 17, End: 18}}}
		ids, err := tok.Encode(text, opt)
		if err != nil {
			return
		}
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
		for id := range int32(min(tok.VocabSize(), 300)) {
			ids = append(ids, id)
		}
		s := tok.NewStream(true)
		all := ""
		for _, id := range ids {
			all += s.Next(id)
		}
		if all += s.Flush(); all != tok.Decode(ids, true) {
			t.Fatalf("streamed %q, decoded %q", all, tok.Decode(ids, true))
		}
	})
}
