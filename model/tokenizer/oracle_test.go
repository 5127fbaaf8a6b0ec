package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flint/gpu/gputest"
	"flint/model/tokenizer"
)

const oracleInstall = "npm install --no-save --prefix .tools/oracle tokenizers@0.23.2"

// oracleModules returns the folder that holds the reference, of the version that oracle/package.json names.
func oracleModules(t *testing.T) string {
	t.Helper()
	var manifest struct {
		Version      string
		Dependencies map[string]string
	}
	read := func(path string) error {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &manifest)
	}
	if err := read("oracle/package.json"); err != nil {
		t.Fatal(err)
	}
	want := manifest.Dependencies["tokenizers"]
	if !strings.HasSuffix(oracleInstall, "@"+want) {
		t.Fatalf("oracle/package.json wants tokenizers %s, the test's command is %s", want, oracleInstall)
	}
	modules := filepath.Join(gputest.Root(t), ".tools", "oracle", "node_modules")
	err := read(filepath.Join(modules, "tokenizers", "package.json"))
	if err == nil && manifest.Version != want {
		err = fmt.Errorf("version %s is installed, want %s", manifest.Version, want)
	}
	if err == nil {
		_, err = exec.LookPath("node")
	}
	if err != nil {
		message := fmt.Sprintf("the reference tokenizer is missing (%v); at the root of the repository run: %s", err, oracleInstall)
		if os.Getenv("REQUIRE_ORACLE") == "1" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return modules
}

// compareWithOracle encodes and decodes the same things here and there. It returns the number of comparisons.
func compareWithOracle(t *testing.T, modules, path string, tok *tokenizer.Tokenizer, texts []string, ids [][]int32) int {
	t.Helper()
	dir := t.TempDir()
	request, answer := filepath.Join(dir, "request.json"), filepath.Join(dir, "answer.json")
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"tokenizer": path, "texts": texts, "ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(request, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("node", "oracle/oracle.js", modules, request, answer).CombinedOutput(); err != nil {
		t.Fatalf("the reference failed: %v\n%s", err, out)
	}
	if raw, err = os.ReadFile(answer); err != nil {
		t.Fatal(err)
	}
	var want struct {
		Plain, Special [][]int32
		Decoded        [][2]string
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if len(want.Plain) != len(texts) || len(want.Special) != len(texts) || len(want.Decoded) != len(texts)+len(ids) {
		t.Fatalf("the reference answered %d, %d, %d for %d texts and %d ids", len(want.Plain), len(want.Special), len(want.Decoded), len(texts), len(ids))
	}
	bad := 0
	report := func(format string, args ...any) {
		if bad++; bad <= 10 {
			t.Errorf(format, args...)
		}
	}
	for i, text := range texts {
		if got := encode(t, tok, text, tokenizer.Options{}); !slices.Equal(got, want.Plain[i]) {
			report("%.300q: got %v, want %v", text, got, want.Plain[i])
		}
		if got := encode(t, tok, text, tokenizer.Options{AddSpecialTokens: true}); !slices.Equal(got, want.Special[i]) {
			report("%.300q with special tokens: got %v, want %v", text, got, want.Special[i])
		}
	}
	for i, list := range append(slices.Clone(want.Plain), ids...) {
		for k, skip := range []bool{false, true} {
			if got := tok.Decode(list, skip); got != want.Decoded[i][k] {
				report("decode %v (skip %v): got %.300q, want %.300q", list, skip, got, want.Decoded[i][k])
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d mismatches", bad)
	}
	return 2*len(texts) + 2*len(want.Decoded)
}

// randomIDs returns sequences of ids, unused ones among them.
func randomIDs(r *rand.Rand, tok *tokenizer.Tokenizer, n int) [][]int32 {
	out := make([][]int32, n)
	for i := range out {
		out[i] = make([]int32, r.IntN(12))
		for k := range out[i] {
			top := tok.VocabSize() + 2
			if r.IntN(2) == 0 {
				top = min(top, 400) // the byte tokens lie here in most files
			}
			out[i][k] = int32(r.IntN(top))
		}
	}
	return out
}

func TestOracleAgreesOnGeneratedText(t *testing.T) {
	modules := oracleModules(t)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			tok := load(t, name)
			r := rand.New(rand.NewPCG(20250101, uint64(len(name))))
			texts := generate(r, tok, 2500)
			n := compareWithOracle(t, modules, gputest.Shared(t, name, "tokenizer.json"), tok, texts, randomIDs(r, tok, 1000))
			t.Logf("%d texts, %d comparisons", len(texts), n)
		})
	}
}
