// The JavaScript half of package gpu's WebGPU driver: what must happen in one call, or without Go seeing the bytes.
// A classic script, loaded before the Go program in a worker, in Node and in tests; globalThis.wasm holds the result of
// WebAssembly.instantiate.
"use strict";
globalThis.flintReplay = (() => {
  const PIPELINE = 0, GROUP = 1, DISPATCH = 2, COPY = 3, CUT = 4;
  const MAP_READ = 1, COPY_SRC = 4, COPY_DST = 8, QUERY_RESOLVE = 0x200;
  const CHUNK = 16 << 20, QUEUE_BYTES = 64 << 20;

  // The view is made anew each time: a growing Go heap detaches the old one.
  const goBytes = (ptr, n) => new Uint8Array(globalThis.wasm.instance.exports.mem.buffer, ptr, n);
  const goWords = (ptr, n) => new Uint32Array(globalThis.wasm.instance.exports.mem.buffer, ptr, n);

  const buffers = new Map();
  let nextBuffer = 1;
  const addBuffer = (buffer) => { buffers.set(nextBuffer, buffer); return nextBuffer++; };
  const dropBuffer = (id) => buffers.delete(id);

  const write = (device, id, offset, ptr, n) => device.queue.writeBuffer(buffers.get(id), offset, goBytes(ptr, n));

  // upload moves blob bytes [start, end) to a buffer. The next piece is read while the last is handed over, and the
  // queue is awaited now and then so that staging memory stays bounded.
  const upload = async (device, id, offset, blob, start, end, signal, progress) => {
    const buffer = buffers.get(id);
    const read = (at) => blob.slice(at, Math.min(at + CHUNK, end)).arrayBuffer();
    let queued = 0;
    let next = read(start);
    for (let at = start; at < end; at += CHUNK) {
      let data = await next;
      if (signal.cancelled) return;
      const want = Math.min(CHUNK, end - at);
      if (data.byteLength !== want) throw new Error(`read ${data.byteLength} of ${want} bytes at ${at}: the file changed or ends early`);
      if (at + CHUNK < end) {
        next = read(at + CHUNK);
        next.catch(() => {}); // awaited in the next turn; a cancelled upload must not leave an unhandled rejection
      }
      if (want % 4) {
        const padded = new Uint8Array((want + 3) & ~3);
        padded.set(new Uint8Array(data));
        data = padded.buffer;
      }
      device.queue.writeBuffer(buffer, offset + at - start, data);
      queued += want;
      if (queued >= QUEUE_BYTES) {
        queued = 0;
        await device.queue.onSubmittedWorkDone();
        if (signal.cancelled) return;
      }
      progress(want);
    }
  };

  // build keeps a command list: ops are words, pipelines and groups are indexed by them, readback is null or
  // {id, offset, size}. done(token, error) is called after a submission's readback.
  const build = (device, ops, pipelines, groups, readback, done) => ({ device, ops, pipelines, groups, readback, done, staging: [] });

  const encode = (list, submit) => {
    const { device, ops, pipelines, groups } = list;
    let encoder = device.createCommandEncoder();
    let pass = null;
    const endPass = () => { if (pass) { pass.end(); pass = null; } };
    for (let i = 0; i < ops.length;) {
      switch (ops[i]) {
        case PIPELINE:
          pass ??= encoder.beginComputePass();
          pass.setPipeline(pipelines[ops[i + 1]]);
          i += 2;
          break;
        case GROUP:
          pass.setBindGroup(0, groups[ops[i + 1]]);
          i += 2;
          break;
        case DISPATCH:
          pass.dispatchWorkgroups(ops[i + 1], ops[i + 2], ops[i + 3]);
          i += 4;
          break;
        case COPY:
          endPass();
          encoder.copyBufferToBuffer(buffers.get(ops[i + 1]), ops[i + 2] * 4, buffers.get(ops[i + 3]), ops[i + 4] * 4, ops[i + 5] * 4);
          i += 6;
          break;
        case CUT:
          endPass();
          device.queue.submit([encoder.finish()]);
          encoder = device.createCommandEncoder();
          i += 1;
          break;
        default:
          throw new Error(`unknown command ${ops[i]} at word ${i}`);
      }
    }
    endPass();
    submit(encoder);
  };

  // submit applies small writes (words: id, offset/4, length/4, data...), runs the list, and brings its readback into
  // Go memory at ptr.
  const submit = (list, writesPtr, writesLen, ptr, token) => {
    const { device, readback, staging } = list;
    if (writesLen) {
      const w = goWords(writesPtr, writesLen);
      for (let i = 0; i < writesLen; i += 3 + w[i + 2]) {
        device.queue.writeBuffer(buffers.get(w[i]), w[i + 1] * 4, w, i + 3, w[i + 2]);
      }
    }
    let slot = null;
    encode(list, (encoder) => {
      if (readback) {
        slot = staging.pop() ?? device.createBuffer({ label: "readback", size: readback.size, usage: MAP_READ | COPY_DST });
        encoder.copyBufferToBuffer(buffers.get(readback.id), readback.offset, slot, 0, readback.size);
      }
      device.queue.submit([encoder.finish()]);
    });
    if (!slot) return;
    slot.mapAsync(MAP_READ).then(() => {
      goBytes(ptr, readback.size).set(new Uint8Array(slot.getMappedRange()));
      slot.unmap();
      if (list.released) slot.destroy(); else staging.push(slot);
      list.done(token, null);
    }, (e) => {
      slot.destroy();
      list.done(token, String(e?.message ?? e));
    });
  };

  const release = (list) => {
    list.released = true;
    for (const s of list.staging) s.destroy();
    list.staging.length = 0;
  };

  // profile runs each dispatch in a pass of its own between two timestamps and resolves to nanoseconds a dispatch, the
  // mean of the runs.
  const profile = async (list, repeats) => {
    const { device, ops, pipelines, groups } = list;
    const passes = [];
    for (let i = 0, pipeline = 0, group = 0; i < ops.length;) {
      if (ops[i] === PIPELINE) { pipeline = ops[i + 1]; i += 2; }
      else if (ops[i] === GROUP) { group = ops[i + 1]; i += 2; }
      else if (ops[i] === DISPATCH) { passes.push([pipeline, group, ops[i + 1], ops[i + 2], ops[i + 3]]); i += 4; }
      else if (ops[i] === COPY) { i += 6; }
      else { i += 1; }
    }
    const total = new Float64Array(passes.length);
    const PER_SET = 2048; // timestamps; the limit of a query set is 4096
    for (let r = 0; r < repeats; r++) {
      for (let first = 0; first < passes.length; first += PER_SET / 2) {
        const part = passes.slice(first, first + PER_SET / 2);
        const querySet = device.createQuerySet({ type: "timestamp", count: 2 * part.length });
        const size = 16 * part.length;
        const resolved = device.createBuffer({ size, usage: QUERY_RESOLVE | COPY_SRC });
        const staging = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
        const encoder = device.createCommandEncoder();
        part.forEach(([p, g, x, y, z], k) => {
          const pass = encoder.beginComputePass({ timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * k, endOfPassWriteIndex: 2 * k + 1 } });
          pass.setPipeline(pipelines[p]);
          pass.setBindGroup(0, groups[g]);
          pass.dispatchWorkgroups(x, y, z);
          pass.end();
        });
        encoder.resolveQuerySet(querySet, 0, 2 * part.length, resolved, 0);
        encoder.copyBufferToBuffer(resolved, 0, staging, 0, size);
        device.queue.submit([encoder.finish()]);
        await staging.mapAsync(MAP_READ);
        const stamps = new BigUint64Array(staging.getMappedRange());
        part.forEach((_, k) => { total[first + k] += Number(stamps[2 * k + 1] - stamps[2 * k]) / repeats; });
        staging.destroy(); resolved.destroy(); querySet.destroy();
      }
    }
    return total;
  };

  return { addBuffer, dropBuffer, write, upload, build, submit, release, profile };
})();
