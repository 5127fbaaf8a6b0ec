//go:build !js

package gpu

import "context"

// Open opens WebGPU, which exists only in js/wasm builds; elsewhere use OpenSoftware.
func Open(context.Context, Options) (*Device, error) {
	return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "a js/wasm build", Have: "a native one"}
}
