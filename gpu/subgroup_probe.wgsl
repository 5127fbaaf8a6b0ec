// Writes which lane of which size each invocation believes to be, so that the host can see whether lanes follow
// local_invocation_index: kernels shuffle on that assumption.
struct Params { unused: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;  // [2, 128]

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) index: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32) {
  // The shuffle makes a compiler that merges or splits subgroups show it.
  out[index] = subgroupShuffle(lane, lane);
  out[128u + index] = size;
}
