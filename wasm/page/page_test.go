package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"flint/gpu/gputest"
	"flint/wasm/wire"
)

func TestAnAnsweredTurnJoinsTheConversation(t *testing.T) {
	var c conversation
	c.ask(1, "hi", wire.Greedy())
	c.add("hel")
	c.add("lo")
	if got := c.settle(); got != "hello" {
		t.Errorf("answer %q", got)
	}
	got := c.ask(2, "and?", wire.Greedy())
	want := wire.Chat{ID: 2, Sampling: wire.Greedy(), Messages: []wire.Turn{
		{Role: wire.User, Content: "hi"}, {Role: wire.Assistant, Content: "hello"}, {Role: wire.User, Content: "and?"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestATurnWithoutAnswerLeavesNoTrace(t *testing.T) {
	for name, end := range map[string]func(c *conversation){
		"stopped before the first word": func(c *conversation) { c.settle() },
		"failed":                        func(c *conversation) { c.add("half an ans"); c.abandon() },
	} {
		var c conversation
		c.ask(1, "hi", wire.Greedy())
		end(&c)
		if got := c.ask(2, "again", wire.Greedy()).Messages; len(got) != 1 || got[0].Content != "again" {
			t.Errorf("%s: the next request carries %+v", name, got)
		}
		if c.add("x"); c.settle() != "x" {
			t.Errorf("%s: text of the old answer is in the new one", name)
		}
	}
}

func TestLateFactsAreRecognised(t *testing.T) {
	var c conversation
	if c.is(0) {
		t.Error("no request is current, yet 0 is")
	}
	c.ask(1, "hi", wire.Greedy())
	if !c.is(1) || c.is(2) {
		t.Error("want 1 alone to be current")
	}
	c.clear()
	if c.is(1) || len(c.turns) != 0 {
		t.Error("1 is still current after clear")
	}
}

func TestARequestKeepsItsMessagesWhenTheConversationGoesOn(t *testing.T) {
	c := conversation{turns: make([]wire.Turn, 0, 8)}
	first := c.ask(1, "a", wire.Greedy())
	c.abandon()
	c.ask(2, "b", wire.Greedy())
	if first.Messages[0].Content != "a" {
		t.Error("the second request overwrote the first one's messages")
	}
}

func TestHeartbeat(t *testing.T) {
	now := time.Unix(0, 0)
	var h heartbeat
	tick := func(after time.Duration) (uint32, bool, bool) {
		now = now.Add(after)
		return h.tick(now)
	}
	if n, send, dead := tick(beat); n != 1 || !send || dead {
		t.Fatalf("first look: %d %v %v, want a ping", n, send, dead)
	}
	h.pong(1)
	if n, send, _ := tick(beat); n != 2 || !send {
		t.Fatalf("after a pong: %d %v, want ping 2", n, send)
	}
	for range patience / beat {
		if _, send, dead := tick(beat); send || dead {
			t.Fatalf("a busy worker: send %v, dead %v, want patience", send, dead)
		}
	}
	h.pong(2)
	tick(beat)
	// The machine slept: the timer comes first, then the answer that lay ready.
	if _, _, dead := tick(8 * time.Hour); dead {
		t.Fatal("given up at the first look after a sleep")
	}
	h.pong(3)
	if n, send, dead := tick(beat); n != 4 || !send || dead {
		t.Fatalf("after a sleep: %d %v %v, want ping 4", n, send, dead)
	}
	tick(patience + beat)
	if _, _, dead := tick(beat); !dead {
		t.Fatal("a silent worker is not given up")
	}
}

func TestSampling(t *testing.T) {
	recommended := wire.Sampling{Temperature: 1, TopK: 5, TopP: 0.9, RepetitionPenalty: 1}
	got, mistake := sampling(recommended, "0.35", " 42 ")
	if mistake != "" || got.Temperature != 0.35 || got.TopK != 5 || got.Seed == nil || *got.Seed != 42 {
		t.Errorf("got %+v, %v", got, mistake)
	}
	if got, mistake := sampling(recommended, "0", ""); mistake != "" || got.Temperature != 0 || got.Seed != nil {
		t.Errorf("got %+v, %v; want greedy without a seed", got, mistake)
	}
	for _, seed := range []string{"-1", "1.5", "x", "9007199254740992", "99999999999999999999999"} {
		if _, mistake := sampling(recommended, "1", seed); mistake != textBadSeed {
			t.Errorf("seed %q: %v", seed, mistake)
		}
	}
	for _, temperature := range []string{"", "warm", "-1", "NaN", "inf", "1e300", "1e999"} {
		if _, mistake := sampling(recommended, temperature, ""); mistake != textBadTemperature {
			t.Errorf("temperature %q: %v", temperature, mistake)
		}
	}
}

func TestTheMeterShowsRecentStepsOfThisAnswer(t *testing.T) {
	var m meter
	if m.rate() != 0 {
		t.Error("a rate before any step")
	}
	for i := range 3 * recent {
		m.add(wire.Step{Index: i, Tokens: 1, MS: 1000})
	}
	for i := range recent {
		m.add(wire.Step{Index: 100 + i, Tokens: 2, MS: 50})
	}
	if got := m.rate(); got != 40 {
		t.Errorf("rate %v, want 40: the slow steps are long past", got)
	}
	m.add(wire.Step{Index: 0, Tokens: 1, MS: 100})
	if got := m.rate(); got != 10 {
		t.Errorf("rate %v, want 10: a new answer has begun", got)
	}
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 27_287_920: "27.3 MB", 999_600: "1.00 MB", 5_000_000_000: "5.00 GB", 2_000_000_000_000: "2.00 TB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		p    wire.Progress
		want string
	}{
		{wire.Progress{Phase: wire.Download, Done: 13_000_000, Total: 27_287_920}, "Downloading the model: 13.0 MB of 27.3 MB"},
		{wire.Progress{Phase: wire.Download, Done: 13_000_000}, "Downloading the model: 13.0 MB"},
		{wire.Progress{Phase: wire.Tokenizer}, "Reading the vocabulary…"},
		{wire.Progress{Phase: wire.Prefill, Done: 64, Total: 1000}, "Reading the conversation: 64 of 1000"},
	} {
		if got := progressText(c.p); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p, got, c.want)
		}
	}
	if v, ok := percent(wire.Progress{Done: 999, Total: 1000}); v != 99 || !ok {
		t.Errorf("percent = %d %v, want 99: the bar is full only when all is done", v, ok)
	}
	if _, ok := percent(wire.Progress{Done: 1}); ok {
		t.Error("a percentage of an unknown total")
	}
}

func TestParagraphsDoNotDependOnHowTheTextIsCut(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"one":                      "|one",
		"one\ntwo":                 "|one\ntwo",
		"one\n\ntwo":               "|one|two",
		"\n\none\n\n\n\ntwo\n\n\n": "|one|\n\ntwo",
		"a\nb\n\n c\n":             "|a\nb| c",
		"ä\n\n🦊\n\n":               "|ä|🦊",
	} {
		for size := 1; size <= len(text)+1; size++ {
			var p paragraphs
			got := ""
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				for _, piece := range p.feed(rest[:n]) {
					if piece.opens {
						got += "|"
					}
					got += piece.text
				}
				rest = rest[n:]
			}
			if got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, got, want)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	d := wire.Done{Reason: wire.Cancelled, Usage: wire.Usage{Completion: 42}, Timings: wire.Timings{FirstTokenMS: 412, TokensPerSecond: 35.2}, Seed: 7}
	if got, want := summary(d), "42 tokens · 35.2 tokens/s · first word after 0.41 s · seed 7 · stopped by you"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := summary(wire.Done{Reason: wire.Stopped}), "0 tokens · seed 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAdapterLine(t *testing.T) {
	for want, a := range map[string]wire.Adapter{
		textUnnamedGPU:                        {},
		"nvidia hopper":                       {Vendor: "nvidia", Architecture: "hopper"},
		"NVIDIA H200 · shader-f16, subgroups": {Vendor: "NVIDIA", Device: "NVIDIA", Description: "H200", Features: []string{"shader-f16", "subgroups"}},
	} {
		if got := adapterLine(a); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHintsFitTheBrowser(t *testing.T) {
	const (
		chrome  = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
		edge    = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36 Edg/156.0.0.0"
		android = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Mobile Safari/537.36"
		firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0"
		safari  = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15"
		iphone  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/156.0 Mobile/15E148 Safari/604.1"
	)
	for agent, want := range map[string]string{
		chrome: hintChromeLinux, edge: hintChrome, android: hintAndroid, firefox: hintFirefox, safari: hintSafari,
		iphone: hintSafari, "curl/8": hintOther,
	} {
		if got := gpuHint(agent, true); got != want {
			t.Errorf("%s: %q, want %q", agent, got, want)
		}
	}
	if got := gpuHint(chrome, false); got != hintInsecure {
		t.Errorf("insecure: %q", got)
	}
}

// TestEveryCodeHasAdvice reads the codes from the protocol's source, so that a new one cannot be forgotten here.
func TestEveryCodeHasAdvice(t *testing.T) {
	source, err := os.ReadFile("../wire/wire.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z-]+)"`).FindAllSubmatch(source, -1)
	if len(codes) < 10 {
		t.Fatalf("found %d codes", len(codes))
	}
	for _, c := range codes {
		if advices[wire.Code(c[1])].title == "" {
			t.Errorf("no advice for code %q", c[1])
		}
	}
	if len(advices) != len(codes) {
		t.Errorf("%d advices for %d codes", len(advices), len(codes))
	}
}

// TestTheDocumentFitsTheProgram compares index.html with the ids that the program names, and keeps words out of it.
func TestTheDocumentFitsTheProgram(t *testing.T) {
	html, err := os.ReadFile(filepath.Join(gputest.Root(t), "web", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(string(html), -1) {
		if ids[m[1]] {
			t.Errorf("id %q occurs twice", m[1])
		}
		ids[m[1]] = true
	}
	need := func(id, where string) {
		if !ids[id] {
			t.Errorf("%s names the id %q, which index.html lacks", where, id)
		}
	}
	for id := range labels {
		need(id, "labels")
	}
	for id := range attributes {
		need(id, "attributes")
	}
	for _, m := range regexp.MustCompile(`(?:for|aria-controls|aria-labelledby|aria-describedby)="([^"]+)"`).FindAllStringSubmatch(string(html), -1) {
		for _, id := range strings.Fields(m[1]) {
			need(id, "index.html")
		}
	}
	for _, file := range []string{"view_js.go", "main_js.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:html|button|element\[[^\]]+\])\("([^"]+)"\)`).FindAllStringSubmatch(string(source), -1) {
			need(m[1], file)
		}
	}
	_, app, _ := strings.Cut(string(html), `<div id="app"`)
	_, app, _ = strings.Cut(app, ">")
	words := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(strings.ReplaceAll(app, "Flint</h1>", ""), "")
	if words = strings.TrimSpace(words); words != "" {
		t.Errorf("index.html says %q, want all words in strings.go", words)
	}
	for _, bad := range []string{" style=", " onclick=", "<style", "<script>", "javascript:", "http:", "https:", `src="/`, `href="/`} {
		if strings.Contains(string(html), bad) {
			t.Errorf("index.html contains %s, which the policy forbids or a sub-path breaks", bad)
		}
	}
}

// TestTextStaysText keeps the ways to make HTML from a string out of the page's program.
func TestTextStaysText(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment`)
	frame := regexp.MustCompile(`(?i)requestAnimationFrame`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if m := bad.Find(source); m != nil {
			t.Errorf("%s: %s can turn a model's words into HTML", file, m)
		}
		if m := frame.Find(source); m != nil {
			t.Errorf("%s: %s does not run in a hidden tab", file, m)
		}
	}
}
