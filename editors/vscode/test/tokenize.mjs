// Prints what the TextMate grammar makes of a text: a line of JSON per token, [line, column, end, scope].
//
//     node test/tokenize.mjs < module.hlo

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import oniguruma from "vscode-oniguruma";
import textmate from "vscode-textmate";

const wasm = createRequire(import.meta.url).resolve("vscode-oniguruma/release/onig.wasm");
await oniguruma.loadWASM(readFileSync(wasm));
const file = new URL("../syntaxes/hlo.tmLanguage.json", import.meta.url);
const registry = new textmate.Registry({
  onigLib: Promise.resolve({
    createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
    createOnigString: (text) => new oniguruma.OnigString(text),
  }),
  loadGrammar: async () => JSON.parse(readFileSync(file, "utf8")),
});
const grammar = await registry.loadGrammar("source.hlo");
let state = textmate.INITIAL;
const lines = readFileSync(0, "utf8").split("\n");
for (const [number, line] of lines.entries()) {
  const found = grammar.tokenizeLine(line, state);
  state = found.ruleStack;
  for (const { startIndex, endIndex, scopes } of found.tokens)
    console.log(JSON.stringify([number, startIndex, endIndex, scopes.at(-1)]));
}
