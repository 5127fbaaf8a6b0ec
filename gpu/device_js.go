package gpu

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall/js"

	"github.com/cogentcore/webgpu/wgpu"
)

// Open requests a WebGPU adapter and a device with all the limits and features that the kernels can use.
func Open(ctx context.Context, opt Options) (*Device, error) {
	var d *Device
	var openErr error
	err := safely("open", func() { d, openErr = open(ctx, opt) })
	if err == nil {
		err = openErr
	}
	return d, err
}

func open(ctx context.Context, opt Options) (*Device, error) {
	replay := js.Global().Get("flintReplay")
	if !replay.Truthy() {
		return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "web/replay.js loaded before the Go program", Have: "no flintReplay"}
	}
	api := js.Global().Get("navigator").Get("gpu")
	if !api.Truthy() {
		return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "WebGPU in a secure context (https or localhost)", Have: "no navigator.gpu"}
	}
	adapter, err := await(ctx, api.Call("requestAdapter", map[string]any{"powerPreference": "high-performance"}))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "a WebGPU adapter", Have: err.Error()}
	}
	if !adapter.Truthy() {
		return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "a WebGPU adapter", Have: "none offered"}
	}
	info := adapterInfo(adapter)
	required := map[string]any{}
	if !opt.DefaultLimits {
		for _, name := range limitNames {
			if v := adapter.Get("limits").Get(name); v.Type() == js.TypeNumber {
				required[name] = v
			}
		}
	}
	var names []any
	features := Features{Serial: info.Software}
	has := func(name string) bool {
		if !adapter.Get("features").Call("has", name).Bool() {
			return false
		}
		names = append(names, name)
		return true
	}
	features.Timestamps = has("timestamp-query")
	if !opt.DefaultLimits {
		features.Subgroups = has("subgroups")
		features.F16 = has("shader-f16")
	}
	jsDevice, err := await(ctx, adapter.Call("requestDevice", map[string]any{"requiredLimits": required, "requiredFeatures": names}))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{Kind: ErrUnsupported, Label: "open", Need: "a device of " + info.String(), Have: err.Error()}
	}
	wrapped := wgpu.NewDevice(jsDevice)
	drv := &webgpuDriver{device: &wrapped, js: jsDevice, replay: replay, submitFn: replay.Get("submit"), writeFn: replay.Get("write"), layouts: map[*Kernel]*kernelLayout{}, pipelines: map[pipelineKey]*pipeline{}, pending: map[int]*Pending{}}
	d := newDevice(drv, readLimits(jsDevice.Get("limits")), features, info)
	drv.state = d.shared
	drv.listen()
	if features.Subgroups {
		d.Features.Subgroups = false // the probe itself decides
		size, err := probeSubgroups(ctx, d)
		if err != nil {
			d.Close()
			return nil, err
		}
		d.Features.Subgroups, d.Features.SubgroupSize = size > 0, size
	}
	return d, nil
}

// limitNames are the limits worth asking for; the defaults serve for the rest.
var limitNames = []string{
	"maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage", "maxUniformBufferBindingSize",
	"maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX",
	"maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ", "maxComputeWorkgroupsPerDimension",
}

func readLimits(v js.Value) Limits {
	l := DefaultLimits()
	number := func(name string, def int64) int64 {
		if n := v.Get(name); n.Type() == js.TypeNumber {
			return int64(n.Float())
		}
		return def
	}
	l.MaxBufferSize = number("maxBufferSize", l.MaxBufferSize)
	l.MaxBindingSize = number("maxStorageBufferBindingSize", l.MaxBindingSize)
	l.MaxStorageBuffers = int(number("maxStorageBuffersPerShaderStage", int64(l.MaxStorageBuffers)))
	l.MaxWorkgroups = int(number("maxComputeWorkgroupsPerDimension", int64(l.MaxWorkgroups)))
	l.MaxInvocations = int(number("maxComputeInvocationsPerWorkgroup", int64(l.MaxInvocations)))
	l.WorkgroupMemory = number("maxComputeWorkgroupStorageSize", l.WorkgroupMemory)
	l.BindingOffsetAlignment = number("minStorageBufferOffsetAlignment", l.BindingOffsetAlignment)
	l.MaxUniformBindingSize = number("maxUniformBufferBindingSize", l.MaxUniformBindingSize)
	l.MaxWorkgroupDimensionXY = int(number("maxComputeWorkgroupSizeX", int64(l.MaxWorkgroupDimensionXY)))
	l.BindingOffsetAlignment = max(l.BindingOffsetAlignment, number("minUniformBufferOffsetAlignment", 256))
	return l
}

func adapterInfo(adapter js.Value) Info {
	v := adapter.Get("info")
	if !v.Truthy() {
		return Info{}
	}
	field := func(name string) string {
		if f := v.Get(name); f.Type() == js.TypeString {
			return f.String()
		}
		return ""
	}
	info := Info{Vendor: field("vendor"), Architecture: field("architecture"), Device: field("device"), Description: field("description")}
	all := strings.ToLower(info.Vendor + " " + info.Architecture + " " + info.Device + " " + info.Description)
	for _, name := range []string{"swiftshader", "llvmpipe", "lavapipe", "basic render driver"} {
		info.Software = info.Software || strings.Contains(all, name)
	}
	if f := v.Get("isFallbackAdapter"); f.Type() == js.TypeBoolean {
		info.Software = info.Software || f.Bool()
	}
	return info
}

// webgpuDriver runs lists on a browser's (or Dawn's) device.
type webgpuDriver struct {
	device   *wgpu.Device
	js       js.Value
	replay   js.Value
	submitFn js.Value
	writeFn  js.Value
	state    *deviceState
	closed   bool

	mu        sync.Mutex
	layouts   map[*Kernel]*kernelLayout
	pipelines map[pipelineKey]*pipeline
	pending   map[int]*Pending
	nextToken int
	done      js.Func
}

// webgpuBuffer is a buffer's handle: the binding's object and its number in replay.js.
type webgpuBuffer struct {
	buffer *wgpu.Buffer
	id     int
}

// listen turns what WebGPU reports on its own into the device's sticky error.
func (d *webgpuDriver) listen() {
	onError := js.FuncOf(func(_ js.Value, args []js.Value) any {
		e := first(args).Get("error")
		kind := ErrValidation
		if ctor := e.Get("constructor"); ctor.Truthy() && ctor.Get("name").String() == "GPUOutOfMemoryError" {
			kind = ErrOutOfMemory
		}
		d.state.fail(&Error{Kind: kind, Label: "uncaptured error", Have: text(e)}, false)
		return nil
	})
	onLost := js.FuncOf(func(_ js.Value, args []js.Value) any {
		info := first(args)
		have := info.Get("reason").String()
		if m := text(info); m != "" {
			have += ": " + m
		}
		d.state.fail(&Error{Kind: ErrLost, Have: have}, true)
		return nil
	})
	d.js.Set("onuncapturederror", onError)
	d.js.Get("lost").Call("then", onLost)
	d.done = js.FuncOf(func(_ js.Value, args []js.Value) any {
		d.finish(args[0].Int(), args[1])
		return nil
	})
}

func (d *webgpuDriver) finish(token int, problem js.Value) {
	d.mu.Lock()
	p := d.pending[token]
	delete(d.pending, token)
	d.mu.Unlock()
	if p == nil {
		return
	}
	if problem.Type() == js.TypeString {
		p.err = &Error{Kind: ErrLost, Label: "readback", Have: problem.String()}
	}
	close(p.done)
}

func (d *webgpuDriver) newBuffer(label string, size int64, uniform bool) (any, error) {
	usage := wgpu.BufferUsageStorage | wgpu.BufferUsageCopySrc | wgpu.BufferUsageCopyDst
	if uniform {
		usage |= wgpu.BufferUsageUniform
	}
	var b *wgpu.Buffer
	var id int
	err := d.scoped(context.Background(), label, fmt.Sprintf("%d bytes", size), func() {
		b, _ = d.device.CreateBuffer(&wgpu.BufferDescriptor{Label: label, Size: uint64(size), Usage: usage})
		id = d.replay.Call("addBuffer", raw(b)).Int()
	})
	if err != nil {
		return nil, err
	}
	return webgpuBuffer{b, id}, nil
}

// scoped runs f inside validation and out-of-memory scopes and returns what they caught.
func (d *webgpuDriver) scoped(ctx context.Context, label, need string, f func()) error {
	d.js.Call("pushErrorScope", "validation")
	d.js.Call("pushErrorScope", "out-of-memory")
	thrown := safely(label, f)
	memory := d.js.Call("popErrorScope")
	validation := d.js.Call("popErrorScope")
	if thrown != nil {
		return thrown
	}
	for _, scope := range []struct {
		kind    error
		promise js.Value
	}{{ErrOutOfMemory, memory}, {ErrValidation, validation}} {
		caught, err := await(ctx, scope.promise)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return &Error{Kind: ErrLost, Label: label, Have: err.Error()}
		}
		if caught.Truthy() {
			return &Error{Kind: scope.kind, Label: label, Need: need, Have: text(caught)}
		}
	}
	return nil
}

func (d *webgpuDriver) destroyBuffer(handle any) {
	b := handle.(webgpuBuffer)
	d.replay.Call("dropBuffer", b.id)
	b.buffer.Destroy()
}

func (d *webgpuDriver) write(b *Buffer, offset int64, data []byte) error {
	return safely(b.Label, func() {
		d.writeFn.Invoke(d.js, b.handle.(webgpuBuffer).id, offset, pointer(data), len(data))
	})
}

func (d *webgpuDriver) upload(ctx context.Context, b *Buffer, offset int64, src io.ReaderAt, srcOffset, n int64, progress func(int64)) error {
	blob, ok := src.(interface{ Blob() js.Value })
	if !ok {
		queued := int64(0)
		return readChunks(ctx, b.Label, src, srcOffset, n, func(done int64, data []byte) error {
			if err := d.write(b, offset+done, data); err != nil {
				return err
			}
			if queued += int64(len(data)); queued >= 4*uploadChunk { // staging memory stays bounded
				queued = 0
				return d.sync(ctx)
			}
			return nil
		}, progress)
	}
	signal := js.Global().Get("Object").New()
	report := js.FuncOf(func(_ js.Value, args []js.Value) any {
		progress(int64(args[0].Float()))
		return nil
	})
	finished := d.replay.Call("upload", d.js, b.handle.(webgpuBuffer).id, offset, blob.Blob(), srcOffset, srcOffset+n, signal, report)
	_, err := await(ctx, finished)
	if ctx.Err() != nil {
		signal.Set("cancelled", true)
		// Its last piece may still be on the way: report lives until JavaScript is done with it.
		go func() { _, _ = await(context.Background(), finished); report.Release() }()
		return ctx.Err()
	}
	report.Release()
	if err != nil {
		return fmt.Errorf("%s: %w", b.Label, err)
	}
	return nil
}

func (d *webgpuDriver) sync(ctx context.Context) error {
	_, err := await(ctx, d.js.Get("queue").Call("onSubmittedWorkDone"))
	if err != nil && ctx.Err() == nil {
		return &Error{Kind: ErrLost, Label: "sync", Have: err.Error()} // it is rejected for no other reason
	}
	return err
}

func (d *webgpuDriver) close() {
	if !d.closed {
		d.closed = true
		d.js.Call("destroy")
	}
}
