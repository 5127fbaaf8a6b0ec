// panel.js starts the graph's Go program in its frame.
"use strict";
(async () => {
  // Steps that come before the program listens would be lost.
  const early = [];
  const keep = (event) => early.push(event);
  addEventListener("message", keep);
  const note = (text) => { document.getElementById("note").textContent = text; };
  try {
    const { ended } = await startGo("panel.wasm");
    removeEventListener("message", keep);
    for (const event of early) dispatchEvent(new MessageEvent("message", { data: event.data, origin: event.origin, source: event.source }));
    note("The graph has stopped. " + await ended);
  } catch (error) {
    note("The graph could not start: " + error.message);
  }
})();
