package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall/js"
	"time"

	"flint/wasm/blob"
	"flint/wasm/wire"
)

func main() {
	self := js.Global()
	s := newServer(func(text string) { self.Call("postMessage", text) }, newSession)
	self.Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer s.guard()
		text, files, ok := unpack(args[0].Get("data"))
		if !ok {
			s.emit(wire.Error{Code: wire.BadRequest, Message: "message is neither a string nor {message, files}"})
			return nil
		}
		s.receive(text, func(ctx context.Context, load wire.Load) (fs.FS, error) {
			if load.Files > 0 {
				return picked(load, files)
			}
			return blob.Download(ctx, load.URL, modelFiles, every(100*time.Millisecond, time.Now, func(done, total int64) {
				s.emit(wire.Progress{ID: load.ID, Phase: wire.Download, Done: done, Total: total})
			}))
		})
		return nil
	}))
	select {} // the handlers do the rest
}

// unpack takes a message apart: a string, or {message, files} with the files of a load.
func unpack(data js.Value) (text string, files js.Value, ok bool) {
	if data.Type() == js.TypeObject {
		files = data.Get("files")
		data = data.Get("message")
	}
	if data.Type() != js.TypeString {
		return "", js.Undefined(), false
	}
	return data.String(), files, true
}

// picked is the folder of the files sent alongside load.
func picked(load wire.Load, files js.Value) (fs.FS, error) {
	array := js.Global().Get("Array")
	if !array.Call("isArray", files).Bool() || files.Length() != load.Files {
		return nil, wire.WithCode(wire.BadRequest, errors.New("the files sent alongside are not those that load announces"))
	}
	folder, err := blob.Files(files)
	if err != nil {
		return nil, wire.WithCode(wire.BadModel, err)
	}
	return folder, nil
}
