// One thread a vec4 of the output merges the partial results of the chunks its row sees, in their order.
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;  // [T, H, Dh]
@group(0) @binding(2) var<storage, read> scratch: array<vec4<f32>>;    // [T, H, chunks] of Dh values, then peak and sum
@group(0) @binding(3) var<storage, read> sinks: array<f32>;            // [H], if params.sinks
@group(0) @binding(4) var<uniform> state: State;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= params.heads * COLUMNS) {
    return;
  }
  let row = id.y;
  let head = id.x / COLUMNS;
  let column = id.x % COLUMNS;
  let partial = (row * params.heads + head) * params.chunks;
  let first = visible_first(row) / CHUNK - first_chunk();
  let end = min((visible_end(row) + CHUNK - 1u) / CHUNK - first_chunk(), params.chunks);

  let sink = sink_of(head);
  var peak = sink;
  for (var c = first; c < end; c++) {
    peak = max(peak, scratch[(partial + c) * (COLUMNS + 1u) + COLUMNS].x);
  }
  var sum = decay(sink, peak);
  var value = vec4<f32>();
  for (var c = first; c < end; c++) {
    let at = (partial + c) * (COLUMNS + 1u);
    let stats = scratch[at + COLUMNS];
    let keep = decay(stats.x, peak);
    sum = fma(stats.y, keep, sum);
    value = fma(scratch[at + column], vec4<f32>(keep), value);
  }
  out[row * params.heads * COLUMNS + id.x] = value * (1.0 / sum);
}
