package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"flint/wasm/wire"
)

// script is a session that does what a test says.
type script struct {
	emit func(wire.Event)
	load func(ctx context.Context, files fs.FS, opt wire.Load) error
	chat func(ctx context.Context, req wire.Chat) error
}

func (s *script) Load(ctx context.Context, files fs.FS, opt wire.Load) error {
	return s.load(ctx, files, opt)
}
func (s *script) Chat(ctx context.Context, req wire.Chat) error { return s.chat(ctx, req) }
func (s *script) Close()                                        {}

// bench runs a server on a script and collects what it posts.
type bench struct {
	t      *testing.T
	server *server
	script *script
	posted []string
}

func start(t *testing.T) *bench {
	b := &bench{t: t, script: &script{}}
	b.server = newServer(func(text string) { b.posted = append(b.posted, text) }, func(emit func(wire.Event)) session {
		b.script.emit = emit
		return b.script
	})
	t.Cleanup(func() { close(b.server.queue) })
	return b
}

func (b *bench) send(m wire.Message) {
	b.t.Helper()
	text, err := wire.Encode(m)
	if err != nil {
		b.t.Fatal(err)
	}
	b.sendText(text)
}

func (b *bench) sendText(text string) {
	b.server.receive(text, func(context.Context, wire.Load) (fs.FS, error) { return fstest.MapFS{}, nil })
	synctest.Wait()
}

// got returns the events posted since the last call, in short.
func (b *bench) got() string {
	b.t.Helper()
	synctest.Wait()
	var out []string
	for _, text := range b.posted {
		e, err := wire.DecodeEvent(text)
		if err != nil {
			b.t.Fatalf("posted %s: %v", text, err)
		}
		switch e := e.(type) {
		case wire.Done:
			out = append(out, fmt.Sprintf("done %d %s", e.ID, e.Reason))
		case wire.Error:
			out = append(out, fmt.Sprintf("error %d %s", e.ID, e.Code))
		case wire.Loaded:
			out = append(out, fmt.Sprintf("loaded %d", e.ID))
		case wire.Token:
			out = append(out, fmt.Sprintf("token %d %s", e.ID, e.Text))
		case wire.Fatal:
			out = append(out, "fatal "+e.Message)
		case wire.Pong:
			out = append(out, fmt.Sprintf("pong %d", e.N))
		default:
			out = append(out, fmt.Sprintf("%T", e))
		}
	}
	b.posted = nil
	return strings.Join(out, ", ")
}

func (b *bench) want(want string) {
	b.t.Helper()
	if got := b.got(); got != want {
		b.t.Errorf("posted %q, want %q", got, want)
	}
}

func chat(id wire.ID) wire.Chat {
	return wire.Chat{ID: id, Messages: []wire.Turn{{Role: wire.User, Content: "hi"}}, Sampling: wire.Greedy()}
}

// test runs f in a bubble, where Wait means that every goroutine has nothing left to do.
func test(t *testing.T, name string, f func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, start(t)) })
	})
}

func TestRequests(t *testing.T) {
	test(t, "a load and a chat end once", func(t *testing.T, b *bench) {
		b.script.load = func(_ context.Context, files fs.FS, opt wire.Load) error {
			if files == nil || opt.URL != "m/" {
				t.Errorf("Load got files %v and %+v", files, opt)
			}
			b.script.emit(wire.Loaded{ID: opt.ID, Sampling: wire.Greedy()})
			return nil
		}
		b.script.chat = func(_ context.Context, req wire.Chat) error {
			b.script.emit(wire.Token{ID: req.ID, Text: "a"})
			b.script.emit(wire.Done{ID: req.ID, Reason: wire.Stopped})
			b.script.emit(wire.Done{ID: req.ID, Reason: wire.Stopped})
			return errors.New("too late to matter")
		}
		b.send(wire.Load{ID: 1, URL: "m/"})
		b.send(chat(2))
		b.want("loaded 1, token 2 a, done 2 stop")
	})
	test(t, "an error without a last event becomes one", func(t *testing.T, b *bench) {
		errs := []error{errors.New("x"), wire.WithCode(wire.OutOfMemory, errors.New("x")), fmt.Errorf("config.json: %w", fs.ErrNotExist), nil}
		b.script.chat = func(_ context.Context, req wire.Chat) error { return errs[req.ID-1] }
		for id := range errs {
			b.send(chat(wire.ID(id + 1)))
		}
		b.want("error 1 internal, error 2 out-of-memory, error 3 bad-model, error 4 internal")
	})
	test(t, "cancel ends the one that is meant", func(t *testing.T, b *bench) {
		b.script.chat = func(ctx context.Context, req wire.Chat) error {
			<-ctx.Done()
			return ctx.Err()
		}
		b.send(chat(1))
		b.send(chat(2))
		b.send(wire.Cancel{ID: 2}) // still in the queue
		b.want("")
		b.send(wire.Cancel{ID: 1})
		b.want("done 1 cancelled, done 2 cancelled")
		b.send(wire.Cancel{ID: 1})
		b.send(wire.Cancel{ID: 99})
		b.want("")
	})
	test(t, "reset ends all, loads too", func(t *testing.T, b *bench) {
		b.script.load = func(ctx context.Context, _ fs.FS, _ wire.Load) error {
			<-ctx.Done()
			return fmt.Errorf("reading: %w", ctx.Err())
		}
		b.script.chat = func(ctx context.Context, _ wire.Chat) error { return ctx.Err() }
		b.send(wire.Load{ID: 1, URL: "m/"})
		b.send(chat(2))
		b.send(wire.Reset{})
		b.want("error 1 cancelled, done 2 cancelled")
	})
	test(t, "pings are answered while a request runs", func(t *testing.T, b *bench) {
		b.script.chat = func(ctx context.Context, _ wire.Chat) error { <-ctx.Done(); return ctx.Err() }
		b.send(chat(1))
		b.send(wire.Ping{N: 7})
		b.want("pong 7")
		b.send(wire.Reset{})
	})
	test(t, "a flood and a repeated id are refused", func(t *testing.T, b *bench) {
		b.script.chat = func(ctx context.Context, _ wire.Chat) error { <-ctx.Done(); return ctx.Err() }
		for id := range wire.ID(waiting + 1) {
			b.send(chat(id + 1))
		}
		b.send(chat(waiting + 2))
		b.want(fmt.Sprintf("error %d bad-request", waiting+2))
		b.send(chat(3))
		b.want("error 0 bad-request")
		b.send(wire.Reset{})
	})
	test(t, "what cannot be read is answered", func(t *testing.T, b *bench) {
		for _, text := range []string{"", "{}", `{"kind":"dance"}`, `{"kind":"pong","n":1}`} {
			b.sendText(text)
			b.want("error 0 bad-request")
		}
	})
	test(t, "files that cannot be opened end the load", func(t *testing.T, b *bench) {
		text, err := wire.Encode(wire.Load{ID: 1, URL: "m/"})
		if err != nil {
			t.Fatal(err)
		}
		b.server.receive(text, func(context.Context, wire.Load) (fs.FS, error) {
			return nil, wire.WithCode(wire.Network, errors.New("offline"))
		})
		b.want("error 1 network")
	})
}

func TestPanicsAreFatalAndLast(t *testing.T) {
	for name, boom := range map[string]func(b *bench, id wire.ID){
		"a panic":               func(*bench, wire.ID) { panic("boom") },
		"a figure out of range": func(b *bench, id wire.ID) { b.script.emit(wire.Step{ID: id, MS: -1}) },
	} {
		test(t, name, func(t *testing.T, b *bench) {
			b.script.chat = func(_ context.Context, req wire.Chat) error { boom(b, req.ID); return nil }
			b.send(chat(1))
			if got := b.got(); !strings.HasPrefix(got, "fatal ") || strings.Count(got, "fatal") != 1 {
				t.Errorf("posted %q, want one fatal", got)
			}
			b.send(wire.Ping{N: 1})
			b.want("")
		})
	}
}

func TestProgressIsThinnedOutButEnds(t *testing.T) {
	var now time.Time
	var got []int64
	report := every(100*time.Millisecond, func() time.Time { return now }, func(done, _ int64) { got = append(got, done) })
	for done := range int64(101) {
		report(done, 100)
		now = now.Add(time.Millisecond)
	}
	if fmt.Sprint(got) != "[0 100]" {
		t.Errorf("reported %v, want [0 100]", got)
	}
	now = now.Add(time.Millisecond)
	report(1, 0)
	now = now.Add(97 * time.Millisecond)
	report(2, 0)
	now = now.Add(time.Millisecond)
	report(3, 0)
	if fmt.Sprint(got) != "[0 100 3]" {
		t.Errorf("reported %v, want [0 100 3]", got)
	}
}
