// The diff of a state as a table: a row per instruction, by identity, with the rule that did it.
import { drawAsSeen, make } from "./dom.js";
import { put, tokens } from "./highlight.js";

const isLine = ([kind]) => !kind.startsWith("#") && kind !== "...";
const nameIn = (text) => (/^(?:ROOT )?(\S+) = /.exec(text) || [])[1];
export const nameOf = (row) => (isLine(row) ? nameIn(row[2]) || nameIn(row[1]) : undefined);

function wordsOf(text) {
  return new Set([...tokens(text)].filter(([kind]) => kind !== "punctuation").map(([, word]) => word));
}

function line(table, name, mark, text, other, by) {
  const row = make("tr", name, undefined, table);
  make("td", "kind", mark, row);
  const cell = make("td", "", undefined, row);
  const known = other ? wordsOf(other) : null;
  put(text, cell, (word) => known && /[\w%]/.test(word) && !known.has(word));
  make("td", "by", by ? `← ${by}` : "", row);
  return row;
}

// Draw one row of the answer: two lines where an instruction was changed.
function drawRow(table, cells, marks, own) {
  const [kind, before, after, by] = cells;
  if (!isLine(cells)) {
    const row = make("tr", kind === "..." ? "gap" : "section", undefined, table);
    make("td", "kind", kind === "..." ? "⋮" : kind.slice(1), row);
    make("td", "", [before, by].filter(Boolean).join("   "), row).colSpan = 2;
    return row;
  }
  const name = marks[kind], cause = by.startsWith(own) ? by.slice(own.length) : by;
  if (before && after && before !== after) {
    line(table, "was", "−", before, after, "");
    return line(table, "now", "+", after, before, cause);
  }
  return line(table, name, kind.trim() && { added: "+", removed: "−" }[name] || kind, after || before, "", cause);
}

// Draw the rows into `view`; `chosen` hears of the row that is clicked.
export function drawDiff(view, answer, own, chosen) {
  if (!answer.rows.length) return void make("p", "", "No instruction is different.", view);
  const table = make("table", "diff", undefined, view), body = make("tbody", "", undefined, table);
  drawAsSeen(view, body, answer.rows.length, (parent, index) => {
    const row = drawRow(parent, answer.rows[index], answer.marks, own);
    const name = nameOf(answer.rows[index]);
    if (name) row.addEventListener("click", () => {
      for (const old of body.querySelectorAll(".here")) old.classList.remove("here");
      row.classList.add("here");
      chosen(name, !answer.rows[index][2]);
    });
    return row;
  });
}
