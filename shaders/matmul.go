package shaders

import (
	_ "embed"
	"fmt"

	"flint/gpu"
)

//go:embed matmul.wgsl
var matMulWGSL string

var matMul = &gpu.Kernel{Name: "matmul", WGSL: matMulWGSL, Bindings: linearBindings, Reference: refLinear}

// matMulSerial is matvec's kernel over a grid of rows: without workgroup memory the two are the same loop.
var matMulSerial = &gpu.Kernel{Name: "matmul", WGSL: matVecWGSL, Bindings: linearBindings, Reference: refLinear}

// matMulTile is one way to cut the output. Every tile gives the same bits, so the choice is free.
type matMulTile struct{ rows, outputs, k, threadRows int }

var (
	matMulLarge = matMulTile{64, 64, 16, 8} // 128 threads, 10 KiB
	matMulSmall = matMulTile{32, 32, 32, 4} // 64 threads, 9 KiB
)

// matMulBusy is the number of workgroups from which large tiles keep a large GPU (132 multiprocessors) busy.
const matMulBusy = 256

// matMulTileFor chooses the tile for t rows and n outputs.
func matMulTileFor(t, n int) matMulTile {
	if ceilDiv(t, matMulLarge.rows)*ceilDiv(n, matMulLarge.outputs) >= matMulBusy {
		return matMulLarge
	}
	return matMulSmall
}

// MatMul records out = x weight^T + bias for any number of rows. Blocks of w fill their columns of out.
//
//	x [T, K] f32   w [N, K] f32, f16 or bf16   bias [N] f32, or nil   out [T, N] f32
func MatMul(r *gpu.Recorder, out, x gpu.Tensor, w Weight, bias *gpu.Tensor) {
	if !checkLinear(r, "matmul", out, x, w, bias) {
		return
	}
	t, f := x.Dim(0), r.Device().Features
	if f.Serial {
		dispatchLinear(r, matMulSerial, out, x, w, bias, func(block gpu.Tensor) (gpu.Variant, gpu.Grid) {
			return matVecVariant(f, block, serialRows, t)
		})
		return
	}
	dispatchLinear(r, matMul, out, x, w, bias, func(block gpu.Tensor) (gpu.Variant, gpu.Grid) {
		return matMulVariant(block, matMulTileFor(t, block.Dim(0)), t)
	})
}

func matMulVariant(block gpu.Tensor, tile matMulTile, t int) (gpu.Variant, gpu.Grid) {
	name, load := loads(block)
	v := gpu.Variant{
		Name:    fmt.Sprintf("%s.%dx%d", name, tile.rows, tile.outputs),
		Prelude: prelude(false, []any{"TILE_ROWS", tile.rows, "TILE_OUTPUTS", tile.outputs, "TILE_K", tile.k, "THREAD_ROWS", tile.threadRows}, load),
	}
	return v, gpu.Grid{X: ceilDiv(t, tile.rows), Y: ceilDiv(block.Dim(0), tile.outputs), Z: 1}
}
