"""Equations of a region that kernels do: one alone, or a sine with its cosine.

Knows regions and kernels; writes no program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import FusionCluster
from fungrad.compiler.passes.simplify.blas_and_power_forms import setting
from fungrad.ir.graph import Equation, Variable
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.runtime.kernels.elementwise import (
    chosen,
    fast_tangent,
    hypot,
    logaddexp,
    sincos,
    sincos_by_tangent,
)

KERNELS: dict[Any, Any] = {
    ufuncs.logaddexp: logaddexp, ufuncs.hypot: hypot, select: chosen,
}  # fmt: skip
"""The kernel of a primitive; floors above put theirs here."""


SINGLE = (logaddexp, hypot)
"""Kernels of numbers of single precision, too."""


def kernel(equation: Equation, paired: bool) -> Any:
    """What does an equation in place of NumPy, or a sine with its cosine; None where NumPy does."""
    if setting() == "numpy":
        return None
    found: Any = KERNELS.get(equation.primitive)
    if paired:
        found = sincos_by_tangent if setting() == "fast" and fast_tangent() else sincos
    dtype = equation.outputs[0].type.dtype
    if found is chosen:
        mask, size = equation.inputs[0].type, equation.outputs[0].type
        fits = mask.dtype == np.bool_ and mask.shape == size.shape and dtype.kind in "biufc"
        return found if fits and dtype.itemsize in (1, 2, 4, 8) else None
    alike = all(a.type.dtype == dtype or a.type.weak for a in equation.inputs)
    fits = dtype == np.float64 or (dtype == np.float32 and found in SINGLE)
    return found if alike and fits else None


def sines_with_cosines(region: FusionCluster) -> dict[int, Equation]:
    """For each sine or cosine that is done with the other one of its argument, by identity, that
    other one, which comes later.
    """
    found: dict[tuple[Any, int], Equation] = {}
    for equation in region.equations:
        if equation.primitive in (ufuncs.sin, ufuncs.cos):
            found.setdefault((equation.primitive, id(equation.inputs[0])), equation)
    pairs: dict[int, Equation] = {}
    later: set[int] = set()
    for (primitive, argument), equation in found.items():
        other = found.get((ufuncs.cos if primitive is ufuncs.sin else ufuncs.sin, argument))
        paired = other is not None and kernel(equation, paired=True) is not None
        if other is not None and paired and id(equation) not in later:
            pairs[id(equation)] = other
            later.add(id(other))
    return pairs


def sorted_pair(equation: Equation, partner: Equation) -> list[Variable]:
    """The sine, then the cosine."""
    pair = [equation, partner] if equation.primitive is ufuncs.sin else [partner, equation]
    return [e.outputs[0] for e in pair]


__all__ = [
    "KERNELS",
    "kernel",
    "sines_with_cosines",
    "sorted_pair",
]
