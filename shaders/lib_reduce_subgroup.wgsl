// Sums over lanes whose order is fixed: an xor butterfly over lane distances 1, 2, 4, ..., by shuffles below SHUFFLE
// (the smallest subgroup the device may use, so larger ones give the same sums) and in workgroup memory above.

// shuffle_sum continues the butterfly of v at distance `first`; every lane of SHUFFLE gets the sum.
fn shuffle_sum(v: f32, first: u32) -> f32 {
  var sum = v;
  for (var distance = first; distance < SHUFFLE; distance *= 2u) {
    sum += subgroupShuffleXor(sum, distance);
  }
  return sum;
}

// put_sums4 leaves the four sums over each SHUFFLE lanes in partial, four floats an item. In the first two steps a lane
// hands over the half it does not keep, which takes a third of the shuffles of four separate butterflies and adds the
// same pairs.
fn put_sums4(item: u32, local: u32, v: vec4<f32>) {
  let odd = (local & 1u) == 1u;
  let two = select(v.xy, v.zw, odd) + subgroupShuffleXor(select(v.zw, v.xy, odd), 1u);
  let second = (local & 2u) == 2u;
  let one = select(two.x, two.y, second) + subgroupShuffleXor(select(two.y, two.x, second), 2u);
  let sum = shuffle_sum(one, 4u);
  if (local % SHUFFLE < 4u) {
    partial[(item / SHUFFLE) * 4u + (local & 1u) * 2u + ((local >> 1u) & 1u)] = sum;
  }
}
