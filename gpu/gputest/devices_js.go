package gputest

import (
	"context"
	"os"
	"sync"
	"testing"

	"flint/gpu"
)

var shared struct {
	once sync.Once
	d    *gpu.Device
	err  error
}

// webGPU opens the adapter once a test binary: opening compiles a probe, and some drivers allow few devices.
func webGPU(t testing.TB) *gpu.Device {
	t.Helper()
	shared.once.Do(func() {
		shared.d, shared.err = gpu.Open(context.Background(), gpu.Options{DefaultLimits: os.Getenv("FLINT_DEFAULT_LIMITS") == "1"})
	})
	if shared.err != nil {
		if os.Getenv("REQUIRE_WEBGPU") == "1" {
			t.Fatalf("WebGPU is required (REQUIRE_WEBGPU=1): %v", shared.err)
		}
		t.Logf("no WebGPU: %v", shared.err)
	}
	return shared.d
}
