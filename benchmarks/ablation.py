"""The gain of each pass and each rule of the compiler: each is turned off in turn.

    python -m benchmarks.replay record CORPUS        # once: the programs
    python -m benchmarks.ablation CORPUS             # of the benchmark, of daily use, of loops
    python -m benchmarks.ablation CORPUS cases/ --only "x * 1" --times
    python -m benchmarks.ablation CORPUS cases/ --reassociate --only "sum(x" --times

A program counts with what it costs in the compiler's eyes (calls of NumPy, and elements that are
read and written, those of loops as often as they run), with the pass or rule off over all on; with
`--times` with the CPU time of a call as well, where the two programs differ: least of several
bursts, in turns, in one process.
"""

from __future__ import annotations

import argparse
import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import fungrad as fg
from benchmarks.replay import corpus
from benchmarks.timing import least_cpu_times
from fungrad.compiler.passes import pipeline
from fungrad.compiler.passes.loops import loop_fission
from fungrad.compiler.passes.simplify import arithmetic, driver, reassociation
from fungrad.inspect.trip_counts import bodies_of

GROUPS = ("cases/", "everyday/", "gradbench/", "functions/")
CALL, ELEMENT = 400.0, 0.5
"""Nanoseconds that a call of NumPy takes, and each element that it reads or writes."""
ROUNDS, BURST = 7, 2e-3
FREE = ("reshape", "transpose", "broadcast_to", "getitem")


def rules() -> dict[str, Any]:
    """The rules by their reasons."""
    found = (*driver.RULES, *driver.ELEMENTWISE, *arithmetic.KERNELS,
             *reassociation.REGROUPED)  # fmt: skip
    return {rule.reason: rule for rule in found}


TOGETHER = {
    "rules: signs": ("- -x", "-x * y", "x + -y"),
    "rules: selects": ("a select of", "neg and mul apply", "complementary"),
    "rules: slices": ("slice_axis is", "a pad is", "a slice of a"),
    "rules: scatters": ("the zeros of a scatter", "slices that cover"),
    "rules: shapes": ("a cast or reshape", "an identity", "the last of two", "one permutation",
                      "all elements in order", "NumPy broadcasts"),
}  # fmt: skip
"""Rules that are turned off in one, by how their reasons begin: each alone may hide another's."""


def _reasons(name: str) -> set[str]:
    beginnings = TOGETHER.get(name, (name,))
    found = {beginning: [r for r in rules() if r.startswith(beginning)] for beginning in beginnings}
    assert name not in TOGETHER or all(found.values()), found
    return {r for reasons in found.values() for r in reasons}


@contextmanager
def without_rule(name: str) -> Iterator[None]:
    """Compiles without a rule, or some together, meanwhile."""
    reasons = _reasons(name)
    before = driver.rules_for

    def rules_for(graph: Any) -> Callable[[Any], Any]:
        of = before(graph)
        return lambda primitive: tuple(r for r in of(primitive) if r.reason not in reasons)

    with patch.object(driver, "rules_for", rules_for):
        yield


@contextmanager
def watched(held: set[str]) -> Iterator[None]:
    """Notes the reasons of the rules that hold meanwhile."""
    before = driver.rules_for

    def noted(rule: Any) -> Any:
        def replace(writer: Any, equation: Any, **names: Any) -> Any:
            found = rule.replace(writer, equation, **names)
            if found is not None:
                held.add(rule.reason)
            return found

        return rule._replace(replace=replace)

    def rules_for(graph: Any) -> Callable[[Any], Any]:
        of = before(graph)
        return lambda primitive: tuple(map(noted, of(primitive)))

    with patch.object(driver, "rules_for", rules_for):
        yield


def _same(graph: Any, *_: Any) -> Any:
    return graph


@contextmanager
def without_pass(name: str) -> Iterator[None]:
    """Compiles without a pass over Graphs meanwhile."""
    passes = tuple(_same if p.__name__ == name else p for p in pipeline.PASSES)
    held = getattr(pipeline, name, None)
    with patch.object(pipeline, "PASSES", passes), patch.object(pipeline, name, _same):
        assert held is not None
        yield


PARTS = {
    "loops: sums of products after": (loop_fission, "_sum_after"),
    "loops: prologue": (loop_fission, "move_before"),
    "loops: what is known first": (loop_fission, "known_first"),
    "sums: factors out of them": (reassociation, "_steady"),
}
GRAPH_PASSES = (
    "propagate_diagonals",
    "fold",
    "simplify_loops",
    "rematerialise_residuals",
    "split_loops",
    "forward_stores",
    "reroll_loops",
    "products_with_vectors",
    "values_with_vectors",
    "simplify_outer_products",
)


@contextmanager
def without_part(name: str) -> Iterator[None]:
    """Compiles without a part of a pass meanwhile."""
    module, function = PARTS[name]
    with patch.object(module, function, lambda *_: None):
        yield


def switches() -> dict[str, Callable[[], Any]]:
    """Contexts that turn each pass and each rule off, by name."""
    found: dict[str, Callable[[], Any]] = {}
    for name in GRAPH_PASSES:
        found[name] = lambda name=name: without_pass(name)
    for name in PARTS:
        found[name] = lambda name=name: without_part(name)
    for name in (*TOGETHER, *rules()):
        found[name] = lambda name=name: without_rule(name)
    return found


def cost(graph: Any) -> float:
    """Nanoseconds that a Graph seems to take, as it is run."""
    total = 0.0
    for equation in graph.equations:
        found = bodies_of(equation)
        if found is not None:
            total += sum(max(body.times, 1) * cost(body.graph) for body in found.bodies)
        elif equation.primitive.name not in FREE:
            atoms = (*equation.inputs, *equation.outputs)
            total += CALL + ELEMENT * sum(atom.type.size for atom in atoms)
    return max(total, 1.0)


def compiled(content: bytes) -> tuple[float, str, Any]:
    """The cost of a program, its text, and a function that runs it, compiled anew."""
    exported = corpus.loaded(content)
    graph = pipeline.optimised(exported.graph)
    return cost(graph), graph.show(), fg.jit(exported)


Row = tuple[str, float, float, str]
"""The name of the pass or rule that is off, the ratios of cost and time, the program."""


def ablated(name: str, content: bytes, inputs: list[Any], off: dict[str, Any], times: bool
            ) -> Iterator[Row]:  # fmt: skip
    """The rows of one program, of all switches that change it."""
    held = set[str]()
    with watched(held):
        whole, text, _ = compiled(content)
    run = compiled(content)[2] if times else None
    if run is not None:
        run(*inputs)
    for switch, turned_off in off.items():
        if (reasons := _reasons(switch)) and not reasons & held:
            continue
        with turned_off():
            less, other, slower = compiled(content)
            if other == text:
                continue
            if times:
                slower(*inputs)
        took = [1.0, 1.0]
        if times:
            took = least_cpu_times([partial(slower, *inputs), partial(run, *inputs)], ROUNDS, BURST)
        yield switch, less / whole, took[0] / took[1], name


def report(rows: list[Row], switches: list[str], programs: int) -> None:
    """Prints the geometric means over all programs, and the programs that gain the most."""
    print(f"without it / with all, of {programs} programs")
    print(f"{'off':58} {'programs':>8} {'cost':>7} {'time':>7}  most")
    for switch in switches:
        own = [row for row in rows if row[0] == switch]
        means = [math.exp(math.fsum(math.log(r[i]) for r in own) / programs) for i in (1, 2)]
        most = sorted(own, key=lambda row: -max(row[1], row[2]))[:3]
        shown = "; ".join(f"{r[3]} {r[1]:.2f}/{r[2]:.2f}" for r in most)
        print(f"{switch:58} {len(own):8} {means[0]:7.3f} {means[1]:7.3f}  {shown}", flush=True)


def main() -> None:
    """Prints the gain of each pass and rule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation")
    parser.add_argument("corpus")
    parser.add_argument("words", nargs="*", default=GROUPS, help="parts of names of programs")
    parser.add_argument("--only", action="append", default=[], help="parts of names of rules")
    parser.add_argument("--every", type=int, default=1, help="one program of so many")
    parser.add_argument("--times", action="store_true", help="run what differs, too")
    parser.add_argument("--reassociate", action="store_true", help="with leave to regroup sums")
    options = parser.parse_args()
    fg.config.reassociate = options.reassociate
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    importlib.import_module("benchmarks.replay.functions")
    reader = corpus.Reader(corpus.path_of(options.corpus))
    off = {name: turn for name, turn in switches().items()
           if not options.only or any(part in name for part in options.only)}  # fmt: skip
    rows, programs = list[Row](), 0
    for name in reader.names[:: options.every]:
        if not any(word in name for word in options.words or GROUPS):
            continue
        entry = reader.entry(name)
        if not entry.graph:
            continue  # it is held as a program: it calls Python
        try:
            corpus.loaded(entry.graph)
        except corpus.Unreadable:
            continue
        programs += 1
        rows += ablated(name, entry.graph, entry.inputs, off, options.times)
        fg.clear_caches()
    report(rows, list(off), programs)


if __name__ == "__main__":
    main()
