"""Jacobians and Hessians, made of forward mode, reverse mode and vmap.

A Jacobian is one batched pass: the function runs once, and all basis vectors are pushed, or pulled,
through it together. Knows the flat forms of the transforms; knows no primitive but those that shape
the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.ir.types import Type
from fungrad.primitives.movement.reshape_broadcast_cast import (
    broadcast_to,
    moveaxis,
    reshape,
    slice_axis,
)
from fungrad.primitives.movement.stack_iota import basis
from fungrad.primitives.primitive import zeros
from fungrad.support import pytree
from fungrad.tracing.captured_arrays import Residuals
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, current, shape_of, typeof
from fungrad.tracing.transformed_function import Transformed
from fungrad.transforms.arguments.binding import (
    check_differentiated,
    differentiable,
    flat_leaves,
    leaf_names,
    leaf_type,
    owned,
    refuse_leaf,
    resolve,
    results_and_aux,
)
from fungrad.transforms.engine.batching import batched_call, take_first
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized


class Call:
    """One call of a function, as a function of the leaves that are differentiated."""

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        has_aux: bool,
        verb: str,
    ) -> None:
        self.f = f
        self.args = args
        self.kwargs = kwargs
        self.has_aux = has_aux
        self.verb = verb
        self.keys = resolve(f, argnums, args, kwargs)
        parts = [args[k] if isinstance(k, int) else kwargs[k] for k in self.keys]
        chosen: Any = tuple(parts) if isinstance(argnums, (tuple, list)) else parts[0]
        self.leaves, self.inputs = flat_leaves(chosen)
        self.single = not isinstance(argnums, (tuple, list))
        self.names = leaf_names(f, self.keys, parts)
        for leaf, name in zip(self.leaves, self.names, strict=True):
            if not differentiable(leaf):
                raise refuse_leaf(leaf, name, verb)
        self.outputs: pytree.TreeDef = pytree.LEAF
        self.count = 0
        self.aux: pytree.TreeDef | None = None

    def label(self) -> str:
        return f"{self.verb} of {describe(self.f)}"

    def flat(self, *values: Any) -> list[Any]:
        """The function of the leaves: the leaves of its output, then those of aux."""
        new = pytree.unflatten(self.inputs, values)
        positional = list(self.args)
        named = dict(self.kwargs)
        for key, part in zip(self.keys, (new,) if self.single else new, strict=True):
            if isinstance(key, int):
                positional[key] = part
            else:
                named[key] = part
        out = self.f(*positional, **named)
        leaves, self.count, self.outputs, self.aux = results_and_aux(self.f, out, self.has_aux)
        for path, leaf in zip(pytree.paths(self.outputs), leaves[: self.count], strict=True):
            type_ = leaf_type(leaf)
            if type_ is None or not type_.inexact:
                found = type_ or type(leaf).__name__
                raise ArgumentError(
                    f"{self.verb} needs a floating or complex output, but {describe(self.f)} "
                    f"returned {found}{path and f' at {path}'}. Return it as aux, or cast it."
                )
        return leaves

    def require(self, kind: str, values: Sequence[Any], what: str, advice: str) -> None:
        """Refuses values (inputs or outputs) that are not all real, or not all complex."""
        for value in values:
            if typeof(value).dtype.kind != kind:
                raise ArgumentError(
                    f"{self.verb} of {describe(self.f)} needs {what}, but found {typeof(value)}. "
                    f"{advice}"
                )

    def result(self, jacobian: list[list[Any]], values: Sequence[Any]) -> Any:
        """The tree of blocks, of which there is one list for each output; with aux, a pair."""
        rows = [
            pytree.unflatten(self.inputs, owned(row) if current() is EVAL else row)
            for row in jacobian
        ]
        tree = pytree.unflatten(self.outputs, rows)
        if self.aux is None:
            return tree
        aux = values[self.count :]
        return tree, pytree.unflatten(
            self.aux, owned(aux, self.leaves) if current() is EVAL else aux
        )


def _basis(types: Sequence[Type]) -> list[Any]:
    """All basis vectors of the space of some arrays: for each array its part of each of them."""
    total = sum(type_.size for type_ in types)
    starts = itertools.accumulate((type_.size for type_ in types), initial=0)
    return [
        basis(shape=(total, *type_.shape), start=start, dtype=type_.dtype)
        for type_, start in zip(types, starts, strict=False)
    ]


def _pieces(x: Any, types: Sequence[Type]) -> list[Any]:
    """x cut along axis 0 into the parts that belong to the given arrays."""
    if len(types) == 1:
        return [x]
    stops = np.cumsum([type_.size for type_ in types]).tolist()
    starts = [0, *stops][: len(stops)]
    return [
        slice_axis(x, axis=0, start=start, stop=stop)
        for start, stop in zip(starts, stops, strict=True)
    ]


def _full(x: Any, batched: bool, count: int, type_: Type) -> Any:
    """A tangent or cotangent for each basis vector; None is zero."""
    if x is None:
        return zeros(Type((count, *type_.shape), type_.dtype))
    return x if batched else broadcast_to(x, shape=(count, *shape_of(x)))


_NOT_HOLOMORPHIC = (
    "For a holomorphic function pass holomorphic=True; otherwise differentiate with respect to "
    "real and imaginary parts."
)
_NOT_COMPLEX = "Leave holomorphic out for real functions."


def _forward(call: Call, holomorphic: bool) -> Any:
    kind, what = ("c", "complex inputs") if holomorphic else ("f", "real inputs")
    call.require(kind, call.leaves, what, _NOT_COMPLEX if holomorphic else _NOT_HOLOMORPHIC)
    types = [typeof(leaf) for leaf in call.leaves]
    count = sum(type_.size for type_ in types)

    def push(*tangents: Any) -> list[Any]:
        values, moved = pushed_forward(call.flat, call.leaves, tangents, call.label)
        return [*values, *moved[: call.count]]

    vectors = _basis(types)
    found, flags = batched_call(push, vectors, [True] * len(vectors), count, call.label)
    first = len(found) - call.count
    # A loop or a branch may map a value together with its tangents; all its examples are equal.
    if any(flags[:first]) and count == 0:
        values = list(call.flat(*call.leaves))
    else:
        values = [take_first(v, 0) if b else v for v, b in zip(found[:first], flags, strict=False)]
    tangents = found[first:]
    outputs = values[: call.count]
    if holomorphic:
        call.require("c", outputs, "complex outputs", _NOT_COMPLEX)
    jacobian = []
    for output, tangent, batched in zip(outputs, tangents, flags[len(values) :], strict=True):
        shape = shape_of(output)
        columns = _pieces(_full(tangent, batched, count, typeof(output)), types)
        jacobian.append(
            [
                reshape(moveaxis(column, 0, len(shape)), shape=(*shape, *type_.shape))
                for column, type_ in zip(columns, types, strict=True)
            ]
        )
    return call.result(jacobian, values)


def _reverse(call: Call, holomorphic: bool) -> Any:
    keeper = Residuals(copies=False)
    try:
        values, pullback = linearized(call.flat, call.leaves, call.label, keeper)
        return _pulled(call, holomorphic, values, pullback)
    finally:
        keeper.release()


def _pulled(call: Call, holomorphic: bool, values: Sequence[Any], pullback: Any) -> Any:
    if holomorphic:
        call.require("c", call.leaves, "complex inputs", _NOT_COMPLEX)
    outputs = values[: call.count]
    kind, what = ("c", "complex outputs") if holomorphic else ("f", "real outputs")
    call.require(kind, outputs, what, _NOT_COMPLEX if holomorphic else _NOT_HOLOMORPHIC)
    types = [typeof(output) for output in outputs]
    count = sum(type_.size for type_ in types)
    padding = [None] * (len(values) - call.count)
    vectors = _basis(types)
    found, flags = batched_call(
        lambda *cotangents: pullback([*cotangents, *padding]),
        vectors, [True] * len(vectors), count, call.label,
    )  # fmt: skip
    columns = []
    for leaf, cotangent, batched in zip(call.leaves, found, flags, strict=True):
        rows = _pieces(_full(cotangent, batched, count, typeof(leaf)), types)
        columns.append(
            [
                reshape(row, shape=(*type_.shape, *shape_of(leaf)))
                for row, type_ in zip(rows, types, strict=True)
            ]
        )
    return call.result([[column[i] for column in columns] for i in range(call.count)], values)


def jacfwd(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by forward mode: one run of f, with all basis vectors pushed forward.

    Good where f has more outputs than inputs; the memory is that of the Jacobian.

    Args:
      f: a pure function of trees of arrays that returns a tree of floating or complex arrays.
      argnums: which argument, or arguments, to differentiate with respect to: positions or names.
        Their leaves have to be real (complex where `holomorphic`).
      has_aux: whether f returns a pair (output, aux).
      holomorphic: whether f is a holomorphic function, complex to complex.

    Returns:
      A function with f's arguments that returns the tree of f's output, each leaf replaced by the
      tree of the argument (a tuple of them where argnums is a sequence) with leaves of shape
      (*output.shape, *input.shape) and the output's dtype; with has_aux the pair (Jacobian, aux).

    Raises:
      ArgumentError, NonDifferentiableInputError: where a leaf cannot be differentiated.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    check_differentiated(f, argnums, "jacfwd")

    def run(*args: Any, **kwargs: Any) -> Any:
        return _forward(Call(f, argnums, args, kwargs, has_aux, "jacfwd"), holomorphic)

    return Transformed(run, jacfwd, f, argnums, has_aux, holomorphic)


def jacrev(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by reverse mode: one run of f, with all basis vectors pulled back.

    Good where f has fewer outputs than inputs. Takes and returns what `jacfwd` does; the outputs
    have to be real (complex where `holomorphic`), and leaves of the Jacobian have the input's
    dtype. For complex inputs x = a + ib and real outputs it is df/da - i df/db, as in `grad`.

    >>> import numpy as np
    >>> jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    check_differentiated(f, argnums, "jacrev")

    def run(*args: Any, **kwargs: Any) -> Any:
        return _reverse(Call(f, argnums, args, kwargs, has_aux, "jacrev"), holomorphic)

    return Transformed(run, jacrev, f, argnums, has_aux, holomorphic)


def jacobian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by the mode that is cheaper for its shape.

    Reverse mode where f has fewer outputs than inputs, or complex inputs and real outputs;
    otherwise forward mode. Takes and returns what `jacfwd` does. (f is run once, and once more for
    forward mode.)

    >>> import numpy as np
    >>> jacobian(lambda x: np.stack([x[0] * x[1], x[1]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [0., 1.]])
    """

    check_differentiated(f, argnums, "jacobian")

    def run(*args: Any, **kwargs: Any) -> Any:
        call = Call(f, argnums, args, kwargs, has_aux, "jacobian")
        keeper = Residuals(copies=False)
        try:
            values, pullback = linearized(call.flat, call.leaves, call.label, keeper)
            inputs = [typeof(leaf) for leaf in call.leaves]
            outputs = [typeof(value) for value in values[: call.count]]
            plane = not holomorphic and any(type_.dtype.kind == "c" for type_ in inputs)
            if plane or sum(t.size for t in outputs) < sum(t.size for t in inputs):
                return _pulled(call, holomorphic, values, pullback)
        finally:
            keeper.release()
        return _forward(call, holomorphic)

    return Transformed(run, jacobian, f, argnums, has_aux, holomorphic)


def hessian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Hessian of f: forward mode over reverse mode, in one batched pass.

    Takes what `jacfwd` does. Returns the tree of f's output (usually one number) with leaves
    replaced by trees of trees of the argument, whose leaves have shape (*output.shape,
    *input.shape, *input.shape).

    >>> import numpy as np
    >>> hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 2.0]))
    array([[0., 4.],
           [4., 2.]])
    """
    check_differentiated(f, argnums, "hessian")
    return jacfwd(jacrev(f, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


__all__ = ["Call", "hessian", "jacfwd", "jacobian", "jacrev"]
