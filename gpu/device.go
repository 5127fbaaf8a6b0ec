// Package gpu is the only room that knows WebGPU exists. It opens a device, keeps tensors in its memory, records
// dispatches into command lists and replays a list in one call. Two drivers stand behind the same Device: WebGPU
// (js/wasm; browsers, and Node with Dawn) and a software driver (every platform) that runs each kernel's Go
// reference, so that everything above can be tested without a GPU.
//
// The WebGPU driver uses cogentcore/webgpu for buffers, bind group layouts, bind groups, shader modules and pipeline
// layouts. It bypasses the binding through syscall/js where that loses information (v0.23.0): requesting the adapter's
// limits and features and reading them, adapter info, error scopes and uncaptured errors, device.lost and
// device.destroy, asynchronous pipelines, labels, mapAsync (the binding reports success for every map), timestamp
// queries, writeBuffer (the binding's view of Go memory can be detached by a growing heap), and the replay of command
// lists, which web/replay.js does in one call.
package gpu

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Limits are the device limits that shape recordings, in bytes unless said otherwise.
type Limits struct {
	MaxBufferSize           int64
	MaxBindingSize          int64 // of a storage buffer
	MaxStorageBuffers       int   // per kernel
	MaxWorkgroups           int   // per grid dimension
	MaxInvocations          int   // per workgroup
	WorkgroupMemory         int64
	BindingOffsetAlignment  int64
	MaxUniformBindingSize   int64
	MaxWorkgroupDimensionXY int
}

// DefaultLimits are the ones every WebGPU device has.
func DefaultLimits() Limits {
	return Limits{
		MaxBufferSize:           256 << 20,
		MaxBindingSize:          128 << 20,
		MaxStorageBuffers:       8,
		MaxWorkgroups:           65535,
		MaxInvocations:          256,
		WorkgroupMemory:         16 << 10,
		BindingOffsetAlignment:  256,
		MaxUniformBindingSize:   64 << 10,
		MaxWorkgroupDimensionXY: 256,
	}
}

// Features are what a kernel may choose its variant by.
type Features struct {
	Subgroups    bool // shuffles, with lanes mapped linearly (probed when the device opens)
	SubgroupSize int  // smallest the device may use; 0 without Subgroups
	F16          bool // shader-f16
	Timestamps   bool
	Serial       bool // a CPU rasteriser: barrier-free kernels, one thread an output, are several times faster there
}

// Info names the adapter, as the browser tells it.
type Info struct {
	Vendor, Architecture, Device, Description string
	Software                                  bool // the Go software driver or a CPU rasteriser
}

func (i Info) String() string {
	s := i.Description
	for _, part := range []string{i.Device, i.Architecture, i.Vendor} {
		if s == "" {
			s = part
		}
	}
	if s == "" {
		s = "unnamed adapter"
	}
	if i.Vendor != "" && i.Vendor != s {
		s += " (" + i.Vendor + ")"
	}
	return s
}

// Options ask for a device.
type Options struct {
	// DefaultLimits asks for the limits every device has instead of all the adapter offers: what works so, works
	// everywhere.
	DefaultLimits bool
}

// driver is the seam between the recorder and what runs its lists.
type driver interface {
	newBuffer(label string, size int64, uniform bool) (any, error)
	destroyBuffer(handle any)
	write(b *Buffer, offset int64, data []byte) error
	upload(ctx context.Context, b *Buffer, offset int64, src io.ReaderAt, srcOffset, n int64, progress func(int64)) error
	build(ctx context.Context, l *CommandList) (builtList, error)
	sync(ctx context.Context) error
	close()
}

// builtList is a command list as a driver keeps it.
type builtList interface {
	submit(writes []Write, p *Pending) error
	profile(ctx context.Context, repeats int) ([]float64, error) // nanoseconds of each dispatch
	release()
}

// Device is an opened GPU. Its methods may be called from any goroutine, but never from a JavaScript callback: they
// wait.
type Device struct {
	Limits   Limits
	Features Features
	Info     Info

	driver driver
	shared *deviceState
}

// deviceState is what all restricted views of one device share.
type deviceState struct {
	mu        sync.Mutex
	err       error         // first asynchronous failure
	lost      chan struct{} // closed when the device is lost
	allocated int64
}

func newDevice(d driver, limits Limits, features Features, info Info) *Device {
	return &Device{Limits: limits, Features: features, Info: info, driver: d, shared: &deviceState{lost: make(chan struct{})}}
}

// Restrict returns a view of the same device whose kernels see only the given features, so that a test can run each
// variant of a kernel on one adapter.
func (d *Device) Restrict(f Features) *Device {
	view := *d
	view.Features = f
	return &view
}

// Allocated returns the bytes of all live buffers.
func (d *Device) Allocated() int64 {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()
	return d.shared.allocated
}

// Err returns the first failure that WebGPU reported asynchronously: a lost device, or an error outside any scope.
// Every wait returns it too, so that no failure is only logged.
func (d *Device) Err() error {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()
	return d.shared.err
}

// Lost is closed when the device is gone; everything on it has to be built anew on another device.
func (d *Device) Lost() <-chan struct{} { return d.shared.lost }

// Sync waits until everything submitted has run.
func (d *Device) Sync(ctx context.Context) error {
	if err := d.Err(); err != nil {
		return err
	}
	if err := d.driver.sync(ctx); err != nil {
		return err
	}
	return d.Err()
}

// Close destroys the device and every buffer on it. To whoever still waits or submits it is lost.
func (d *Device) Close() {
	d.shared.fail(&Error{Kind: ErrLost, Have: "it was closed"}, true)
	d.driver.close()
}

func (s *deviceState) fail(err error, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil || lost {
		s.err = err
	}
	if lost {
		select {
		case <-s.lost:
		default:
			close(s.lost)
		}
	}
}

// Buffer is a range of GPU memory. Its lifetime is explicit: Destroy frees it.
type Buffer struct {
	Label string
	Size  int64 // bytes, a multiple of 4

	device    *Device
	handle    any
	destroyed bool
}

// NewBuffer allocates zeroed memory for kernels to read and write. Sizes are rounded up to whole words.
func (d *Device) NewBuffer(label string, size int64) (*Buffer, error) {
	return d.newBuffer(label, size, false)
}

// NewUniformBuffer allocates a buffer that kernels can bind as storage and as Uniform.
func (d *Device) NewUniformBuffer(label string, size int64) (*Buffer, error) {
	return d.newBuffer(label, size, true)
}

func (d *Device) newBuffer(label string, size int64, uniform bool) (*Buffer, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	size = roundUp(size, 4)
	if size <= 0 {
		return nil, &Error{Kind: ErrValidation, Label: label, Need: "a positive size", Have: fmt.Sprintf("%d bytes", size)}
	}
	if size > d.Limits.MaxBufferSize {
		return nil, &Error{Kind: ErrUnsupported, Label: label, Need: fmt.Sprintf("a buffer of %d bytes", size), Have: fmt.Sprintf("a device limit of %d", d.Limits.MaxBufferSize)}
	}
	handle, err := d.driver.newBuffer(label, size, uniform)
	if err != nil {
		return nil, err
	}
	d.shared.mu.Lock()
	d.shared.allocated += size
	d.shared.mu.Unlock()
	return &Buffer{Label: label, Size: size, device: d, handle: handle}, nil
}

// Destroy frees the memory at once. A second call does nothing.
func (b *Buffer) Destroy() {
	if b == nil || b.destroyed {
		return
	}
	b.destroyed = true
	b.device.driver.destroyBuffer(b.handle)
	b.device.shared.mu.Lock()
	b.device.shared.allocated -= b.Size
	b.device.shared.mu.Unlock()
}

// Write copies data into the buffer before anything submitted later runs. Offset and length are multiples of 4.
func (d *Device) Write(b *Buffer, offset int64, data []byte) error {
	if err := d.checkRange(b, offset, int64(len(data))); err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return err
	}
	if len(data) == 0 {
		return nil
	}
	return d.driver.write(b, offset, data)
}

// Upload moves n bytes of src from srcOffset into the buffer, in bounded pieces. A src with a method Blob() js.Value
// (a browser File) is read and written by JavaScript alone: its bytes never enter Go memory. Offset is a multiple of
// 4; n is any count that fits, the last word is padded with zeros. progress, if not nil, is told bytes as they go.
func (d *Device) Upload(ctx context.Context, b *Buffer, offset int64, src io.ReaderAt, srcOffset, n int64, progress func(int64)) error {
	if err := d.checkRange(b, offset, roundUp(n, 4)); err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int64) {}
	}
	if n == 0 {
		return nil
	}
	if err := d.driver.upload(ctx, b, offset, src, srcOffset, n, progress); err != nil {
		return err
	}
	return d.Err()
}

// usable says what is wrong with a buffer for commands of this device, as (have, need); need is empty when all is well.
// WebGPU would refuse whole submissions, and after that the device reports the error for ever.
func (d *Device) usable(b *Buffer) (have, need string) {
	switch {
	case b == nil:
		return "nil", "a buffer"
	case b.destroyed:
		return "it is destroyed", "a live buffer"
	case b.device.shared != d.shared:
		return "it lies on another device", "one device"
	}
	return "", ""
}

func (d *Device) checkRange(b *Buffer, offset, n int64) error {
	if have, need := d.usable(b); need != "" {
		label := ""
		if b != nil {
			label = b.Label
		}
		return &Error{Kind: ErrValidation, Label: label, Need: need, Have: have}
	}
	switch {
	case offset < 0 || offset%4 != 0 || n < 0 || n%4 != 0 || offset > b.Size-n:
		return &Error{
			Kind: ErrValidation, Label: b.Label, Need: fmt.Sprintf("a range of whole words inside %d bytes", b.Size),
			Have: fmt.Sprintf("offset %d, length %d", offset, n),
		}
	}
	return nil
}

// uploadChunk bounds the memory an upload holds at a time.
const uploadChunk = 16 << 20

// readChunks feeds a range of src to write in bounded, word-padded pieces: the upload of everything that is not a
// browser File.
func readChunks(ctx context.Context, label string, src io.ReaderAt, srcOffset, n int64, write func(done int64, data []byte) error, progress func(int64)) error {
	buf := make([]byte, roundUp(min(n, uploadChunk), 4))
	for done := int64(0); done < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := min(n-done, uploadChunk)
		got, err := src.ReadAt(buf[:piece], srcOffset+done)
		if int64(got) < piece {
			return fmt.Errorf("%s: reading %d bytes at %d: got %d: %w", label, piece, srcOffset+done, got, err)
		}
		padded := roundUp(piece, 4)
		clear(buf[piece:padded])
		if err := write(done, buf[:padded]); err != nil {
			return err
		}
		done += piece
		progress(piece)
	}
	return nil
}
