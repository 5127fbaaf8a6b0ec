// Third pass of sampling, a workgroup a row: combines the chunks. With top-k or top-p on it first finds the threshold:
// a radix search over (distance, id) in digits of ten bits, the first from the chunks' bins, the others over the list
// of tokens in the bin that the first one leaves.
@group(0) @binding(1) var<storage, read_write> choice: array<u32>;  // [T]
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(3) var<uniform> settings: Settings;

const OWN = BINS / THREADS;  // bins of a thread
const BLOCK = 16u;           // threads of a block

alias Measures = array<vec2<u32>, OWN>;

struct Threshold { distance: u32, id: u32 }

struct Found {
  bin: u32,            // where the target is reached
  measure: vec2<u32>,  // of that bin
  rest: vec2<u32>,     // of the target, without the bins before
}

var<workgroup> entries: array<vec2<u32>, THREADS>;
var<workgroup> blocks: array<vec2<u32>, THREADS / BLOCK>;
var<workgroup> all: vec2<u32>;
var<workgroup> found: Found;
var<workgroup> digit_low: array<atomic<u32>, BINS>;
var<workgroup> digit_high: array<atomic<u32>, BINS>;
var<workgroup> listed: atomic<u32>;

fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x - select(0u, 1u, a.y < b.y), a.y - b.y);
}

// publish sums the blocks of every thread's value.
fn publish(lane: u32, value: vec2<u32>) {
  workgroupBarrier();
  entries[lane] = value;
  workgroupBarrier();
  if (lane < THREADS / BLOCK) {
    var sum = vec2<u32>(0u);
    for (var i = 0u; i < BLOCK; i++) {
      sum = add64(sum, entries[lane * BLOCK + i]);
    }
    blocks[lane] = sum;
  }
  workgroupBarrier();
}

fn total(lane: u32, value: vec2<u32>) -> vec2<u32> {
  publish(lane, value);
  if (lane == 0u) {
    var sum = vec2<u32>(0u);
    for (var i = 0u; i < THREADS / BLOCK; i++) {
      sum = add64(sum, blocks[i]);
    }
    all = sum;
  }
  return workgroupUniformLoad(&all);
}

// locate finds the first bin at which the running sum of measures reaches the target, which is 1 to their total.
fn locate(lane: u32, own: Measures, goal: vec2<u32>) -> Found {
  var bins = own;
  var sum = vec2<u32>(0u);
  for (var b = 0u; b < OWN; b++) {
    sum = add64(sum, bins[b]);
  }
  publish(lane, sum);
  var below = vec2<u32>(0u);
  for (var i = 0u; i < lane / BLOCK; i++) {
    below = add64(below, blocks[i]);
  }
  for (var i = lane / BLOCK * BLOCK; i < lane; i++) {
    below = add64(below, entries[i]);
  }
  for (var b = 0u; b < OWN; b++) {
    let upto = add64(below, bins[b]);
    if (less64(below, goal) && !less64(upto, goal)) {
      found = Found(lane * OWN + b, bins[b], sub64(goal, below));
    }
    below = upto;
  }
  return workgroupUniformLoad(&found);
}

// gather lists the tokens of one first digit.
fn gather(lane: u32, row: u32, bin: u32) {
  if (lane == 0u) {
    atomicStore(&listed, 0u);
  }
  workgroupBarrier();
  let distances = distances_at(row);
  let list = list_at(row);
  for (var id = lane; id < params.vocab; id += THREADS) {
    if (scratch[distances + id] >> 20u == bin) {
      scratch[list + atomicAdd(&listed, 1u)] = id;
    }
  }
  storageBarrier();
  workgroupBarrier();
}

fn measure(distance: u32, by_weight: bool) -> u32 {
  if (by_weight) {
    return weight(distance);
  }
  return 1u;
}

// search finds the last token of the shortest prefix of the order that reaches the target, by number or by weight.
// The list is that of the threshold's first digit afterwards.
fn search(lane: u32, row: u32, own: Measures, goal: vec2<u32>, by_weight: bool) -> Threshold {
  let distances = distances_at(row);
  let list = list_at(row);
  var at = locate(lane, own, goal);
  gather(lane, row, at.bin);
  let count = atomicLoad(&listed);
  var distance = at.bin;  // its digits so far
  var id = 0u;            // likewise
  for (var level = 1u; level < 5u; level++) {
    for (var bin = lane; bin < BINS; bin += THREADS) {
      atomicStore(&digit_low[bin], 0u);
      atomicStore(&digit_high[bin], 0u);
    }
    workgroupBarrier();
    for (var i = lane; i < count; i += THREADS) {
      let token = scratch[list + i];
      let d = scratch[distances + token];
      var digits = token >> select(0u, 10u, level == 3u);
      var same = d == distance && digits >> 10u == id;
      if (level < 3u) {
        digits = d >> select(0u, 10u, level == 1u);
        same = digits >> 10u == distance;
      }
      if (same) {
        let m = measure(d, by_weight);
        let before = atomicAdd(&digit_low[digits % BINS], m);
        if (before + m < m) {
          atomicAdd(&digit_high[digits % BINS], 1u);
        }
      }
    }
    workgroupBarrier();
    var measures: Measures;
    for (var b = 0u; b < OWN; b++) {
      let bin = lane * OWN + b;
      measures[b] = vec2<u32>(atomicLoad(&digit_high[bin]), atomicLoad(&digit_low[bin]));
    }
    at = locate(lane, measures, at.rest);
    if (level < 3u) {
      distance = distance * BINS + at.bin;
    } else {
      id = id * BINS + at.bin;
    }
    if (level == 2u && at.measure.x == 0u && at.measure.y == measure(distance, by_weight)) {
      return Threshold(distance, ALL_IDS);  // a single token has this distance
    }
  }
  return Threshold(distance, id);
}

fn keeps(t: Threshold, distance: u32, id: u32) -> bool {
  return distance < t.distance || (distance == t.distance && id <= t.id);
}

// threshold_of searches for top-k, then for top-p among what top-k leaves. A row without tokens has none.
fn threshold_of(lane: u32, row: u32) -> Threshold {
  var tokens: Measures;
  var weights: Measures;
  var own_tokens = vec2<u32>(0u);
  var own_weight = vec2<u32>(0u);
  for (var b = 0u; b < OWN; b++) {
    for (var chunk = 0u; chunk < params.chunks; chunk++) {
      let at = bins_at(row, chunk) + lane * OWN + b;
      tokens[b].y += scratch[at];
      weights[b] = add64(weights[b], vec2<u32>(scratch[at + 2u * BINS], scratch[at + BINS]));
    }
    own_tokens.y += tokens[b].y;
    own_weight = add64(own_weight, weights[b]);
  }
  var t = Threshold(FARTHEST, ALL_IDS);
  let count = total(lane, own_tokens).y;
  if (count == 0u) {
    return t;
  }
  let top_k = settings.top_k > 0u && settings.top_k < count;
  if (top_k) {
    t = search(lane, row, tokens, vec2<u32>(0u, settings.top_k), false);
  }
  if (settings.top_p < ONE) {
    if (top_k) {
      let first = t.distance >> 20u;
      own_weight = vec2<u32>(0u);
      for (var b = 0u; b < OWN; b++) {
        if (lane * OWN + b < first) {
          own_weight = add64(own_weight, weights[b]);
        }
      }
      let n = atomicLoad(&listed);
      for (var i = lane; i < n; i += THREADS) {
        let id = scratch[list_at(row) + i];
        let distance = scratch[distances_at(row) + id];
        if (keeps(t, distance, id)) {
          own_weight = add64(own_weight, vec2<u32>(0u, weight(distance)));
        }
      }
    }
    let kept = total(lane, own_weight);
    // kept * top_p / ONE: a product of up to 74 bits.
    let low = mul_wide(kept.y, settings.top_p);
    let high = add64(mul_wide(kept.x, settings.top_p), vec2<u32>(0u, low.x));
    var goal = vec2<u32>((high.y >> 24u) | (high.x << 8u), (low.y >> 24u) | (high.y << 8u));
    if (goal.x == 0u && goal.y == 0u) {
      goal.y = 1u;
    }
    t = search(lane, row, weights, goal, true);
  }
  return t;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  var t = Threshold(FARTHEST, ALL_IDS);
  var value = 0u;
  var best = 0u;
  var sum = 0.0;
  if (searches(settings)) {
    t = threshold_of(lane, row);
    if (settings.min_p < t.distance) {
      t = Threshold(settings.min_p, ALL_IDS);
    }
    for (var id = lane; id < params.vocab; id += THREADS) {
      let distance = scratch[distances_at(row) + id];
      if (keeps(t, distance, id)) {
        sum += exp(f32(tempered(distance, settings.inverse_temp)) * -0x1p-22);
        let score = scratch[scores_at(row) + id];
        if (score > value) {
          value = score;
          best = id;
        }
      }
    }
  } else {
    t.distance = settings.min_p;
    let part = select(2u, 0u, greedy(settings));
    for (var chunk = lane; chunk < params.chunks; chunk += THREADS) {
      let result = result_at(row, chunk) + part;
      if (scratch[result] > value) {
        value = scratch[result];
        best = scratch[result + 1u];
      }
      if (part > 0u) {
        sum += bitcast<f32>(scratch[result + 2u]);
      }
    }
  }
  combine(lane, value, best);
  sum_up(lane, sum);
  if (lane == 0u) {
    choice[row] = best_id[0];
    let head = row_at(row);
    scratch[head] = t.distance;
    scratch[head + 1u] = t.id;
    scratch[head + 2u] = bitcast<u32>(select(log(partial[0]), 0.0, partial[0] == 0.0));
    scratch[head + 3u] = best_id[0];
  }
}
