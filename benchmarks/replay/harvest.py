"""Takes the Graphs that are compiled while other code runs: sessions of the docs, GradBench.

What is compiled from outside is a Graph of its own; bodies of loops are not.
"""

from __future__ import annotations

import contextlib
import doctest
import gzip
import io
import json
import os
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fungrad as fg
import fungrad.control_flow.call as seam
from benchmarks.gradbench import server, workloads

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("errors.md", "how-it-works.md", "interop/jax.md", "interop/dlpack.md")
"""Pages whose programs are no sessions of fungrad's, or of other libraries."""
EACH, LARGEST = 12, 400_000
"""How many Graphs a session gives, and how many elements their inputs have."""
Found = list[tuple[Any, tuple[Any, ...]]]


class _Recording(seam.Backend):
    """A backend that keeps the Graphs with the arguments of their first call."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._depth = 0
        self.found: Found = []

    def compile(self, graph: Any) -> Any:
        run = self._backend.compile(graph)
        seen: list[bool] = []

        def recorded(*args: Any) -> Any:
            if not seen and not self._depth and _closed(args) and _known(graph):
                seen.append(True)
                self.found.append((graph, tuple([_copied(x) for x in args])))
            self._depth += 1
            try:
                return run(*args)
            finally:
                self._depth -= 1

        return recorded

    def loop(self, *args: Any) -> Any:
        return self._backend.loop(*args)


def _closed(args: Any) -> bool:
    kinds = [np.asarray(x).dtype.kind for x in args]
    return set(kinds) <= set("biufc") and sum(np.size(x) for x in args) <= LARGEST


def _known(graph: Any) -> bool:
    """Whether all primitives are fungrad's: those of a session are not declared elsewhere."""
    own = all(e.primitive.module.partition(".")[0] == "fungrad" for e in graph.equations)
    return own and all(map(_known, graph.subgraphs()))


def _copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def harvested(run: Callable[[], Any]) -> Found:
    """The Graphs that a call compiles, with arguments."""
    backend = seam._backend
    recording = _Recording(backend)
    fg.clear_caches()  # what was compiled before is found, too
    seam.use(recording)
    try:
        run()
    finally:
        seam.use(backend)
    spread = len(recording.found) / EACH
    if spread <= 1:
        return recording.found
    return [recording.found[int(i * spread)] for i in range(EACH)]


def sessions() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The sessions of the documentation and of the examples, by name."""
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    for path in (*pages, *sorted((ROOT / "examples").glob("*.py"))):
        text = path.read_text("utf-8")
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        if ">>>" in text and name.partition("/")[2] + ".md" not in LEFT_OUT:
            yield name, lambda path=path, text=text: _session(path, text)


def _session(path: Path, text: str) -> None:
    """Runs a session for what it compiles; whether it says what it should is the tests' matter."""
    module = types.ModuleType("__main__")
    if path.suffix == ".py":
        exec(compile(text, str(path), "exec"), module.__dict__)
        text = module.__dict__["__doc__"] or ""
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, module.__dict__, path.stem, str(path), 0)
    before, folder = sys.modules["__main__"], os.getcwd()
    sys.modules["__main__"] = module
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        np.printoptions(),
        tempfile.TemporaryDirectory() as scratch,
    ):
        warnings.simplefilter("ignore")
        os.chdir(scratch)
        try:
            doctest.DocTestRunner(verbose=False).run(test, out=lambda _: None, clear_globs=False)
        finally:
            os.chdir(folder)
            sys.modules["__main__"] = before


def gradbench() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The functions of GradBench at what tests/data records, and larger ones."""
    for path in sorted((ROOT / "tests" / "data" / "gradbench").glob("*.jsonl.gz")):
        module = path.name.partition(".")[0]
        given: dict[str, Any] = {}
        for line in gzip.open(path, "rt"):
            message = json.loads(line).get("message", {})
            if message.get("kind") == "evaluate":
                given.setdefault(message["function"], message["input"])
        for function, value in given.items():
            yield f"{module} {function}", _call(module, function, value)
    for label, (module, function, value) in LARGER.items():
        yield f"{module} {function} {label}", _call(module, function, value)


def _call(module: str, function: str, value: Any) -> Callable[[], Any]:
    return lambda: server.functions_of(module)[function](value)[0]()


LARGER: dict[str, tuple[str, str, Any]] = {
    "10_10_500": ("gmm", "jacobian", workloads.gmm(10, 10, 500)),
    "l2 c128": ("lstm", "jacobian", workloads.lstm(2, 128)),
    "300": ("ba", "jacobian", workloads.ba(4, 300, 900)),
    "50 big": ("ht", "jacobian", workloads.ht(544, 100, False)),
    "20,2000,4": ("kmeans", "dir", workloads.kmeans(20, 2000, 4)),
    "2e5": ("lse", "gradient", {"x": workloads.uniform(200_000)}),
    "5": ("det", "gradient", {"A": workloads.uniform(25), "ell": 5}),
    "6": ("det", "gradient", {"A": workloads.uniform(36), "ell": 6}),
    "2e3": ("ode", "gradient", {"x": workloads.uniform(2_000), "s": 10}),
}

__all__ = ["gradbench", "harvested", "sessions"]
