// Commits the token chosen for the step's last row and moves the state on. One thread: some twenty words.
struct Params { rows: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> state: State;
@group(0) @binding(2) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> report: array<u32>;  // [16]
@group(0) @binding(4) var<storage, read> choice: array<u32>;        // [T]
@group(0) @binding(5) var<storage, read> stops: array<u32>;         // count, then ids

@compute @workgroup_size(1)
fn main() {
  var count = 0u;
  var token = 0u;
  let position = state.position + params.rows;
  let limit = min(state.limit, arrayLength(&tokens));
  if (state.done == 0u) {
    if (position < limit) {
      token = choice[0];
      count = 1u;
      tokens[position] = token;
      state.previous = state.position;
      state.position = position;
      state.accepted = 0u;
      state.round += 1u;
    }
    var done = position >= limit || position + 1u >= limit;
    for (var i = 1u; i <= min(stops[0], arrayLength(&stops) - 1u); i++) {
      done = done || (count > 0u && stops[i] == token);
    }
    state.done = select(0u, 1u, done);
  }
  for (var i = 0u; i < 16u; i++) {
    report[i] = 0u;
  }
  report[0] = state.round;
  report[1] = state.position;
  report[2] = state.done;
  report[3] = count;
  report[4] = state.accepted;
  report[8] = token;
}
