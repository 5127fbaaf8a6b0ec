package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"flint/model/chat"
	"flint/model/tokenizer"
	"flint/wasm/wire"
)

// spell rewrites a tokenizer.json so that every character is a token of its own, in SentencePiece's manner, with the given
// parts. Text cut anywhere then has the same tokens as the whole, unless something is put before its beginning.
func spell(t *testing.T, files fstest.MapFS, parts map[string]any) {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(files["tokenizer.json"].Data, &file); err != nil {
		t.Fatal(err)
	}
	vocab := map[string]int{}
	for _, a := range file["added_tokens"].([]any) {
		vocab[a.(map[string]any)["content"].(string)] = len(vocab)
	}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	vocab["\u2581"] = len(vocab)
	model := file["model"].(map[string]any)
	model["vocab"], model["merges"], model["byte_fallback"] = vocab, []string{}, true
	file["pre_tokenizer"], file["post_processor"] = nil, nil
	file["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{
		map[string]any{"type": "Replace", "pattern": map[string]any{"String": "\u2581"}, "content": " "},
		map[string]any{"type": "ByteFallback"},
		map[string]any{"type": "Fuse"},
	}}
	for key, value := range parts {
		file[key] = value
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	files["tokenizer.json"] = &fstest.MapFile{Data: data}
}

// TestJoiningAddsNoTokens: a prompt that goes on where the cache ends has the tokens of the whole prompt, also for
// tokenizers that put a blank before a text.
func TestJoiningAddsNoTokens(t *testing.T) {
	blank := map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "\u2581"}
	metaspace := func(scheme string) map[string]any {
		return map[string]any{"pre_tokenizer": map[string]any{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": false}}
	}
	for name, parts := range map[string]map[string]any{
		"prepend": {"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "\u2581"}, blank,
		}}},
		"first": metaspace("first"), "always": metaspace("always"), "never": metaspace("never"),
	} {
		for style, template := range map[string]string{
			"marked": `{% for m in messages %}<|im_start|>{{ m.role + "\n" + m.content }}<|im_end|>{{ "\n" }}{% endfor %}<|im_start|>assistant{{ "\n" }}`,
			"plain":  `{% for m in messages %}{{ m.role + ": " + m.content + "\n" }}{% endfor %}assistant:{{ " " }}`,
			"ended":  `{% for m in messages %}{% if m.role == "user" %}{{ "Q: " + m.content + " A: " }}{% else %}{{ m.content }}</s>{% endif %}{% endfor %}`,
		} {
			files := tiny()
			spell(t, files, parts)
			files["chat_template.jinja"] = &fstest.MapFile{Data: []byte(template)}
			s, _ := open(t, files)
			l := s.loaded
			turns := []wire.Turn{user("a b")}
			first, ids, err := l.encode(turns)
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, assistant("c d"), user("e</s> f"))
			whole, want, err := l.encode(turns)
			if err != nil {
				t.Fatal(err)
			}
			for _, answered := range []string{"", "c", "c ", "c d"} {
				known := first.Text + answered
				kept := ids
				if answered != "" {
					if kept, err = l.tokenizer.Encode(known, tokenizer.Options{}); err != nil {
						t.Fatal(err)
					}
				}
				l.history = history{prompt: chat.Prompt{Text: known}, ids: kept}
				if again, got, err := l.encode(turns); err != nil || again.Text != whole.Text || !slices.Equal(got, want) {
					t.Errorf("%s, %s, after %q: %q (%v), want %q", name, style, answered, l.tokenizer.Decode(got, false), err, l.tokenizer.Decode(want, false))
				}
			}
			for _, end := range []string{"<|im_end|>", "</s>"} {
				known := first.Text + "c d" + end
				kept, err := l.tokenizer.Encode(known, tokenizer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				l.history = history{prompt: chat.Prompt{Text: known}, ids: kept}
				if _, got, err := l.encode(turns); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s, %s, after an answer that %s ended: %q (%v), want %q", name, style, end, l.tokenizer.Decode(got, false), err, l.tokenizer.Decode(want, false))
				}
			}
		}
	}
}
