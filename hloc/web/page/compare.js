// The view that compares a state with another program, by what instructions compute.
import { ask, fetched } from "./ask.js";
import { drawDiff } from "./diff.js";
import { byId, counted, make, number } from "./dom.js";

let other = "";  // number of the program, kept from state to state

export async function showCompare(view, question, redraw) {
  const { text } = other ? await fetched(`api/programs/${other}`) : { text: "" };
  const answer = other && await ask({ ...question, ask: "compare", other: text });
  return () => {
    const bar = make("div", "bar", undefined, view);
    const label = make("label", "", "with ", bar), select = make("select", "", undefined, label);
    make("option", "", "choose a program", select).value = "";
    for (const group of byId("programs").children) select.append(group.cloneNode(true));
    select.value = other;
    select.addEventListener("change", () => { other = select.value; redraw(); });
    if (!answer) return void make("p", "", "What is different in another program, whatever its names are.", view);
    const [before, after] = answer.instructions;
    make("span", "", `${answer.summary || "no difference"}   ${number(before)} → ${counted(after, "instruction")}`, bar);
    drawDiff(view, answer, "", () => {});
  };
}
