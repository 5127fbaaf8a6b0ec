// One thread a pair (i, i + Dh/2) of one head of one row.
struct Params { heads: u32, half: u32, positions: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;     // [T, H, Dh]
@group(0) @binding(2) var<storage, read> table: array<vec2<f32>>;  // [P, Dh/2] of (cos, sin)
@group(0) @binding(3) var<uniform> state: State;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.heads * params.half) {
    return;
  }
  let row = id.y;
  let i = id.x % params.half;
  let low = (row * params.heads + id.x / params.half) * 2u * params.half + i;
  let high = low + params.half;
  // Rows past the table are slack that nobody reads.
  let position = min(state.position + row, params.positions - 1u);
  let turn = table[position * params.half + i];
  let a = x[low];
  let b = x[high];
  x[low] = fma(a, turn.x, -(b * turn.y));
  x[high] = fma(b, turn.x, a * turn.y);
}
