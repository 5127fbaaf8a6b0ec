// out = x weight^T + bias for a few rows of x. A lane takes every LANES-th load of K for four outputs at once and for
// all rows, so each weight is read once and each x value serves four outputs. The order of the sums depends on LANES
// alone, never on the number of rows: a row comes out the same bit for bit whatever it is computed together with.
// The prelude brings LANES, ROWS, THREADS, the loads and finish.
struct Params { n: u32, k: u32, rows: u32, stride: u32, column: u32, has_bias: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // [T, stride], written at columns column to column + n
@group(0) @binding(4) var<storage, read> bias: array<f32>;       // [stride]

fn store(row: u32, output: u32, sum: f32) {
  if (row < params.rows && output < params.n) {
    let at = params.column + output;
    var value = sum;
    if (params.has_bias == 1u) {
      value += bias[at];
    }
    out[row * params.stride + at] = value;
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let lane = local % LANES;
  let first_row = group.y * ROWS;
  let output = (group.x * (THREADS / LANES) + local / LANES) * 4u;
  // Rows and outputs past the end repeat the last one; store drops them.
  let last = params.n - 1u;
  let o0 = min(output, last);
  let o1 = min(output + 1u, last);
  let o2 = min(output + 2u, last);
  let o3 = min(output + 3u, last);
  let chunks = (params.k + 4u * PER_WORD - 1u) / (4u * PER_WORD);

  var sums: array<vec4<f32>, ROWS>;
  for (var chunk = lane; chunk < chunks; chunk += LANES) {
    let raw0 = load_weight(o0, chunk);
    let raw1 = load_weight(o1, chunk);
    let raw2 = load_weight(o2, chunk);
    let raw3 = load_weight(o3, chunk);
    for (var q = 0u; q < QUADS; q++) {
      let w = transpose(mat4x4<f32>(quad(raw0, q), quad(raw1, q), quad(raw2, q), quad(raw3, q)));
      for (var r = 0u; r < ROWS; r++) {
        let v = load_x(min(first_row + r, params.rows - 1u), chunk * QUADS + q);
        var sum = sums[r];
        sum = fma(vec4<f32>(v.x), w[0], sum);
        sum = fma(vec4<f32>(v.y), w[1], sum);
        sum = fma(vec4<f32>(v.z), w[2], sum);
        sum = fma(vec4<f32>(v.w), w[3], sum);
        sums[r] = sum;
      }
    }
  }
  finish(group.x, local, first_row, &sums);
}
