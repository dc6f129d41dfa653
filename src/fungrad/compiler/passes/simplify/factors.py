"""Rules for systems of equations and spectra; imported with the first Graph that has one.

A factor is often given to np.linalg.solve, and its transpose in the gradient: without the rule the
gradient of a Gaussian process's likelihood of 30 points takes 1.4 times as long. The gradient of
eigenvalues needs the vectors: with values of their own it takes 1.3 times as long.
"""

from __future__ import annotations

from typing import Any

from fungrad.compiler.passes.patterns import AnyValue, made, rule
from fungrad.compiler.passes.rewriter import Writer, rewritten
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.linalg.spectra import eigh, eigvalsh, svd, svdvals
from fungrad.primitives.movement.reshape_broadcast_cast import conj, transpose
from fungrad.retracing.inlining import placed


@rule(made(solve, AnyValue("a"), AnyValue("b")), "a Cholesky factor is a triangle")
def of_a_factor(writer: Writer, equation: Equation, a: Atom, b: Atom) -> Atom | None:
    last, triangle, found = a.type.ndim - 1, "lower", a
    while (step := writer.definition(found, transpose, conj)) is not None:
        if step.primitive is transpose:
            if tuple(step.params["axes"]) != (*range(last - 1), last, last - 1):
                return None
            triangle = "upper" if triangle == "lower" else "lower"
        (found,) = step.inputs
    if equation.params["triangle"] or writer.definition(found, cholesky) is None:
        return None
    return writer.add(equation, solve, a, b, triangle=triangle)


RULES = (of_a_factor,)


def values_with_vectors(graph: Graph) -> Graph:
    """Takes eigenvalues and singular values from the factorisation of the same matrix that also
    computes vectors, if there is one after them.
    """
    whole: dict[Any, Any] = {eigvalsh: eigh, svdvals: svd}
    found = {(e.primitive, *e.inputs): e for e in graph.equations if e.primitive in (eigh, svd)}

    def replace(equation: Equation) -> Equation:
        pair = whole.get(equation.primitive)
        other = None if pair is None else found.get((pair, *equation.inputs))
        if other is None or other.params.get("lower") != equation.params.get("lower"):
            return equation
        outputs = [Variable(v.type) for v in other.outputs]
        outputs[0 if other.primitive is eigh else 1] = equation.outputs[0]
        return placed(other, other.primitive, equation.inputs, tuple(outputs), other.params)

    return rewritten(graph, replace) if found else graph
