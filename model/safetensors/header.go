package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	lengthBytes = 8
	// maxHeader is the format's own cap on the JSON.
	maxHeader = 100_000_000
	// maxRank keeps a hostile shape list from growing to the size of the header.
	maxRank = 32
)

type header struct {
	metadata map[string]string
	tensors  []Tensor // in data order, File unset
}

// readHeader reads and checks the header of a file of size bytes. Nothing is allocated that the file does not hold.
func readHeader(r io.ReaderAt, size int64) (header, error) {
	if size < lengthBytes {
		return header{}, fmt.Errorf("expected at least the 8 bytes of the header length, found a file of %d bytes", size)
	}
	var prefix [lengthBytes]byte
	if err := readRange(r, prefix[:], 0); err != nil {
		return header{}, fmt.Errorf("header length: %w", err)
	}
	if string(prefix[:]) == "version " {
		return header{}, errors.New("this is a Git LFS pointer, not the weights: fetch the real file (git lfs pull)")
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeader {
		return header{}, fmt.Errorf("header length is %d bytes, the format allows at most %d: not a safetensors file, or damaged", n, maxHeader)
	}
	if int64(n) > size-lengthBytes {
		return header{}, fmt.Errorf("header length is %d bytes, only %d follow: the file (%d bytes) is truncated or not safetensors", n, size-lengthBytes, size)
	}
	text := make([]byte, n)
	if err := readRange(r, text, lengthBytes); err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	h, err := parseHeader(text)
	if err != nil {
		return header{}, err
	}
	if err := checkLayout(h.tensors, size-lengthBytes-int64(n)); err != nil {
		return header{}, err
	}
	for i := range h.tensors {
		h.tensors[i].Offset += lengthBytes + int64(n)
	}
	return h, nil
}

// parseHeader parses the JSON; Offset is still relative to the data. Tensors come back sorted by offset.
func parseHeader(text []byte) (header, error) {
	if len(text) == 0 || text[0] != '{' {
		return header{}, fmt.Errorf("header: expected a JSON object starting with '{', found %s", quote(string(text[:min(len(text), 16)])))
	}
	if !utf8.Valid(text) {
		return header{}, errors.New("header: not valid UTF-8")
	}
	p := newParser(text)
	var h header
	seen := map[string]bool{}
	err := p.object(func(name string) error {
		if seen[name] {
			return fmt.Errorf("%s occurs twice", quote(name))
		}
		seen[name] = true
		if name == "__metadata__" {
			var err error
			h.metadata, err = p.stringMap()
			if err != nil {
				return fmt.Errorf("__metadata__: %w", err)
			}
			return nil
		}
		t, err := p.tensor()
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quote(name), err)
		}
		t.Name = name
		h.tensors = append(h.tensors, t)
		return nil
	})
	if err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimLeft(text[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return header{}, fmt.Errorf("header: expected only blanks after the JSON object, found %s", quote(string(rest[:min(len(rest), 16)])))
	}
	slices.SortFunc(h.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
	})
	return h, nil
}

// tensor parses {"dtype", "shape", "data_offsets"}.
func (p *parser) tensor() (Tensor, error) {
	var t Tensor
	var offsets []int64
	seen := map[string]bool{}
	err := p.object(func(key string) error {
		if seen[key] {
			return fmt.Errorf("%s occurs twice", quote(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			s, err := p.text()
			if err != nil {
				return fmt.Errorf("dtype: %w", err)
			}
			t.DType = DType(s)
			if t.DType.Bytes() == 0 {
				return fmt.Errorf("dtype %s is unknown, expected one of %s", quote(s), knownDTypes())
			}
		case "shape":
			dims, err := p.integers(maxRank)
			if err != nil {
				return fmt.Errorf("shape: %w", err)
			}
			t.Shape = make([]int, len(dims))
			for i, d := range dims {
				if d > math.MaxInt {
					return fmt.Errorf("shape: dimension %d is %d, too large", i, d)
				}
				t.Shape[i] = int(d)
			}
		case "data_offsets":
			var err error
			offsets, err = p.integers(2)
			if err != nil {
				return fmt.Errorf("data_offsets: %w", err)
			}
			if len(offsets) != 2 {
				return fmt.Errorf("data_offsets: expected [begin, end], found %d numbers", len(offsets))
			}
		default:
			return fmt.Errorf("unknown field %s, expected dtype, shape and data_offsets", quote(key))
		}
		return nil
	})
	if err != nil {
		return Tensor{}, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return Tensor{}, fmt.Errorf("field %q is missing", key)
		}
	}
	if offsets[0] > offsets[1] {
		return Tensor{}, fmt.Errorf("data_offsets [%d, %d] end before they begin", offsets[0], offsets[1])
	}
	t.Offset, t.Size = offsets[0], offsets[1]-offsets[0]
	want, err := byteSize(t.DType, t.Shape)
	if err != nil {
		return Tensor{}, err
	}
	if t.Size != want {
		return Tensor{}, fmt.Errorf("data_offsets [%d, %d] hold %d bytes, %s %v needs %d", offsets[0], offsets[1], t.Size, t.DType, t.Shape, want)
	}
	return t, nil
}

// byteSize returns the bytes of a tensor, or an error when its count or its size does not fit 63 bits.
func byteSize(d DType, shape []int) (int64, error) {
	n := int64(d.Bytes())
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if dim > 0 && n > math.MaxInt64/int64(dim) {
			return 0, fmt.Errorf("shape %v overflows: more than 2^63 bytes", shape)
		}
		n *= int64(dim)
	}
	return n, nil
}

// checkLayout checks that tensors, sorted by offset, fill size bytes of data without holes, overlaps or a rest.
func checkLayout(tensors []Tensor, size int64) error {
	var end int64
	previous := "the header"
	for _, t := range tensors {
		if t.Offset < end {
			return fmt.Errorf("tensor %s overlaps %s: it begins at data byte %d, expected %d", quote(t.Name), previous, t.Offset, end)
		}
		if t.Offset > end {
			return fmt.Errorf("tensor %s leaves a hole after %s: it begins at data byte %d, expected %d", quote(t.Name), previous, t.Offset, end)
		}
		end = t.Offset + t.Size
		if end > size {
			return fmt.Errorf("tensor %s ends at data byte %d, the file has %d: it is truncated (all tensors together need %d); copy or download it again",
				quote(t.Name), end, size, tensors[len(tensors)-1].Offset+tensors[len(tensors)-1].Size)
		}
		previous = quote(t.Name)
	}
	if end != size {
		return fmt.Errorf("expected %d bytes of data, found %d: %d bytes after the last tensor belong to none", end, size, size-end)
	}
	return nil
}

// parser walks JSON token by token: encoding/json alone would let duplicate keys pass.
type parser struct{ dec *json.Decoder }

func newParser(text []byte) *parser {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return &parser{dec}
}

func (p *parser) token() (json.Token, error) {
	tok, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("JSON at byte %d: %w", p.dec.InputOffset(), err)
	}
	return tok, nil
}

func (p *parser) open(delim json.Delim, what string) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok != delim {
		return fmt.Errorf("expected %s, found %s", what, describe(tok))
	}
	return nil
}

// object calls member for each key; member must consume the value.
func (p *parser) object(member func(key string) error) error {
	if err := p.open('{', "an object"); err != nil {
		return err
	}
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("expected a key, found %s", describe(tok))
		}
		if err := member(key); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

func (p *parser) text() (string, error) {
	tok, err := p.token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("expected a string, found %s", describe(tok))
	}
	return s, nil
}

func (p *parser) stringMap() (map[string]string, error) {
	m := map[string]string{}
	err := p.object(func(key string) error {
		if _, dup := m[key]; dup {
			return fmt.Errorf("%s occurs twice", quote(key))
		}
		s, err := p.text()
		if err != nil {
			return fmt.Errorf("%s: %w", quote(key), err)
		}
		m[key] = s
		return nil
	})
	return m, err
}

// integers parses a list of at most most non-negative whole numbers.
func (p *parser) integers(most int) ([]int64, error) {
	if err := p.open('[', "a list"); err != nil {
		return nil, err
	}
	var list []int64
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return nil, err
		}
		if len(list) == most {
			return nil, fmt.Errorf("expected at most %d numbers, found more", most)
		}
		number, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("expected a whole number, found %s", describe(tok))
		}
		v, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("expected a whole number from 0 to 2^63-1, found %s", quote(string(number)))
		}
		list = append(list, v)
	}
	_, err := p.token()
	return list, err
}

func describe(tok json.Token) string {
	switch v := tok.(type) {
	case json.Delim:
		return fmt.Sprintf("'%s'", v)
	case string:
		return "the string " + quote(v)
	case json.Number:
		return "the number " + quote(string(v))
	case nil:
		return "null"
	}
	return fmt.Sprint(tok)
}
