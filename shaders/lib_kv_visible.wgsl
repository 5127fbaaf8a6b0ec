// What the attention kernels share: their parameters, which keys a row sees, and how partial softmaxes merge.
struct Params {
  rows: u32,
  heads: u32,
  kv_heads: u32,
  positions: u32,  // length of the cache
  causal: u32,
  window: u32,     // 0: none
  extra: u32,      // not causal: every row sees the keys before position + extra
  chunks: u32,     // partial results a row and head; 1: it is the output
  sinks: u32,
  scale: f32,
  // COLUMNS and LANES again: see attentionLoops.
  columns: u32,
  lanes: u32,
}

// Partial results cover keys at multiples of CHUNK, whatever the row or the number of keys: so a row's bits depend on
// nothing but what it sees.
const CHUNK = 256u;
const COLUMNS = HEAD_DIM / 4u;  // a head in vec4s
const NONE = -1e30;             // the score of a key that is not seen

fn visible_end(row: u32) -> u32 {
  return min(state.position + select(params.extra, row + 1u, params.causal != 0u), params.positions);
}

fn visible_first(row: u32) -> u32 {
  let end = visible_end(row);
  return select(end - min(end, params.window), 0u, params.window == 0u);
}

// first_chunk is the earliest chunk of the step; partial results are numbered from there.
fn first_chunk() -> u32 { return visible_first(0u) / CHUNK; }

// decay is what a sum of exponentials above the peak `was` is multiplied by to count above the peak `now`. It is
// exactly 1 when nothing changed, on every device, so that merging with nothing changes no bit.
fn decay(was: f32, now: f32) -> f32 { return select(exp(was - now), 1.0, was == now); }

fn sink_of(head: u32) -> f32 {
  if (params.sinks == 0u) {
    return NONE;
  }
  return sinks[head];
}

// finish turns the only partial result of a row into its output, by the arithmetic that merges several.
fn finish(value: vec4<f32>, peak: f32, sum: f32, sink: f32) -> vec4<f32> {
  let top = max(peak, sink);
  let keep = decay(peak, top);
  return fma(value, vec4<f32>(keep), vec4<f32>()) * (1.0 / fma(sum, keep, decay(sink, top)));
}
