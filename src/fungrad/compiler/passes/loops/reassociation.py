"""In a scan, what is known of products, sums and equations is put together first.

h * a / b * c, of which h is made in the loop and the rest is known before it, is h * (a / b * c):
one product in each step, and so is what a known matrix is divided by: equal in exact arithmetic, on
doubles, where regrouping is asked for. Products side by side are one in any case. Knows what a scan
is made of.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from typing import Any

from fungrad.compiler.passes.loops.linear_recurrence_forms import combined
from fungrad.compiler.passes.loops.loop_fission import FREE
from fungrad.compiler.passes.loops.open_scan import Loop, small
from fungrad.compiler.passes.rewriter import applied, doubles, placed
from fungrad.ir.graph import Atom, Equation, Literal, Variable
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import add, div, mul, neg, sub
from fungrad.primitives.linalg.solve import inv, solve
from fungrad.primitives.movement.reshape_broadcast_cast import concatenate, transpose
from fungrad.primitives.movement.stack_iota import stack
from fungrad.support.record import Record

INVERTED = 6
"""Rows of matrices that are inverted, many at once, in less time than NumPy's solver is called."""
_PRODUCTS, _SUMS = (mul, div, neg), (add, sub)


class _Chain(Record):
    """What is made in the loop, and what is done to it in turn: a primitive, what is known."""

    root: Atom
    links: tuple[tuple[Any, Atom | None], ...]


def associated(loop: Loop) -> None:
    """Puts together what is known of the products, sums and equations of a loop: what is regrouped
    so may overflow, vanish, or lose a rounding on which the program counts.
    """
    _divide_before(loop)
    combined(loop)
    _shorten_chains(loop)


def _known(loop: Loop, xs: bool = True) -> set[int]:
    """What is known before a step, or, without its xs, before the loop."""
    known = loop.given(xs)
    for equation in loop.equations:
        if known.issuperset(id(a) for a in equation.inputs if isinstance(a, Variable)):
            known.update(id(v) for v in equation.outputs)
    return known


def _divide_before(loop: Loop) -> None:
    """Multiplies with inverses in place of dividing by what is known before a step.

    What the inverse of the turned matrix, turned back, is multiplied with is as near to the
    solution as what LAPACK's solver finds, up to a constant: its residual on the left is small (A.
    Druinsky and S. Toledo, "How accurate is inv(A)*b?", 2012).
    """
    xs = _known(loop) - _known(loop, xs=False)
    equations: list[Equation] = []
    for equation in loop.equations:
        if equation.primitive is solve and _divides(loop, equation, xs):
            a, b = equation.inputs
            turned = applied(equation, transpose, a, axes=(1, 0))
            inverse = applied(equation, inv, *turned.outputs)
            equations += turned, inverse
            params = {"contract": ((0,), (0,)), "batch": ((), ())}
            given = (*inverse.outputs, b)
            equation = placed(equation, dot_general, given, equation.outputs, params)
        equations.append(equation)
    loop.equations = equations


def _divides(loop: Loop, equation: Equation, xs: Container[int]) -> bool:
    """Whether an equation divides by a small matrix of which each step has its own."""
    a, b = equation.inputs
    if id(a) not in xs or equation.params["triangle"] or not doubles(a):
        return False
    if a.type.ndim != 2 or b.type.ndim != 2 or a.type.dtype != b.type.dtype or not small(equation):
        return False
    return a.type.shape[0] <= INVERTED and a.type.size * loop.length <= FREE


def multiply_side_by_side(loop: Loop) -> None:
    """Multiplies once where products of what is made and what is known stand side by side: the
    same products, bit for bit.
    """
    known, made, reads = _known(loop), loop.made(), loop.reads()
    equations: list[Equation] = []
    for equation in loop.equations:
        if equation.primitive in (concatenate, stack) and small(equation):
            pairs = [_factors(a, made, known, reads) for a in equation.inputs]
            found = [pair for pair in pairs if pair is not None]
            if len(found) == len(pairs) > 1:
                sides = [applied(equation, equation.primitive, *side, **equation.params)
                         for side in zip(*found, strict=True)]  # fmt: skip
                equations += sides
                given = (*sides[0].outputs, *sides[1].outputs)
                equation = placed(equation, mul, given, equation.outputs, {})
        equations.append(equation)
    loop.equations = equations
    loop.prune()


def _factors(
    atom: Atom, made: dict[int, Equation], known: Container[int], reads: Mapping[int, int]
) -> tuple[Atom, Atom] | None:
    """What is made and what is known of a product that is read once."""
    equation = made.get(id(atom))
    if equation is None or equation.primitive is not mul or reads[id(atom)] != 1:
        return None
    if any(a.type != atom.type or a.type.weak or isinstance(a, Literal) for a in equation.inputs):
        return None
    first, second = sorted(equation.inputs, key=lambda a: id(a) in known)
    return (first, second) if id(second) in known and id(first) not in known else None


def _shorten_chains(loop: Loop) -> None:
    """Puts together what is known of products and sums."""
    known = loop.given()
    chains: dict[tuple[int, bool], _Chain] = {}
    seen: dict[Hashable, Atom] = {}
    equations: list[Equation] = []
    for equation in loop.equations:
        if known.issuperset(id(a) for a in equation.inputs if isinstance(a, Variable)):
            known.update(id(v) for v in equation.outputs)
        elif equation.primitive in (*_PRODUCTS, *_SUMS) and small(equation):
            link = _link(equation, known)
            if link is not None:
                first, known_part = link
                products = equation.primitive in _PRODUCTS
                before = chains.get((id(first), products), _Chain(first, ()))
                links = (*before.links, (equation.primitive, known_part))
                (output,) = equation.outputs
                chains[id(output), products] = chain = _Chain(before.root, links)
                if len(links) > 1 and any(isinstance(a, Variable) for _, a in links):
                    made, factor = _together(equation, chain.links, seen)
                    known.update(id(e.outputs[0]) for e in made)
                    together = mul if products else add
                    given = (chain.root, factor)
                    equations += made
                    equation = placed(equation, together, given, equation.outputs, {})
        equations.append(equation)
    loop.equations = equations
    loop.prune()


def _link(equation: Equation, known: set[int]) -> tuple[Atom, Atom | None] | None:
    """What an equation reads of the loop, and what is known; None where it is not of that kind."""
    (output,) = equation.outputs
    if not output.type.shape or not doubles(output):
        return None
    first, second = (*equation.inputs, None)[:2]
    assert first is not None
    if second is not None and equation.primitive in (mul, add) and _is(first, known):
        first, second = second, first
    if _is(first, known) or (second is not None and not _is(second, known)):
        return None
    if first.type != output.type:
        return None
    if second is not None and not second.type.weak and second.type.dtype != output.type.dtype:
        return None
    return first, second


def _is(atom: Atom, known: set[int]) -> bool:
    return isinstance(atom, Literal) or id(atom) in known


def _together(
    like: Equation, links: tuple[tuple[Any, Atom | None], ...], seen: dict[Hashable, Atom]
) -> tuple[list[Equation], Atom]:
    """The new equations of what is known of a chain, and what they make."""
    straight = mul if links[0][0] in _PRODUCTS else add
    made: list[Equation] = []

    def write(primitive: Any, *inputs: Atom) -> Atom:
        named = [(a.type, repr(a.value)) if isinstance(a, Literal) else id(a) for a in inputs]
        key = (primitive, *named)
        if key not in seen:
            made.append(applied(like, primitive, *inputs))
            seen[key] = made[-1].outputs[0]
        return seen[key]

    given = [(primitive, atom) for primitive, atom in links if atom is not None]
    begin = next((i for i, (primitive, _) in enumerate(given) if primitive is straight), None)
    total: Atom = Literal(1.0 if straight is mul else 0.0)
    if begin is not None:
        total = given.pop(begin)[1]
    for primitive, atom in given:
        total = write(primitive, total, atom)
    if sum(primitive is neg for primitive, _ in links) % 2:
        total = write(neg, total)
    return made, total


__all__ = ["associated", "multiply_side_by_side"]
