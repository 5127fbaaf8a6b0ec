// Weights as stored: BF16, two a word, low half first. A bfloat16 is the upper half of a float.
const PER_WORD = 2u;
const QUADS = 2u;  // groups of four weights in a load of four words

fn quad(raw: vec4<u32>, i: u32) -> vec4<f32> {
  let words = select(raw.xy, raw.zw, i == 1u);
  return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

fn unpack(word: u32, i: u32) -> f32 {
  return bitcast<f32>(select(word << 16u, word & 0xffff0000u, i == 1u));
}
