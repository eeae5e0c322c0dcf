// The list of passes, the slider over the states that they made, and their single rewrites.
import { byId, counted, make } from "./dom.js";

export class Steps {
  // `choose` is called with a state and a rewrite of the pass that made it, 0 for all of them.
  constructor(choose) {
    this.choose = choose;
    this.walk = null;
    this.at = { state: 0, rewrite: 0 };
    this.rewrites = null;
    byId("range").addEventListener("input", () => choose(Number(byId("range").value), 0));
    byId("back").addEventListener("click", () => this.move(-1));
    byId("on").addEventListener("click", () => this.move(1));
    byId("idle").addEventListener("change", () => this.draw());
  }

  get last() { return this.walk ? Math.max(0, ...this.walk.passes.map((p) => p.state || 0)) : 0; }

  // A walk that has failed is done as well: nothing more comes.
  get isDone() { return !this.walk || this.walk.done; }

  passOf(state) { return this.walk && this.walk.passes.find((p) => p.state === state); }

  move(by) {
    const state = Math.min(this.last, Math.max(0, this.at.state + by));
    if (state !== this.at.state || this.at.rewrite) this.choose(state, 0);
  }

  moveRewrite(by) {
    const pass = this.passOf(this.at.state);
    if (!pass) return;
    const from = this.at.rewrite || (by < 0 ? pass.rewrites + 1 : 0);
    const rewrite = Math.min(pass.rewrites, Math.max(1, from + by));
    if (rewrite !== this.at.rewrite) this.choose(this.at.state, rewrite);
  }

  show(walk, at, rewrites) {
    Object.assign(this, { walk, at, rewrites });
    this.draw();
  }

  // Add the passes that have run since.
  extend({ passes, ...rest }) {
    this.walk = { ...rest, passes: [...this.walk.passes, ...passes] };
    this.draw(false);
  }

  // Nothing comes any more; `words` say why. The states that are there stay.
  end(words) {
    this.extend({ ...this.walk, passes: [], notes: [...this.walk.notes, words], done: true });
  }

  clear(words) {
    this.walk = null;
    byId("steps").replaceChildren();
    make("p", "", words, byId("steps"));
    byId("count").textContent = "";
  }

  draw(follows = true) {
    const list = byId("steps"), top = list.scrollTop;
    if (!this.walk) return;
    list.replaceChildren();
    this.button(list, 0, "input", this.walk.first.effect, counted(this.walk.first.instructions, "instruction"));
    for (const pass of this.walk.passes) {
      if (pass.state !== null) this.drawPass(list, pass);
      else if (byId("idle").checked) {
        const row = make("button", "idle", undefined, list);
        row.disabled = true;
        make("span", "number", "", row);
        make("span", "name", pass.pass, row);
      }
    }
    for (const note of this.walk.notes) make("p", "", note, list);
    if (!this.walk.done) make("p", "", "More passes are running …", list);
    const made = this.walk.passes.filter((p) => p.state !== null).length;
    byId("count").textContent = `${made} of ${counted(this.walk.passes.length, "run")}`;
    byId("count").title = "passes that changed the module, of all that ran";
    const range = byId("range");
    range.max = this.last;
    range.value = this.at.state;
    byId("back").disabled = this.at.state === 0;
    byId("on").disabled = this.at.state === this.last;
    list.scrollTop = top;
    const here = list.querySelector("[aria-current]");
    if (here && follows) here.scrollIntoView({ block: "nearest" });
  }

  drawPass(list, pass) {
    const told = [pass.rewrites ? counted(pass.rewrites, "rewrite") : "", pass.summary].filter(Boolean).join(", ");
    this.button(list, pass.state, pass.pass, pass.effect, pass.faults ? "invalid module" : told);
    if (pass.state !== this.at.state || !this.rewrites) return;
    const own = `${pass.pass.split("{")[0]}/`;
    this.rewrites.rewrites.forEach(({ by, at }, index) => {
      const row = make("button", "rewrite", undefined, list);
      row.dataset.rewrite = index + 1;
      if (this.at.rewrite === index + 1) row.setAttribute("aria-current", "step");
      make("span", "number", `+${index + 1}`, row);
      make("span", "name", by.startsWith(own) ? by.slice(own.length) : by, row);
      make("small", "", at, row);
      row.addEventListener("click", () => this.choose(pass.state, index + 1));
    });
    const left = this.rewrites.total - this.rewrites.rewrites.length;
    if (left > 0) make("p", "", `${counted(left, "more rewrite")}`, list);
  }

  button(list, state, name, effect, told) {
    const button = make("button", "", undefined, list);
    button.dataset.state = state;
    if (state === this.at.state && !this.at.rewrite) button.setAttribute("aria-current", "step");
    make("span", "number", String(state), button);
    make("span", "name", name, button);
    if (state === 0 || effect.includes("→")) make("small", "what", effect, button);
    make("small", "what", told, button);
    button.addEventListener("click", () => this.choose(state, 0));
  }
}
