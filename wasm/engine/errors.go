package engine

import (
	"context"
	"errors"

	"flint/gpu"
	"flint/model"
	"flint/wasm/wire"
)

// errorEvent sorts a failure by what the user can do about it.
func errorEvent(id wire.ID, err error) wire.Error {
	return wire.Error{ID: id, Code: code(err), Message: err.Error()}
}

func code(err error) wire.Code {
	var g *gpu.Error
	switch {
	case errors.Is(err, context.Canceled):
		return wire.CancelledLoad
	case wire.CodeOf(err) != wire.Internal:
		return wire.CodeOf(err)
	case errors.Is(err, gpu.ErrLost):
		return wire.DeviceLost
	case errors.Is(err, gpu.ErrOutOfMemory):
		return wire.OutOfMemory
	case errors.Is(err, model.ErrContextFull):
		return wire.ContextOverflow
	case errors.As(err, &g) && errors.Is(err, gpu.ErrUnsupported) && g.Label == "open":
		if g.Have == "no navigator.gpu" {
			return wire.NoWebGPU
		}
		return wire.NoAdapter
	case errors.Is(err, gpu.ErrUnsupported):
		return wire.OutOfMemory // a buffer or binding past the device's limits
	case errors.As(err, &g):
		return wire.Internal
	}
	return wire.BadModel
}
