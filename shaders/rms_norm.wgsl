// out = x / sqrt(mean(x^2) + eps) * weight, a row at a time. LANES lanes sum the squares of their strided shares, in an
// order that depends on D alone. The prelude brings THREADS, LANES and lanes_sum.
struct Params { d: u32, rows: u32, eps: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // [T, D]
@group(0) @binding(2) var<storage, read> x: array<f32>;          // [T, D]
@group(0) @binding(3) var<storage, read> weight: array<f32>;     // [D]

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let row = group.x * (THREADS / LANES) + local / LANES;
  // A row past the end has no elements, rather than an early exit, which may not come before a barrier.
  let d = select(0u, params.d, row < params.rows);
  let base = row * params.d;
  var squares = 0.0;
  for (var i = local % LANES; i < d; i += LANES) {
    let v = x[base + i];
    squares = fma(v, v, squares);
  }
  let scale = inverseSqrt(lanes_sum(local, squares) / f32(params.d) + params.eps);
  for (var i = local % LANES; i < d; i += LANES) {
    out[base + i] = x[base + i] * scale * weight[i];
  }
}
