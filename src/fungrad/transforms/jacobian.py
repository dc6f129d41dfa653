"""Jacobians, Hessians, products with Hessians and Gauss-Newton matrices, elementwise derivatives.

All are compositions of forward mode, reverse mode and vmap. A Jacobian is one batched pass: the
function runs once, and all basis vectors are pushed, or pulled, through it together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, overload

import numpy as np

from fungrad.errors import ArgumentError, ShapeError, StructureMismatchError
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
from fungrad.tracing.captured_arrays import WriteGuards, guarded
from fungrad.tracing.quantity_trees import derivative, each_output, of_numbers
from fungrad.tracing.shadows import shadowed
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, current, shape_of, typeof
from fungrad.tracing.tracing_check import observed, suspected, watched
from fungrad.tracing.transformed_function import TransformedFunction, boundary
from fungrad.transforms.arguments import (
    check_differentiated,
    differentiable,
    flat_leaves,
    leaf_names,
    leaf_type,
    owned,
    refuse_leaf,
    resolve,
    results_and_aux,
    with_parts,
)
from fungrad.transforms.engine.batching import batched_call, take_first
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized
from fungrad.transforms.grad import Aux, P, grad, jvp, vjp


class FlatCall:
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
        self.leaves, self.inputs = of_numbers(flat_leaves, chosen)
        self.single = not isinstance(argnums, (tuple, list))
        self.names = of_numbers(leaf_names, f, self.keys, parts)
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
        parts = (new,) if self.single else new
        positional, named = with_parts(self.keys, parts, shadowed(self.args), shadowed(self.kwargs))
        out = self.f(*positional, **named)
        found = of_numbers(results_and_aux, self.f, out, self.has_aux)
        leaves, self.count, self.outputs, self.aux = found
        for path, leaf in zip(pytree.paths(self.outputs), leaves[: self.count], strict=True):
            type_ = leaf_type(leaf)
            if type_ is None or not type_.inexact:
                what = type_ or type(leaf).__name__
                raise ArgumentError(
                    f"{self.verb} needs a floating or complex output, but {describe(self.f)} "
                    f"returned {what}{path and f' at {path}'}. Return it as aux, or cast it."
                )
        return leaves

    def linearized(self, keeper: WriteGuards) -> Any:
        """The outputs, and the pullback."""

        def run() -> Any:
            return linearized(self.flat, self.leaves, self.label, keeper)

        return observed(self.f, run, self.flat, self.leaves)

    def require(self, kind: str, values: Sequence[Any], what: str, advice: str) -> None:
        """Raises ArgumentError unless all values (inputs or outputs) have dtypes of the kind."""
        for value in values:
            if typeof(value).dtype.kind != kind:
                raise ArgumentError(
                    f"{self.verb} of {describe(self.f)} needs {what}, but found {typeof(value)}. "
                    f"{advice}"
                )

    def result(self, jacobian: list[list[Any]], values: Sequence[Any]) -> Any:
        """The tree of the Jacobian's blocks (a list for each output); with aux, a pair."""
        parts, above = each_output(self.outputs)
        rows = [
            pytree.unflatten(
                derivative(self.inputs, part), owned(row) if current() is EVAL else row
            )
            for row, part in zip(jacobian, parts, strict=True)
        ]
        tree = pytree.unflatten(above, rows)
        if self.aux is None:
            return tree
        aux = values[self.count :]
        return tree, pytree.unflatten(
            self.aux, owned(aux, self.leaves) if current() is EVAL else aux
        )


def _basis(types: Sequence[Type]) -> list[Any]:
    """All basis vectors of the space of some arrays: for each array, its part of every vector."""
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


def _forward(call: FlatCall, holomorphic: bool) -> Any:
    kind, what = ("c", "complex inputs") if holomorphic else ("f", "real inputs")
    call.require(kind, call.leaves, what, _NOT_COMPLEX if holomorphic else _NOT_HOLOMORPHIC)
    types = [typeof(leaf) for leaf in call.leaves]
    count = sum(type_.size for type_ in types)

    def push(*tangents: Any) -> list[Any]:
        values, moved = pushed_forward(call.flat, call.leaves, tangents, call.label)
        return [*values, *moved[: call.count]]

    vectors = _basis(types)

    def run() -> Any:
        return batched_call(push, vectors, [True] * len(vectors), count, call.label)

    (found, flags), watch, before = watched(call.f, run)
    first = len(found) - call.count
    # A loop or a branch may batch a value together with its tangents; all its examples are equal.
    if any(flags[:first]) and count == 0:
        values = list(call.flat(*call.leaves))
    else:
        values = [take_first(v, 0) if b else v for v, b in zip(found[:first], flags, strict=False)]
    watch = watch or suspected(call.f, values, before)
    if watch is not None and count:
        watch.compare(call.flat, call.leaves, values, run)
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


def _reverse(call: FlatCall, holomorphic: bool) -> Any:
    return guarded(lambda keeper: _pulled(call, holomorphic, *call.linearized(keeper)))


def _pulled(call: FlatCall, holomorphic: bool, values: Sequence[Any], pullback: Any) -> Any:
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


class Verb(Protocol):
    """The types of jacfwd, jacrev, jacobian and hessian."""

    @overload
    def __call__(
        self,
        f: np.ufunc,
        argnums: int | str | Sequence[int | str] = 0,
        has_aux: Literal[False] = False,
        holomorphic: bool = False,
    ) -> Callable[..., Any]: ...

    @overload
    def __call__(
        self,
        f: Callable[P, tuple[Any, Aux]],
        argnums: int | str | Sequence[int | str] = 0,
        *,
        has_aux: Literal[True],
        holomorphic: bool = False,
    ) -> Callable[P, tuple[Any, Aux]]: ...

    @overload
    def __call__(
        self,
        f: Callable[P, Any],
        argnums: int | str | Sequence[int | str] = 0,
        has_aux: Literal[False] = False,
        holomorphic: bool = False,
    ) -> Callable[P, Any]: ...


def _typed(verb: Any) -> Verb:
    """The verb itself, with these types."""
    return verb  # type: ignore[no-any-return]


@_typed
def jacfwd(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by forward mode: one run of f, with all basis vectors pushed forward.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])

    Good if f has more outputs than inputs; the memory is that of the Jacobian.

    Args:
      f: a pure function of trees of arrays that returns a tree of floating or complex arrays.
      argnums: which argument, or arguments, to differentiate with respect to: positions or names.
        Their leaves have to be real (complex if `holomorphic`).
      has_aux: whether f returns a pair (output, aux).
      holomorphic: whether f is a holomorphic function, complex to complex.

    Returns:
      A function with f's arguments that returns the tree of f's output, each leaf replaced by the
      tree of the argument (a tuple of them if argnums is a sequence) with leaves of shape
      (*output.shape, *input.shape) and the output's dtype; with has_aux the pair (Jacobian, aux).

    Raises:
      ArgumentError, NonDifferentiableInputError: if a leaf cannot be differentiated.
    """

    check_differentiated(f, argnums, "jacfwd")

    def run(*args: Any, **kwargs: Any) -> Any:
        return _forward(FlatCall(f, argnums, args, kwargs, has_aux, "jacfwd"), holomorphic)

    return TransformedFunction(run, jacfwd, f, argnums, has_aux, holomorphic)


@_typed
def jacrev(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by reverse mode: one run of f, with all basis vectors pulled back.

    >>> import numpy as np
    >>> jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])

    Good if f has fewer outputs than inputs. The result is that of `jacfwd`; the outputs
    have to be real (complex if `holomorphic`), and leaves of the Jacobian have the input's dtype.
    For complex inputs x = a + ib and real outputs it is df/da - i df/db, as in `grad`.

    Args:
      f, argnums, has_aux, holomorphic: as for `jacfwd`.
    """

    check_differentiated(f, argnums, "jacrev")

    def run(*args: Any, **kwargs: Any) -> Any:
        return _reverse(FlatCall(f, argnums, args, kwargs, has_aux, "jacrev"), holomorphic)

    return TransformedFunction(run, jacrev, f, argnums, has_aux, holomorphic)


@_typed
def jacobian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of f by the mode that is cheaper for its shape.

    >>> import numpy as np
    >>> jacobian(lambda x: np.stack([x[0] * x[1], x[1]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [0., 1.]])

    Reverse mode if f has fewer outputs than inputs, or complex inputs and real outputs; otherwise
    forward mode. The result is that of `jacfwd`. (f is run once, and once more for
    forward mode.)

    Args:
      f, argnums, has_aux, holomorphic: as for `jacfwd`.
    """

    check_differentiated(f, argnums, "jacobian")

    def run(*args: Any, **kwargs: Any) -> Any:
        call = FlatCall(f, argnums, args, kwargs, has_aux, "jacobian")

        def reverse(keeper: WriteGuards) -> Any:
            """The Jacobian; None if forward mode is cheaper."""
            values, pullback = call.linearized(keeper)
            inputs = [typeof(leaf) for leaf in call.leaves]
            outputs = [typeof(value) for value in values[: call.count]]
            plane = not holomorphic and any(type_.dtype.kind == "c" for type_ in inputs)
            if plane or sum(t.size for t in outputs) < sum(t.size for t in inputs):
                return _pulled(call, holomorphic, values, pullback)
            return None

        found = guarded(reverse)
        return _forward(call, holomorphic) if found is None else found

    return TransformedFunction(run, jacobian, f, argnums, has_aux, holomorphic)


@_typed
def hessian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Hessian of f: forward mode over reverse mode, in one batched pass.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 2.0]))
    array([[0., 4.],
           [4., 2.]])

    Args:
      f, argnums, has_aux, holomorphic: as for `jacfwd`; f usually returns one number.

    Returns:
      A function with f's arguments. It returns the tree of f's output, each leaf replaced by a tree
      of trees of the argument, whose leaves have shape (*output.shape, *input.shape, *input.shape).
    """
    check_differentiated(f, argnums, "hessian")
    reverse = jacrev(f, argnums, has_aux, holomorphic)  # type: ignore[call-overload]
    forward: Callable[..., Any] = jacfwd(reverse, argnums, has_aux, holomorphic)  # type: ignore[call-overload]
    return forward


@boundary
def hvp(f: Callable[P, Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The Hessian of f times a vector, without the Hessian: forward mode over reverse mode.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (array([ 6., 12.]),)

    Args:
      f: a pure function of trees that returns one real number.
      primals: its arguments, as a sequence; all are differentiated.
      tangents: one tree for each primal, as in `jvp`.

    Returns:
      A tuple with one tree for each primal. It costs a small multiple of one gradient.
    """
    gradient = grad(f, argnums=tuple(range(len(primals))))
    product: tuple[Any, ...] = jvp(gradient, primals, tangents)[1]
    return product


@boundary
def gauss_newton_product(
    f: Callable[P, Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    loss: Callable[[Any], Any] | None = None,
) -> tuple[Any, ...]:
    """The Gauss-Newton matrix J' H J times a vector: J of f, H the Hessian of a loss at f's output.

    >>> import numpy as np
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gauss_newton_product(lambda x: a @ x, (np.zeros(2),), (np.array([1.0, 0.0]),))
    (array([10., 14.]),)

    Positive semidefinite for a convex loss, and without f's second derivatives (Schraudolph, Fast
    curvature matrix-vector products, Neural Computation 14, 2002).

    Args:
      f: a pure function of trees that returns a tree of real arrays (residuals, logits).
      primals: its arguments, as a sequence; all are differentiated.
      tangents: one tree for each primal, as in `jvp`.
      loss: a function of f's output that returns one number; by default half the sum of squares,
        for which H is the identity.

    Returns:
      A tuple with one tree for each primal.
    """
    out, pushed = jvp(f, primals, tangents)
    if loss is not None:
        (pushed,) = hvp(loss, (out,), (pushed,))
    _, pullback = vjp(f, *primals)
    product: tuple[Any, ...] = pullback(pushed)
    return product


@overload
def elementwise_grad(
    f: np.ufunc, argnums: int | str | Sequence[int | str] = 0
) -> Callable[..., Any]: ...


@overload
def elementwise_grad(
    f: Callable[P, Any], argnums: int | str | Sequence[int | str] = 0
) -> Callable[P, Any]: ...


def elementwise_grad(
    f: Callable[..., Any], argnums: int | str | Sequence[int | str] = 0
) -> Callable[..., Any]:
    """The derivative of an elementwise function at every element, by one reverse pass.

    >>> import numpy as np
    >>> elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])

    It is the gradient of the sum of f's output, which is the derivative of each element if each
    output element depends on its own input element only. May be applied repeatedly.

    Args:
      f: a function that takes and returns arrays of one shape.
      argnums: which argument, or arguments, to differentiate with respect to; each of the output's
        shape.

    Raises:
      ShapeError: if f's output has another shape than the argument, so that it is not elementwise.
    """

    check_differentiated(f, argnums, "elementwise_grad")

    def run(*args: Any, **kwargs: Any) -> Any:
        call = FlatCall(f, argnums, args, kwargs, False, "elementwise_grad")

        def slopes_of(keeper: WriteGuards) -> list[Any]:
            values, pullback = call.linearized(keeper)
            if call.outputs is not pytree.LEAF:
                raise StructureMismatchError(
                    f"elementwise_grad needs a function that returns one array, but {describe(f)} "
                    f"returned {call.outputs}."
                )
            out = typeof(values[0])
            for leaf, name in zip(call.leaves, call.names, strict=True):
                if shape_of(leaf) != out.shape:
                    raise ShapeError(
                        f"elementwise_grad of {describe(f)}: the output has shape {out.shape}, but "
                        f"{name} has {shape_of(leaf)}, so f is not elementwise in it. Use "
                        "jacobian, or grad of a sum."
                    )
            ones = np.ones(out.shape, out.dtype)
            return [
                zeros(Type(out.shape, typeof(leaf).dtype)) if slope is None else slope
                for leaf, slope in zip(call.leaves, pullback([ones]), strict=True)
            ]

        slopes = guarded(slopes_of)
        structure = derivative(call.inputs, call.outputs)
        return pytree.unflatten(structure, owned(slopes) if current() is EVAL else slopes)

    return TransformedFunction(run, elementwise_grad, f, argnums)
