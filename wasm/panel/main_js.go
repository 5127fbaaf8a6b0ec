// Command panel draws the engine's speed, step by step, in a frame of its own: Ebitengine takes the whole document.
// Figures and labels are ordinary text above the canvas, so that they are sharp, can be selected and are read aloud.
// It draws only when a step has come, at most ten times a second, and not at all while hidden.
package main

import (
	"fmt"
	"runtime/debug"
	"sync"
	"syscall/js"
	"time"

	"flint/wasm/panel/graph"
	"flint/wasm/wire"
	"github.com/hajimehoshi/ebiten/v2"
)

func main() {
	p := &panel{white: ebiten.NewImage(1, 1)}
	p.white.Fill(white)
	defer p.guard()
	p.prepare()
	ebiten.SetVsyncEnabled(false)
	//lint:ignore SA1019 what replaces it runs the game at 60 Hz for ever; this one sleeps between frames
	ebiten.SetFPSMode(ebiten.FPSModeVsyncOffMinimum)
	p.changed()
	err := ebiten.RunGameWithOptions(p, &ebiten.RunGameOptions{InitUnfocused: true, ScreenTransparent: true})
	if err == nil {
		err = fmt.Errorf("the drawing loop ended")
	}
	p.note(textNoGraph + err.Error())
	select {} // the figures go on without the picture
}

const (
	textNow     = "%s tokens/s"
	textMean    = "mean %s"
	textWaiting = "No steps yet"
	textNoGraph = "No graph: "
)

// panel is the game: Ebitengine calls its methods in its own goroutine, JavaScript the handlers.
type panel struct {
	mutex  sync.Mutex
	series graph.Series
	pace   graph.Pace
	colors palette
	scale  float64
	white  *ebiten.Image
}

// guard, deferred in every goroutine and handler, shows a panic where the graph was.
func (p *panel) guard() {
	if r := recover(); r != nil {
		p.note(fmt.Sprint(textNoGraph, r))
		js.Global().Get("console").Call("error", fmt.Sprint(r), string(debug.Stack()))
	}
}

func (p *panel) note(text string) { element("note").Set("textContent", text) }

func element(id string) js.Value { return js.Global().Get("document").Call("getElementById", id) }

// prepare listens to the page and the browser, and mends what Ebitengine does to the document.
func (p *panel) prepare() {
	window, document := js.Global(), js.Global().Get("document")
	canvas := document.Call("querySelector", "canvas")
	canvas.Call("setAttribute", "tabindex", "-1") // focused, it would swallow the Tab key
	canvas.Call("setAttribute", "aria-hidden", "true")

	p.on(window, "message", func(ev js.Value) {
		if ev.Get("source").Equal(window.Get("parent")) && ev.Get("origin").Equal(window.Get("location").Get("origin")) {
			p.receive(ev.Get("data"))
		}
	})
	p.on(document, "visibilitychange", func(js.Value) {
		p.mutex.Lock()
		missed := p.pace.SetHidden(document.Get("hidden").Bool())
		p.mutex.Unlock()
		if missed {
			p.changed()
		}
	})
	dark := window.Call("matchMedia", "(prefers-color-scheme: dark)")
	p.colors = colors(dark.Get("matches").Bool())
	p.on(dark, "change", func(js.Value) {
		p.mutex.Lock()
		p.colors = colors(dark.Get("matches").Bool())
		p.mutex.Unlock()
		p.changed()
	})
	// Ebitengine reads the pixel ratio once. After a move to another screen or a zoom the frame starts again, and the
	// page sends it the last steps again.
	ratio := window.Call("matchMedia", fmt.Sprintf("(resolution: %gdppx)", window.Get("devicePixelRatio").Float()))
	p.on(ratio, "change", func(js.Value) { window.Get("location").Call("reload") })
	p.on(window, "resize", func(js.Value) { p.changed() })
}

func (p *panel) on(target js.Value, kind string, f func(event js.Value)) {
	target.Call("addEventListener", kind, js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer p.guard()
		f(args[0])
		return nil
	}))
}

// receive takes a step or a reset from the page.
func (p *panel) receive(data js.Value) {
	if data.Type() != js.TypeString {
		return
	}
	message, err := wire.Decode(data.String())
	if err != nil {
		p.note(err.Error())
		return
	}
	p.mutex.Lock()
	switch m := message.(type) {
	case wire.Step:
		p.series.Add(m.Tokens, m.MS)
	case wire.Reset:
		p.series.Reset()
	}
	p.mutex.Unlock()
	p.changed()
}

// changed has a frame drawn soon.
func (p *panel) changed() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	after, draw := p.pace.Changed(time.Now())
	if !draw {
		return
	}
	time.AfterFunc(after, func() {
		defer p.guard()
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if p.pace.Due(time.Now()) {
			p.write()
			//lint:ignore SA1019 goes with FPSModeVsyncOffMinimum
			ebiten.ScheduleFrame()
		}
	})
}

// write updates the text above the picture.
func (p *panel) write() {
	rates := p.series.Rates()
	now, mean, note := "", "", textWaiting
	if len(rates) > 0 {
		now = fmt.Sprintf(textNow, graph.Figure(rates[len(rates)-1]))
		mean = fmt.Sprintf(textMean, graph.Figure(p.series.Mean()))
		note = ""
	}
	element("now").Set("textContent", now)
	element("mean").Set("textContent", mean)
	p.note(note)

	document := js.Global().Get("document")
	scale := js.Global().Get("devicePixelRatio").Float()
	body := document.Get("body")
	width, height := body.Get("clientWidth").Float()*scale, body.Get("clientHeight").Float()*scale
	ticks := element("ticks")
	ticks.Set("textContent", "")
	if len(rates) == 0 {
		return // an axis without values would be invented
	}
	for _, tick := range graph.Layout(rates, p.series.Mean(), int(width), int(height), scale).Ticks {
		span := document.Call("createElement", "span")
		span.Set("textContent", tick.Label)
		span.Get("style").Set("top", fmt.Sprintf("%.1fpx", tick.Y))
		ticks.Call("appendChild", span)
	}
}

// Update implements ebiten.Game; nothing moves by itself.
func (p *panel) Update() error { return nil }

// LayoutF implements ebiten.LayoutFer: one pixel of the picture is one pixel of the screen.
func (p *panel) LayoutF(width, height float64) (float64, float64) {
	scale := ebiten.Monitor().DeviceScaleFactor()
	p.mutex.Lock()
	p.scale = scale
	p.mutex.Unlock()
	return max(1, width*scale), max(1, height*scale)
}

// Layout implements ebiten.Game, which calls LayoutF instead.
func (p *panel) Layout(width, height int) (int, int) { return width, height }

// Draw implements ebiten.Game.
func (p *panel) Draw(screen *ebiten.Image) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rates := p.series.Rates()
	if len(rates) == 0 {
		return
	}
	size := screen.Bounds().Size()
	picture := graph.Layout(rates, p.series.Mean(), size.X, size.Y, p.scale)
	for _, r := range picture.Grid {
		p.fill(screen, r, p.colors.grid)
	}
	for _, r := range picture.Bars {
		p.fill(screen, r, p.colors.bar)
	}
	p.fill(screen, picture.Mean, p.colors.mean)
}

// fill draws from a single white pixel: all rectangles share one source, so that Ebitengine merges them into one call.
func (p *panel) fill(screen *ebiten.Image, r graph.Rect, c ebiten.ColorScale) {
	var o ebiten.DrawImageOptions
	o.GeoM.Scale(float64(r.W), float64(r.H))
	o.GeoM.Translate(float64(r.X), float64(r.Y))
	o.ColorScale = c
	screen.DrawImage(p.white, &o)
}
