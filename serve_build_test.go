//go:build !js

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
)

func TestCompressedCopiesHoldTheFile(t *testing.T) {
	root := t.TempDir()
	text := strings.Repeat("all work and no play ", 500)
	write(t, root, "web/page.wasm", text)
	write(t, root, "web/picture.png", text)
	write(t, root, "web/small.css", "a{}")
	record := filepath.Join(root, "record.json")
	web := filepath.Join(root, "web")
	sizes, err := compressFolder(web, record, brotliFast)
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 1 || sizes["page.wasm"].raw != len(text) || sizes["page.wasm"].brotli >= len(text)/10 {
		t.Errorf("sizes %v", sizes)
	}
	open := func(name string) io.Reader {
		content, err := os.ReadFile(filepath.Join(web, name))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(content)
	}
	unzip, err := gzip.NewReader(open("page.wasm.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]io.Reader{"brotli": brotli.NewReader(open("page.wasm.br")), "gzip": unzip} {
		if got, err := io.ReadAll(r); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, error %v", name, len(got), err)
		}
	}

	written := func() time.Time {
		info, err := os.Stat(filepath.Join(web, "page.wasm.br"))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	compress := func(level int) {
		if _, err := compressFolder(web, record, level); err != nil {
			t.Fatal(err)
		}
	}
	first := written()
	if compress(brotliFast); !written().Equal(first) {
		t.Error("an unchanged file was compressed again")
	}
	if compress(brotliBest); written().Equal(first) {
		t.Error("a better compression was not made")
	}
	first = written()
	if compress(brotliFast); !written().Equal(first) {
		t.Error("a worse compression replaced a better one")
	}
	write(t, root, "web/page.wasm", text+"!")
	if compress(brotliFast); written().Equal(first) {
		t.Error("a changed file was not compressed again")
	}
}

func TestEngineHasLimits(t *testing.T) {
	for engine, fails := range map[size]bool{
		{raw: engineLimit, brotli: engineBrotliLimit}: false,
		{raw: engineLimit + 1}:                        true,
		{raw: 1, brotli: engineBrotliLimit + 1}:       true,
	} {
		if err := checkEngine(engine); (err != nil) != fails {
			t.Errorf("%+v: error %v", engine, err)
		}
	}
}

// TestDevelopmentShowsBuildErrorsAndReloads drives the whole loop on a small module: a good build, a mistake, its repair.
func TestDevelopmentShowsBuildErrorsAndReloads(t *testing.T) {
	root := t.TempDir()
	const good, bad = "package main\n\nfunc main() {}\n", "package main\n\nfunc main() { mistake }\n"
	write(t, root, "go.mod", "module small\n\ngo 1.26\n")
	write(t, root, "web/index.html", "<head></head>")
	for _, p := range programs {
		write(t, root, p.source+"/main.go", good)
	}
	live := newReloader()
	site, err := newSite(filepath.Join(root, "web"), filepath.Join(root, "demo"), true, live)
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := develop(ctx, root, live); err != nil {
		t.Fatal(err)
	}

	server := httptest.NewServer(site)
	defer server.Close()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+reloadEventsPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewScanner(response.Body)
	next := func() buildState {
		t.Helper()
		for events.Scan() {
			if text, ok := strings.CutPrefix(events.Text(), "data: "); ok {
				var state buildState
				if err := json.Unmarshal([]byte(text), &state); err != nil {
					t.Fatal(err)
				}
				return state
			}
		}
		t.Fatal("the stream ended:", events.Err())
		return buildState{}
	}

	first := next()
	if first.Error != "" || first.Build == "" {
		t.Fatalf("first build: %+v", first)
	}
	if w := get(site, "/engine.wasm"); w.Code != 200 || !strings.HasPrefix(w.Body.String(), "\x00asm") {
		t.Errorf("engine.wasm: status %d", w.Code)
	}
	if w := get(site, "/wasm_exec.js"); w.Code != 200 {
		t.Errorf("wasm_exec.js: status %d", w.Code)
	}

	write(t, root, "wasm/page/main.go", bad)
	broken := next()
	if !strings.Contains(broken.Error, "undefined: mistake") || broken.Build != first.Build {
		t.Errorf("broken build: %+v", broken)
	}
	if w := get(site, "/"); w.Code != 200 || !strings.Contains(w.Body.String(), reloadScriptPath) {
		t.Errorf("the page that shows the error: status %d, %q", w.Code, w.Body)
	}

	write(t, root, "wasm/page/main.go", good)
	repaired := next()
	if repaired.Error != "" || repaired.Build == first.Build {
		t.Errorf("repaired build: %+v after %+v", repaired, first)
	}
}
