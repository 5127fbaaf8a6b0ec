// A key/value cache of halves, two to a word. They pass through f32 conversions, so no device feature is needed.
alias Pair = u32;
alias Quad = vec2<u32>;

const LARGEST_HALF = vec2<f32>(65504.0);

// A value past the largest half would become an infinity and turn every later row that sees it into NaN.
fn pack(v: vec2<f32>) -> Pair { return pack2x16float(clamp(v, -LARGEST_HALF, LARGEST_HALF)); }
fn unpack(q: Quad) -> vec4<f32> { return vec4<f32>(unpack2x16float(q.x), unpack2x16float(q.y)); }
