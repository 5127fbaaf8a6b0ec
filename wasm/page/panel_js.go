package main

import (
	"syscall/js"

	"flint/wasm/wire"
	"honnef.co/go/js/dom/v2"
)

// kept is how many steps the page keeps for a panel that opens later: as many as it shows.
const kept = 120

// panel is the frame with the graph. Its program is large, so it starts only when it is first seen.
type panel struct {
	frame     dom.HTMLElement
	requested bool
	listening bool
	steps     []string
}

func (p *panel) open() {
	if !p.requested {
		p.requested = true
		p.frame.SetAttribute("src", "panel.html")
	}
}

// ready is called when the frame has loaded; its script now keeps messages until its program reads them.
func (p *panel) ready() {
	if !p.requested {
		return // the empty document that every frame begins with
	}
	p.listening = true
	for _, text := range p.steps {
		p.post(text)
	}
}

func (p *panel) step(s wire.Step) {
	text, err := wire.Encode(s)
	if err != nil {
		panic(err)
	}
	if len(p.steps) == kept {
		p.steps = append(p.steps[:0], p.steps[1:]...)
	}
	p.steps = append(p.steps, text)
	p.post(text)
}

func (p *panel) reset() {
	p.steps = nil
	text, err := wire.Encode(wire.Reset{})
	if err != nil {
		panic(err)
	}
	p.post(text)
}

func (p *panel) post(text string) {
	if p.listening {
		p.frame.Underlying().Get("contentWindow").Call("postMessage", text, js.Global().Get("location").Get("origin"))
	}
}
