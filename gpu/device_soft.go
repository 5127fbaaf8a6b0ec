package gpu

import (
	"context"
	"io"
)

// OpenSoftware opens the driver that runs each kernel's Go reference on ordinary memory. It proves logic, never bit
// identity or the absence of races: those only show on WebGPU.
func OpenSoftware(opt Options) *Device {
	limits := DefaultLimits()
	if !opt.DefaultLimits {
		limits.MaxBufferSize = 4 << 30
		limits.MaxBindingSize = 2<<30 - 4
		limits.MaxStorageBuffers = 10
		limits.WorkgroupMemory = 32 << 10
	}
	return newDevice(&softDriver{}, limits, Features{}, Info{Vendor: "flint", Description: "Go software driver", Software: true})
}

type softBuffer []byte

type softDriver struct{}

func (*softDriver) newBuffer(_ string, size int64, _ bool) (any, error) {
	return softBuffer(make([]byte, size)), nil
}

func (*softDriver) destroyBuffer(any) {}

func (*softDriver) write(b *Buffer, offset int64, data []byte) error {
	copy(b.handle.(softBuffer)[offset:], data)
	return nil
}

func (d *softDriver) upload(ctx context.Context, b *Buffer, offset int64, src io.ReaderAt, srcOffset, n int64, progress func(int64)) error {
	return readChunks(ctx, b.Label, src, srcOffset, n, func(done int64, data []byte) error {
		return d.write(b, offset+done, data)
	}, progress)
}

func (*softDriver) sync(ctx context.Context) error { return ctx.Err() }
func (*softDriver) close()                         {}

func (*softDriver) build(_ context.Context, l *CommandList) (builtList, error) {
	for _, o := range l.ops {
		if o.kind == opDispatch && o.kernel.Reference == nil {
			return nil, &Error{Kind: ErrUnsupported, Label: o.path, Need: "a Go reference", Have: "none"}
		}
	}
	return softList{l}, nil
}

type softList struct{ *CommandList }

func (l softList) submit(writes []Write, p *Pending) error {
	for _, w := range writes {
		copy(w.Buffer.handle.(softBuffer)[w.Offset:], w.Data)
	}
	for _, o := range l.ops {
		switch o.kind {
		case opDispatch:
			o.kernel.Reference(&Call{Grid: o.grid, Params: o.params, Tensors: o.tensors})
		case opCopy:
			dst, src := o.tensors[0], o.tensors[1]
			copy(dst.Buffer.handle.(softBuffer)[dst.Offset:dst.Offset+dst.Bytes()], src.Buffer.handle.(softBuffer)[src.Offset:])
		}
	}
	if t := l.readback; t.Buffer != nil {
		copy(p.data, t.Buffer.handle.(softBuffer)[t.Offset:])
		close(p.done)
	}
	return nil
}

func (softList) profile(context.Context, int) ([]float64, error) {
	return nil, &Error{Kind: ErrUnsupported, Label: "profile", Need: "timestamp queries", Have: "the software driver"}
}

func (softList) release() {}
