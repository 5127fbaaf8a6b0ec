// CPU rasterisers: one workgroup a row, head and span of keys, as narrow as a rasteriser's vector. Each lane keeps a
// running softmax over its own blocks of four keys; there is one barrier, before the lanes merge.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;      // [T, H, Dh]
@group(0) @binding(2) var<storage, read_write> scratch: array<vec4<f32>>;  // [T, H, chunks] of Dh values, then peak and sum
@group(0) @binding(3) var<storage, read> q: array<vec4<f32>>;              // [T, H, Dh]
@group(0) @binding(4) var<storage, read> cache_k: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(5) var<storage, read> cache_v: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(6) var<storage, read> sinks: array<f32>;                // [H], if params.sinks
@group(0) @binding(7) var<uniform> state: State;

const LANES = 8u;
const BLOCK = vec4<u32>(0u, 1u, 2u, 3u);

var<workgroup> values: array<vec4<f32>, LANES * COLUMNS>;  // zeroed by WGSL's own rule
var<workgroup> stats: array<vec2<f32>, LANES>;             // peak and sum

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  let head = group.y;
  let at = row * params.heads + head;
  let kv_head = head / (params.heads / params.kv_heads);
  let base = (first_chunk() + group.z) * CHUNK;
  let first = max(visible_first(row), base);
  let end = select(min(visible_end(row), base + CHUNK), visible_end(row), params.chunks == 1u);
  if (first >= end && params.chunks > 1u) {
    return;
  }

  var peak = NONE;
  var sum = 0.0;
  for (var block = first / (4u * LANES) * (4u * LANES); block < end; block += 4u * LANES) {
    let keys = block + 4u * lane + BLOCK;
    let sees = (keys >= vec4<u32>(first)) & (keys < vec4<u32>(end));
    let load = (clamp(keys, vec4<u32>(first), vec4<u32>(end - 1u)) * params.kv_heads + kv_head) * COLUMNS;
    var s = vec4<f32>();
    for (var c = 0u; c < columns(); c++) {
      let a = q[at * COLUMNS + c] * params.scale;
      let k0 = unpack(cache_k[load.x + c]);
      let k1 = unpack(cache_k[load.y + c]);
      let k2 = unpack(cache_k[load.z + c]);
      let k3 = unpack(cache_k[load.w + c]);
      s = fma(vec4<f32>(a.x), vec4<f32>(k0.x, k1.x, k2.x, k3.x), s);
      s = fma(vec4<f32>(a.y), vec4<f32>(k0.y, k1.y, k2.y, k3.y), s);
      s = fma(vec4<f32>(a.z), vec4<f32>(k0.z, k1.z, k2.z, k3.z), s);
      s = fma(vec4<f32>(a.w), vec4<f32>(k0.w, k1.w, k2.w, k3.w), s);
    }
    s = select(vec4<f32>(NONE), s, sees);
    let top = max(peak, max(max(s.x, s.y), max(s.z, s.w)));
    let keep = decay(peak, top);
    let w = select(vec4<f32>(), exp(s - top), sees);
    peak = top;
    sum = fma(sum, keep, (w.x + w.y) + (w.z + w.w));
    for (var c = 0u; c < columns(); c++) {
      var v = values[lane * COLUMNS + c] * keep;
      v = fma(vec4<f32>(w.x), unpack(cache_v[load.x + c]), v);
      v = fma(vec4<f32>(w.y), unpack(cache_v[load.y + c]), v);
      v = fma(vec4<f32>(w.z), unpack(cache_v[load.z + c]), v);
      v = fma(vec4<f32>(w.w), unpack(cache_v[load.w + c]), v);
      values[lane * COLUMNS + c] = v;
    }
  }
  stats[lane] = vec2<f32>(peak, sum);
  workgroupBarrier();

  for (var l = 0u; l < lanes(); l++) {
    peak = max(peak, stats[l].x);
  }
  sum = 0.0;
  for (var l = 0u; l < lanes(); l++) {
    sum = fma(stats[l].y, decay(stats[l].x, peak), sum);
  }
  let partial = (at * params.chunks + group.z) * (COLUMNS + 1u);
  for (var c = lane; c < columns(); c += LANES) {
    var v = vec4<f32>();
    for (var l = 0u; l < lanes(); l++) {
      v = fma(values[l * COLUMNS + c], vec4<f32>(decay(stats[l].x, peak)), v);
    }
    if (params.chunks == 1u) {
      out[at * COLUMNS + c] = finish(v, peak, sum, sink_of(head));
    } else {
      scratch[partial + c] = v;
    }
  }
  if (params.chunks > 1u && lane == 0u) {
    scratch[partial + COLUMNS] = vec4<f32>(peak, sum, 0.0, 0.0);
  }
}
