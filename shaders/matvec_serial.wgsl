// The end of matvec where one lane has the whole sum.
fn finish(group: u32, local: u32, first_row: u32, sums: ptr<function, array<vec4<f32>, ROWS>>) {
  let output = (group * THREADS + local) * 4u;
  for (var r = 0u; r < ROWS; r++) {
    for (var i = 0u; i < 4u; i++) {
      store(first_row + r, output + i, (*sums)[r][i]);
    }
  }
}
