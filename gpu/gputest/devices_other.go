//go:build !js

package gputest

import (
	"os"
	"testing"

	"flint/gpu"
)

func webGPU(t testing.TB) *gpu.Device {
	t.Helper()
	if os.Getenv("REQUIRE_WEBGPU") == "1" {
		t.Fatal("WebGPU is required (REQUIRE_WEBGPU=1), but this is not a js/wasm build")
	}
	return nil
}
