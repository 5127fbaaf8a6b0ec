// The best of a row's chunks, a workgroup a row.
struct Params { vocab: u32, chunks: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;  // [T]
@group(0) @binding(2) var<storage, read> scratch: array<u32>;    // [T, chunks, 2]

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  var value = 0u;
  var best = 0u;
  for (var chunk = lane; chunk < params.chunks; chunk += THREADS) {
    let at = 2u * (row * params.chunks + chunk);
    if (scratch[at] > value) {
      value = scratch[at];
      best = scratch[at + 1u];
    }
  }
  let top = combine(value, best);
  if (lane == 0u) {
    out[row] = top.id;
  }
}
