// Moving, selecting, searching and the panel of the page; mouse and keys.

// ---- moving

function fit(all = true) {
  const w = paper.clientWidth, h = paper.clientHeight;
  const k = Math.min((w - 24) / tree.w, (h - 24) / tree.h, 1);
  view.k = all ? Math.max(k, LEAST) : Math.min(1, Math.max(k, Math.min(0.8, (w - 24) / tree.w), 0.6));
  view.x = (w - tree.w * view.k) / 2;
  if (!all && tree.w * view.k > w && tree.nodes.length) {
    const first = tree.nodes.filter((node) => tree.rowOf[node.index] === 0);
    const mean = first.reduce((sum, node) => sum + node.x + node.w / 2, 0) / first.length;
    view.x = w / 2 - mean * view.k;
  }
  view.y = Math.max(12, (h - tree.h * view.k) / 2);
  if (!all && tree.h * view.k > h) view.y = 8;
  surface.move();
}
function zoom(factor, x = paper.clientWidth / 2, y = paper.clientHeight / 2) {
  const k = Math.min(4, Math.max(LEAST, view.k * factor));
  view.x = x - (x - view.x) * (k / view.k);
  view.y = y - (y - view.y) * (k / view.k);
  view.k = k;
  move();
}
function centre(node) {
  view.k = Math.max(view.k, 0.6);
  view.x = paper.clientWidth / 2 - (node.x + node.w / 2) * view.k;
  view.y = paper.clientHeight / 2 - (node.y + Math.min(node.h / 2, 120)) * view.k;
  surface.move();
}

// ---- choosing, opening, finding

function choose(node) {
  chosen = node;
  inspect(node && node.box);
  surface.draw();
  tell(node && node.box);
}
function toggle(node) {
  if (!node || !node.parent || !canOpen(node.box)) return;
  const x = node.x * view.k + view.x, y = node.y * view.k + view.y;
  if (node.nodes.length) node.nodes = []; else open(node);
  chosen = node;
  layout();
  view.x = x - node.x * view.k;
  view.y = y - node.y * view.k;
  surface.move();
  inspect(node.box);
}
function reveal(box) {
  const way = [];
  for (let at = box; at && at.number !== data.root; at = at.parent || at.owner)
    if (at.parent || !at.owner || at.owner.bodies.length > 1) way.push(at.number);
  let node = tree, grown = false;
  for (const number of way.reverse()) {
    if (!node.nodes.length) { open(node); grown = true; }
    node = node.nodes.find((inside) => inside.box.number === number) || node;
  }
  if (grown) layout();
  choose(node);
  centre(node);
}
function search(words) {
  query = words.trim().toLowerCase();
  hits = query ? boxes.filter((box) => (box.title + "\n" + box.line + "\n" + box.name + "\n" + box.scope)
    .toLowerCase().includes(query)) : [];
  hitSet = new Set();
  for (const hit of hits)
    for (let at = hit; at && !hitSet.has(at.number); at = at.parent || at.owner) hitSet.add(at.number);
  $("hits").textContent = query ? `${hits.length.toLocaleString("en")} found` : "";
  hits.at = -1;
  surface.draw();
}
function nextHit(step) {
  if (!hits.length) return;
  hits.at = (hits.at + step + hits.length) % hits.length;
  reveal(hits[hits.at]);
  $("hits").textContent = `${hits.at + 1} of ${hits.length.toLocaleString("en")}`;
}
function openLevel() {
  for (const node of nodes) if (!node.nodes.length && canOpen(node.box)) open(node);
  layout();
}

// ---- the panel

function add(parent, name, words, className) {
  const element = document.createElement(name);
  if (words !== undefined) element.textContent = words;
  if (className) element.className = className;
  parent.append(element);
  return element;
}
function inspect(box) {
  const side = $("side");
  side.replaceChildren();
  if (!box) return;
  add(side, "h2", lines(box)[0]);
  if (box.line) add(side, "pre", box.line);
  const list = add(side, "dl"), number = (n) => n.toLocaleString("en");
  const rows = [["instructions", box.count > 1 ? number(box.count) : ""], ["operations", number(box.flops)],
    ["bytes", number(box.bytes)], ["scope", box.scope], ["Python", box.origin],
    [box.status, box.was || (box.status && "by the later module")], ["part", box.hidden]];
  for (const [name, value] of rows) if (value) { add(list, "dt", name); add(list, "dd", value); }
  if (canOpen(box)) {
    const opened = chosen && chosen.nodes.length;
    add(side, "button", opened ? "Close ( o )" : "Open ( o )").addEventListener("click", () => toggle(chosen));
  }
  links(side, "Operands", operands.get(box.number));
  links(side, "Users", users.get(box.number));
  if (box.sort !== "instruction") {
    const opcodes = new Map(), stack = [box];
    while (stack.length) {
      const at = stack.pop();
      if (at.sort === "instruction") opcodes.set(at.title.split(/[ (]/)[0], (opcodes.get(at.title.split(/[ (]/)[0]) || 0) + 1);
      for (const child of at.children) stack.push(boxes[child]);
    }
    add(side, "h3", "Opcodes");
    const most = [...opcodes].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 14);
    const table = add(side, "dl");
    for (const [opcode, count] of most) { add(table, "dt", number(count)); add(table, "dd", opcode); }
  }
}
function links(side, title, list) {
  if (!list) return;
  add(side, "h3", title);
  for (const number of [...new Set(list)].slice(0, 30))
    add(side, "button", `${boxes[number].name}  ${boxes[number].title}`, "link")
      .addEventListener("click", () => reveal(boxes[number]));
  if (list.length > 30) add(side, "p", `and ${list.length - 30} more`);
}

// ---- in a frame: the page around it names instructions, and hears which one is chosen

const NAME = /^(?:ROOT )?(\S+) = /, framed = parent !== window;
let telling = framed;
function tell(box) {
  const name = box && NAME.exec(box.line);
  if (telling && name) parent.postMessage({ chosen: name[1], removed: box.status === "removed" }, "*");
}
function show(name, removed) {
  const holds = (box) => (NAME.exec(box.line) || [])[1] === name;
  const uses = (box) => box.line.split(/[^\w.\-]+/).includes(name);
  const box = boxes.find((b) => holds(b) && (b.status === "removed") === removed)
    || boxes.find(holds) || boxes.find(uses);
  telling = false;
  if (box) reveal(box);
  telling = true;
  parent.postMessage({ shown: name, inside: box && NAME.exec(box.line)[1] }, "*");
}
if (framed) {
  document.body.classList.add("framed");
  addEventListener("message", (event) => {
    if (event.source === parent && event.data && event.data.show !== undefined)
      show(String(event.data.show), Boolean(event.data.removed));
  });
}

// ---- mouse and keys

function nodeAt(event) {
  const area = paper.getBoundingClientRect();
  const x = (event.clientX - area.left - view.x) / view.k, y = (event.clientY - area.top - view.y) / view.k;
  let found = null;  // inner boxes come later
  for (const n of nodes) if (x >= n.x && x <= n.x + n.w && y >= n.y && y <= n.y + n.h) found = n;
  return { node: found, x, y };
}
let drag = null, click = { time: -1e9, x: 0, y: 0 };  // the browser's dblclick is lost when we redraw
paper.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, far: false };
});
paper.addEventListener("pointermove", (event) => {
  if (drag && !event.buttons) drag = null;  // let go outside of the window
  if (!drag) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (!drag.far && Math.hypot(dx, dy) < 4) return;
  if (!drag.far) paper.setPointerCapture(event.pointerId);
  Object.assign(drag, { far: true, x: event.clientX, y: event.clientY });
  paper.classList.add("drag");
  view.x += dx;
  view.y += dy;
  move();
});
paper.addEventListener("pointerup", (event) => {
  paper.classList.remove("drag");
  const clicked = drag && !drag.far;
  drag = null;
  if (!clicked) return;
  const at = nodeAt(event), before = click;
  click = { time: event.timeStamp, x: event.clientX, y: event.clientY };
  const twice = click.time - before.time < 400 && Math.hypot(click.x - before.x, click.y - before.y) < 6;
  if (twice) click.time = -1e9;  // a third click is the first of the next two
  if (twice || onSign(at)) toggle(at.node); else choose(at.node);
});
function onSign({ node, x, y }) {
  if (!node || !canOpen(node.box)) return false;
  if (node.nodes.length) return x < node.x + 24 && y < node.y + HEAD;
  return x > node.x + node.w - 18 && y < node.y + 18;
}
paper.addEventListener("wheel", (event) => {
  event.preventDefault();
  const area = paper.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - area.left, event.clientY - area.top);
}, { passive: false });

const KEYS = {
  "/": () => $("search").focus(), f: () => fit(), "+": () => zoom(1.25), "=": () => zoom(1.25),
  "-": () => zoom(0.8), o: () => toggle(chosen), Enter: () => toggle(chosen), e: openLevel,
  c: reset, n: () => nextHit(1), N: () => nextHit(-1), Escape: () => choose(null),
  j: () => step(1), k: () => step(-1),
  ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
};
function pan(dx, dy) { view.x += dx; view.y += dy; move(); }
function step(by) {
  if (!nodes.length) return;
  const at = nodes.indexOf(chosen);
  const next = nodes[(at + by + nodes.length) % nodes.length];
  choose(next);
  centre(next);
}
function reset() { chosen = null; tree = startTree(); layout(); fit(false); inspect(null); }
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|BUTTON)$/.test(event.target.tagName)) return;
  if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
});
$("search").addEventListener("input", () => search($("search").value));
$("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") { $("search").value = ""; search(""); paper.focus(); }
});
for (const id of ["overlay", "palette"]) $(id).addEventListener("change", draw);
const BUTTONS = { in: () => zoom(1.25), out: () => zoom(0.8), fit: () => fit(), more: openLevel, reset };
for (const id in BUTTONS) $(id).addEventListener("click", BUTTONS[id]);
dark.addEventListener("change", draw);
addEventListener("resize", () => surface.move());

$("title").textContent = data.title;
$("title").title = data.title;
if (data.changed) $("overlay").value = "changed";
reset();
document.body.dataset.ready = Math.round(performance.now());
