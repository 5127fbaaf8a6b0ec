// A workgroup has one row.
var<workgroup> partial: array<f32, THREADS / SHUFFLE>;

fn lanes_sum(local: u32, v: f32) -> f32 {
  let sum = shuffle_sum(v, 1u);
  if (local % SHUFFLE == 0u) {
    partial[local / SHUFFLE] = sum;
  }
  fold(local, THREADS / SHUFFLE, THREADS / SHUFFLE, 1u);
  return partial[0];
}
