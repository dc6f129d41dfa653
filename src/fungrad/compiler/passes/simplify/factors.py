"""Rules for systems of equations, inverses and spectra; imported with the first Graph that has one.

A factor is often given to np.linalg.solve, and its transpose in the gradient: without the rule the
gradient of a Gaussian process's likelihood of 30 points takes 1.4 times as long. With an inverse in
place of the solve, that of 500 points took 2.4 times as long: the cotangent of inv(a) @ y is an
outer product. The gradient of eigenvalues needs the vectors: with values of their own it takes 1.3
times as long.
"""

from __future__ import annotations

from fungrad.compiler.passes.patterns import AnyValue, made, rule
from fungrad.compiler.passes.rewriter import Writer, apply_rules, rewritten
from fungrad.ir.graph import Atom, Equation, Graph, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.linalg.cholesky_qr import cholesky
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.linalg.spectra import eigenspaces, eigh, eigvalsh, svd, svdvals
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


_OUTER = {"contract": ((), ()), "batch": ((), ())}


def _outer(writer: Writer, atom: Atom) -> tuple[Atom, ...] | None:
    """The vectors whose outer product a value is."""
    found = writer.definition(atom, dot_general)
    if found is None or found.params != _OUTER or any(a.type.ndim != 1 for a in found.inputs):
        return None
    return found.inputs


@rule(made(dot_general), "a product of an inverse and an outer product is one with a vector")
def of_an_outer_product(writer: Writer, equation: Equation) -> Atom | None:
    for n, (other, summed) in enumerate(
        zip(equation.inputs, equation.params["contract"], strict=True)
    ):
        vectors = _outer(writer, equation.inputs[1 - n])
        if vectors and len(summed) == len(other.type.shape) - 1 == 1 and _inverse(writer, other):
            (axis,) = equation.params["contract"][1 - n]
            product = {"contract": (summed, (0,)), "batch": ((), ())}
            vector = writer.add(equation, dot_general, other, vectors[axis], **product)
            pair = (vector, vectors[1 - axis])
            return writer.add(equation, dot_general, *(pair[::-1] if n else pair), **_OUTER)
    return None


def _inverse(writer: Writer, atom: Atom) -> bool:
    step = writer.definition(atom, inv, transpose)
    while step is not None and step.primitive is transpose:
        step = writer.definition(step.inputs[0], inv, transpose)
    return step is not None


@rule(made(transpose, AnyValue("x")), "an outer product, transposed, is one")
def of_exchanged_vectors(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    vectors = _outer(writer, x)
    if not vectors or equation.params["axes"] != (1, 0):
        return None
    return writer.add(equation, dot_general, *vectors[::-1], **_OUTER)


def products_of_inverses(graph: Graph) -> Graph:
    """Multiplies inverses by the vectors of outer products, not by the matrices."""
    rules = {dot_general: (of_an_outer_product,), transpose: (of_exchanged_vectors,)}
    return apply_rules(graph, lambda primitive: rules.get(primitive, ()))


def values_with_vectors(graph: Graph) -> Graph:
    """Takes eigenvalues and singular values from the factorisation of the same matrix that also
    computes vectors, if there is one after them.
    """
    every = (eigh, eigenspaces, svd)
    found = {(e.primitive, *e.inputs): e for e in graph.equations if e.primitive in every}

    def replace(equation: Equation) -> Equation:
        if equation.primitive not in (eigvalsh, eigenspaces, svdvals):
            return equation
        for whole in (svd,) if equation.primitive is svdvals else (eigh, eigenspaces):
            other = found.get((whole, *equation.inputs))
            if other is None or other.params.get("lower") != equation.params.get("lower"):
                continue
            outputs = [Variable(v.type) for v in other.outputs]
            outputs[1 if whole is svd else 0] = equation.outputs[0]
            if equation.primitive is eigenspaces:
                outputs = list(equation.outputs)
            return placed(other, whole, equation.inputs, tuple(outputs), other.params)
        return equation

    return rewritten(graph, replace) if found else graph
