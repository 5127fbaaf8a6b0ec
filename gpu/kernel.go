package gpu

import (
	"fmt"
	"math"
	"unsafe"
)

// Access says how a kernel binds a tensor.
type Access uint8

// Uniform binds the decode state without costing one of the (by default eight) storage slots, and tells the compiler
// that the value is uniform, which a barrier after an early exit needs.
const (
	Read Access = iota
	ReadWrite
	Uniform
)

// Binding is one tensor of a kernel, in the order of its @binding numbers, which start at 1; binding 0 is the
// kernel's Params uniform.
type Binding struct {
	Name   string
	Access Access
}

// Kernel is one WGSL compute kernel together with the Go function that defines what it computes.
type Kernel struct {
	Name      string // stem of its files; also its profile label
	WGSL      string // body, without the variant's prelude; entry point "main"
	Bindings  []Binding
	Reference func(*Call)
}

// Variant is a way to build a kernel: the text put before its body (enable directives, constants, aliases, library
// snippets). Kernel name and prelude together are the key of the pipeline cache.
type Variant struct {
	Name    string // for labels and test names, e.g. bf16.r4.subgroup
	Prelude string
}

// Grid is the number of workgroups in each dimension.
type Grid struct{ X, Y, Z int }

// Call is what a kernel's Go reference sees of a dispatch.
type Call struct {
	Grid    Grid
	Params  []uint32
	Tensors []Tensor
}

// U returns parameter i as an unsigned number; F as a float.
func (c *Call) U(i int) int     { return int(c.Params[i]) }
func (c *Call) F(i int) float32 { return math.Float32frombits(c.Params[i]) }

// F32 returns tensor i's elements in place.
func (c *Call) F32(i int) []float32 {
	b := c.bytes(i)
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// U32 returns tensor i's 32-bit words in place.
func (c *Call) U32(i int) []uint32 {
	b := c.bytes(i)
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// U16 returns tensor i's halves in place.
func (c *Call) U16(i int) []uint16 {
	b := c.bytes(i)
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}

// Floats returns tensor i widened to float32: in place for F32, otherwise a copy.
func (c *Call) Floats(i int) []float32 {
	t := c.Tensors[i]
	switch t.DType {
	case F32:
		return c.F32(i)[:t.Len()]
	case F16, BF16:
		return widen(c.U16(i)[:t.Len()], t.DType)
	}
	panic(fmt.Sprintf("gpu: tensor %d is %v", i, t.DType))
}

func widen(half []uint16, dtype DType) []float32 {
	out := make([]float32, len(half))
	for i, h := range half {
		if dtype == BF16 {
			out[i] = FromBF16(h)
		} else {
			out[i] = FromF16(h)
		}
	}
	return out
}

// bytes is the bound range of tensor i: whole 32-bit words, as a WebGPU binding has.
func (c *Call) bytes(i int) []byte {
	t := c.Tensors[i]
	mem := t.Buffer.handle.(softBuffer)
	return mem[t.Offset : t.Offset+roundUp(t.Bytes(), 4)]
}

// Params packs a kernel's scalars (uint32, int or float32) into the words of its Params struct. A negative int is a
// programming mistake.
func Params(values ...any) []uint32 {
	words := make([]uint32, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case uint32:
			words[i] = v
		case int:
			if v < 0 || v > math.MaxUint32 {
				panic(fmt.Sprintf("gpu: parameter %d is %d", i, v))
			}
			words[i] = uint32(v)
		case float32:
			words[i] = math.Float32bits(v)
		case bool:
			if v {
				words[i] = 1
			}
		default:
			panic(fmt.Sprintf("gpu: parameter %d is a %T", i, v))
		}
	}
	return words
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
