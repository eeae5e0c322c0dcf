"use strict";
// The page of `--dump-dir`: passes, the diff of the chosen one, and its graph in a frame, which is a
// page of `hloc graph` that lies beside this one, or in it where there are no files beside it, and
// is loaded when it is looked at.
// Every text from the module goes in through textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const graphs = byId("graphs") ? JSON.parse(byId("graphs").textContent) : {};
const [list, view, search, idle, oneColumn, withGraph, picture, said] =
  ["steps", "step", "search", "idle", "column", "beside", "graph", "said"].map(byId);
let chosen = data.steps.findIndex((step) => step.changed);

function make(tag, className, text, parent) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

// ---- the list of passes

const haystacks = data.steps.map((step) => [step.text, ...Object.keys(step.rules || {}),
  ...(step.rows || []).flatMap((row) => [row[1], row[2], row[3]])].join("\n").toLowerCase());

function isShown(number) {
  const step = data.steps[number];
  if (!step.changed && !idle.checked) return false;
  const word = search.value.trim().toLowerCase();
  return !word || haystacks[number].includes(word);
}

function shownSteps() {
  return data.steps.map((_, number) => number).filter(isShown);
}

const number = (n) => n.toLocaleString("en");
const counted = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;

function drawList() {
  list.replaceChildren();
  for (const index of shownSteps()) {
    const step = data.steps[index];
    const button = make("button", step.changed ? "" : "idle", undefined, list);
    button.dataset.number = index;
    if (index === chosen) {
      button.classList.add("chosen");
      button.setAttribute("aria-current", "true");
    }
    make("span", "", String(step.number), button);
    make("span", "", step.pass, button);
    make("small", "", step.changed ? step.effect : "no change", button);
    make("small", "", [counted(step.rewrites, "rewrite"), `${step.wall_ms.toFixed(1)} ms`, step.summary]
      .filter(Boolean).join(", "), button);
    button.addEventListener("click", () => choose(index));
  }
  if (!list.children.length) make("p", "", "No pass to show.", list);
}

// ---- the diff of a pass

// A changed line has most words in common with the old one: mark the words that it has not.
function putMarked(cell, text, other) {
  const known = new Set(other.split(/([\s,(){}=]+)/));
  for (const word of text.split(/([\s,(){}=]+)/)) {
    if (known.has(word) || !word.trim()) cell.append(word);
    else make("mark", "", word, cell);
  }
}

const isLine = ([kind]) => !kind.startsWith("#") && kind !== "...";
const nameIn = (text) => (/^(?:ROOT )?(\S+) = /.exec(text) || [])[1];
const nameOf = (row) => (isLine(row) ? nameIn(row[2]) || nameIn(row[1]) : undefined);

function drawRow(table, index) {
  const cells = rows.all[index], [kind, before, after, by] = cells;
  const row = make("tr", "", undefined, table);
  if (!isLine(cells)) {
    row.className = kind === "..." ? "gap" : "head";
    make("td", "kind", kind === "..." ? "\u22ee" : kind.slice(1), row);
    const cell = make("td", "", before, row);
    cell.colSpan = 3;
    return row;
  }
  row.className = data.marks[kind];
  make("td", "kind", kind, row).title = data.marks[kind];
  const both = before && after && before !== after;
  const sides = [["old", before, after], ["new", after, before]];
  const texts = oneColumn.checked ? [both || !before ? sides[1] : sides[0]] : sides;
  for (const [name, text, other] of texts) {
    const cell = make("td", `side ${name}`, undefined, row);
    if (both && row.className !== "same") putMarked(cell, text, other);
    else cell.textContent = text;
  }
  const own = `${data.steps[chosen].pass}/`;
  make("td", "by", by ? `\u2190 ${by.replace(own, "")}` : "", row);
  if (nameOf(cells)) row.addEventListener("click", () => chooseRow(index));
  return row;
}

function drawStep() {
  view.replaceChildren();
  said.textContent = "";
  const step = data.steps[chosen];
  if (!step) return void make("p", "", data.steps.length ? "No pass changed anything."
    : "The pipeline has no passes.", view);
  make("h2", "", `${step.number} ${step.text}`, view);
  make("p", "effect", step.effect || "", view);
  make("p", "", `${number(step.instructions[0])} \u2192 ${counted(step.instructions[1], "instruction")}, ` +
    `${counted(step.rewrites, "rewrite")}, ${step.wall_ms.toFixed(2)} ms` +
    (step.file ? `, module: ${step.file}` : ", changed nothing"), view);
  const rules = Object.entries(step.rules || {}).map(([rule, count]) => `${rule} \u00d7${number(count)}`);
  if (rules.length) make("p", "", rules.join(", "), view);
  const seen = new Set((step.rows || []).filter(isLine).map((row) => row[0]));
  const marks = Object.keys(data.marks).filter((mark) => mark.trim() && seen.has(mark));
  if (marks.length) make("p", "marks", marks.map((mark) => `${mark} ${data.marks[mark]}`).join("   "), view);
  drawRows(make("table", "", undefined, view), step.rows || []);
  view.scrollTop = 0;
}

// Rows are drawn as they come into view: a table of thousands takes seconds.
const BATCH = 200;
let rows = { all: [], drawn: [], until: () => {} };
function drawRows(table, all) {
  const end = make("p", "more", "", view), drawn = [];
  const watcher = new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting)) until(drawn.length + BATCH);
  }, { root: view, rootMargin: "1500px" });
  function until(count) {
    while (drawn.length < Math.min(count, all.length)) drawn.push(drawRow(table, drawn.length));
    watcher.disconnect();
    end.textContent = drawn.length < all.length ? `${counted(all.length - drawn.length, "row")} below` : "";
    if (drawn.length < all.length && end.isConnected) watcher.observe(end);
  }
  rows = { all, drawn, until };
  until(BATCH);
}

// ---- the graph, and the links between it and the rows

let frame = null, waiting = 0, chosenRow = -1;
const WAIT_MS = 200;  // the graph of a pass that is only passed by is not loaded

function drawGraph() {
  clearTimeout(waiting);
  picture.hidden = !withGraph.checked;
  const file = withGraph.checked ? (data.steps[chosen] || {}).graph : undefined;
  if (frame && frame.dataset.file === file) return;
  if (frame) frame.remove();
  frame = null;
  if (!withGraph.checked) return;
  const changed = (data.steps[chosen] || {}).changed;
  said.textContent = file ? "" : changed ? "The module is too large for a graph." : "No graph: nothing changed.";
  if (file) waiting = setTimeout(() => {
    frame = make("iframe", "", undefined, picture);
    frame.title = "Graph after the pass";
    frame.dataset.file = file;
    frame.setAttribute("sandbox", "allow-scripts");
    if (file in graphs) frame.srcdoc = graphs[file];
    else frame.src = file;
    frame.addEventListener("load", showInGraph);
  }, WAIT_MS);
}

function mark(index) {
  rows.until(index + 1);
  for (const old of view.querySelectorAll("tr.here")) old.classList.remove("here");
  chosenRow = index;
  rows.drawn[index].classList.add("here");
  rows.drawn[index].scrollIntoView({ block: "nearest" });
}

function showInGraph() {
  const row = rows.all[chosenRow];
  if (frame && row) frame.contentWindow.postMessage({ show: nameOf(row), removed: !row[2] }, "*");
}

function chooseRow(index) {
  mark(index);
  showInGraph();
}

function nextRow(by) {
  const changed = (row) => nameOf(row) && row[0] !== " ";
  for (let i = chosenRow + by; i >= 0 && i < rows.all.length; i += by)
    if (changed(rows.all[i])) return chooseRow(i);
}

addEventListener("message", (event) => {
  if (!frame || event.source !== frame.contentWindow || typeof event.data !== "object") return;
  const { chosen: name, removed, shown, inside } = event.data;
  if (name !== undefined) {
    const all = rows.all, side = removed ? 1 : 2;
    let index = all.findIndex((row) => isLine(row) && nameIn(row[side]) === String(name));
    if (index < 0) index = all.findIndex((row) => nameOf(row) === String(name));
    said.textContent = index < 0 ? `${name} has no row in this diff` : "";
    if (index >= 0) mark(index);
  } else if (shown !== undefined) {
    said.textContent = inside === undefined ? `${shown} has no box of its own`
      : inside === shown ? "" : `${shown} is written in its user ${inside}`;
  }
});

// ---- choosing, keys

function choose(number) {
  chosen = number;
  draw();
  const button = list.querySelector(".chosen");
  if (button) button.scrollIntoView({ block: "nearest" });
}

function draw() {
  chosenRow = -1;
  drawList();
  drawStep();
  drawGraph();
}

function move(by) {
  const shown = shownSteps();
  if (!shown.length) return;
  const place = shown.indexOf(chosen);
  const next = place < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, place + by));
  choose(shown[next]);
}

const WIDE = 1800, NARROW = 1000;  // pixels that two columns need, with a graph and without
function showGraph() {
  oneColumn.checked = innerWidth < (withGraph.checked ? WIDE : NARROW);
  draw();
}

const flip = (box, then) => () => { box.checked = !box.checked; then(); };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement === search) {
    if (event.key === "Escape" || event.key === "Enter") search.blur();
    return;
  }
  const actions = { j: () => move(1), k: () => move(-1), ArrowDown: () => move(1),
    ArrowUp: () => move(-1), J: () => nextRow(1), K: () => nextRow(-1), "/": () => search.focus(),
    n: flip(idle, drawList), u: flip(oneColumn, drawStep), g: flip(withGraph, showGraph) };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
search.addEventListener("input", drawList);
idle.addEventListener("change", drawList);
oneColumn.addEventListener("change", drawStep);
withGraph.addEventListener("change", showGraph);
const count = data.steps.filter((step) => step.changed).length;
byId("title").textContent =
  `${data.module}: ${count} of ${counted(data.steps.length, "run")} of passes changed something`;
withGraph.checked = innerWidth >= 1100 && data.steps.some((step) => step.graph);
showGraph();
