package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
	"flint/model/sample"
)

var (
	//go:embed lib_argmax.wgsl
	libArgmax string
	//go:embed argmax.wgsl
	argmaxWGSL string
	//go:embed argmax_pick.wgsl
	argmaxPickWGSL string
)

var (
	argmax = &gpu.Kernel{
		Name: "argmax",
		WGSL: argmaxWGSL,
		Bindings: []gpu.Binding{
			{Name: "scratch", Access: gpu.ReadWrite},
			{Name: "logits", Access: gpu.Read},
		},
		Reference: refArgmax,
	}
	argmaxPick = &gpu.Kernel{
		Name: "argmax_pick",
		WGSL: argmaxPickWGSL,
		Bindings: []gpu.Binding{
			{Name: "out", Access: gpu.ReadWrite},
			{Name: "scratch", Access: gpu.Read},
		},
		Reference: refArgmaxPick,
	}
)

// MaxVocab is the largest vocabulary that Argmax and Sample take.
const MaxVocab = 1 << 20

// vocabChunk is how many logits of a row one workgroup looks at; CHUNK in the WGSL.
const vocabChunk = 4096

func vocabChunks(vocab int) int { return (vocab + vocabChunk - 1) / vocabChunk }

func checkVocab(r *gpu.Recorder, kernel string, vocab int) bool {
	if vocab > MaxVocab {
		r.Errorf(fmt.Sprintf("a vocabulary of at most %d", MaxVocab), fmt.Sprintf("%s: %d logits a row", kernel, vocab))
		return false
	}
	return true
}

// ArgmaxScratch is the number of words of the scratch of Argmax.
func ArgmaxScratch(rows, vocab int) int { return 2 * rows * vocabChunks(vocab) }

// Argmax records out = the id of the largest logit of each row, the lowest id among equals. NaN and -Inf are never
// chosen; a row of nothing else gives 0.
//
//	out [T] u32   logits [T, V] f32   scratch [ArgmaxScratch(T, V)] f32
func Argmax(r *gpu.Recorder, out, logits, scratch gpu.Tensor) {
	t, v := logits.Dim(0), logits.Dim(1)
	if !r.Check("argmax", "logits", logits, f32, -1, -1) || !checkVocab(r, "argmax", v) || !r.Check("argmax", "out", out, u32, t) ||
		!r.Check("argmax", "scratch", scratch, f32, ArgmaxScratch(t, v)) {
		return
	}
	chunks := vocabChunks(v)
	params := gpu.Params(v, chunks)
	r.Dispatch(argmax, gpu.Variant{Prelude: libArgmax}, gpu.Grid{X: chunks, Y: t, Z: 1}, params, scratch, logits)
	r.Dispatch(argmaxPick, gpu.Variant{Prelude: libArgmax}, gpu.Grid{X: t, Y: 1, Z: 1}, params, out, scratch)
}

func refArgmax(c *gpu.Call) {
	vocab, chunks := c.U(0), c.U(1)
	scratch, logits := c.U32(0), c.F32(1)
	for row := range c.Grid.Y {
		for chunk := range chunks {
			out := scratch[2*(row*chunks+chunk):]
			out[0], out[1] = 0, 0
			for id := chunk * vocabChunk; id < min((chunk+1)*vocabChunk, vocab); id++ {
				if k := sample.Key(logits[row*vocab+id]); k > out[0] {
					out[0], out[1] = k, uint32(id)
				}
			}
		}
	}
}

func refArgmaxPick(c *gpu.Call) {
	chunks := c.U(1)
	out, scratch := c.U32(0), c.U32(1)
	for row := range c.Grid.X {
		value := uint32(0)
		out[row] = 0
		for chunk := range chunks {
			if at := 2 * (row*chunks + chunk); scratch[at] > value {
				value, out[row] = scratch[at], scratch[at+1]
			}
		}
	}
}
