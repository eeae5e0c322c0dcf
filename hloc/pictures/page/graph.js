"use strict";
// The page of `hloc graph`. Rows and order of the boxes come with the data; this script finds sizes
// and places (as hloc/pictures/places.py does), draws, and answers to mouse and keys. Texts of the
// module enter the page as text only, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const SORTS = ["instruction", "computation", "scope", "repeat", "part"];
const MOST_SVG = 3000, SWEEPS = 8, MANY = 2000;
const GAP = 22, ROW_GAP = 34, HEAD = 26, PAD = 14, BEND = 8, LEAST = 0.002;
const $ = (id) => document.getElementById(id);

const text = (i) => data.strings[i || 0];
const boxes = data.boxes.map((row, number) => {
  const [sort, title, name, shape, kind, count, repeats, flops, bytes, status, was, hidden, line,
    scope, origin, children, bodies, rows, chains] = row;
  return { number, sort: SORTS[sort], title: text(title), name: text(name), shape: text(shape),
    kind: data.kinds[kind || 0], count: count || 1, repeats: repeats || 0, flops: flops || 0,
    bytes: bytes || 0, status: text(status), was: text(was), hidden: text(hidden),
    line: text(line), scope: text(scope), origin: text(origin), children: children || [],
    bodies: bodies || [], rows: rows || [], chains: chains || [], parent: null, owner: null };
});
for (const box of boxes) {
  for (const child of box.children) boxes[child].parent = box;
  for (const body of box.bodies) boxes[body].owner ??= box;
}
const operands = new Map(), users = new Map();
for (const [root, list] of data.edges)
  for (let i = 0; i < list.length; i += 3) {
    push(operands, list[i + 1], list[i]);
    push(users, list[i], list[i + 1]);
  }
const edgesOf = new Map(data.edges);
function push(map, key, value) { map.has(key) ? map.get(key).push(value) : map.set(key, [value]); }

// ---- what is open

function content(box) {
  const inside = box.children.length ? box : box.bodies.length === 1 ? boxes[box.bodies[0]] : null;
  if (inside) return { list: inside.children, rows: inside.rows, chains: inside.chains };
  return { list: box.bodies, rows: [box.bodies.map((_, i) => i)], chains: [] };
}
const canOpen = (box) => box.children.length + box.bodies.length > 0;

function makeNode(number, parent, index) {
  const key = parent ? parent.key + "." + number : String(number);
  return { box: boxes[number], parent, index, key, nodes: [], x: 0, y: 0, w: 0, h: 0 };
}
function open(node) {
  if (!node.nodes.length) node.nodes = content(node.box).list.map((n, i) => makeNode(n, node, i));
}
function startTree() {
  const top = makeNode(data.root, null, 0), wanted = new Set(data.open), stack = [top];
  while (stack.length) {
    const node = stack.pop();
    if (!node.parent || wanted.has(node.key)) { open(node); stack.push(...node.nodes); }
  }
  return top;
}
function* walk(top) {
  const stack = [top];
  while (stack.length) {
    const node = stack.pop();
    yield node;
    for (let i = node.nodes.length - 1; i >= 0; i--) stack.push(node.nodes[i]);
  }
}

// ---- sizes and places

function lines(box) {
  const count = box.count.toLocaleString("en") + (box.count === 1 ? " instruction" : " instructions");
  if (box.sort === "instruction") return [box.title, box.shape + "  " + box.name + (box.hidden ? " …" : "")];
  return [box.repeats ? box.title + " ×" + box.repeats : box.title, count];
}
function size(node) {
  const [title, small] = lines(node.box);
  if (!node.nodes.length) {
    node.w = Math.max(56, title.length * 7.3 + (canOpen(node.box) ? 40 : 18), small.length * 6.65 + 18);
    node.h = 40;
    return;
  }
  const { rows, chains } = content(node.box), n = node.nodes.length;
  const widths = node.nodes.map((inside) => inside.w);
  node.rowOf = [];
  rows.forEach((row, r) => row.forEach((i) => { node.rowOf[i] = r; }));
  node.chainOf = new Map(chains.map((c) => [c[0] + "," + c[c.length - 1], c]));
  node.mid = places(rows, chains, widths, node.rowOf).map((x) => x + PAD);
  node.bands = [];
  let top = PAD + (node.parent ? HEAD : 0);
  for (const row of rows) {
    let height = 0;
    for (const i of row) if (i < n) height = Math.max(height, node.nodes[i].h);
    for (const i of row) if (i < n) {
      const inside = node.nodes[i];
      inside.x = node.mid[i] - inside.w / 2;
      inside.y = top + (height - inside.h) / 2;
    }
    node.bands.push([top, top + height]);
    top += height + ROW_GAP;
  }
  const right = node.nodes.reduce((most, inside) => Math.max(most, inside.x + inside.w), 0);
  node.w = Math.max(right + PAD, title.length * 7.3 + 58);
  node.h = top - ROW_GAP + PAD;
}
function places(rows, chains, widths, rowOf) {
  const total = rowOf.length, n = widths.length;
  const w = (i) => (i < n ? widths[i] : BEND);
  const above = Array.from({ length: total }, () => []), below = above.map(() => []);
  for (const chain of chains)
    for (let i = 1; i < chain.length; i++)
      if (rowOf[chain[i]] - rowOf[chain[i - 1]] === 1) {
        above[chain[i]].push(chain[i - 1]);
        below[chain[i - 1]].push(chain[i]);
      }
  const x = new Array(total).fill(0);
  for (const row of rows) setRow(row, row.map(() => 0), row.map(() => 1), w, x);
  const back = [...rows].reverse();
  for (let sweep = 0; sweep < (total <= MANY ? SWEEPS : 4); sweep++) {
    const [beside, order] = sweep % 2 ? [below, back] : [above, rows];
    for (const row of order) {
      const ideal = row.map((i) => (beside[i].length ? median(beside[i].map((j) => x[j])) : x[i]));
      setRow(row, ideal, row.map((i) => (i >= n ? 4 : beside[i].length ? 1 : 0.1)), w, x);
    }
  }
  let left = Infinity;
  for (let i = 0; i < total; i++) left = Math.min(left, x[i] - w(i) / 2);
  return x.map((value) => value - left);
}
function median(values) {
  values.sort((a, b) => a - b);
  const m = values.length >> 1;
  return values.length % 2 ? values[m] : (values[m - 1] + values[m]) / 2;
}
function setRow(row, ideal, weight, w, x) {
  const pools = [], offsets = [];
  let offset = 0;
  row.forEach((item, i) => {
    if (i) offset += (w(row[i - 1]) + w(item)) / 2 + GAP;
    offsets.push(offset);
    pools.push([ideal[i] - offset, weight[i], 1]);
    while (pools.length > 1 && pools[pools.length - 2][0] > pools[pools.length - 1][0]) {
      const [mean, load, count] = pools.pop(), last = pools[pools.length - 1];
      last[0] = (last[0] * last[1] + mean * load) / (last[1] + load);
      last[1] += load;
      last[2] += count;
    }
  });
  let i = 0;
  for (const [mean, , count] of pools)
    for (let k = 0; k < count; k++, i++) x[row[i]] = mean + offsets[i];
}

// ---- edges

function edgeWays() {
  const found = [];
  for (const node of walk(tree)) {
    if (!node.nodes.length) continue;
    const root = node.box.sort === "computation" ? node.box
      : node.box.bodies.length === 1 ? boxes[node.box.bodies[0]] : null;
    if (root && edgesOf.has(root.number)) waysIn(node, edgesOf.get(root.number), found);
  }
  return found;
}
function waysIn(home, list, found) {
  const seen = new Map(), stack = [...home.nodes];
  while (stack.length) {
    const node = stack.pop();
    seen.set(node.box.number, node);
    if (node.box.children.length) stack.push(...node.nodes);
  }
  const visible = (number) => {
    let box = boxes[number];
    while (!seen.has(box.number)) box = box.parent;
    return seen.get(box.number);
  };
  const incoming = new Map(), done = new Set();
  for (let i = 0; i < list.length; i += 3) {
    const a = visible(list[i]), b = visible(list[i + 1]), id = a.key + ">" + b.key;
    if (a === b || done.has(id)) continue;
    done.add(id);
    push(incoming, b, [a, list[i + 2]]);
  }
  for (const [b, sources] of incoming) {
    sources.sort((p, q) => p[0].x + p[0].w / 2 - q[0].x - q[0].w / 2);
    const step = Math.min(14, (b.w * 0.7) / sources.length);
    sources.forEach(([a, flags], i) => {
      const port = b.x + b.w / 2 + (i - (sources.length - 1) / 2) * step;
      found.push({ a, b, flags, ...way(a, b, home, port) });
    });
  }
}
function way(source, target, home, port) {
  const above = new Map();
  for (let node = source; node && node !== home; node = node.parent) above.set(node.parent, node);
  let b = target;
  while (!above.has(b.parent)) b = b.parent;
  const a = above.get(b.parent), parent = b.parent, row = parent.rowOf;
  let x = source.x + source.w / 2, y = source.y + source.h;
  const f = (v) => v.toFixed(1);
  let path = `M${f(x)} ${f(y)}`;
  if (row[a.index] >= row[b.index])
    return { long: true, path: path + `C${f(x)} ${f(y + 60)} ${f(port)} ${f(target.y - 60)} ${f(port)} ${f(target.y)}` };
  const chain = parent.chainOf.get(a.index + "," + b.index);
  const down = (to) => { if (to - y > 0.1) path += `V${f(to)}`; y = to; };
  const across = (toX, toY) => {
    const half = (y + toY) / 2;
    path += Math.abs(x - toX) < 0.5 ? `V${f(toY)}` : `C${f(x)} ${f(half)} ${f(toX)} ${f(half)} ${f(toX)} ${f(toY)}`;
    x = toX; y = toY;
  };
  down(parent.bands[row[a.index]][1]);
  for (const bend of chain.slice(1, -1)) {
    across(parent.mid[bend], parent.bands[row[bend]][0]);
    down(parent.bands[row[bend]][1]);
  }
  across(port, parent.bands[row[b.index]][0]);
  down(target.y);
  return { path, long: row[b.index] - row[a.index] > chain.length - 1 };
}

// ---- state

let tree, nodes = [], ways = [], chosen = null, query = "", hits = [], hitSet = new Set();
const view = { x: 0, y: 0, k: 1 };
const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = $("paper");

function layout() {
  nodes = [...walk(tree)];
  for (let i = nodes.length - 1; i >= 0; i--) size(nodes[i]);
  tree.x = tree.y = 0;
  for (const node of nodes) {
    const up = node.parent;
    if (up) { node.x += up.x; node.y += up.y; }
    if (node.nodes.length) {
      node.bands = node.bands.map(([t, b]) => [t + node.y, b + node.y]);
      node.mid = node.mid.map((m) => m + node.x);
    }
  }
  ways = edgeWays();
  nodes = nodes.slice(1);
  document.body.dataset.boxes = nodes.filter((node) => !node.nodes.length).length;
  draw();
}

// ---- colours

const ui = () => dark.matches
  ? { paper: "#0d1117", ink: "#e6edf3", edge: "#8b98a5", hit: "#f2cc60", chosen: "#58a6ff" }
  : { paper: "#ffffff", ink: "#1b1f24", edge: "#6b7784", hit: "#bf8700", chosen: "#0969da" };
function palette() {
  if ($("palette").value === "colour-blind") return data.palettes["colour-blind"];
  return data.palettes[dark.matches ? "dark" : "xla"];
}
function colours(node, table, most) {
  const box = node.box, overlay = $("overlay").value;
  let [fill, border, ink] = table[box.kind], dim = 1, wide = 1;
  if (overlay === "bytes" || overlay === "flops") {
    const share = most > 0 ? Math.log1p(box[overlay]) / Math.log1p(most) : 0;
    const light = dark.matches ? 14 + 38 * share : 98 - 58 * share;
    fill = `hsl(213 ${Math.round(20 + 55 * share)}% ${Math.round(light)}%)`;
    border = table.plain[1];
    ink = light < 66 ? "#ffffff" : "#1b1f24";
  }
  if (overlay === "changed" && !box.status) dim = 0.35;
  if (data.status[box.status]) { border = data.status[box.status]; wide = 2.5; }
  if (hitSet.has(box.number)) { border = ui().hit; wide = 3; }
  if (node === chosen) { border = ui().chosen; wide = 3.5; }
  return { fill, border, ink, dim, wide, dash: box.status === "removed" ? "6 3" : "" };
}
function mostOf() {
  const overlay = $("overlay").value;
  return nodes.reduce((most, node) => (node.nodes.length ? most : Math.max(most, node.box[overlay] || 0)), 0);
}
const tint = (node) => node.box.kind === "group" || node.box.sort === "repeat";

// ---- drawing: SVG, or canvas where there are too many boxes

let surface = null, frame = 0;
function draw() {
  const kind = nodes.length > MOST_SVG ? "canvas" : "svg";
  if (!surface || surface.kind !== kind) {
    paper.replaceChildren();
    surface = kind === "svg" ? svgSurface() : canvasSurface();
  }
  surface.draw();
  legend();
}
function move() { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => surface.move()); }
const edgeStyle = (edge) => ({
  stroke: edge.flags & 2 ? data.status.removed : near(edge) ? ui().chosen : ui().edge,
  dash: edge.flags & 2 ? "5 3" : edge.flags & 1 ? "2 3" : "",
  width: near(edge) ? 2.2 : 1.1, opacity: near(edge) ? 1 : edge.long ? 0.3 : 0.85,
});
const near = (edge) => chosen && (edge.a === chosen || edge.b === chosen);

function svgSurface() {
  const make = (name, attributes, parent, words) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) if (attributes[key] !== "") element.setAttribute(key, attributes[key]);
    if (words !== undefined) element.textContent = words;
    parent.append(element);
    return element;
  };
  const svg = make("svg", {}, paper), defs = make("defs", {}, svg), world = make("g", {}, svg);
  const marker = make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7,
    markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" }, defs);
  const arrow = make("path", { d: "M0 0.8L7.5 4L0 7.2z" }, marker);
  const drawOne = (node, table, most) => {
    const c = colours(node, table, most), closed = !node.nodes.length, [title, small] = lines(node.box);
    const g = make("g", { class: "b", "data-key": node.key, opacity: c.dim }, world);
    const at = { x: node.x, y: node.y, width: node.w, height: node.h, rx: closed && node.box.kind !== "call" ? 4 : 9 };
    const paint = { fill: c.fill, stroke: c.border, "stroke-width": c.wide, "stroke-dasharray": c.dash };
    if (!closed) Object.assign(paint, { fill: table.group[0], "fill-opacity": 0.5, "stroke-dasharray": "4 3" });
    if (closed && tint(node)) make("rect", { ...at, x: node.x + 4, y: node.y + 4, ...paint, "stroke-width": 1 }, g);
    make("rect", { ...at, ...paint }, g);
    if (!closed) {
      make("text", { class: "t", x: node.x + 12, y: node.y + 18, fill: ui().ink }, g, "− " + title);
      return;
    }
    const x = node.x + node.w / 2;
    make("text", { class: "t", x, y: node.y + 17, "text-anchor": "middle", fill: c.ink }, g, title);
    make("text", { x, y: node.y + 32, "text-anchor": "middle", fill: c.ink, opacity: 0.7 }, g, small);
    if (canOpen(node.box))
      make("text", { class: "t", x: node.x + node.w - 11, y: node.y + 13, fill: c.ink }, g, "+");
  };
  const move = () => world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
  return { kind: "svg", move, draw() {
    world.replaceChildren();
    arrow.setAttribute("fill", ui().edge);
    const table = palette(), most = mostOf();
    for (const node of nodes) if (node.nodes.length) drawOne(node, table, most);
    for (const edge of ways) {
      const s = edgeStyle(edge);
      make("path", { d: edge.path, fill: "none", stroke: s.stroke, "stroke-width": s.width,
        "stroke-dasharray": s.dash, opacity: s.opacity, "marker-end": "url(#arrow)" }, world);
    }
    for (const node of nodes) if (!node.nodes.length) drawOne(node, table, most);
    move();
  } };
}

function canvasSurface() {
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  paper.append(canvas);
  const font = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
  const drawOne = (node, table, most) => {
    const c = colours(node, table, most), closed = !node.nodes.length;
    context.globalAlpha = closed ? c.dim : 0.5;
    context.fillStyle = closed ? c.fill : table.group[0];
    context.strokeStyle = c.border;
    context.lineWidth = c.wide;
    context.beginPath();
    context.roundRect(node.x, node.y, node.w, node.h, 4);
    context.fill();
    context.globalAlpha = c.dim;
    context.stroke();
    if (view.k < 0.3) return;
    const [title, small] = lines(node.box);
    context.fillStyle = closed ? c.ink : ui().ink;
    context.textAlign = closed ? "center" : "left";
    context.font = "600 12px " + font;
    if (!closed) return context.fillText("− " + title, node.x + 12, node.y + 18);
    context.fillText(title, node.x + node.w / 2, node.y + 17);
    context.font = "11px " + font;
    context.fillText(small, node.x + node.w / 2, node.y + 32);
    if (canOpen(node.box)) context.fillText("+", node.x + node.w - 8, node.y + 13);
  };
  const draw = () => {
    const ratio = devicePixelRatio || 1, table = palette(), most = mostOf();
    canvas.width = paper.clientWidth * ratio;
    canvas.height = paper.clientHeight * ratio;
    context.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    const left = -view.x / view.k, top = -view.y / view.k;
    const right = left + paper.clientWidth / view.k, bottom = top + paper.clientHeight / view.k;
    const inside = (n) => n.x < right && n.x + n.w > left && n.y < bottom && n.y + n.h > top;
    for (const node of nodes) if (node.nodes.length && inside(node)) drawOne(node, table, most);
    for (const edge of ways) {
      if (edge.a.y > bottom || edge.b.y + edge.b.h < top) continue;
      const s = edgeStyle(edge);
      context.strokeStyle = s.stroke;
      context.globalAlpha = s.opacity;
      context.lineWidth = Math.max(s.width, 0.5 / view.k);
      context.setLineDash(s.dash ? s.dash.split(" ").map(Number) : []);
      context.stroke((edge.shape ??= new Path2D(edge.path)));
    }
    context.setLineDash([]);
    for (const node of nodes) if (!node.nodes.length && inside(node)) drawOne(node, table, most);
    context.globalAlpha = 1;
  };
  return { kind: "canvas", draw, move: draw };
}

function legend() {
  const table = palette(), used = new Set(nodes.filter((n) => !n.nodes.length).map((n) => n.box.kind));
  const items = data.kinds.filter((kind) => used.has(kind)).map((kind) => [data.titles[kind], ...table[kind]]);
  const overlay = $("overlay").value;
  if (overlay === "bytes" || overlay === "flops")
    items.splice(0, items.length, [`dark is much: up to ${mostOf().toLocaleString("en")} ` +
      (overlay === "bytes" ? "bytes" : "operations"), "hsl(213 75% 42%)", table.plain[1]]);
  const marks = new Set(nodes.map((n) => n.box.status));
  for (const status in data.status)
    if (marks.has(status)) items.push([status, "transparent", data.status[status]]);
  $("legend").replaceChildren(...items.map(([words, fill, border]) => {
    const span = document.createElement("span"), swatch = document.createElement("i");
    swatch.style.background = fill;
    swatch.style.borderColor = border;
    span.append(swatch, words);
    return span;
  }));
}

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
    [box.status, box.was ? "was " + box.was : box.status && "by the later module"], ["part", box.hidden]];
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
