package modeltest

import (
	"fmt"
	"io/fs"
	"math"

	"flint/model"
	"flint/model/safetensors"
)

// Reference computes a checkpoint's forward pass in float64, one position at a time, written to be read against the
// papers. It needs a few seconds per billion multiplications: for models of test size.
type Reference struct {
	Config  *model.Config
	weights map[string][]float32
}

// Open reads config.json and all weights of a model folder and checks that they belong together.
func Open(fsys fs.FS) (*Reference, error) {
	data, err := fs.ReadFile(fsys, "config.json")
	if err != nil {
		return nil, err
	}
	cfg, err := model.ParseConfig(data)
	if err != nil {
		return nil, err
	}
	checkpoint, err := safetensors.Open(fsys)
	if err != nil {
		return nil, err
	}
	defer checkpoint.Close()
	have := map[string][]int{}
	for _, name := range checkpoint.Names() {
		t, _ := checkpoint.Lookup(name)
		have[name] = t.Shape
	}
	if err := cfg.CheckTensors(have); err != nil {
		return nil, err
	}
	weights := map[string][]float32{}
	for _, spec := range cfg.Tensors() {
		if spec.Role == model.RoleIgnored {
			continue
		}
		if weights[spec.Name], err = checkpoint.Float32s(spec.Name); err != nil {
			return nil, err
		}
	}
	return &Reference{Config: cfg, weights: weights}, nil
}

// Forward returns the logits [T][V] of every position and the residual stream [L][T][D] after every layer, for token
// ids at positions 0 to T-1 of a model loaded with room for contextLen tokens.
func (r *Reference) Forward(ids []int, contextLen int) (logits [][]float64, hidden [][][]float64, err error) {
	c := r.Config
	rope, err := c.RopeTable(contextLen)
	if err != nil {
		return nil, nil, err
	}
	x := make([][]float64, len(ids))
	for t, id := range ids {
		if id < 0 || id >= c.VocabSize {
			return nil, nil, fmt.Errorf("token id %d at position %d: expected 0 to %d", id, t, c.VocabSize-1)
		}
		row := r.weights["model.embed_tokens.weight"][id*c.HiddenSize:][:c.HiddenSize]
		for _, w := range row {
			x[t] = append(x[t], float64(w)*c.EmbedScale)
		}
	}
	for i := range c.NumHiddenLayers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		for t, branch := range r.attention(layer, r.norm(layer+"input_layernorm", x), rope, c.SlidingWindows[i]) {
			x[t] = add(x[t], branch, c.ResidualScale)
		}
		for t, branch := range r.mlp(layer, r.norm(layer+"post_attention_layernorm", x)) {
			x[t] = add(x[t], branch, c.ResidualScale)
		}
		hidden = append(hidden, append([][]float64(nil), x...))
	}
	head := "lm_head"
	if c.TieWordEmbeddings {
		head = "model.embed_tokens"
	}
	final := r.norm("model.norm", x)
	for t := range final {
		for d := range final[t] {
			final[t][d] *= c.LogitScale
		}
	}
	return r.linear(head, final), hidden, nil
}

func (r *Reference) attention(layer string, x [][]float64, rope model.RopeTable, window int) [][]float64 {
	c, dh := r.Config, r.Config.HeadDim
	q := r.linear(layer+"self_attn.q_proj", x)
	k := r.linear(layer+"self_attn.k_proj", x)
	v := r.linear(layer+"self_attn.v_proj", x)
	for t := range x {
		for h := range c.NumAttentionHeads {
			r.turn(q[t][h*dh:][:dh], layer+"self_attn.q_norm", rope, t)
		}
		for h := range c.NumKeyValueHeads {
			r.turn(k[t][h*dh:][:dh], layer+"self_attn.k_norm", rope, t)
		}
	}
	out := make([][]float64, len(x))
	group := c.NumAttentionHeads / c.NumKeyValueHeads
	for t := range x {
		first := 0
		if window > 0 {
			first = max(0, t-window+1)
		}
		for h := range c.NumAttentionHeads {
			kv := h / group * dh
			query, sum := q[t][h*dh:][:dh], 0.0
			scores := make([]float64, t+1)
			most := math.Inf(-1)
			for s := first; s <= t; s++ {
				scores[s] = dot(query, k[s][kv:][:dh]) / math.Sqrt(float64(dh))
				most = math.Max(most, scores[s])
			}
			mixed := make([]float64, dh)
			for s := first; s <= t; s++ {
				p := math.Exp(scores[s] - most)
				sum += p
				mixed = add(mixed, v[s][kv:][:dh], p)
			}
			for d := range mixed {
				mixed[d] /= sum
			}
			out[t] = append(out[t], mixed...)
		}
	}
	return r.linear(layer+"self_attn.o_proj", out)
}

// turn applies the head's norm, where the model has one, and RoPE to one head at position t, in place.
func (r *Reference) turn(head []float64, norm string, rope model.RopeTable, t int) {
	if r.Config.QKNorm {
		copy(head, r.norm(norm, [][]float64{head})[0])
	}
	half := len(head) / 2
	for i, f := range rope.InvFreq {
		sin, cos := math.Sincos(float64(t) * f)
		a, b := head[i], head[i+half]
		head[i] = (a*cos - b*sin) * rope.AttentionScaling
		head[i+half] = (b*cos + a*sin) * rope.AttentionScaling
	}
}

func (r *Reference) mlp(layer string, x [][]float64) [][]float64 {
	gate := r.linear(layer+"mlp.gate_proj", x)
	up := r.linear(layer+"mlp.up_proj", x)
	for t := range gate {
		for f, g := range gate[t] {
			gate[t][f] = g / (1 + math.Exp(-g)) * up[t][f]
		}
	}
	return r.linear(layer+"mlp.down_proj", gate)
}

func (r *Reference) norm(name string, x [][]float64) [][]float64 {
	weight := r.weights[name+".weight"]
	out := make([][]float64, len(x))
	for t, row := range x {
		scale := 1 / math.Sqrt(dot(row, row)/float64(len(row))+r.Config.RMSNormEps)
		for d, v := range row {
			out[t] = append(out[t], v*scale*float64(weight[d]))
		}
	}
	return out
}

func (r *Reference) linear(name string, x [][]float64) [][]float64 {
	weight, bias := r.weights[name+".weight"], r.weights[name+".bias"]
	out := make([][]float64, len(x))
	for t, row := range x {
		out[t] = make([]float64, len(weight)/len(row))
		for n := range out[t] {
			sum := 0.0
			for d, w := range weight[n*len(row):][:len(row)] {
				sum += float64(w) * row[d]
			}
			if bias != nil {
				sum += float64(bias[n])
			}
			out[t][n] = sum
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// add returns a + scale·b in a new slice: rows already handed out as hidden states stay as they are.
func add(a, b []float64, scale float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + scale*b[i]
	}
	return out
}
