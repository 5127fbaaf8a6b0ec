package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"flint/gpu"
	"flint/model/safetensors"
	"flint/shaders"
)

// Progress reports loading: the tensor whose bytes just moved, and bytes of all.
type Progress func(tensor string, done, total int64)

// Load reads a model folder: config.json, and the weights of its safetensors files, which go from file to GPU in
// bounded pieces. Every buffer is allocated before the first byte is read, so that a model too large for the device is
// refused at once. A cancelled or failed load frees all it had allocated.
func Load(ctx context.Context, d *gpu.Device, fsys fs.FS, progress Progress) (*Transformer, error) {
	text, err := readConfig(fsys)
	if err != nil {
		return nil, fmt.Errorf("a model folder needs config.json: %w", err)
	}
	cfg, err := ParseConfig(text)
	if err != nil {
		return nil, err
	}
	ckpt, err := safetensors.Open(fsys)
	if err != nil {
		return nil, err
	}
	defer ckpt.Close()
	shapes := map[string][]int{}
	for _, name := range ckpt.Names() {
		t, _ := ckpt.Lookup(name)
		shapes[name] = t.Shape
	}
	if err := cfg.CheckTensors(shapes); err != nil {
		return nil, err
	}
	l := &loader{device: d, ckpt: ckpt, tensors: map[string]shaders.Weight{}, progress: progress}
	if err := l.load(ctx, cfg); err != nil {
		l.free()
		return nil, err
	}
	return newTransformer(d, cfg, l.tensors), nil
}

// readConfig reads no more than it takes to see that a file is too long.
func readConfig(fsys fs.FS) ([]byte, error) {
	f, err := fsys.Open("config.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
}

// loader moves a checkpoint's tensors to the GPU.
type loader struct {
	device   *gpu.Device
	ckpt     *safetensors.Checkpoint
	tensors  map[string]shaders.Weight
	progress Progress
}

func (l *loader) free() {
	for _, w := range l.tensors {
		for _, b := range w.Blocks {
			b.Buffer.Destroy()
		}
	}
}

func (l *loader) load(ctx context.Context, cfg *Config) error {
	total := int64(0)
	for _, spec := range cfg.Tensors() {
		if spec.Role == RoleIgnored {
			continue
		}
		t, _ := l.ckpt.Lookup(spec.Name)
		w, err := l.allocate(spec, t)
		l.tensors[spec.Name] = w
		if err != nil {
			return err
		}
		total += t.Size
	}
	done := int64(0)
	for _, spec := range cfg.Tensors() {
		if spec.Role == RoleIgnored {
			continue
		}
		t, _ := l.ckpt.Lookup(spec.Name)
		report := func(n int64) {
			done += n
			if l.progress != nil {
				l.progress(spec.Name, done, total)
			}
		}
		if err := l.upload(ctx, spec, t, report); err != nil {
			return fmt.Errorf("%s: %s: %w", t.File, t.Name, err)
		}
	}
	return nil
}

// allocate makes the buffers of one tensor: matrices keep their stored type and are split by rows when one binding
// cannot hold them; vectors (norms, biases) become f32.
func (l *loader) allocate(spec TensorSpec, t safetensors.Tensor) (shaders.Weight, error) {
	dtype, ok := map[safetensors.DType]gpu.DType{safetensors.F32: gpu.F32, safetensors.F16: gpu.F16, safetensors.BF16: gpu.BF16}[t.DType]
	if !ok {
		return shaders.Weight{}, fmt.Errorf("%s: %s is stored as %s; this engine reads F32, F16 and BF16 weights", t.File, t.Name, t.DType)
	}
	if len(spec.Shape) == 1 {
		v, err := l.device.NewTensor(spec.Name, gpu.F32, spec.Shape...)
		return shaders.Weight{Blocks: []gpu.Tensor{v}}, err
	}
	n, k := spec.Shape[0], spec.Shape[1]
	var w shaders.Weight
	for start, rows := 0, rowsPerBlock(l.device.Limits, k, dtype); start < n; start += rows {
		b, err := l.device.NewTensor(spec.Name, dtype, min(rows, n-start), k)
		if err != nil {
			return w, tooLarge(err, spec.Name)
		}
		w.Blocks = append(w.Blocks, b)
	}
	return w, nil
}

// rowsPerBlock is how many rows of k elements one buffer and binding hold. An even count keeps every block's start, in
// the file too, at whole words.
func rowsPerBlock(limits gpu.Limits, k int, dtype gpu.DType) int {
	bytes := min(limits.MaxBindingSize, limits.MaxBufferSize, math.MaxInt32)
	rows := bytes / (int64(k) * int64(dtype.Size()))
	return int(max(rows&^1, 2))
}

func tooLarge(err error, name string) error {
	if errors.Is(err, gpu.ErrOutOfMemory) {
		return fmt.Errorf("the model does not fit this GPU's memory (stopped at %s): choose a smaller model or close other tabs: %w", name, err)
	}
	return err
}

func (l *loader) upload(ctx context.Context, spec TensorSpec, t safetensors.Tensor, report func(int64)) error {
	w := l.tensors[spec.Name]
	if len(spec.Shape) == 1 {
		values, err := l.ckpt.Float32s(spec.Name)
		if err != nil {
			return err
		}
		report(t.Size)
		return l.device.Write(w.Blocks[0].Buffer, 0, wordBytes(values))
	}
	src, err := l.ckpt.ReaderAt(t)
	if err != nil {
		return err
	}
	offset := t.Offset
	for _, b := range w.Blocks {
		if err := l.device.Upload(ctx, b.Buffer, b.Offset, src, offset, b.Bytes(), report); err != nil {
			return err
		}
		offset += b.Bytes()
	}
	return nil
}

// layerName is the checkpoint's name of a layer's tensor without "model.layers.": the label people see in errors.
func layerName(i int, part string) string { return fmt.Sprintf("model.layers.%d.%s", i, part) }

func newTransformer(d *gpu.Device, cfg *Config, tensors map[string]shaders.Weight) *Transformer {
	m := &Transformer{Config: cfg, device: d, tensors: tensors}
	matrix := func(name string) Linear {
		l := Linear{Weight: tensors[name+".weight"]}
		if bias, ok := tensors[name+".bias"]; ok {
			l.Bias = &bias.Blocks[0]
		}
		return l
	}
	vector := func(name string) gpu.Tensor { return tensors[name+".weight"].Blocks[0] }
	m.EmbedTokens = tensors["model.embed_tokens.weight"]
	m.Norm = vector("model.norm")
	m.LMHead = m.EmbedTokens
	if !cfg.TieWordEmbeddings {
		m.LMHead = tensors["lm_head.weight"]
	}
	for i := range cfg.NumHiddenLayers {
		name := func(part string) string { return layerName(i, part) }
		layer := Layer{
			label:        strings.TrimPrefix(name(""), "model."),
			InputNorm:    vector(name("input_layernorm")),
			PostAttnNorm: vector(name("post_attention_layernorm")),
			Attn: Attention{
				QProj: matrix(name("self_attn.q_proj")), KProj: matrix(name("self_attn.k_proj")),
				VProj: matrix(name("self_attn.v_proj")), OProj: matrix(name("self_attn.o_proj")),
				window: cfg.SlidingWindows[i],
			},
			MLP: MLP{GateProj: matrix(name("mlp.gate_proj")), UpProj: matrix(name("mlp.up_proj")), DownProj: matrix(name("mlp.down_proj"))},
		}
		layer.label = strings.TrimSuffix(layer.label, ".")
		if cfg.QKNorm {
			q, k := vector(name("self_attn.q_norm")), vector(name("self_attn.k_norm"))
			layer.Attn.QNorm, layer.Attn.KNorm = &q, &k
		}
		m.Layers = append(m.Layers, layer)
	}
	return m
}

// Release frees the weights.
func (m *Transformer) Release() {
	for _, w := range m.tensors {
		for _, b := range w.Blocks {
			b.Buffer.Destroy()
		}
	}
}

// BytesPerToken is how many stored weight bytes a decode step reads: all matrices, but one row of the embedding.
func (m *Transformer) BytesPerToken() int64 {
	total := int64(0)
	for _, spec := range m.Config.Tensors() {
		if spec.Role == RoleEmbedding && !m.Config.TieWordEmbeddings {
			continue
		}
		for _, b := range m.tensors[spec.Name].Blocks {
			total += b.Bytes()
		}
	}
	return total
}
