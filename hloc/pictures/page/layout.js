"use strict";
// The page of `hloc graph`, in three files that are joined to one script: this one reads the data and
// computes sizes and positions, as hloc/pictures/places.py does; drawing.js draws, controls.js handles
// mouse and keys. Rows and order of the boxes come with the data. Texts of the module enter the page
// as text only, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const SORTS = ["instruction", "computation", "scope", "repeat", "part"];
const MOST_SVG = 3000, SWEEPS = 8, MANY = 2000;
const GAP = 22, ROW_GAP = 34, HEAD = 26, PAD = 14, BEND = 8, BEND_GAP = 6, LEAST = 0.002;
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
  const gap = (i, j) => (Math.min(i, j) < n ? GAP : BEND_GAP);
  for (const chain of chains)
    for (let i = 1; i < chain.length; i++)
      if (rowOf[chain[i]] - rowOf[chain[i - 1]] === 1 && !below[chain[i - 1]].includes(chain[i])) {
        above[chain[i]].push(chain[i - 1]);
        below[chain[i - 1]].push(chain[i]);
      }
  const x = new Array(total).fill(0);
  for (const row of rows) setRow(row, row.map(() => 0), row.map(() => 1), w, gap, x);
  const back = [...rows].reverse();
  for (let sweep = 0; sweep < (total <= MANY ? SWEEPS : 4); sweep++) {
    const [beside, order] = sweep % 2 ? [below, back] : [above, rows];
    for (const row of order) {
      const ideal = row.map((i) => (beside[i].length ? median(beside[i].map((j) => x[j])) : x[i]));
      setRow(row, ideal, row.map((i) => (i >= n ? 4 : beside[i].length ? 1 : 0.1)), w, gap, x);
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
function setRow(row, ideal, weight, w, gap, x) {
  const pools = [], offsets = [];
  let offset = 0;
  row.forEach((item, i) => {
    if (i) offset += (w(row[i - 1]) + w(item)) / 2 + gap(row[i - 1], item);
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
