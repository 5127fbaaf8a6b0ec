// startGo starts a Go program on this page, frame or worker. A classic script, loaded after wasm_exec.js.
"use strict";
// It resolves to {ended} once the program runs; ended resolves to a sentence, with what the program wrote last, when it
// ends. No program here is meant to end: it is a crash that Go itself could not catch, such as running out of memory.
globalThis.startGo = async (url) => {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly, or it is switched off");
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server answered ${response.status} ${response.statusText}`);

  let tail = "";
  const decoder = new TextDecoder();
  const write = fs.writeSync.bind(fs);
  fs.writeSync = (fd, bytes) => {
    tail = (tail + decoder.decode(bytes, { stream: true })).slice(-4000);
    return write(fd, bytes);
  };

  const go = new Go();
  let status = 0;
  go.exit = (code) => { status = code; };
  // A server that sends another type makes the streaming call fail, so that it is asked first.
  const streams = (response.headers.get("Content-Type") || "").startsWith("application/wasm");
  const wasm = streams
    ? await WebAssembly.instantiateStreaming(response, go.importObject)
    : await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
  globalThis.wasm = wasm; // replay.js reads the program's memory through it
  const ended = go.run(wasm.instance).then(() => `${url} ended with status ${status}.\n${tail}`.trim());
  return { ended };
};
