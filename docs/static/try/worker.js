// A Python in WebAssembly with NumPy and fungrad, in a thread of its own; made by docs/browser.py.
let ready = null;

async function start() {
  const home = new URL("../pyodide/", self.location.href).href;
  const { loadPyodide } = await import(home + "pyodide.mjs");
  postMessage({ state: "Python starts" });
  const python = await loadPyodide({ indexURL: home, env: { FUNGRAD_NATIVE: "0" } });
  postMessage({ state: "NumPy is loaded" });
  await python.loadPackage("numpy", { messageCallback: () => {} });
  const archive = await fetch(home + "fungrad.zip");
  if (!archive.ok) throw new Error("fungrad.zip is missing");
  python.unpackArchive(await archive.arrayBuffer(), "zip", { extractDir: "/fungrad" });
  const program = await fetch(new URL("examine.py", self.location.href));
  python.FS.writeFile("/fungrad/examine.py", await program.text());
  python.runPython("import sys; sys.path.insert(0, '/fungrad')");
  postMessage({ state: "fungrad is imported" });
  return python.pyimport("examine");
}

onmessage = async (event) => {
  try {
    ready = ready || start();
    const found = (await ready).examine(event.data);
    postMessage({ found: JSON.parse(found) });
  } catch (error) {
    ready = null;
    postMessage({ failed: String(error) });
  }
};
