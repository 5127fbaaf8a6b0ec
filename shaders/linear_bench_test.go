package shaders

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"flint/gpu"
	"flint/gpu/gputest"
)

// Benchmarks of matvec and matmul on a real GPU; on anything else they skip. Each first compares a few outputs with
// float64 sums. Dispatches write one output tensor, so that each waits for the one before, as in a model.
const (
	benchDispatches = 64        // of a submission
	benchInFlight   = 8         // submissions between waits
	benchWeights    = 256 << 20 // bytes of weights that take turns, so that no cache holds them
	benchPattern    = 1 << 20   // bytes of random weights, repeated
)

type benchShape struct{ n, k int }

func BenchmarkMatVec(b *testing.B) {
	d := realGPU(b)
	for _, dtype := range linearDTypes {
		for _, shape := range []benchShape{{2048, 2048}, {8192, 2048}, {2048, 8192}, {131072, 2048}} {
			b.Run(fmt.Sprintf("%v/%dx%d", dtype, shape.n, shape.k), func(b *testing.B) {
				weights, pattern := benchMatrices(b, d, dtype, shape)
				for _, rows := range []int{1, 2, 4, 8} {
					b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
						seconds := benchLinear(b, d, MatVec, weights, pattern, rows, benchDispatches)
						b.ReportMetric(float64(weights[0].Blocks[0].Bytes())/seconds/1e9, "GB/s")
						b.ReportMetric(seconds*1e6, "µs/dispatch")
					})
				}
			})
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	d := realGPU(b)
	for _, dtype := range []gpu.DType{gpu.F32, gpu.BF16} {
		for _, shape := range []benchShape{{2048, 2048}, {8192, 2048}, {2048, 8192}} {
			b.Run(fmt.Sprintf("%v/%dx%d", dtype, shape.n, shape.k), func(b *testing.B) {
				weights, pattern := benchMatrices(b, d, dtype, shape)
				for _, rows := range []int{64, 512, 2048} {
					b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
						seconds := benchLinear(b, d, MatMul, weights, pattern, rows, 8)
						b.ReportMetric(2*float64(rows)*float64(shape.n)*float64(shape.k)/seconds/1e12, "TFLOP/s")
						b.ReportMetric(seconds*1e6, "µs/dispatch")
					})
				}
			})
		}
	}
}

func realGPU(b *testing.B) *gpu.Device {
	d := gputest.WebGPU(b)
	if d.Info.Software {
		b.Skipf("%v is no GPU, skipped", d.Info)
	}
	return d
}

// benchMatrices makes enough equal matrices to defeat the caches, filled on the GPU by copies of one random pattern.
// Element i of each is element i modulo len(pattern) of the pattern.
func benchMatrices(b *testing.B, d *gpu.Device, dtype gpu.DType, shape benchShape) (weights []Weight, pattern []float32) {
	b.Helper()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	pattern = make([]float32, benchPattern/dtype.Size())
	for i := range pattern {
		pattern[i] = float32(rng.NormFloat64())
	}
	data := gputest.Encode(dtype, pattern)
	pattern = gputest.Decode(dtype, data)
	source, err := d.NewTensor("pattern", gpu.U32, benchPattern/4)
	if err != nil {
		b.Fatal(err)
	}
	defer source.Buffer.Destroy()
	if err := d.Write(source.Buffer, 0, data); err != nil {
		b.Fatal(err)
	}
	r := d.NewRecorder("fill")
	for total := int64(0); total < benchWeights; {
		t, err := d.NewTensor("weight", dtype, shape.n, shape.k)
		if err != nil {
			b.Skipf("no memory for the matrix: %v", err)
		}
		b.Cleanup(t.Buffer.Destroy)
		if t.Bytes() > d.Limits.MaxBindingSize {
			b.Skipf("the matrix has %d bytes, a binding at most %d", t.Bytes(), d.Limits.MaxBindingSize)
		}
		for at := int64(0); at < t.Bytes(); at += benchPattern {
			r.Copy(gpu.Tensor{Buffer: t.Buffer, Offset: at, Shape: source.Shape, DType: gpu.U32}, source)
		}
		weights = append(weights, NewWeight(t))
		total += t.Bytes()
	}
	list, err := r.Finish(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer list.Release()
	if _, err := list.Submit(); err != nil {
		b.Fatal(err)
	}
	if err := d.Sync(ctx); err != nil {
		b.Fatal(err)
	}
	return weights, pattern
}

// benchLinear returns the seconds of one dispatch.
func benchLinear(b *testing.B, d *gpu.Device, record recordLinear, weights []Weight, pattern []float32, rows, dispatches int) float64 {
	b.Helper()
	ctx := context.Background()
	n, k := weights[0].N(), weights[0].K()
	rng := rand.New(rand.NewPCG(3, 4))
	values := make([]float32, rows*k)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	x, err := d.NewTensor("x", gpu.F32, rows, k)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Buffer.Destroy()
	out, err := d.NewTensor("out", gpu.F32, rows, n)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Buffer.Destroy()
	if err := d.Write(x.Buffer, 0, gputest.Encode(gpu.F32, values)); err != nil {
		b.Fatal(err)
	}
	r := d.NewRecorder("bench")
	for i := range dispatches {
		record(r, out, x, weights[i%len(weights)], nil)
	}
	list, err := r.Finish(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer list.Release()
	submit := func(times int) {
		for i := range times {
			if _, err := list.Submit(); err != nil {
				b.Fatal(err)
			}
			if i%benchInFlight == benchInFlight-1 || i == times-1 {
				if err := d.Sync(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	submit(1)
	data, err := d.Download(ctx, out)
	if err != nil {
		b.Fatal(err)
	}
	got := gputest.Decode(gpu.F32, data)
	var have, want []float32
	for _, row := range []int{0, rows / 2, rows - 1} {
		for _, output := range []int{0, 1, n/2 + 3, n - 2, n - 1} {
			sum := 0.0
			for i := range k {
				sum += float64(values[row*k+i]) * float64(pattern[(output*k+i)%len(pattern)])
			}
			have, want = append(have, got[row*n+output]), append(want, float32(sum))
		}
	}
	gputest.AllClose(b, "sampled outputs", have, want, 1e-5)
	b.ResetTimer()
	submit(b.N)
	b.StopTimer()
	return b.Elapsed().Seconds() / float64(b.N) / float64(dispatches)
}
