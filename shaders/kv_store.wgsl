// One thread a pair of neighbouring elements: a packed cache has two to a word.
struct Params { pairs: u32, positions: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> cache_k: array<Pair>;  // [P, KV, Dh]
@group(0) @binding(2) var<storage, read_write> cache_v: array<Pair>;  // [P, KV, Dh]
@group(0) @binding(3) var<storage, read> k: array<vec2<f32>>;         // [T, KV, Dh]
@group(0) @binding(4) var<storage, read> v: array<vec2<f32>>;         // [T, KV, Dh]
@group(0) @binding(5) var<uniform> state: State;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let position = state.position + id.y;
  // The first test catches a sum that wrapped around.
  if (position < state.position || position >= params.positions || id.x >= params.pairs) {
    return;
  }
  let pair = id.y * params.pairs + id.x;
  let destination = position * params.pairs + id.x;
  cache_k[destination] = pack(k[pair]);
  cache_v[destination] = pack(v[pair]);
}
