"""Equations of a region that kernels do: one alone, a sine with its cosine, a product with
its sum.

Knows regions and kernels; writes no program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.compiler.lowering.fusion.clustering import ROW, FusionCluster
from fungrad.compiler.lowering.fusion.row_access_type import REDUCED
from fungrad.compiler.passes.simplify.blas_and_power_forms import factors, setting
from fungrad.ir.graph import Equation, Variable
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.elementwise.family import neg
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.runtime.kernels.elementwise import (
    fast_tangent,
    hypot,
    logaddexp,
    sincos,
    sincos_by_tangent,
)
from fungrad.runtime.kernels.row_reductions import FEW

KERNELS: dict[Any, Any] = {ufuncs.logaddexp: logaddexp, ufuncs.hypot: hypot}
"""The kernel of a primitive; floors above put theirs here."""


LONG = 20_000
"""The fewest elements in a block of a term of a sum of few products, which are added one at a time:
shorter ones take longer to call than to compute."""


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


def sums_of_products(region: FusionCluster, step: int, columns: bool) -> dict[int, Equation]:
    """For each sum of a product that nothing else reads, by identity, the product, where that need
    not be made.

    In columns along a short axis, whose terms are added one at a time; else, where products may be
    regrouped with sums, of all elements, or along the last axis, of rows that a BLAS would not
    share among threads of its own: it does not round each product.
    """
    read = region.reads()
    made = {}
    for equation, how in zip(region.equations, region.forms, strict=True):
        both = factors(equation)
        dtype = equation.outputs[0].type.dtype
        real = dtype in (np.float64, np.float32)
        if both is not None and real and all(a.type.dtype == dtype for a in both):
            made[id(equation.outputs[0])] = equation, both, how.output
    found: dict[int, Equation] = {}
    for equation, how in zip(region.equations, region.forms, strict=True):
        (x, *_) = equation.inputs
        if equation.primitive is not reduce_sum or id(x) not in made or read[id(x)] != 1:
            continue
        product, both, axis = made[id(x)]
        shape, axes = product.outputs[0].type.shape, equation.params["axes"]
        if columns:
            term = equation.outputs[0].type.size * step // region.length
            few = len(axes) == 1 and 1 < shape[axes[0]] <= FEW
            fits = how.output != REDUCED and few and term >= LONG
        else:
            long = step if axis == len(shape) - 1 else shape[-1]
            along = axes == (len(shape) - 1,) and how.output != REDUCED
            fits = (
                region.regroup
                and len(shape) > 1
                and (along or len(axes) == len(shape))
                and long <= ROW
            )
        if fits and all(a.type.shape == shape for a in both):
            found[id(equation)] = product
    return found


def negated_sums(region: FusionCluster) -> dict[int, Equation]:
    """For each sum of long rows of what is negated for it alone, by identity, the negation, which
    need not be done: the rows are multiplied with -1 instead of 1, to the same bits.
    """
    read = region.reads()
    made = {id(e.outputs[0]): e for e in region.equations if e.primitive is neg}
    found: dict[int, Equation] = {}
    for equation, how in zip(region.equations, region.forms, strict=True):
        (x, *_) = equation.inputs
        if equation.primitive is not reduce_sum or id(x) not in made or read[id(x)] != 1:
            continue
        type_ = x.type
        last = equation.params["axes"] == (type_.ndim - 1,) and how.output != REDUCED
        if last and type_.dtype.char in "fd" and type_.shape[-1] > FEW and setting() != "numpy":
            found[id(equation)] = made[id(x)]
    return found


__all__ = [
    "KERNELS",
    "kernel",
    "negated_sums",
    "sines_with_cosines",
    "sorted_pair",
    "sums_of_products",
]
