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

// RunModels calls f for the devices that whole models are tested on: the software driver on the host, each way of
// building kernels in js/wasm. The software driver runs there too, but slowly and with nothing new to prove.
func RunModels(t *testing.T, f func(t *testing.T, d *gpu.Device)) {
	t.Helper()
	if runtime.GOOS != "js" {
		t.Run("software", func(t *testing.T) { f(t, gpu.OpenSoftware(gpu.Options{})) })
		return
	}
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
