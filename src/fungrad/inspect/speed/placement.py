"""Where an equation runs, why it is not native, and what would help.

The reasons are those that native code gave when the program was compiled (`Refusal`); an equation
that no generator was asked about gets its reason from its primitive and dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fungrad.compiler import backend_choice
from fungrad.compiler.native.element_operations import TYPES, cost
from fungrad.compiler.native.fused import refusal_of
from fungrad.compiler.refusal import Refusal
from fungrad.compiler.refusal import refusal as because
from fungrad.compiler.scalar.structural import structural
from fungrad.control_flow.call import backend
from fungrad.ir.graph import Equation, Graph, effectful, inner_graphs
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.facts import factor_of_complex, work_of

BLAS, LAPACK, NUMPY, PYTHON = "BLAS", "LAPACK", "NumPy", "Python"
BLOCK = 4_096
"""Elements of operands from which a product runs at a BLAS's full speed."""
TRIPS = 100
"""The assumed trip count of a loop of unknown length, as in native code."""


def library(equation: Equation) -> str:
    """The library that computes an equation outside of kernels."""
    primitive: Any = equation.primitive
    if primitive is dot_general and all(a.type.dtype.kind in "fc" for a in equation.inputs):
        return BLAS
    if primitive.module.startswith("fungrad.primitives.linalg"):
        return LAPACK
    return PYTHON if of_host(equation) else NUMPY


def of_host(equation: Equation) -> bool:
    """Whether an equation calls a Python function of the user."""
    module: str = equation.primitive.module
    return module.startswith(("fungrad.host", "fungrad.debugging"))


def nanoseconds(equation: Equation) -> float:
    """A rough estimate of the time of an equation without Graphs, to divide that of a kernel."""
    size = max([a.type.size for a in (*equation.inputs, *equation.outputs)], default=1)
    if equation.primitive is dot_general:
        work = work_of(equation)
        return 1.0 + (0.04 if size >= BLOCK else 0.15) * (size if work is None else work.flops)
    return 1.0 + size * factor_of_complex(equation) * (0.15 + cost(equation))


def bodies(equation: Equation) -> list[tuple[Graph, int]]:
    """The Graphs that an equation runs, and how often."""
    held = structural(equation.primitive)
    if held is None:
        return [(graph, 1) for graph in inner_graphs(equation)]
    return [(g, TRIPS if n is None else max(n, 1)) for g, n in held.bodies(equation)]


def refusal(equation: Equation, reasons: Mapping[Equation, Refusal]) -> Refusal:
    """Why an equation is in no kernel.

    Args:
      equation: the equation.
      reasons: what native code has said, by the identity of equations.
    """
    if of_host(equation):
        return because("a call of a Python function", "host", equation)
    if backend().name != "native":
        missing = not backend_choice.installed()
        reason = "llvmlite is not installed" if missing else f"fg.config.backend is {_setting()!r}"
        return because(reason, "backend", equation)
    own = None if inner_graphs_of(equation) else refusal_of(equation)
    if own is not None:
        return own
    said = reasons.get(equation)
    if said is not None:
        return said
    if effectful(equation):
        return because("an effect", "effects", equation)
    return because("nothing beside it is in a kernel", "moves", equation)


def inner_graphs_of(equation: Equation) -> bool:
    """Whether an equation holds Graphs: a loop, a branch or a call."""
    return next(inner_graphs(equation), None) is not None


def _setting() -> str:
    return backend_choice.state.setting


def in_words(found: Refusal, equation: Equation) -> str:
    """The reason of a refusal for an equation, for people."""
    fault, name = found.equation, equation.primitive.name
    if found.code == "form" and fault is not None:
        if fault is equation or fault.primitive is equation.primitive:
            where = library(equation)
            if where in (BLAS, LAPACK):
                return f"{where} computes it"
            same = found.reason in (name, f"{name} in array loops")
            return f"kernels have no {name}" if same else found.reason
        line = "" if fault.source is None else f" (line {fault.source.line})"
        return f"beside {fault.primitive.name}{line}, which kernels do not have"
    if found.code == "dtype":
        dtypes = [a.type.dtype for a in (*equation.inputs, *equation.outputs)]
        other = [str(d) for d in dtypes if d not in TYPES]
        return f"{other[0]} {name}" if other else found.reason
    if found.code == "moves":
        return "one call of NumPy: a kernel gains nothing"
    return found.reason


_ADVICE = {
    "small": "run more at once (fg.vmap), or put the loop around it inside (fg.lax.scan)",
    "dtype": "kernels know float64, float32, float16, int64, int32, bool and complex numbers",
    "time": 'fg.config.backend = "native" builds it in any case',
    "host": "write it with NumPy's functions, or call it outside of the loop",
    "effects": "take the effect out once you need the speed",
    "layout": "copy the array first, or compute before it is reshaped or transposed",
    "long": "make a loop of it (fg.lax.scan), or split the function",
    "memory": "carry less, or smaller arrays, through the loop",
}


def advice(found: Refusal, equation: Equation) -> str:
    """What would help an equation, or ""."""
    if found.code == "backend":
        if backend_choice.installed():
            return 'fg.config.backend = "auto"'
        return "pip install 'fungrad[native]'"
    module: str = equation.primitive.module
    if found.code == "form" and not module.startswith("fungrad."):
        return "fg.extend.elementwise(..., inline=True) gives it a formula"
    return _ADVICE.get(found.code, "")


__all__ = [
    "BLAS", "LAPACK", "NUMPY", "PYTHON", "advice", "bodies", "in_words", "inner_graphs_of",
    "library", "nanoseconds", "of_host", "refusal",
]  # fmt: skip
