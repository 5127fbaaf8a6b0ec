// Many rows: one workgroup a tile of ROWS (16 or 64) rows of one head, which walks the keys those rows see 32 at a time
// with a running softmax. Each thread computes MY_ROWS x 2 scores and MY_ROWS rows by WIDE vec4 columns of the output,
// so that what is loaded from workgroup memory is used several times.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;      // [T, H, Dh]
@group(0) @binding(2) var<storage, read_write> scratch: array<vec4<f32>>;  // not used
@group(0) @binding(3) var<storage, read> q: array<vec4<f32>>;              // [T, H, Dh]
@group(0) @binding(4) var<storage, read> cache_k: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(5) var<storage, read> cache_v: array<Quad>;             // [P, KV, Dh]
@group(0) @binding(6) var<storage, read> sinks: array<f32>;                // [H], if params.sinks
@group(0) @binding(7) var<uniform> state: State;

const THREADS = 256u;
const KEYS = 32u;
const SIDE = 16u;                          // threads are 16 x 16: by row and by key or column
const SLICE = THREADS / ROWS;              // vec4s of a head that are staged at a time
const KEY_STRIDE = SLICE + 1u;             // padded against bank conflicts
const ROW_STRIDE = KEYS + 1u;              // likewise; the padding holds the row's rescaling
const MY_ROWS = ROWS / SIDE;
const MY_KEYS = KEYS / SIDE;
const WIDE = (COLUMNS + SIDE - 1u) / SIDE;
const TEAM = THREADS / ROWS;               // threads of a row in the softmax

var<workgroup> queries: array<vec4<f32>, ROWS * SLICE>;
var<workgroup> keys: array<vec4<f32>, KEYS * KEY_STRIDE>;
var<workgroup> scores: array<f32, ROWS * ROW_STRIDE>;
var<workgroup> team: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  // The last tile sees the most keys and starts first.
  let first_row = (groups.x - 1u - group.x) * ROWS;
  let last_row = min(first_row + ROWS, params.rows) - 1u;
  let head = group.y;
  let kv_head = head / (params.heads / params.kv_heads);
  let first = visible_first(first_row);
  let end = visible_end(last_row);

  let my_row = thread / SIDE;     // and every 16th after it
  let my_column = thread % SIDE;  // likewise, of keys and of output columns
  let team_row = thread / TEAM;
  let team_first = visible_first(min(first_row + team_row, last_row));
  let team_end = visible_end(min(first_row + team_row, last_row));

  var values: array<vec4<f32>, MY_ROWS * WIDE>;
  var peak = NONE;  // of team_row
  var sum = 0.0;    // of this thread's keys of team_row
  for (var base = first / KEYS * KEYS; base < end; base += KEYS) {
    // The initial value is written out: without it Tint leaves the last round's in place.
    var dots = array<vec4<f32>, MY_ROWS * MY_KEYS>();
    for (var slice = 0u; slice < columns(); slice += SLICE) {
      let c = slice + thread % SLICE;
      let row = min(first_row + thread / SLICE, last_row);
      workgroupBarrier();
      // Past the last row and outside the visible keys there is only some row or key that counts: its scores are
      // dropped, and nothing stale is read.
      if (c < COLUMNS) {
        queries[thread] = q[(row * params.heads + head) * COLUMNS + c] * params.scale;
        for (var i = thread; i < KEYS * SLICE; i += THREADS) {
          let key = clamp(base + i / SLICE, first, end - 1u);
          keys[i / SLICE * KEY_STRIDE + i % SLICE] = unpack(cache_k[(key * params.kv_heads + kv_head) * COLUMNS + c]);
        }
      }
      workgroupBarrier();
      for (var j = 0u; j < min(SLICE, columns() - slice); j++) {
        var k: array<vec4<f32>, MY_KEYS>;
        for (var n = 0u; n < MY_KEYS; n++) {
          k[n] = keys[(my_column + n * SIDE) * KEY_STRIDE + j];
        }
        for (var m = 0u; m < MY_ROWS; m++) {
          let a = queries[(my_row + m * SIDE) * SLICE + j];
          for (var n = 0u; n < MY_KEYS; n++) {
            dots[m * MY_KEYS + n] = fma(a, k[n], dots[m * MY_KEYS + n]);
          }
        }
      }
    }
    for (var m = 0u; m < MY_ROWS; m++) {
      for (var n = 0u; n < MY_KEYS; n++) {
        let d = dots[m * MY_KEYS + n];
        scores[(my_row + m * SIDE) * ROW_STRIDE + my_column + n * SIDE] = (d.x + d.y) + (d.z + d.w);
      }
    }
    workgroupBarrier();

    var top = NONE;
    for (var i = thread % TEAM; i < KEYS; i += TEAM) {
      if (base + i >= team_first && base + i < team_end) {
        top = max(top, scores[team_row * ROW_STRIDE + i]);
      }
    }
    team[thread] = top;
    workgroupBarrier();
    top = peak;
    for (var i = 0u; i < TEAM; i++) {
      top = max(top, team[team_row * TEAM + i]);
    }
    let keep = decay(peak, top);
    peak = top;
    sum *= keep;
    for (var i = thread % TEAM; i < KEYS; i += TEAM) {
      var weight = 0.0;
      if (base + i >= team_first && base + i < team_end) {
        weight = exp(scores[team_row * ROW_STRIDE + i] - peak);
        sum += weight;
      }
      scores[team_row * ROW_STRIDE + i] = weight;
    }
    if (thread % TEAM == 0u) {
      scores[team_row * ROW_STRIDE + KEYS] = keep;
    }
    workgroupBarrier();

    for (var m = 0u; m < MY_ROWS; m++) {
      let keep = scores[(my_row + m * SIDE) * ROW_STRIDE + KEYS];
      for (var w = 0u; w < WIDE; w++) {
        values[m * WIDE + w] *= keep;
      }
    }
    // Four values are on their way at a time. Past the last key that counts the weight is 0, and the value read in its
    // place is one that counts.
    for (var i = 0u; i < min(KEYS, end - base); i += 4u) {
      for (var w = 0u; w < WIDE; w++) {
        let c = min(my_column + w * SIDE, COLUMNS - 1u);
        var v = array<vec4<f32>, 4>();
        for (var n = 0u; n < 4u; n++) {
          let key = clamp(base + i + n, first, end - 1u);
          v[n] = unpack(cache_v[(key * params.kv_heads + kv_head) * COLUMNS + c]);
        }
        for (var m = 0u; m < MY_ROWS; m++) {
          for (var n = 0u; n < 4u; n++) {
            values[m * WIDE + w] = fma(vec4<f32>(scores[(my_row + m * SIDE) * ROW_STRIDE + i + n]), v[n], values[m * WIDE + w]);
          }
        }
      }
    }
  }

  workgroupBarrier();
  team[thread] = sum;
  scores[team_row * ROW_STRIDE] = peak;
  workgroupBarrier();
  for (var m = 0u; m < MY_ROWS; m++) {
    let row = my_row + m * SIDE;
    if (first_row + row > last_row) {
      break;
    }
    var total = 0.0;
    for (var i = 0u; i < TEAM; i++) {
      total += team[row * TEAM + i];
    }
    for (var w = 0u; w < WIDE; w++) {
      let c = my_column + w * SIDE;
      if (c < COLUMNS) {
        let at = ((first_row + row) * params.heads + head) * COLUMNS + c;
        out[at] = finish(values[m * WIDE + w], scores[row * ROW_STRIDE], total, sink_of(head));
      }
    }
  }
}
