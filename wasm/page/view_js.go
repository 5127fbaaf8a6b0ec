package main

import (
	"fmt"
	"syscall/js"

	"honnef.co/go/js/dom/v2"
)

var (
	window   = dom.GetWindow()
	document = window.Document()
)

// view holds the elements of the page that change. It knows nothing about engines and conversations.
type view struct {
	transcript, welcome, turns, load, suggestions, side, alerts dom.HTMLElement

	loadText, status, figures, announcer, temperatureValue, seedError, gpu, modelName, modelDetails dom.HTMLElement

	loadBar                           dom.HTMLElement
	send, stop, newChat, latest, more *dom.HTMLButtonElement
	prompt                            *dom.HTMLTextAreaElement
	temperature, seed                 *dom.HTMLInputElement

	follow      bool // the transcript follows the answer, until the user scrolls up
	lastTop     int
	scrollsSoon bool
}

// element returns the element of index.html with this id.
func element[T dom.Element](id string) T {
	e, ok := document.GetElementByID(id).(T)
	if !ok {
		panic(fmt.Sprintf("index.html has no fitting element %q", id))
	}
	return e
}

func newView() *view {
	html := element[dom.HTMLElement]
	button := element[*dom.HTMLButtonElement]
	v := &view{
		transcript: html("transcript"), welcome: html("welcome"), turns: html("turns"), load: html("load"),
		suggestions: html("suggestions"), side: html("side"), alerts: html("alerts"),
		loadText: html("load-text"), status: html("status"), figures: html("figures"), announcer: html("announcer"),
		temperatureValue: html("temperature-value"), seedError: html("seed-error"), gpu: html("gpu"),
		modelName: html("model-name"), modelDetails: html("model-details"), loadBar: html("load-bar"),
		send: button("send"), stop: button("stop"), newChat: button("new-chat"), latest: button("latest"),
		more:   button("side-toggle"),
		prompt: element[*dom.HTMLTextAreaElement]("prompt"), temperature: element[*dom.HTMLInputElement]("temperature"),
		seed:   element[*dom.HTMLInputElement]("seed"),
		follow: true,
	}
	for id, text := range labels {
		html(id).SetTextContent(text)
	}
	for id, texts := range attributes {
		for name, text := range texts {
			html(id).SetAttribute(name, text)
		}
	}
	return v
}

func show(e dom.Element, visible bool) {
	if visible {
		e.RemoveAttribute("hidden")
	} else {
		e.SetAttribute("hidden", "")
	}
}

func visible(e dom.Element) bool { return !e.HasAttribute("hidden") }

// build makes an element; children are elements, or strings that become text nodes.
func build(tag, class string, children ...any) dom.HTMLElement {
	e := document.CreateElement(tag).(dom.HTMLElement)
	if class != "" {
		e.SetAttribute("class", class)
	}
	for _, child := range children {
		switch c := child.(type) {
		case string:
			e.AppendChild(document.CreateTextNode(c))
		case dom.Node:
			e.AppendChild(c)
		}
	}
	return e
}

// turn is one message in the transcript.
type turn struct {
	article, text dom.HTMLElement
	paragraph     dom.HTMLElement // the last one
	cut           paragraphs
}

func (v *view) addTurn(class, speaker, text string) *turn {
	t := &turn{text: build("div", "text")}
	t.article = build("article", "turn "+class, t.text)
	t.article.SetAttribute("aria-label", speaker)
	v.turns.AppendChild(t.article)
	t.append(text)
	v.scroll()
	return t
}

// append adds text in nodes of its own: nodes that exist are not touched, so that a selection in them survives.
func (t *turn) append(text string) {
	for _, p := range t.cut.feed(text) {
		if p.opens {
			t.paragraph = build("p", "")
			t.text.AppendChild(t.paragraph)
		}
		t.paragraph.AppendChild(document.CreateTextNode(p.text))
	}
}

// note adds a small line below the text.
func (t *turn) note(text string) { t.article.AppendChild(build("p", "meta", text)) }

// near is how many pixels from the end still count as the end.
const near = 48

// scrolled notes where the user went: up ends following, back to the end resumes it. The answer's growth never moves
// the top up, so that it cannot be mistaken for the user.
func (v *view) scrolled() {
	u := v.transcript.Underlying()
	top := u.Get("scrollTop").Int()
	end := u.Get("scrollHeight").Int() - u.Get("clientHeight").Int() - top
	switch {
	case end <= near:
		v.follow = true
	case top < v.lastTop:
		v.follow = false
	}
	v.lastTop = top
	show(v.latest, !v.follow)
}

// scroll shows the end of the transcript if it is being followed.
func (v *view) scroll() {
	if v.follow {
		u := v.transcript.Underlying()
		u.Set("scrollTop", u.Get("scrollHeight"))
		v.lastTop = u.Get("scrollTop").Int()
	}
}

// scrollSoon is scroll for text that streams in: reading the height makes the browser lay out the text at once, which
// for every token would cost more than the rest of the page. A timer and not an animation frame, which a hidden tab
// does not get.
func (v *view) scrollSoon(guard func()) {
	if v.scrollsSoon {
		return
	}
	v.scrollsSoon = true
	window.SetTimeout(func() {
		defer guard()
		v.scrollsSoon = false
		v.scroll()
	}, 50)
}

// fitPrompt makes the message field as high as its text; the style sheet sets the limit.
func (v *view) fitPrompt() {
	style := v.prompt.Style()
	style.SetProperty("height", "auto", "")
	style.SetProperty("height", fmt.Sprintf("%dpx", v.prompt.Get("scrollHeight").Int()), "")
	v.scroll() // the transcript has become smaller or larger
}

// fill puts text into the message field unless the user has begun another message.
func (v *view) fill(text string) {
	if v.prompt.Value() == "" {
		v.prompt.SetValue(text)
		v.fitPrompt()
	}
}

// progress shows the bar; percent is ignored if it is not known.
func (v *view) progress(text string, percent int, known bool) {
	if !visible(v.load) {
		show(v.load, true)
		v.scroll()
	}
	v.loadText.SetTextContent(text)
	if known {
		v.loadBar.SetAttribute("value", fmt.Sprint(percent))
	} else {
		v.loadBar.RemoveAttribute("value")
	}
}

// action is a button on a card.
type action struct {
	label string
	run   func()
}

// card shows what happened and what to do next, until dismissed or until an action is taken. Problems are announced at
// once, notices politely.
func (v *view) card(on listen, problem bool, title, message, next, details string, actions ...action) {
	class, role := "card notice", "status"
	if problem {
		class, role = "card", "alert"
	}
	c := build("div", class)
	button := func(label string, run func()) dom.HTMLElement {
		b := build("button", "", label)
		b.SetAttribute("type", "button")
		on(b, "click", func(dom.Event) {
			c.Remove()
			v.prompt.Focus() // the focused button is gone; without this the keyboard starts at the top of the page
			run()
		})
		return b
	}
	dismiss := button("×", func() {})
	dismiss.SetAttribute("aria-label", actionDismiss)
	c.AppendChild(build("div", "title", build("h3", "", title), dismiss))
	for _, text := range []string{message, next} {
		if text != "" {
			c.AppendChild(build("p", "", text))
		}
	}
	if details != "" {
		c.AppendChild(build("details", "", build("summary", "", textDetails), build("pre", "", details)))
	}
	if len(actions) > 0 {
		row := build("div", "actions")
		for _, a := range actions {
			row.AppendChild(button(a.label, a.run))
		}
		c.AppendChild(row)
	}
	c.SetAttribute("role", role)
	v.alerts.AppendChild(c)
	v.scroll()
}

// clearAlerts removes problems, which a new attempt makes obsolete; notices about the device stay.
func (v *view) clearAlerts() {
	for _, c := range v.alerts.QuerySelectorAll("[role=alert]") {
		c.Remove()
	}
}

func (v *view) clearTurns() {
	v.turns.SetTextContent("")
	v.follow = true
	show(v.latest, false)
}

// listen adds a handler to an element or the window.
type listen func(target dom.EventTarget, kind string, f func(dom.Event))

// userAgent and secure say where the page runs.
func userAgent() string { return js.Global().Get("navigator").Get("userAgent").String() }
func secure() bool      { return js.Global().Get("isSecureContext").Truthy() }
func hasWebGPU() bool   { return js.Global().Get("navigator").Get("gpu").Truthy() }
