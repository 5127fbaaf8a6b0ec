// out = silu(gate) * up, element by element. The prelude brings THREADS and Element.
struct Params { count: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<Element>;
@group(0) @binding(2) var<storage, read> gate: array<Element>;
@group(0) @binding(3) var<storage, read> up: array<Element>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * THREADS + local;
  if (i >= params.count) {
    return;
  }
  let g = gate[i];
  // exp overflows past 88, which WGSL leaves undefined; there silu is below 1e-36 already.
  out[i] = g / (Element(1.0) + exp(min(-g, Element(88.0)))) * up[i];
}
