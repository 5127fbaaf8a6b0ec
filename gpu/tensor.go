package gpu

import (
	"fmt"
	"slices"
)

// Tensor is a typed view of a Buffer: a value, cheap to copy, without a lifetime of its own. Rows are contiguous.
type Tensor struct {
	Buffer *Buffer
	Offset int64 // bytes into Buffer
	Shape  []int // slowest dimension first
	DType  DType
}

// NewTensor allocates a buffer that holds exactly one tensor, zeroed. Every tensor that a kernel writes owns its
// buffer: WebGPU refuses one buffer bound for reading and writing in one dispatch, even on disjoint ranges.
func (d *Device) NewTensor(label string, dtype DType, shape ...int) (Tensor, error) {
	n := int64(1)
	for _, s := range shape {
		if s <= 0 {
			return Tensor{}, &Error{Kind: ErrValidation, Label: label, Need: "positive dimensions", Have: fmt.Sprint(shape)}
		}
		n *= int64(s)
	}
	b, err := d.NewBuffer(label, n*int64(dtype.Size()))
	if err != nil {
		return Tensor{}, err
	}
	return Tensor{Buffer: b, Shape: slices.Clone(shape), DType: dtype}, nil
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	n := 1
	for _, s := range t.Shape {
		n *= s
	}
	return n
}

// Bytes returns the size of the data.
func (t Tensor) Bytes() int64 { return int64(t.Len()) * int64(t.DType.Size()) }

// Dim returns the size of dimension i, or 0 when there is none.
func (t Tensor) Dim(i int) int {
	if i < 0 || i >= len(t.Shape) {
		return 0
	}
	return t.Shape[i]
}

// Rows returns the view of rows [start, start+count) of the first dimension. The offset has to suit the device's
// binding alignment when the view is bound; the Recorder checks that.
func (t Tensor) Rows(start, count int) Tensor {
	row := t.Bytes() / int64(max(t.Dim(0), 1))
	v := t
	v.Offset += int64(start) * row
	v.Shape = slices.Clone(t.Shape)
	v.Shape[0] = count
	return v
}

// Reshape returns the same elements under another shape; it panics when the counts differ, which is a programming
// mistake.
func (t Tensor) Reshape(shape ...int) Tensor {
	v := t
	v.Shape = slices.Clone(shape)
	if v.Len() != t.Len() {
		panic(fmt.Sprintf("gpu: reshape %v to %v", t.Shape, shape))
	}
	return v
}

// inside reports whether the tensor's bytes lie in its buffer.
func (t Tensor) inside() bool { return t.Offset >= 0 && t.Offset <= t.Buffer.Size-t.Bytes() }

func (t Tensor) String() string {
	if t.Buffer == nil {
		return "nil tensor"
	}
	return fmt.Sprintf("%v %v", t.Shape, t.DType)
}
