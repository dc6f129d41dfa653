"""Oracles of native code: a Graph compiled to machine code against the interpreted Graph.

Once with the default choice: programs of single elements if arrays are small. Once with loops over
arrays of any length. A Graph that native code refuses completely is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from fungrad.compiler import backend_choice
from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import backend, fused
from fungrad.compiler.passes import pipeline
from fungrad.control_flow.call import built

from .case import Case, Outcome
from .noise import running_on
from .oracle_compiler import gradient_graph, walked_and_run
from .oracles import oracle, own_formula

Call = tuple[Any, Sequence[Any], bool]


@contextmanager
def loops_over_arrays() -> Iterator[None]:
    """Makes native code use only loops over arrays within the context, even for short ones."""
    with (
        mock.patch.object(backend, "GENERATORS", [fused.cheap_kernel]),
        mock.patch.object(tuned, "cluster_elements", 0),
    ):
        yield


def is_native(graph: Any) -> bool:
    """Whether a compiled Graph has native code."""
    program = getattr(built(graph), "__self__", None)
    return hasattr(program, "text") or "native clusters" in pipeline.optimised(graph).derived


def _judged(case: Case, call: Call, signs: bool) -> str:
    if not backend_choice.installed():
        raise Outcome("llvmlite is missing")
    with running_on(backend.Native()):
        wrong = walked_and_run(case, *call, signs, warns=False)
        if not wrong and not is_native(call[0]):
            raise Outcome("native code refuses it")
    return wrong


def _add(name: str, call: Callable[[Case], Call], signs: bool) -> None:
    @oracle(name, 0)
    def chosen(case: Case) -> str:
        return _judged(case, call(case), signs)

    @oracle(f"{name}, by arrays", 0)
    def by_arrays(case: Case) -> str:
        with loops_over_arrays():
            return _judged(case, call(case), signs)


_add("native", lambda case: (case.graph, case.args, own_formula(case)), signs=True)
_add("native gradient", gradient_graph, signs=False)

NATIVE = tuple([f"native{of}{how}" for of in ("", " gradient") for how in ("", ", by arrays")])
"""The names of these oracles."""

__all__ = ["NATIVE", "is_native", "loops_over_arrays"]
