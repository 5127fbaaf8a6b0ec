// x += y * scale, element by element. The prelude brings THREADS and Element.
struct Params { count: u32, scale: f32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<Element>;
@group(0) @binding(2) var<storage, read> y: array<Element>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let i = (group.y * groups.x + group.x) * THREADS + local;
  if (i >= params.count) {
    return;
  }
  x[i] = fma(y[i], Element(params.scale), x[i]);
}
