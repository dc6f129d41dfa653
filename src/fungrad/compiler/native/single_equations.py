"""Kernels of single equations, by primitive: products, recurrences, convolutions, systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fungrad.compiler.native import (
    convolutions,
    equal_values,
    factorisations,
    lapack,
    matrix_factors,
    products,
    recurrences,
)
from fungrad.compiler.native.generators import Generator, Single
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.graph import Equation, Graph
from fungrad.primitives.contraction.dot_general import dot_general

SINGLE: dict[Any, Single] = {
    **products.KERNELS,
    **recurrences.KERNELS,
    **convolutions.KERNELS,
    **factorisations.KERNELS,
    **lapack.KERNELS,
    **matrix_factors.KERNELS,
    **equal_values.KERNELS,
}


def single(equation: Equation) -> Single | None:
    """The kernel of an equation alone; None if it has none."""
    found = SINGLE.get(equation.primitive)
    return None if found is None or found.refusal(equation) else found


def separate(equation: Equation) -> bool:
    """Whether an equation is worth a kernel of its own in a program that NumPy runs else."""
    found = single(equation)
    return found is not None and found.separate


def _generator(kernels: Mapping[Any, Single]) -> Generator:
    """The generator of kernels of Graphs of one equation."""

    def refused(graph: Graph) -> Refusal | None:
        """Why a Graph is not one such equation."""
        (equation, *more) = graph.equations
        found = kernels.get(equation.primitive)
        if more or found is None:
            return refusal(equation.primitive.name, equation=equation)
        return found.refusal(equation)

    def kernel(graph: Graph) -> Kernel:
        (equation,) = graph.equations
        return kernels[equation.primitive].write(graph, equation)

    return Generator(kernel, refused)


single_kernel = _generator(SINGLE)
"""The kernel of a Graph of one equation."""
stacked_product = _generator({dot_general: products.STACKED})
large_kernel = _generator(lapack.LARGE)
"""That of a Graph of one equation on large matrices, beside factorisations by LAPACK."""
