package gpu

import (
	"context"
	"fmt"
	"syscall/js"
	"unsafe"
)

// raw returns the JavaScript object behind a value of the binding, all of whose types are struct{ jsValue js.Value }.
func raw[T any](p *T) js.Value { return *(*js.Value)(unsafe.Pointer(p)) }

// await waits for a promise without blocking JavaScript; the caller must not be a JavaScript callback. A rejection
// comes back as an error with its reason, which the binding's own await drops.
func await(ctx context.Context, promise js.Value) (js.Value, error) {
	type result struct {
		value js.Value
		err   error
	}
	settled := make(chan result, 1)
	var resolve, reject js.Func
	release := func() { resolve.Release(); reject.Release() }
	resolve = js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer release()
		settled <- result{value: first(args)}
		return nil
	})
	reject = js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer release()
		settled <- result{err: fmt.Errorf("%s", text(first(args)))}
		return nil
	})
	promise.Call("then", resolve, reject)
	select {
	case r := <-settled:
		return r.value, r.err
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	}
}

func first(args []js.Value) js.Value {
	if len(args) == 0 {
		return js.Undefined()
	}
	return args[0]
}

// text renders a JavaScript error or value for people.
func text(v js.Value) string {
	if v.Type() == js.TypeObject && v.Get("message").Type() == js.TypeString {
		return v.Get("message").String()
	}
	return v.String()
}

// safely turns a JavaScript exception, which syscall/js panics with, into an error. Any other panic goes on.
func safely(label string, f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(js.Error)
			if !ok {
				panic(p)
			}
			err = &Error{Kind: ErrValidation, Label: label, Have: text(e.Value)}
		}
	}()
	f()
	return nil
}

// pointer is the address of Go memory for replay.js. The slice must be on the heap and alive until JavaScript is done
// with it; the Go heap does not move objects.
func pointer[T any](s []T) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }
