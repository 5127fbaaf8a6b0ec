package shaders

import (
	_ "embed"
	"fmt"
	"math"

	"flint/gpu"
)

var (
	//go:embed attention.wgsl
	attentionWGSL string
	//go:embed attention_prefill.wgsl
	attentionPrefillWGSL string
	//go:embed attention_serial.wgsl
	attentionSerialWGSL string
	//go:embed attention_combine.wgsl
	attentionCombineWGSL string
	//go:embed lib_kv_visible.wgsl
	libKVVisible string
)

const (
	// AttentionChunk is how many keys one partial result covers, at multiples of it from position 0.
	AttentionChunk = 256
	// attentionFewRows bounds the rows that are split by chunks, whose bits do not depend on their number. It is the
	// widest decoding step.
	attentionFewRows = 8
	// attentionBusy is how many workgroups of a prefill keep a large GPU busy.
	attentionBusy = 128
)

var (
	attention        = attentionKernel("attention", attentionWGSL)
	attentionPrefill = attentionKernel("attention_prefill", attentionPrefillWGSL)
	attentionSerial  = attentionKernel("attention_serial", attentionSerialWGSL)

	attentionCombine = &gpu.Kernel{
		Name: "attention_combine",
		WGSL: attentionCombineWGSL,
		Bindings: []gpu.Binding{
			{Name: "out", Access: gpu.ReadWrite},
			{Name: "scratch", Access: gpu.Read},
			{Name: "sinks", Access: gpu.Read},
			{Name: "state", Access: gpu.Uniform},
		},
		Reference: refAttentionCombine,
	}
)

func attentionKernel(name, wgsl string) *gpu.Kernel {
	return &gpu.Kernel{
		Name: name,
		WGSL: wgsl,
		Bindings: []gpu.Binding{
			{Name: "out", Access: gpu.ReadWrite},
			{Name: "scratch", Access: gpu.ReadWrite},
			{Name: "q", Access: gpu.Read},
			{Name: "cacheK", Access: gpu.Read},
			{Name: "cacheV", Access: gpu.Read},
			{Name: "sinks", Access: gpu.Read},
			{Name: "state", Access: gpu.Uniform},
		},
		Reference: refAttention,
	}
}

// AttentionConfig says what the rows of an attention see.
type AttentionConfig struct {
	Scale float32 // of the scores, usually 1/sqrt(Dh)
	// Causal: row i sees the keys 0 to state.position+i. Otherwise every row sees the keys before
	// state.position+VisibleExtra.
	Causal       bool
	VisibleExtra int
	// Window bounds a causal row to its last Window keys, its own counted; 0 means no bound.
	Window int
	// Sinks is nil or [H] f32: for each head one more logit in the softmax, which has no value.
	Sinks *gpu.Tensor
	// MaxKeys is an upper bound of the keys before any row's end, for every position the recorded list will run at. It
	// sizes the grid and the scratch; it never changes a bit of the result. Keys beyond it would be missed.
	MaxKeys int
}

// AttentionScratch returns how many words of scratch Attention needs for these sizes and smaller ones.
func AttentionScratch(rows, heads, headDim, maxKeys int) int {
	return min(rows, attentionFewRows) * heads * attentionChunks(maxKeys) * (headDim + 4)
}

// attentionChunks is how many chunks the first n keys lie in.
func attentionChunks(n int) int { return max((n+AttentionChunk-1)/AttentionChunk, 1) }

// Attention records out = softmax(q K^T * Scale) V over the keys each row sees. Query head h reads key/value head
// h/(H/KV). K and V are read from the caches, where KVStore has put those of these rows.
//
//	out, q [T, H, Dh] f32   cacheK, cacheV [P, KV, Dh] f32 or f16   scratch [AttentionScratch(...) or more] f32
//
// Dh is a multiple of 4 from 8 to 256. Up to 8 rows are computed in chunks of 256 keys at multiples of 256 and then
// merged: a row's bits depend on what it sees alone, not on the other rows, their number or MaxKeys. More rows take a path
// without chunks and scratch, whose bits depend on the position and the number of rows too.
func Attention(r *gpu.Recorder, out, q, cacheK, cacheV, scratch, state gpu.Tensor, cfg AttentionConfig) {
	t, h, dh := q.Dim(0), q.Dim(1), q.Dim(2)
	p, kv := cacheK.Dim(0), cacheK.Dim(1)
	if !r.Check("attention", "q", q, f32, -1, -1, -1) || !r.Check("attention", "out", out, f32, t, h, dh) ||
		!r.Check("attention", "cacheK", cacheK, kvTypes, -1, -1, dh) ||
		!r.Check("attention", "cacheV", cacheV, []gpu.DType{cacheK.DType}, p, kv, dh) ||
		!r.Check("attention", "scratch", scratch, f32, -1) || !r.Check("attention", "state", state, u32, StateWords) {
		return
	}
	sinks := q // bound in their place, never read
	if cfg.Sinks != nil {
		sinks = *cfg.Sinks
		if !r.Check("attention", "sinks", sinks, f32, h) {
			return
		}
	}
	need, have := "", ""
	switch {
	case dh < 8 || dh > 256 || dh%4 != 0:
		need, have = "a head dimension that is a multiple of 4 from 8 to 256", fmt.Sprintf("q is %v", q)
	case kv == 0 || h%kv != 0:
		need, have = "a number of heads that is a multiple of the key/value heads", fmt.Sprintf("q is %v, cacheK is %v", q, cacheK)
	case cfg.MaxKeys < 1 || cfg.Window < 0 || cfg.VisibleExtra < 0:
		need, have = "MaxKeys of at least 1, Window and VisibleExtra not negative", fmt.Sprintf("%d, %d and %d", cfg.MaxKeys, cfg.Window, cfg.VisibleExtra)
	case cfg.Causal && cfg.VisibleExtra != 0 || !cfg.Causal && (cfg.Window != 0 || cfg.VisibleExtra == 0):
		need, have = "Causal with or without Window, or VisibleExtra alone", fmt.Sprintf("Causal %v, Window %d, VisibleExtra %d", cfg.Causal, cfg.Window, cfg.VisibleExtra)
	}
	if need != "" {
		r.Errorf("attention: "+need, have)
		return
	}
	plan := planAttention(r.Device().Features, t, h, kv, dh, p, cfg)
	if words := t * h * plan.chunks * (dh + 4); plan.chunks > 1 && scratch.Len() < words {
		r.Errorf(fmt.Sprintf("attention: scratch of %d words", words), fmt.Sprintf("scratch is %v", scratch))
		return
	}
	prelude := libState + libKVVisible + fmt.Sprintf("const HEAD_DIM = %du;\n", dh)
	variant := gpu.Variant{
		Name:    fmt.Sprintf("%v.dh%d.q%d.r%d", cacheK.DType, dh, plan.queries, plan.rows),
		Prelude: prelude + fmt.Sprintf("const QUERIES = %du;\nconst ROWS = %du;\n", plan.queries, plan.rows) + attentionLoops(r.Device(), dh/4, plan.lanes) + libKV(cacheK.DType),
	}
	params := gpu.Params(t, h, kv, p, cfg.Causal, cfg.Window, cfg.VisibleExtra, plan.chunks, cfg.Sinks != nil, cfg.Scale, dh/4, plan.lanes)
	r.Dispatch(plan.kernel, variant, plan.grid, params, out, scratch, q, cacheK, cacheV, sinks, state)
	if plan.chunks > 1 {
		const threads = 64
		grid := gpu.Grid{X: (h*dh/4 + threads - 1) / threads, Y: t, Z: 1}
		r.Dispatch(attentionCombine, gpu.Variant{Name: fmt.Sprintf("dh%d", dh), Prelude: prelude}, grid, params, out, scratch, sinks, state)
	}
}

// attentionLoops says what bounds the kernels' inner loops: constants on a GPU, which then unrolls them and has many
// loads under way; parameters of the same values on a CPU rasteriser, which takes seconds to compile unrolled ones.
func attentionLoops(d *gpu.Device, columns, lanes int) string {
	if d.Info.Software {
		return "fn columns() -> u32 { return params.columns; }\nfn lanes() -> u32 { return params.lanes; }\n"
	}
	return fmt.Sprintf("fn columns() -> u32 { return %du; }\nfn lanes() -> u32 { return %du; }\n", columns, lanes)
}

// attentionPlan is how one attention is computed on a device.
type attentionPlan struct {
	kernel  *gpu.Kernel
	grid    gpu.Grid
	chunks  int // partial results a row and head; 1: they are the output
	queries int // (row, head) pairs that share a workgroup of the attention kernel; 1 for the others
	lanes   int // LANES of the kernel
	rows    int // of a workgroup of the prefill kernel
}

func planAttention(f gpu.Features, t, h, kv, dh, p int, cfg AttentionConfig) attentionPlan {
	few := t <= attentionFewRows
	chunks := 1
	if few {
		chunks = attentionChunks(min(cfg.MaxKeys, p))
		if cfg.Window > 0 {
			// The rows together see at most this many keys, which can begin anywhere in a chunk.
			seen := cfg.Window + t - 1
			chunks = min(chunks, (seen+AttentionChunk-2)/AttentionChunk+1)
		}
	}
	switch {
	case f.Serial:
		return attentionPlan{attentionSerial, gpu.Grid{X: t, Y: h, Z: chunks}, chunks, 1, 8, 1}
	case !few:
		rows := 64
		if ceilDiv(t, rows)*h < attentionBusy { // few heads: smaller tiles, so that a GPU has work everywhere
			rows = 16
		}
		return attentionPlan{attentionPrefill, gpu.Grid{X: ceilDiv(t, rows), Y: h, Z: 1}, 1, 1, 1, rows}
	}
	pairs := t * h / kv
	queries := 1
	for 2*queries <= min(8, 4*AttentionChunk/dh) && queries < pairs { // their vec4s fill one workgroup's tile at most
		queries *= 2
	}
	return attentionPlan{attention, gpu.Grid{X: chunks, Y: kv * ((pairs + queries - 1) / queries), Z: 1}, chunks, queries, 16, 1}
}

// attentionCall is what the references read from a dispatch.
type attentionCall struct {
	t, h, kv, dh, p       int
	causal                bool
	window, extra, chunks int
	sinks                 []float32 // nil without
	scale                 float64
	position              int
}

func newAttentionCall(c *gpu.Call, sinks, state int) attentionCall {
	a := attentionCall{
		t: c.U(0), h: c.U(1), kv: c.U(2), p: c.U(3), causal: c.U(4) == 1, window: c.U(5), extra: c.U(6), chunks: c.U(7),
		scale: float64(c.F(9)), position: int(c.U32(state)[StatePosition]), dh: c.Tensors[0].Dim(2),
	}
	if c.U(8) == 1 {
		a.sinks = c.F32(sinks)
	}
	return a
}

// visible returns the keys a row sees, first to end-1.
func (a attentionCall) visible(row int) (first, end int) {
	end = a.position + a.extra
	if a.causal {
		end = a.position + row + 1
	}
	end = min(end, a.p)
	if a.window > 0 {
		first = max(end-a.window, 0)
	}
	return first, end
}

func (a attentionCall) firstChunk() int {
	first, _ := a.visible(0)
	return first / AttentionChunk
}

// merge writes the output of a row and head from partial softmaxes: values weighted by exp(score-peak), their peaks
// and sums.
func (a attentionCall) merge(out []float32, head int, values [][]float64, peaks, sums []float64) {
	top := math.Inf(-1)
	if a.sinks != nil {
		top = float64(a.sinks[head])
	}
	for _, peak := range peaks {
		top = max(top, peak)
	}
	total := 0.0
	if a.sinks != nil {
		total = math.Exp(float64(a.sinks[head]) - top)
	}
	merged := make([]float64, len(out))
	for i, peak := range peaks {
		keep := math.Exp(peak - top)
		total += keep * sums[i]
		for d, v := range values[i] {
			merged[d] += keep * v
		}
	}
	for d, v := range merged {
		out[d] = 0
		if total != 0 { // 0: the row sees no key
			out[d] = float32(v / total)
		}
	}
}

func refAttention(c *gpu.Call) {
	a := newAttentionCall(c, 5, 6)
	out, scratch, q := c.F32(0), c.F32(1), c.F32(2)
	from, _ := a.visible(0)
	_, to := a.visible(a.t - 1)
	width := a.kv * a.dh
	keys, values := kvRows(c, 3, from, to, width), kvRows(c, 4, from, to, width)
	for row := range a.t {
		for head := range a.h {
			at := row*a.h + head
			query := q[at*a.dh : (at+1)*a.dh]
			column := head / (a.h / a.kv) * a.dh
			first, end := a.visible(row)
			for chunk := range a.chunks {
				if a.chunks > 1 {
					first, end = a.visible(row)
					base := (a.firstChunk() + chunk) * AttentionChunk
					first, end = max(first, base), min(end, base+AttentionChunk)
				}
				if first >= end && a.chunks > 1 {
					continue
				}
				value, peak, sum := a.softmax(query, keys[max(first-from, 0)*width:], values[max(first-from, 0)*width:], column, end-first)
				if a.chunks == 1 {
					a.merge(out[at*a.dh:(at+1)*a.dh], head, [][]float64{value}, []float64{peak}, []float64{sum})
					continue
				}
				partial := scratch[(at*a.chunks+chunk)*(a.dh+4):]
				for d, v := range value {
					partial[d] = float32(v)
				}
				partial[a.dh], partial[a.dh+1] = float32(peak), float32(sum)
			}
		}
	}
}

// softmax returns the values of n keys weighted by exp(score-peak), the peak and the sum of the weights, all as f32, the
// way partial results are stored: so one chunk gives the same bits with and without a combine here too.
func (a attentionCall) softmax(query, keys, values []float32, column, n int) (value []float64, peak, sum float64) {
	scores := make([]float64, max(n, 0))
	peak = math.Inf(-1)
	width := a.kv * a.dh
	for i := range scores {
		k := keys[i*width+column:][:a.dh]
		for d, x := range query {
			scores[i] += float64(x) * float64(k[d])
		}
		scores[i] *= a.scale
		peak = max(peak, scores[i])
	}
	value = make([]float64, a.dh)
	for i, s := range scores {
		w := math.Exp(s - peak)
		sum += w
		v := values[i*width+column:][:a.dh]
		for d := range value {
			value[d] += w * float64(v[d])
		}
	}
	for d, v := range value {
		value[d] = float64(float32(v))
	}
	return value, float64(float32(peak)), float64(float32(sum))
}

// kvRows returns rows from to to-1 of a cache, widened to f32.
func kvRows(c *gpu.Call, i, from, to, width int) []float32 {
	if to <= from {
		return nil
	}
	if c.Tensors[i].DType == gpu.F32 {
		return c.F32(i)[from*width : to*width]
	}
	halves := c.U16(i)[from*width : to*width]
	rows := make([]float32, len(halves))
	for j, half := range halves {
		rows[j] = gpu.FromF16(half)
	}
	return rows
}

func refAttentionCombine(c *gpu.Call) {
	a := newAttentionCall(c, 2, 3)
	out, scratch := c.F32(0), c.F32(1)
	for row := range a.t {
		first, end := a.visible(row)
		from := first/AttentionChunk - a.firstChunk()
		to := min((end+AttentionChunk-1)/AttentionChunk-a.firstChunk(), a.chunks)
		for head := range a.h {
			at := row*a.h + head
			var values [][]float64
			var peaks, sums []float64
			for chunk := from; chunk < to; chunk++ {
				partial := scratch[(at*a.chunks+chunk)*(a.dh+4):][:a.dh+2]
				value := make([]float64, a.dh)
				for d := range value {
					value[d] = float64(partial[d])
				}
				values, peaks, sums = append(values, value), append(peaks, float64(partial[a.dh])), append(sums, float64(partial[a.dh+1]))
			}
			a.merge(out[at*a.dh:(at+1)*a.dh], head, values, peaks, sums)
		}
	}
}
