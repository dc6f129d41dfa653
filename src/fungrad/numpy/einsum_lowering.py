"""np.einsum, lowered to diagonals, sums, and products of two operands.

A call is parsed and planned once for its subscripts and shapes: `_plan` returns a list of small
steps, each a closure over axes, and `einsum` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.errors import ShapeError
from fungrad.numpy.mutation.views import Again, linked
from fungrad.numpy.protocol.implements import implements
from fungrad.numpy.protocol.operands import array_of
from fungrad.numpy.protocol.result_order import with_layout, with_numpy_layout
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.primitives.elementwise.family import mul
from fungrad.primitives.movement.diagonal_roll import diagonal
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reduce_sum, reshape, transpose
from fungrad.support.lazy import Record

Shape = tuple[int, ...]
Labels = tuple[Any, ...]
"""One label for each axis: a letter, or its negative distance from the end if `...` hides it."""
Step = Callable[[list[Any]], None]
"""A step takes its operands from a list and puts its result at the end."""

# --- the subscript language -----------------------------------------------------------------------


def _labels(term: str, ndim: int) -> Labels:
    """The labels of one operand."""
    head, dots, tail = term.partition("...")
    letters = [c for c in head + tail if c != " "]
    if any(not c.isalpha() or not c.isascii() for c in letters):
        raise ValueError(f"invalid subscript in einstein sum: {term!r}")
    hidden = ndim - len(letters)
    if hidden < 0 or (hidden > 0 and not dots):
        raise ValueError(
            f"einstein sum subscripts {term!r} name {len(letters)} axes of an operand that has "
            f"{ndim}"
        )
    return (*head.replace(" ", ""), *range(-hidden, 0), *tail.replace(" ", ""))


def _output(text: str | None, inputs: Sequence[Labels]) -> Labels:
    """The given output labels; by default those of the ellipsis, then letters that occur once."""
    all_labels = [label for labels in inputs for label in labels]
    hidden = sorted({label for label in all_labels if isinstance(label, int)})
    if text is None:
        letters = [label for label in all_labels if isinstance(label, str)]
        return (*hidden, *sorted(c for c in set(letters) if letters.count(c) == 1))
    head, dots, tail = text.replace(" ", "").partition("...")
    if hidden and not dots:
        raise ValueError(
            "output has ellipsis axes in the inputs, but no '...' in the output of the einstein sum"
        )
    output: Labels = (*head, *hidden, *tail)
    for label in output:
        if label not in all_labels:
            raise ValueError(f"einstein sum output names {label!r}, which no operand has")
    if len(set(output)) != len(output):
        raise ValueError(f"einstein sum output {text!r} names an axis twice")
    return output


def _text_of(axes: Sequence[Any]) -> str:
    """A sublist of the operand-sublist form as subscripts."""
    return "".join("..." if axis is Ellipsis else _letter(axis) for axis in axes)


def _letter(axis: Any) -> str:
    index = axis.__index__()
    if not 0 <= index < 52:
        raise ValueError("subscript is not within the valid range [0, 52)")
    return chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26)


def _separate(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """The subscripts and operands of a call of either form."""
    if isinstance(args[0], str):
        return args[0], [array_of(x) for x in args[1:]]
    operands = [array_of(x) for x in args[: len(args) // 2 * 2 : 2]]
    text = ",".join(_text_of(axes) for axes in args[1::2])
    if len(args) % 2:
        text += "->" + _text_of(args[-1])
    return text, operands


# --- the plan -------------------------------------------------------------------------------------


class EinsumPlan(Record):
    """The steps of one einsum, and the axes of the last result in the order of the output."""

    steps: tuple[Step, ...]
    order: Shape | None


@lru_cache(maxsize=1024)
def _plan(text: str, shapes: tuple[Shape, ...], optimize: Any) -> EinsumPlan:
    given, arrow, out = text.partition("->")
    terms = given.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"einstein sum subscripts {text!r} are for {len(terms)} operands, but {len(shapes)} "
            "were given"
        )
    labels = [_labels(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    output = _output(out if arrow else None, labels)
    lengths = _lengths(text, labels, shapes)
    steps: list[Step] = []
    pending = [
        _reduced(found, shape, i, labels, output, lengths, steps)
        for i, (found, shape) in enumerate(zip(labels, shapes, strict=True))
    ]
    for pair in _path(text, shapes, optimize):
        taken = [pending.pop(i) for i in sorted(pair, reverse=True)][::-1]
        kept = set(output).union(*map(set, pending)) if pending else set(output)
        steps.append(_taking(sorted(pair, reverse=True)))
        while len(taken) > 1:  # a path may name more than two operands: from left to right
            others = kept.union(*map(set, taken[2:])) if taken[2:] else kept
            result = _product(taken[0], taken[1], others, steps)
            taken = [result, *taken[2:]]
        pending.append(taken[0])
        steps.append(_putting_back)
    (last,) = pending
    order = tuple([last.index(label) for label in output])
    return EinsumPlan(tuple(steps), None if order == tuple(range(len(order))) else order)


def _lengths(text: str, labels: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Any, int]:
    lengths: dict[Any, int] = {}
    for found, shape in zip(labels, shapes, strict=True):
        for label, length in zip(found, shape, strict=True):
            known = lengths.setdefault(label, length)
            if known == 1:
                lengths[label] = length
            elif length not in (1, known):
                name = label if isinstance(label, str) else "..."
                raise ShapeError(
                    f"einsum {text!r} got operands of shapes {list(shapes)}: the axis {name!r} has "
                    f"length {known} in one and {length} in another."
                )
    return lengths


def _path(text: str, shapes: Sequence[Shape], optimize: Any) -> list[Shape]:
    """For each product, the positions of its operands in the list of those that are left."""
    count = len(shapes)
    if count == 1:
        return []
    if count == 2 or optimize is False:
        return [(0, 1), *[(0, n) for n in range(count - 2, 0, -1)]]
    stand_ins = [np.broadcast_to(np.float64(0.0), shape) for shape in shapes]
    wanted: Any = list(optimize) if isinstance(optimize, tuple) else optimize
    path, _ = np.einsum_path(text, *stand_ins, optimize=wanted)
    return [tuple(pair) for pair in path[1:]]


def _hashable(optimize: Any) -> Any:
    """The `optimize` of a call, with tuples in place of lists (a path may be a list of lists)."""
    if isinstance(optimize, (list, tuple)):
        return tuple([_hashable(part) for part in optimize])
    return optimize


# --- the steps ------------------------------------------------------------------------------------
# While operands are reduced, they keep their positions in the list; a product's operands are at its
# end.


def _reduced(
    labels: Labels, shape: Shape, position: int, every: Sequence[Labels], output: Labels,
    lengths: dict[Any, int], steps: list[Step],
) -> Labels:  # fmt: skip
    """Takes diagonals of repeated labels, and sums over labels that only this operand has; returns
    the labels that are left.
    """

    def at_position(change: Callable[[Any], Any]) -> Step:
        def step(values: list[Any]) -> None:
            values[position] = change(values[position])

        return step

    # An axis of length 1 that is longer elsewhere is broadcast: it is dropped here.
    kept = [i for i, label in enumerate(labels) if shape[i] == lengths[label]]
    if len(kept) < len(labels):
        labels, shape = tuple(labels[i] for i in kept), tuple(shape[i] for i in kept)
        steps.append(at_position(lambda x, shape=shape: reshape(x, shape=shape)))  # type: ignore[misc]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            steps.append(at_position(_diagonal_of((*rest, first, second))))
            labels = (*(labels[i] for i in rest), label)
    elsewhere = set(output).union(*(set(other) for i, other in enumerate(every) if i != position))
    alone = tuple(i for i, label in enumerate(labels) if label not in elsewhere)
    if alone:
        steps.append(at_position(lambda x: _sum(x, alone)))
    return tuple(label for label in labels if label in elsewhere)


def _diagonal_of(axes: Shape) -> Callable[[Any], Any]:
    if axes == tuple(range(len(axes))):
        return lambda x: diagonal(x, offset=0)
    return lambda x: diagonal(transpose(x, axes=axes), offset=0)


def _sum(x: Any, axes: Shape) -> Any:
    """A sum that keeps the dtype of small integers and booleans, as einsum does."""
    total = reduce_sum(x, axes=axes)
    return total if total.dtype == x.dtype else cast(total, x.dtype)


def _taking(positions: Sequence[int]) -> Step:
    def step(values: list[Any]) -> None:
        taken = [values.pop(i) for i in positions]
        values.append(taken[::-1])

    return step


def _putting_back(values: list[Any]) -> None:
    values.append(values.pop()[0])


def _product(x: Labels, y: Labels, kept: set[Any], steps: list[Step]) -> Labels:
    """The product of the first two operands taken, summed over the labels that are not kept."""
    common = [label for label in x if label in y]
    summed = [label for label in common if label not in kept]
    if not summed:
        return _elementwise(x, y, steps)
    batch = [label for label in common if label in kept]
    contract = (tuple(map(x.index, summed)), tuple(map(y.index, summed)))
    batches = (tuple(map(x.index, batch)), tuple(map(y.index, batch)))

    def step(values: list[Any]) -> None:
        first, second, *rest = values[-1]
        values[-1] = [dot_general(first, second, contract=contract, batch=batches), *rest]

    steps.append(step)
    free_x = [label for label in x if label not in common]
    return (*batch, *free_x, *(label for label in y if label not in common))


def _elementwise(x: Labels, y: Labels, steps: list[Step]) -> Labels:
    result = (*x, *(label for label in y if label not in x))
    align_x, align_y = _aligning(x, result), _aligning(y, result)

    def step(values: list[Any]) -> None:
        first, second, *rest = values[-1]
        values[-1] = [mul(align_x(first), align_y(second)), *rest]

    steps.append(step)
    return result


def _aligning(labels: Labels, result: Labels) -> Callable[[Any], Any]:
    """A function that gives an operand the axes of the result, of length 1 where it lacks them."""
    order = tuple([labels.index(label) for label in result if label in labels])
    identity = order == tuple(range(len(order)))
    trailing = len(labels) > 0 and tuple(result[len(result) - len(labels) :]) == labels

    def align(x: Any) -> Any:
        if not identity:
            x = transpose(x, axes=order)
        if trailing:  # NumPy's broadcasting does it
            return x
        axes = iter(x.shape)
        return reshape(x, shape=tuple([next(axes) if label in labels else 1 for label in result]))

    return align


@implements(np.einsum)
def einsum(
    *operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: str = "safe",
    optimize: Any = False,
) -> Any:  # fmt: skip
    """Sums of products in Einstein's notation, as np.einsum, in both its forms.

    Several operands are multiplied from left to right, or along np.einsum_path with `optimize`.
    """
    text, arrays = _separate(operands)
    if dtype is not None:
        arrays = [cast(x, dtype) for x in arrays]
    plan = _plan(text, tuple([x.shape for x in arrays]), _hashable(optimize))
    if len(arrays) == 1 and _is_view(text):
        x = arrays[0]
        contracted = _contracted(x, plan=plan)
        return (
            contracted
            if contracted is x
            else linked(contracted, x, Again(_contracted, (), {"plan": plan}))
        )
    contracted = _contracted(*arrays, plan=plan)
    if optimize is not False or order != "K":
        return with_layout(contracted, None) if order == "C" else contracted
    return with_numpy_layout(lambda *examples: np.einsum(text, *examples), contracted, arrays)


def _contracted(*operands: Any, plan: EinsumPlan) -> Any:
    arrays = list(operands)
    for step in plan.steps:
        step(arrays)
    (result,) = arrays
    return result if plan.order is None else transpose(result, axes=plan.order)


def _is_view(text: str) -> bool:
    """Whether a single operand is not summed over any axis."""
    given, arrow, out = text.replace(" ", "").replace("...", "").partition("->")
    return set(given) == set(out) if arrow else len(set(given)) == len(given)


__all__ = ["einsum"]
