// Order of logits and the best candidate of a workgroup: integers only, so the result is the same on every device.
const THREADS = 256u;

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

// combine finds the largest value of a workgroup, and the lowest id among equals. No arrays: a CPU rasteriser sets each
// of their elements to zero in code of its own, which takes seconds to compile.
var<workgroup> largest_value: atomic<u32>;
var<workgroup> inverted_id: atomic<u32>;

struct Best { value: u32, id: u32 }

fn combine(value: u32, id: u32) -> Best {
  atomicMax(&largest_value, value);
  workgroupBarrier();
  let largest = atomicLoad(&largest_value);
  if (value == largest) {
    atomicMax(&inverted_id, ~id);
  }
  workgroupBarrier();
  return Best(largest, ~atomicLoad(&inverted_id));
}
