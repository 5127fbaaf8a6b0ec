package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"flint/model"
)

// oneBillion has the shape of a widely used 1B model (Llama-3.2-1B): 1.24 billion parameters, tied head.
const oneBillion = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
	"intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
	"vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "hidden_act": "silu",
	"rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16"}`

// synthetic is a model folder of any size that no disk holds: its weights are BF16 numbers computed from their position
// when they are read.
type synthetic struct {
	fstest.MapFS
	header  []byte
	tensors []span // by start
	size    int64
}

// span is a tensor's bytes in the data part.
type span struct {
	start, end int64
	norm       bool
}

func newSynthetic(config string) (*synthetic, error) {
	cfg, err := model.ParseConfig([]byte(config))
	if err != nil {
		return nil, err
	}
	s := &synthetic{MapFS: fstest.MapFS{"config.json": {Data: []byte(config)}}}
	header := map[string]any{}
	for _, t := range cfg.Tensors() {
		if t.Role == model.RoleIgnored {
			continue
		}
		n := int64(2)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		header[t.Name] = map[string]any{"dtype": "BF16", "shape": t.Shape, "data_offsets": []int64{s.size, s.size + n}}
		s.tensors = append(s.tensors, span{s.size, s.size + n, strings.Contains(t.Name, "norm")})
		s.size += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	text = append(text, bytes.Repeat([]byte(" "), (8-len(text)%8)%8)...)
	s.header = append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	return s, nil
}

func (s *synthetic) Open(name string) (fs.File, error) {
	if name == "model.safetensors" {
		return &weights{synthetic: s}, nil
	}
	return s.MapFS.Open(name)
}

func (s *synthetic) Stat(name string) (fs.FileInfo, error) {
	f, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// weights is the file model.safetensors.
type weights struct{ *synthetic }

func (w *weights) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	if off < int64(len(w.header)) {
		done = copy(p, w.header[off:])
	}
	at := off + int64(done) - int64(len(w.header)) // in the data part, even
	tensor := 0
	for ; done+1 < len(p) && at < w.size; done, at = done+2, at+2 {
		for at >= w.tensors[tensor].end {
			tensor++
		}
		// Sign and mantissa are noise; the exponent makes norms 1 to 2 and matrices about ±0.02, so that activations of
		// any depth stay lively.
		h := uint64(at) * 0x9e3779b97f4a7c15
		h ^= h >> 29
		v := uint16(h>>32)&0x807f | 121<<7
		if w.tensors[tensor].norm {
			v = uint16(h>>32)&0x7f | 127<<7
		}
		binary.LittleEndian.PutUint16(p[done:], v)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

func (w *weights) Read([]byte) (int, error)   { return 0, io.ErrUnexpectedEOF }
func (w *weights) Close() error               { return nil }
func (w *weights) Stat() (fs.FileInfo, error) { return w, nil }
func (w *weights) Name() string               { return "model.safetensors" }
func (w *weights) Size() int64                { return int64(len(w.header)) + w.synthetic.size }
func (w *weights) Mode() fs.FileMode          { return 0o444 }
func (w *weights) ModTime() time.Time         { return time.Time{} }
func (w *weights) IsDir() bool                { return false }
func (w *weights) Sys() any                   { return nil }
