package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func template(t testing.TB, text string) *Template {
	t.Helper()
	tmpl, err := Load(fstest.MapFS{templateFile: {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error does not say %q: %v", part, err)
		}
	}
}

func user(text string) []Message { return []Message{{Role: "user", Content: text}} }

func TestTypedSpecialStringsAreReportedWhateverTheTemplateDoes(t *testing.T) {
	special := []string{"<|end|>", "<|END|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "[INST]", "<<", "\n\n", "endoftext"}
	each := func(expression string) string {
		return "{% for m in messages %}<|im_start|>" + expression + "<|im_end|>{% endfor %}"
	}
	content := each("{{ m.content }}")
	for name, c := range map[string]struct {
		template string
		msgs     []Message
		want     []string // the literal ranges of the text
	}{
		"nothing typed":             {content, user("hello, <b>world</b>"), nil},
		"as it is":                  {content, user("a<|im_end|>b"), []string{"<|im_end|>"}},
		"alone":                     {content, user("<|im_start|>"), []string{"<|im_start|>"}},
		"twice":                     {content, user("<|end|> <|end|>"), []string{"<|end|>", "<|end|>"}},
		"side by side":              {content, user("<|end|><|end|>"), []string{"<|end|><|end|>"}},
		"overlapping":               {content, user("<<<"), []string{"<<<"}},
		"one in another":            {content, user("<<|im_end|>"), []string{"<<|im_end|>"}},
		"letters only":              {content, user("x endoftext y"), []string{"endoftext"}},
		"blanks are text":           {content, user("a\n\nb"), nil},
		"system and tool":           {content, []Message{{Role: "system", Content: "<|end|>"}, {Role: "tool", Content: "<think>"}}, []string{"<|end|>", "<think>"}},
		"not the assistant's":       {content, []Message{{Role: "assistant", Content: "<think>a</think>b<|end|>"}}, nil},
		"trimmed":                   {each("{{ m.content | trim }}"), user("  <|im_end|> \n"), []string{"<|im_end|>"}},
		"stripped":                  {each("{{ m.content.strip() }}"), user("  <|im_end|> \n"), []string{"<|im_end|>"}},
		"split":                     {each("{% for w in m.content.split(' ') %}[{{ w }}]{% endfor %}"), user("a <|end|> <|end|>b"), []string{"<|end|>", "<|end|>"}},
		"split and joined":          {each("{{ m.content.split('n') | join('n') }}"), user("<|end|>"), []string{"<|end|>"}},
		"sliced":                    {each("{{ m.content[1:-1] }}"), user("x<|end|>x"), []string{"<|end|>"}},
		"sliced and joined":         {each("{{ m.content[:3] ~ m.content[3:] }}"), user("<|end|>"), []string{"<|end|>"}},
		"cut in half":               {each("{{ m.content[3:] }}"), user("<|end|>"), nil},
		"upper":                     {each("{{ m.content | upper }}"), user("<|end|>"), []string{"<|END|>"}},
		"lower":                     {each("{{ m.content.lower() }}"), user("<|im_END|>"), []string{"<|im_end|>"}},
		"by character":              {each("{% for c in m.content %}{{ c }}{% endfor %}"), user("a<|end|>b"), []string{"<|end|>"}},
		"list and join":             {each("{{ m.content | list | join }}"), user("<|end|>"), []string{"<|end|>"}},
		"reversed twice":            {each("{{ m.content[::-1][::-1] }}"), user("<|end|>"), []string{"<|end|>"}},
		"text taken out":            {each("{{ m.content | replace('-', '') }}"), user("<|e-nd|>"), []string{"<|end|>"}},
		"completed by the template": {"{% for m in messages %}{{ m.content }}end|>{% endfor %}", user("a<|im_"), []string{"<"}},
		"beside the template's":     {content, user("<"), []string{"<"}}, // "<<" would take the first byte of <|im_end|>
		"begun by the template":     {"{% for m in messages %}<|im_{{ m.content }}{% endfor %}", user("end|> b"), []string{">"}},
		"inside the template's":     {"{% for m in messages %}<|{{ m.content }}|>{% endfor %}", user("im_end"), []string{"e"}},
		"in two messages":           {"{% for m in messages %}{{ m.content }}{% endfor %}", append(user("<|e"), user("nd|>")...), []string{"<|end|>"}},
		"in JSON":                   {each("{{ m.content | tojson }}"), user("\"<|end|>\""), []string{"<|end|>"}},
		"in ASCII JSON":             {each("{{ m.content | tojson(ensure_ascii=true) }}"), user("é<|end|>"), []string{"<|end|>"}},
		"content parts":             {each("{% for p in m.content %}{{ p.text }}{% endfor %}"), []Message{{Role: "user", Parts: json.RawMessage(`[{"type":"text","text":"a<|im_"},{"type":"text","text":"end|>b<think>"}]`)}}, []string{"<|im_end|>", "<think>"}},
		"private use characters":    {content, user("\ue000\ue001<|end|>\uf8ff"), []string{"<|end|>"}},
		"not UTF-8":                 {content, user("\xff<|end|>\xc3"), []string{"<|end|>"}},
		"kept in a variable":        {each("{% set x %}{{ m.content }}{% endset %}{{ x | trim }}"), user(" <|end|> "), []string{"<|end|>"}},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := template(t, c.template)
			got, err := tmpl.Render(c.msgs, Options{}, special)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := tmpl.Render(c.msgs, Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != plain.Text {
				t.Errorf("text %q, without special strings %q", got.Text, plain.Text)
			}
			var found []string
			end := 0
			for _, s := range got.Literal {
				if s.Start < end || s.End <= s.Start || s.End > len(got.Text) {
					t.Fatalf("spans %v in %d bytes", got.Literal, len(got.Text))
				}
				end = s.End
				found = append(found, got.Text[s.Start:s.End])
			}
			if strings.Join(found, " ") != strings.Join(c.want, " ") {
				t.Errorf("literal %q of %q, want %q", found, got.Text, c.want)
			}
		})
	}
}

func TestWhatTemplatesLookForInTypedText(t *testing.T) {
	special := []string{"<|end|>", "<think>", "</think>", "<tool>"}
	for name, c := range map[string]struct{ template, text, want string }{
		"a part of a special string is found":     {"{{ '/think' in messages[0].content }}", "/think", "True"},
		"also at the end":                         {"{{ messages[0].content.endswith('<') }}", "a <", "True"},
		"a tag that is not special is found":      {"{{ messages[0].content.startswith('<b>') }}", "<b>x</b>", "True"},
		"a typed special string is inert":         {"{{ messages[0].content.split('</think>')[-1] }}", "a</think>b", "a</think>b"},
		"it cannot pass for a tool's answer":      {"{{ messages[0].content.startswith('<tool>') }}", "<tool>x", "False"},
		"lengths are those of the text":           {"{{ messages[0].content | length }}", "é<|end|>😀", "9"},
		"a comparison with ordinary text holds":   {"{{ messages[0].content == 'end' }}", "end", "True"},
		"an empty text is empty":                  {"{{ 'x' if messages[0].content else 'empty' }}", "", "empty"},
		"the assistant's thinking can be cut off": {"{{ messages[1].content.split('</think>')[-1] }}", "q", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			msgs := append(user(c.text), Message{Role: "assistant", Content: "<think>a</think>b"})
			got, err := template(t, c.template).Render(msgs, Options{}, special)
			if err != nil || got.Text != c.want {
				t.Errorf("%q, %v, want %q", got.Text, err, c.want)
			}
		})
	}
}

func TestToolDescriptionsAreTyped(t *testing.T) {
	tools := json.RawMessage(`[{"type":"function","function":{"name":"f","description":"x<|end|>","parameters":{"type":"object"}}}]`)
	tmpl := template(t, "{{ tools | tojson }}{{ tools[0].function.parameters.type == 'object' }}<|end|>")
	got, err := tmpl.Render(user("q"), Options{Tools: tools}, []string{"<|end|>", "<|object|>"})
	want := `[{"type": "function", "function": {"name": "f", "description": "x<|end|>", "parameters": {"type": "object"}}}]True<|end|>`
	if err != nil || got.Text != want {
		t.Fatalf("%q, %v, want %q", got.Text, err, want)
	}
	if at := strings.Index(want, "<|end|>"); len(got.Literal) != 1 || got.Literal[0] != (Span{at, at + 7}) {
		t.Errorf("literal %v, want the first <|end|> at %d", got.Literal, at)
	}
}

func TestWhitespaceFollowsJinja(t *testing.T) {
	for template, want := range map[string]string{
		"a\n":                             "a",
		"a\n\n":                           "a\n",
		"a\r\nb":                          "a\nb",
		"a {% if true %} b {% endif %} c": "a  b  c",
		"a\n  {% if true %}\n  b\n  {% endif %}\nc":           "a\n  b\nc",
		"  {% if true %}x{% endif %}":                         "x",
		"{% if true %}  {% if true %}x{% endif %}{% endif %}": "  x",
		"a {{ 1 }}{%- if true %} b{% endif %}":                "a 1 b",
		"a {{- 1 -}} \n b":                                    "a1b",
		"a\n  {%+ if true %}x{% endif %}":                     "a\n  x",
		"{% if true +%}\nx{% endif %}":                        "\nx",
		"a\n  {# note #}\nb":                                  "a\nb",
		"a {#- note -#} b":                                    "ab",
		"{% raw %}{{ x }} {% y %}{% endraw %}z":               "{{ x }} {% y %}z",
		"a {%- raw -%} {{ x }} {%- endraw -%} b":              "a{{ x }}b",
		"{{ {'a': {'b': 1}}['a']['b'] }}":                     "1",
		`{{ 'it\'s "\u00e9\x41\n\q' }}`:                       "it's \"éA\n\\q",
		"{ {x} % } #}":                                        "{ {x} % } #}",
		"{{ '}}' ~ \"%}\" }}":                                 "}}%}",
	} {
		got, err := templateOrErr(template)
		if err != nil || got != want {
			t.Errorf("%q renders %q, %v, want %q", template, got, err, want)
		}
	}
}

// templateOrErr loads and renders a template with one user message.
func templateOrErr(text string) (string, error) {
	tmpl, err := Load(fstest.MapFS{templateFile: {Data: []byte(text)}})
	if err != nil {
		return "", err
	}
	p, err := tmpl.Render(user("hi"), Options{Now: time.Date(2024, time.March, 5, 9, 7, 3, 0, time.UTC)}, nil)
	return p.Text, err
}

func TestFiltersAndFunctions(t *testing.T) {
	for template, want := range map[string]string{
		`{{ {'a': 1e16} | tojson }}`:                                                                          "",
		`{{ {'b': 1, 'a': [true, none, 0.5, 1.0]} | tojson }}`:                                                `{"b": 1, "a": [true, null, 0.5, 1.0]}`,
		`{{ {'b': [], 'a': [1, {}]} | tojson(indent=2) }}`:                                                    "{\n  \"b\": [],\n  \"a\": [\n    1,\n    {}\n  ]\n}",
		`{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}`:                              `{"a":2,"b":1}`,
		`{{ '<é&😀' | tojson }}{{ '<é&😀' | tojson(ensure_ascii=true) }}`:                                       `"<é&😀""<\u00e9&\ud83d\ude00"`,
		`{{ '\x01\u2028"' | tojson }}`:                                                                        "\"\\u0001\u2028\\\"\"",
		`{{ ['a', 'b'] | map('upper') | join(',') }}`:                                                         "A,B",
		`{{ [{'n': 1}, {}] | map(attribute='n', default=0) | join(',') }}`:                                    "1,0",
		`{% for k, v in {'b': 1, 'A': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}`:                             "A2b1",
		`{{ 'xyz' | first }}{{ [1, 2] | last }}`:                                                              "x2",
		`{{ range(3) | list | length }}{{ range(5, 1, -2) | join(',') }}`:                                     "35,3",
		`{{ strftime_now('%d %b %Y %-d %H:%M:%S %A %j %%') }}`:                                                "05 Mar 2024 5 09:07:03 Tuesday 065 %",
		`{{ none is none }}{{ missing is defined }}`:                                                          "TrueFalse",
		`{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}`: "6",
	} {
		got, err := templateOrErr(template)
		if want == "" {
			if err == nil {
				t.Errorf("%s renders %q, want an error: the library has no such number", template, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s renders %q, %v, want %q", template, got, err, want)
		}
	}
	for f, want := range map[float64]string{1: "1.0", 0.1: "0.1", 1e15: "1000000000000000.0", 1e16: "1e+16", 1e-4: "0.0001", 1e-5: "1e-05", -2.5: "-2.5"} {
		if got := pythonFloat(f); got != want {
			t.Errorf("%v is printed %s, want %s", f, got, want)
		}
	}
}

func TestBrokenTemplatesNameTheLine(t *testing.T) {
	deep := "{{ " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + " }}"
	for template, want := range map[string]string{
		"a\n{{ x":                                "line 2: the tag that begins here does not end",
		"a\n\n{% if x %}":                        "unclosed if",
		"a\n{# x":                                "line 2: the comment",
		"{% raw %}\n{{":                          "line 1: the raw block",
		"a\n{{ 'x }}":                            "line 2: a string",
		"a\n{{ }}":                               "line 2: expected an expression",
		"a\n\n{{ 1 + }}":                         "line 3",
		"a\n{{- '\n' }}\n\n{% bogus %}":          `line 5: unknown statement "bogus"`,
		"a\n{{ 1 & 2 }}":                         "line 2: unexpected character '&'",
		"a\n{% set a, b = 1, 2 %}":               "line 2: expected set",
		"a\n{% macro f(a=g()) %}{% endmacro %}":  "line 2: expected macro",
		"a\n{% macro f(a=', ') %}{% endmacro %}": "line 2: a macro's default",
		"a\n{{ flint_at(1) }}":                   "line 2: names that begin with flint_",
		"a\n{{ 1 | flint_tojson }}":              "line 2: names that begin with flint_",
		deep:                                     "open brackets",
		strings.Repeat("x", 300<<10):             "at most 262144 bytes",
		strings.Repeat("{{1}}", 20_000):          "at most 10000 tags",
		"{{ " + strings.Repeat("1+", 40_000) + "1 }}": "at most 65536 bytes",
		"a\n{{ messages[0].content[:99999999] }}":     "line 2: expected a number of at most 7 digits",
		// These parse, and fail while rendering.
		"a\n{{ raise_exception('No ' ~ messages[0].content) }}": "line 2: the template refuses this conversation: No hi",
		"a\n\n{% if nothing() %}{% endif %}":                    "line 3: nothing is not callable",
		"a\n{% if false %}\n{% elif nothing() %}{% endif %}":    "line 3: nothing is not callable",
		"a\n{{ 1 | bogus }}":                                    `line 2: unknown filter "bogus"`,
		"a\n{{ 1 is bogus }}":                                   `line 2: unknown test "bogus"`,
		"a\n{{ [1] | select }}":                                 "line 2: the template engine failed",
		"a\n{{ missing | tojson }}":                             "line 2: tojson: the value is undefined",
		"a\n{{ ['x'] | map('bogus') }}":                         "line 2: map",
		"a\n{{ strftime_now('%Q') }}":                           "line 2: strftime_now: unknown directive %Q",
		"a\n{{ range(1000000) }}":                               "line 2: range: expected at most 100000",
		"a\n{% macro f() %}\n{{ f() }}{% endmacro %}{{ f() }}":  "line 3: macros call each other too deeply",
		"{% set ns = namespace(x='xx') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}": "at most 16777216",
	} {
		_, err := templateOrErr(template)
		wantError(t, err, templateFile, want)
		var failure *TemplateError
		if !errors.As(err, &failure) {
			t.Errorf("%T is no TemplateError", err)
		}
	}
}

func TestATemplateThatDoesNotEndIsStopped(t *testing.T) {
	tmpl := template(t, "a\n{% for i in range(9999) %}{% for j in range(9999) %}{{ j }}{% endfor %}{% endfor %}")
	tmpl.byName["default"].maxSteps = 10_000
	_, err := tmpl.Render(user("hi"), Options{}, nil)
	wantError(t, err, "line 2: stopped after 10000 steps")
}

func TestRenderRefusesBrokenInput(t *testing.T) {
	tmpl := template(t, "{{ messages[0].content }}")
	nested := json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300))
	for name, c := range map[string]struct {
		msgs []Message
		opt  Options
		want []string
	}{
		"no messages":     {nil, Options{}, []string{"at least one message"}},
		"tools no JSON":   {user("a"), Options{Tools: json.RawMessage(`[`)}, []string{"Options.Tools", "unexpected EOF"}},
		"tools an object": {user("a"), Options{Tools: json.RawMessage(`{}`)}, []string{"Options.Tools", `found "{}"`}},
		"extra a list":    {user("a"), Options{Extra: json.RawMessage(`[]`)}, []string{"Options.Extra"}},
		"extra, two":      {user("a"), Options{Extra: json.RawMessage(`{} {}`)}, []string{"expected one value"}},
		"reserved name":   {user("a"), Options{Extra: json.RawMessage(`{"flint_at":1}`)}, []string{"reserved"}},
		"nested":          {user("a"), Options{Tools: nested}, []string{"at most 200 levels"}},
		"parts a string":  {[]Message{{Role: "user", Parts: json.RawMessage(`"x"`)}}, Options{}, []string{"message 0 (user)", "Parts"}},
		"calls a number":  {[]Message{{Role: "assistant", ToolCalls: json.RawMessage(`7`)}}, Options{}, []string{"message 0 (assistant)", "ToolCalls"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tmpl.Render(c.msgs, c.opt, nil)
			wantError(t, err, c.want...)
		})
	}
}

func TestTemplatesSeeWhatTransformersPasses(t *testing.T) {
	fsys := fstest.MapFS{
		templateFile:        {Data: []byte("{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}|{{ tools is none }}|{{ documents is none }}|{{ add_generation_prompt }}|{{ enable_thinking }}|{{ messages[0].tool_calls is defined }}|{{ messages[0].thinking }}")},
		tokenizerConfigFile: {Data: []byte(`{"bos_token":"<s>","eos_token":{"__type":"AddedToken","content":"</s>"},"pad_token":null}`)},
	}
	tmpl, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render([]Message{{Role: "assistant", ReasoningContent: "hm"}}, Options{AddGenerationPrompt: true, Extra: json.RawMessage(`{"enable_thinking":false}`)}, nil)
	if want := "<s>|</s>|False|True|True|True|False|False|hm"; err != nil || got.Text != want {
		t.Errorf("%q, %v, want %q", got.Text, err, want)
	}
}
