// Weights as stored: F32, one a word.
const PER_WORD = 1u;
const QUADS = 1u;  // groups of four weights in a load of four words

fn quad(raw: vec4<u32>, i: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(raw);
}

fn unpack(word: u32, i: u32) -> f32 {
  return bitcast<f32>(word);
}
