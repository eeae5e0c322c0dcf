// The widget of notebooks: a slider over the states that passes made, and the diff of the chosen one.
import { drawDiff } from "./diff.js";
import { counted, make, number } from "./dom.js";
import { learn } from "./highlight.js";
import { drawTold } from "./told.js";

// Return whether the notebook is dark: JupyterLab and VS Code say so, else the system does.
function isDark() {
  const { classList, dataset } = document.body;
  if (dataset.jpThemeLight) return dataset.jpThemeLight === "false";
  if (dataset.vscodeThemeKind) return dataset.vscodeThemeKind.endsWith("dark");
  return classList.contains("dark") || matchMedia("(prefers-color-scheme: dark)").matches;
}

function render({ model, el }) {
  learn(model.get("highlighting"));
  const root = make("div", "hloc-passes", undefined, el), bar = make("div", "slider", undefined, root);
  root.dataset.theme = isDark() ? "dark" : "light";
  const back = make("button", "", "‹", bar), range = make("input", "", undefined, bar), on = make("button", "", "›", bar);
  const head = make("div", "head", undefined, root);
  const told = make("div", "told", undefined, root), view = make("div", "view", undefined, root);
  const steps = model.get("steps"), last = steps.length - 1;
  Object.assign(range, { type: "range", min: 0, max: last, title: "states that passes made" });

  function go(state) {
    model.set("state", Math.max(0, Math.min(last, state)));
    model.save_changes();
  }

  function draw() {
    const answer = model.get("answer"), state = answer.state, step = steps[state];
    range.value = state;
    back.disabled = state === 0;
    on.disabled = state === last;
    head.replaceChildren();
    make("b", "", `${state}/${last}  ${step.pass}`, head);
    make("span", "quiet", answer.effect, head);
    const [before, after] = answer.instructions;
    make("span", "quiet", `${answer.summary}   ${number(before)} → ${counted(after, "instruction")}`, head);
    told.replaceChildren();
    view.replaceChildren();
    if (state === 0) return void make("p", "", "The module as it was given.", told);
    drawTold(told, answer, step);
    drawDiff(view, answer, `${step.pass.split("{")[0]}/`, () => {});
  }

  range.addEventListener("input", () => go(Number(range.value)));
  back.addEventListener("click", () => go(model.get("state") - 1));
  on.addEventListener("click", () => go(model.get("state") + 1));
  model.on("change:answer", draw);
  draw();
  return () => model.off("change:answer", draw);
}

export default { render };
