// The page: editor on the left, passes in the middle, the chosen state on the right.
import { ask, fetched, Faults } from "./ask.js";
import { byId, counted, make, settled } from "./dom.js";
import { Editor } from "./editor.js";
import { learn } from "./highlight.js";
import { packed, unpacked } from "./link.js";
import { Steps } from "./steps.js";
import { drawTold } from "./told.js";
import { VIEWS, viewOf } from "./views.js";

const LEVELS = ["-O0", "-O1", "-O2", "-O3"], XLA = "XLA";
const page = { pipeline: "-O2", state: 0, rewrite: 0, view: "diff", lesson: null, dump: null };
const editor = new Editor(byId("editor"), settled(150, check));
const steps = new Steps(choose);

// ---- errors while typing

let checks = 0;
async function check() {
  const mine = ++checks, text = editor.text;
  offerReplay();
  let faults = [], facts = "";
  try {
    const answer = await ask({ ask: "check", text });
    facts = `${counted(answer.instructions, "instruction")}, ${counted(answer.computations, "computation")}`;
    if (mine === checks) byId("name").textContent = answer.name;
  } catch (fault) {
    faults = fault.faults || [{ message: String(fault), notes: [] }];
  }
  if (mine !== checks) return;
  editor.show(faults);
  byId("facts").textContent = faults.length ? counted(faults.length, "error") : facts;
  drawProblems(faults);
  if (canWalk()) walk();
  else if (!steps.walk) steps.clear("The text has errors.");
  keepLink();
}

function drawProblems(faults) {
  const list = byId("problems");
  list.replaceChildren();
  for (const fault of faults) {
    const row = make("button", "", undefined, list);
    make("code", "", fault.line ? `${fault.line}:${fault.column}` : "", row);
    make("code", "", fault.code || "", row);
    make("span", "", fault.message, row);
    for (const note of fault.notes || []) make("small", "", note, row);
    row.addEventListener("click", () => fault.line && editor.go(fault.line, fault.column));
  }
}

// ---- passes; one walk at a time, in parts, then once more if the text has changed meanwhile

let walking = false, walked = { text: null, pipeline: null, dump: -1 };
let wanted = null;  // state of a link that no pass has made yet
// What XLA's passes made is read from the dump, and belongs to no text.
const source = () => (page.pipeline === XLA ? { text: "", pipeline: "", dump: page.dump.number }
  : { text: editor.text, pipeline: page.pipeline, dump: -1 });
const isWalked = () => Object.entries(source()).every(([key, value]) => walked[key] === value);
async function walk() {
  let begun = isWalked();
  if (walking || (begun && steps.isDone)) return;
  walking = true;
  try {
    if (!begun) await beginWalk(source());
    begun = true;
    while (isWalked() && !steps.isDone) {
      steps.extend(await ask({ ask: "walk", ...walked, known: steps.walk.passes.length }));
      await chooseWanted();
    }
  } catch (fault) {
    if (begun) steps.end(fault.message);
    else {
      steps.clear("No states.");
      fail(fault);
    }
  } finally {
    walking = false;
  }
  if (canWalk()) walk();
}

// A dump may hold what hloc takes for an error.
const canWalk = () => page.pipeline === XLA || !byId("problems").childElementCount;

async function beginWalk(asked) {
  try {
    const answer = await ask({ ask: "walk", ...asked });
    wanted = { state: page.state, rewrite: page.rewrite };
    steps.show(answer, { state: 0, rewrite: 0 }, null);
  } finally {
    walked = asked;
  }
  await chooseWanted();
}

async function chooseWanted() {
  if (!wanted || !isWalked() || (wanted.state > steps.last && !steps.isDone)) return;
  const state = Math.min(wanted.state, steps.last), pass = steps.passOf(state);
  await choose(state, pass ? Math.min(wanted.rewrite, pass.rewrites) : 0);
}

function fail(fault) {
  byId("title").textContent = "State";
  for (const id of ["told", "view"]) byId(id).replaceChildren();
  byId("effect").textContent = "";
  make("div", "fault", fault instanceof Faults ? fault.message : String(fault), byId("view"));
}

// ---- a state

let choices = 0, told = null;
// Of a program that is a lesson, the tab of its text and exercise; else there is none.
function setLesson(lesson) {
  page.lesson = lesson;
  byId("tabs").firstChild.hidden = lesson === null;
  if (lesson === null && page.view === "lesson") page.view = "diff";
}

const question = () => ({ ...walked, state: page.state, rewrite: page.rewrite });

async function choose(state, rewrite) {
  const mine = ++choices;
  wanted = told = null;  // a view that is chosen meanwhile is drawn once, with the answer
  Object.assign(page, { state, rewrite });
  const pass = steps.passOf(state);
  const known = steps.rewrites && steps.rewrites.state === state ? steps.rewrites : null;
  steps.show(steps.walk, { state, rewrite }, known);
  byId("title").textContent = pass ? `${state}${rewrite ? `+${rewrite}` : ""}  ${pass.pass}` : "0  input";
  byId("effect").textContent = pass ? pass.effect : steps.walk ? steps.walk.first.effect : "";
  try {
    const answer = await ask({ ...question(), ask: "state" });
    if (mine !== choices) return;
    told = answer;
    byId("effect").textContent = answer.effect;
    drawTold(byId("told"), answer, pass);
    await drawView();
    if (pass && pass.rewrites && !known && mine === choices) {
      const rewrites = await ask({ ...question(), ask: "rewrites" });
      if (mine === choices) steps.show(steps.walk, { state, rewrite }, { ...rewrites, state });
    }
  } catch (fault) {
    if (mine === choices) fail(fault);
  }
  keepLink();
}

let drawings = 0;
async function drawView() {
  const mine = ++drawings, view = byId("view");
  for (const tab of byId("tabs").children) {
    tab.setAttribute("aria-selected", tab.dataset.view === page.view);
    tab.tabIndex = tab.dataset.view === page.view ? 0 : -1;
  }
  if (!told) return;
  const pass = steps.passOf(page.state), own = pass ? `${pass.pass.split("{")[0]}/` : "";
  try {
    const draw = await viewOf(page.view, view, page.view === "lesson" ? page.lesson : question(), own, drawView, told);
    if (mine !== drawings) return;
    view.replaceChildren();
    view.scrollTo(0, 0);
    draw();
  } catch (fault) {
    if (mine !== drawings) return;
    view.replaceChildren();
    make("div", "fault", fault.message, view);
  }
}

function makeTabs() {
  for (const [name, title] of VIEWS) {
    const tab = make("button", "", title, byId("tabs"));
    tab.dataset.view = name;
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", () => { page.view = name; drawView(); keepLink(); });
  }
  byId("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], tabs = [...byId("tabs").children].filter((tab) => !tab.hidden);
    if (!by) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
    next.click();
    next.focus();
    event.stopPropagation();
  });
}

// ---- pipelines and programs

function makeLevels() {
  for (const level of [...LEVELS, "passes", XLA]) {
    const label = make("label", "", undefined, byId("levels")), input = make("input", "", undefined, label);
    Object.assign(input, { type: "radio", name: "level", value: level });
    label.append(level);
    label.hidden = level === XLA;
    if (level === XLA) label.title = "The passes of XLA, as the dump has them";
    input.addEventListener("change", () => setPipeline(level === "passes" ? byId("passes").value || "dce" : level));
  }
  byId("passes").addEventListener("change", () => setPipeline(byId("passes").value.trim() || "dce"));
}

function setPipeline(pipeline) {
  page.pipeline = pipeline;
  showPipeline();
  check();
}

function showPipeline() {
  const isLevel = [...LEVELS, XLA].includes(page.pipeline);
  byId("passes").hidden = isLevel;
  if (!isLevel) byId("passes").value = page.pipeline;
  for (const input of byId("levels").querySelectorAll("input"))
    input.checked = input.value === (isLevel ? page.pipeline : "passes");
}

// The states that XLA made are offered while the text is the one that they begin with.
function offerReplay() {
  const isOffered = page.dump !== null && page.dump.text === editor.text;
  byId("levels").lastChild.hidden = !isOffered;
  if (!isOffered && page.pipeline === XLA) page.pipeline = "-O2";
  showPipeline();
}

function setDump(number, text) {
  page.dump = number === null ? null : { number, text: text.replaceAll("\r\n", "\n") };
  if (number !== null) page.pipeline = XLA;
  else if (page.pipeline === XLA) page.pipeline = "-O2";
}

async function open(index) {
  try {
    const { text } = await fetched(`api/programs/${index}`);
    setLesson(programs[index].lesson ? index : null);
    if (page.lesson !== null) page.view = "lesson";
    setDump(programs[index].replayed ? index : null, text);
    setText(text);
  } catch (fault) {
    fail(fault);
  }
}

function setText(text, state = 0, rewrite = 0) {
  Object.assign(page, { state, rewrite });
  editor.text = text;
  check();
}

let programs = [];
function listPrograms() {
  const select = byId("programs"), groups = {};
  programs.forEach(({ title, group }, index) => {
    if (!groups[group]) {
      groups[group] = make("optgroup", "", undefined, select);
      groups[group].label = group;
    }
    make("option", "", title, groups[group]).value = index;
  });
  select.addEventListener("change", () => open(Number(select.value)));
}

// ---- the link

const MOST_LETTERS = 60_000;  // of a link; browsers take more, but mail and chat do not
const keepLink = settled(400, async () => {
  const { pipeline, state, rewrite, view, lesson } = page, dump = page.dump && programs[page.dump.number].group;
  const data = { text: editor.text, pipeline, state, rewrite, view, lesson, dump };
  let fragment = await packed(data);
  // Whoever has the dump has the text.
  if (fragment.length > MOST_LETTERS && pipeline === XLA) fragment = await packed({ ...data, text: null });
  const fits = fragment.length <= MOST_LETTERS;
  byId("link").disabled = !fits;
  byId("link").title = fits ? "Copy a link that holds the program and the state" : "The program is too large for a link";
  history.replaceState(null, "", fits ? `#${fragment}` : "#");
});

async function openLink() {
  const data = location.hash.length > 1 ? await unpacked(location.hash.slice(1)) : null;
  if (!data) return false;
  // A dump is found by the name of its module; it is another one if the text is another.
  const number = programs.findIndex((program) => program.replayed && program.group === data.dump);
  const known = number < 0 ? null : (await fetched(`api/programs/${number}`)).text, text = data.text ?? known;
  if (typeof text !== "string") return false;
  const isDump = text === known;
  setDump(isDump ? number : null, text);
  page.pipeline = data.pipeline === XLA ? page.pipeline : String(data.pipeline || "-O2");
  page.view = VIEWS.some(([name]) => name === data.view) ? data.view : "diff";
  const isLesson = Number.isInteger(data.lesson) && programs[data.lesson]?.lesson;
  setLesson(isLesson ? data.lesson : null);
  byId("programs").value = isLesson ? String(data.lesson) : isDump ? String(number) : "";
  setText(text, Number(data.state) || 0, Number(data.rewrite) || 0);
  return true;
}

byId("link").addEventListener("click", async () => {
  await navigator.clipboard.writeText(location.href);
  byId("link").textContent = "Copied";
  setTimeout(() => { byId("link").textContent = "Copy link"; }, 1500);
});

// ---- keys

const isTyping = () => /^(TEXTAREA|SELECT|INPUT)$/.test(document.activeElement.tagName)
  && document.activeElement.type !== "range" && document.activeElement.type !== "radio";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping() || !steps.walk) return;
  const actions = { "[": () => steps.move(-1), "]": () => steps.move(1), k: () => steps.move(-1), j: () => steps.move(1),
    K: () => steps.moveRewrite(-1), J: () => steps.moveRewrite(1) };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});

// ---- start

async function start() {
  makeTabs();
  makeLevels();
  showPipeline();
  try {
    const start = await fetched("api/start");
    learn(start.highlighting);
    programs = start.programs;
    listPrograms();
    if (!(await openLink())) await open(0);
  } catch (fault) {
    fail(fault);
  }
}
addEventListener("hashchange", openLink);
start();
