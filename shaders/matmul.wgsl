// out = x weight^T + bias for many rows of x. A workgroup makes a tile of TILE_ROWS by TILE_OUTPUTS, TILE_K inputs at a
// time through workgroup memory; a thread makes THREAD_ROWS by 4 of it in registers. Each sum runs over K in order, so a
// result depends neither on the tile nor on the other rows.
struct Params { n: u32, k: u32, rows: u32, stride: u32, column: u32, has_bias: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // [T, stride], written at columns column to column + n
@group(0) @binding(4) var<storage, read> bias: array<f32>;       // [stride]

const ACROSS = TILE_OUTPUTS / 4u;
const DOWN = TILE_ROWS / THREAD_ROWS;
const THREADS = ACROSS * DOWN;
const X_LINE = TILE_K / 4u;
const WEIGHT_LINE = X_LINE / QUADS;
const X_LOADS = TILE_ROWS * X_LINE / THREADS;
const WEIGHT_LOADS = TILE_OUTPUTS * WEIGHT_LINE / THREADS;

// Lines are padded by a quad so that neighbouring threads, which read neighbouring lines, hit different banks.
const PITCH = X_LINE + 1u;
var<workgroup> tile_x: array<vec4<f32>, TILE_ROWS * PITCH>;
var<workgroup> tile_weight: array<vec4<f32>, TILE_OUTPUTS * PITCH>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let first_row = group.x * TILE_ROWS;
  let first_output = group.y * TILE_OUTPUTS;
  let across = local % ACROSS;
  let down = local / ACROSS;
  let quads = (params.k + 3u) / 4u;
  let chunks = (params.k + 4u * PER_WORD - 1u) / (4u * PER_WORD);

  var sums: array<vec4<f32>, THREAD_ROWS>;
  var next_x: array<vec4<f32>, X_LOADS>;
  var next_weight: array<vec4<u32>, WEIGHT_LOADS>;
  for (var step = 0u; step <= (params.k + TILE_K - 1u) / TILE_K; step++) {
    // Turn 0 only loads; every later turn works on what the turn before loaded, while its own loads are under way.
    if (step > 0u) {
      workgroupBarrier();
      for (var i = 0u; i < X_LOADS; i++) {
        let at = i * THREADS + local;
        tile_x[(at / X_LINE) * PITCH + at % X_LINE] = next_x[i];
      }
      for (var i = 0u; i < WEIGHT_LOADS; i++) {
        let at = i * THREADS + local;
        for (var q = 0u; q < QUADS; q++) {
          tile_weight[(at / WEIGHT_LINE) * PITCH + (at % WEIGHT_LINE) * QUADS + q] = quad(next_weight[i], q);
        }
      }
      workgroupBarrier();
    }
    // Rows and outputs past the end repeat the last one and are dropped at the store; past K everything is 0.
    for (var i = 0u; i < X_LOADS; i++) {
      let at = i * THREADS + local;
      let q = step * X_LINE + at % X_LINE;
      next_x[i] = vec4<f32>();
      if (q < quads) {
        next_x[i] = load_x(min(first_row + at / X_LINE, params.rows - 1u), q);
      }
    }
    for (var i = 0u; i < WEIGHT_LOADS; i++) {
      let at = i * THREADS + local;
      let chunk = step * WEIGHT_LINE + at % WEIGHT_LINE;
      next_weight[i] = vec4<u32>();
      if (chunk < chunks) {
        next_weight[i] = load_weight(min(first_output + at / WEIGHT_LINE, params.n - 1u), chunk);
      }
    }
    if (step > 0u) {
      for (var q = 0u; q < X_LINE; q++) {
        let w = transpose(mat4x4<f32>(
          tile_weight[across * PITCH + q],
          tile_weight[(across + ACROSS) * PITCH + q],
          tile_weight[(across + 2u * ACROSS) * PITCH + q],
          tile_weight[(across + 3u * ACROSS) * PITCH + q],
        ));
        for (var r = 0u; r < THREAD_ROWS; r++) {
          let v = tile_x[(down + r * DOWN) * PITCH + q];
          var sum = sums[r];
          sum = fma(vec4<f32>(v.x), w[0], sum);
          sum = fma(vec4<f32>(v.y), w[1], sum);
          sum = fma(vec4<f32>(v.z), w[2], sum);
          sum = fma(vec4<f32>(v.w), w[3], sum);
          sums[r] = sum;
        }
      }
    }
  }

  for (var r = 0u; r < THREAD_ROWS; r++) {
    let row = first_row + down + r * DOWN;
    for (var i = 0u; i < 4u; i++) {
      let output = first_output + across + i * ACROSS;
      if (row < params.rows && output < params.n) {
        let at = params.column + output;
        var value = sums[r][i];
        if (params.has_bias == 1u) {
          value += bias[at];
        }
        out[row * params.stride + at] = value;
      }
    }
  }
}
