// Answers what the reference tokenizer makes of texts and ids.
//
//   node oracle.js NODE_MODULES REQUEST ANSWER
//
// REQUEST is a JSON file {tokenizer: path of a tokenizer.json, texts: [string], ids: [[id]]}. ANSWER becomes
// {plain, special: ids of each text without and with special tokens, decoded: for each text's plain ids and then for
// each entry of ids [text, text without special tokens]}.
"use strict";
const fs = require("fs");
const path = require("path");

const [modules, request, answer] = process.argv.slice(2);
const { Tokenizer } = require(path.resolve(modules, "tokenizers"));

async function main() {
  const { tokenizer, texts, ids } = JSON.parse(fs.readFileSync(request, "utf8"));
  const t = Tokenizer.fromFile(tokenizer);
  const encode = async (addSpecialTokens) => {
    const out = [];
    for (const text of texts) {
      out.push((await t.encode(text, null, { addSpecialTokens })).getIds());
    }
    return out;
  };
  const plain = await encode(false);
  const special = await encode(true);
  const decoded = [];
  for (const list of plain.concat(ids)) {
    decoded.push([await t.decode(list, false), await t.decode(list, true)]);
  }
  fs.writeFileSync(answer, JSON.stringify({ plain, special, decoded }));
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
