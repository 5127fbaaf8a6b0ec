// Without subgroups: the whole butterfly of lib_reduce_subgroup runs in workgroup memory (fold), adding the same pairs.
const SHUFFLE = 1u;

fn shuffle_sum(v: f32, first: u32) -> f32 {
  return v;
}

fn put_sums4(item: u32, local: u32, v: vec4<f32>) {
  partial[item * 4u] = v.x;
  partial[item * 4u + 1u] = v.y;
  partial[item * 4u + 2u] = v.z;
  partial[item * 4u + 3u] = v.w;
}
