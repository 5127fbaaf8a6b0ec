// CPU rasterisers: one thread a row, head and span of keys, with a running softmax over four keys at a time. The rows
// of a workgroup walk the same keys, so the loads are uniform and a rasteriser makes them once for all its lanes.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;      // [T, H, Dh]
@group(0) @binding(2) var<storage, read_write> scratch: array<vec4<f32>>;  // [T, H, chunks] of Dh values, then peak and sum
@group(0) @binding(3) var<storage, read> q: array<vec4<f32>>;              // [T, H, Dh]
@group(0) @binding(4) var<storage, read> cache_k: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(5) var<storage, read> cache_v: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(6) var<storage, read> sinks: array<f32>;                // [H], if params.sinks
@group(0) @binding(7) var<uniform> state: State;

const ROWS = 8u;

@compute @workgroup_size(ROWS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let first_row = group.x * ROWS;
  let row = first_row + lane;
  if (row >= params.rows) {
    return;
  }
  let head = group.y;
  let at = row * params.heads + head;
  let kv_head = head / (params.heads / params.kv_heads);

  // The keys of the whole workgroup, and this row's own among them.
  let base = (first_chunk() + group.z) * CHUNK;
  let bound = select(base + CHUNK, params.positions, params.chunks == 1u);
  let group_first = max(visible_first(first_row), base);
  let group_end = min(visible_end(min(first_row + ROWS, params.rows) - 1u), bound);
  if (group_first >= group_end && params.chunks > 1u) {
    return;
  }
  let first = max(visible_first(row), base);
  let end = min(visible_end(row), bound);

  var query: array<vec4<f32>, COLUMNS>;
  var value: array<vec4<f32>, COLUMNS>;
  for (var c = 0u; c < COLUMNS; c++) {
    query[c] = q[at * COLUMNS + c] * params.scale;
  }
  var peak = NONE;
  var sum = 0.0;
  // Blocks of four lie at multiples of four, whatever the workgroup sees, and keys outside are replaced by one inside:
  // a row's bits do not depend on the others.
  for (var key = group_first & ~3u; key < group_end; key += 4u) {
    let keys = key + vec4<u32>(0u, 1u, 2u, 3u);
    let load = (clamp(keys, vec4<u32>(group_first), vec4<u32>(group_end - 1u)) * params.kv_heads + kv_head) * COLUMNS;
    let sees = (keys >= vec4<u32>(first)) & (keys < vec4<u32>(end));
    var s = vec4<f32>();
    for (var c = 0u; c < COLUMNS; c++) {
      let a = query[c];
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
    for (var c = 0u; c < COLUMNS; c++) {
      // Another row's NaN or infinity must not come in by way of a weight of 0.
      let v0 = select(vec4<f32>(), unpack(cache_v[load.x + c]), sees.x);
      let v1 = select(vec4<f32>(), unpack(cache_v[load.y + c]), sees.y);
      let v2 = select(vec4<f32>(), unpack(cache_v[load.z + c]), sees.z);
      let v3 = select(vec4<f32>(), unpack(cache_v[load.w + c]), sees.w);
      let kept = value[c] * keep;
      value[c] = fma(vec4<f32>(w.w), v3, fma(vec4<f32>(w.z), v2, fma(vec4<f32>(w.y), v1, fma(vec4<f32>(w.x), v0, kept))));
    }
  }

  if (params.chunks == 1u) {
    for (var c = 0u; c < COLUMNS; c++) {
      out[at * COLUMNS + c] = finish(value[c], peak, sum, sink_of(head));
    }
    return;
  }
  let partial = (at * params.chunks + group.z) * (COLUMNS + 1u);
  for (var c = 0u; c < COLUMNS; c++) {
    scratch[partial + c] = value[c];
  }
  scratch[partial + COLUMNS] = vec4<f32>(peak, sum, 0.0, 0.0);
}
