package tokenizer_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model/tokenizer"
)

// files are the six tokenizers of the shared test data.
var files = []string{
	"tokenizers/gptoss", "tokenizers/qwen3", "tokenizers/minicpm4", "tokenizers/smollm",
	"models/demo-target", "models/stories260K",
}

var loaded = map[string]*tokenizer.Tokenizer{}

func load(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	if tok := loaded[name]; tok != nil {
		return tok
	}
	f, err := os.Open(gputest.Shared(t, name, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.Load(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	loaded[name] = tok
	return tok
}

func encode(t testing.TB, tok *tokenizer.Tokenizer, text string, opt tokenizer.Options) []int32 {
	t.Helper()
	ids, err := tok.Encode(text, opt)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ids
}

func TestVectorsAreExact(t *testing.T) {
	for _, name := range files {
		path := gputest.Shared(t, name)
		raw, err := os.ReadFile(filepath.Join(path, "vectors.json"))
		if os.IsNotExist(err) {
			continue // the two models have none
		}
		if err != nil {
			t.Fatal(err)
		}
		var vectors struct {
			Cases []struct {
				Text       string
				IDs        []int32
				IDsSpecial []int32 `json:"ids_special"`
			}
		}
		if err := json.Unmarshal(raw, &vectors); err != nil {
			t.Fatal(err)
		}
		if len(vectors.Cases) == 0 {
			t.Fatalf("%s: no cases", name)
		}
		tok := load(t, name)
		for _, c := range vectors.Cases {
			if got := encode(t, tok, c.Text, tokenizer.Options{}); !slices.Equal(got, c.IDs) {
				t.Errorf("%s: %q: got %v, want %v", name, c.Text, got, c.IDs)
			}
			want := c.IDsSpecial
			if want == nil {
				want = c.IDs
			}
			if got := encode(t, tok, c.Text, tokenizer.Options{AddSpecialTokens: true}); !slices.Equal(got, want) {
				t.Errorf("%s: %q with special tokens: got %v, want %v", name, c.Text, got, want)
			}
		}
		t.Logf("%s: %d cases", name, len(vectors.Cases))
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range files {
		b.Run(filepath.Base(name), func(b *testing.B) {
			path := gputest.Shared(b, name, "tokenizer.json")
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(info.Size())
			for b.Loop() {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tokenizer.Load(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

// BenchmarkEncode measures text whose words are cached, as a chat's are after a few turns, and text that is new.
func BenchmarkEncode(b *testing.B) {
	for _, name := range files {
		for _, kind := range []string{"repeated", "new"} {
			b.Run(filepath.Base(name)+"/"+kind, func(b *testing.B) {
				tok := load(b, name)
				texts := make([]string, 64)
				r := rand.New(rand.NewPCG(3, 3))
				for i := range texts {
					texts[i] = prose(r, kind == "new")
				}
				size := 0
				for i := 0; b.Loop(); i++ {
					text := texts[i%len(texts)]
					if kind == "new" {
						text = strings.ReplaceAll(text, "qx", strconv.FormatInt(int64(i), 36))
					}
					size += len(text)
					if _, err := tok.Encode(text, tokenizer.Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(int64(size / b.N))
			})
		}
	}
}

// prose returns about 4 KB of words; with marks, every other word holds "qx" for the caller to replace.
func prose(r *rand.Rand, marks bool) string {
	var s strings.Builder
	for i := 0; s.Len() < 4096; i++ {
		if marks && i%2 == 0 {
			s.WriteString(" neqxw" + randomFrom(r, []rune("etaoinshrdlu"), 1+r.IntN(8)))
		}
		s.WriteString(" " + strings.TrimSpace(pick(r, words)))
		if i%12 == 0 {
			s.WriteString(".\n")
		}
	}
	return s.String()
}
