package gputest

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"flint/gpu"
)

// Run calls f once for the software driver and, where the platform has WebGPU, once for each way of building kernels
// on its adapter: subgroups, shared memory, serial. REQUIRE_WEBGPU=1 turns a missing adapter into a failure, so that a
// run which tested nothing cannot pass.
func Run(t *testing.T, f func(t *testing.T, d *gpu.Device)) {
	t.Helper()
	t.Run("software", func(t *testing.T) {
		f(t, gpu.OpenSoftware(gpu.Options{DefaultLimits: os.Getenv("FLINT_DEFAULT_LIMITS") == "1"}))
	})
	d := webGPU(t)
	if d == nil {
		return
	}
	for _, view := range Views(d) {
		t.Run(view.Name, func(t *testing.T) { f(t, view.Device) })
	}
}

// RunModels calls f for the device that whole models are tested on: the software driver on the host, in js/wasm the
// adapter as the product opens it. FLINT_ALL_VIEWS=1 adds the other ways of building kernels, which every kernel's own
// tests always run and which are slow for whole models on a CPU rasteriser.
func RunModels(t *testing.T, f func(t *testing.T, d *gpu.Device)) {
	t.Helper()
	switch {
	case runtime.GOOS != "js":
		t.Run("software", func(t *testing.T) { f(t, gpu.OpenSoftware(gpu.Options{})) })
	case os.Getenv("FLINT_ALL_VIEWS") == "1":
		RunViews(t, f)
	default:
		t.Run("webgpu", func(t *testing.T) { f(t, WebGPU(t)) })
	}
}

// RunViews calls f for each way of building kernels on the adapter.
func RunViews(t *testing.T, f func(t *testing.T, d *gpu.Device)) {
	t.Helper()
	for _, view := range Views(WebGPU(t)) {
		t.Run(view.Name, func(t *testing.T) { f(t, view.Device) })
	}
}

// View is one way of building kernels on an adapter.
type View struct {
	Name   string
	Device *gpu.Device
}

// Views lists the variants an adapter can run.
func Views(d *gpu.Device) []View {
	var views []View
	add := func(name string, f gpu.Features) {
		f.Timestamps = d.Features.Timestamps
		views = append(views, View{name, d.Restrict(f)})
	}
	if d.Features.Subgroups {
		f := d.Features
		f.Serial = false
		add("subgroups", f)
	}
	add("shared", gpu.Features{})
	add("serial", gpu.Features{Serial: true})
	return views
}

// WebGPU returns the adapter's device, or skips (with REQUIRE_WEBGPU=1: fails) when there is none.
func WebGPU(t testing.TB) *gpu.Device {
	t.Helper()
	d := webGPU(t)
	if d == nil {
		t.Skip("no WebGPU on this platform, skipped")
	}
	return d
}

// rootName is the test's name without the device's, so that random inputs agree between devices.
func rootName(t testing.TB) string {
	name := t.Name()
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return name
}
