package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const (
	templateFile        = "chat_template.jinja"
	tokenizerConfigFile = "tokenizer_config.json"
	generationFile      = "generation_config.json"
	modelConfigFile     = "config.json"
)

// ErrNoTemplate is wrapped by the error of Load for a model without a chat template: a base model, which continues text.
var ErrNoTemplate = errors.New("no chat template")

// Load reads and compiles a model's chat template: chat_template.jinja, else chat_template in tokenizer_config.json,
// which is a string or a list of {"name", "template"} with one named default. The special tokens that templates print
// (bos_token, eos_token, ...) come from tokenizer_config.json.
func Load(fsys fs.FS) (*Template, error) {
	config, err := readObject(fsys, tokenizerConfigFile)
	if err != nil {
		return nil, err
	}
	t := &Template{byName: map[string]*program{}}
	if t.tokens, err = specialTokens(config); err != nil {
		return nil, err
	}
	text, err := readCapped(fsys, templateFile)
	switch {
	case err == nil:
		if t.byName["default"], err = compile(templateFile, string(text)); err != nil {
			return nil, err
		}
		return t, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("chat: %w", err)
	}
	if isNull(config["chat_template"]) {
		found := "which is not there"
		if config != nil {
			found = "which has none"
		}
		return nil, fmt.Errorf("chat: %w: looked for %s, which is not there, and for chat_template in %s, %s",
			ErrNoTemplate, templateFile, tokenizerConfigFile, found)
	}
	if err := t.compileConfig(config["chat_template"]); err != nil {
		return nil, err
	}
	return t, nil
}

// compileConfig compiles the chat_template of a tokenizer_config.json.
func (t *Template) compileConfig(raw json.RawMessage) (err error) {
	where := tokenizerConfigFile + " chat_template"
	var one string
	if json.Unmarshal(raw, &one) == nil {
		t.byName["default"], err = compile(where, one)
		return err
	}
	var list []struct {
		Name     string  `json:"name"`
		Template *string `json:"template"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf(`chat: %s: expected a string or a list of {"name", "template"}: %w`, where, err)
	}
	for i, e := range list {
		if e.Template == nil || e.Name == "" {
			return fmt.Errorf(`chat: %s: entry %d: expected {"name", "template"}, one is missing`, where, i)
		}
		if _, twice := t.byName[e.Name]; twice {
			return fmt.Errorf("chat: %s: the name %.40q occurs twice", where, e.Name)
		}
		if t.byName[e.Name], err = compile(fmt.Sprintf("%s %.40q", where, e.Name), *e.Template); err != nil {
			return err
		}
	}
	if t.byName["default"] == nil {
		names := slices.Sorted(maps.Keys(t.byName))
		return fmt.Errorf("chat: %s: expected a template named default, found %.200q", where, strings.Join(names, ", "))
	}
	return nil
}

// specialTokens returns the tokens that tokenizer_config.json names: a string, or an object with its content.
func specialTokens(config map[string]json.RawMessage) ([]namedToken, error) {
	var tokens []namedToken
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"} {
		raw := config[name]
		if isNull(raw) {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			var added struct {
				Content *string `json:"content"`
			}
			if err := json.Unmarshal(raw, &added); err != nil || added.Content == nil {
				return nil, fmt.Errorf("chat: %s: %s: expected a string or an object with content, found %.60q", tokenizerConfigFile, name, raw)
			}
			text = *added.Content
		}
		tokens = append(tokens, namedToken{name, text})
	}
	return tokens, nil
}

// StopTokens returns the ids that end an answer: eos_token_id of generation_config.json, then what config.json adds. It
// is empty for a model that names none.
func StopTokens(fsys fs.FS) ([]int32, error) {
	var ids []int32
	for _, name := range []string{generationFile, modelConfigFile} {
		config, err := readObject(fsys, name)
		if err != nil {
			return nil, err
		}
		raw := config["eos_token_id"]
		if isNull(raw) {
			continue
		}
		var list []int32
		var one int32
		if json.Unmarshal(raw, &one) == nil {
			list = []int32{one}
		} else if json.Unmarshal(raw, &list) != nil {
			return nil, fmt.Errorf("chat: %s: eos_token_id: expected a token id or a list of them, found %.60q", name, raw)
		}
		for _, id := range list {
			if id < 0 {
				return nil, fmt.Errorf("chat: %s: eos_token_id: %d is negative", name, id)
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// Defaults is how a model's makers sample from it; nil where they do not say.
type Defaults struct {
	DoSample          *bool    `json:"do_sample"`
	Temperature       *float64 `json:"temperature"`
	TopP              *float64 `json:"top_p"`
	TopK              *int     `json:"top_k"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
}

// LoadDefaults reads generation_config.json. All is nil when there is none.
func LoadDefaults(fsys fs.FS) (Defaults, error) {
	var d Defaults
	text, err := readCapped(fsys, generationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return d, fmt.Errorf("chat: %w", err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return Defaults{}, fmt.Errorf("chat: %s: %w", generationFile, err)
	}
	return d, nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// readObject reads a JSON object; a missing file gives nil.
func readObject(fsys fs.FS, name string) (map[string]json.RawMessage, error) {
	text, err := readCapped(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	object := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("chat: %s: %w", name, err)
	}
	return object, nil
}

// readCapped reads a configuration file; the largest known ones have a few megabytes.
func readCapped(fsys fs.FS, name string) ([]byte, error) {
	const most = 32 << 20
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > most {
		return nil, fmt.Errorf("%s: expected at most %d bytes, found more", name, most)
	}
	return text, nil
}
