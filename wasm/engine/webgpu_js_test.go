package engine

import (
	"context"
	"errors"
	"testing"

	"flint/gpu/gputest"
	"flint/wasm/wire"
)

// TestOnWebGPUCancelledLoadsAndLostDevices is the session as the worker has it: a load cancelled while the device opens, while
// weights move and while kernels compile leaves nothing behind and is called cancelled; after the device is lost a chat
// says so, and the next load opens another and answers the same.
func TestOnWebGPUCancelledLoadsAndLostDevices(t *testing.T) {
	gputest.WebGPU(t) // or skip
	e := &events{}
	s := New(e.emit)
	defer s.Close()
	cancelled := 0
	for looks := 0; ; looks += 1 + looks/4 {
		*e = nil
		err := s.Load(gputest.CancelAfter(looks), tiny(), wire.Load{ID: 1})
		if err == nil {
			break
		}
		cancelled++
		if got := last[wire.Error](t, *e); !errors.Is(err, context.Canceled) || got.Code != wire.CancelledLoad {
			t.Fatalf("look %d: %v, %+v", looks, err, got)
		}
		if s.device != nil && (s.device.Allocated() != 0 || s.device.Err() != nil) {
			t.Fatalf("look %d: %d bytes left, %v", looks, s.device.Allocated(), s.device.Err())
		}
	}
	if cancelled < 8 {
		t.Fatalf("only %d places to cancel a load", cancelled)
	}
	turns := []wire.Turn{user("hello")}
	want, _ := answer(t, s, e, context.Background(), turns, greedy(6))
	for looks := range 12 {
		if _, end := answer(t, s, e, gputest.CancelAfter(looks), turns, greedy(6)); end.(wire.Done).Reason == "" {
			t.Fatalf("look %d: %#v", looks, end)
		}
		if got, _ := answer(t, s, e, context.Background(), turns, greedy(6)); got != want {
			t.Fatalf("after an answer cancelled at look %d: %q, want %q", looks, got, want)
		}
	}
	// The GPU goes away in the middle of an answer.
	emit := s.emit
	s.emit = func(event wire.Event) {
		emit(event)
		if _, ok := event.(wire.Step); ok {
			s.device.Close()
		}
	}
	if _, end := answer(t, s, e, context.Background(), turns, greedy(6)); end.(wire.Error).Code != wire.DeviceLost {
		t.Fatalf("the device is lost: %#v", end)
	}
	s.emit = emit
	if _, end := answer(t, s, e, context.Background(), turns, greedy(6)); end.(wire.Error).Code != wire.DeviceLost {
		t.Fatalf("a chat on a lost device: %#v", end)
	}
	if err := s.Load(context.Background(), tiny(), wire.Load{ID: 2}); err != nil {
		t.Fatal(err)
	}
	if got, _ := answer(t, s, e, context.Background(), turns, greedy(6)); got != want {
		t.Fatalf("on another device %q, want %q", got, want)
	}
}
