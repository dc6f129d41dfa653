"""The pattern of a linear operation's result, from the patterns of its arguments.

The Graphs here are linear in the values with patterns, which are tangents or cotangents. So one
rule serves a family of primitives: those that move elements are applied to positions, those that
sum elements unite their rows. Where no rule fits, each element of the result depends on all inputs
of the arguments, which is always right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.host.external import opaque as external
from fungrad.host.numeric_derivatives import STEP
from fungrad.ir.graph import Equation
from fungrad.primitives.contraction.convolution import convolve_nd
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import mul, select
from fungrad.primitives.fft import fft, irfft, rfft
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.movement.diagonal_roll import from_diagonal
from fungrad.primitives.movement.gather import getitem, scatter
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    conj,
    convert,
    reduce_sum,
)
from fungrad.primitives.movement.scatter import index_add, index_multiply, index_set
from fungrad.primitives.movement.sliding_window import overlap_add, windows
from fungrad.primitives.movement.stack_iota import unstack
from fungrad.primitives.reduction.cumulative import cumsum, linear_recurrence
from fungrad.primitives.reduction.reduce import exact_sum
from fungrad.primitives.runtime_check import checked
from fungrad.primitives.sort import permuted, share_ties
from fungrad.primitives.stop_gradient import stop
from fungrad.rematerialisation.policies import named
from fungrad.sparse.patterns import (
    LIMIT,
    Pattern,
    called,
    mapped,
    merged,
    positions,
    repeated,
    stacked,
    take,
    take_numbered,
    union,
)
from fungrad.support.rules import Rules


class Given:
    """An argument of an equation: its pattern (None: no dependence), and its value if known."""

    __slots__ = ("pattern", "shape", "size", "value")

    def __init__(self, pattern: Pattern | None, value: Any, shape: tuple[int, ...]) -> None:
        self.pattern = pattern
        self.value = value
        self.shape = shape
        self.size = math.prod(shape)


Found = list[Any] | None
"""The patterns of the results; None if a rule does not fit."""
Rule = Callable[[Equation, Sequence[Given], int], Found]

RULES = Rules()
"""Rules by primitive (by module and name if its import needs SciPy); other elementwise primitives
have `_elementwise`, others that move elements `_put_together`."""


def spread(equation: Equation, given: Sequence[Given], count: int) -> list[Any]:
    """The patterns of an equation's results over `count` inputs."""
    cuts: Any = equation.primitive.cuts
    if equation.primitive is stop:  # tangents pass, except the length of a step along them
        return [None if equation.params["name"] == STEP else given[0].pattern]
    if cuts is True:
        return [None] * len(equation.outputs)
    if cuts:
        given = [Given(None, g.value, g.shape) if i in cuts else g for i, g in enumerate(given)]
    if all(g.pattern is None for g in given):
        return [None] * len(equation.outputs)
    primitive: Any = equation.primitive
    rule = rule_of(primitive)
    patterns = None if rule is None else rule(equation, given, count)
    if patterns is not None:
        return patterns
    every = union([repeated(g.pattern, 1) for g in given if g.pattern is not None])
    return [repeated(every, v.type.size) if v.type.inexact else None for v in equation.outputs]


def rule_of(primitive: Any) -> Rule | None:
    """The rule of a primitive."""
    rule = RULES.get(primitive) or RULES.get((primitive.module, primitive.name))
    if rule is None and primitive.partials is not None:
        return _elementwise
    return _put_together if rule is None and primitive.sections is not None else rule


def moves_all(equation: Equation) -> bool | None:
    """Whether an equation moves all of its arguments, or the first alone, such that each element is
    at one position at most; None if it does something else.
    """
    rule = rule_of(equation.primitive)
    known = rule in (_moved, _apart, _put_together) and equation.primitive is not broadcast_to
    return rule is _put_together if known else None


def _shape(equation: Equation) -> tuple[int, ...]:
    return equation.outputs[0].type.shape


def _broadcast(given: Given, shape: tuple[int, ...]) -> Pattern | None:
    if given.pattern is None or given.shape == shape:
        return given.pattern
    return take(given.pattern, np.broadcast_to(positions(given.shape), shape).ravel())


def _elementwise(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Each element depends on the inputs of the operands' elements at its position."""
    partials: Any = equation.primitive.partials  # type: ignore[attr-defined]
    shape = _shape(equation)
    moving = zip(given, partials, strict=True)
    return [union([_broadcast(g, shape) for g, p in moving if p is not None])]


def _kept(pattern: Pattern | None, where: np.ndarray) -> Pattern | None:
    """The pattern with the rows where a condition holds; the others are empty."""
    if pattern is None or where.all():
        return pattern
    numbers = np.where(where.ravel(), np.arange(1, where.size + 1), 0)
    return take_numbered(pattern, numbers)


@RULES.rule(mul)
def _product(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """A product with a known array is constant where that is zero."""
    x, y = given
    shape = _shape(equation)
    for one, other in ((x, y), (y, x)):
        if other.pattern is None and other.value is not None:
            return [_kept(_broadcast(one, shape), np.broadcast_to(other.value != 0, shape))]
    return _elementwise(equation, given, count)


@RULES.rule(select)
def _choice(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """With a known condition each element depends on the chosen operand."""
    condition, x, y = given
    if condition.value is None:
        return _elementwise(equation, given, count)
    shape = _shape(equation)
    where = np.broadcast_to(np.asarray(condition.value, np.bool_), shape)
    return [union([_kept(_broadcast(x, shape), where), _kept(_broadcast(y, shape), ~where)])]


@RULES.rule(convert, conj, checked, named)
def _same_places(equation: Equation, given: Sequence[Given], count: int) -> Found:
    return [given[0].pattern]


@RULES.rule(permuted)
def _permuted(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Elements in another order along an axis; the order may be unknown."""
    return _moved(equation, given, count) or _along(equation, given, count)


@RULES.rule(getitem, windows)
def _moved(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """The primitive applied to the positions of the first argument; the others are indices."""
    values = [g.value for g in given[1:]]
    if given[0].pattern is None or any(v is None for v in values):
        return None
    moved = equation.primitive.eval(positions(given[0].shape), *values, **equation.params)
    return [take(given[0].pattern, np.ravel(moved))]


@RULES.rule(from_diagonal)
def _put_together(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """The primitive applied to the positions of all arguments, numbered from 1."""
    numbers = []
    start = 1
    for g in given:
        numbers.append(positions(g.shape) + start)
        start += g.size
    whole = stacked([g.pattern for g in given], [g.size for g in given], count)
    return [take_numbered(whole, equation.primitive.eval(*numbers, **equation.params))]


@RULES.rule(unstack)
def _apart(equation: Equation, given: Sequence[Given], count: int) -> Found:
    parts = equation.primitive.eval(positions(given[0].shape), **equation.params)
    return [take(given[0].pattern, np.ravel(part)) for part in parts]


@RULES.rule(reduce_sum, exact_sum)
def _summed(equation: Equation, given: Sequence[Given], count: int) -> Found:
    shape = given[0].shape
    labels, size = _labels(shape, equation.params.get("axes", (len(shape) - 1,)))
    return [merged(given[0].pattern, labels, size)]


def _labels(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[np.ndarray, int]:
    """For each element of an array the position that it goes to in a sum over axes."""
    rest = tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return np.broadcast_to(positions(rest), shape).ravel(), math.prod(rest)


@RULES.rule(share_ties, fft, rfft, irfft)
def _along(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Each element depends on all elements along an axis, or some axes."""
    (moving,) = [g for g in given if g.pattern is not None]
    params = equation.params
    axes = params.get("axes", (params.get("axis"),))
    total = merged(moving.pattern, *_labels(moving.shape, axes))
    return [take(total, _labels(_shape(equation), axes)[0])]


@RULES.rule(cumsum, linear_recurrence)
def _running(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Each element depends on those before it along an axis, and on itself."""
    (moving,) = [g for g in given if g.pattern is not None]
    params = equation.params
    return [_triangular(moving.pattern, moving.shape, params["axis"], params.get("reverse"))]


def _triangular(pattern: Pattern, shape: tuple[int, ...], axis: int, reverse: Any) -> Pattern:
    """The pattern where each element depends on those up to it (from it on) along an axis."""
    places = np.moveaxis(positions(shape), axis, -1).reshape(-1, shape[axis])
    later, earlier = np.tril_indices(shape[axis])
    if reverse:
        later, earlier = earlier, later
    targets, sources = places[:, later].ravel(), places[:, earlier].ravel()
    return mapped(targets, sources, places.size, pattern)


@RULES.rule(solve, ("fungrad.scipy.linalg.equations", "solve_banded"))
def _solved(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Linear equations: each column of the solution depends on that of the right-hand side."""
    matrix, right = given
    if matrix.pattern is not None:
        return None
    shape = _shape(equation)
    wide = _broadcast(right, shape)
    params, rows = equation.params, len(shape) - 2
    triangle = params.get("triangle")
    if "u" in params:  # the number of upper diagonals of a band matrix
        above, last = params["u"], matrix.shape[-2] - 1
        triangle = "lower" if above == 0 else "upper" if above == last else ""
    if triangle:
        return [_triangular(wide, shape, rows, triangle == "upper")]
    labels, size = _labels(shape, (rows,))
    return [take(merged(wide, labels, size), labels)]


@RULES.rule(convolve_nd)
def _convolved(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """A convolution: each result depends on the factors of its products."""
    axes, full = equation.params["axes"], equation.params["mode"] == "full"
    shapes = [given[0].shape, given[1].shape, _shape(equation)]
    n, m, lengths = [shape[len(shape) - axes :] for shape in shapes]
    lead, outer = shapes[2][:-axes], n if full else lengths
    if math.prod((*lead, *outer, *m)) > LIMIT:
        return None
    i, k = np.indices(outer).reshape(axes, -1, 1), np.indices(m).reshape(axes, 1, -1)
    met = (i, k, i + k) if full else (i - k + np.reshape(m, (axes, 1, 1)) - 1, k, i)
    places = []
    for shape, own, index in zip(shapes, (n, m, lengths), met, strict=True):
        rows = np.broadcast_to(positions(shape), (*lead, *own)).reshape(-1, math.prod(own))
        flat = np.ravel_multi_index(tuple(index), own)
        places.append(rows[:, np.broadcast_to(flat, (i.shape[1], k.shape[2])).ravel()].ravel())
    parts = []
    for one in (0, 1):
        moving, known = given[one].pattern, given[1 - one].value
        if moving is not None:
            kept = np.ones(places[2].size, np.bool_)
            if known is not None:
                kept = np.ravel(known)[places[1 - one]] != 0
            size = math.prod(shapes[2])
            parts.append(mapped(places[2][kept], places[one][kept], size, moving))
    return [union(parts)]


@RULES.rule(scatter, index_add, index_set)
def _written(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Values written to zeros (`scatter`), or to an array, at known positions."""
    primitive: Any = equation.primitive
    base = None if primitive is scatter else given[0].pattern
    values, *arrays = given if primitive is scatter else given[1:]
    if any(a.value is None for a in arrays):
        return None
    shape = _shape(equation)
    index = equation.params["index"].fill([a.value for a in arrays])
    places = np.ravel(positions(shape)[index])
    if primitive is index_set:
        untouched = np.ones(math.prod(shape), np.bool_)
        untouched[places] = False
        base = _kept(base, untouched)
    if values.pattern is None:
        return [base]
    written = mapped(places, np.arange(len(places)), math.prod(shape), values.pattern)
    return [union([base, written])]


@RULES.rule(index_multiply)
def _scaled(equation: Equation, given: Sequence[Given], count: int) -> Found:
    return None if any(g.pattern is not None for g in given[1:]) else [given[0].pattern]


@RULES.rule(overlap_add)
def _overlapping(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """Windows added at their positions: the adjoint of `windows`."""
    params = equation.params
    axes = len(params["lengths"])
    shape = _shape(equation)
    lead = len(given[0].shape) - 2 * axes
    places = windows.eval(
        positions(shape), sizes=given[0].shape[lead + axes :],
        strides=params["strides"], dilations=params["dilations"],
    )  # fmt: skip
    places = np.ravel(places)
    return [mapped(places, np.arange(len(places)), math.prod(shape), given[0].pattern)]


@RULES.rule(dot_general)
def _contracted(equation: Equation, given: Sequence[Given], count: int) -> Found:
    """A contraction: each result depends on its summands whose other factor is not known zero."""
    contract, batch = equation.params["contract"], equation.params["batch"]
    parts = [
        _of_factor(given[side], given[1 - side], contract, batch, side)
        for side in (0, 1)
        if given[side].pattern is not None
    ]
    return [union(parts)]


def _of_factor(one: Given, other: Given, contract: Any, batch: Any, side: int) -> Pattern:
    """The pattern of a contraction by one of its factors, at position `side`."""
    read = _as_matrices(positions(one.shape), contract[side], batch[side])
    known = None if other.value is None else np.broadcast_to(other.value, other.shape) != 0
    matrices = positions(other.shape) if known is None else known
    matrices = _as_matrices(matrices, contract[1 - side], batch[1 - side])
    batches, rows, _ = read.shape
    columns = matrices.shape[1]
    shape = (batches, rows, columns) if side == 0 else (batches, columns, rows)
    results = positions(shape) if side == 0 else positions(shape).transpose(0, 2, 1)
    if known is not None and np.count_nonzero(known) * 2 <= known.size:
        b, j, k = np.nonzero(matrices)
        return mapped(results[b, :, j].ravel(), read[b, :, k].ravel(), results.size, one.pattern)
    labels = np.empty(one.size, np.int64)
    numbers = positions((batches, rows, 1))
    labels[read] = numbers
    total = merged(one.pattern, labels, numbers.size)
    reads = np.empty(results.size, np.int64)
    reads[results] = numbers
    return take(total, reads)


def _as_matrices(x: np.ndarray, contract: Sequence[int], batch: Sequence[int]) -> np.ndarray:
    """An array with three axes: batch, free and contracted elements."""
    free = [i for i in range(x.ndim) if i not in contract and i not in batch]
    groups = (batch, free, contract)
    shape = [math.prod(x.shape[i] for i in axes) for axes in groups]
    return x.transpose(*batch, *free, *contract).reshape(shape)


RULES[external] = called
