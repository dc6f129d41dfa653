// The page "Try it": sends the program to the worker, and shows what comes back.
const part = (name) => document.getElementById("try-" + name);
const run = part("run"), state = part("state"), program = part("program");
let worker = null, timer = null;

function ended(text) {
  clearTimeout(timer);
  run.disabled = false;
  state.textContent = text;
}

function stop(text) {
  if (worker) worker.terminate();
  worker = null;
  ended(text);
}

function started() {
  const made = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  made.onerror = () => stop("Python could not be started in this browser.");
  made.onmessage = ({ data }) => {
    if (data.state) state.textContent = data.state + " …";
    else if (data.failed) {
      stop("The Python for this page could not be loaded. The site may be built without it: " + data.failed);
    } else {
      ended("");
      show(data.found);
    }
  };
  return made;
}

function show(found) {
  part("error").textContent = found.error || "";
  for (const name of ["value", "gradient", "ir", "digits"]) part(name).textContent = found[name] || "";
  part("results").hidden = Boolean(found.error);
  part("plot").replaceChildren(...(found.curve ? [drawn(found.curve)] : []));
}

function node(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Curves of f and its derivative, or bars of a gradient.
function drawn(curve) {
  const [width, height, left, bottom] = [640, 260, 52, 26];
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "plot" });
  const values = [...(curve.f || []), ...curve.df, 0].filter((y) => y !== null);
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) [low, high] = [low - 1, high + 1];
  const first = curve.x[0], last = curve.x[curve.x.length - 1];
  const across = (x) => left + ((x - first) / (last - first || 1)) * (width - left - 10);
  const up = (y) => height - bottom - ((y - low) / (high - low)) * (height - bottom - 12);
  const number = (y) => Number(y.toPrecision(3)).toString();
  for (const y of [low, (low + high) / 2, high]) {
    svg.append(node("line", { class: "grid", x1: left, x2: width - 10, y1: up(y), y2: up(y) }));
    svg.append(node("text", { x: left - 6, y: up(y) + 4, "text-anchor": "end" }, number(y)));
  }
  for (const x of [first, (first + last) / 2, last]) {
    svg.append(node("text", { x: across(x), y: height - 6, "text-anchor": "middle" }, number(x)));
  }
  if (!curve.f) {
    const wide = Math.min(40, (width - left) / curve.x.length / 1.5);
    curve.df.forEach((y, i) => y !== null && svg.append(node("rect", {
      class: "slope", x: across(i) - wide / 2, width: wide, y: Math.min(up(y), up(0)), height: Math.abs(up(y) - up(0)),
    })));
    return svg;
  }
  for (const name of ["df", "f"]) {
    let path = "", pen = "M";
    curve[name].forEach((y, i) => {
      if (y !== null) path += `${pen}${across(curve.x[i]).toFixed(1)},${up(y).toFixed(1)}`;
      pen = y === null ? "M" : "L";
    });
    svg.append(node("path", { class: name === "f" ? "value" : "slope", d: path }));
  }
  svg.append(node("line", { class: "at", x1: across(curve.at), x2: across(curve.at), y1: 12, y2: height - bottom }));
  return svg;
}

run.addEventListener("click", () => {
  run.disabled = true;
  state.textContent = "Python is loaded …";
  worker = worker || started();
  timer = setTimeout(() => stop("Stopped after two minutes."), 120000);
  worker.postMessage(program.value);
});
program.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run.click();
});
ended("");
