// Loads of 16 bytes, for rows of whole loads: both x and weight start every row at a multiple of 16 bytes.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;

// load_x returns elements 4 quad to 4 quad + 3 of a row of x.
fn load_x(row: u32, quad: u32) -> vec4<f32> {
  return x[row * (params.k / 4u) + quad];
}

// load_weight returns words 4 chunk to 4 chunk + 3 of a row of weight.
fn load_weight(row: u32, chunk: u32) -> vec4<u32> {
  return weight[row * (params.k / (4u * PER_WORD)) + chunk];
}
