// Renders chat templates with @huggingface/jinja, for comparison with package chat.
//
//   node render.cjs FOLDER < requests.json > results.json
//
// FOLDER is where npm installed the package (it holds node_modules). Requests: [{template, context, now}], now in
// milliseconds since 1970. Results, in the same order: {text} or {error}.
const { createRequire } = require("node:module");
const fs = require("node:fs");
const path = require("node:path");

const { Template } = createRequire(path.resolve(process.argv[2]) + "/")("@huggingface/jinja");

const RealDate = Date;
let now = 0;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length ? args : [now]));
  }
};

const results = JSON.parse(fs.readFileSync(0, "utf8")).map((request) => {
  now = request.now;
  try {
    return { text: new Template(request.template).render(request.context) };
  } catch (e) {
    return { error: String(e.message ?? e) };
  }
});
fs.writeFileSync(1, JSON.stringify(results));
