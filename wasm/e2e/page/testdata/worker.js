// Stands in for the engine where a test needs one that fails on request, or that answers at a known pace.
"use strict";
const post = (message) => postMessage(JSON.stringify(message));
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const sampling = { temperature: 0.8, topK: 0, topP: 0.95, minP: 0, repetitionPenalty: 1, penaltyWindow: 0, maxTokens: 0 };
const cancelled = new Set();
let hung = false;

async function load(id, name) {
  post({ kind: "hello", adapter: { vendor: "test", architecture: "stand-in", device: "", description: "", software: true } });
  for (let i = 0; i <= 4; i++) {
    post({ kind: "progress", id, phase: "weights", done: i * 250000, total: 1000000 });
    await sleep(20);
  }
  post({ kind: "loaded", id, name, architecture: "T", parameters: 1000000, contextLength: 2048, gpuBytes: 4000000, ms: 100, sampling });
}

async function chat({ id, messages, sampling }) {
  const last = messages.at(-1).content;
  const [command, argument] = last.split(" ");
  switch (command) {
    case "error": return post({ kind: "error", id, code: argument, message: "<b>what happened</b>" });
    case "fatal": return post({ kind: "fatal", message: "index out of range", stack: "goroutine 1" });
    case "throw": return setTimeout(() => { throw new Error("thrown in the worker"); });
    case "babble": return postMessage("{}");
  }
  const count = command === "long" ? 100000 : 30;
  const start = performance.now();
  let n = 0;
  for (; n < count && !cancelled.has(id); n++) {
    // What the worker was told, then markup, then a blank line now and then.
    const text = n === 0 ? `turns ${messages.length} ` : n % 20 === 10 ? "<img src=x onerror=hacked()> " : n % 20 === 15 ? "word\n\n" : "word ";
    post({ kind: "token", id, text });
    post({ kind: "step", id, index: n, tokens: 1, position: n + 10, ms: 20, tokensPerSecond: 50 });
    await sleep(5);
  }
  const ms = performance.now() - start;
  post({ kind: "done", id, reason: cancelled.has(id) ? "cancelled" : "stop", usage: { prompt: 10, reused: 0, completion: n },
    timings: { prefillMs: 1, decodeMs: ms, firstTokenMs: 1, tokensPerSecond: 1000 * n / ms }, seed: sampling.seed ?? 4711 });
}

onmessage = ({ data }) => {
  const message = JSON.parse(data);
  switch (message.kind) {
    case "ping": if (!hung) post({ kind: "pong", n: message.n }); break;
    case "load": load(message.id, message.name); break;
    case "cancel": cancelled.add(message.id); break;
    case "chat": chat(message); break;
  }
};
