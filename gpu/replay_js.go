package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall/js"

	"github.com/cogentcore/webgpu/wgpu"
)

// Words of a list as web/replay.js reads them.
const (
	wordPipeline = iota // index
	wordGroup           // index
	wordDispatch        // x y z
	wordCopy            // source id, offset/4, destination id, offset/4, length/4
	wordCut
)

// paramStride keeps each Params struct at an offset every device can bind.
const paramStride = 256

// webgpuList is a command list on the JavaScript side.
type webgpuList struct {
	driver *webgpuDriver
	list   js.Value
	params *wgpu.Buffer
	writes []uint32 // reused: the small updates of a submission
}

func (d *webgpuDriver) build(ctx context.Context, l *CommandList) (builtList, error) {
	var compiling []*pipeline // by first use
	index := map[*pipeline]int{}
	var ops []uint32
	groups := js.Global().Get("Array").New()
	built := &webgpuList{driver: d}
	err := d.scoped(ctx, l.Label, "bind groups", func() {
		if len(l.paramBlocks) > 0 {
			data := make([]byte, paramStride*len(l.paramBlocks))
			for i, block := range l.paramBlocks {
				for j, w := range block {
					binary.LittleEndian.PutUint32(data[paramStride*i+4*j:], w)
				}
			}
			built.params, _ = d.device.CreateBuffer(&wgpu.BufferDescriptor{Label: l.Label + ".params", Size: uint64(len(data)), Usage: wgpu.BufferUsageUniform | wgpu.BufferUsageCopyDst})
			id := d.replay.Call("addBuffer", raw(built.params)).Int()
			d.writeFn.Invoke(d.js, id, 0, pointer(data), len(data))
			d.replay.Call("dropBuffer", id)
		}
		lastPipeline := -1
		for _, o := range l.ops {
			switch o.kind {
			case opDispatch:
				layout := d.layout(o.kernel)
				p := d.pipelineFor(o.kernel, o.variant, layout)
				if _, known := index[p]; !known {
					index[p] = len(compiling)
					compiling = append(compiling, p)
				}
				if index[p] != lastPipeline {
					lastPipeline = index[p]
					ops = append(ops, wordPipeline, uint32(lastPipeline))
				}
				ops = append(ops, wordGroup, uint32(groups.Length()), wordDispatch, uint32(o.grid.X), uint32(o.grid.Y), uint32(o.grid.Z))
				groups.Call("push", d.bindGroup(o, layout, built.params))
			case opCopy:
				dst, src := o.tensors[0], o.tensors[1]
				ops = append(ops, wordCopy, uint32(src.Buffer.handle.(webgpuBuffer).id), uint32(src.Offset/4),
					uint32(dst.Buffer.handle.(webgpuBuffer).id), uint32(dst.Offset/4), uint32(dst.Bytes()/4))
				lastPipeline = -1 // a copy ends the pass
			case opCut:
				ops = append(ops, wordCut)
				lastPipeline = -1
			}
		}
	})
	if err != nil {
		built.release()
		return nil, err
	}
	pipelines := js.Global().Get("Array").New()
	for _, p := range compiling {
		select {
		case <-p.ready:
		case <-ctx.Done():
			built.release()
			return nil, ctx.Err()
		}
		if p.err != nil {
			built.release()
			return nil, p.err
		}
		pipelines.Call("push", p.value)
	}
	readback := js.Null()
	if t := l.readback; t.Buffer != nil {
		readback = js.ValueOf(map[string]any{"id": t.Buffer.handle.(webgpuBuffer).id, "offset": t.Offset, "size": t.Bytes()})
	}
	words := js.Global().Get("Uint32Array").New(len(ops))
	for i, w := range ops {
		words.SetIndex(i, w)
	}
	built.list = d.replay.Call("build", d.js, words, pipelines, groups, readback, d.done)
	return built, nil
}

// bindGroup binds a dispatch's parameter block and tensors, each as whole words of exactly its range.
func (d *webgpuDriver) bindGroup(o op, layout *kernelLayout, params *wgpu.Buffer) js.Value {
	entries := []wgpu.BindGroupEntry{{Binding: 0, Buffer: params, Offset: uint64(paramStride * o.paramBlock), Size: paramStride}}
	for i, t := range o.tensors {
		entries = append(entries, wgpu.BindGroupEntry{
			Binding: uint32(i + 1), Buffer: t.Buffer.handle.(webgpuBuffer).buffer, Offset: uint64(t.Offset), Size: uint64(roundUp(t.Bytes(), 4)),
		})
	}
	g, _ := d.device.CreateBindGroup(&wgpu.BindGroupDescriptor{Label: o.path, Layout: layout.group, Entries: entries})
	raw(g).Set("label", o.path)
	return raw(g)
}

func (l *webgpuList) submit(writes []Write, p *Pending) error {
	d := l.driver
	l.writes = l.writes[:0]
	for _, w := range writes {
		l.writes = append(l.writes, uint32(w.Buffer.handle.(webgpuBuffer).id), uint32(w.Offset/4), uint32(len(w.Data)/4))
		for i := 0; i < len(w.Data); i += 4 {
			l.writes = append(l.writes, binary.LittleEndian.Uint32(w.Data[i:]))
		}
	}
	d.mu.Lock()
	d.nextToken++
	token := d.nextToken
	if p.data != nil {
		d.pending[token] = p
	}
	d.mu.Unlock()
	err := safely("submit", func() {
		d.submitFn.Invoke(l.list, pointer(l.writes), len(l.writes), pointer(p.data), token)
	})
	if err != nil {
		d.mu.Lock()
		delete(d.pending, token)
		d.mu.Unlock()
	}
	return err
}

func (l *webgpuList) profile(ctx context.Context, repeats int) ([]float64, error) {
	if !l.driver.js.Get("features").Call("has", "timestamp-query").Bool() {
		return nil, &Error{Kind: ErrUnsupported, Label: "profile", Need: "timestamp queries", Have: "an adapter without"}
	}
	v, err := await(ctx, l.driver.replay.Call("profile", l.list, repeats))
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	nanos := make([]float64, v.Length())
	for i := range nanos {
		nanos[i] = v.Index(i).Float()
	}
	return nanos, nil
}

func (l *webgpuList) release() {
	if l.params != nil {
		l.params.Destroy()
		l.params = nil
	}
	if l.list.Truthy() {
		l.driver.replay.Call("release", l.list)
		l.list = js.Undefined()
	}
}
