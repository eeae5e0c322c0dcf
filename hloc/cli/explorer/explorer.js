"use strict";
// Every text from the module goes in through textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const [list, view, search, idle, oneColumn] =
  ["steps", "step", "search", "idle", "column"].map(byId);
let chosen = data.steps.findIndex((step) => step.changed);

function make(tag, className, text, parent) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

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

function delta(step) {
  const [before, after] = step.kernels.map(number);
  return before === after ? after : `${before} \u2192 ${after}`;
}

function drawList() {
  list.replaceChildren();
  for (const index of shownSteps()) {
    const step = data.steps[index];
    const button = make("button", step.changed ? "" : "idle", undefined, list);
    button.dataset.number = index;
    if (index === chosen) button.classList.add("chosen");
    make("span", "", String(step.number), button);
    make("span", "", step.pass, button);
    make("span", "", step.changed ? delta(step) : "=", button);
    make("small", "", (step.effect ? `${step.effect}, ` : "") + `${counted(step.rewrites, "rewrite")}, ${step.wall_ms.toFixed(1)} ms` +
      (step.summary ? `, ${step.summary}` : ""), button);
    button.addEventListener("click", () => choose(index));
  }
  if (!list.children.length) make("p", "", "No pass to show.", list);
}

// A changed line has most words in common with the old one: mark the words that it has not.
function putMarked(cell, text, other) {
  const known = new Set(other.split(/([\s,(){}=]+)/));
  for (const word of text.split(/([\s,(){}=]+)/)) {
    if (known.has(word) || !word.trim()) cell.append(word);
    else make("mark", "", word, cell);
  }
}

function drawRow(table, [kind, before, after, by]) {
  const row = make("tr", "", undefined, table);
  if (kind.startsWith("#") || kind === "...") {
    row.className = kind === "..." ? "gap" : "head";
    make("td", "kind", kind === "..." ? "\u22ee" : kind.slice(1), row);
    const cell = make("td", "", before, row);
    cell.colSpan = 3;
    return;
  }
  row.className = data.marks[kind];
  make("td", "kind", kind, row);
  const both = before && after && before !== after;
  const cells = [["old", before, after], ["new", after, before]];
  const texts = oneColumn.checked ? [both || !before ? cells[1] : cells[0]] : cells;
  for (const [name, text, other] of texts) {
    const cell = make("td", `side ${name}`, undefined, row);
    if (both && row.className !== "same") putMarked(cell, text, other);
    else cell.textContent = text;
  }
  const own = `${data.steps[chosen].pass}/`;
  make("td", "by", by ? `\u2190 ${by.replace(own, "")}` : "", row);
}

function drawStep() {
  view.replaceChildren();
  const step = data.steps[chosen];
  if (!step) return void make("p", "", "No pass changed anything.", view);
  make("h2", "", `${step.number} ${step.text}`, view);
  make("p", "effect", step.effect || "", view);
  make("p", "", `${number(step.instructions[0])} \u2192 ${counted(step.instructions[1], "instruction")}, ` +
    `${counted(step.rewrites, "rewrite")}, ${step.wall_ms.toFixed(2)} ms` +
    (step.file ? `, module: ${step.file}` : ", changed nothing"), view);
  const rules = Object.entries(step.rules || {}).map(([rule, count]) => `${rule} \u00d7${number(count)}`);
  if (rules.length) make("p", "", rules.join(", "), view);
  const table = make("table", "", undefined, view);
  drawRows(table, step.rows || []);
  view.scrollTop = 0;
}

// Rows are drawn as they come into view: a table of thousands takes seconds.
const BATCH = 200;
function drawRows(table, rows) {
  let drawn = 0;
  const end = make("p", "more", "", view);
  const watcher = new IntersectionObserver((seen) => {
    if (seen.some((entry) => entry.isIntersecting)) next();
  }, { root: view, rootMargin: "1500px" });
  function next() {
    const stop = Math.min(rows.length, drawn + BATCH);
    while (drawn < stop) drawRow(table, rows[drawn++]);
    watcher.disconnect();
    end.textContent = drawn < rows.length ? `${counted(rows.length - drawn, "row")} below` : "";
    if (drawn < rows.length && end.isConnected) watcher.observe(end);
  }
  next();
}

function choose(number) {
  chosen = number;
  draw();
  const button = list.querySelector(".chosen");
  if (button) button.scrollIntoView({ block: "nearest" });
}

function draw() {
  drawList();
  drawStep();
}

function move(by) {
  const shown = shownSteps();
  if (!shown.length) return;
  const place = shown.indexOf(chosen);
  const next = place < 0 ? 0 : Math.min(shown.length - 1, Math.max(0, place + by));
  choose(shown[next]);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.activeElement === search) {
    if (event.key === "Escape" || event.key === "Enter") search.blur();
    return;
  }
  const actions = { j: () => move(1), k: () => move(-1), ArrowDown: () => move(1),
    ArrowUp: () => move(-1), "/": () => search.focus(),
    n: () => { idle.checked = !idle.checked; drawList(); },
    u: () => { oneColumn.checked = !oneColumn.checked; drawStep(); } };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
search.addEventListener("input", drawList);
idle.addEventListener("change", drawList);
oneColumn.addEventListener("change", drawStep);
const count = data.steps.filter((step) => step.changed).length;
byId("title").textContent =
  `${data.module}: ${count} of ${data.steps.length} runs of passes changed something`;
draw();
