package chat

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"flint/gpu/gputest"
)

func TestLoadFindsTheTemplate(t *testing.T) {
	config := func(text string) fstest.MapFS { return fstest.MapFS{tokenizerConfigFile: {Data: []byte(text)}} }
	both := config(`{"chat_template":"config"}`)
	both[templateFile] = &fstest.MapFile{Data: []byte("file")}
	tools := json.RawMessage(`[{"type":"function"}]`)
	list := `{"chat_template":[{"name":"tool_use","template":"tools"},{"name":"default","template":"plain"}]}`
	for name, c := range map[string]struct {
		fsys  fstest.MapFS
		tools json.RawMessage
		want  string
	}{
		"file":               {fstest.MapFS{templateFile: {Data: []byte("file")}}, nil, "file"},
		"file over config":   {both, nil, "file"},
		"string":             {config(`{"chat_template":"config"}`), tools, "config"},
		"list":               {config(list), nil, "plain"},
		"list with tools":    {config(list), tools, "tools"},
		"list without tools": {config(list), json.RawMessage("null"), "plain"},
		"list of one":        {config(`{"chat_template":[{"name":"default","template":"plain"}]}`), tools, "plain"},
	} {
		tmpl, err := Load(c.fsys)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := tmpl.Render(user("x"), Options{Tools: c.tools}, nil); err != nil || got.Text != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got.Text, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		config string
		want   []string
	}{
		"not JSON":        {`{`, []string{tokenizerConfigFile, "unexpected end"}},
		"a number":        {`{"chat_template":1}`, []string{"expected a string or a list"}},
		"no default":      {`{"chat_template":[{"name":"rag","template":"x"}]}`, []string{"named default", "rag"}},
		"no template":     {`{"chat_template":[{"name":"default"}]}`, []string{"entry 0"}},
		"twice":           {`{"chat_template":[{"name":"a","template":""},{"name":"a","template":""}]}`, []string{`"a" occurs twice`}},
		"does not parse":  {`{"chat_template":"\n{{ x"}`, []string{tokenizerConfigFile + " chat_template line 2"}},
		"token a number":  {`{"chat_template":"","bos_token":1}`, []string{"bos_token"}},
		"token an object": {`{"chat_template":"","eos_token":{}}`, []string{"eos_token"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(config(c.config))
			wantError(t, err, c.want...)
		})
	}
}

func TestAModelWithoutTemplateIsTold(t *testing.T) {
	for _, fsys := range []fstest.MapFS{{}, {tokenizerConfigFile: {Data: []byte(`{"chat_template":null}`)}}} {
		_, err := Load(fsys)
		wantError(t, err, templateFile, tokenizerConfigFile)
		if !errors.Is(err, ErrNoTemplate) {
			t.Errorf("%v is not ErrNoTemplate", err)
		}
	}
}

func TestStopTokens(t *testing.T) {
	for name, c := range map[string]struct {
		generation, config string
		want               []int32
	}{
		"united":  {`{"eos_token_id":[3,1]}`, `{"eos_token_id":2}`, []int32{3, 1, 2}},
		"same":    {`{"eos_token_id":2}`, `{"eos_token_id":[2]}`, []int32{2}},
		"null":    {`{"eos_token_id":null}`, `{}`, nil},
		"missing": {"", "", nil},
	} {
		fsys := fstest.MapFS{}
		if c.generation != "" {
			fsys[generationFile] = &fstest.MapFile{Data: []byte(c.generation)}
			fsys[modelConfigFile] = &fstest.MapFile{Data: []byte(c.config)}
		}
		if got, err := StopTokens(fsys); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, bad := range []string{`"x"`, `-1`, `1.5`, `[1,"x"]`, `3000000000`, `{}`} {
		_, err := StopTokens(fstest.MapFS{modelConfigFile: {Data: []byte(`{"eos_token_id":` + bad + `}`)}})
		wantError(t, err, modelConfigFile, "eos_token_id")
	}
}

func TestDefaults(t *testing.T) {
	d, err := LoadDefaults(fstest.MapFS{generationFile: {Data: []byte(`{"do_sample":true,"temperature":0.6,"top_k":20,"top_p":null}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if d.DoSample == nil || !*d.DoSample || d.Temperature == nil || *d.Temperature != 0.6 || d.TopK == nil || *d.TopK != 20 {
		t.Errorf("%+v", d)
	}
	if d.TopP != nil || d.MinP != nil || d.RepetitionPenalty != nil {
		t.Errorf("%+v: what the file does not say must be nil", d)
	}
	if d, err := LoadDefaults(fstest.MapFS{}); err != nil || d != (Defaults{}) {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = LoadDefaults(fstest.MapFS{generationFile: {Data: []byte(`{"top_k":"many"}`)}})
	wantError(t, err, generationFile, "top_k")
}

func TestTheDemoModelIsRead(t *testing.T) {
	fsys := os.DirFS(gputest.Shared(t, "models", "demo-target"))
	if ids, err := StopTokens(fsys); err != nil || !slices.Equal(ids, []int32{1, 3}) {
		t.Errorf("stop tokens %v, %v, want 1 and 3", ids, err)
	}
	if d, err := LoadDefaults(fsys); err != nil || *d.Temperature != 0.8 || *d.TopP != 0.95 {
		t.Errorf("defaults %+v, %v", d, err)
	}
}
