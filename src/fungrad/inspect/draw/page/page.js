"use strict";
// Draws a diagram: lays bodies out with dagre, from the inside out; folds, searches, zooms.
const data = JSON.parse(document.getElementById("data").textContent);
const FIELDS = data.fields, open = new Set(data.open), layouts = new Map();
const bodies = data.bodies.map(([nodes, edges]) => ({
  nodes: nodes.map(row => Object.fromEntries(FIELDS.map((key, i) => [key, row[i]]))),
  edges: edges.map(([source, target, value, type, bytes, cut, name]) =>
    ({ source, target, value, type, bytes, cut, name })),
}));
const SVG = "http://www.w3.org/2000/svg";
const view = document.getElementById("view"), tip = document.getElementById("tip");
const HEADER = 30, PAD = 14, MOST = 400;
let camera = { x: 0, y: 0, k: 1 }, scene, elements = new Map(), hits = [], at = -1, pinned = null;

const make = (tag, attributes, parent, text) => {
  const element = document.createElementNS(SVG, tag);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
};
const ruler = document.createElement("canvas").getContext("2d");
const FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const MONO = "ui-monospace, Menlo, 'DejaVu Sans Mono', monospace";
const width = (text, font) => { ruler.font = font; return ruler.measureText(text).width; };
const human = n => n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toPrecision(3)} kB`
  : n < 1e9 ? `${(n / 1e6).toPrecision(3)} MB` : `${(n / 1e9).toPrecision(3)} GB`;
const odd = lane => lane % 2 === 1;
const equations = n => `${n} equation${n === 1 ? "" : "s"}`;

// --- sizes and places -------------------------------------------------------------------------
function lines(node) {
  if (node.kind === "enter" || node.kind === "leave") return [["title", node.title]];
  const rows = [["title", node.title]];
  if (node.detail && node.kind !== "group") rows.push(["detail", node.detail]);
  if (node.body !== null) rows.push(["detail", summary(node)]);
  if (node.type && node.kind !== "group") rows.push(["type", short(node.type, 34)]);
  return rows;
}
const short = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;
const summary = node => equations(node.size) + (node.stops ? `, ${node.stops} ✂` : "");
const FONTS = { title: "600 13px " + FACE, detail: "11px " + FACE, type: "11px " + MONO };

function size(node, path) {
  const rows = lines(node), small = node.kind === "enter" || node.kind === "leave";
  const wide = Math.max(...rows.map(([kind, text]) => width(text, FONTS[kind])));
  if (node.body !== null && open.has(path)) {
    const inner = layout(node.body, path), head = width(heading(node), FONTS.title) + 60;
    return { width: Math.max(inner.width + 2 * PAD, head), height: inner.height + HEADER + PAD,
      inner };
  }
  return { width: wide + (small ? 14 : node.body === null ? 30 : 46), height: small ? 20 : 14 + 16 * rows.length };
}
const heading = node => node.kind === "group" ? `${node.title} · ${summary(node)}`
  : [node.title, node.detail, summary(node)].filter(Boolean).join(" · ");

function merged(edges) {
  const pairs = new Map();
  for (const edge of edges) {
    const key = edge.source + ">" + edge.target, known = pairs.get(key);
    if (known) { known.all.push(edge); if (!edge.cut) known.cut = ""; }
    else pairs.set(key, { ...edge, all: [edge] });
  }
  return [...pairs.values()];
}

function layout(number, path) {
  if (layouts.has(path)) return layouts.get(path);
  const body = bodies[number], several = new Set(body.nodes.map(node => node.lane)).size > 1;
  const graph = new dagre.graphlib.Graph({ compound: several });
  graph.setGraph({ rankdir: "TB", nodesep: 22, ranksep: 34, edgesep: 12, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  const sizes = body.nodes.map((node, i) => size(node, path + "/" + i));
  body.nodes.forEach((node, i) => {
    graph.setNode(i, { width: sizes[i].width, height: sizes[i].height });
    if (several) {
      const lane = "lane" + node.lane;
      if (!graph.hasNode(lane)) graph.setNode(lane, {});
      graph.setParent(i, lane);
    }
  });
  const edges = merged(body.edges);
  for (const edge of edges) {
    const from = body.nodes[edge.source], to = body.nodes[edge.target];
    edge.back = odd(from.lane) && odd(to.lane);
    edge.saved = from.backward < to.backward;
    const label = { weight: from.lane < to.lane ? 3 : 1, minlen: 1,
      height: edge.cut === "stop" ? 22 : 0, width: 0, labelpos: "c" };
    const [v, w] = edge.back ? [edge.target, edge.source] : [edge.source, edge.target];
    graph.setEdge(v, w, label);
  }
  const lanes = [...new Set(body.nodes.map(node => node.lane))].sort();
  dagre.layout(graph, { disableOptimalOrderHeuristic: body.nodes.length > 150,
    constraints: lanes.slice(1).map((lane, i) => (
      { left: "lane" + lanes[i], right: "lane" + lane })) });
  const result = placed(graph, body, sizes, edges, several);
  layouts.set(path, result);
  return result;
}

function placed(graph, body, sizes, edges, several) {
  const total = graph.graph(), mean = lane => {
    const xs = body.nodes.flatMap((node, i) => node.lane === lane ? [graph.node(i).x] : []);
    return xs.reduce((a, b) => a + b, 0) / Math.max(xs.length, 1);
  };
  const lanes = [...new Set(body.nodes.map(node => node.lane))].sort();
  const mirror = several && mean(lanes[0]) > mean(lanes[1]);
  const x = value => mirror ? total.width - value : value;
  const nodes = body.nodes.map((node, i) => ({ ...sizes[i], node, x: x(graph.node(i).x),
    y: graph.node(i).y }));
  const wires = edges.map(edge => {
    const [v, w] = edge.back ? [edge.target, edge.source] : [edge.source, edge.target];
    const points = graph.edge(v, w).points.map(p => ({ x: x(p.x), y: p.y }));
    return { ...edge, points: edge.back ? points.reverse() : points };
  });
  const heads = !several ? [] : lanes.map(lane => ({ lane,
    x: x(graph.node("lane" + lane).x), y: graph.node("lane" + lane).y
      - graph.node("lane" + lane).height / 2 }));
  return { nodes, wires, heads, width: total.width, height: total.height };
}

// --- drawing ----------------------------------------------------------------------------------
function curve(points) {
  const p = points;
  if (p.length < 3) return `M${p.map(q => `${q.x} ${q.y}`).join("L")}`;
  let d = `M${p[0].x} ${p[0].y}`;
  for (let i = 1; i < p.length - 2; i++) {
    d += `Q${p[i].x} ${p[i].y} ${(p[i].x + p[i + 1].x) / 2} ${(p[i].y + p[i + 1].y) / 2}`;
  }
  const a = p[p.length - 2], b = p[p.length - 1];
  return d + `Q${a.x} ${a.y} ${b.x} ${b.y}`;
}

function arrow(points, kind, parent) {
  const b = points[points.length - 1], a = points[points.length - 2];
  const angle = Math.atan2(b.y - a.y, b.x - a.x) * 180 / Math.PI;
  make("path", { class: "head " + kind, d: "M0 0L-8 -3.6L-8 3.6Z",
    transform: `translate(${b.x} ${b.y}) rotate(${angle})` }, parent);
}

function scissors(path, wire, parent) {
  const middle = path.getPointAtLength(path.getTotalLength() / 2);
  const group = make("g", { transform: `translate(${middle.x} ${middle.y})` }, parent);
  make("circle", { class: "gap", r: 11 }, group);
  make("path", { class: "scissors", d: "M-7 -5L4 4M-7 5L4 -4M6.6 3.8a2.4 2.4 0 1 0 .1 .1"
    + "M6.6 -7a2.4 2.4 0 1 0 .1 .1", transform: "rotate(-90) scale(.9)" }, group);
  if (wire.name) make("text", { class: "cutname", x: 15, y: 4 }, group, wire.name);
}

function draw(place, path, parent) {
  const under = make("g", {}, parent), over = make("g", {}, parent);
  for (const head of place.heads) {
    make("text", { class: "lane", x: head.x, y: head.y + 4, "text-anchor": "middle" }, under,
      ["forward", "backward"][head.lane] || `backward, ${head.lane} times`);
  }
  const ends = new Map();
  for (const wire of place.wires) {
    const from = place.nodes[wire.source].node;
    const kind = wire.cut === "stop" ? "stopped" : wire.cut === "zero" ? "zero"
      : (odd(from.backward) ? "odd" : "") + (wire.saved ? " saved" : "");
    const element = make("path", { class: "edge " + kind, d: curve(wire.points) }, under);
    make("title", {}, element, [...new Set(wire.all.map(e => `${e.value}: ${e.type}, `
      + human(e.bytes)))].slice(0, 12).join("\n"));
    arrow(wire.points, kind, under);
    if (wire.cut === "stop") scissors(element, wire, under);
    for (const end of [wire.source, wire.target]) {
      if (!ends.has(end)) ends.set(end, []);
      ends.get(end).push(element);
    }
  }
  place.nodes.forEach((item, i) => box(item, path + "/" + i, over, ends.get(i) || []));
}

function box(item, path, parent, wires) {
  const { node, inner } = item, folds = node.body !== null;
  const group = make("g", { class: ["node", node.kind, node.family, odd(node.backward) ? "odd" : "",
    inner ? "open" : "", folds ? "folds" : ""].join(" "), tabindex: 0,
    role: folds ? "button" : "img", "aria-label": spoken(node), "data-path": path,
    transform: `translate(${item.x - item.width / 2} ${item.y - item.height / 2})` }, parent);
  if (folds) group.setAttribute("aria-expanded", Boolean(inner));
  const port = node.family === "port";
  make("rect", { class: "box", width: item.width, height: item.height,
    rx: port || node.family === "stop" ? Math.min(item.height / 2, 14) : 8 }, group);
  if (inner) {
    make("rect", { class: "header", width: item.width, height: HEADER }, group);
    make("text", { class: "title", x: 26, y: 20 }, group, heading(node));
    make("text", { class: "detail", x: 10, y: 20 }, group, "▾");
    draw(inner, path, make("g", { transform:
      `translate(${(item.width - inner.width) / 2} ${HEADER})` }, group));
  } else {
    if (!port) make("rect", { class: "strip", x: 5, y: 7, width: 4, height: item.height - 14,
      rx: 2 }, group);
    lines(node).forEach(([kind, text], row) => make("text", { class: kind,
      x: port ? item.width / 2 : 17, y: (item.height === 20 ? 14 : 20) + 16 * row,
      "text-anchor": port ? "middle" : "start" }, group, text));
    if (folds) make("text", { class: "detail", x: item.width - 13, y: 19 }, group, "▸");
  }
  elements.set(path, { group, wires, node, item });
}
const spoken = node => [node.title, node.detail, node.type, node.place, node.code,
  node.body !== null ? equations(node.size) : "", odd(node.backward) ? "backward" : ""]
  .filter(Boolean).join(", ");

function render(keep) {
  const before = keep && spot(keep);
  elements = new Map();
  hide();
  view.replaceChildren();
  make("rect", { class: "sheet", width: "100%", height: "100%" }, view);
  scene = make("g", {}, view);
  draw(layout(0, ""), "", scene);
  move();
  const after = before && spot(keep);
  if (after) { camera.x += before.x - after.x; camera.y += before.y - after.y; }
  move();
}
function spot(path) {  // where the corner of a node is on the screen
  const found = elements.get(path);
  if (!found) return null;
  const corner = found.group.getBoundingClientRect();
  return { x: corner.left, y: corner.top };
}
function move() {
  scene.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
}

