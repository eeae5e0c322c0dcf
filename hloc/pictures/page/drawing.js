// State, colours and drawing of the page: SVG, or a canvas where there are many boxes.

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
    items.splice(0, items.length, [`darker = more (max ${mostOf().toLocaleString("en")} ` +
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
