// Third pass of sampling, a workgroup a row: combines the chunks. With top-k or top-p on it first finds the threshold:
// a radix search over (distance, id) by bytes. The first byte comes from the bins of all chunks; the others look at the
// tokens of one bin, whose part of each chunk is known.
@group(0) @binding(1) var<storage, read_write> choice: array<u32>;  // [T]
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(3) var<uniform> settings: Settings;

const BLOCK = 16u;  // threads whose bins are summed together
const TEAM = 8u;    // threads that share a chunk

struct Threshold { distance: u32, id: u32 }

struct Found {
  bin: u32,            // where the running sum of measures reaches the goal
  measure: vec2<u32>,  // of that bin
  rest: vec2<u32>,     // of the goal, without the bins before
}

// A measure is a 64-bit number of tokens or sum of weights, (high, low).
var<workgroup> bin_low: array<atomic<u32>, BINS>;
var<workgroup> bin_high: array<atomic<u32>, BINS>;
var<workgroup> blocks: array<vec2<u32>, THREADS / BLOCK>;
var<workgroup> found: Found;

fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.x < b.x || (a.x == b.x && a.y < b.y);
}

fn sub64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x - select(0u, 1u, a.y < b.y), a.y - b.y);
}

fn bin_measure(bin: u32) -> vec2<u32> {
  return vec2<u32>(atomicLoad(&bin_high[bin]), atomicLoad(&bin_low[bin]));
}

fn set_bin(bin: u32, measure: vec2<u32>) {
  atomicStore(&bin_high[bin], measure.x);
  atomicStore(&bin_low[bin], measure.y);
}

fn add_to_bin(bin: u32, measure: vec2<u32>) {
  let before = atomicAdd(&bin_low[bin], measure.y);
  let carry = select(0u, 1u, before + measure.y < measure.y);
  if (measure.x + carry > 0u) {
    atomicAdd(&bin_high[bin], measure.x + carry);
  }
}

// part_of says where in a chunk's sorted tokens a bin begins and ends.
fn part_of(row: u32, chunk: u32, bin: u32) -> vec2<u32> {
  let ends = bins_at(row, chunk) + bin;
  var start = 0u;
  if (bin > 0u) {
    start = scratch[ends - 1u];
  }
  return vec2<u32>(start, scratch[ends]) + chunk * CHUNK;
}

fn keeps(t: Threshold, distance: u32, id: u32) -> bool {
  return distance < t.distance || (distance == t.distance && id <= t.id);
}

// first_bin measures a bin of the row: its tokens, or their weight.
fn first_bin(row: u32, bin: u32, by_weight: bool) -> vec2<u32> {
  var sum = vec2<u32>(0u);
  for (var chunk = 0u; chunk < params.chunks; chunk++) {
    if (by_weight) {
      let at = bins_at(row, chunk) + bin + BINS;
      sum = add64(sum, vec2<u32>(scratch[at + BINS], scratch[at]));
    } else {
      let part = part_of(row, chunk, bin);
      sum.y += part.y - part.x;
    }
  }
  return sum;
}

// goal_of is what the kept tokens have to reach, of a total: top_k tokens, or the share top_p of the weight; at least 1.
fn goal_of(sum: vec2<u32>, by_weight: bool) -> vec2<u32> {
  if (!by_weight) {
    return vec2<u32>(0u, min(settings.top_k, sum.y));
  }
  // sum * top_p / ONE, a product of up to 76 bits.
  let low = mul_wide(sum.y, settings.top_p);
  let high = add64(mul_wide(sum.x, settings.top_p), vec2<u32>(0u, low.x));
  let goal = vec2<u32>((high.y >> 24u) | (high.x << 8u), (low.y >> 24u) | (high.y << 8u));
  return select(goal, vec2<u32>(0u, 1u), all(goal == vec2<u32>(0u)));
}

// threshold_of finds the last token of the shortest prefix of the order that reaches the goal: for top-k, then for
// top-p among what top-k leaves. A row without tokens gives any threshold. The loops hold each barrier once, because
// compilers copy functions to every call.
fn threshold_of(lane: u32, row: u32) -> Threshold {
  let ids = ids_at(row);
  let near = near_at(row);
  let cut = cuts(settings);
  var t = Threshold(FARTHEST, ALL_IDS);
  for (var step = select(1u, 0u, cut); step < select(1u, 2u, settings.top_p < ONE); step++) {
    let by_weight = step == 1u;
    let last = t.distance >> 24u;  // bin of top-k's threshold
    var own = first_bin(row, lane, by_weight);
    var first = last;
    var distance = 0u;  // the threshold's bytes so far
    var id = 0u;        // likewise
    var rest = vec2<u32>(0u);
    // Level 0 measures the tokens that top-k keeps of its last bin, level 1 finds the first byte of the distance,
    // levels 2 to 4 its others, 5 to 7 those of the id.
    for (var level = select(1u, 0u, by_weight && cut); level < 8u; level++) {
      workgroupBarrier();
      set_bin(lane, select(vec2<u32>(0u), own, level == 1u));
      workgroupBarrier();
      if (level != 1u) {
        for (var chunk = lane / TEAM; chunk < params.chunks; chunk += THREADS / TEAM) {
          let part = part_of(row, chunk, first);
          for (var i = part.x + lane % TEAM; i < part.y; i += TEAM) {
            let d = scratch[near + i];
            let token = scratch[ids + i];
            var bytes = d >> (8u * (4u - min(level, 4u)));
            var same = bytes >> 8u == distance;
            if (level > 4u) {
              bytes = token >> (8u * (7u - level));
              same = d == distance && bytes >> 8u == id;
            }
            if (level == 0u) {
              bytes = 0u;
              same = keeps(t, d, token);
            }
            if (same) {
              add_to_bin(bytes & 0xffu, vec2<u32>(0u, select(1u, weight(d), by_weight)));
            }
          }
        }
        workgroupBarrier();
      }
      if (level == 0u) {
        if (lane >= last) {
          own = select(vec2<u32>(0u), bin_measure(0u), lane == last);
        }
        continue;
      }
      if (lane < THREADS / BLOCK) {
        var sum = vec2<u32>(0u);
        for (var i = 0u; i < BLOCK; i++) {
          sum = add64(sum, bin_measure(lane * BLOCK + i));
        }
        blocks[lane] = sum;
      }
      workgroupBarrier();
      var below = vec2<u32>(0u);  // measure of the bins before this thread's
      var sum = vec2<u32>(0u);
      for (var i = 0u; i < THREADS / BLOCK; i++) {
        if (i == lane / BLOCK) {
          below = sum;
        }
        sum = add64(sum, blocks[i]);
      }
      for (var i = lane / BLOCK * BLOCK; i < lane; i++) {
        below = add64(below, bin_measure(i));
      }
      if (level == 1u) {
        rest = goal_of(sum, by_weight);
      }
      let measure = bin_measure(lane);
      if (less64(below, rest) && !less64(add64(below, measure), rest)) {
        found = Found(lane, measure, sub64(rest, below));
      }
      let at = workgroupUniformLoad(&found);
      rest = at.rest;
      if (level == 1u) {
        first = at.bin;
      }
      if (level > 4u) {
        id = (id << 8u) | at.bin;
        continue;
      }
      distance = (distance << 8u) | at.bin;
      if (level == 4u && at.measure.x == 0u && at.measure.y == select(1u, weight(distance), by_weight)) {
        id = ALL_IDS;  // a single token has this distance
        break;
      }
    }
    t = Threshold(distance, id);
  }
  return t;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group.x;
  var t = Threshold(settings.min_p, ALL_IDS);
  var value = 0u;
  var best = 0u;
  var sum = vec2<u32>(0u);
  if (searches(settings)) {
    t = threshold_of(lane, row);
    if (settings.min_p < t.distance) {
      t = Threshold(settings.min_p, ALL_IDS);
    }
    for (var chunk = lane / TEAM; chunk < params.chunks; chunk += THREADS / TEAM) {
      let end = part_of(row, chunk, t.distance >> 24u).y;
      for (var i = chunk * CHUNK + lane % TEAM; i < end; i += TEAM) {
        let distance = scratch[near_at(row) + i];
        let id = scratch[ids_at(row) + i];
        if (keeps(t, distance, id)) {
          sum = add64(sum, vec2<u32>(0u, weight(tempered(distance, settings.inverse_temp))));
          let score = scratch[scores_at(row) + i];
          if (score > value || (score == value && id < best)) {
            value = score;
            best = id;
          }
        }
      }
    }
  } else {
    let part = select(2u, 0u, greedy(settings));
    for (var chunk = lane; chunk < params.chunks; chunk += THREADS) {
      let result = result_at(row, chunk);
      if (scratch[result + part] > value) {
        value = scratch[result + part];
        best = scratch[result + part + 1u];
      }
      if (part > 0u) {
        sum = add64(sum, vec2<u32>(scratch[result + 4u], scratch[result + 5u]));
      }
    }
  }
  workgroupBarrier();
  set_bin(lane, vec2<u32>(0u));
  workgroupBarrier();
  add_to_bin(0u, sum);
  let top = combine(value, best);
  if (lane == 0u) {
    let kept = bin_measure(0u);
    let head = row_at(row);
    choice[row] = top.id;
    scratch[head] = t.distance;
    scratch[head + 1u] = t.id;
    scratch[head + 2u] = kept.x;
    scratch[head + 3u] = kept.y;
    scratch[head + 4u] = top.id;
  }
}
