"use strict";
const worker = new Worker("worker.js");
worker.onerror = (event) => fetch("failed", { method: "POST", body: `${event.message} (${event.filename}:${event.lineno})` });
