// fold adds up runs of `count` items of `width` floats each in partial, in the order of the butterfly: neighbours first.
// Each run's sum ends in its first item, visible to the whole workgroup. count is a power of two.
fn fold(local: u32, items: u32, count: u32, width: u32) {
  for (var distance = 1u; distance < count; distance *= 2u) {
    workgroupBarrier();
    for (var i = local; i < items / (2u * distance) * width; i += THREADS) {
      let at = (i / width) * 2u * distance * width + i % width;
      partial[at] += partial[at + distance * width];
    }
  }
  workgroupBarrier();
}
