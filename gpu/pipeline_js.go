package gpu

import (
	"context"
	"fmt"
	"strings"
	"syscall/js"

	"github.com/cogentcore/webgpu/wgpu"
)

// kernelLayout is the explicit layout of a kernel's bindings. WebGPU's 'auto' layout would drop a binding that a
// variant does not use, and the dispatch would then silently do nothing.
type kernelLayout struct {
	group    *wgpu.BindGroupLayout
	pipeline *wgpu.PipelineLayout
}

func (d *webgpuDriver) layout(k *Kernel) *kernelLayout {
	if l := d.layouts[k]; l != nil {
		return l
	}
	entries := []wgpu.BindGroupLayoutEntry{{Binding: 0, Visibility: wgpu.ShaderStageCompute, Buffer: wgpu.BufferBindingLayout{Type: wgpu.BufferBindingTypeUniform}}}
	types := map[Access]wgpu.BufferBindingType{
		Read: wgpu.BufferBindingTypeReadOnlyStorage, ReadWrite: wgpu.BufferBindingTypeStorage, Uniform: wgpu.BufferBindingTypeUniform,
	}
	for i, b := range k.Bindings {
		entries = append(entries, wgpu.BindGroupLayoutEntry{Binding: uint32(i + 1), Visibility: wgpu.ShaderStageCompute, Buffer: wgpu.BufferBindingLayout{Type: types[b.Access]}})
	}
	group, _ := d.device.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: k.Name, Entries: entries})
	raw(group).Set("label", k.Name)
	pipe, _ := d.device.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{Label: k.Name, BindGroupLayouts: []*wgpu.BindGroupLayout{group}})
	raw(pipe).Set("label", k.Name)
	l := &kernelLayout{group, pipe}
	d.layouts[k] = l
	return l
}

// pipelineKey is everything that changes the compiled code.
type pipelineKey struct{ name, code string }

// pipeline is a compiled kernel, or one being compiled.
type pipeline struct {
	ready chan struct{}
	value js.Value
	err   error
}

// pipelineFor returns the kernel's pipeline, starting its compilation when it is new. Compilations run in parallel in
// the browser's own threads.
func (d *webgpuDriver) pipelineFor(k *Kernel, v Variant, layout *kernelLayout) *pipeline {
	key := pipelineKey{k.Name, v.Prelude + k.WGSL}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pipelines[key]; p != nil {
		return p
	}
	p := &pipeline{ready: make(chan struct{})}
	d.pipelines[key] = p
	go func() {
		defer close(p.ready)
		label := k.Name
		if v.Name != "" {
			label += "." + v.Name
		}
		var compileErr error
		if err := safely(label, func() { p.value, compileErr = d.compile(label, key.code, layout) }); err != nil {
			compileErr = err
		}
		p.err = compileErr
	}()
	return p
}

func (d *webgpuDriver) compile(label, code string, layout *kernelLayout) (js.Value, error) {
	ctx := context.Background()
	d.js.Call("pushErrorScope", "validation")
	module, _ := d.device.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: code}})
	raw(module).Set("label", label)
	scope := d.js.Call("popErrorScope")
	creation := d.js.Call("createComputePipelineAsync", map[string]any{
		"label": label, "layout": raw(layout.pipeline), "compute": map[string]any{"module": raw(module), "entryPoint": "main"},
	})
	value, err := await(ctx, creation)
	if caught, scopeErr := await(ctx, scope); scopeErr == nil && caught.Truthy() {
		return js.Undefined(), &Error{Kind: ErrValidation, Label: label, Have: compilationErrors(ctx, raw(module), code, text(caught))}
	}
	if err != nil {
		return js.Undefined(), &Error{Kind: ErrValidation, Label: label, Have: err.Error()}
	}
	return value, nil
}

// compilationErrors lists the compiler's errors with the source lines they point at.
func compilationErrors(ctx context.Context, module js.Value, code, fallback string) string {
	info, err := await(ctx, module.Call("getCompilationInfo"))
	if err != nil {
		return fallback
	}
	lines := strings.Split(code, "\n")
	var out []string
	messages := info.Get("messages")
	for i := range messages.Length() {
		m := messages.Index(i)
		if m.Get("type").String() != "error" {
			continue
		}
		n := m.Get("lineNum").Int()
		source := ""
		if n >= 1 && n <= len(lines) {
			source = strings.TrimSpace(lines[n-1])
		}
		out = append(out, fmt.Sprintf("line %d: %s: %s", n, m.Get("message").String(), source))
	}
	if len(out) == 0 {
		return fallback
	}
	return strings.Join(out, "; ")
}
