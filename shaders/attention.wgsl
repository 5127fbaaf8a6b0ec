// A few rows (decoding): one workgroup a chunk of 256 keys, a key/value head and up to QUERIES of the (row, query head)
// pairs that read it, so that each key and value is loaded once for all of them. One thread a key computes the scores,
// 16 threads a query the softmax, and SPLITS shares of the keys with one thread a column the weighted values. What a
// query computes, and in which order, is the same for any QUERIES and any neighbours.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;      // [T, H, Dh]
@group(0) @binding(2) var<storage, read_write> scratch: array<vec4<f32>>;  // [T, H, chunks] of Dh values, then peak and sum
@group(0) @binding(3) var<storage, read> q: array<vec4<f32>>;              // [T, H, Dh]
@group(0) @binding(4) var<storage, read> cache_k: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(5) var<storage, read> cache_v: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(6) var<storage, read> sinks: array<f32>;                // [H], if params.sinks
@group(0) @binding(7) var<uniform> state: State;

const SPLITS = CHUNK / COLUMNS;
const LANES = 16u;
const HIDDEN = -1.0;  // the weight of a key that is not seen

var<workgroup> tile: array<vec4<f32>, CHUNK>;         // first the queries, then the shares of one query's values
var<workgroup> scores: array<f32, QUERIES * CHUNK>;   // then the weights
var<workgroup> peaks: array<f32, CHUNK>;
var<workgroup> sums: array<f32, CHUNK>;
var<workgroup> stats: array<vec2<f32>, QUERIES>;      // peak and sum

@compute @workgroup_size(CHUNK)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let kv_head = group.y % params.kv_heads;
  let per_kv = params.heads / params.kv_heads;
  let first_query = group.y / params.kv_heads * QUERIES;
  let last_query = min(first_query + QUERIES, params.rows * per_kv) - 1u;

  let base = (first_chunk() + group.x) * CHUNK;
  let first = max(visible_first(first_query / per_kv), base);
  let end = min(visible_end(last_query / per_kv), base + CHUNK);
  if (first >= end && params.chunks > 1u) {
    return;
  }

  for (var i = thread; i < QUERIES * COLUMNS; i += CHUNK) {
    let query = min(first_query + i / COLUMNS, last_query);
    let head = kv_head * per_kv + query % per_kv;
    tile[i] = q[(query / per_kv * params.heads + head) * COLUMNS + i % COLUMNS] * params.scale;
  }
  workgroupBarrier();

  let key = base + thread;
  var dots: array<vec4<f32>, QUERIES>;
  if (key >= first && key < end) {
    let at = (key * params.kv_heads + kv_head) * COLUMNS;
    for (var c = 0u; c < columns(); c++) {
      let k = unpack(cache_k[at + c]);
      for (var n = 0u; n < QUERIES; n++) {
        dots[n] = fma(tile[n * COLUMNS + c], k, dots[n]);
      }
    }
  }
  for (var n = 0u; n < QUERIES; n++) {
    let row = min(first_query + n, last_query) / per_kv;
    let sees = key >= max(visible_first(row), first) && key < min(visible_end(row), end);
    scores[n * CHUNK + thread] = select(NONE, (dots[n].x + dots[n].y) + (dots[n].z + dots[n].w), sees);
  }
  workgroupBarrier();

  // Softmax. Every lane of a query adds up all lanes' shares itself, in their order: one barrier instead of four.
  let query_lanes = thread / LANES * LANES;
  let query_scores = thread / LANES * CHUNK;
  let lane_first = (first - base) / LANES * LANES + thread % LANES;
  let working = thread / LANES < QUERIES;
  var peak = NONE;
  if (working) {
    for (var i = lane_first; i < end - base; i += LANES) {
      peak = max(peak, scores[query_scores + i]);
    }
  }
  peaks[thread] = peak;
  workgroupBarrier();
  for (var i = 0u; i < lanes(); i++) {
    peak = max(peak, peaks[query_lanes + i]);
  }
  var sum = 0.0;
  if (working) {
    for (var i = lane_first; i < end - base; i += LANES) {
      let score = scores[query_scores + i];
      var weight = HIDDEN;
      if (score != NONE) {
        weight = exp(score - peak);
        sum += weight;
      }
      scores[query_scores + i] = weight;
    }
  }
  sums[thread] = sum;
  workgroupBarrier();
  if (working && thread == query_lanes) {
    for (var i = 1u; i < lanes(); i++) {
      sum += sums[thread + i];
    }
    stats[thread / LANES] = vec2<f32>(peak, sum);
  }

  let column = thread % COLUMNS;
  let split = thread / COLUMNS;
  var values: array<vec4<f32>, QUERIES>;
  if (split < SPLITS) {
    let start = max(first - base, split) - split;
    for (var i = split + (start + SPLITS - 1u) / SPLITS * SPLITS; i < end - base; i += SPLITS) {
      let v = unpack(cache_v[((base + i) * params.kv_heads + kv_head) * COLUMNS + column]);
      for (var n = 0u; n < QUERIES; n++) {
        let weight = scores[n * CHUNK + i];
        // Not weight 0: that would let another row's NaN or infinity in.
        if (!(weight < 0.0)) {
          values[n] = fma(vec4<f32>(weight), v, values[n]);
        }
      }
    }
  }

  for (var n = 0u; n < QUERIES; n++) {
    workgroupBarrier();
    tile[thread] = values[n];
    workgroupBarrier();
    let query = first_query + n;
    if (query <= last_query && thread < COLUMNS) {
      var value = tile[thread];
      for (var s = 1u; s < CHUNK / columns(); s++) {
        value += tile[s * COLUMNS + thread];
      }
      let head = kv_head * per_kv + query % per_kv;
      let at = query / per_kv * params.heads + head;
      if (params.chunks == 1u) {
        out[at * COLUMNS + thread] = finish(value, stats[n].x, stats[n].y, sink_of(head));
      } else {
        let partial = (at * params.chunks + group.x) * (COLUMNS + 1u);
        scratch[partial + thread] = value;
        if (thread == 0u) {
          scratch[partial + COLUMNS] = vec4<f32>(stats[n], 0.0, 0.0);
        }
      }
    }
  }
}
