package main

import (
	"context"
	"errors"
	"io/fs"

	"flint/wasm/wire"
)

// newSession opens the engine.
func newSession(func(wire.Event)) session { return noEngine{} }

// noEngine answers honestly in a build without the engine.
type noEngine struct{}

var errNoEngine = errors.New("this build has no engine")

func (noEngine) Load(context.Context, fs.FS, wire.Load) error { return errNoEngine }
func (noEngine) Chat(context.Context, wire.Chat) error        { return errNoEngine }
func (noEngine) Close()                                       {}
