// A key/value cache of f32.
alias Pair = vec2<f32>;
alias Quad = vec4<f32>;

fn pack(v: vec2<f32>) -> Pair { return v; }
fn unpack(q: Quad) -> vec4<f32> { return q; }
