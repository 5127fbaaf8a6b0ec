// worker.js starts the engine in a dedicated worker.
"use strict";
(async () => {
  const fatal = (error) => postMessage(JSON.stringify({ kind: "fatal", message: String(error && error.message || error) }));
  // Messages that come before the program listens would be lost.
  const early = [];
  self.onmessage = (event) => early.push(event);
  self.onunhandledrejection = (event) => fatal(event.reason);
  try {
    importScripts("wasm_exec.js", "start.js", "replay.js");
    const { ended } = await startGo("engine.wasm");
    for (const event of early) self.onmessage(event);
    fatal(await ended);
  } catch (error) {
    fatal(error);
  }
})();
