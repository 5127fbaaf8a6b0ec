package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"flint/gpu"
	"flint/model/modeltest"
	"flint/wasm/wire"
)

// TestHostileFolders loads damaged and malicious model folders: each is refused with an error that says something, or
// loads and answers; none panics, hangs or takes much memory, and whatever failed leaves the session as good as new.
// FLINT_HOSTILE is how many folders (default 150), FLINT_HOSTILE_SEED where their numbering begins.
func TestHostileFolders(t *testing.T) {
	count, first := 150, 0
	for name, n := range map[string]*int{"FLINT_HOSTILE": &count, "FLINT_HOSTILE_SEED": &first} {
		if text := os.Getenv(name); text != "" {
			var err error
			if *n, err = strconv.Atoi(text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	families := []string{"llama", "minicpm", "qwen2", "qwen3"}
	base := map[string]fstest.MapFS{}
	for i, family := range families {
		config := map[string]any{"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64}
		base[family] = modeltest.Checkpoint(11, modeltest.Options{Family: family, Config: config, Shards: 1 + i%2})
	}
	d := gpu.OpenSoftware(gpu.Options{})
	e := &events{}
	s := NewOn(d, e.emit)
	defer s.Close()
	load := func(files fstest.MapFS) error {
		*e = nil
		return s.Load(context.Background(), files, wire.Load{ID: 1, Name: "m", ContextLength: 64})
	}
	if err := load(base["llama"]); err != nil {
		t.Fatal(err)
	}
	want, _ := answer(t, s, e, context.Background(), []wire.Turn{user("hello")}, greedy(4))
	loaded := 0
	for i := first; i < first+count; i++ {
		family := families[i%len(families)]
		m := mutator{rand: rand.New(rand.NewPCG(uint64(i), 1)), files: fstest.MapFS{}}
		for name, f := range base[family] {
			m.files[name] = &fstest.MapFile{Data: slices.Clone(f.Data), Mode: f.Mode}
		}
		for range 1 + m.rand.IntN(2) {
			m.mutate()
		}
		err := bounded(t, fmt.Sprintf("folder %d (%s: %s)", i, family, strings.Join(m.done, "; ")), func() error {
			if err := load(m.files); err != nil {
				if len(strings.TrimSpace(err.Error())) < 10 || len(err.Error()) > 5000 {
					t.Errorf("folder %d (%v): the error says too little or too much: %.300q", i, m.done, err)
				}
				return err
			}
			_, _ = answer(t, s, e, context.Background(), []wire.Turn{user("a <|im_end|> b")}, greedy(3))
			return nil
		})
		for _, event := range *e { // the worker could not post it otherwise, and would die of it
			if _, err := wire.Encode(event); err != nil {
				t.Errorf("folder %d (%v): event %#v: %v", i, m.done, event, err)
			}
		}
		if err == nil {
			loaded++
			continue
		}
		if _, ok := (*e)[len(*e)-1].(wire.Error); !ok || d.Allocated() != 0 {
			t.Errorf("folder %d (%v): last event %#v, %d bytes left", i, m.done, (*e)[len(*e)-1], d.Allocated())
		}
		if i%10 != 0 {
			continue
		}
		if err := load(base["llama"]); err != nil {
			t.Fatalf("after folder %d (%v): %v", i, m.done, err)
		}
		if got, _ := answer(t, s, e, context.Background(), []wire.Turn{user("hello")}, greedy(4)); got != want {
			t.Fatalf("after folder %d (%v): %q, want %q", i, m.done, got, want)
		}
	}
	t.Logf("%d of %d folders loaded", loaded, count)
	if loaded == count || loaded == 0 && count >= 100 {
		t.Fatalf("%d of %d folders loaded: the damage is too slight or too gross", loaded, count)
	}
}

// bounded runs f and fails when it panics, takes more than five seconds of this machine or allocates more than a small
// model can need.
func bounded(t *testing.T, what string, f func() error) (err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
				t.Errorf("%s: panic: %v\n%s", what, p, debug.Stack())
			}
		}()
		err = f()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		stacks := make([]byte, 1<<16)
		t.Fatalf("%s: hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
		t.Errorf("%s: allocated %d MiB", what, took>>20)
	}
	return err
}

// mutator damages a model folder.
type mutator struct {
	rand  *rand.Rand
	files fstest.MapFS
	done  []string // what was done, for messages
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (m *mutator) note(format string, args ...any) {
	m.done = append(m.done, fmt.Sprintf(format, args...))
}

// names lists the folder's files whose name has one of the endings, all without any.
func (m *mutator) names(endings ...string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if len(endings) == 0 || slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(name, end) }) {
			out = append(out, name)
		}
	}
	return out
}

func (m *mutator) mutate() {
	kinds := []func(){
		m.truncate, m.flip, m.dropOrMove, m.folder, m.number, m.number, m.key, m.key, m.value, m.value, m.header, m.header,
		m.tensor, m.template, m.deep, m.grow,
	}
	if len(m.names()) > 0 {
		pick(m.rand, kinds)()
	}
}

func (m *mutator) truncate() {
	name := pick(m.rand, m.names())
	f := m.files[name]
	f.Data = f.Data[:m.rand.IntN(len(f.Data)+1)]
	m.note("%s cut to %d", name, len(f.Data))
}

func (m *mutator) flip() {
	name := pick(m.rand, m.names())
	data := m.files[name].Data
	if len(data) == 0 {
		return
	}
	n := 1 + m.rand.IntN(4)
	for range n {
		data[m.rand.IntN(min(len(data), 4096))] ^= 1 << m.rand.IntN(8)
	}
	m.note("%s: %d bits flipped", name, n)
}

func (m *mutator) dropOrMove() {
	name := pick(m.rand, m.names())
	to := pick(m.rand, []string{"", "other.json", "model.safetensors", "model.safetensors.index.json", "config.json", "tokenizer.json", "chat_template.jinja", "generation_config.json", "sub/" + name})
	f := m.files[name]
	if m.rand.IntN(2) == 0 || to == "" {
		delete(m.files, name)
	}
	if to != "" {
		m.files[to] = f
	}
	m.note("%s becomes %q", name, to)
}

func (m *mutator) folder() {
	name := pick(m.rand, m.names())
	delete(m.files, name)
	m.files[name+"/x"] = &fstest.MapFile{Data: []byte("x")}
	m.note("%s is a folder", name)
}

// absurd are values where a number, or anything, is expected.
var absurd = []string{
	"-1", "0", "1", "2", "3", "7", "31", "64", "1.5", "1e9", "1e308", "1e999", "-1e308", "2147483647", "2147483648", "4294967295", "4294967296",
	"9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e-320", "null", "true", `""`, `"NaN"`, "[]", "{}",
	"[[]]", `[-1,0]`, `["a"]`, "16777216", "4194304", "1048576", "65536", `"\ud800"`, `"<|im_end|>"`,
}

// spot is where a JSON text has a value.
type spot struct{ start, end int }

// spots finds the values of a JSON text: numbers alone, or every scalar. A rough reading is good enough here.
func spots(text []byte, numbers bool) []spot {
	var out []spot
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return out
		}
		end := int(dec.InputOffset())
		if n, ok := token.(json.Number); ok {
			out = append(out, spot{end - len(n), end})
			continue
		}
		if _, delim := token.(json.Delim); delim || numbers {
			continue
		}
		start := end - 4
		if s, ok := token.(string); ok {
			if start = bytes.LastIndexByte(text[:end-1], '"'); start < 0 || end-start-2 != len(s) {
				continue
			}
		}
		out = append(out, spot{start, end})
	}
}

// replaceSpot puts another text where a value is.
func (m *mutator) replaceSpot(numbers bool, values []string) {
	name := pick(m.rand, append(m.names("config.json"), m.names(".json")...))
	data := m.files[name].Data
	at := spots(data, numbers)
	if len(at) == 0 {
		return
	}
	where, value := pick(m.rand, at[:min(len(at), 400)]), pick(m.rand, values)
	m.note("%s: %.60q at %d becomes %s", name, data[where.start:where.end], where.start, value)
	m.files[name].Data = slices.Concat(data[:where.start], []byte(value), data[where.end:])
}

func (m *mutator) number() { m.replaceSpot(true, absurd) }
func (m *mutator) value()  { m.replaceSpot(false, absurd) }

// key adds keys that mean something, or changes what a known one says.
func (m *mutator) key() {
	name := pick(m.rand, []string{"config.json", "config.json", "config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json"})
	f, ok := m.files[name]
	if !ok {
		return
	}
	keys := map[string][]string{
		"config.json": {
			"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim",
			"max_position_embeddings", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings", "attention_bias",
			"architectures", "model_type", "sliding_window", "layer_types", "eos_token_id", "bos_token_id", "scale_emb", "scale_depth", "dim_model_base",
		},
		"tokenizer.json":         {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "version"},
		"generation_config.json": {"eos_token_id", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "do_sample"},
		"tokenizer_config.json":  {"chat_template", "bos_token", "eos_token", "added_tokens_decoder"},
	}[name]
	values := append([]string{
		`{"rope_type":"yarn","factor":1e300,"original_max_position_embeddings":2}`,
		`{"rope_type":"longrope","short_factor":[1e-9],"long_factor":[],"original_max_position_embeddings":4}`,
		`{"rope_type":"dynamic","factor":8e7}`, `{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,"original_max_position_embeddings":8192}`,
		`{"type":"Split","pattern":{"Regex":"(a+)+$"},"behavior":"Isolated","invert":false}`, `{"type":"Split","pattern":{"Regex":"(?<=a{1000000})"},"behavior":"Isolated","invert":false}`,
		`{"type":"Prepend","prepend":"xxxxxxxxxxxxxxxx"}`, `{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 5000) + `"}`,
		`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":9000000,"stop":0}]}`, `{"type":"ByteFallback"}`,
		`{"type":"Sequence","normalizers":[]}`, `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true}]}`,
		`[{"name":"default","template":"{{ messages[0].content * 3 }}"}]`, `"{% for i in range(100000000) %}x{% endfor %}"`,
	}, absurd...)
	key, value := pick(m.rand, keys), pick(m.rand, values)
	m.note("%s: %s is %.80s", name, key, value)
	if i := bytes.IndexByte(f.Data, '{'); i >= 0 { // of two keys with one name the last counts: take the other away
		f.Data = bytes.Replace(f.Data, []byte(`"`+key+`"`), []byte(`"x_`+key+`"`), 1)
		f.Data = slices.Concat(f.Data[:i+1], []byte(`"`+key+`": `+value+","), f.Data[i+1:])
	}
}

// header rewrites the header of a safetensors file, its length kept true or not.
func (m *mutator) header() {
	names := m.names(".safetensors")
	if len(names) == 0 {
		return
	}
	name := pick(m.rand, names)
	data := m.files[name].Data
	if len(data) < 8 {
		return
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) || m.rand.IntN(6) == 0 {
		binary.LittleEndian.PutUint64(data, pick(m.rand, []uint64{0, 1, n + 1, n - 1, 1 << 20, 100_000_001, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1<<64 - 8}))
		m.note("%s: header length %d", name, binary.LittleEndian.Uint64(data))
		return
	}
	text, rest := data[8:8+n], data[8+n:]
	swaps := [][2]string{
		{`"BF16"`, `"F32"`},
		{`"BF16"`, `"I8"`},
		{`"BF16"`, `"F8_E4M3"`},
		{`"BF16"`, `"F16"`},
		{`"BF16"`, `"BOOL"`},
		{`"BF16"`, `"X"`},
		{`"shape"`, `"Shape"`},
		{"layers.0", "layers.1"},
		{"layers.1", "layers.2"},
		{"weight", "bias"},
		{"[32", "[0"},
		{"[32,", "[32,1,"},
		{",32]", ",64]"},
		{"{", `{"__metadata__":{"a":1},`},
		{"{", `{"extra":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`},
		{"{", `{"e":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]},`},
		{`"data_offsets":[0`, `"data_offsets":[2`},
		{"model.", ""},
		{"}}", "}} x"},
		{"model.norm.weight", `model.norm.\u0000weight`},
	}
	if m.rand.IntN(3) == 0 {
		if at := spots(text, true); len(at) > 0 {
			where, value := pick(m.rand, at), pick(m.rand, absurd)
			m.note("%s: header %s becomes %s", name, text[where.start:where.end], value)
			text = slices.Concat(text[:where.start], []byte(value), text[where.end:])
		}
	} else {
		swap := pick(m.rand, swaps)
		times := pick(m.rand, []int{1, 1, -1})
		m.note("%s: header %s becomes %s %d times", name, swap[0], swap[1], times)
		text = bytes.Replace(text, []byte(swap[0]), []byte(swap[1]), times)
	}
	m.files[name].Data = slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, rest)
}

// tensor spoils weights: not a number and infinity go through the whole model.
func (m *mutator) tensor() {
	names := m.names(".safetensors")
	if len(names) == 0 {
		return
	}
	name := pick(m.rand, names)
	data := m.files[name].Data
	half := uint16(pick(m.rand, []uint16{0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f, 0, 1}))
	m.note("%s: weights are %#x", name, half)
	for i := len(data)/4*2 + 2; i+1 < len(data); i += 2 * (1 + m.rand.IntN(64)) {
		binary.LittleEndian.PutUint16(data[i:], half)
	}
}

func (m *mutator) template() {
	text := pick(m.rand, []string{
		"", "{{", "{% for m in messages %}", "{{ messages }}", "{{ 'x' * 1000000 }}", "{% for i in range(1000000000) %}{% endfor %}", "{{ 1 / 0 }}", "{{ messages[99].content }}",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ raise_exception('no') }}", "{{ bos_token * 100000 }}", "\xff\xfe", "{# " + strings.Repeat("{{", 5000), strings.Repeat("(", 10000),
		"{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}", strings.Repeat("{% if true %}", 3000) + strings.Repeat("{% endif %}", 3000),
		"{{ messages[0].content | upper }}", "{{ tools | tojson }}", "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
	})
	m.files["chat_template.jinja"] = &fstest.MapFile{Data: []byte(text)}
	m.note("template %.40q", text)
}

// deep nests far beyond anybody's stack.
func (m *mutator) deep() {
	name := pick(m.rand, m.names(".json"))
	n := pick(m.rand, []int{100, 9_999, 10_001, 300_000})
	open, end := pick(m.rand, []string{"[", `{"a":`}), "]"
	if open != "[" {
		end = "}"
	}
	text := strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
	if data := m.files[name].Data; m.rand.IntN(2) == 0 && len(data) > 0 {
		text = `{"deep": ` + text + "," + strings.TrimPrefix(string(data), "{")
	}
	m.files[name].Data = []byte(text)
	m.note("%s: %d deep", name, n)
}

// grow repeats a file's text, or puts blanks around it.
func (m *mutator) grow() {
	name := pick(m.rand, m.names(".json"))
	f := m.files[name]
	if m.rand.IntN(2) == 0 {
		f.Data = slices.Concat(f.Data, f.Data)
		m.note("%s twice", name)
		return
	}
	f.Data = slices.Concat(bytes.Repeat([]byte(" "), 3<<20), f.Data)
	m.note("%s after 3 MiB of blanks", name)
}
