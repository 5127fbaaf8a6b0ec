package gputest

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"flint/gpu"
)

// guardBytes lie before and after every tensor of a Harness; a kernel that writes there fails the test.
const (
	guardBytes = 256
	guardWord  = 0xdeadbeef
	poison     = 0x7fc0dead // a NaN: an output element the kernel never wrote stays one
)

// Harness makes the tensors of one kernel test on one device, runs what the test records, and checks that nothing
// outside the outputs changed.
type Harness struct {
	T       testing.TB
	Device  *gpu.Device
	rng     *rand.Rand
	tensors []tracked
}

type tracked struct {
	t        gpu.Tensor
	contents []byte // what the whole buffer held at the start
	output   bool
}

// New returns a harness whose random inputs depend on the test's name alone, so every device sees the same.
func New(t testing.TB, d *gpu.Device, seed string) *Harness {
	h := fnv.New64a()
	h.Write([]byte(seed))
	hs := &Harness{T: t, Device: d, rng: rand.New(rand.NewPCG(h.Sum64(), 1))}
	t.Cleanup(func() {
		for _, tr := range hs.tensors {
			tr.t.Buffer.Destroy()
		}
	})
	return hs
}

// Normal returns n seeded values of the standard normal distribution times scale.
func (h *Harness) Normal(n int, scale float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(h.rng.NormFloat64()) * scale
	}
	return v
}

// IntN returns a seeded number in [0, n).
func (h *Harness) IntN(n int) int { return h.rng.IntN(n) }

// In makes an input tensor of the values, rounded to dtype. With guards around it, its offset is not 0.
func (h *Harness) In(label string, dtype gpu.DType, values []float32, shape ...int) gpu.Tensor {
	return h.add(label, dtype, shape, Encode(dtype, values), false, false)
}

// InU32 makes an input tensor of words.
func (h *Harness) InU32(label string, values []uint32, shape ...int) gpu.Tensor {
	return h.add(label, gpu.U32, shape, words(values), false, false)
}

// State makes a U32 tensor that can also be bound as a uniform.
func (h *Harness) State(label string, values []uint32) gpu.Tensor {
	return h.add(label, gpu.U32, []int{len(values)}, words(values), false, true)
}

// Out makes an output tensor full of poison.
func (h *Harness) Out(label string, dtype gpu.DType, shape ...int) gpu.Tensor {
	n := (gpu.Tensor{Shape: shape, DType: dtype}).Bytes()
	data := make([]byte, (n+3)/4*4)
	for i := 0; i < len(data); i += 4 {
		binary.LittleEndian.PutUint32(data[i:], poison)
	}
	return h.add(label, dtype, shape, data, true, false)
}

// InOut makes a tensor that the kernel reads and writes.
func (h *Harness) InOut(label string, dtype gpu.DType, values []float32, shape ...int) gpu.Tensor {
	return h.add(label, dtype, shape, Encode(dtype, values), true, false)
}

// InOutState makes a U32 tensor that kernels read, write, and bind as a uniform.
func (h *Harness) InOutState(label string, values []uint32) gpu.Tensor {
	return h.add(label, gpu.U32, []int{len(values)}, words(values), true, true)
}

func (h *Harness) add(label string, dtype gpu.DType, shape []int, data []byte, output, uniform bool) gpu.Tensor {
	h.T.Helper()
	t := gpu.Tensor{Shape: shape, DType: dtype, Offset: guardBytes}
	if int64(len(data)) < t.Bytes() {
		h.T.Fatalf("%s: %d bytes of data for %v", label, len(data), t)
	}
	padded := (len(data) + 3) / 4 * 4
	contents := make([]byte, guardBytes+padded+guardBytes)
	for i := 0; i < len(contents); i += 4 {
		binary.LittleEndian.PutUint32(contents[i:], guardWord)
	}
	clear(contents[guardBytes : guardBytes+padded])
	copy(contents[guardBytes:], data)
	alloc := h.Device.NewBuffer
	if uniform {
		alloc = h.Device.NewUniformBuffer
	}
	b, err := alloc(label, int64(len(contents)))
	if err != nil {
		h.T.Fatal(err)
	}
	if err := h.Device.Write(b, 0, contents); err != nil {
		h.T.Fatal(err)
	}
	t.Buffer = b
	h.tensors = append(h.tensors, tracked{t, contents, output})
	return t
}

// Run records, submits and waits, then checks the guards of every tensor and that inputs kept their bytes.
func (h *Harness) Run(record func(r *gpu.Recorder)) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r := h.Device.NewRecorder("test")
	record(r)
	list, err := r.Finish(ctx)
	if err != nil {
		h.T.Fatal(err)
	}
	defer list.Release()
	if _, err := list.Submit(); err != nil {
		h.T.Fatal(err)
	}
	for _, tr := range h.tensors {
		whole := gpu.Tensor{Buffer: tr.t.Buffer, Shape: []int{len(tr.contents) / 4}, DType: gpu.U32}
		now, err := h.Device.Download(ctx, whole)
		if err != nil {
			h.T.Fatal(err)
		}
		end := len(tr.contents) - guardBytes
		for i := range now {
			if now[i] != tr.contents[i] && (!tr.output || i < guardBytes || i >= end) {
				h.T.Fatalf("%s: byte %d changed (data is bytes %d to %d, output %v)", tr.t.Buffer.Label, i, guardBytes, end, tr.output)
			}
		}
	}
}

// Bytes reads a tensor back.
func (h *Harness) Bytes(t gpu.Tensor) []byte {
	h.T.Helper()
	data, err := h.Device.Download(context.Background(), t)
	if err != nil {
		h.T.Fatal(err)
	}
	return data
}

// Floats reads a tensor back as float32.
func (h *Harness) Floats(t gpu.Tensor) []float32 {
	h.T.Helper()
	return Decode(t.DType, h.Bytes(t))
}

// U32 reads a tensor's words back.
func (h *Harness) U32(t gpu.Tensor) []uint32 {
	h.T.Helper()
	data := h.Bytes(t)
	out := make([]uint32, len(data)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return out
}

// Same runs build on the software driver, whose kernels are the references, and then on each WebGPU view of Run, and
// compares the tensors build returns: floats to a tolerance relative to the largest wanted value, words exactly.
// Outputs must not keep any poison.
func Same(t *testing.T, tolerance float64, build func(h *Harness) []gpu.Tensor) {
	t.Helper()
	var want [][]float32
	var wantWords [][]uint32
	Run(t, func(t *testing.T, d *gpu.Device) {
		h := New(t, d, rootName(t))
		outs := build(h)
		for i, out := range outs {
			label := fmt.Sprintf("output %d (%s)", i, out.Buffer.Label)
			if out.DType == gpu.U32 {
				got := h.U32(out)
				if len(wantWords) <= i {
					wantWords = append(wantWords, got)
					want = append(want, nil)
					continue
				}
				for j := range got {
					if got[j] != wantWords[i][j] {
						t.Fatalf("%s: word %d is %d, want %d", label, j, got[j], wantWords[i][j])
					}
				}
				continue
			}
			got := h.Floats(out)
			for j, v := range got {
				if v != v {
					t.Fatalf("%s: element %d is NaN: not written, or wrong", label, j)
				}
			}
			if len(want) <= i {
				want = append(want, got)
				wantWords = append(wantWords, nil)
				continue
			}
			AllClose(t, label, got, want[i], tolerance)
		}
	})
}

// AllClose compares to a tolerance relative to the largest |want|.
func AllClose(t testing.TB, label string, got, want []float32, tolerance float64) {
	t.Helper()
	if worst, at := MaxError(got, want); worst > tolerance || len(got) != len(want) {
		t.Fatalf("%s: element %d is %v, want %v: error %.3g of the largest value, tolerance %.3g (%d and %d elements)", label, at, got[at], want[at], worst, tolerance, len(got), len(want))
	}
}

// MaxError returns the largest |got-want| as a share of the largest |want|, and where it is. A NaN is infinitely wrong.
func MaxError(got, want []float32) (worst float64, at int) {
	scale := 0.0
	for _, w := range want {
		scale = max(scale, math.Abs(float64(w)))
	}
	if scale == 0 {
		scale = 1
	}
	for i := range min(len(got), len(want)) {
		e := math.Abs(float64(got[i])-float64(want[i])) / scale
		if e != e && got[i] != want[i] {
			return math.Inf(1), i
		}
		if e > worst {
			worst, at = e, i
		}
	}
	return worst, at
}

// Encode rounds floats to a dtype's bytes.
func Encode(dtype gpu.DType, values []float32) []byte {
	out := make([]byte, len(values)*dtype.Size())
	for i, v := range values {
		switch dtype {
		case gpu.F16:
			binary.LittleEndian.PutUint16(out[2*i:], gpu.ToF16(v))
		case gpu.BF16:
			binary.LittleEndian.PutUint16(out[2*i:], gpu.ToBF16(v))
		default:
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
		}
	}
	return out
}

// Decode widens a dtype's bytes to floats.
func Decode(dtype gpu.DType, data []byte) []float32 {
	out := make([]float32, len(data)/dtype.Size())
	for i := range out {
		switch dtype {
		case gpu.F16:
			out[i] = gpu.FromF16(binary.LittleEndian.Uint16(data[2*i:]))
		case gpu.BF16:
			out[i] = gpu.FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
		default:
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	return out
}

func words(values []uint32) []byte {
	out := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(out[4*i:], v)
	}
	return out
}
