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
const FARTHEST = 0xffffff00u;  // distances and noise are in 2^-24
const MOST_TEMPERED = 0x40000000u;
const EXCLUDED = 0xffffffffu;
const ALL_IDS = 0xffffffffu;

// A row of scratch, in words:
//   head       16            last distance kept, last id kept at it, sum of exp(-distance/temperature) over the kept
//                            tokens in 2^-31 (high word, low word), choice
//   results    chunks x 8    largest key and its id, best score and its id, that sum of the chunk (high, low)
//   distances  vocab         of each token; keys until score has run, and in greedy mode
// and with top-k or top-p on, the tokens of each chunk in order of bins, a bin being the first byte of a distance, a nat wide:
//   ids, near, scores        vocab each: token, distance, score; the part of a chunk starts at its first id
//   bins       chunks x 768  where each bin ends in that part, then its sum of exp(-distance) (low words, high words)
const HEAD = 16u;
const RESULT = 8u;
const BINS = THREADS;

fn row_at(row: u32) -> u32 { return row * params.row_words; }
fn result_at(row: u32, chunk: u32) -> u32 { return row_at(row) + HEAD + RESULT * chunk; }
fn distances_at(row: u32) -> u32 { return result_at(row, params.chunks); }
fn ids_at(row: u32) -> u32 { return distances_at(row) + params.vocab; }
fn near_at(row: u32) -> u32 { return ids_at(row) + params.vocab; }
fn scores_at(row: u32) -> u32 { return near_at(row) + params.vocab; }
fn bins_at(row: u32, chunk: u32) -> u32 { return scores_at(row) + params.vocab + 3u * BINS * chunk; }

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
  return u32(min((key_value(largest) - key_value(key)) * 0x1p24, f32(FARTHEST)));
}

// weight is exp(-distance) in 2^-31.
fn weight(distance: u32) -> u32 {
  let p = mul_wide(distance, 3098164009u);
  let whole = p.x >> 23u;
  return select(0u, exp2_fixed(~((p.x << 9u) | (p.y >> 23u))) >> (whole & 31u), whole < 32u);
}

fn tempered(distance: u32, inverse: u32) -> u32 {
  let p = mul_wide(distance, inverse);
  return select(MOST_TEMPERED, min((p.x << 10u) | (p.y >> 22u), MOST_TEMPERED), p.x < 0x400000u);
}

// A 64-bit sum is (high, low).
fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.y + b.y;
  return vec2<u32>(a.x + b.x + select(0u, 1u, low < b.y), low);
}
