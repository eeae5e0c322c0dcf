// Tokens of HLO text, by the pattern and the words that the server has from hloc.editors.
import { make } from "./dom.js";

let pattern = null, words = {}, roles = new Set();
const ASYNC = /-(start|update|done)$/;
const DEFINES = /[ \t]*=[ \t]/y, HEAD = /[ \t]+\(|[ \t]*(?:\{[ \t]*(?:\/\/[^\n]*)?\r?\n)/y;

export function learn(highlighting) {
  pattern = new RegExp(highlighting.pattern, "g");
  for (const kind of ["opcodes", "types", "attributes", "sections", "constants"])
    words[kind] = new Set(highlighting[kind]);
  roles = new Set(highlighting.roles);
}

const stands = (what, text, at) => { what.lastIndex = at; return what.test(text); };

function kindOfName(text, end, namesComputation) {
  if (stands(DEFINES, text, end)) return "definition";
  return namesComputation || stands(HEAD, text, end) ? "computation" : "name";
}

function kindOfWord(text, word, end, namesComputation) {
  const after = text[end];
  if (word.startsWith("%")) return kindOfName(text, end, namesComputation);
  if (after === "=" && !stands(DEFINES, text, end)) return words.attributes.has(word) ? "attribute" : "property";
  if (words.sections.has(word)) return "section";
  if (after === "[" && words.types.has(word)) return "type";
  if (after === "(" && (words.opcodes.has(word) || words.opcodes.has(word.replace(ASYNC, "")))) return "opcode";
  return words.constants.has(word) ? "constant" : kindOfName(text, end, namesComputation);
}

// Yield [kind, text] of every token; the same as hloc.editors.tokens.
export function* tokens(text) {
  if (!pattern) return void (yield ["name", text]);
  let key = "", depth = 0;
  for (const found of text.matchAll(pattern)) {
    const word = found[0];
    let kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    if (kind === "word") kind = kindOfWord(text, word, found.index + word.length, Boolean(key));
    else if (kind === "labels") kind = "number";
    if (kind === "attribute") {
      key = roles.has(word) ? word : "";
      depth = 0;
    } else if (kind === "punctuation" && key) {
      depth += (word === "{") - (word === "}");
      if ("()".includes(word) || (depth <= 0 && ",}".includes(word))) key = "";
    }
    yield [kind, word];
  }
}

// Put `text` in colours into `parent`; tokens that `isMarked` says stand in a mark.
export function put(text, parent, isMarked = () => false) {
  for (const [kind, word] of tokens(text)) {
    const place = kind !== "blank" && isMarked(word) ? make("mark", "", undefined, parent) : parent;
    if (kind === "blank") place.append(word);
    else make("span", `k-${kind}`, word, place);
  }
}

// Return the lines of `text`, each a list of [kind, piece].
export function lines(text) {
  const found = [[]];
  for (const [kind, word] of tokens(text)) {
    const pieces = word.split("\n");
    pieces.forEach((piece, i) => {
      if (i) found.push([]);
      if (piece) found.at(-1).push([kind, piece]);
    });
  }
  return found;
}
