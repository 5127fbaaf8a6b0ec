// Weights as stored: F16, two a word, low half first.
const PER_WORD = 2u;
const QUADS = 2u;  // groups of four weights in a load of four words

fn quad(raw: vec4<u32>, i: u32) -> vec4<f32> {
  let words = select(raw.xy, raw.zw, i == 1u);
  return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
}

fn unpack(word: u32, i: u32) -> f32 {
  return unpack2x16float(word >> (16u * i)).x;
}
