//go:build !js

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWebGPUInAWorkerUnderTheServersPolicy holds with the isolation headers and without.
func TestWebGPUInAWorkerUnderTheServersPolicy(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "index.html", `<!doctype html><link rel="icon" href="data:,"><script src="main.js"></script>`)
	write(t, folder, "main.js", `new Worker("worker.js").onmessage = (event) => document.title = event.data;`)
	write(t, folder, "worker.js", `navigator.gpu.requestAdapter().then(async (adapter) => {
		const device = await adapter.requestDevice();
		postMessage(device ? "device" : "none");
	}).catch((error) => postMessage(String(error)));`)
	for name, flags := range map[string][]string{"isolated": nil, "open": {"-isolate=false"}} {
		t.Run(name, func(t *testing.T) {
			page := open(t, serve(t, folder, flags...))
			page.await(t, time.Minute, `() => document.title !== ""`)
			if got := page.eval(t, `() => document.title`); got != "device" {
				t.Errorf("in the worker: %s", got)
			}
			want := map[string]string{"isolated": "true", "open": "false"}[name]
			if got := page.eval(t, `() => String(crossOriginIsolated)`); got != want {
				t.Errorf("crossOriginIsolated is %s, want %s", got, want)
			}
		})
	}
}

// TestInlineScriptsAreBlockedAndNoticed proves both the policy and that the harness sees what goes wrong in a page.
func TestInlineScriptsAreBlockedAndNoticed(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "index.html", `<!doctype html><link rel="icon" href="data:,"><script>document.title = "inline"</script>
		<img src="http://localhost:1/leak?chat"><script src="main.js"></script>`)
	write(t, folder, "main.js", `console.error("asked for"); addEventListener("load", () => { document.title += "loaded"; throw new Error("thrown"); });`)
	page := open(t, serve(t, folder))
	page.await(t, time.Minute, `() => document.title !== ""`)
	if got := page.eval(t, `() => document.title`); got != "loaded" {
		t.Errorf("title is %q: the inline script ran", got)
	}
	for _, want := range []string{"inline script", "leak?chat", "console.error: asked for", "exception: Error: thrown"} {
		page.wantProblem(t, want)
	}
	page.takeProblems()
}

// wantProblem waits for a problem to arrive: events come after the page's own doing.
func (p *tab) wantProblem(t *testing.T, part string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		all := strings.Join(p.problems, "\n")
		p.mu.Unlock()
		if strings.Contains(all, part) {
			return
		}
	}
	t.Errorf("the harness did not notice %q; it has: %q", part, p.problems)
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
