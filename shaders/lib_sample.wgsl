// What the three sampling kernels share. The definition is package model/sample; names and steps are the same.

// Settings of one request, written by the host.
struct Settings {
  flags: u32,
  top_k: u32,         // 0: off
  top_p: u32,         // of ONE
  min_p: u32,         // largest distance kept
  inverse_temp: u32,  // 2^22 / temperature
  penalty: f32,
  inverse_penalty: f32,
  window: u32,        // 0: no penalty
  reserved0: vec4<u32>,
  reserved1: vec4<u32>,
}

struct Params {
  vocab: u32,
  chunks: u32,     // of a row
  row_words: u32,  // of scratch
  first: u32,      // rows of the step before row 0 of the logits
}
@group(0) @binding(0) var<uniform> params: Params;

const CHUNK = 4096u;  // ids of one workgroup
const GREEDY = 1u;
const ONE = 0x1000000u;
const FARTHEST = 0x3fffffffu;
const EXCLUDED = 0xffffffffu;
const ALL_IDS = 0xffffffffu;

// A row of scratch, in words:
//   head       16            last distance kept, last id kept at it, log of the sum of exp(-distance/temperature), choice
//   results    chunks x 8    largest key and its id, best score and its id, sum of exp(-distance/temperature)
//   distances  vocab         keys until score has run, and in greedy mode
//   scores     vocab         only when top-k or top-p is on
//   list       vocab         the same
//   bins       chunks x 3072 the same: tokens, then weights (low words, high words), by the first digit of the distance
const HEAD = 16u;
const RESULT = 8u;
const BINS = 1024u;

fn row_at(row: u32) -> u32 { return row * params.row_words; }
fn result_at(row: u32, chunk: u32) -> u32 { return row_at(row) + HEAD + RESULT * chunk; }
fn distances_at(row: u32) -> u32 { return result_at(row, params.chunks); }
fn scores_at(row: u32) -> u32 { return distances_at(row) + params.vocab; }
fn list_at(row: u32) -> u32 { return scores_at(row) + params.vocab; }
fn bins_at(row: u32, chunk: u32) -> u32 { return list_at(row) + params.vocab + 3u * BINS * chunk; }

fn greedy(s: Settings) -> bool { return (s.flags & GREEDY) != 0u; }
fn cuts(s: Settings) -> bool { return s.top_k > 0u && s.top_k < params.vocab; }
fn searches(s: Settings) -> bool { return !greedy(s) && (cuts(s) || s.top_p < ONE); }

fn key_value(key: u32) -> f32 {
  let bits = select(~key, key & 0x7fffffffu, key >= 0x80000000u);
  let magnitude = min(bits & 0x7fffffffu, 0x7e800000u);  // 2^126
  return bitcast<f32>(magnitude | (bits & 0x80000000u));
}

fn distance_below(largest: u32, key: u32) -> u32 {
  if (key == 0u) {
    return EXCLUDED;
  }
  return min(u32(min((key_value(largest) - key_value(key)) * 4194304.0, 1073741824.0)), FARTHEST);
}

// weight is exp(-distance) in 2^-31.
fn weight(distance: u32) -> u32 {
  let p = mul_wide(distance, 3098164009u);
  let whole = p.x >> 21u;
  return select(0u, exp2_fixed(~((p.x << 11u) | (p.y >> 21u))) >> (whole & 31u), whole < 32u);
}

fn tempered(distance: u32, inverse: u32) -> u32 {
  let p = mul_wide(distance, inverse);
  return select(FARTHEST / 2u, min((p.x << 10u) | (p.y >> 22u), FARTHEST / 2u), p.x < 0x400000u);
}

// A 64-bit sum is (high, low).
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.y + b.y;
  return vec2<u32>(a.x + b.x + select(0u, 1u, low < b.y), low);
}

// sum_up leaves the sum of every thread's value in element 0, added in a fixed order.
var<workgroup> partial: array<f32, THREADS>;

fn sum_up(lane: u32, value: f32) {
  partial[lane] = value;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      partial[lane] += partial[lane + half];
    }
  }
  workgroupBarrier();
}
