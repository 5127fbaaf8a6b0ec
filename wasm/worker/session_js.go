package main

import (
	"flint/wasm/engine"
	"flint/wasm/wire"
)

// newSession opens the engine.
func newSession(emit func(wire.Event)) session { return engine.New(emit) }
