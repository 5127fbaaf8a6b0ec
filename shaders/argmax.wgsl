// The largest logit of each chunk of a row, a workgroup a chunk, as an ordered key and its id.
struct Params { vocab: u32, chunks: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;  // [T, chunks, 2]
@group(0) @binding(2) var<storage, read> logits: array<u32>;         // [T, V] f32, as bits: a compiler may assume no NaN

const CHUNK = 4096u;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let start = group.x * CHUNK;
  let row = group.y;
  var value = 0u;
  var best = 0u;
  for (var id = start + lane; id < min(start + CHUNK, params.vocab); id += THREADS) {
    let key = order_key(logits[row * params.vocab + id]);
    if (key > value) {
      value = key;
      best = id;
    }
  }
  let top = combine(value, best);
  if (lane == 0u) {
    let at = 2u * (row * params.chunks + group.x);
    scratch[at] = top.value;
    scratch[at + 1u] = top.id;
  }
}
