// The views of a state: each asks the server for what it shows, and draws it.
import { ask } from "./ask.js";
import { showGraph, showMemory, showRoofline } from "./charts.js";
import { showCompare } from "./compare.js";
import { checkbox, counted, drawAsSeen, make, number } from "./dom.js";
import { drawDiff } from "./diff.js";
import { lines } from "./highlight.js";
import { showKernel } from "./kernel.js";
import { showLesson } from "./lesson.js";
import { showRun } from "./run.js";

export const VIEWS = [
  ["lesson", "Lesson"], ["diff", "Diff"], ["graph", "Graph"], ["hlo", "HLO"], ["run", "Run"], ["cost", "Cost"],
  ["memory", "Memory"], ["roofline", "Roofline"], ["llvm-ir", "LLVM IR"], ["asm", "Assembly"], ["ptx", "PTX"], ["compare", "Compare"],
];

// ---- views

function options(view, label, key, redraw) {
  const bar = make("div", "bar", undefined, view);
  checkbox(bar, label, chosen[key], (on) => { chosen[key] = on; redraw(); });
  return bar;
}

const chosen = { whole: false, later: false };

function showDiff(view, question, answer, own, redraw) {
  if (!question.state) return void make("p", "", "This is the input. The slider, or ] on the keyboard, shows what each pass makes of it.", view);
  const bar = options(view, "since the input", "whole", redraw);
  const [before, after] = answer.instructions;
  make("span", "", `${answer.summary || "no change"}   ${number(before)} → ${counted(after, "instruction")}`, bar);
  drawDiff(view, answer, own, () => {});
}

// Form of a view -> the form that its switch shows instead.
const LATER = { hlo: ["schedule", "in the order of the schedule"], "llvm-ir": ["llvm-ir-opt", "as LLVM optimises it"] };

async function showText(view, question, name, redraw) {
  const [later, label] = LATER[name] || [], form = later && chosen.later ? later : name;
  const { text, left } = await ask({ ...question, ask: "text", form });
  return () => {
    if (later) options(view, label, "later", redraw);
    if (left) make("p", "", `The text is cut: ${counted(left, "more letter")}.`, view);
    const body = make("pre", "", undefined, view);
    body.tabIndex = 0;
    const rows = name === "hlo" ? lines(text) : text.split("\n").map((row) => [["", row]]);
    drawAsSeen(view, body, rows.length, (parent, index) => {
      const row = make("div", "", undefined, parent);
      for (const [kind, piece] of rows[index]) make("span", kind && `k-${kind}`, piece, row);
      if (!row.textContent) row.append("\u200b");
      return row;
    });
  };
}

async function showCost(view, question) {
  const answer = await ask({ ...question, ask: "cost" });
  return () => {
    make("p", "", answer.title, view);
    const table = make("table", "costs", undefined, view), head = make("tr", "", undefined, table);
    answer.heads.forEach((name, i) => make("th", i > 2 ? "number" : "", name, head));
    for (const cells of answer.rows) {
      const row = make("tr", "", undefined, table);
      cells.forEach((cell, i) => make("td", i > 2 ? "number" : "", cell, row));
    }
  };
}

// Return a function that draws the view `name` of a state into `view`.
export async function viewOf(name, view, question, own, redraw, told) {
  const show = { graph: showGraph, memory: showMemory, roofline: showRoofline, run: showRun, cost: showCost, lesson: showLesson, ptx: showKernel, compare: showCompare }[name];
  if (show) return show(view, question, redraw);
  if (name !== "diff") return showText(view, question, name, redraw);
  const answer = chosen.whole ? await ask({ ...question, ask: "state", whole: true }) : told;
  return () => showDiff(view, question, answer, own, redraw);
}
