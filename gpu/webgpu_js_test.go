package gpu_test

import (
	"context"
	"errors"
	"strings"
	"syscall/js"
	"testing"
	"time"

	"flint/gpu"
	"flint/gpu/gputest"
)

func TestBadShaderNamesLineAndKernel(t *testing.T) {
	d := gputest.WebGPU(t)
	h := gputest.New(t, d, "bad")
	x := h.In("x", gpu.F32, []float32{1}, 1)
	y := h.Out("y", gpu.F32, 1)
	bad := *double
	bad.Name = "broken"
	bad.WGSL = strings.Replace(doubleWGSL, "2.0 * x", "nonsense * x", 1)
	r := d.NewRecorder("list")
	r.Dispatch(&bad, gpu.Variant{Name: "v1"}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(1, float32(0)), y, x)
	_, err := r.Finish(context.Background())
	if !errors.Is(err, gpu.ErrValidation) || !strings.Contains(err.Error(), "broken.v1") || !strings.Contains(err.Error(), "line 8") || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("got %v", err)
	}
	if d.Err() != nil {
		t.Fatalf("a bad shader must not spoil the device: %v", d.Err())
	}
}

func TestOutOfMemoryIsTyped(t *testing.T) {
	d := gputest.WebGPU(t)
	var held []*gpu.Buffer
	defer func() {
		for _, b := range held {
			b.Destroy()
		}
	}()
	if d.Limits.MaxBufferSize < 1<<40 {
		t.Skipf("this adapter grants no buffer large enough to fail (limit %d)", d.Limits.MaxBufferSize)
	}
	_, err := d.NewBuffer("weights", 1<<40)
	if !errors.Is(err, gpu.ErrOutOfMemory) && !errors.Is(err, gpu.ErrValidation) {
		t.Fatalf("got %v", err)
	}
}

func TestWaitEndsWhenTheDeviceIsLost(t *testing.T) {
	gputest.WebGPU(t)
	d, err := gpu.Open(context.Background(), gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.NewBuffer("b", 1024)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	select {
	case <-d.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("the loss was not noticed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := d.Download(ctx, gpu.Tensor{Buffer: b, Shape: []int{4}, DType: gpu.U32}); !errors.Is(err, gpu.ErrLost) {
		t.Fatalf("download: %v", err)
	}
	if _, err := d.NewBuffer("c", 4); !errors.Is(err, gpu.ErrLost) {
		t.Fatalf("new buffer: %v", err)
	}
}

// jsBlob is a Blob as the browser's File is: the uploader takes it without reading a byte in Go.
type jsBlob struct{ v js.Value }

func (b jsBlob) Blob() js.Value                    { return b.v }
func (b jsBlob) ReadAt([]byte, int64) (int, error) { panic("weight bytes entered Go") }

func TestBlobsGoToTheGPUWithoutGo(t *testing.T) {
	d := gputest.WebGPU(t)
	ctx := context.Background()
	const size = 33<<20 + 7
	data := js.Global().Get("Uint8Array").New(size)
	js.Global().Call("eval", "(a) => { for (let i = 0; i < a.length; i++) a[i] = (i * 31 + (i >> 8)) & 255; }").Invoke(data)
	blob := jsBlob{js.Global().Get("Blob").New([]any{data})}
	b, err := d.NewBuffer("weights", size)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Destroy()
	const from = 13
	n := int64(size - from)
	if err := d.Upload(ctx, b, 0, blob, from, n, nil); err != nil {
		t.Fatal(err)
	}
	got, err := d.Download(ctx, gpu.Tensor{Buffer: b, Shape: []int{int(n+3) / 4}, DType: gpu.U32})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int(n) {
		if j := i + from; got[i] != byte(j*31+j>>8) {
			t.Fatalf("byte %d is %d, want %d", i, got[i], byte(j*31+j>>8))
		}
	}
	if err := d.Upload(ctx, b, 0, blob, size-4, 8, nil); err == nil || !strings.Contains(err.Error(), "read 4 of 8") {
		t.Fatalf("past the end: %v", err)
	}
}

// TestUploadCancelledMidway cancels an upload at each of its pieces: it ends at once, says nothing more, and the buffer may be
// destroyed while JavaScript still holds the piece under way.
func TestUploadCancelledMidway(t *testing.T) {
	d := gputest.WebGPU(t)
	const size = 80 << 20 // the queue is awaited once on the way
	blob := jsBlob{js.Global().Get("Blob").New([]any{js.Global().Get("Uint8Array").New(size)})}
	for pieces := range 6 {
		b, err := d.NewBuffer("weights", size)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		told, ended := 0, false
		if pieces == 0 {
			cancel()
		}
		err = d.Upload(ctx, b, 0, blob, 0, size, func(int64) {
			if ended {
				t.Error("progress after the end of a cancelled upload")
			}
			if told++; told == pieces {
				cancel()
			}
		})
		ended = true
		b.Destroy()
		if pieces < 5 && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d of 5 pieces: %v", pieces, err)
		}
		cancel()
		if err := d.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // for the piece that was under way
	}
	good, x, _ := doubling(t, d)
	runs(t, "cancelled uploads", good, x)
}

// TestUncapturedErrorsSurface: an error that WebGPU reports outside of any scope comes back from the next wait.
func TestUncapturedErrorsSurface(t *testing.T) {
	gputest.WebGPU(t)
	d, err := gpu.Open(context.Background(), gpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, _, _ := doubling(t, d)
	gpu.Provoke(d)
	if err := d.Sync(context.Background()); !errors.Is(err, gpu.ErrValidation) || !strings.Contains(err.Error(), "uncaptured") {
		t.Errorf("sync: %v", err)
	}
	if _, err := list.Submit(); !errors.Is(err, gpu.ErrValidation) {
		t.Errorf("submit: %v", err)
	}
}

// TestCancelledBuildSaysSo: a load cancelled while kernels compile is cancelled, not a lost device.
func TestCancelledBuildSaysSo(t *testing.T) {
	d := gputest.WebGPU(t)
	good, x, y := doubling(t, d)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := d.NewRecorder("cancelled")
	slow := *double
	slow.Name = "cancelled"
	r.Dispatch(&slow, gpu.Variant{Prelude: "// a text of its own, so that it is compiled\n"}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(4, float32(0)), y, x)
	if _, err := r.Finish(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, gpu.ErrLost) {
		t.Errorf("finish: %v", err)
	}
	if err := d.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("sync: %v", err)
	}
	if _, err := d.Download(ctx, y); !errors.Is(err, context.Canceled) {
		t.Errorf("download: %v", err)
	}
	if _, err := gpu.Open(ctx, gpu.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	runs(t, "cancelled calls", good, x)
}

func TestProfileSumsByKernel(t *testing.T) {
	d := gputest.WebGPU(t)
	if !d.Features.Timestamps {
		t.Skip("the adapter has no timestamp queries")
	}
	h := gputest.New(t, d, "profile")
	x := h.In("x", gpu.F32, []float32{1}, 1)
	y := h.Out("y", gpu.F32, 1)
	r := d.NewRecorder("list")
	for range 3 {
		r.Dispatch(double, gpu.Variant{}, gpu.Grid{X: 1, Y: 1, Z: 1}, gpu.Params(1, float32(0)), y, x)
	}
	l, err := r.Finish(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	times, err := l.Profile(context.Background(), 2)
	if err != nil || len(times) != 1 || times[0].Label != "double" || times[0].Dispatches != 3 {
		t.Fatalf("%v %+v", err, times)
	}
}
