"""Runs a Graph in each mode: what comes out, what is warned of, how large and how fast it is.

Uses public names of fungrad alone, so that it runs with any revision.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.replay.corpus import Observation

THREADS = 2
"""How many threads share large work, on any machine: what is computed in blocks depends on it."""
EVALUATED, COMPILED, WRITTEN = MODES = ("evaluated", "jit", "written")
SHORT, CALLS = 5e-4, 3


def observe(
    load: Callable[[], Any], inputs: Sequence[Any], mode: str, calls: int = CALLS
) -> Observation:
    """What a Graph gives in a mode.

    Args:
      load: gives it, exported, new at each call: nothing is compiled yet.
      inputs: its arguments.
      mode: one of MODES.
      calls: how many times it is timed.
    """
    fg.config.num_threads = THREADS
    exported, seen = load(), Observation()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            _RUN[mode](exported, inputs, seen, calls)
        except Exception as error:  # it is what the program gives: `check` compares it
            seen.outputs, seen.error = [], f"{type(error).__name__}: {error}".splitlines()[0]
    seen.warnings = sorted({f"{w.category.__name__}: {w.message}".splitlines()[0] for w in raised})
    return seen


def seconds(call: Callable[[], Any], calls: int) -> float:
    """The least CPU time of a call; calls that are short are timed in bursts."""
    found, burst = math.inf, 1
    for _ in range(calls):
        start = time.process_time()
        for _ in range(burst):
            call()
        took = time.process_time() - start
        found = min(found, took / burst)
        if took < SHORT:
            burst = min(100, math.ceil(burst * SHORT / max(took, 1e-7)))
    return found


def equations(graph: Any) -> int:
    """How many equations a Graph has, those of loops and branches included."""
    return len(graph.equations) + sum(map(equations, graph.subgraphs()))


def primitives(graph: Any) -> set[str]:
    """The names of its primitives, inside of loops and branches, too."""
    found = {equation.primitive.name for equation in graph.equations}
    return found.union(*map(primitives, graph.subgraphs()))


def _arrays(outputs: Any) -> list[Any]:
    return [np.array(output) for output in outputs]


def _evaluated(exported: Any, inputs: Sequence[Any], seen: Observation, calls: int) -> None:
    seen.outputs = _arrays(fg.evaluate(exported.graph, *inputs))
    seen.facts["equations"] = equations(exported.graph)


def _compiled(exported: Any, inputs: Sequence[Any], seen: Observation, calls: int) -> None:
    jitted = fg.jit(exported)
    start = time.process_time()
    seen.outputs = _arrays(jitted(*inputs))
    first = time.process_time() - start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = seconds(lambda: jitted(*inputs), calls)
    lowered = jitted.lower(*inputs)
    seen.facts = {
        "equations": equations(lowered.optimised),
        "text": len(lowered.source),
        "compile": max(first - best, 1e-6),
        "run": best,
    }


def _written(exported: Any, inputs: Sequence[Any], seen: Observation, calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{WRITTEN}.py"
        seen.facts["text"] = len(fg.to_source(exported, *inputs, name="program", path=path))
        spec = importlib.util.spec_from_file_location("written", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        seen.outputs = _arrays(module.program(*inputs))


_RUN: dict[str, Callable[..., None]] = {
    EVALUATED: _evaluated,
    COMPILED: _compiled,
    WRITTEN: _written,
}


def flat(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A function as one of leaves, exported, and its leaves."""
    leaves, tree = fg.tree_flatten(tuple(args))
    leaves = [x if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic)
              else np.asarray(x) for x in leaves]  # fmt: skip

    def program(*given: Any) -> list[Any]:
        found = fg.tree_leaves(f(*fg.tree_unflatten(tree, list(given))))
        return [x for x in found if fg.extend.typeof(x).dtype != object]

    return fg.export(program)(*leaves), leaves


__all__ = ["COMPILED", "MODES", "THREADS", "equations", "flat", "observe", "primitives", "seconds"]
