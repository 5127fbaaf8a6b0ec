//go:build !js

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testSite serves a small site; the returned folder holds web/ and demo/.
func testSite(t *testing.T, isolate bool, live *reloader) (http.Handler, string) {
	t.Helper()
	root := t.TempDir()
	write(t, root, "web/index.html", "<html><head><title>t</title></head></html>")
	write(t, root, "web/engine.wasm", "plain wasm")
	write(t, root, "web/engine.wasm.br", "brotli wasm")
	write(t, root, "web/engine.wasm.gz", "gzip wasm")
	write(t, root, "web/boot.js", "1")
	write(t, root, "web/style.css", "a{}")
	write(t, root, "web/.hidden", "secret")
	write(t, root, "demo/model.safetensors", "0123456789")
	write(t, root, "demo/config.json", "{}")
	write(t, root, "secret.txt", "secret")
	s, err := newSite(filepath.Join(root, "web"), filepath.Join(root, "demo"), isolate, live)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, root
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// get asks the handler directly, so that no client tidies the path up; headers are name, value pairs.
func get(h http.Handler, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.Path = target
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFilesHaveTheTypeABrowserNeeds(t *testing.T) {
	site, _ := testSite(t, true, nil)
	for target, want := range map[string]string{
		"/":                       "text/html; charset=utf-8",
		"/index.html":             "text/html; charset=utf-8",
		"/engine.wasm":            "application/wasm",
		"/boot.js":                "text/javascript; charset=utf-8",
		"/style.css":              "text/css; charset=utf-8",
		"/demo/config.json":       "application/json",
		"/demo/model.safetensors": "application/octet-stream",
	} {
		w := get(site, target)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != want {
			t.Errorf("GET %s: status %d, type %q, want 200, %q", target, w.Code, got, want)
		}
	}
}

func TestRangesAreCutFromThePlainFile(t *testing.T) {
	site, _ := testSite(t, true, nil)
	w := get(site, "/demo/model.safetensors", "Range", "bytes=2-5", "Accept-Encoding", "br, gzip")
	if w.Code != 206 || w.Body.String() != "2345" || w.Header().Get("Content-Range") != "bytes 2-5/10" {
		t.Errorf("got %d %q %q", w.Code, w.Body, w.Header().Get("Content-Range"))
	}
	w = get(site, "/engine.wasm", "Range", "bytes=0-4", "Accept-Encoding", "br")
	if w.Code != 206 || w.Body.String() != "plain" || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("got %d %q encoded %q", w.Code, w.Body, w.Header().Get("Content-Encoding"))
	}
	if w = get(site, "/demo/model.safetensors", "Range", "bytes=10-"); w.Code != 416 {
		t.Errorf("a range past the end: got %d, want 416", w.Code)
	}
}

func TestEncodingFollowsAcceptEncoding(t *testing.T) {
	site, root := testSite(t, true, nil)
	for accept, want := range map[string]string{
		"gzip, deflate, br, zstd": "brotli wasm",
		"gzip":                    "gzip wasm",
		"br;q=0, gzip":            "gzip wasm",
		"*":                       "brotli wasm",
		"br;q=0, *":               "gzip wasm",
		"":                        "plain wasm",
		"identity":                "plain wasm",
	} {
		w := get(site, "/engine.wasm", "Accept-Encoding", accept)
		if w.Body.String() != want || w.Header().Get("Content-Type") != "application/wasm" {
			t.Errorf("Accept-Encoding %q: got %q of type %q, want %q", accept, w.Body, w.Header().Get("Content-Type"), want)
		}
		if w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Vary is %q", accept, w.Header().Get("Vary"))
		}
	}
	// A copy from before the file's last change is not the file.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(root, "web/engine.wasm.br"), old, old); err != nil {
		t.Fatal(err)
	}
	if w := get(site, "/engine.wasm", "Accept-Encoding", "br, gzip"); w.Body.String() != "gzip wasm" {
		t.Errorf("with a stale brotli copy: got %q", w.Body)
	}
}

func TestEntityTagsSaveTheTransferUntilTheFileChanges(t *testing.T) {
	site, root := testSite(t, true, nil)
	plain := get(site, "/engine.wasm").Header().Get("ETag")
	packed := get(site, "/engine.wasm", "Accept-Encoding", "br").Header().Get("ETag")
	if plain == "" || plain == packed {
		t.Fatalf("tags of two encodings: %q and %q", plain, packed)
	}
	if w := get(site, "/engine.wasm", "If-None-Match", plain); w.Code != 304 || w.Body.Len() != 0 {
		t.Errorf("same tag: got %d with %d bytes, want 304", w.Code, w.Body.Len())
	}
	if w := get(site, "/engine.wasm", "If-None-Match", packed, "Accept-Encoding", "br"); w.Code != 304 {
		t.Errorf("same tag in brotli: got %d, want 304", w.Code)
	}
	write(t, root, "web/engine.wasm", "other wasm")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(root, "web/engine.wasm"), later, later); err != nil {
		t.Fatal(err)
	}
	if w := get(site, "/engine.wasm", "If-None-Match", plain); w.Code != 200 || w.Body.String() != "other wasm" {
		t.Errorf("after a change: got %d %q", w.Code, w.Body)
	}
	// A changed file also voids the parts of it that a browser has.
	if w := get(site, "/engine.wasm", "Range", "bytes=0-4", "If-Range", plain); w.Code != 200 {
		t.Errorf("If-Range with an old tag: got %d, want the whole file", w.Code)
	}
}

func TestNothingOutsideTheFoldersIsServed(t *testing.T) {
	site, root := testSite(t, true, nil)
	if err := os.Symlink(filepath.Join(root, "secret.txt"), filepath.Join(root, "web", "link.txt")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"/../secret.txt", "/..", "/demo/../../secret.txt", "/demo/../secret.txt", "/%2e%2e/secret.txt", "/..\\secret.txt",
		"/.hidden", "/link.txt", "/demo/", "/demo", "/C:/secret.txt", "//secret.txt", "/web\x00.html", "/missing",
	} {
		if w := get(site, target); w.Code == 200 || strings.Contains(w.Body.String(), "secret\n") || w.Body.String() == "secret" {
			t.Errorf("GET %q: status %d, body %q", target, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", w.Code)
	}
}

func TestSecurityHeaders(t *testing.T) {
	isolated, _ := testSite(t, true, nil)
	open, _ := testSite(t, false, nil)
	for _, target := range []string{"/", "/engine.wasm", "/missing"} {
		h := get(isolated, target).Header()
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "'wasm-unsafe-eval'") || strings.Contains(policy, "unsafe-inline") {
			t.Errorf("%s: policy %q", target, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: types may be guessed", target)
		}
		if h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cross-Origin-Embedder-Policy") != "require-corp" {
			t.Errorf("%s: not isolated", target)
		}
	}
	if h := get(open, "/").Header(); h.Get("Cross-Origin-Opener-Policy") != "" || h.Get("Cross-Origin-Embedder-Policy") != "" {
		t.Error("isolation headers although switched off")
	}
}

func TestReloadScriptIsOnlyInDevelopment(t *testing.T) {
	asIs, _ := testSite(t, true, nil)
	if w := get(asIs, "/"); strings.Contains(w.Body.String(), reloadScriptPath) {
		t.Error("a page served as it is loads the reload script")
	}
	if w := get(asIs, reloadEventsPath); w.Code != 404 {
		t.Errorf("reload stream of a page served as it is: status %d", w.Code)
	}
	developing, _ := testSite(t, true, newReloader())
	w := get(developing, "/")
	if want := `<head><script src="/_reload.js"></script><title>`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("page %q lacks %q", w.Body, want)
	}
	if w := get(developing, reloadScriptPath); w.Code != 200 || !strings.Contains(w.Body.String(), "EventSource") {
		t.Errorf("reload script: status %d", w.Code)
	}
}

func TestDisplayAddressKeepsTheNameAsked(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1234}
	for asked, want := range map[string]string{"localhost:0": "localhost:1234", ":8080": "localhost:1234", "127.0.0.1:0": "127.0.0.1:1234"} {
		if got := displayAddress(asked, bound); got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"build", "extra"}, {"-nope"}, {"-dir", "no-such-folder"}, {"-addr", "nonsense", "-dir", t.TempDir()}} {
		if err := run(context.Background(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestServerStopsWithOpenReloadStream(t *testing.T) {
	live := newReloader()
	site, _ := testSite(t, true, live)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := httptest.NewUnstartedServer(site)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	response, err := http.Get(server.URL + reloadEventsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	cancel()
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	server.Close() // waits for every request
}

func TestSourcesAreToldFromOutputs(t *testing.T) {
	for _, name := range []string{"gpu/device.go", "shaders/add.wgsl", "go.mod", "web/style.css", "web/replay.js"} {
		if !isSource(name) {
			t.Errorf("%s is no source", name)
		}
	}
	for _, name := range []string{"gpu/device_test.go", "web/engine.wasm", "web/engine.wasm.br", "web/wasm_exec.js", "README.md", "web/boot.js.gz"} {
		if isSource(name) {
			t.Errorf("%s is a source", name)
		}
	}
}

func TestAcceptedEncodingsPreferTheSmaller(t *testing.T) {
	got := acceptedEncodings("gzip;q=1.0, br;q=0.1")
	if !slices.Equal(got, []encoding{{"br", ".br"}, {"gzip", ".gz"}}) {
		t.Errorf("got %v", got)
	}
}
