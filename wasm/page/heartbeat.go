package main

import "time"

const (
	// beat is the time between two looks at the worker.
	beat = 5 * time.Second
	// patience is how long the worker may stay silent. Reading a large vocabulary keeps it busy for up to ten seconds on
	// a slow machine; only an endless computation takes much longer.
	patience = 40 * time.Second
)

// heartbeat tells a hung worker from a busy one.
type heartbeat struct {
	sent, answered uint32
	since          time.Time // when the unanswered ping was sent
	overdue        int
}

// tick is called every beat, or more rarely in a hidden tab. It returns the ping to send, if any, and whether the worker
// must be given up. That takes two looks after patience has run out: after the machine has slept, the timer may come
// before an answer that lies ready.
func (h *heartbeat) tick(now time.Time) (ping uint32, send, dead bool) {
	if h.sent == h.answered {
		h.sent++
		h.since, h.overdue = now, 0
		return h.sent, true, false
	}
	if now.Sub(h.since) > patience {
		h.overdue++
	}
	return 0, false, h.overdue >= 2
}

// pong notes an answer.
func (h *heartbeat) pong(n uint32) { h.answered = n }
