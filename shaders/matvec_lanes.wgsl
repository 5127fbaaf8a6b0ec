// The end of matvec where LANES lanes share an output: their sums meet in workgroup memory.
const GROUPS = THREADS / LANES;
const ITEMS = ROWS * THREADS / SHUFFLE;
var<workgroup> partial: array<f32, ITEMS * 4u>;

fn finish(group: u32, local: u32, first_row: u32, sums: ptr<function, array<vec4<f32>, ROWS>>) {
  for (var r = 0u; r < ROWS; r++) {
    put_sums4(r * THREADS + local, local, (*sums)[r]);
  }
  fold(local, ITEMS, LANES / SHUFFLE, 4u);
  for (var i = local; i < ROWS * GROUPS * 4u; i += THREADS) {
    let item = (i / 4u) * (LANES / SHUFFLE);
    store(first_row + i / (GROUPS * 4u), group * GROUPS * 4u + i % (GROUPS * 4u), partial[item * 4u + i % 4u]);
  }
}
