// out row i = table[tokens[state.position + i]] * scale, one thread an element. The table may be one block of rows of a
// larger one; then each block writes the rows it has. The first also writes zeros for tokens that no block has.
struct Params { d: u32, first: u32, count: u32, vocabulary: u32, places: u32, scale: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // [T, D]
@group(0) @binding(2) var<storage, read> tokens: array<u32>;     // [P]
@group(0) @binding(3) var<uniform> state: State;
@group(0) @binding(4) var<storage, read> table: array<u32>;      // [count, D], packed

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let column = group.x * THREADS + local;
  if (column >= params.d) {
    return;
  }
  // What lies outside the tokens or the vocabulary counts as one past its end. position is checked first so that the
  // sum cannot wrap around.
  var token = params.vocabulary;
  if (state.position < params.places && group.y < params.places - state.position) {
    token = min(tokens[state.position + group.y], params.vocabulary);
  }
  let at = group.y * params.d + column;
  if (token == params.vocabulary) {
    if (params.first == 0u) {
      out[at] = 0.0;
    }
    return;
  }
  if (token < params.first || token - params.first >= params.count) {
    return;
  }
  let element = (token - params.first) * params.d + column;
  out[at] = unpack(table[element / PER_WORD], element % PER_WORD) * params.scale;
}
