package shaders

import (
	_ "embed"

	"flint/gpu"
)

//go:embed embed.wgsl
var embedWGSL string

var embed = &gpu.Kernel{
	Name: "embed",
	WGSL: embedWGSL,
	Bindings: []gpu.Binding{
		{Name: "out", Access: gpu.ReadWrite},
		{Name: "tokens", Access: gpu.Read},
		{Name: "state", Access: gpu.Uniform},
		{Name: "table", Access: gpu.Read},
	},
	Reference: refEmbed,
}

const embedThreads = 64

// Embed records the embedding of the step's tokens: row i of out is table[tokens[state.position+i]] * scale. A token
// outside the vocabulary, or a place outside tokens, gives zeros.
//
//	out [T, D] f32   tokens [P] u32   state [16] u32   table [V, D] f32, f16 or bf16
func Embed(r *gpu.Recorder, out, tokens, state gpu.Tensor, table Weight, scale float32) {
	if !checkWeight(r, "embed", table) || !r.Check("embed", "out", out, f32, -1, table.K()) ||
		!r.Check("embed", "tokens", tokens, u32, -1) || !r.Check("embed", "state", state, u32, StateWords) {
		return
	}
	first := 0
	for _, block := range table.Blocks {
		v := gpu.Variant{
			Name:    block.DType.String(),
			Prelude: prelude(false, []any{"THREADS", embedThreads}, libState, libWeight[block.DType]),
		}
		grid := gpu.Grid{X: ceilDiv(table.K(), embedThreads), Y: out.Dim(0), Z: 1}
		r.Dispatch(embed, v, grid, gpu.Params(table.K(), first, block.Dim(0), table.N(), tokens.Dim(0), scale), out, tokens, state, block)
		first += block.Dim(0)
	}
}

func refEmbed(c *gpu.Call) {
	d, first, count, vocabulary, places, scale := c.U(0), c.U(1), c.U(2), c.U(3), c.U(4), float64(c.F(5))
	out, tokens, position := c.F32(0), c.U32(1), int(c.U32(2)[StatePosition])
	row := make([]float64, d)
	for i := range len(out) / d {
		token := vocabulary
		if position+i < places {
			token = min(int(tokens[position+i]), vocabulary)
		}
		switch {
		case token == vocabulary && first == 0:
			clear(out[i*d : (i+1)*d])
		case token >= first && token < first+count:
			weightRow(c, 3, token-first, row)
			for j, v := range row {
				out[i*d+j] = float32(v * scale)
			}
		}
	}
}
