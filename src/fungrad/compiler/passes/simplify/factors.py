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
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.linalg.spectra import (
    eig,
    eigenspaces,
    eigh,
    eigvals,
    eigvalsh,
    svd,
    svdvals,
)
from fungrad.primitives.movement.reshape_broadcast_cast import conj, transpose
from fungrad.retracing.inlining import placed


@rule(made(solve, AnyValue("a"), AnyValue("b")), "a Cholesky factor is a triangle")
def of_a_factor(writer: Writer, equation: Equation, a: Atom, b: Atom) -> Atom | None:
    last, triangle, factor = a.type.ndim - 1, "lower", a
    while (step := writer.definition(factor, transpose, conj)) is not None:
        if step.primitive is transpose:
            if tuple(step.params["axes"]) != (*range(last - 1), last, last - 1):
                return None
            triangle = "upper" if triangle == "lower" else "lower"
        (factor,) = step.inputs
    if equation.params["triangle"] or writer.definition(factor, cholesky) is None:
        return None
    return writer.add(equation, solve, a, b, triangle=triangle)


RULES = (of_a_factor,)


_OUTER = {"contract": ((), ()), "batch": ((), ())}


def _outer(writer: Writer, atom: Atom) -> tuple[Atom, ...] | None:
    """The vectors whose outer product a value is."""
    found = writer.definition(atom, dot_general)
    if found is None or found.params != _OUTER or any(a.type.ndim != 1 for a in found.inputs):
        return None
    return found.inputs if _of_one_dtype(*found.inputs) else None


def _of_one_dtype(*atoms: Atom) -> bool:
    """Whether products are computed in one precision, in any order."""
    return len({atom.type.dtype for atom in atoms}) == 1


@rule(made(dot_general), "in a derivative, a product with an outer product is one with a vector")
def of_an_outer_product(writer: Writer, equation: Equation) -> Atom | None:
    summed, batch = equation.params["contract"], equation.params["batch"]
    for n, other in enumerate(equation.inputs if equation.backward else ()):
        vectors = _outer(writer, equation.inputs[1 - n])
        if vectors and other.type.ndim == 2 and len(summed[n]) == 1 and not batch[0]:
            ((axis,),) = summed[1 - n : 2 - n]
            product = {"contract": (summed[n], (0,)), "batch": batch}
            vector = writer.add(equation, dot_general, other, vectors[axis], **product)
            pair = (vector, vectors[1 - axis])
            return writer.add(equation, dot_general, *(pair[::-1] if n else pair), **_OUTER)
    return None


@rule(made(dot_general, AnyValue("x"), AnyValue("v")), "and one of a product with a vector is two")
def of_a_vector(writer: Writer, equation: Equation, x: Atom, v: Atom) -> Atom | None:
    first, batch = writer.sole_use_definition(x, dot_general), equation.params["batch"]
    if first is None or not equation.backward or (x.type.ndim, v.type.ndim) != (2, 1):
        return None
    contract, summed = first.params["contract"], equation.params["contract"]
    if any(a.type.ndim != 2 for a in first.inputs) or len(contract[0]) != 1 or not summed[0]:
        return None
    if not _of_one_dtype(*first.inputs, v):
        return None
    near, far = summed[0][0], 1 - summed[0][0]  # the operand whose axis is summed, and the other
    free = 1 - contract[near][0]
    v = writer.add(
        equation, dot_general, first.inputs[near], v, contract=((free,), (0,)), batch=batch
    )
    return writer.add(equation, dot_general, first.inputs[far], v,
                      contract=(contract[far], (0,)), batch=batch)  # fmt: skip


@rule(made(transpose, AnyValue("x")), "an outer product, transposed, is one")
def of_exchanged_vectors(writer: Writer, equation: Equation, x: Atom) -> Atom | None:
    vectors = _outer(writer, x)
    if not vectors or equation.params["axes"] != (1, 0):
        return None
    return writer.add(equation, dot_general, *vectors[::-1], **_OUTER)


def products_with_vectors(graph: Graph) -> Graph:
    """Multiplies by the vectors of outer products, not by the matrices."""
    rules = {
        dot_general: (of_an_outer_product, of_a_vector), transpose: (of_exchanged_vectors,),
    }  # fmt: skip
    return apply_rules(graph, lambda primitive: rules.get(primitive, ()))


_WITH_VECTORS = (
    (svdvals, svd), (eigvals, eig), (eigvalsh, eigh), (eigenspaces, eigh), (eigvalsh, eigenspaces),
)  # fmt: skip
"""What computes the same values, and vectors (also of signs that are not open)."""


def values_with_vectors(graph: Graph) -> Graph:
    """Takes eigenvalues and singular values from the factorisation of the same matrix that also
    computes vectors, if there is one after them.
    """
    every = {whole for _, whole in _WITH_VECTORS}
    equations = {(e.primitive, *e.inputs): e for e in graph.equations if e.primitive in every}

    def replace(equation: Equation) -> Equation:
        for part, whole in _WITH_VECTORS:
            other = equations.get((whole, *equation.inputs)) if part is equation.primitive else None
            if other is None or other.params.get("lower") != equation.params.get("lower"):
                continue
            outputs = [Variable(v.type) for v in other.outputs]
            outputs[1 if whole is svd else 0] = equation.outputs[0]
            if equation.primitive is eigenspaces:
                outputs = list(equation.outputs)
            return placed(other, whole, equation.inputs, tuple(outputs), other.params)
        return equation

    return rewritten(graph, replace) if equations else graph
