// One workgroup a row: every thread sums the squares of its strided share, the workgroup combines them.
struct Params { d: u32, eps: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // [T, D]
@group(0) @binding(2) var<storage, read> x: array<f32>;          // [T, D]
@group(0) @binding(3) var<storage, read> weight: array<f32>;     // [D]

const THREADS = 64u;
var<workgroup> partial: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x * params.d;
  var sum = 0.0;
  for (var i = lane; i < params.d; i += THREADS) {
    let v = x[row + i];
    sum = fma(v, v, sum);
  }
  partial[lane] = sum;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      partial[lane] += partial[lane + half];
    }
  }
  workgroupBarrier();
  let scale = inverseSqrt(partial[0] / f32(params.d) + params.eps);
  for (var i = lane; i < params.d; i += THREADS) {
    out[row + i] = x[row + i] * scale * weight[i];
  }
}
