// Views that are drawings of the server: a graph, the memory of a state, the roofline of its kernels.
// Each is a page in a frame of its own, which may do nothing else.
import { ask } from "./ask.js";
import { checkbox, make } from "./dom.js";

export function frame(view, address, title, kind) {
  const drawing = make("iframe", kind, undefined, view);
  drawing.title = title;
  drawing.setAttribute("sandbox", "allow-scripts");
  drawing.style.colorScheme = document.documentElement.dataset.theme;
  drawing.src = address;
}

export async function showGraph(view, question) {
  const answer = await ask({ ...question, ask: "graph" });
  return () => frame(view, answer.frame, "Graph of the state, with what the pass changed", "whole");
}

export async function showMemory(view, question) {
  const answer = await ask({ ...question, ask: "memory" });
  return () => {
    frame(view, answer.frame, "Temporaries by time and offset", "chart low");
    make("pre", "", answer.text, view).tabIndex = 0;
  };
}

let measure = false;
export async function showRoofline(view, question, redraw) {
  const answer = await ask({ ...question, ask: "roofline", measure });
  return () => {
    const bar = make("div", "bar", undefined, view);
    checkbox(bar, "measure each kernel of the entry computation", measure, (on) => { measure = on; redraw(); });
    frame(view, answer.frame, "Operations per second of each kernel, and the peaks of this machine", "chart");
    make("pre", "", answer.text, view).tabIndex = 0;
  };
}
