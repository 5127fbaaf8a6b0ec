// Command worker is the engine's home: a dedicated worker that receives requests from the page, hands them to a session
// and posts the session's events back. It decides nothing about models; see package wire for the protocol.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sync"

	"flint/wasm/wire"
)

// session is what the worker needs of engine.Session. Both methods block until the request has ended, within one step
// of ctx ending, and emit the request's events, its last one included.
type session interface {
	Load(ctx context.Context, files fs.FS, opt wire.Load) error
	Chat(ctx context.Context, req wire.Chat) error
	Close()
}

// opener finds the files that a load is about.
type opener func(ctx context.Context, load wire.Load) (fs.FS, error)

// waiting is how many requests may queue behind the running one. The page sends one at a time; more than a few mean
// that it does not listen.
const waiting = 8

// server runs one request at a time and keeps the promise that each gets exactly one last event.
type server struct {
	post    func(text string) // may be called from any goroutine
	session session
	queue   chan job

	mutex   sync.Mutex
	cancels map[wire.ID]context.CancelFunc // of requests that have not had their last event
	lastID  wire.ID
	dead    bool
}

type job struct {
	ctx       context.Context
	id        wire.ID
	run       func(ctx context.Context) error
	cancelled wire.Event // its last event if it is cancelled before the session hears of it
}

// newServer starts a server; open makes the session, given where to send its events.
func newServer(post func(text string), open func(emit func(wire.Event)) session) *server {
	s := &server{post: post, queue: make(chan job, waiting), cancels: map[wire.ID]context.CancelFunc{}}
	s.session = open(s.emit)
	go s.work()
	return s
}

// receive handles one message and never blocks: JavaScript calls it. open finds the files if it is a load.
func (s *server) receive(text string, open opener) {
	defer s.guard()
	request, err := wire.DecodeRequest(text)
	if err != nil {
		s.emit(wire.Error{Code: wire.BadRequest, Message: err.Error()})
		return
	}
	switch r := request.(type) {
	case wire.Ping:
		s.emit(wire.Pong(r))
	case wire.Cancel:
		s.cancel(func(id wire.ID) bool { return id == r.ID })
	case wire.Reset:
		s.cancel(func(wire.ID) bool { return true })
	case wire.Load:
		s.enqueue(r.ID, wire.Error{ID: r.ID, Code: wire.CancelledLoad, Message: "cancelled"}, func(ctx context.Context) error {
			files, err := open(ctx, r)
			if err != nil {
				return err
			}
			return s.session.Load(ctx, files, r)
		})
	case wire.Chat:
		s.enqueue(r.ID, wire.Done{ID: r.ID, Reason: wire.Cancelled}, func(ctx context.Context) error { return s.session.Chat(ctx, r) })
	default:
		panic(fmt.Sprintf("worker: no case for %T", request))
	}
}

// cancel ends the requests whose id is meant. One that has ended already is no error: its last event and the cancel
// may cross on the way.
func (s *server) cancel(meant func(wire.ID) bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for id, cancel := range s.cancels {
		if meant(id) {
			cancel()
		}
	}
}

func (s *server) enqueue(id wire.ID, cancelled wire.Event, run func(context.Context) error) {
	s.mutex.Lock()
	if id <= s.lastID {
		s.mutex.Unlock()
		s.emit(wire.Error{Code: wire.BadRequest, Message: fmt.Sprintf("request id %d after %d, want a larger one each time", id, s.lastID)})
		return
	}
	s.lastID = id
	ctx, cancel := context.WithCancel(context.Background())
	s.cancels[id] = cancel
	s.mutex.Unlock()
	select {
	case s.queue <- job{ctx, id, run, cancelled}:
	default:
		s.emit(wire.Error{ID: id, Code: wire.BadRequest, Message: fmt.Sprintf("%d requests are waiting already, want the page to wait for the last event of each", waiting)})
	}
}

// work runs the queue.
func (s *server) work() {
	defer s.guard()
	for j := range s.queue {
		err := j.run(j.ctx)
		if s.running(j.id) {
			s.emit(lastWord(j, err))
		}
	}
}

func (s *server) running(id wire.ID) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, running := s.cancels[id]
	return running
}

// lastWord is the last event of a request whose session returned without one: an error before the session's turn, or a
// defect of the session, which must not leave the page waiting.
func lastWord(j job, err error) wire.Event {
	switch {
	case err == nil:
		return wire.Error{ID: j.id, Code: wire.Internal, Message: "the engine ended the request without a result"}
	case errors.Is(err, context.Canceled) && j.ctx.Err() != nil:
		return j.cancelled
	case errors.Is(err, fs.ErrNotExist):
		return wire.Error{ID: j.id, Code: wire.BadModel, Message: err.Error()}
	}
	return wire.Error{ID: j.id, Code: wire.CodeOf(err), Message: err.Error()}
}

// emit posts an event, and notes when it is a request's last.
func (s *server) emit(event wire.Event) {
	text, err := wire.Encode(event)
	if err != nil {
		panic(err) // a defect of the sender; guard reports it with the stack
	}
	var ended wire.ID
	switch e := event.(type) {
	case wire.Loaded:
		ended = e.ID
	case wire.Done:
		ended = e.ID
	case wire.Error:
		ended = e.ID
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.dead {
		return
	}
	if ended != 0 {
		cancel, running := s.cancels[ended]
		if !running {
			return // a second last event would end the page's next request
		}
		cancel()
		delete(s.cancels, ended)
	}
	s.post(text)
}

// guard, deferred in every goroutine and handler, turns a panic into a fatal event: a Go program that panics in a
// worker leaves a page that waits for ever.
func (s *server) guard() {
	if r := recover(); r != nil {
		s.fatal(fmt.Sprint(r), string(debug.Stack()))
	}
}

// fatal posts the worker's last event; what follows is of no use to anyone.
func (s *server) fatal(message, stack string) {
	text, err := wire.Encode(wire.Fatal{Message: message, Stack: stack})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err == nil && !s.dead {
		s.post(text)
	}
	s.dead = true
}
