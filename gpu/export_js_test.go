package gpu

// Provoke makes WebGPU report an error outside of any error scope.
func Provoke(d *Device) {
	const noSuchUsage = 1 << 30
	d.driver.(*webgpuDriver).js.Call("createBuffer", map[string]any{"size": 4, "usage": noSuchUsage})
}
