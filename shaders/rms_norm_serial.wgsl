// A thread has one row.
fn lanes_sum(local: u32, v: f32) -> f32 {
  return v;
}
