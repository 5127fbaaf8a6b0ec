// Second pass of sampling: each token's distance below the row's largest logit and its score with noise; the best of
// each chunk where distance alone decides what is kept, else what the third pass needs to find the threshold.
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<uniform> state: State;
@group(0) @binding(3) var<uniform> settings: Settings;

const PURPOSE_TOKEN = 0u;

// By the first digit of the distance. Sums of integers, so their order is free.
var<workgroup> bin_tokens: array<atomic<u32>, BINS>;
var<workgroup> bin_low: array<atomic<u32>, BINS>;
var<workgroup> bin_high: array<atomic<u32>, BINS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  if (greedy(settings)) {
    return;
  }
  let row = group.y;
  let search = searches(settings);
  let distances = distances_at(row);
  let scores = scores_at(row);
  var largest = 0u;
  for (var chunk = 0u; chunk < params.chunks; chunk++) {
    largest = max(largest, scratch[result_at(row, chunk)]);
  }
  let position = state.position + params.first + row + 1u;  // of the token that is drawn
  let start = group.x * CHUNK;
  let end = min(start + CHUNK, params.vocab);
  var value = 0u;
  var best = 0u;
  var sum = 0.0;
  for (var pair = start + 2u * lane; pair < end; pair += 2u * THREADS) {
    let random = philox(vec4<u32>(pair / 2u, position, PURPOSE_TOKEN, 0u), vec2<u32>(state.seed_lo, state.seed_hi));
    for (var id = pair; id < min(pair + 2u, end); id++) {
      let distance = distance_below(largest, scratch[distances + id]);
      scratch[distances + id] = distance;
      if (distance == EXCLUDED) {
        continue;
      }
      let words = select(random.zw, random.xy, id == pair);
      let lower = tempered(distance, settings.inverse_temp);
      // The sign bit flipped, signed scores compare as unsigned numbers, and none is 0.
      let score = bitcast<u32>(gumbel(words.x, words.y) - i32(lower)) ^ 0x80000000u;
      if (search) {
        scratch[scores + id] = score;
        let bin = distance >> 20u;
        atomicAdd(&bin_tokens[bin], 1u);
        let w = weight(distance);
        if (w > 0u) {
          let before = atomicAdd(&bin_low[bin], w);
          if (before + w < w) {
            atomicAdd(&bin_high[bin], 1u);
          }
        }
      } else if (distance <= settings.min_p) {
        sum += exp(f32(lower) * -0x1p-22);
        if (score > value) {
          value = score;
          best = id;
        }
      }
    }
  }
  combine(lane, value, best);
  sum_up(lane, sum);
  if (search) {
    let bins = bins_at(row, group.x);
    for (var bin = lane; bin < BINS; bin += THREADS) {
      scratch[bins + bin] = atomicLoad(&bin_tokens[bin]);
      scratch[bins + BINS + bin] = atomicLoad(&bin_low[bin]);
      scratch[bins + 2u * BINS + bin] = atomicLoad(&bin_high[bin]);
    }
  }
  if (lane == 0u) {
    let result = result_at(row, group.x);
    scratch[result + 2u] = best_value[0];
    scratch[result + 3u] = best_id[0];
    scratch[result + 4u] = bitcast<u32>(partial[0]);
  }
}
