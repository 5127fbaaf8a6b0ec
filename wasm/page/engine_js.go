package main

import (
	"fmt"
	"syscall/js"
	"time"

	"flint/wasm/wire"
)

// engine is the worker seen from the page.
type engine struct {
	worker js.Value
	funcs  []js.Func
	pulse  heartbeat
	timer  js.Value
	alive  bool // it has said something: from now on silence means something
	event  func(wire.Event)
	died   func(title, message, stack string)
	guard  func()
}

// startEngine starts a worker. event gets what it says; died is called at most once, when it must be replaced. guard is
// deferred in every handler.
func startEngine(event func(wire.Event), died func(title, message, stack string), guard func()) *engine {
	e := &engine{event: event, died: died, guard: guard}
	e.worker = js.Global().Get("Worker").New("worker.js")
	e.on("message", func(ev js.Value) {
		e.alive = true
		data := ev.Get("data")
		if data.Type() != js.TypeString {
			e.fail(titleEngineDied, textBadEvent, data.Type().String())
			return
		}
		message, err := wire.DecodeEvent(data.String())
		if err != nil {
			e.fail(titleEngineDied, textBadEvent, err.Error())
			return
		}
		switch m := message.(type) {
		case wire.Pong:
			e.pulse.pong(m.N)
		case wire.Fatal:
			e.fail(titleEngineDied, m.Message, m.Stack)
		default:
			e.event(message)
		}
	})
	e.on("error", func(ev js.Value) {
		ev.Call("preventDefault")
		message, where := ev.Get("message"), ""
		if message.Type() != js.TypeString { // the script itself could not be loaded
			message = js.ValueOf("worker.js could not be loaded")
		} else {
			where = fmt.Sprintf("%s:%s", ev.Get("filename"), js.Global().Get("String").Invoke(ev.Get("lineno")))
		}
		e.fail(titleEngineDied, message.String(), where)
	})
	e.on("messageerror", func(js.Value) { e.fail(titleEngineDied, textBadEvent, "messageerror") })
	tick := e.callback(func(js.Value) {
		if !e.alive {
			return // still being fetched and compiled, for as long as the connection takes
		}
		ping, send, dead := e.pulse.tick(time.Now())
		if send {
			e.send(wire.Ping{N: ping})
		}
		if dead {
			e.fail(titleEngineHung, fmt.Sprintf(textEngineHung, patience), "")
		}
	})
	e.timer = js.Global().Call("setInterval", tick, beat.Milliseconds())
	return e
}

func (e *engine) callback(f func(js.Value)) js.Func {
	fn := js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer e.guard()
		arg := js.Undefined()
		if len(args) > 0 {
			arg = args[0]
		}
		f(arg)
		return nil
	})
	e.funcs = append(e.funcs, fn)
	return fn
}

func (e *engine) on(kind string, f func(event js.Value)) { e.worker.Set("on"+kind, e.callback(f)) }

// send panics if the page itself made a bad request: guard then shows it.
func (e *engine) send(r wire.Request) {
	text, err := wire.Encode(r)
	if err != nil {
		panic(err)
	}
	e.worker.Call("postMessage", text)
}

func (e *engine) fail(title, message, stack string) {
	e.stop()
	e.died(title, message, stack)
}

// stop ends the worker at once. Its callbacks are not released, as the one that led here may still run; restarts are
// few.
func (e *engine) stop() {
	for _, kind := range []string{"message", "error", "messageerror"} {
		e.worker.Set("on"+kind, js.Null())
	}
	js.Global().Call("clearInterval", e.timer)
	e.worker.Call("terminate")
}
