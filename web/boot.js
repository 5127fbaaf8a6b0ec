// boot.js starts the page's Go program and speaks for it when it cannot.
"use strict";
(async () => {
  const show = (text, details) => {
    document.getElementById("boot").hidden = false;
    document.getElementById("boot-text").textContent = text;
    const pre = document.getElementById("boot-details");
    pre.hidden = !details;
    pre.textContent = details || "";
  };
  if (location.protocol === "file:") {
    show("Opened as a file, the page may not load its programs. Serve this folder over http and open it at a localhost or https address.");
    return;
  }
  try {
    const { ended } = await startGo("page.wasm");
    show("The page's program has stopped. Reload the page to go on.", await ended);
  } catch (error) {
    show("The page could not start. Check that the server is running and reload; if it happens again, use a current browser.", String(error));
  }
})();
