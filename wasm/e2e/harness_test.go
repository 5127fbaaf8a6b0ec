//go:build !js

// Package e2e tests the page in a headless Chromium, on the server and the build that users have. make test-chrome
// runs it; without REQUIRE_WEBGPU=1 it is skipped, so that `go test ./...` needs no browser.
package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/proto"

	"flint/gpu/gputest"
	"flint/wasm/e2e/chrome"
)

// shared is what all tests of a run use: one browser, one server binary, one build of web/.
var shared struct {
	once    sync.Once
	browser *chrome.Browser
	server  string // path of the server's binary
	folder  string
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.browser != nil {
		shared.browser.Close()
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	os.Exit(code)
}

// browser returns the shared Chromium, started and the page built on first use.
func browser(t *testing.T) *chrome.Browser {
	t.Helper()
	if os.Getenv("REQUIRE_WEBGPU") != "1" {
		t.Skip("browser tests run with REQUIRE_WEBGPU=1 (make test-chrome)")
	}
	root := gputest.Root(t)
	shared.once.Do(func() { shared.err = start(root) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.browser
}

func start(root string) error {
	var err error
	if shared.folder, err = os.MkdirTemp("", "flint-e2e-"); err != nil {
		return err
	}
	shared.server = filepath.Join(shared.folder, "server")
	for _, args := range [][]string{{"go", "build", "-o", shared.server, "."}, {shared.server, "build", "-fast"}} {
		command := exec.Command(args[0], args[1:]...)
		command.Dir = root
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	shared.browser, err = chrome.Launch()
	return err
}

// serve starts the server on a folder (web, or one of the test's own) for the length of the test and returns its
// address, without a slash at the end. More flags of the server can follow.
func serve(t *testing.T, folder string, flags ...string) string {
	t.Helper()
	browser(t)
	command := exec.Command(shared.server, append([]string{"-addr", "localhost:0", "-dir", folder}, flags...)...)
	command.Dir = gputest.Root(t)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), " on http://"); ok {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return "http://" + address
		}
	}
	t.Fatalf("the server did not say its address: %v", lines.Err())
	return ""
}

// tab is a page under test that remembers what went wrong in it.
type tab struct {
	*rod.Page
	mu       sync.Mutex
	problems []string
}

// open shows an address in a new tab of a new profile. When the test ends, any exception, console error, failed
// request or policy violation that it did not take out with takeProblems fails it.
func open(t *testing.T, address string) *tab {
	t.Helper()
	incognito, err := browser(t).Incognito()
	if err != nil {
		t.Fatal(err)
	}
	page, err := incognito.Page(proto.TargetCreateTarget{})
	if err != nil {
		t.Fatal(err)
	}
	p := &tab{Page: page}
	ctx, cancel := context.WithCancel(context.Background())
	listen := page.Context(ctx).EachEvent(
		func(e *proto.RuntimeExceptionThrown) { p.note("exception: " + describe(e.ExceptionDetails)) },
		func(e *proto.RuntimeConsoleAPICalled) {
			if e.Type == proto.RuntimeConsoleAPICalledTypeError {
				p.note("console.error: " + consoleText(e.Args))
			}
		},
		func(e *proto.LogEntryAdded) {
			if e.Entry.Level == proto.LogLogEntryLevelError {
				p.note(string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL)
			}
		},
		func(*proto.InspectorTargetCrashed) { p.note("the page crashed") },
	)
	go listen()
	t.Cleanup(func() {
		if t.Failed() {
			p.picture(t)
		}
		cancel()
		_ = page.Close()
		_ = proto.TargetDisposeBrowserContext{BrowserContextID: incognito.BrowserContextID}.Call(incognito)
		for _, problem := range p.takeProblems() {
			t.Errorf("in the page: %s", problem)
		}
	})
	if err := page.Timeout(time.Minute).Navigate(address); err != nil {
		t.Fatalf("open %s: %v", address, err)
	}
	return p
}

func (p *tab) note(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

// takeProblems returns what went wrong so far and forgets it: for tests that provoke it.
func (p *tab) takeProblems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.problems
	p.problems = nil
	return taken
}

// picture saves what the tab shows to .build/e2e/TEST.png.
func (p *tab) picture(t *testing.T) {
	image, err := p.Timeout(10*time.Second).Screenshot(false, nil)
	if err != nil {
		t.Logf("no picture: %v", err)
		return
	}
	name := filepath.Join(gputest.Root(t), ".build", "e2e", strings.ReplaceAll(t.Name(), "/", "_")+".png")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Log(err)
		return
	}
	if err := os.WriteFile(name, image, 0o644); err != nil {
		t.Log(err)
		return
	}
	t.Logf("the page looked like %s", name)
}

// eval returns the value of a JavaScript function's source, awaited if it is a promise.
func (p *tab) eval(t *testing.T, function string, args ...any) string {
	t.Helper()
	result, err := p.Timeout(time.Minute).Eval(function, args...)
	if err != nil {
		t.Fatalf("%s: %v", function, err)
	}
	return result.Value.String()
}

// await waits until a JavaScript function returns true.
func (p *tab) await(t *testing.T, limit time.Duration, function string, args ...any) {
	t.Helper()
	if err := p.Timeout(limit).Wait(rod.Eval(function, args...)); err != nil {
		t.Fatalf("not within %v: %s (%v)", limit, function, err)
	}
}

func describe(d *proto.RuntimeExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return fmt.Sprintf("%s (%s:%d)", d.Text, d.URL, d.LineNumber)
}

func consoleText(args []*proto.RuntimeRemoteObject) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg.Description
		if words[i] == "" {
			words[i] = arg.Value.String()
		}
	}
	return strings.Join(words, " ")
}
