// Second pass of sampling: each token's distance below the row's largest logit and its score with noise. Where distance
// alone decides what is kept, the best of each chunk; with top-k or top-p on, the chunk's tokens sorted into bins for
// the third pass, which finds the threshold. Where a token lies inside its bin is left to chance; no result depends on it.
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<uniform> state: State;
@group(0) @binding(3) var<uniform> settings: Settings;

const PURPOSE_TOKEN = 0u;
const BLOCK = 16u;  // threads whose bins are summed together

// Sums of integers, so their order is free. The first is the low word of a bin's weight; the second its number of
// tokens, at most CHUNK, below the weight's high word, which CHUNK weights of 2^-31 keep below 2^12; then the place of
// the bin's next token.
var<workgroup> bin_low: array<atomic<u32>, BINS>;
var<workgroup> bin_rest: array<atomic<u32>, BINS>;
var<workgroup> blocks: array<u32, THREADS / BLOCK>;

fn add_to_bin(bin: u32, tokens: u32, weights: vec2<u32>) {
  let before = atomicAdd(&bin_low[bin], weights.y);
  let carry = select(0u, 1u, before + weights.y < weights.y);
  atomicAdd(&bin_rest[bin], tokens + ((weights.x + carry) << 16u));
}

fn tokens_of(bin: u32) -> u32 { return atomicLoad(&bin_rest[bin]) & 0xffffu; }
fn high_of(bin: u32) -> u32 { return atomicLoad(&bin_rest[bin]) >> 16u; }

// place turns the bins' numbers of tokens into their starts, and stores their ends and weights.
fn place(lane: u32, bins: u32) {
  workgroupBarrier();
  if (lane < THREADS / BLOCK) {
    var sum = 0u;
    for (var i = 0u; i < BLOCK; i++) {
      sum += tokens_of(lane * BLOCK + i);
    }
    blocks[lane] = sum;
  }
  workgroupBarrier();
  var start = 0u;
  for (var i = 0u; i < lane / BLOCK; i++) {
    start += blocks[i];
  }
  for (var i = lane / BLOCK * BLOCK; i < lane; i++) {
    start += tokens_of(i);
  }
  scratch[bins + lane] = start + tokens_of(lane);
  scratch[bins + BINS + lane] = atomicLoad(&bin_low[lane]);
  scratch[bins + 2u * BINS + lane] = high_of(lane);
  workgroupBarrier();
  atomicStore(&bin_rest[lane], start);
  workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  if (greedy(settings)) {
    return;
  }
  let row = group.y;
  let search = searches(settings);
  let distances = distances_at(row);
  var largest = 0u;
  for (var chunk = 0u; chunk < params.chunks; chunk++) {
    largest = max(largest, scratch[result_at(row, chunk)]);
  }
  let limit = select(settings.min_p, FARTHEST, search);  // distance of what is looked at
  var sum = vec2<u32>(0u);
  let start = group.x * CHUNK;
  let end = min(start + CHUNK, params.vocab);
  // A thread takes two neighbours at a time, here and below: they share a block of random numbers.
  for (var pair = start + 2u * lane; pair < end; pair += 2u * THREADS) {
    for (var id = pair; id < min(pair + 2u, end); id++) {
      let distance = distance_below(largest, scratch[distances + id]);
      scratch[distances + id] = distance;
      if (distance > limit) {
        continue;
      }
      let w = vec2<u32>(0u, weight(select(tempered(distance, settings.inverse_temp), distance, search)));
      if (search) {
        add_to_bin(distance >> 24u, 1u, w);
      } else {
        sum = add64(sum, w);
      }
    }
  }
  if (search) {
    place(lane, bins_at(row, group.x));
  }
  let position = state.position + params.first + row + 1u;  // of the token that is drawn
  var value = 0u;
  var best = 0u;
  for (var pair = start + 2u * lane; pair < end; pair += 2u * THREADS) {
    let random = philox(vec4<u32>(pair / 2u, position, PURPOSE_TOKEN, 0u), vec2<u32>(state.seed_lo, state.seed_hi));
    for (var id = pair; id < min(pair + 2u, end); id++) {
      let distance = scratch[distances + id];
      if (distance > limit) {
        continue;
      }
      let words = select(random.zw, random.xy, id == pair);
      // The sign bit flipped, signed scores compare as unsigned numbers, and none is 0.
      let score = bitcast<u32>(gumbel(words.x, words.y) - i32(tempered(distance, settings.inverse_temp))) ^ 0x80000000u;
      if (search) {
        let at = start + atomicAdd(&bin_rest[distance >> 24u], 1u);
        scratch[ids_at(row) + at] = id;
        scratch[near_at(row) + at] = distance;
        scratch[scores_at(row) + at] = score;
      } else if (score > value) {
        value = score;
        best = id;
      }
    }
  }
  if (search) {
    return;
  }
  add_to_bin(0u, 0u, sum);
  let top = combine(value, best);
  if (lane == 0u) {
    let result = result_at(row, group.x);
    scratch[result + 2u] = top.value;
    scratch[result + 3u] = top.id;
    scratch[result + 4u] = high_of(0u);
    scratch[result + 5u] = atomicLoad(&bin_low[0]);
  }
}
