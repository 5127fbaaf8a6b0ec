//go:build !js

// Package page_test opens the page in a browser and uses it as a visitor does.
package page_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-rod/rod/lib/input"
	"github.com/go-rod/rod/lib/proto"
)

// TestChatWithTheDemo is the whole product: the built programs, the demo model, WebGPU, from a plain static server
// below a sub-path, which goes away once the model is loaded.
func TestChatWithTheDemo(t *testing.T) {
	s := newSite(t)
	p := s.open(t, options{})
	p.until(`!document.getElementById("load").hidden`)
	p.is(`crossOriginIsolated`, "false")
	p.status(ready)
	p.until(`document.getElementById("panel").src !== "" && document.getElementById("panel").contentDocument.querySelector("canvas") !== null`)
	p.until(`document.getElementById("panel").contentDocument.getElementById("note").textContent === "No steps yet"`)
	s.Close() // from here on offline

	p.run(`const t = document.getElementById("temperature"); t.value = "0.8"; t.dispatchEvent(new Event("input"))`)
	p.run(`document.getElementById("seed").value = "7"`)
	p.say("Hello! How are you today?")
	p.status(answering)
	p.status(ready)
	first := p.eval(lastAnswer)
	if len(first) < 5 || !strings.Contains(p.eval(lastNote), "seed 7") {
		t.Errorf("answer %q, note %q", first, p.eval(lastNote))
	}
	p.until(`document.getElementById("panel").contentDocument.getElementById("now").textContent.endsWith(" tokens/s")`)

	p.say("Tell me a story about a fox.")
	p.status(answering)
	p.until(lastAnswer + `.length > 20`)
	p.press(input.Escape)
	start := time.Now()
	p.status(ready)
	t.Logf("stopped within %v", time.Since(start).Round(time.Millisecond))
	if note := p.eval(lastNote); !strings.Contains(note, "stopped by you") {
		t.Errorf("after Escape the answer's note is %q", note)
	}

	p.click("#new-chat")
	p.is(`document.querySelectorAll(".turn").length`, "0")
	p.say("Hello! How are you today?")
	p.status(answering)
	p.status(ready)
	if again := p.eval(lastAnswer); again != first {
		t.Errorf("the same message with the same seed gives %q, then %q", first, again)
	}
	p.quiet()
}

// standIn opens the page on the stand-in worker and waits for it.
func standIn(t *testing.T, o options) (*site, *tab) {
	t.Helper()
	s := newSite(t)
	s.standIn = true
	p := s.open(t, o)
	p.status(ready)
	return s, p
}

func TestKeyboard(t *testing.T) {
	_, p := standIn(t, options{})
	p.is(`document.activeElement.id`, "prompt")
	check(t, p.InsertText("short"))
	check(t, p.KeyActions().Press(input.ShiftLeft).Type(input.Enter).Do())
	check(t, p.InsertText("b"))
	p.is(`document.getElementById("prompt").value`, "short\nb")
	p.is(`document.querySelectorAll(".turn").length`, "0")
	// Enter that ends a composition belongs to the input method.
	p.run(`document.getElementById("prompt").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))`)
	p.is(`document.querySelectorAll(".turn").length`, "0")
	p.press(input.Enter)
	p.until(`document.querySelectorAll(".turn").length === 2`)
	p.is(`document.querySelector(".turn.user .text").innerText`, "short\nb")
	p.status(ready)
	p.is(`document.activeElement.id`, "prompt")

	p.say("long")
	p.status(answering)
	p.run(`document.getElementById("transcript").focus()`)
	p.press(input.Escape)
	p.status(ready)
	p.is(`document.activeElement.id`, "transcript")

	// Every control is reached by Tab, in the order in which it is seen.
	p.run(`document.activeElement.blur(); document.getElementById("new-chat").focus()`)
	var order []string
	for range 6 {
		p.press(input.Tab)
		order = append(order, p.eval(`document.activeElement.id`))
	}
	if got, want := strings.Join(order[:3], " "), "side-toggle temperature seed"; got != want {
		t.Errorf("Tab leads through %v, want it to begin with %s", order, want)
	}
	p.quiet()
}

func TestSelectionSurvivesStreaming(t *testing.T) {
	_, p := standIn(t, options{})
	p.say("long")
	p.until(`document.querySelectorAll(".turn:not(.user) p").length > 0 && document.querySelector(".turn:not(.user) p").childNodes.length > 3`)
	p.run(`const text = document.querySelector(".turn:not(.user) p"); getSelection().selectAllChildren(text); window.selected = getSelection().toString()`)
	length := p.eval(lastAnswer + `.length`)
	p.until(lastAnswer + `.length > 2 * ` + length)
	p.is(`getSelection().toString().startsWith(window.selected) && window.selected.length > 10`, "true")
	p.press(input.Escape)
	p.status(ready)
}

func TestTheTranscriptFollowsUntilTheUserScrollsUp(t *testing.T) {
	_, p := standIn(t, options{height: 500, width: 700})
	p.say("long")
	p.until(`document.getElementById("transcript").scrollHeight > 1500`)
	p.until(fromEnd + ` < 60`)
	check(t, p.Mouse.MoveTo(proto.Point{X: 300, Y: 200}))
	check(t, p.Mouse.Scroll(0, -300, 3))
	p.until(`!document.getElementById("latest").hidden`)
	p.until(fromEnd + ` > 200`)
	time.Sleep(time.Second) // the browser scrolls smoothly
	top := p.eval(`document.getElementById("transcript").scrollTop`)
	height := p.eval(`document.getElementById("transcript").scrollHeight`)
	p.until(`document.getElementById("transcript").scrollHeight > 200 + ` + height)
	p.is(`document.getElementById("transcript").scrollTop`, top)
	p.click("#latest")
	p.until(fromEnd + ` < 60 && document.getElementById("latest").hidden`)
	p.press(input.Escape)
	p.status(ready)
	p.until(fromEnd + ` < 60`)
}

func TestTextArrivesInAHiddenTab(t *testing.T) {
	_, p := standIn(t, options{before: `
		const hide = {get: () => true};
		Object.defineProperty(Document.prototype, "hidden", hide);
		window.requestAnimationFrame = () => 0;`})
	p.say("short")
	p.status(ready)
	if n, err := strconv.Atoi(p.eval(lastAnswer + `.length`)); err != nil || n < 100 {
		t.Errorf("%d characters arrived without animation frames", n)
	}
}

func TestTextIsNeverMarkup(t *testing.T) {
	_, p := standIn(t, options{before: `window.hacked = () => { window.wasHacked = true }`})
	p.say(`<img src=x onerror=hacked()><b>bold</b>`)
	p.status(ready)
	p.say(`error bad-model`)
	if text := p.alert(); !strings.Contains(text, "<b>what happened</b>") {
		t.Errorf("the alert says %q", text)
	}
	p.is(`document.querySelectorAll("#turns img, #turns b, #alerts b").length`, "0")
	p.is(`document.querySelector(".turn.user .text").innerText`, `<img src=x onerror=hacked()><b>bold</b>`)
	p.is(`document.querySelector(".turn:not(.user) .text").innerText.includes("<img src=x onerror=hacked()>")`, "true")
	p.is(`window.wasHacked === undefined`, "true")
	p.quiet()
}

func TestConversationsAndSettings(t *testing.T) {
	_, p := standIn(t, options{})
	turns := func(want string) {
		t.Helper()
		p.until(`document.querySelectorAll(".turn.answering").length === 0`)
		if got := p.eval(lastAnswer); !strings.HasPrefix(got, "turns "+want+" ") {
			t.Errorf("the engine was told %.10q, want %s messages", got, want)
		}
	}
	p.say("a")
	p.status(ready)
	turns("1")
	p.say("b")
	p.status(ready)
	turns("3")
	if text := p.eval(`document.getElementById("announcer").textContent`); !strings.HasPrefix(text, "turns 3") {
		t.Errorf("announced: %q", text)
	}

	// A new chat in the middle of an answer: nothing of the old one may come after.
	p.say("long")
	p.until(lastAnswer + `.length > 50`)
	p.click("#new-chat")
	p.is(`document.activeElement.id`, "prompt")
	p.say("c")
	p.until(`document.querySelectorAll(".turn .meta").length === 1`)
	turns("1")

	p.run(`document.getElementById("seed").value = "many"`)
	p.say("d")
	p.is(`document.activeElement.id`, "seed")
	p.is(`document.getElementById("seed").getAttribute("aria-invalid")`, "true")
	p.is(`document.getElementById("prompt").value`, "d")
	p.run(`document.getElementById("seed").select()`)
	check(t, p.InsertText("9007199254740991"))
	p.click("#send")
	p.status(ready)
	p.until(lastNote + `.includes("seed 9007199254740991")`)
}

func TestEveryFailureSaysWhatToDoNext(t *testing.T) {
	_, p := standIn(t, options{})
	for _, code := range []string{"out-of-memory", "device-lost", "context-overflow", "network", "internal"} {
		p.say("error " + code)
		text := p.alert()
		if len(strings.Split(strings.TrimSpace(text), "\n")) < 3 {
			t.Errorf("%s: the alert only says %q", code, text)
		}
		p.is(`document.getElementById("prompt").value`, "error "+code) // nothing the user wrote is lost
		p.is(`document.querySelector(".card[role=alert] .actions button") !== null`, "true")
		if code == "device-lost" {
			p.status(broken)
			p.run(`[...document.querySelectorAll(".card[role=alert] .actions button")][0].click()`)
		} else {
			p.click(".card[role=alert] .title button")
		}
		p.status(ready)
		p.is(`document.querySelectorAll(".card[role=alert]").length`, "0")
		p.run(`document.getElementById("prompt").value = ""`)
	}
}

func TestADeadEngineIsReplacedAndTheConversationKept(t *testing.T) {
	_, p := standIn(t, options{})
	p.say("a")
	p.status(ready)
	for _, c := range []struct{ message, want string }{
		{"fatal", "index out of range"},
		{"throw", "thrown in the worker"},
		{"babble", "cannot read"},
	} {
		p.say(c.message)
		if text := p.alert(); !strings.Contains(text, c.want) {
			t.Errorf("%s: the alert says %q, want %q", c.message, text, c.want)
		}
		p.status(broken)
		p.run(`[...document.querySelectorAll(".card[role=alert] .actions button")][0].click()`)
		p.status(ready)
		p.is(`document.getElementById("prompt").value`, c.message)
		p.run(`document.getElementById("prompt").value = ""`)
	}
	p.say("b")
	p.status(ready)
	if got := p.eval(lastAnswer); !strings.HasPrefix(got, "turns 3 ") {
		t.Errorf("the new engine was told %.10q, want the 3 messages of the kept conversation", got)
	}
}

func TestTheProgramsMistakeIsShown(t *testing.T) {
	_, p := standIn(t, options{})
	p.until(`document.getElementById("panel").contentWindow !== null && document.getElementById("panel").src !== ""`)
	p.until(`document.getElementById("panel").contentDocument.readyState === "complete"`)
	p.run(`document.getElementById("panel").remove()`) // the next step has nowhere to go
	p.say("short")
	if text := p.alert(); !strings.Contains(text, "The page made a mistake") || !strings.Contains(text, "Reload") {
		t.Errorf("the alert says %q", text)
	}
	p.is(`document.querySelectorAll(".card[role=alert]").length`, "1")
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	const body = `document.body.innerText`
	for _, c := range []struct{ missing, want string }{
		{"page.wasm", "page.wasm: the server answered 404"},
		{"engine.wasm", "engine.wasm: the server answered 404"},
		{"worker.js", "worker.js could not be loaded"},
		{"demo/target/config.json", "config.json"},
	} {
		t.Run(c.missing, func(t *testing.T) {
			s := newSite(t)
			s.missing[c.missing] = true
			p := s.open(t, options{})
			p.until(body + fmt.Sprintf(`.includes(%q)`, c.want))
		})
	}
	t.Run("WebGPU", func(t *testing.T) {
		p := newSite(t).open(t, options{before: `Object.defineProperty(Navigator.prototype, "gpu", {get: () => undefined})`})
		if text := p.alert(); !strings.Contains(text, "chrome://flags/#enable-unsafe-webgpu") {
			t.Errorf("the alert says %q", text)
		}
		p.status(broken)
	})
	t.Run("the type of wasm files", func(t *testing.T) {
		s := newSite(t)
		s.standIn, s.types[".wasm"] = true, "application/octet-stream"
		p := s.open(t, options{})
		p.status(ready)
	})
}

func TestTheSmallestScreen(t *testing.T) {
	for _, dark := range []bool{false, true} {
		_, p := standIn(t, options{width: 320, height: 568, dark: dark})
		p.say("a message with_a_word_that_is_much_longer_than_the_screen_is_wide_and_has_no_place_to_break_it")
		p.status(ready)
		p.is(`document.documentElement.scrollWidth`, "320")
		p.is(`document.getElementById("transcript").scrollWidth <= document.getElementById("transcript").clientWidth`, "true")
		p.is(`document.getElementById("send").getBoundingClientRect().right <= 320`, "true")
		p.click("#side-toggle")
		p.is(`document.getElementById("side-toggle").getAttribute("aria-expanded")`, "true")
		p.is(`document.getElementById("side").getBoundingClientRect().width`, "320")
		p.press(input.Escape)
		p.is(`document.getElementById("side").hidden + " " + document.activeElement.id`, "true side-toggle")
		p.quiet()
	}
}

// TestThePanelDrawsItsSteps counts pixels: bars in the right colour, whole pixels wide, in light and dark, at pixel
// ratios 1 and 2; and nothing is drawn while nothing happens.
func TestThePanelDrawsItsSteps(t *testing.T) {
	const count = `
		window.draws = 0;
		const draw = WebGL2RenderingContext.prototype.drawElements;
		WebGL2RenderingContext.prototype.drawElements = function(...a) { window.draws++; return draw.apply(this, a) };`
	for _, c := range []struct {
		scale float64
		dark  bool
		bar   [3]uint8
	}{{1, false, [3]uint8{0xea, 0x58, 0x0c}}, {2, true, [3]uint8{0xfb, 0x92, 0x3c}}} {
		_, p := standIn(t, options{scale: c.scale, dark: c.dark, before: count})
		panel := `document.getElementById("panel").contentDocument`
		p.until(panel + `?.getElementById("note")?.textContent === "No steps yet"`)
		p.say("short")
		p.status(ready)
		p.until(panel + `.getElementById("now").textContent === "50.0 tokens/s"`)
		p.is(panel+`.getElementById("mean").textContent`, "mean 50.0")
		p.is(`[...`+panel+`.querySelectorAll("#ticks span")].map(e => e.textContent).join(" ")`, "50 25 0")
		time.Sleep(500 * time.Millisecond) // the last frame

		clip := proto.PageViewport{Scale: 1}
		rect := p.eval(`(r => [r.x, r.y, r.width, r.height].join(" "))(document.getElementById("panel").getBoundingClientRect())`)
		if _, err := fmt.Sscan(rect, &clip.X, &clip.Y, &clip.Width, &clip.Height); err != nil {
			t.Fatalf("%q: %v", rect, err)
		}
		picture, err := p.Screenshot(false, &proto.PageCaptureScreenshot{Format: proto.PageCaptureScreenshotFormatPng, Clip: &clip})
		check(t, err)
		img, err := png.Decode(bytes.NewReader(picture))
		check(t, err)
		if got, blurred := pixels(img, c.bar); got < int(30*100*c.scale*c.scale) || blurred > got/20 {
			t.Errorf("scale %v: %d pixels of the bars' colour and %d nearly so, want 30 bars over the whole height, and sharp", c.scale, got, blurred)
		}

		before := p.eval(`document.getElementById("panel").contentWindow.draws`)
		check(t, p.Mouse.MoveTo(proto.Point{X: 1000, Y: 450}))
		check(t, p.Mouse.MoveTo(proto.Point{X: 1050, Y: 480}))
		time.Sleep(time.Second)
		p.is(`document.getElementById("panel").contentWindow.draws`, before)
		p.quiet()
	}
}

// pixels counts those of exactly this colour, and those close to it.
func pixels(img image.Image, want [3]uint8) (exact, close int) {
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			far := 0
			for i, v := range []uint32{r >> 8, g >> 8, b >> 8} {
				far = max(far, int(v)-int(want[i]), int(want[i])-int(v))
			}
			switch {
			case far <= 1:
				exact++
			case far < 60:
				close++
			}
		}
	}
	return exact, close
}
