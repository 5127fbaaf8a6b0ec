package tokenizer_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model/tokenizer"
)

// edit sets one part of a tokenizer.json, by its path ("model.fuse_unk"), to a JSON value.
type edit struct{ path, value string }

// variants are the components and flags that the six files leave out or have in one form only.
var variants = []struct {
	name, base string
	edits      []edit
}{
	{"Llama 3 pattern, template after ByteLevel", "demo-target", []edit{
		{"pre_tokenizer", sequence("pretokenizers", split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, "Isolated", false), byteLevel(false, false))},
		{"post_processor", sequence("processors", `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`, templateBoth)},
		{"model.ignore_merges", `true`},
	}},
	{"DeepSeek patterns", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers",
		split(`\p{N}{1,3}`, "Isolated", false), split(`[一-龥぀-ゟ゠-ヿ]+`, "Isolated", false),
		split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+", "Isolated", false), byteLevel(false, false))}}},
	{"Split Removed", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\s+`, "Removed", false), byteLevel(false, false))}}},
	{"Split Removed inverted", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\p{L}+|\p{N}`, "Removed", true), byteLevel(false, false))}}},
	{"Split MergedWithPrevious", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\s|\p{P}`, "MergedWithPrevious", false), byteLevel(false, false))}}},
	{"Split MergedWithPrevious inverted", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\p{L}`, "MergedWithPrevious", true), byteLevel(false, false))}}},
	{"Split MergedWithNext", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\s|\p{P}`, "MergedWithNext", false), byteLevel(false, false))}}},
	{"Split MergedWithNext inverted", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\p{L}`, "MergedWithNext", true), byteLevel(false, false))}}},
	{"Split Contiguous", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\s|\p{P}`, "Contiguous", false), byteLevel(false, false))}}},
	{"Split Contiguous inverted", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`\p{L}`, "Contiguous", true), byteLevel(false, false))}}},
	{"Split by look-ahead alone", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", split(`(?=[A-Z])|(?<=\d)(?!\d)`, "Isolated", false), byteLevel(false, false))}}},
	{"Split by a string", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", `{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false}`, byteLevel(false, false))}}},
	{"Digits together, ByteLevel with prefix space and pattern", "demo-target", []edit{{"pre_tokenizer", sequence("pretokenizers", `{"type":"Digits","individual_digits":false}`, byteLevel(true, true))}}},
	{"ByteLevel alone with prefix space", "demo-target", []edit{{"pre_tokenizer", byteLevel(true, false)}, {"normalizer", `{"type":"NFKC"}`}}},
	{"no pre-tokenizer over byte-level tokens", "demo-target", []edit{{"pre_tokenizer", `null`}, {"normalizer", `{"type":"NFD"}`}, {"decoder", `null`}}},
	{"NFKD", "demo-target", []edit{{"normalizer", sequence("normalizers", `{"type":"NFKD"}`)}}},

	{"added token flags", "demo-target", []edit{{"added_tokens", addedFlags}}},
	{"added token flags under NFC", "demo-target", []edit{{"added_tokens", addedFlags}, {"normalizer", `{"type":"NFC"}`}}},
	{"added token flags under Prepend and Replace", "stories260K", []edit{{"added_tokens", addedFlagsSP}}},

	{"Metaspace always", "stories260K", metaspace(`"prepend_scheme":"always","split":true`)},
	{"Metaspace first", "stories260K", metaspace(`"prepend_scheme":"first","split":false`)},
	{"Metaspace first, split", "stories260K", append(metaspace(`"prepend_scheme":"first","split":true`), edit{"added_tokens", addedFlagsSP})},
	{"Metaspace never", "stories260K", metaspace(`"prepend_scheme":"never","split":true`)},
	{"Metaspace of old files", "stories260K", metaspace(`"add_prefix_space":true`)},
	{"Replace within Metaspace", "stories260K", append(metaspace(`"prepend_scheme":"first"`), edit{"normalizer", `{"type":"Replace","pattern":{"String":"he"},"content":"  e"}`})},

	{"unknown tokens, fused", "stories260K", []edit{{"model.byte_fallback", `false`}, {"model.fuse_unk", `true`}}},
	{"unknown tokens, each", "stories260K", []edit{{"model.byte_fallback", `false`}, {"model.fuse_unk", `false`}}},
	{"no unknown token", "stories260K", []edit{{"model.byte_fallback", `false`}, {"model.unk_token", `null`}}},
	{"some byte tokens missing", "stories260K", []edit{{"model.vocab.<0xE2>", ``}, {"model.vocab.<0xC3>", ``}}},
	{"ignore_merges without ByteLevel", "stories260K", append(metaspace(`"prepend_scheme":"always"`), edit{"model.ignore_merges", `true`})},
	{"Strip at both ends", "stories260K", []edit{{"decoder", sequence("decoders", `{"type":"Replace","pattern":{"String":"▁"},"content":" "}`, `{"type":"ByteFallback"}`, `{"type":"Fuse"}`, `{"type":"Strip","content":" ","start":2,"stop":0}`)}}},
	{"Strip of each token", "stories260K", []edit{{"decoder", sequence("decoders", `{"type":"Replace","pattern":{"String":"▁"},"content":" "}`, `{"type":"ByteFallback"}`, `{"type":"Strip","content":" ","start":1,"stop":0}`)}}},
	{"ByteFallback alone", "stories260K", []edit{{"decoder", `{"type":"ByteFallback"}`}}},
	{"Fuse alone", "stories260K", []edit{{"decoder", `{"type":"Fuse"}`}}},
	{"ByteLevel then Strip", "demo-target", []edit{{"decoder", sequence("decoders", `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true}`, `{"type":"Strip","content":" ","start":1,"stop":0}`)}}},
}

const (
	addedFlags = `[
		{"id":0,"content":"<s>","single_word":false,"lstrip":true,"rstrip":false,"normalized":false,"special":true},
		{"id":1,"content":"</s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":true},
		{"id":2,"content":"<|im_start|>","single_word":false,"lstrip":true,"rstrip":true,"normalized":true,"special":true},
		{"id":3,"content":"<|im_end|>","single_word":true,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":2195,"content":"the","single_word":true,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":8192,"content":"world","single_word":true,"lstrip":true,"rstrip":true,"normalized":false,"special":false},
		{"id":8193,"content":"token","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":8194,"content":"tokenization","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false},
		{"id":8195,"content":"\u0301","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":8196,"content":"e\u0301","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":false},
		{"id":8197,"content":" I","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false},
		{"id":8198,"content":"猫","single_word":true,"lstrip":false,"rstrip":false,"normalized":false,"special":false}]`
	addedFlagsSP = `[
		{"id":0,"content":"<unk>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
		{"id":1,"content":"<s>","single_word":false,"lstrip":true,"rstrip":true,"normalized":false,"special":true},
		{"id":2,"content":"</s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":true,"special":false},
		{"id":512,"content":"<|im_end|>","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":false},
		{"id":513,"content":"the","single_word":true,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":514,"content":"Hello w","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false},
		{"id":515,"content":"token","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false}]`
	templateBoth = `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"end","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
		"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]},"end":{"id":"end","ids":[1,3],"tokens":["</s>","<|im_end|>"]}}}`
)

func sequence(key string, parts ...string) string {
	return `{"type":"Sequence","` + key + `":[` + strings.Join(parts, ",") + `]}`
}

func split(regex, behavior string, invert bool) string {
	b, err := json.Marshal(map[string]any{"type": "Split", "pattern": map[string]string{"Regex": regex}, "behavior": behavior, "invert": invert})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func byteLevel(prefixSpace, useRegex bool) string {
	b, err := json.Marshal(map[string]any{"type": "ByteLevel", "add_prefix_space": prefixSpace, "trim_offsets": true, "use_regex": useRegex})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func metaspace(options string) []edit {
	m := `{"type":"Metaspace","replacement":"▁",` + options + `}`
	return []edit{{"normalizer", `null`}, {"pre_tokenizer", m}, {"decoder", sequence("decoders", `{"type":"ByteFallback"}`, m)}}
}

// edited returns a model's tokenizer.json with edits; an empty value removes the entry.
func edited(t testing.TB, base string, edits ...edit) []byte {
	t.Helper()
	raw, err := os.ReadFile(gputest.Shared(t, "models", base, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		at := doc
		keys := strings.Split(e.path, ".")
		for _, k := range keys[:len(keys)-1] {
			at = at[k].(map[string]any)
		}
		last := keys[len(keys)-1]
		if e.value == "" {
			delete(at, last)
			continue
		}
		at[last] = json.RawMessage(e.value)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOracleAgreesOnOtherComponents(t *testing.T) {
	modules := oracleModules(t)
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			raw := edited(t, v.base, v.edits...)
			path := filepath.Join(t.TempDir(), "tokenizer.json")
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
			tok, err := tokenizer.Load(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(7, uint64(i)))
			compareWithOracle(t, modules, path, tok, generate(r, tok, 250), randomIDs(r, tok, 150))
		})
	}
}
