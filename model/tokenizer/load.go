package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// file is a tokenizer.json as read: the large parts as flat tables, the small ones as JSON still.
type file struct {
	parts map[string]json.RawMessage // added_tokens, normalizer, ...; absent when null
	model map[string]json.RawMessage // the model's options
	vocab table
	ids   []int32 // of vocab's strings
	pairs table   // merge i is pairs.at(2i), pairs.at(2i+1)
}

// table holds many strings in one allocation.
type table struct {
	text []byte
	ends []uint32
}

func (t *table) add(s []byte) {
	if cap(t.text)-len(t.text) < len(s) {
		t.text = slices.Grow(t.text, max(len(t.text), 64<<10)) // append grows by a quarter and copies four times as much
	}
	t.text = append(t.text, s...)
	t.ends = append(t.ends, uint32(len(t.text))) // maxFile keeps this within 32 bits
}

func (t *table) at(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = t.ends[i-1]
	}
	return t.text[start:t.ends[i]]
}

func (t *table) len() int { return len(t.ends) }

// Load reads a tokenizer.json of the Hugging Face tokenizers library, version "1.0" with a BPE model. It reads r as a
// stream and holds one copy of the vocabulary. Whatever the file asks for that this package does not do exactly is an
// error that names it; nothing is guessed or ignored.
func Load(r io.Reader) (*Tokenizer, error) {
	f, err := readFile(r)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t, err := build(f)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

func readFile(r io.Reader) (*file, error) {
	s := newScanner(r)
	f := &file{parts: map[string]json.RawMessage{}}
	seen := map[string]bool{}
	s.want('{', "at the start")
	for first := true; s.more(first, '}', "the file"); first = false {
		key := s.key("key")
		if seen[key] {
			s.fail("%q appears twice", key)
		}
		seen[key] = true
		switch key {
		case "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder":
			if v := s.value(key); !isNull(v) {
				f.parts[key] = v
			}
		case "model":
			f.readModel(s)
		default:
			s.fail("unknown key %q", key)
		}
	}
	if s.err == nil && s.peek() != 0 || s.pos < s.end {
		s.fail("want the end of the file, found %s", s.found())
	}
	if s.err == nil && f.model == nil {
		s.err = fmt.Errorf("no \"model\": this is not a tokenizer.json")
	}
	return f, s.err
}

func (f *file) readModel(s *scanner) {
	f.model = map[string]json.RawMessage{}
	seen := map[string]bool{}
	s.want('{', "(the model)")
	for first := true; s.more(first, '}', "model"); first = false {
		key := s.key("key")
		if seen[key] {
			s.fail("model.%s appears twice", key)
		}
		seen[key] = true
		switch key {
		case "vocab":
			f.readVocab(s)
		case "merges":
			f.readMerges(s)
		case "type":
			v := s.value("model.type")
			if s.err == nil && string(v) != `"BPE"` {
				s.fail("model of type %s is not supported, only \"BPE\"", clip(v))
			}
			f.model[key] = v
		case "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges":
			if v := s.value("model." + key); !isNull(v) {
				f.model[key] = v
			}
		default:
			s.fail("model option %q is not supported", key)
		}
	}
	if s.err != nil {
		return
	}
	for _, key := range []string{"type", "vocab", "merges"} {
		if !seen[key] {
			s.fail("the model has no %q", key)
		}
	}
}

func (f *file) readVocab(s *scanner) {
	s.want('{', "(vocab: token to id)")
	for first := true; s.more(first, '}', "vocab"); first = false {
		f.vocab.add(s.str("token"))
		s.want(':', "after a token")
		f.ids = append(f.ids, s.id("token"))
		if len(f.ids) > maxID {
			s.fail("more than %d tokens", maxID)
		}
	}
}

// readMerges reads ["a b", ...] or [["a", "b"], ...]; a file holds one form only.
func (f *file) readMerges(s *scanner) {
	form := byte(0)
	s.want('[', "(merges)")
	for first := true; s.more(first, ']', "merges"); first = false {
		if f.pairs.len() >= 2*maxMerges {
			s.fail("more than %d merges", maxMerges)
			return
		}
		c := s.peek()
		if form == 0 {
			form = c
		}
		switch {
		case c != form:
			s.fail("merges mix strings and pairs")
		case c == '"':
			m := s.str("merge")
			i := bytes.IndexByte(m, ' ')
			switch {
			case bytes.HasPrefix(m, []byte("#version")):
			case i < 0 || bytes.IndexByte(m[i+1:], ' ') >= 0:
				s.fail("merge %q: want two tokens with one space between them", clip(m))
			default:
				f.pairs.add(m[:i])
				f.pairs.add(m[i+1:])
			}
		default:
			s.want('[', "or '\"' (a merge)")
			f.pairs.add(s.str("left of a merge"))
			s.want(',', "inside a merge")
			f.pairs.add(s.str("right of a merge"))
			s.want(']', "after the two tokens of a merge")
		}
	}
}

func isNull(v []byte) bool { return string(v) == "null" }

// clip shortens what an error message quotes from the file.
func clip(v []byte) string {
	if len(v) > 80 {
		return strings.ToValidUTF8(string(v[:77]), "") + "..."
	}
	return string(v)
}

func quote(s string) string { return strconv.Quote(clip([]byte(s))) }

// component reads one part of the file, or one element of a Sequence.
type component struct {
	where string // "normalizer", "decoder[2]"
	raw   json.RawMessage
	kind  string
}

func newComponent(where string, raw json.RawMessage) (component, error) {
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return component{}, fmt.Errorf("%s: %w", where, err)
	}
	if head.Type == nil {
		return component{}, fmt.Errorf("%s: no \"type\" in %s", where, clip(raw))
	}
	return component{where: where, raw: raw, kind: *head.Type}, nil
}

// options decodes the component into a struct of pointers: a key that the struct lacks and a field that stays nil are
// both errors, for either would mean another tokenizer than the file describes. optional names fields that may be nil.
func (c component) options(into any, optional ...string) error {
	d := json.NewDecoder(bytes.NewReader(c.raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %s: %w", c.where, c.kind, err)
	}
	if missing := missingFields(into, optional); missing != "" {
		return fmt.Errorf("%s: %s has no %q", c.where, c.kind, missing)
	}
	return nil
}

func (c component) unsupported(known string) error {
	return fmt.Errorf("%s of type %s is not supported (supported: %s)", c.where, quote(c.kind), known)
}

// sequence returns the elements of a Sequence component, which lie under key.
func (c component) sequence(key string) ([]component, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(c.raw, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", c.where, err)
	}
	for k := range m {
		if k != "type" && k != key {
			return nil, fmt.Errorf("%s: Sequence: unknown field %q", c.where, k)
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(m[key], &list); err != nil || m[key] == nil {
		return nil, fmt.Errorf("%s: Sequence: want an array %q", c.where, key)
	}
	out := make([]component, len(list))
	for i, raw := range list {
		var err error
		if out[i], err = newComponent(fmt.Sprintf("%s[%d]", c.where, i), raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}
