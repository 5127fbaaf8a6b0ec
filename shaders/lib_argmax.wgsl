// Order of logits and the best candidate of a workgroup: integers only, so the result is the same on every device.
const THREADS = 256u;

var<workgroup> best_value: array<u32, THREADS>;
var<workgroup> best_id: array<u32, THREADS>;

// order_key orders logits, given by their bits, as unsigned numbers: zeros of either sign and subnormals are one, and
// -inf and NaN get 0, below every number.
fn order_key(logit: u32) -> u32 {
  let magnitude = logit & 0x7fffffffu;
  if (magnitude > 0x7f800000u || logit == 0xff800000u) {
    return 0u;
  }
  if (magnitude < 0x00800000u) {
    return 0x80000000u;
  }
  return select(logit | 0x80000000u, ~logit, logit > 0x80000000u);
}

// combine leaves the largest value and its id in element 0, the lowest id among equals.
fn combine(lane: u32, value: u32, id: u32) {
  best_value[lane] = value;
  best_id[lane] = id;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      let other = lane + half;
      if (best_value[other] > best_value[lane] || (best_value[other] == best_value[lane] && best_id[other] < best_id[lane])) {
        best_value[lane] = best_value[other];
        best_id[lane] = best_id[other];
      }
    }
  }
  workgroupBarrier();
}
