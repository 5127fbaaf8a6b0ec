package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/x448/float16"
)

// ReadFull returns a tensor's bytes as stored. Meant for tests and small tensors: the whole tensor enters the Go heap.
func (c *Checkpoint) ReadFull(name string) ([]byte, error) {
	t, r, err := c.find(name)
	if err != nil {
		return nil, err
	}
	data := make([]byte, t.Size)
	if err := readRange(r, data, t.Offset); err != nil {
		return nil, fmt.Errorf("safetensors: %s: tensor %s: %w", t.File, quote(name), err)
	}
	return data, nil
}

// Float32s returns a tensor of F32, F16 or BF16 elements as float32, in row-major order.
func (c *Checkpoint) Float32s(name string) ([]float32, error) {
	t, _, err := c.find(name)
	if err != nil {
		return nil, err
	}
	switch t.DType {
	case F32, F16, BF16:
	default:
		return nil, fmt.Errorf("safetensors: %s: tensor %s is %s, expected F32, F16 or BF16", t.File, quote(name), t.DType)
	}
	data, err := c.ReadFull(name)
	if err != nil {
		return nil, err
	}
	width := t.DType.Bytes()
	out := make([]float32, len(data)/width)
	for i := range out {
		b := data[i*width:]
		switch t.DType {
		case F32:
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		case F16:
			out[i] = float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()
		case BF16:
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
		}
	}
	return out, nil
}

// Int32s returns a tensor of I32 elements, in row-major order.
func (c *Checkpoint) Int32s(name string) ([]int32, error) {
	t, _, err := c.find(name)
	if err != nil {
		return nil, err
	}
	if t.DType != I32 {
		return nil, fmt.Errorf("safetensors: %s: tensor %s is %s, expected I32", t.File, quote(name), t.DType)
	}
	data, err := c.ReadFull(name)
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out, nil
}

func (c *Checkpoint) find(name string) (Tensor, io.ReaderAt, error) {
	t, ok := c.tensors[name]
	if !ok {
		return Tensor{}, nil, fmt.Errorf("safetensors: no tensor %s among the %d of this checkpoint", quote(name), len(c.tensors))
	}
	r, err := c.ReaderAt(t)
	return t, r, err
}

// readRange fills data from byte offset on. An io.ReaderAt may say io.EOF along with the last byte.
func readRange(r io.ReaderAt, data []byte, offset int64) error {
	n, err := r.ReadAt(data, offset)
	if n == len(data) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("expected %d bytes at byte %d, found %d: %w", len(data), offset, n, err)
}
