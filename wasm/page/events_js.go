package main

import (
	"fmt"
	"strings"
	"time"

	"flint/wasm/panel/graph"
	"flint/wasm/wire"
)

// handle takes one event from the engine.
func (p *page) handle(event wire.Event) {
	switch e := event.(type) {
	case wire.Hello:
		p.hello(e.Adapter)
	case wire.Progress:
		p.progressed(e)
	case wire.Loaded:
		if e.ID == p.loadID {
			p.modelLoaded(e)
		}
	case wire.Token:
		if p.talk.is(e.ID) {
			p.talk.add(e.Text)
			p.answer.append(e.Text)
			p.scrollSoon(p.guard)
		}
	case wire.Step:
		if p.talk.is(e.ID) {
			p.meter.add(e)
			p.figures.SetTextContent(p.liveFigures(e))
			p.panel.step(e)
		}
	case wire.Done:
		if p.talk.is(e.ID) {
			p.answered(e)
		}
	case wire.Error:
		p.failed(e)
	}
}

func (p *page) hello(a wire.Adapter) {
	p.gpu.SetTextContent(adapterLine(a))
	if a.Software {
		details := append([]string{nextSoftware + gpuHint(userAgent(), true)}, a.Notes...)
		p.card(p.on, false, titleSoftware, "", "", strings.Join(details, "\n"))
		return
	}
	for _, note := range a.Notes {
		p.card(p.on, false, note, "", "", "")
	}
}

func (p *page) progressed(e wire.Progress) {
	text := progressText(e)
	switch {
	case e.ID == p.loadID && p.phase == loading:
		value, known := percent(e)
		p.progress(text, value, known)
	case p.talk.is(e.ID):
		p.figures.SetTextContent(text)
	}
}

func (p *page) modelLoaded(e wire.Loaded) {
	p.loaded, p.recommended = e, e.Sampling
	p.modelName.SetTextContent(modelLine(e))
	took := float64(time.Since(p.began).Milliseconds())
	p.modelDetails.SetTextContent(fmt.Sprintf(textLoadedIn, modelLine(e), seconds(took), size(e.GPUBytes)))
	if !p.touched {
		p.temperature.SetValue(fmt.Sprint(e.Sampling.Temperature))
		p.temperatureValue.SetTextContent(p.temperature.Value())
	}
	p.setPhase(ready)
	if visible(p.side) {
		p.panel.open() // not before: its program would compete with the model for the connection and the processor
	}
}

func (p *page) liveFigures(e wire.Step) string {
	text := ""
	if rate := p.meter.rate(); rate > 0 {
		text = fmt.Sprintf(textRate, graph.Figure(rate)) + " · "
	}
	return text + fmt.Sprintf(textContext, e.Position, p.loaded.ContextLength)
}

func (p *page) answered(e wire.Done) {
	text := p.talk.settle()
	p.endAnswer("")
	if text == "" {
		p.asked.article.Class().Add("failed")
		text = textNoAnswer
		p.answer.append(text)
	}
	p.answer.note(summary(e))
	// The whole answer at once: announced token by token, a screen reader would stammer.
	p.announcer.SetTextContent(text)
	p.setPhase(ready)
	p.scroll()
}

// endAnswer ends the display of the running answer; class marks it, if not empty.
func (p *page) endAnswer(class string) {
	p.answer.article.Class().Remove("answering")
	p.answer.article.RemoveAttribute("aria-busy")
	if class != "" {
		p.asked.article.Class().Add(class)
		p.answer.article.Class().Add(class)
	}
}

// abandonAnswer ends a turn that got no usable answer, and gives the user the message back.
func (p *page) abandonAnswer(why string) {
	if p.talk.current == 0 {
		return
	}
	p.fill(p.talk.abandon())
	p.endAnswer("failed")
	p.answer.note(fmt.Sprintf(textFailed, why))
}

func (p *page) failed(e wire.Error) {
	a := advices[e.Code]
	if e.Code == wire.NoWebGPU || e.Code == wire.NoAdapter {
		a.next = gpuHint(userAgent(), secure())
	}
	actions := []action{{actionRestart, p.restart}}
	switch {
	case e.ID == p.loadID && p.phase == loading:
		p.setPhase(broken)
		actions[0].label = actionRetry
	case p.talk.is(e.ID):
		p.abandonAnswer(a.title)
		if e.Code == wire.DeviceLost {
			p.setPhase(broken)
		} else {
			p.setPhase(ready)
			text, asked, answer := p.talk.asked, p.asked, p.answer
			actions = append([]action{{actionRetry, func() { p.again(text, asked, answer) }}}, actions...)
		}
	case e.ID != 0:
		return // about a request that the user has left
	}
	if e.Code == wire.ContextOverflow {
		actions = []action{{labels["new-chat"], p.startOver}}
	}
	p.problem(a.title, e.Message, a.next, "", actions...)
}

// engineDied offers a new engine. The conversation is safe here.
func (p *page) engineDied(title, message, stack string) {
	p.abandonAnswer(title)
	p.setPhase(broken)
	p.problem(title, message, nextEngineDied, stack, action{actionRestart, p.restart}, action{actionReload, reload})
}
