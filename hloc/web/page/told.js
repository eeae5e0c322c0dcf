// What made a state: what the pass says of itself, and the law of each rule that fired.
import { make, number } from "./dom.js";

export function drawTold(told, answer, pass) {
  told.replaceChildren();
  if (answer.about) make("p", "", answer.about.replaceAll("`", ""), told);
  for (const fault of answer.faults) make("p", "bad", `invalid: ${fault}`, told);
  const rules = answer.rules.filter((rule) => rule.by.includes("/") || rule.law);
  const list = make("ul", "", undefined, told);
  for (const rule of rules) {
    const row = make("li", "", undefined, list);
    const name = make("span", "rule", rule.by.split("/").at(-1) + (rule.count > 1 ? ` ×${number(rule.count)}` : ""), row);
    if (rule.place) name.title = rule.place;
    const law = make("div", "", undefined, row);
    make("code", "", rule.law || "", law);
    if (rule.proof) make("span", "proof", rule.proof, law);
  }
  if (!answer.about && !rules.length && !pass) make("p", "", "The module as it stands in the editor.", told);
}
