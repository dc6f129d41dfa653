"""Derivatives of opaque functions from further runs of them: central differences, and the complex
step; and the check of a step's length.

They use traced arithmetic around calls of the function, so that they can be batched, recorded, and
differentiated again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import GradientCheckError
from fungrad.primitives.elementwise.family import add, div, mul, select, sub
from fungrad.primitives.elementwise.ufuncs import imag, maximum, real, sqrt
from fungrad.primitives.movement.reshape_broadcast_cast import conj, reduce_sum, reshape
from fungrad.primitives.stop_gradient import stop_gradient
from fungrad.support import pytree
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.arguments import leaf_type
from fungrad.transforms.vmap_and_staging import vmap

STEP = "the length of a step"
"""The label of the stop_gradient of step lengths: no derivative depends on them."""


Push = Callable[[Any, Any], Any]


Leaf = tuple[int, Any, Any]


def _total(x: Any) -> Any:
    return reduce_sum(x, axes=tuple(range(len(shape_of(x))))) if shape_of(x) else x


def _size(x: Any) -> Any:
    """The squared absolute values of the elements, as real numbers."""
    return real(mul(x, conj(x))) if typeof(x).dtype.kind == "c" else mul(x, x)


def _moving(primals: Any, tangents: Any) -> list[Leaf]:
    """(position, primal, tangent) of the leaves that have a tangent."""
    leaves = pytree.leaves(tuple(primals))
    moved = pytree.flatten(tuple(tangents), is_leaf=lambda t: t is None)[0]
    if len(moved) != len(leaves):  # trees of the user that hold None themselves
        moved = pytree.broadcast_prefix(
            tuple(tangents), pytree.structure(tuple(primals)), "the tangent"
        )
    pairs = zip(leaves, moved, strict=True)
    return [(i, x, t) for i, (x, t) in enumerate(pairs) if t is not None]


def _at(primals: Any, steps: dict[int, Any]) -> tuple[Any, ...]:
    """The primals, with `steps` added to some leaves."""
    leaves, treedef = pytree.flatten(tuple(primals))
    moved = [add(x, steps[i]) if i in steps else x for i, x in enumerate(leaves)]
    result: tuple[Any, ...] = pytree.unflatten(treedef, moved)
    return result


def _still(moving: Sequence[Leaf]) -> list[Leaf]:
    """The same without derivatives: the length of a step is no part of the function."""
    return [(i, stop_gradient(x, STEP), stop_gradient(t, STEP)) for i, x, t in moving]


def _norm(moving: Sequence[Leaf]) -> Any:
    """The length of the tangent; 1 if it is zero."""
    total: Any = 0.0
    for _, _, t in _still(moving):
        total = add(total, _total(_size(t)))
    return select(total == 0, 1.0, sqrt(total))


def differences(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The central difference of f along a tangent: a tree like the output."""
    moving = _moving(primals, tangents)
    if not moving:
        return None
    precision = max(np.finfo(typeof(x).dtype).eps for _, x, _ in moving)
    length = _norm(moving)
    scale: Any = 0.0
    for _, x, t in _still(moving):
        scale = add(scale, _total(sqrt(mul(_size(x), _size(t)))))
    step = div(mul(maximum(1.0, div(scale, length)), float(precision) ** (1 / 3)), length)
    steps = {i: mul(t, step) for i, _, t in moving}
    above = f(*_at(primals, steps))
    below = f(*_at(primals, {i: mul(s, -1.0) for i, s in steps.items()}))
    return pytree.map(
        lambda a, b: div(sub(a, b), mul(step, 2.0)) if typeof(a).inexact else None, above, below
    )


def imaginary(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """The complex step of f along a tangent; central differences if an argument is complex."""
    moving = _moving(primals, tangents)
    if any(typeof(x).dtype.kind == "c" for x in pytree.leaves(primals) if leaf_type(x) is not None):
        return differences(f, primals, tangents)
    if not moving:
        return None
    step = div(1e-20, _norm(moving))
    moved = f(*_at(primals, {i: mul(mul(t, step), 1j) for i, _, t in moving}))
    return pytree.map(lambda y: div(imag(y), step) if typeof(y).inexact else None, moved)


def contracted(push: Push, primals: Any, cotangent: Any, wanted: Any) -> tuple[Any, ...]:
    """The cotangents of the wanted arguments, by a directional derivative along each element."""
    leaves, treedef = pytree.flatten(tuple(primals))
    flags = pytree.leaves(tuple(wanted))
    given = pytree.flatten(cotangent, is_leaf=lambda t: t is None)[0]
    result: list[Any] = [None] * len(leaves)
    for i, (x, want) in enumerate(zip(leaves, flags, strict=True)):
        if not want:
            continue
        type_ = typeof(x)

        def along(direction: Any, i: int = i) -> Any:
            sparse: list[Any] = [None] * len(leaves)
            sparse[i] = direction
            return push(primals, pytree.unflatten(treedef, sparse))

        basis = np.eye(type_.size, dtype=type_.dtype).reshape(type_.size, *type_.shape)
        columns = pytree.flatten(vmap(along)(basis), is_leaf=lambda t: t is None)[0]
        total: Any = 0.0
        for g, column in zip(given, columns, strict=True):
            if g is not None and column is not None:
                axes = tuple(range(1, len(shape_of(column))))
                term = mul(column, g)
                total = add(total, reduce_sum(term, axes=axes) if axes else term)
        if typeof(total).dtype.kind == "c" and type_.dtype.kind != "c":
            total = real(total)
        result[i] = reshape(add(total, np.zeros(type_.size, type_.dtype)), shape=type_.shape)
    return tuple(pytree.unflatten(treedef, result))


class StepCheck:
    """An opaque function whose complex step is compared with differences, along one direction, when
    an argument is first complex.

    For a function that drops imaginary parts (`x.real`, `abs(x)`, `float(x)`) the complex step
    gives zero, or a part of the derivative.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self._checked: set[tuple[int, ...]] = set()
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        complex_leaves = tuple([i for i, x in enumerate(leaves) if np.iscomplexobj(x)])
        if complex_leaves and complex_leaves not in self._checked:
            self._compare(leaves, treedef, complex_leaves)
            self._checked.add(complex_leaves)
        return self._f(*args, **kwargs)

    def _compare(self, leaves: list[Any], treedef: Any, complex_leaves: Sequence[int]) -> None:
        random = np.random.default_rng(0)
        at = {i: np.real(leaves[i]) for i in complex_leaves}
        along = {i: random.normal(size=x.shape) * np.maximum(1.0, np.abs(x)) for i, x in at.items()}

        def run(step: complex) -> list[Any]:
            moved = [at[i] + step * along[i] if i in at else x for i, x in enumerate(leaves)]
            given, named = pytree.unflatten(treedef, moved)
            return [np.array(y) for y in pytree.leaves(self._f(*given, **named))]

        exact = [np.imag(y) / 1e-20 for y in run(1e-20j)]
        pairs = [list(zip(run(h), run(-h), strict=True)) for h in (1e-5, 2e-5)]
        near, far = ([(np.real(a) - np.real(b)) / (2 * h) for a, b in of]
                     for of, h in zip(pairs, (1e-5, 2e-5), strict=True))  # fmt: skip
        for found, close, further in zip(exact, near, far, strict=True):
            if close.dtype.kind not in "fc" or not close.size:
                continue
            size = np.max(np.abs(close), initial=0.0)
            error = np.max(np.abs(close - further), initial=0.0)  # of the differences themselves
            if np.max(np.abs(found - close), initial=0.0) > 1e-3 * size + 10 * error:
                worst = int(np.argmax(np.abs(np.ravel(found - close))))
                raise GradientCheckError(
                    f"The complex step is no derivative of {describe(self._f)}{user_line()}: along "
                    f"one direction it gives {np.ravel(found)[worst]:.6g}, differences give "
                    f"{np.ravel(close)[worst]:.6g}. The function drops imaginary parts, as x.real, "
                    'abs(x), float(x) and comparisons do. Take vjp="finite_differences".'
                )
