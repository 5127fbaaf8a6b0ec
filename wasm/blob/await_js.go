// Package blob gives model files to Go as an fs.FS without reading them into memory: files that the user picked, files
// downloaded whole, and files read in ranges from a server.
//
// Every file implements fs.File, io.ReaderAt and io.Seeker. Reading waits for a promise, so it must happen in a
// goroutine, never inside a handler that JavaScript called: there it would wait for ever. Weights need not pass through
// Read at all: a *File also hands out its Blob, whose slices JavaScript can move to the GPU by itself.
//
// Errors are *Error values that name the file and say what to do; their Code tells a changed file from a broken
// connection. A missing file is fs.ErrNotExist.
package blob

import (
	"context"
	"fmt"
	"syscall/js"

	"flint/wasm/wire"
)

// Error says which file failed, how, and what to do about it.
type Error struct {
	Name string
	Err  error
	code wire.Code
}

func (e *Error) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Code is wire.FileChanged or wire.Network.
func (e *Error) Code() wire.Code { return e.code }

// Rejection is the reason for which a promise was rejected or a call threw.
type Rejection struct {
	Name    string // such as "NotReadableError" or "TypeError"; empty if the reason was no error object
	Message string
}

func (r *Rejection) Error() string {
	if r.Name == "" {
		return r.Message
	}
	return r.Name + ": " + r.Message
}

func rejection(reason js.Value) *Rejection {
	if reason.Type() == js.TypeObject {
		name, message := reason.Get("name"), reason.Get("message")
		if name.Type() == js.TypeString && message.Type() == js.TypeString {
			return &Rejection{name.String(), message.String()}
		}
	}
	return &Rejection{Message: js.Global().Get("String").Invoke(reason).String()}
}

// Await waits for promise and returns its value, or a *Rejection, or ctx's error if that ends first. The promise itself
// goes on: what it stands for needs an AbortSignal of its own to be stopped.
func Await(ctx context.Context, promise js.Value) (js.Value, error) {
	type result struct {
		value js.Value
		err   error
	}
	settled := make(chan result, 1) // room for one, so that a handler never blocks JavaScript
	var resolve, reject js.Func
	resolve = js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- result{value: args[0]}
		return nil
	})
	reject = js.FuncOf(func(_ js.Value, args []js.Value) any {
		settled <- result{err: rejection(args[0])}
		return nil
	})
	release := func() { resolve.Release(); reject.Release() }
	promise.Call("then", resolve, reject)
	select {
	case r := <-settled:
		release()
		return r.value, r.err
	case <-ctx.Done():
		go func() { <-settled; release() }() // a handler released before its call would panic in JavaScript
		return js.Undefined(), context.Cause(ctx)
	}
}

// try turns an exception thrown by a JavaScript call into an error.
func try(call func() js.Value) (v js.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			thrown, ok := r.(js.Error)
			if !ok {
				panic(r)
			}
			err = rejection(thrown.Value)
		}
	}()
	return call(), nil
}

// readInto fills p with the bytes that the promise for an ArrayBuffer brings; want is how many it must bring.
func readInto(ctx context.Context, p []byte, promise js.Value) error {
	buffer, err := Await(ctx, promise)
	if err != nil {
		return err
	}
	view := js.Global().Get("Uint8Array").New(buffer)
	if n := view.Length(); n != len(p) {
		return fmt.Errorf("got %d bytes, want %d", n, len(p))
	}
	js.CopyBytesToGo(p, view)
	return nil
}
