package gpu

import (
	"fmt"
	"math"

	"github.com/x448/float16"
)

// DType is the element type of a Tensor as it lies in GPU memory.
type DType uint8

// Half-width types are packed two to a 32-bit word, low half first, since WGSL has no 16-bit storage without
// shader-f16.
const (
	F32 DType = iota
	F16
	BF16
	U32
)

// Size returns the bytes of one element.
func (d DType) Size() int {
	switch d {
	case F16, BF16:
		return 2
	}
	return 4
}

func (d DType) String() string {
	switch d {
	case F32:
		return "f32"
	case F16:
		return "f16"
	case BF16:
		return "bf16"
	case U32:
		return "u32"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// FromF16 widens an IEEE 754 half.
func FromF16(bits uint16) float32 { return float16.Frombits(bits).Float32() }

// ToF16 rounds to the nearest half, ties to even, as WGSL's pack2x16float does on every device we run on.
func ToF16(f float32) uint16 { return float16.Fromfloat32(f).Bits() }

// FromBF16 widens a bfloat16.
func FromBF16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even; a NaN stays a NaN.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
