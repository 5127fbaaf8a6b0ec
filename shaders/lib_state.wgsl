// The decode state S: only accept writes it; every other kernel binds it as a uniform.
struct State {
  position: u32,  // p0, absolute position of the first row of this step: the last committed token
  previous: u32,  // p0 of the step before
  accepted: u32,  // drafts accepted by the last step
  done: u32,      // 1 once a stop token was committed or the limit reached: later steps change nothing
  round: u32,     // steps since the host last set S
  limit: u32,     // first position that must not be committed
  seed_lo: u32,
  seed_hi: u32,
  reserved0: vec4<u32>,
  reserved1: vec4<u32>,
}
