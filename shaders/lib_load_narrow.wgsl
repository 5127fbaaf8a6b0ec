// Loads word by word, for rows that do not divide into 16-byte loads: what lies past a row's end reads as 0.
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<u32>;

fn x_at(row: u32, i: u32) -> f32 {
  if (i >= params.k) {
    return 0.0;
  }
  return x[row * params.k + i];
}

fn weight_at(row: u32, i: u32) -> u32 {
  let words = params.k / PER_WORD;
  if (i >= words) {
    return 0u;
  }
  return weight[row * words + i];
}

// load_x returns elements 4 quad to 4 quad + 3 of a row of x.
fn load_x(row: u32, quad: u32) -> vec4<f32> {
  let i = 4u * quad;
  return vec4<f32>(x_at(row, i), x_at(row, i + 1u), x_at(row, i + 2u), x_at(row, i + 3u));
}

// load_weight returns words 4 chunk to 4 chunk + 3 of a row of weight.
fn load_weight(row: u32, chunk: u32) -> vec4<u32> {
  let i = 4u * chunk;
  return vec4<u32>(weight_at(row, i), weight_at(row, i + 1u), weight_at(row, i + 2u), weight_at(row, i + 3u));
}
