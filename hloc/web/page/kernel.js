// A kernel of the state as PTX, stepped in the interpreter: any thread, forward and back.
import { ask } from "./ask.js";
import { make, number } from "./dom.js";

const START = { launch: 0, block: 0, thread: 0, at: 0 };
let name = "", at = START;  // kept from state to state

function choice(parent, label, rows, value, changed) {
  const field = make("label", "", `${label} `, parent), select = make("select", "", undefined, field);
  for (const [key, words] of rows) make("option", "", words, select).value = key;
  select.value = value;
  select.addEventListener("change", () => changed(select.value));
}

function numbered(parent, label, key, last, changed) {
  const field = make("label", "", `${label} `, parent), input = make("input", "", undefined, field);
  Object.assign(input, { type: "number", min: 0, max: last[key], value: at[key] });
  input.addEventListener("change", () => {
    const value = Math.min(last[key], Math.max(0, Math.trunc(Number(input.value)) || 0));
    changed(key === "launch" ? { ...START, launch: value } : { ...at, [key]: value });
  });
}

async function seen(question, to) {
  const asked = () => ask({ ...question, ask: "kernel", name, ...at, to });
  try {
    return await asked();
  } catch (fault) {
    if (!name && at === START) throw fault;
    [name, at] = ["", START];  // another state has other kernels, and these take other steps
    return { ...await asked(), fault: fault.message };
  }
}

export async function showKernel(view, question, redraw, to = "") {
  const { text, registers, where, ptx, last, places, kernels, fault, ...answer } = await seen(question, to);
  at = answer.at;
  const go = async (place, then = "") => {
    at = place;
    const draw = await showKernel(view, question, redraw, then);
    view.replaceChildren();
    draw();
  };
  return () => {
    const bar = make("div", "bar", undefined, view);
    const step = (label, by, title) => {
      const button = make("button", "", label, bar);
      Object.assign(button, { title, disabled: by < 0 ? at.at === 0 : at.at === last.at });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", () => go({ ...at, at: at.at + by }));
    };
    step("‹", -1, "One instruction back");
    step("›", 1, "One instruction on");
    numbered(bar, `step of ${number(last.at)}`, "at", last, go);
    choice(bar, "go to", [["", ""], ...Object.entries(places)], "", (place) => place && go(at, place));
    numbered(bar, "thread", "thread", last, go);
    numbered(bar, "block", "block", last, go);
    if (last.launch) numbered(bar, "launch", "launch", last, go);
    choice(bar, "kernel of", [["", "the whole state"], ...kernels.map((kernel) => [kernel, kernel])], name,
      (kernel) => { name = kernel; go(START); });
    if (fault) make("div", "fault", fault, view);
    for (const part of [text, registers, where]) make("pre", "kernel", part, view).tabIndex = 0;
    const whole = make("details", "", undefined, view);
    make("summary", "", "PTX of all kernels", whole);
    make("pre", "kernel", ptx, whole).tabIndex = 0;
  };
}
