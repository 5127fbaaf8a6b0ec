//go:build !js

package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rod/rod"
	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"

	"flint/gpu/gputest"
	"flint/wasm/e2e/chrome"
)

// patience is for two cores shared by other tests, on a GPU made of software.
const patience = 2 * time.Minute

var browser *chrome.Browser

func TestMain(m *testing.M) {
	code := m.Run()
	if browser != nil {
		browser.Close()
	}
	os.Exit(code)
}

// site is a plain static server with the page below a sub-path. It sends no COOP, COEP or CSP header: the page must do
// without the first two and brings the last itself.
type site struct {
	*httptest.Server
	root string

	mutex   sync.Mutex
	missing map[string]bool
	types   map[string]string // Content-Type by extension, in place of the right one
	standIn bool              // serve the stand-in worker
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{root: gputest.Root(t), missing: map[string]bool{}, types: map[string]string{}}
	for _, name := range []string{"page.wasm", "engine.wasm", "panel.wasm", "wasm_exec.js"} {
		if _, err := os.Stat(filepath.Join(s.root, "web", name)); err != nil {
			unavailable(t, "web/"+name+" is not built: run `go run . build -fast`")
		}
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) url() string {
	return strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/some/where/"
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name, ok := strings.CutPrefix(r.URL.Path, "/some/where/")
	if !ok || s.missing[name] {
		http.NotFound(w, r)
		return
	}
	file := filepath.Join(s.root, "web", filepath.FromSlash(name))
	switch {
	case name == "worker.js" && s.standIn:
		file = filepath.Join("testdata", "worker.js")
	case strings.HasPrefix(name, "demo/"):
		file = filepath.Join(s.root, filepath.FromSlash(name))
	}
	if kind := s.types[filepath.Ext(name)]; kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.ServeFile(w, r, file)
}

// unavailable skips the test, or fails it where it is required.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("REQUIRE_WEBGPU") == "1" {
		t.Fatal(why + " (required by REQUIRE_WEBGPU=1)")
	}
	t.Skip(why)
}

// tab is a page in a profile of its own.
type tab struct {
	*rod.Page
	t     *testing.T
	mutex sync.Mutex
	noise []string // errors on the console
}

type options struct {
	width, height int // default 1200 x 760
	scale         float64
	dark          bool
	before        string // a script to run before the page's own
}

func (s *site) open(t *testing.T, o options) *tab {
	t.Helper()
	if browser == nil {
		if _, err := chrome.Path(); err != nil {
			unavailable(t, err.Error())
		}
		b, err := chrome.Launch()
		if err != nil {
			t.Fatal(err)
		}
		browser = b
	}
	profile, err := browser.Incognito()
	check(t, err)
	// rod's default device pretends to be another browser on another system.
	page, err := profile.NoDefaultDevice().Page(proto.TargetCreateTarget{})
	check(t, err)
	p := &tab{Page: page.Timeout(2 * patience), t: t}
	t.Cleanup(func() {
		if t.Failed() {
			p.complain()
		}
		_ = page.Close()
	})
	go page.EachEvent(func(e *proto.RuntimeExceptionThrown) {
		text := e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			text += " " + o.Description
		}
		p.note(text)
	}, func(e *proto.RuntimeConsoleAPICalled) {
		if e.Type == proto.RuntimeConsoleAPICalledTypeError {
			p.note(fmt.Sprint(page.MustObjectsToJSON(e.Args)))
		}
	}, func(e *proto.LogEntryAdded) {
		if e.Entry.Level == proto.LogLogEntryLevelError {
			p.note(e.Entry.Text + " " + e.Entry.URL)
		}
	})()
	check(t, proto.LogEnable{}.Call(page))
	if o.width == 0 {
		o.width, o.height = 1200, 760
	}
	if o.scale == 0 {
		o.scale = 1
	}
	check(t, page.SetViewport(&proto.EmulationSetDeviceMetricsOverride{Width: o.width, Height: o.height, DeviceScaleFactor: o.scale}))
	if o.dark {
		check(t, proto.EmulationSetEmulatedMedia{Features: []*proto.EmulationMediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}.Call(page))
	}
	if o.before != "" {
		_, err := page.EvalOnNewDocument(o.before)
		check(t, err)
	}
	check(t, p.Navigate(s.url()))
	return p
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *tab) note(text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.noise = append(p.noise, text)
}

// quiet fails the test if the console has shown an error.
func (p *tab) quiet() {
	p.t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, text := range p.noise {
		p.t.Errorf("on the console: %s", text)
	}
}

func (p *tab) complain() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	text, err := p.Page.Timeout(5 * time.Second).Eval(`() => document.body.innerText`)
	if err == nil {
		p.t.Logf("the page says:\n%s\nthe console: %q", text.Value.Str(), p.noise)
	}
}

// eval returns what the JavaScript expression is worth, as text.
func (p *tab) eval(expression string) string {
	p.t.Helper()
	v, err := p.Eval("() => String(" + expression + ")")
	check(p.t, err)
	return v.Value.Str()
}

// run runs a statement.
func (p *tab) run(statement string) {
	p.t.Helper()
	_, err := p.Eval("() => {" + statement + "}")
	check(p.t, err)
}

// is checks an expression now.
func (p *tab) is(expression, want string) {
	p.t.Helper()
	if got := p.eval(expression); got != want {
		p.t.Errorf("%s is %q, want %q", expression, got, want)
	}
}

// until waits for an expression to become true. It may name what is not there yet.
func (p *tab) until(expression string) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		v, err := p.Eval("() => { try { return String(" + expression + ") } catch (e) { return String(e) } }")
		if err == nil && v.Value.Str() == "true" {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("after %v still not: %s (%v %v)", patience, expression, v, err)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

func (p *tab) status(want string) {
	p.t.Helper()
	p.until(fmt.Sprintf("document.getElementById('status').textContent === %q", want))
}

func (p *tab) press(keys ...input.Key) {
	p.t.Helper()
	check(p.t, p.Keyboard.Type(keys...))
}

// say types a message and sends it.
func (p *tab) say(text string) {
	p.t.Helper()
	p.run(`document.getElementById("prompt").focus()`)
	check(p.t, p.InsertText(text))
	p.press(input.Enter)
}

func (p *tab) click(selector string) {
	p.t.Helper()
	e, err := p.Element(selector)
	check(p.t, err)
	check(p.t, e.Click(proto.InputMouseButtonLeft, 1))
}

// alert waits for a problem and returns its text.
func (p *tab) alert() string {
	p.t.Helper()
	p.until(`document.querySelector(".card[role=alert]") !== null`)
	return p.eval(`document.querySelector(".card[role=alert]").innerText`)
}

const (
	ready     = "Ready"
	answering = "Answering…"
	broken    = "Not running"

	lastAnswer = `[...document.querySelectorAll(".turn:not(.user) .text")].at(-1).innerText`
	lastNote   = `[...document.querySelectorAll(".turn .meta")].at(-1).textContent`
	fromEnd    = `(t => t.scrollHeight - t.clientHeight - t.scrollTop)(document.getElementById("transcript"))`
)
