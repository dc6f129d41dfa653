"""Whether a native program is worth its build: LLVM's time against the time that calls save.

Both are estimates that depend on the Graph, the IR and the setting alone.
"""

from __future__ import annotations

from fungrad.compiler.cost_model import costs
from fungrad.compiler.lowering.scalar.scalar_program import structural
from fungrad.compiler.native.element_operations import cost
from fungrad.compiler.native.kernel import Kernel, Refused
from fungrad.compiler.passes.pipeline import optimised
from fungrad.ir.graph import Equation, Graph

CALLS = 10_000
"""A program has to save the time of its build in so many calls."""
CALL = 1_500.0
"""Nanoseconds per call that an entry in machine code saves."""
TRIPS = 100
"""The assumed trip count of a loop of unknown length."""


def weigh(graph: Graph, kernel: Kernel, times: float = 1.0) -> None:
    """Raises Refused if building a kernel takes longer than CALLS calls save, each of which runs it
    `times` times.
    """
    saved = CALL + numpy_ns(graph) - kernel.cost_ns
    if kernel.build_ms * 1e6 > CALLS * times * saved:
        raise Refused(f"would take {kernel.build_ms:.0f} ms to build and save "
                      f"{saved / 1e3:.1f} us a call")  # fmt: skip


def numpy_ns(graph: Graph) -> float:
    """An estimate of the time of a Graph on NumPy, without the call itself."""
    return sum(map(_numpy_ns, graph.equations))


def _numpy_ns(equation: Equation) -> float:
    held = structural(equation.primitive)
    if held is None:
        size = max([a.type.size for a in (*equation.inputs, *equation.outputs)], default=1)
        call = min(costs.numpy_call, costs.scalar_operation * size)
        return call + size * (0.3 + 1.5 * cost(equation))
    step = costs.scan_step if held.loop else 0.0
    return sum([(TRIPS if trips is None else trips) * (step + numpy_ns(optimised(body)))
                for body, trips in held.bodies(equation)])  # fmt: skip
