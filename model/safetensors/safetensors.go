// Package safetensors reads and writes checkpoints in the safetensors format: one file, or shards beside an index.
//
// A file is an 8-byte little-endian header length N, N bytes of JSON that name every tensor's dtype, shape and
// data_offsets, then the data. Offsets in the JSON count from the first data byte, byte 8+N of the file; a Tensor's
// Offset is absolute. Data may start at any byte: nothing here promises alignment.
//
// Opening reads headers only and checks all of them: a Checkpoint that opened has well-formed tensors that fill their
// files exactly, so whoever copies ranges of it needs no further checks. Weights are not read through this package;
// Float32s, Int32s and ReadFull are for tests and small tensors.
package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"
)

// Tensor says what one tensor is and where its bytes lie.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int  // outermost dimension first; empty for a scalar
	File   string // name of the file that holds it
	Offset int64  // bytes from the start of the file
	Size   int64  // bytes
}

// FileInfo describes one file of a checkpoint.
type FileInfo struct {
	Name     string
	Size     int64             // bytes, header included
	Metadata map[string]string // the header's __metadata__, nil when absent
}

// Checkpoint is an opened set of tensors. It is read-only: its methods may be used from several goroutines.
type Checkpoint struct {
	tensors map[string]Tensor
	names   []string
	files   []FileInfo
	open    map[string]openFile
}

// openFile is what a model folder's files must offer: ranges are read out of order and again.
type openFile interface {
	fs.File
	io.ReaderAt
}

// Open opens the checkpoint of a model folder: model.safetensors, or the shards of model.safetensors.index.json. When
// both exist the single file is used and the index ignored, as Hugging Face's loader does.
func Open(fsys fs.FS) (*Checkpoint, error) {
	_, err := fs.Stat(fsys, singleFile)
	if err == nil {
		return OpenFile(fsys, singleFile)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	_, err = fs.Stat(fsys, indexFile)
	if err == nil {
		return openIndexed(fsys)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return nil, fmt.Errorf("safetensors: no weights: expected %s, or %s and its shards; found %s: %w",
		singleFile, indexFile, listing(fsys), fs.ErrNotExist)
}

// OpenFile opens one safetensors file as a whole checkpoint.
func OpenFile(fsys fs.FS, name string) (*Checkpoint, error) {
	c := newCheckpoint()
	tensors, err := c.add(fsys, name)
	if err != nil {
		c.Close()
		return nil, err
	}
	for _, t := range tensors {
		c.tensors[t.Name] = t
	}
	c.seal()
	return c, nil
}

func newCheckpoint() *Checkpoint {
	return &Checkpoint{tensors: map[string]Tensor{}, open: map[string]openFile{}}
}

// add opens one file, reads its header and keeps the file open; the caller decides which tensors to take.
func (c *Checkpoint) add(fsys fs.FS, name string) ([]Tensor, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	if info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("safetensors: %s: expected a file, found a folder", name)
	}
	file, ok := f.(openFile)
	if !ok {
		f.Close()
		return nil, fmt.Errorf("safetensors: %s: its file system gives a %T, which cannot read at an offset (io.ReaderAt)", name, f)
	}
	c.open[name] = file
	h, err := readHeader(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	for i := range h.tensors {
		h.tensors[i].File = name
	}
	c.files = append(c.files, FileInfo{Name: name, Size: info.Size(), Metadata: h.metadata})
	return h.tensors, nil
}

func (c *Checkpoint) seal() {
	c.names = slices.Sorted(maps.Keys(c.tensors))
	slices.SortFunc(c.files, func(a, b FileInfo) int { return cmp.Compare(a.Name, b.Name) })
}

// Names returns every tensor's name, sorted.
func (c *Checkpoint) Names() []string { return slices.Clone(c.names) }

// Lookup returns the tensor of that name; the second result says whether there is one.
func (c *Checkpoint) Lookup(name string) (Tensor, bool) {
	t, ok := c.tensors[name]
	return t, ok
}

// Files returns the checkpoint's files, sorted by name.
func (c *Checkpoint) Files() []FileInfo { return slices.Clone(c.files) }

// Metadata returns the __metadata__ of all files in one map. Where shards disagree on a key, the first file's value is
// returned; Files has each file's own.
func (c *Checkpoint) Metadata() map[string]string {
	all := map[string]string{}
	for _, f := range slices.Backward(c.files) {
		maps.Copy(all, f.Metadata)
	}
	return all
}

// Size returns the bytes of all tensors together, headers not counted.
func (c *Checkpoint) Size() int64 {
	var n int64
	for _, t := range c.tensors {
		n += t.Size
	}
	return n
}

// ReaderAt returns the open file that holds t; t.Offset counts from its start. It stays open until Close.
func (c *Checkpoint) ReaderAt(t Tensor) (io.ReaderAt, error) {
	f, ok := c.open[t.File]
	if !ok {
		return nil, fmt.Errorf("safetensors: tensor %s: file %s is not open in this checkpoint", quote(t.Name), quote(t.File))
	}
	return f, nil
}

// Close closes the files. Readers handed out before no longer work.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.open {
		errs = append(errs, f.Close())
	}
	clear(c.open)
	return errors.Join(errs...)
}

// listing names what a folder holds, for the message that says what was expected in it.
func listing(fsys fs.FS) string {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return fmt.Sprintf("a folder that cannot be listed (%v)", err)
	}
	if len(entries) == 0 {
		return "an empty folder"
	}
	const most = 20
	var names []string
	for _, e := range entries {
		names = append(names, quote(e.Name()))
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

// quote prints a name taken from a file: quoted, and short even when the file is hostile.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q (and %d bytes more)", s[:most], len(s)-most)
	}
	return fmt.Sprintf("%q", s)
}
