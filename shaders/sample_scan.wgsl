// First pass of sampling: the repetition penalty, each logit's key, and the largest of each chunk of a row.
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<u32>;  // [T, V] f32, as bits: a compiler may assume no NaN
@group(0) @binding(3) var<storage, read> tokens: array<u32>;  // the text, by absolute position
@group(0) @binding(4) var<uniform> state: State;
@group(0) @binding(5) var<uniform> settings: Settings;

var<workgroup> seen: array<atomic<u32>, CHUNK / 32u>;  // a bit for each id of the chunk

fn penalise(key: u32) -> u32 {
  if (key == 0u) {
    return 0u;
  }
  let x = clamp(key_value(key), -1e30, 1e30);
  return order_key(bitcast<u32>(x * select(settings.penalty, settings.inverse_penalty, x > 0.0)));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let start = group.x * CHUNK;
  let row = group.y;
  let position = state.position + params.first + row;
  if (settings.window > 0u) {
    let count = min(settings.window, position + 1u);
    for (var back = lane; back < count; back += THREADS) {
      let at = tokens[position - back] - start;  // ids below the chunk wrap around to large ones
      if (at < CHUNK) {
        atomicOr(&seen[at / 32u], 1u << (at % 32u));
      }
    }
    workgroupBarrier();
  }
  let end = min(start + CHUNK, params.vocab);
  let distances = distances_at(row);
  var value = 0u;
  var best = 0u;
  for (var id = start + lane; id < end; id += THREADS) {
    var key = order_key(logits[row * params.vocab + id]);
    let at = id - start;
    if (settings.window > 0u && (atomicLoad(&seen[at / 32u]) & (1u << (at % 32u))) != 0u) {
      key = penalise(key);
    }
    scratch[distances + id] = key;
    if (key > value) {
      value = key;
      best = id;
    }
  }
  let top = combine(value, best);
  if (lane == 0u) {
    let result = result_at(row, group.x);
    scratch[result] = top.value;
    scratch[result + 1u] = top.id;
  }
}
