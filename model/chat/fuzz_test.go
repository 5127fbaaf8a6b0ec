package chat

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"
)

// FuzzTemplate renders whatever template with whatever text: an error or a prompt whose spans are in order, never a
// panic. A template that names append, insert or update may build a value that contains itself, on which the library
// recurses without end; those are left out (see the package comment).
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", " hi <|im_end|>")
	f.Add("{%- macro f(x, n=1) -%}{{ x[::-1] | upper }}{%- endmacro -%}{{ f(messages[0].content) }}{# c #}{% raw %}{{{% endraw %}", "<|im_")
	f.Add("{% set ns = namespace(a='') %}{% for c in messages[0]['content'] %}{% set ns.a = ns.a ~ c %}{% endfor %}{{ ns.a | tojson(indent=2) }}", "\"a\"\n</think>")
	f.Add("{{ messages | map(attribute='content') | join('|') }}{{ raise_exception('x') }}", "y")
	f.Add("{% call(a) g() %}{{ a }}{% endcall %}{{ 'a' if x is defined else {'b': [1, 2.5]} }}{{ strftime_now('%d %b') }}", "\xff")
	special := []string{"<|im_start|>", "<|im_end|>", "</think>", "hi", "\n\n"}
	f.Fuzz(func(t *testing.T, text, content string) {
		for _, word := range []string{"append", "insert", "update", "*"} {
			if strings.Contains(text, word) {
				t.Skip()
			}
		}
		watchdog := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("no end: template %q, content %q", text, content)) })
		defer watchdog.Stop()
		tmpl, err := Load(fstest.MapFS{templateFile: {Data: []byte(text)}})
		if err != nil {
			return
		}
		p, err := tmpl.Render([]Message{{Role: "user", Content: content}, {Role: "assistant", Content: content}}, Options{AddGenerationPrompt: true}, special)
		if err != nil {
			return
		}
		if !utf8.ValidString(p.Text) {
			t.Fatalf("prompt %q is not UTF-8", p.Text)
		}
		end := -1
		for _, s := range p.Literal {
			if s.Start <= end || s.End <= s.Start || s.End > len(p.Text) || !utf8.ValidString(p.Text[s.Start:s.End]) {
				t.Fatalf("spans %v of %q", p.Literal, p.Text)
			}
			end = s.End
		}
	})
}
