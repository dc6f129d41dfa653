// What the user does: folding, zooming, pointing, searching; after page.js.
// --- folding ----------------------------------------------------------------------------------
function forget(path) {
  for (let p = path; p; p = p.slice(0, p.lastIndexOf("/"))) layouts.delete(p);
  layouts.delete("");
}
function toggle(path) {
  open.has(path) ? open.delete(path) : open.add(path);
  forget(path);
  render(path);
  elements.get(path)?.group.focus({ preventScroll: true });
}
function unfoldLevel() {
  let room = MOST - elements.size;
  const closed = [...elements].filter(([path, e]) => e.node.body !== null && !open.has(path));
  for (const [path, { node }] of closed) {
    const more = bodies[node.body].nodes.length;
    if (more > room) continue;
    room -= more;
    open.add(path);
    forget(path);
  }
  render();
  start();
}
function foldAll() { open.clear(); layouts.clear(); render(); fit(); }

// --- looking ----------------------------------------------------------------------------------
function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  const k = Math.min(4, Math.max(0.03, camera.k * factor));
  camera.x = x - (x - camera.x) * k / camera.k;
  camera.y = y - (y - camera.y) * k / camera.k;
  camera.k = k;
  move();
}
function fit() {
  const place = layout(0, ""), w = view.clientWidth, h = view.clientHeight;
  const whole = Math.min((w - 24) / place.width, (h - 24) / place.height);
  const k = Math.min(1.15, Math.max(whole, 0.05));
  camera = { k, x: (w - place.width * k) / 2, y: Math.max(12, (h - place.height * k) / 2) };
  move();
}
function start() {  // readable at once, from the top, as far as both halves fit beside each other
  fit();
  const place = layout(0, "");
  if (camera.k < 0.66) {
    camera.k = Math.max(camera.k, Math.min(0.66, (view.clientWidth - 24) / place.width));
    camera.x = (view.clientWidth - place.width * camera.k) / 2;
    camera.y = 12;
    move();
  }
}
function center(path) {
  const item = elements.get(path), r = item.group.getBoundingClientRect();
  const v = view.getBoundingClientRect();
  camera.x += v.left + v.width / 2 - (r.left + Math.min(r.width, v.width) / 2);
  camera.y += v.top + v.height / 2 - (r.top + Math.min(r.height, v.height) / 2);
  move();
}

// --- what is under the pointer ----------------------------------------------------------------
function tell(node) {
  const rows = [], row = (tag, cls, text) => {
    const e = document.createElement(tag);
    e.className = cls;
    e.textContent = text;
    rows.push(e);
  };
  row("code", "", node.text || node.title);
  const facts = [node.kind === "operation" || node.kind === "group" ? "" : node.kind, node.type,
    node.bytes ? human(node.bytes) : "", node.size ? equations(node.size) : "",
    node.scope ? `in ${node.scope}` : "", odd(node.backward) ? "backward" : ""];
  row("div", "muted", facts.filter(Boolean).join(" · "));
  if (node.code) row("code", "line", node.code);
  if (node.place) row("div", "muted", node.place);
  if (node.family === "stop") row("div", "warn", "No derivative passes" + (node.detail ?
    ` (${node.detail})` : "") + ".");
  else if (node.stops) row("div", "warn", `${node.stops} stop${node.stops > 1 ? "s" : ""} inside.`);
  tip.replaceChildren(...rows);
}
function show(path, x, y) {
  clear();
  const { group, wires, node } = elements.get(path);
  group.classList.add("lit");
  wires.forEach(wire => wire.classList.add("lit"));
  const same = node.family === "port" ? other => other.text === node.text
    : node.kind === "operation" && node.place ? other => other.kind === "operation"
      && other.place === node.place : () => false;
  const level = path.slice(0, path.lastIndexOf("/"));
  for (const [there, other] of elements) {
    if (other.node === node || !same(other.node)) continue;
    if (node.family !== "port" || there.startsWith(level)) other.group.classList.add("mate");
  }
  tell(node);
  tip.hidden = false;
  const home = view.getBoundingClientRect();
  const left = Math.min(x - home.left + 16, home.width - tip.offsetWidth - 8);
  let top = y - home.top + 18;
  if (top + tip.offsetHeight > home.height - 8) top = y - home.top - tip.offsetHeight - 14;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}
function clear() {
  for (const { group, wires } of elements.values()) {
    group.classList.remove("lit", "mate");
    wires.forEach(wire => wire.classList.remove("lit"));
  }
}
function hide() { clear(); tip.hidden = true; tip.classList.remove("pinned"); pinned = null; }

// --- search -----------------------------------------------------------------------------------
let index = null;
function indexed() {
  if (index) return index;
  index = [];
  const walk = (number, path) => bodies[number].nodes.forEach((node, i) => {
    if (index.length > 60000) return;
    const here = path + "/" + i;
    if (node.kind !== "enter" && node.kind !== "leave") {
      index.push([here, [node.title, node.detail, node.text, node.type, node.code, node.scope,
        node.place].join("\n").toLowerCase()]);
    }
    if (node.body !== null) walk(node.body, here);
  });
  walk(0, "");
  return index;
}
function search(text) {
  const wanted = text.trim().toLowerCase();
  hits = wanted ? indexed().filter(([, content]) => content.includes(wanted)).map(h => h[0]) : [];
  at = -1;
  mark();
  found.textContent = !wanted ? "" : hits.length ? `${hits.length} found` : "none";
}
function mark() {
  const all = new Set(hits);
  for (const [path, { group }] of elements) group.classList.toggle("hit", all.has(path));
}
function next(step) {
  if (!hits.length) return;
  at = (at + step + hits.length) % hits.length;
  const path = hits[at];
  let changed = false;
  for (let p = path.slice(0, path.lastIndexOf("/")); p; p = p.slice(0, p.lastIndexOf("/"))) {
    if (!open.has(p)) { open.add(p); forget(p); changed = true; }
  }
  if (changed) render();
  if (camera.k < 0.7) zoom(0.9 / camera.k);
  center(path);
  mark();
  const box = elements.get(path).group.getBoundingClientRect();
  show(path, box.left + box.width / 2, box.bottom);
  found.textContent = `${at + 1} of ${hits.length}`;
}

// --- events -----------------------------------------------------------------------------------
const found = document.getElementById("found"), field = document.getElementById("search");
const near = event => event.target.closest?.(".node")?.dataset.path;
const pointers = new Map();
let moved = 0, pinch = 0;
view.addEventListener("pointerdown", event => {
  pointers.set(event.pointerId, event);
  moved = 0;
  if (pointers.size === 2) pinch = spread();
});
function spread() {
  const [a, b] = [...pointers.values()];
  return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
}
view.addEventListener("pointermove", event => {
  const last = pointers.get(event.pointerId);
  if (!last) {
    const path = near(event);
    if (pinned === null) path !== undefined ? show(path, event.clientX, event.clientY) : hide();
    return;
  }
  const dx = event.clientX - last.clientX, dy = event.clientY - last.clientY;
  moved += Math.abs(dx) + Math.abs(dy);
  pointers.set(event.pointerId, event);
  if (pointers.size === 2) {
    const now = spread(), home = view.getBoundingClientRect();
    zoom(now / pinch, event.clientX - home.left, event.clientY - home.top);
    pinch = now;
  } else if (moved > 4) {
    if (!view.classList.contains("grabbing")) view.setPointerCapture(event.pointerId);
    view.classList.add("grabbing");
    hide();
    camera.x += dx;
    camera.y += dy;
    move();
  }
});
for (const kind of ["pointerup", "pointercancel"]) {
  view.addEventListener(kind, event => {
    pointers.delete(event.pointerId);
    view.classList.remove("grabbing");
  });
}
view.addEventListener("pointerleave", () => { if (pinned === null) hide(); });
view.addEventListener("click", event => {
  if (moved > 4) return;
  const path = near(event);
  if (path === undefined) return hide();
  activate(path, event.clientX, event.clientY);
});
function activate(path, x, y) {
  if (elements.get(path).node.body !== null) return toggle(path);
  const again = pinned === path;
  hide();
  if (again) return;
  show(path, x, y);
  pinned = path;
  tip.classList.add("pinned");
}
view.addEventListener("focusin", event => {
  const path = near(event);
  if (path === undefined || !event.target.matches(":focus-visible")) return;
  const box = event.target.getBoundingClientRect(), home = view.getBoundingClientRect();
  if (box.right < home.left || box.left > home.right || box.bottom < home.top
    || box.top > home.bottom) center(path);
  const now = event.target.getBoundingClientRect();
  show(path, now.left + Math.min(now.width, 200) / 2, Math.min(now.bottom, home.bottom - 40));
});
view.addEventListener("wheel", event => {
  if (window.self !== window.top && !event.ctrlKey && !event.metaKey) return;  // the notebook's
  event.preventDefault();
  const home = view.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - home.left, event.clientY - home.top);
}, { passive: false });
view.addEventListener("keydown", event => {
  const path = near(event), box = event.target.getBoundingClientRect();
  const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  if (path !== undefined && (event.key === "Enter" || event.key === " ")) {
    activate(path, box.left + 20, box.bottom);
  } else if (step[event.key]) {
    camera.x += step[event.key][0];
    camera.y += step[event.key][1];
    move();
  } else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") fit();
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape") {
    hide();
    if (document.activeElement === field) { field.value = ""; search(""); view.focus(); }
  }
});
field.addEventListener("input", () => search(field.value));
field.addEventListener("keydown", event => {
  if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
});
const click = (id, action) => document.getElementById(id).addEventListener("click", action);
click("unfold", unfoldLevel);
click("fold", foldAll);
click("plus", () => zoom(1.25));
click("minus", () => zoom(0.8));
click("fit", fit);
click("theme", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
click("export", () => {
  const place = layout(0, ""), copy = view.cloneNode(true), w = place.width, h = place.height;
  for (const [key, value] of [["xmlns", SVG], ["viewBox", `0 0 ${w} ${h}`], ["width", w],
    ["height", h]]) copy.setAttribute(key, value);
  copy.removeAttribute("id");
  copy.children[1].removeAttribute("transform");
  copy.prepend(make("style", {}, null, document.querySelector("style").textContent));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([copy.outerHTML], { type: "image/svg+xml" }));
  link.download = document.title + ".svg";
  link.click();
  URL.revokeObjectURL(link.href);
});

const allNodes = bodies.flatMap(body => body.nodes), allEdges = bodies.flatMap(body => body.edges);
const has = family => allNodes.some(node => node.family === family);
const goesBack = allNodes.some(node => odd(node.backward)), cut = kind =>
  allEdges.some(edge => edge.cut === kind);
const LEGEND = [["pointwise", "", "elementwise", has("pointwise")],
  ["algebra", "", "linear algebra", has("algebra")],
  ["reduce", "", "reductions, sorting", has("reduce")],
  ["move", "", "shapes, indices", has("move")],
  ["control", "", "calls, loops, branches", has("control")], ["forward", "wire", "value", true],
  ["backward", "wire", "cotangent", goesBack],
  ["forward", "wire dotted", "kept for the way back", goesBack],
  ["stop", "wire dashed", "stopped ✂", cut("stop")],
  ["stop", "wire dotted", "no derivative", cut("zero")]];
for (const [color, kind, text, shown] of LEGEND) {
  if (!shown) continue;
  const item = document.createElement("span"), swatch = document.createElement("i");
  swatch.className = kind;
  swatch.style.setProperty("--c", `var(--${color})`);
  item.append(swatch, text);
  document.getElementById("legend").append(item);
}
document.getElementById("count").textContent = equations(data.equations);
render();
start();
