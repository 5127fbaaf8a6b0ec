// Package chat turns a conversation into the prompt a model was trained on, with the checkpoint's own chat template.
//
// Templates are Jinja, rendered by github.com/ardanlabs/jinja. Before the library sees one, rewrite.go settles the
// whitespace rules and counts lines, so that every failure is an error with a line, and values.go and functions.go give
// the library ordered values and the functions and filters whose results must equal those of transformers
// (apply_chat_template: trim_blocks, lstrip_blocks, its tojson, raise_exception and strftime_now).
//
// Two differences from Python's Jinja remain, both in the library: printing none gives nothing instead of "None", and
// what Python refuses (adding a list to a string, naming an item of something undefined) prints or is undefined. So give
// Parts only to a template that knows them.
//
// What people type must never become a control token. Render returns, beside the text, the byte ranges that were typed
// and would read as added tokens; see Prompt.Literal.
//
// A template is as untrusted as the folder it came from. Its size, steps, time, recursion, ranges and the strings it
// keeps are capped, and the library's panics become errors. What the library gives no hold on remains: one expression
// that multiplies a string to gigabytes, or a list that contains itself, ends the program. Run Render where that can be
// survived, in a worker that the page restarts.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is one message of a conversation, with the keys of Hugging Face's chat format.
type Message struct {
	Role             string          // "system", "user", "assistant", "tool", or whatever the template knows
	Content          string          // text
	Parts            json.RawMessage // a list of content parts ({"type": "text", "text": ...}); used in place of Content when set
	ReasoningContent string          // the thinking that came before an assistant's answer
	ToolCalls        json.RawMessage // a list of an assistant's calls
	ToolCallID       string          // the call a tool message answers
	Name             string          // name of a tool or a speaker
}

// Options is what a template is told beside the messages.
type Options struct {
	AddGenerationPrompt bool            // end the prompt where the assistant's answer begins
	Tools               json.RawMessage // a list of JSON schemas of functions, nil for none
	Now                 time.Time       // what strftime_now prints; zero for the present
	Extra               json.RawMessage // an object of further variables, such as {"enable_thinking": false}
}

// Prompt is a rendered conversation.
type Prompt struct {
	Text string
	// Literal lists what was typed by people (every role but the assistant's, tool descriptions) and would otherwise read
	// as a special string or as part of one: no added token may match a range of Text that overlaps any of these. A special
	// string typed in full is listed in full; of one that the template completed, only the typed part is. Sorted, without
	// overlaps, each on rune boundaries of Text.
	Literal []Span
}

// Span is the bytes from Start up to, not including, End.
type Span struct{ Start, End int }

// Template is a model's chat template. It may be used from several goroutines.
type Template struct {
	byName map[string]*program
	tokens []namedToken // bos_token and the like
}

type namedToken struct{ name, text string }

// program is one compiled template.
type program struct {
	source   string // where it came from, for messages
	compiled *jinja.Template
	thinking string // the key under which the template looks for a message's reasoning
	private  map[rune]bool
	maxSteps int
}

// TemplateError is a template that does not parse, or that failed or refused while rendering.
type TemplateError struct {
	Source  string // file, and name within it
	Line    int    // 1-based line of the tag; 0 when it is not known
	Raised  bool   // the template itself refused, through raise_exception: Message is meant for people
	Message string
}

func (e *TemplateError) Error() string {
	where := e.Source
	if e.Line > 0 {
		where = fmt.Sprintf("%s line %d", e.Source, e.Line)
	}
	if e.Raised {
		return fmt.Sprintf("chat: %s: the template refuses this conversation: %s", where, e.Message)
	}
	return fmt.Sprintf("chat: %s: %s", where, e.Message)
}

// Render renders the conversation. special holds the strings of the tokenizer's added tokens: where they occur in typed
// text, the template sees inert text in their place (it can trim, split and slice it, but a search for such a string in
// it finds nothing) and Prompt.Literal reports them. Strings of blanks alone are ignored, since they are ordinary text.
// With tools the template named tool_use is used if the model has one.
func (t *Template) Render(msgs []Message, opt Options, special []string) (Prompt, error) {
	if len(msgs) == 0 {
		return Prompt{}, errors.New("chat: expected at least one message, found none")
	}
	p := t.byName["default"]
	tools, err := optional(opt.Tools, "Options.Tools", jinja.Value.IsList)
	if err != nil {
		return Prompt{}, err
	}
	if use, ok := t.byName["tool_use"]; ok && tools.IsList() {
		p = use
	}
	vars, err := t.variables(p, msgs, opt, tools)
	if err != nil {
		return Prompt{}, err
	}
	guarded, edges, err := p.renderGuarded(vars, special, opt.Now, true)
	if !edges {
		return guarded, err
	}
	// Guarding what could only become a special string also hides ordinary text: every "<", and "/think", which is part of
	// "</think>". A template that looks for those must find them, so this is done only if it changes nothing.
	plain, _, plainErr := p.renderGuarded(vars, special, opt.Now, false)
	if err == nil && plainErr == nil && guarded.Text == plain.Text {
		return guarded, nil
	}
	return plain, plainErr
}

// renderGuarded renders with typed text guarded; edges says whether more than whole special strings were (guard.protect).
func (p *program) renderGuarded(vars map[string]jinja.Value, special []string, now time.Time, parts bool) (prompt Prompt, edges bool, err error) {
	g := newGuard(special, p.private, vars)
	protected := g.protect(vars, parts)
	if g.err != nil {
		return Prompt{}, false, g.err
	}
	text, err := p.render(protected, now, g)
	if err != nil {
		return Prompt{}, g.edges, err
	}
	return g.restore(text), g.edges, nil
}

// variables builds everything a template may name, as transformers passes it: absent tools and documents are none.
func (t *Template) variables(p *program, msgs []Message, opt Options, tools jinja.Value) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{}
	for _, tok := range t.tokens {
		vars[tok.name] = jinja.NewString(tok.text)
	}
	vars["documents"] = jinja.None()
	extra, err := optional(opt.Extra, "Options.Extra", jinja.Value.IsDict)
	if err != nil {
		return nil, err
	}
	if extra.IsDict() {
		for _, key := range extra.AsDict().OrderedKeys() {
			if strings.HasPrefix(key, reserved) {
				return nil, fmt.Errorf("chat: Options.Extra: the name %q is reserved", key)
			}
			vars[key], _ = extra.AsDict().Get(key)
		}
	}
	list := make([]jinja.Value, len(msgs))
	for i, m := range msgs {
		list[i], err = m.value(p.thinking)
		if err != nil {
			return nil, fmt.Errorf("chat: message %d (%s): %w", i, m.Role, err)
		}
	}
	vars["messages"] = jinja.NewList(list)
	vars["tools"] = tools
	vars["add_generation_prompt"] = jinja.NewBool(opt.AddGenerationPrompt)
	return vars, nil
}

// value is the message as a template sees it: keys that are not set are absent, content is always there.
func (m Message) value(thinking string) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	d.Set("role", jinja.NewString(valid(m.Role)))
	d.Set("content", jinja.NewString(valid(m.Content)))
	if len(m.Parts) > 0 {
		parts, err := optional(m.Parts, "Parts", jinja.Value.IsList)
		if err != nil {
			return v, err
		}
		if parts.IsList() {
			d.Set("content", parts)
		}
	}
	if m.ReasoningContent != "" {
		d.Set(thinking, jinja.NewString(valid(m.ReasoningContent)))
	}
	calls, err := optional(m.ToolCalls, "ToolCalls", jinja.Value.IsList)
	if err != nil {
		return v, err
	}
	if calls.IsList() {
		d.Set("tool_calls", calls)
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", jinja.NewString(valid(m.ToolCallID)))
	}
	if m.Name != "" {
		d.Set("name", jinja.NewString(valid(m.Name)))
	}
	return v, nil
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// render runs the template once.
func (p *program) render(vars map[string]jinja.Value, now time.Time, g *guard) (text string, err error) {
	r := &run{start: time.Now(), maxSteps: p.maxSteps, now: now, guard: g}
	r.register(vars)
	defer func() {
		if e := recover(); e != nil {
			text, err = "", fmt.Errorf("the template engine failed: %v", e)
		}
		if err == nil {
			return
		}
		failure := &TemplateError{Source: p.source, Line: r.line, Message: err.Error()}
		var raised raisedError
		if errors.As(err, &raised) {
			failure.Raised, failure.Message = true, string(raised)
		}
		failure.Message = g.original(failure.Message)
		err = failure
	}()
	return p.compiled.RenderValues(vars)
}

// compile prepares one template.
func compile(source, text string) (p *program, err error) {
	const maxTemplate = 256 << 10 // the largest known template has 25 KB
	if len(text) > maxTemplate {
		return nil, &TemplateError{Source: source, Message: fmt.Sprintf("expected a template of at most %d bytes, found %d", maxTemplate, len(text))}
	}
	rewritten, err := rewrite(valid(text))
	if err != nil {
		var failure *TemplateError
		if errors.As(err, &failure) {
			failure.Source = source
		}
		return nil, err
	}
	defer func() {
		if e := recover(); e != nil {
			p, err = nil, &TemplateError{Source: source, Message: fmt.Sprintf("the template engine failed: %v", e)}
		}
	}()
	compiled, err := jinja.Compile(rewritten)
	if err != nil {
		return nil, &TemplateError{Source: source, Message: err.Error()}
	}
	p = &program{source: source, compiled: compiled, thinking: thinkingKey(text), private: map[rune]bool{}, maxSteps: maxSteps}
	notePrivate(p.private, rewritten)
	return p, nil
}

// thinkingKey returns the key under which a template reads a message's reasoning. Templates agree on the idea and not on
// the name; reasoning_content is the commonest.
func thinkingKey(template string) string {
	for _, key := range []string{"reasoning_content", "thinking", "reasoning"} {
		if readsKey(template, key) {
			return key
		}
	}
	return "reasoning_content"
}
