"""Oracles of the compiler: an optimised, compiled Graph against the same Graph, interpreted.

The interpreter runs every equation by its primitive's `eval`, also inside loops and branches. So a
disagreement is an error of the passes or of code generation, not of tracing or of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.control_flow.call import run
from fungrad.tracing.interpreter import evaluate

from .case import Case, Outcome
from .compare import difference
from .noise import Spread, reference
from .oracles import oracle, own_formula, raised, warned


@oracle("compiled", 0)
def compiled(case: Case) -> str:
    """The program's Graph."""
    return walked_and_run(case, case.graph, case.args, loose=own_formula(case))


@oracle("compiled gradient", 0)
def compiled_gradient(case: Case) -> str:
    """The Graph of its pullback; after a loop cotangents are added in another order."""
    return walked_and_run(case, *gradient_graph(case), signs=False)


def gradient_graph(case: Case) -> tuple[Any, Sequence[Any], bool]:
    """The Graph of a program's pullback, its arguments, and whether terms may be reordered."""
    gradient, given = case.gradient()
    graph = _quietly(lambda: fg.make_jaxpr(gradient)(*given))
    source = case.program.source
    return graph, given, own_formula(case) or "lax." in source or "checkpoint" in source


COMPILER = ("compiled", "compiled gradient")
"""The names of these oracles."""


def _quietly(f: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return f()
    except Exception as error:  # the other oracles ask whether it should be raised
        raise Outcome("not traced") from error


def walked_and_run(
    case: Case,
    graph: Any,
    given: Sequence[Any],
    loose: bool,
    signs: bool = True,
    warns: bool = True,
) -> str:
    """The difference of a compiled Graph from the interpreted one, or "".

    Args:
      case: the program.
      graph: a Graph of it.
      given: its arguments.
      loose: whether sums and products may be reordered.
      signs: whether zeros have to have the same sign.
      warns: whether compiled code gives warnings.
    """

    def walk() -> Any:
        _forget(graph)  # compiled programs are stored on a Graph and those inside
        with reference():
            return evaluate(graph, given)

    def compile_and_run() -> Any:
        _forget(graph)
        with nullcontext() if warns else np.errstate(all="ignore"):
            return run(graph, given)

    try:
        expected = [np.asarray(x) for x in case.watched("walked", walk)]
    except Exception as error:
        try:
            case.watched("compiled", compile_and_run)
        except Exception:
            return ""
        return f"no error, where the walk {raised(error)}"
    try:
        found = [np.asarray(x) for x in case.watched("compiled", compile_and_run)]
    except Exception as error:
        return raised(error)

    def noisy(count: int) -> list[list[Any]]:
        _forget(graph)
        return Spread(graph, given, loose).results(count)

    wrong = difference(expected, found, noisy, signs and not case.contracts())
    if wrong or not warns:
        return wrong
    return warned(case, "compiled", compile_and_run, "walked", walk, found)


def _forget(graph: Any) -> None:
    waiting, seen = [graph], {id(graph)}
    while waiting:
        found = waiting.pop()
        found.derived.clear()
        inner = [g for g in found.subgraphs() if id(g) not in seen]
        seen.update(map(id, inner))
        waiting += inner


__all__ = ["COMPILER"]
