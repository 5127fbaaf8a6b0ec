package main

import (
	"flint/wasm/engine"
	"flint/wasm/wire"
)

// newSession makes the engine, which opens the GPU with its first load.
func newSession(emit func(wire.Event)) session { return engine.New(emit) }
