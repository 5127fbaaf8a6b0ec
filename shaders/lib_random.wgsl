// Counter-based random numbers and logarithms in integer arithmetic, so that every device draws the same. The
// definition and its reasons are package model/sample, file random.go; names and steps are the same.

// mul_wide is the 64-bit product as (high, low).
fn mul_wide(a: u32, b: u32) -> vec2<u32> {
  let a_low = a & 0xffffu;
  let a_high = a >> 16u;
  let b_low = b & 0xffffu;
  let b_high = b >> 16u;
  let middle = a_high * b_low + ((a_low * b_low) >> 16u);
  let other = a_low * b_high + (middle & 0xffffu);
  return vec2<u32>(a_high * b_high + (middle >> 16u) + (other >> 16u), a * b);
}

fn mul_high(a: u32, b: u32) -> u32 {
  return mul_wide(a, b).x;
}

fn mul_high_signed(a: i32, b: u32) -> i32 {
  return bitcast<i32>(mul_high(bitcast<u32>(a), b) - select(0u, b, a < 0));
}

// Philox4x32, ten rounds.
fn philox(start: vec4<u32>, start_key: vec2<u32>) -> vec4<u32> {
  var c = start;
  var key = start_key;
  for (var round = 0u; round < 10u; round++) {
    let p0 = mul_wide(0xd2511f53u, c.x);
    let p1 = mul_wide(0xcd9e8d57u, c.z);
    c = vec4<u32>(p1.x ^ c.y ^ key.x, p1.y, p0.x ^ c.w ^ key.y, p0.y);
    key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}

// -log2(1-v)/v for v in [0, 1/2], v in 2^-32, the result in 2^-30.
fn neg_log2_ratio(v: u32) -> u32 {
  var p = 1794788142;
  p = -1604909350 + mul_high_signed(p, v);
  p = 1168919342 + mul_high_signed(p, v);
  p = 74910596 + mul_high_signed(p, v);
  p = 418991107 + mul_high_signed(p, v);
  p = 514305805 + mul_high_signed(p, v);
  p = 774590840 + mul_high_signed(p, v);
  p = 1549081809 + mul_high_signed(p, v);
  return bitcast<u32>(p);
}

// 2^s for s in [0, 1), s in 2^-32, the result in 2^-30.
fn exp2_fixed(s: u32) -> u32 {
  var p = 234782u;
  p = 1330509u + mul_high(p, s);
  p = 10398316u + mul_high(p, s);
  p = 59571873u + mul_high(p, s);
  p = 257945486u + mul_high(p, s);
  p = 744260852u + mul_high(p, s);
  p = 1073741827u + mul_high(p, s);
  return p;
}

// -ln(-ln(u)) for u uniform on (0, 1), of 64 random bits, in 2^-24.
fn gumbel(high: u32, low: u32) -> i32 {
  let whole = countLeadingZeros(high);
  let fill = select(low, 1u, low == 0u);
  let zeros = countLeadingZeros(fill);
  let v = (fill << zeros) | ((high & 0x7fffffffu) >> (31u - zeros));
  let fraction = mul_high(v, neg_log2_ratio((v >> 1u) >> zeros));
  var a = fraction;
  var shift = 31u + zeros;
  if (whole > 0u) {
    a = (whole << 26u) + ((fraction >> zeros) >> 5u);
    shift = 26u;
  }
  let normal = countLeadingZeros(a);
  let below = 0u - (a << normal);
  let h = mul_high(below, neg_log2_ratio(below));
  return 6149066 - 11629080 * (32 - i32(shift + normal)) + i32(mul_high(h, 2977044472u) >> 6u);
}
