"""The NumPy backend: runs a Graph as straight-line Python, one line per equation."""

from __future__ import annotations

import functools
from typing import Any

from fungrad.compiler.loop_ir.printer import Later, callees, in_python, printed, written_out
from fungrad.compiler.numpy_backend.array_lowering import lowered
from fungrad.compiler.numpy_backend.factorised_once import factorised_once
from fungrad.compiler.numpy_backend.scalar_program import of_equation, program
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.self_check.checked_program import CheckedBackend
from fungrad.control_flow.call import Runner, built
from fungrad.ir.graph import Equation, Graph
from fungrad.support.lazy import Module


class NumpyBackend(CheckedBackend):
    """Optimises a Graph and compiles it to a Python function of its inputs."""

    name = "numpy"

    def compile(self, graph: Graph) -> Runner:
        """The function of the inputs; it returns the list of the outputs."""
        better = optimised(graph)
        arrays = functools.partial(build, better)
        return program(better, Later(arrays, graph, _built)) or arrays()

    def loop(self, equation: Equation, steps: Runner) -> Runner | None:
        """The loop as a Python loop, on numbers or on arrays."""
        return of_equation(equation, steps) or lower_loop(equation)


def source(graph: Graph) -> str:
    """The text of the program of a Graph and of its callees: loops, branches."""
    return written_out(in_python(built(graph)))


def programs(graph: Graph) -> str:
    """The loop IR of the program of a Graph and of its callees; those on numbers have none."""
    called = [c for c in callees(in_python(built(graph))) if hasattr(c.function, "program")]
    return "\n\n".join([c.headed(printed(c.function.program, kinds=True)) for c in called])


def _built(graph: Graph) -> Runner:
    """The program of a Graph on arrays."""
    return build(optimised(graph))


def build(graph: Graph) -> Runner:
    """A Python function that runs the equations of a Graph one after the other."""
    return lowered(factorised_once(graph), lower_loop)


array_control_flow: Any = Module("fungrad.compiler.numpy_backend.array_control_flow")


def lower_loop(equation: Equation) -> Runner | None:
    """The program of a loop or branch on arrays; None if it has none, or if running its steps one
    by one is as fast.
    """
    if not equation.primitive.module.startswith("fungrad.control_flow."):
        return None
    runner: Runner | None = array_control_flow.lower(equation, lower_loop)
    return runner
