package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"syscall/js"
	"time"

	"flint/wasm/wire"
	"honnef.co/go/js/dom/v2"
)

func main() {
	p := &page{view: newView()}
	defer p.guard()
	p.listen()
	show(element[dom.HTMLElement]("app"), true)
	show(element[dom.HTMLElement]("boot"), false)
	p.toggleSide(wide())
	p.prompt.Focus() // a message can be written while the model loads
	p.start()
	select {} // the handlers do the rest
}

// phase is what the engine is doing, as far as the page knows.
type phase int

const (
	broken phase = iota
	loading
	ready
	answering
	stopping
)

type page struct {
	*view
	engine   *engine
	panel    panel
	phase    phase
	mistaken bool // the page's own program has failed

	lastID      wire.ID
	loadID      wire.ID
	began       time.Time // of the load
	loaded      wire.Loaded
	recommended wire.Sampling
	touched     bool // the user set the temperature: a model's recommendation no longer does

	talk   conversation
	meter  meter
	asked  *turn
	answer *turn
}

// guard, deferred in every handler, shows a panic instead of letting it end the program behind the user's back.
func (p *page) guard() {
	if r := recover(); r != nil && !p.mistaken {
		p.mistaken = true // the next event would likely fail in the same way
		if p.engine != nil {
			p.engine.stop()
		}
		p.setPhase(broken)
		p.problem(titlePageFailed, fmt.Sprint(r), nextPageFailed, string(debug.Stack()), action{actionReload, reload})
	}
}

// wide reports whether the settings have a column of their own, as in the style sheet; else they lie over the chat.
func wide() bool {
	return js.Global().Call("matchMedia", "(min-width: 60rem)").Get("matches").Bool()
}

func reload() { js.Global().Get("location").Call("reload") }

// on adds a guarded handler. Handlers live as long as their elements.
func (p *page) on(target dom.EventTarget, kind string, f func(dom.Event)) {
	target.AddEventListener(kind, false, func(ev dom.Event) {
		defer p.guard()
		f(ev)
	})
}

func (p *page) problem(title, message, next, details string, actions ...action) {
	p.card(p.on, true, title, message, next, details, actions...)
}

func (p *page) listen() {
	p.on(element[dom.HTMLElement]("composer"), "submit", func(ev dom.Event) {
		ev.PreventDefault()
		p.submit()
	})
	p.on(p.prompt, "keydown", func(ev dom.Event) {
		key := ev.(*dom.KeyboardEvent)
		// Enter that ends the composition of a character belongs to the input method.
		if key.Key() == "Enter" && !key.ShiftKey() && !ev.Underlying().Get("isComposing").Bool() {
			ev.PreventDefault()
			p.submit()
		}
	})
	p.on(p.prompt, "input", func(dom.Event) { p.fitPrompt(); p.enable() })
	p.on(window, "keydown", func(ev dom.Event) {
		key, ok := ev.(*dom.KeyboardEvent)
		switch {
		case !ok || key.Key() != "Escape" || ev.Underlying().Get("isComposing").Bool():
		case p.phase == answering:
			ev.PreventDefault()
			p.stopAnswer()
		case visible(p.side) && !wide():
			ev.PreventDefault()
			p.toggleSide(false)
			p.more.Focus()
		}
	})
	p.on(p.stop, "click", func(dom.Event) { p.stopAnswer(); p.prompt.Focus() })
	p.on(p.newChat, "click", func(dom.Event) { p.startOver() })
	p.on(p.more, "click", func(dom.Event) { p.toggleSide(!visible(p.side)) })
	p.on(p.latest, "click", func(dom.Event) {
		p.follow = true
		p.scroll()
		p.scrolled()
		p.prompt.Focus()
	})
	p.on(p.transcript, "scroll", func(dom.Event) { p.scrolled() })
	p.on(window, "resize", func(dom.Event) { p.scroll() })
	p.on(p.temperature, "input", func(dom.Event) {
		p.touched = true
		p.temperatureValue.SetTextContent(p.temperature.Value())
	})
	p.on(p.seed, "input", func(dom.Event) { p.seedMistake("") })
	for _, text := range suggestions {
		b := build("button", "", text)
		b.SetAttribute("type", "button")
		p.on(b, "click", func(dom.Event) {
			p.prompt.SetValue(text)
			p.submit()
		})
		p.suggestions.AppendChild(build("li", "", b))
	}
	p.temperatureValue.SetTextContent(p.temperature.Value())
	p.panel.frame = element[dom.HTMLElement]("panel")
	p.on(p.panel.frame, "load", func(dom.Event) { p.panel.ready() })
}

// start starts the engine and loads the demo; used again after the engine died.
func (p *page) start() {
	p.alerts.SetTextContent("") // a new engine says anew what is to be said about the device
	if !secure() || !hasWebGPU() {
		p.setPhase(broken)
		p.problem(titleNoWebGPU, "", gpuHint(userAgent(), secure()), userAgent(), action{actionReload, reload})
		return
	}
	p.setPhase(loading)
	p.progress(statusStarting, 0, false)
	p.engine = startEngine(p.handle, p.engineDied, p.guard)
	p.began = time.Now()
	p.lastID++
	p.loadID = p.lastID
	p.engine.send(wire.Load{ID: p.loadID, URL: "demo/target/", Name: demoName})
}

func (p *page) restart() {
	p.engine.stop()
	p.start()
}

// setPhase shows what the engine is doing, and which buttons do something.
func (p *page) setPhase(to phase) {
	p.phase = to
	p.status.SetTextContent(map[phase]string{
		broken: statusBroken, loading: statusLoading, ready: statusReady, answering: statusAnswering, stopping: statusStopping,
	}[to])
	if to != loading {
		show(p.load, false)
	}
	show(p.suggestions, to == ready && len(p.talk.turns) == 0)
	show(p.send, to != answering && to != stopping)
	show(p.stop, to == answering || to == stopping)
	p.enable()
}

// enable greys out buttons that would do nothing. They keep their focus and their place in the tab order.
func (p *page) enable() {
	can := p.phase == ready && strings.TrimSpace(p.prompt.Value()) != ""
	p.send.SetAttribute("aria-disabled", fmt.Sprint(!can))
	p.stop.SetAttribute("aria-disabled", fmt.Sprint(p.phase == stopping))
}

func (p *page) seedMistake(text string) {
	p.seedError.SetTextContent(text)
	p.seed.SetAttribute("aria-invalid", fmt.Sprint(text != ""))
}

// submit asks for an answer to what the message field holds.
func (p *page) submit() {
	text := strings.TrimSpace(p.prompt.Value())
	if p.ask(text) {
		p.prompt.SetValue("")
		p.fitPrompt()
		p.enable()
	}
}

// again asks once more what got no answer, in the place of the failed turn.
func (p *page) again(text string, failed ...*turn) {
	if !p.ask(text) {
		return
	}
	for _, t := range failed {
		t.article.Remove()
	}
	if p.prompt.Value() == text { // it was put there to be sent again
		p.prompt.SetValue("")
		p.fitPrompt()
	}
}

// ask sends text, and reports whether it could be sent now.
func (p *page) ask(text string) bool {
	if p.phase != ready || text == "" {
		return false
	}
	sampling, mistake := sampling(p.recommended, p.temperature.Value(), p.seed.Value())
	if mistake != "" {
		p.toggleSide(true)
		p.seedMistake(mistake)
		p.seed.Focus()
		return false
	}
	p.clearAlerts()
	show(p.welcome, false)
	p.follow = true
	p.asked = p.addTurn("user", textYou, text)
	p.answer = p.addTurn("answering", textModel, "")
	p.answer.article.SetAttribute("aria-busy", "true")
	p.figures.SetTextContent("")
	p.lastID++
	p.engine.send(p.talk.ask(p.lastID, text, sampling))
	p.setPhase(answering)
	p.prompt.Focus()
	return true
}

func (p *page) stopAnswer() {
	if p.phase != answering {
		return
	}
	id := p.talk.current
	p.engine.send(wire.Cancel{ID: id})
	p.setPhase(stopping)
	window.SetTimeout(func() {
		defer p.guard()
		if p.phase == stopping && p.talk.is(id) {
			p.problem(titleNotStopping, "", nextNotStopping, "", action{actionRestart, func() {
				p.abandonAnswer(titleNotStopping)
				p.restart()
			}})
		}
	}, int(stopPatience.Milliseconds()))
}

// stopPatience is how long an engine may take to stop before the page offers a new one. A step takes well under a
// second; on a processor in place of a GPU a long prompt's chunk can take several.
const stopPatience = 15 * time.Second

// startOver begins a new conversation. The engine may still be ending the old answer; a request sent meanwhile waits
// there for its turn.
func (p *page) startOver() {
	p.talk.clear()
	p.clearTurns()
	p.clearAlerts()
	p.figures.SetTextContent("")
	p.panel.reset()
	show(p.welcome, true)
	if p.phase >= ready {
		p.engine.send(wire.Reset{})
		p.setPhase(ready)
	}
	p.prompt.Focus()
}

func (p *page) toggleSide(open bool) {
	show(p.side, open)
	p.more.SetAttribute("aria-expanded", fmt.Sprint(open))
	if open && p.phase >= ready {
		p.panel.open()
	}
	p.scroll()
}
