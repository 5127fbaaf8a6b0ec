package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"
)

// Named is a tensor to be written. Several may share one Data slice.
type Named struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte // little-endian, row-major: exactly the product of Shape times DType.Bytes()
}

// Write writes one safetensors file with the tensors in the given order. The header is padded with blanks so that the
// data starts at a multiple of 8; later tensors start wherever the ones before them end.
func Write(w io.Writer, tensors []Named) error {
	header, err := marshalHeader(tensors)
	if err != nil {
		return fmt.Errorf("safetensors: write: %w", err)
	}
	var prefix [lengthBytes]byte
	binary.LittleEndian.PutUint64(prefix[:], uint64(len(header)))
	if _, err := w.Write(prefix[:]); err != nil {
		return fmt.Errorf("safetensors: write: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: write: %w", err)
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("safetensors: write: tensor %s: %w", quote(t.Name), err)
		}
	}
	return nil
}

func marshalHeader(tensors []Named) ([]byte, error) {
	header := []byte{'{'}
	seen := map[string]bool{}
	var offset int64
	for i, t := range tensors {
		if t.Name == "__metadata__" || !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor %s: the name is reserved or not UTF-8", quote(t.Name))
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %s occurs twice", quote(t.Name))
		}
		seen[t.Name] = true
		if t.DType.Bytes() == 0 {
			return nil, fmt.Errorf("tensor %s: dtype %s is unknown, expected one of %s", quote(t.Name), quote(string(t.DType)), knownDTypes())
		}
		if len(t.Shape) > maxRank {
			return nil, fmt.Errorf("tensor %s has %d dimensions, expected at most %d", quote(t.Name), len(t.Shape), maxRank)
		}
		size, err := byteSize(t.DType, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		if int64(len(t.Data)) != size {
			return nil, fmt.Errorf("tensor %s: %s %v needs %d bytes, found %d", quote(t.Name), t.DType, t.Shape, size, len(t.Data))
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{} // a scalar: null would not be a list
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, err
		}
		entry, err := json.Marshal(struct {
			DType   DType    `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{t.DType, shape, [2]int64{offset, offset + size}})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			header = append(header, ',')
		}
		header = append(header, name...)
		header = append(header, ':')
		header = append(header, entry...)
		offset += size
	}
	header = append(header, '}')
	for len(header)%lengthBytes != 0 {
		header = append(header, ' ')
	}
	if len(header) > maxHeader {
		return nil, fmt.Errorf("the header would be %d bytes, the format allows at most %d", len(header), maxHeader)
	}
	return header, nil
}
