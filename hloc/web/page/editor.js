// The editor: a textarea over coloured lines, of which those in view are drawn, and the errors.
import { make, settled } from "./dom.js";
import { lines } from "./highlight.js";

const ROW = 20, BEYOND = 30, WHOLE = 200_000;  // pixels, lines, letters coloured as one text

export class Editor {
  constructor(root, changed) {
    this.root = root;
    this.faults = [];
    this.sheet = make("div", "sheet", undefined, root);
    this.numbers = make("div", "numbers", undefined, this.sheet);
    this.paper = make("div", "paper", undefined, this.sheet);
    this.lines = make("pre", "", undefined, this.paper);
    this.lines.setAttribute("aria-hidden", "true");
    this.input = make("textarea", "", undefined, this.paper);
    for (const [name, value] of Object.entries({ spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      wrap: "off", "aria-label": "HLO text" })) this.input.setAttribute(name, value);
    this.extras = make("div", "", undefined, this.paper);
    this.input.addEventListener("input", () => { this.measure(); this.draw(); changed(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("selectionchange", settled(60, () => this.drawFaults()));
    root.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(root);
  }

  get text() { return this.input.value; }

  set text(text) {
    this.input.value = text;
    this.faults = [];
    this.measure();
    this.root.scrollTo(0, 0);
    this.input.setSelectionRange(0, 0);
    this.draw();
  }

  measure() {
    this.rows = this.text.split("\n");
    this.coloured = null;
    const longest = this.rows.reduce((most, row) => Math.max(most, row.length), 0);
    this.paper.style.width = `${longest + 4}ch`;
    this.sheet.style.height = `${this.rows.length * ROW + 12}px`;
    this.numbers.style.height = this.paper.style.height = `${this.rows.length * ROW}px`;
  }

  key(event) {
    if (event.key !== "Tab" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    event.preventDefault();
    document.execCommand("insertText", false, "  ");  // keeps the undo of the browser
  }

  // Return the coloured lines from `first` to `last`; a large text is coloured from there on only.
  colour(first, last) {
    if (this.text.length > WHOLE) return lines(this.rows.slice(first, last).join("\n"));
    this.coloured ||= lines(this.text);
    return this.coloured.slice(first, last);
  }

  draw() {
    if (!this.rows) return;
    const first = Math.max(0, Math.floor(this.root.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, first + Math.ceil(this.root.clientHeight / ROW) + 2 * BEYOND);
    this.lines.replaceChildren();
    this.lines.style.top = `${first * ROW}px`;
    for (const pieces of this.colour(first, last)) {
      const row = make("div", "", undefined, this.lines);
      for (const [kind, piece] of pieces) make("span", kind === "blank" ? "" : `k-${kind}`, piece, row);
    }
    this.numbers.replaceChildren();
    const bad = new Set(this.faults.map((fault) => fault.line));
    for (let i = first; i < last; i++) {
      const label = make("div", bad.has(i + 1) ? "bad" : "", String(i + 1), this.numbers);
      label.style.top = `${i * ROW}px`;
    }
    this.drawFaults();
  }

  // Show errors: a wave under the place, the words beside it; of the one at the cursor, or the
  // first, the words stand under the line with a caret.
  drawFaults() {
    this.extras.replaceChildren();
    const placed = this.faults.filter((fault) => fault.line && fault.line <= this.rows.length);
    if (!placed.length) return;
    const cursor = this.text.slice(0, this.input.selectionStart).split("\n").length;
    const near = placed.find((fault) => fault.line === cursor) || placed[0];
    const beside = new Set();
    for (const fault of placed) {
      const row = this.rows[fault.line - 1], length = Math.max(1, Math.min(fault.length, row.length - fault.column + 1));
      const wave = make("div", "wave", undefined, this.extras);
      place(wave, fault.line - 1, fault.column - 1);
      wave.style.width = `${length}ch`;
      if (fault === near) this.putUnder(fault, length);
      else if (fault.line !== near.line && !beside.has(fault.line)) {
        beside.add(fault.line);
        place(make("div", "beside", said(fault), this.extras), fault.line - 1, row.length);
      }
    }
  }

  putUnder(fault, length) {
    const card = make("div", "under", undefined, this.extras);
    make("b", "", " ".repeat(fault.column - 1) + "^".repeat(length), card);
    make("span", "", said(fault), card);
    for (const note of fault.notes) make("span", "note", `note: ${note}`, card);
    place(card, fault.line, 0);
    card.style.width = `${this.root.clientWidth - this.numbers.offsetWidth - 10}px`;
  }

  show(faults) {
    this.faults = faults;
    this.draw();
  }

  go(line, column) {
    const at = this.rows.slice(0, line - 1).reduce((sum, row) => sum + row.length + 1, 0) + column - 1;
    this.input.focus();
    this.input.setSelectionRange(at, at);
    this.root.scrollTop = Math.max(0, (line - 6) * ROW);
    this.drawFaults();
  }
}

const said = (fault) => [fault.code, fault.message].filter(Boolean).join(" ");

function place(element, line, column) {
  element.style.top = `${line * ROW}px`;
  element.style.left = `${column}ch`;
}
