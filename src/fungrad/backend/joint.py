"""Floor 6: equations of a region that one kernel does: a sine with its cosine, a product with its
sum.

Knows regions; writes no program.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fungrad.backend.regions import ROW, Region
from fungrad.ir.graph import Equation, Variable
from fungrad.primitives import ufuncs
from fungrad.primitives.elementwise import mul
from fungrad.primitives.shaping import reduce_sum


def doubles(equation: Equation) -> bool:
    return all(a.type.dtype == np.float64 for a in (*equation.inputs, *equation.outputs))


def sines_with_cosines(region: Region) -> dict[int, Equation]:
    """For each sine of a value whose cosine is asked for too, by identity, the other equation."""
    found: dict[tuple[Any, int], Equation] = {}
    for equation in region.equations:
        if equation.primitive in (ufuncs.sin, ufuncs.cos):
            found.setdefault((equation.primitive, id(equation.inputs[0])), equation)
    pairs: dict[int, Equation] = {}
    for (primitive, argument), equation in found.items():
        other = found.get((ufuncs.cos, argument)) if primitive is ufuncs.sin else None
        if other is not None:
            pairs.update({id(equation): other, id(other): equation})
    return pairs


def sorted_pair(equation: Equation, partner: Equation) -> list[Variable]:
    """The sine, then the cosine."""
    pair = [equation, partner] if equation.primitive is ufuncs.sin else [partner, equation]
    return [e.outputs[0] for e in pair]


def summed_products(region: Region, step: int) -> dict[int, Equation]:
    """For each sum of all elements of a product that nothing else reads, by identity, the product.

    Along rows that a BLAS would not share among threads of its own.
    """
    read = Counter(id(atom) for e in region.equations for atom in e.inputs)
    read.update(id(part.value) for parts in region.made for part in parts)
    made = {
        id(e.outputs[0]): (e, how.output)
        for e, how in zip(region.equations, region.forms, strict=True)
        if e.primitive is mul and doubles(e)
    }
    found: dict[int, Equation] = {}
    for equation in region.equations:
        product, axis = made.get(id(equation.inputs[0]), (None, 0))
        if (
            product is None
            or equation.primitive is not reduce_sum
            or read[id(equation.inputs[0])] > 1
        ):
            continue
        shape = product.outputs[0].type.shape
        same = all(a.type.shape == shape for a in product.inputs)
        long = step if axis == len(shape) - 1 else shape[-1]
        if same and len(shape) > 1 and len(equation.params["axes"]) == len(shape) and long <= ROW:
            found[id(equation)] = product
    return found


__all__ = ["doubles", "sines_with_cosines", "sorted_pair", "summed_products"]
