"""The public verbs of differentiation: grad, value_and_grad, vjp, jvp.

They flatten trees, check arguments, call reverse or forward mode, and rebuild trees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.primitive import or_zero, zeros
from fungrad.support import pytree
from fungrad.tracing.captured_arrays import WriteGuards
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interception import copies
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.quantity_trees import of_numbers
from fungrad.tracing.shadows import shadowed
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.spoiled_memory import Spoiled
from fungrad.tracing.trace import EVAL, current, typeof
from fungrad.tracing.tracing_check import OBSERVED, compare_suspected, observed
from fungrad.tracing.transformed_function import TransformedFunction, boundary
from fungrad.transforms.arguments import (
    NONDIFF,
    UNCONNECTED,
    Inputs,
    argument_name,
    check_choice,
    check_differentiated,
    flat_leaves,
    leaf_names,
    leaf_type,
    matching,
    owned,
    rebuilt,
    refuse_leaf,
    require_complex,
    resolve,
    results_and_aux,
    seed_of,
    with_parts,
)
from fungrad.transforms.engine.forward import pushed_forward
from fungrad.transforms.engine.reverse import linearized

P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")


def _pullback_of(
    f: Callable[..., Any],
    call: Callable[[Sequence[Any]], Any],
    inputs: Inputs,
    has_aux: bool,
    verb: str,
    keeper: WriteGuards | None = None,
) -> tuple[list[Any], pytree.TreeDef, Any, Any]:
    """Runs f; returns the output leaves, their structure, the aux tree and the flat pullback, which
    takes a cotangent for each of the leaves.

    Without a keeper the pullback goes to the user, who may call it at any time.
    """
    shapes: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        found, *shapes[:] = results_and_aux(f, call(inputs.with_active(values)), has_aux)
        return found

    leaves, handed = inputs.differentiated(), keeper is None

    def label() -> str:
        return f"{verb} of {describe(f)}"

    if getattr(f, "__code__", None) not in OBSERVED and current() is EVAL:
        run = functools.partial(linearized, flat, leaves, label, keeper, handed)
        values, pullback = observed(f, run, flat, leaves)
    else:  # the usual case
        before = Spoiled.arrays
        values, pullback = linearized(flat, leaves, label, keeper, handed)
        if Spoiled.arrays != before:
            run = functools.partial(linearized, flat, leaves, label, keeper, handed)
            compare_suspected(f, run, flat, leaves, values, before)
    count, treedef, aux_def = shapes
    if current() is EVAL:
        values = owned(values, inputs.leaves)
    if not has_aux:
        return values, treedef, None, pullback
    return values[:count], treedef, pytree.unflatten(aux_def, values[count:]), pullback


@overload
def value_and_grad(
    f: Callable[P, tuple[R, Aux]],
    argnums: int | str | Sequence[int | str] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[P, tuple[tuple[R, Aux], Any]]: ...


@overload
def value_and_grad(
    f: Callable[P, R],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[P, tuple[R, Any]]: ...


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[..., Any]:
    """A function that computes `f` and its gradient in one evaluation.

    >>> import numpy as np
    >>> value, slope = value_and_grad(np.sin)(0.0)
    >>> float(value), float(slope)
    (0.0, 1.0)

    Args:
      f: a pure function that returns one real number (shape ()).
      argnums: which argument, or arguments, to differentiate with respect to: positions or names.
        The arguments may be trees of floating or complex arrays and numbers.
      has_aux: whether f returns a pair (output, aux); aux is returned undifferentiated.
      holomorphic: whether f is a holomorphic function, complex to complex.
      unconnected: the gradient of an input that the output does not depend on differentiably:
        "zero", "none" (None), or "error".
      nondiff: what to do with integer, boolean or other leaves: "error", "none" (None in their
        place) or "zero".

    Returns:
      A function with f's arguments that returns (value, gradient), or ((value, aux), gradient). The
      gradient has the structure, shapes and dtypes of the argument; it is a tuple of gradients if
      argnums is a sequence. For complex x = a + ib and real f it is df/da - i df/db.

    Raises:
      NonScalarOutputError, NonDifferentiableInputError, UnconnectedError, ArgumentError.
    """
    return _differentiated(
        value_and_grad, True, f, argnums, has_aux, holomorphic, unconnected, nondiff
    )


def _differentiated(
    verb: Callable[..., Any],
    with_value: bool,
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str],
    has_aux: bool,
    holomorphic: bool,
    unconnected: str,
    nondiff: str,
) -> TransformedFunction:
    """The result of `grad` and `value_and_grad`, for their arguments."""
    check_differentiated(f, argnums, verb.__name__)
    check_choice("unconnected", unconnected, UNCONNECTED)
    check_choice("nondiff", nondiff, NONDIFF)
    several = isinstance(argnums, (tuple, list))

    def run(*args: Any, **kwargs: Any) -> Any:
        if argnums == 0 and args:
            keys: list[int | str] = [0]
            parts: list[Any] = [args[0]]

            def call(new: Sequence[Any]) -> Any:
                if copies:
                    return f(*new, *shadowed(args[1:]), **shadowed(kwargs))
                return f(*new, *args[1:], **kwargs)

        else:
            keys = resolve(f, argnums, args, kwargs)
            parts = [args[k] if isinstance(k, int) else kwargs[k] for k in keys]

            def call(new: Sequence[Any]) -> Any:
                positional, named = with_parts(keys, new, shadowed(args), shadowed(kwargs))
                return f(*positional, **named)

        inputs = Inputs(parts, lambda: leaf_names(f, keys, parts), "grad", nondiff)
        if holomorphic:
            require_complex(inputs, "input")
        keeper = WriteGuards()
        try:
            values, treedef, aux, pullback = _pullback_of(f, call, inputs, has_aux, "grad", keeper)
            seed = seed_of(f, values, treedef, holomorphic)
            gradients = inputs.cotangents(pullback([seed]), unconnected, (), treedef)
        finally:
            try:
                if keeper.locked or keeper.copied:
                    keeper.release()
            except BaseException:  # an interrupt has cut it short
                keeper.release()
                raise
        gradient = tuple(gradients) if several else gradients[0]
        if not with_value:
            return (gradient, aux) if has_aux else gradient
        value = pytree.unflatten(treedef, values)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return TransformedFunction(
        run, verb, f, argnums, has_aux, holomorphic, unconnected=unconnected, nondiff=nondiff
    )


@overload
def grad(
    f: Callable[P, tuple[Any, Aux]],
    argnums: int | str | Sequence[int | str] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[P, tuple[Any, Aux]]: ...


@overload
def grad(
    f: Callable[P, Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[P, Any]: ...


def grad(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    unconnected: str = "zero",
    nondiff: str = "error",
) -> Callable[..., Any]:
    """The gradient of a function of one real output, as a function.

    >>> import numpy as np
    >>> grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> float(grad(grad(grad(np.tanh)))(0.0))
    -2.0

    Args:
      f: a pure function that returns one real number (shape ()).
      argnums: which argument, or arguments, to differentiate with respect to: positions or names.
        The arguments may be trees of floating or complex arrays and numbers.
      has_aux: whether f returns a pair (output, aux); aux is returned undifferentiated.
      holomorphic: whether f is a holomorphic function, complex to complex.
      unconnected: the gradient of an input that the output does not depend on differentiably:
        "zero", "none" (None), or "error".
      nondiff: what to do with integer, boolean or other leaves: "error", "none" (None in their
        place) or "zero".

    Returns:
      A function with f's arguments that returns the gradient, or with has_aux the pair (gradient,
      aux). The gradient has the structure, shapes and dtypes of the argument; it is a tuple of
      gradients if argnums is a sequence. For complex x = a + ib and real f it is df/da - i df/db.

    Raises:
      NonScalarOutputError, NonDifferentiableInputError, UnconnectedError, ArgumentError.
    """
    return _differentiated(grad, False, f, argnums, has_aux, holomorphic, unconnected, nondiff)


class Pullback:
    """The linear map that `vjp` returns. It is pickled as its Graph, which holds the residuals, and
    so without the function.
    """

    def __init__(
        self,
        flat: Callable[[Sequence[Any]], Sequence[Any]],
        inputs: Inputs,
        treedef: pytree.TreeDef,
        types: Sequence[Type | None],
        unconnected: str,
    ) -> None:
        self._flat = flat
        self._inputs = inputs
        self._treedef = treedef
        self._types = types
        self._unconnected = unconnected

    @boundary
    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        given = pytree.match(self._treedef, cotangent, "cotangent")
        checked = [matching(c, t, "cotangent") for c, t in zip(given, self._types, strict=True)]
        return tuple(
            self._inputs.cotangents(self._flat(checked), self._unconnected, given, self._treedef)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        flat = self._flat if isinstance(self._flat, PullbackGraph) else self._program()
        return Pullback, (flat, self._inputs, self._treedef, self._types, self._unconnected)

    def _program(self) -> PullbackGraph:
        given = [type_ is not None and type_.inexact for type_ in self._types]
        reached: list[bool] = []

        def flat(*cotangents: Any) -> list[Any]:
            values = iter(cotangents)
            found = self._flat([next(values) if there else None for there in given])
            reached[:] = [value is not None for value in found]
            return [value for value in found if value is not None]

        types = [Type(t.shape, t.dtype) for t in self._types if t is not None and t.inexact]
        names = [f"cotangent {i}" for i in range(len(types))]
        return PullbackGraph(stage(flat, types, names, lambda: "a pullback"), given, reached)


class PullbackGraph:
    """A Graph as a flat function of cotangents; None is an integer output's, or zero."""

    def __init__(self, graph: Graph, given: Sequence[bool], reached: Sequence[bool]) -> None:
        self.graph = graph
        self.given = given
        self.reached = reached

    def __call__(self, cotangents: Sequence[Any]) -> list[Any]:
        values = [c for c, there in zip(cotangents, self.given, strict=True) if there]
        found = iter(evaluate(self.graph, list(map(or_zero, values, self.graph.input_types))))
        return [next(found) if hit else None for hit in self.reached]


@boundary
def vjp(
    f: Callable[P, Any], *primals: Any, has_aux: bool = False, unconnected: str = "zero"
) -> tuple[Any, ...]:
    """Evaluates f, and returns its output and its pullback of cotangents.

    >>> import numpy as np
    >>> out, pullback = vjp(np.multiply, 2.0, 5.0)
    >>> tuple(float(c) for c in pullback(1.0))
    (5.0, 2.0)

    Args:
      f: a pure function of trees that returns a tree.
      *primals: its arguments. Integer and other non-differentiable leaves get None as cotangent.
      has_aux: whether f returns a pair (output, aux).
      unconnected: "zero", "none" or "error", as in `value_and_grad`.

    Returns:
      (output, pullback) or (output, pullback, aux). `pullback(cotangent)` takes a tree like the
      output and returns a tuple with one tree for each primal. It may be called many times.

    Raises:
      UnconnectedError: with `unconnected="error"`. The pullback raises StructureMismatchError.
    """
    check_function(f, "vjp")
    check_choice("unconnected", unconnected, UNCONNECTED)
    inputs = Inputs(primals, lambda: leaf_names(f, range(len(primals)), primals), "vjp", "none")
    values, treedef, aux, flat_pullback = _pullback_of(
        f,
        lambda new: f(*new),  # type: ignore[call-arg]
        inputs,
        has_aux,
        "vjp",
    )
    types = [leaf_type(value) for value in values]
    pullback = Pullback(flat_pullback, inputs, treedef, types, unconnected)
    output = pytree.unflatten(treedef, values)
    return (output, pullback, aux) if has_aux else (output, pullback)


@boundary
def jvp(
    f: Callable[P, Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Evaluates f, and pushes a tangent forward through it.

    >>> import numpy as np
    >>> value, slope = jvp(np.sin, (0.0,), (2.0,))
    >>> float(slope)
    2.0

    Args:
      f: a pure function of trees that returns a tree.
      primals: the arguments, a tuple.
      tangents: a tuple with a tree for each primal, of the same structure, shapes and dtypes; None
        is a zero tangent of a whole argument, and the tangent of a non-differentiable leaf.
      has_aux: whether f returns a pair (output, aux).

    Returns:
      (output, tangent) or (output, tangent, aux). The tangent of an output that cannot be
      differentiated is a zero of its type.

    Raises:
      ArgumentError, StructureMismatchError, NonDifferentiableInputError: if primals and tangents
        do not fit f or each other.
    """
    check_function(f, "jvp")
    if not (isinstance(primals, (tuple, list)) and isinstance(tangents, (tuple, list))):
        raise ArgumentError(
            "jvp takes tuples of primals and tangents, with an entry for each argument: "
            f"fg.jvp(f, (x,), (v,)){user_line()}."
        )
    if len(primals) != len(tangents):
        raise StructureMismatchError(
            f"{len(primals)} primals, but {len(tangents)} tangents were given."
        )
    leaves: list[Any] = []
    moved: list[Any] = []
    treedefs = []
    for position, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        part, treedef = of_numbers(flat_leaves, primal)
        if tangent is None:
            given: list[Any] = [None] * len(part)
        else:
            given, found = of_numbers(pytree.flatten, tangent)
            if found != treedef:
                given = _sparse_leaves(treedef, tangent, f, position)
        for leaf, t in zip(part, given, strict=True):
            type_ = leaf_type(leaf)
            if t is not None and (type_ is None or not type_.inexact):
                raise refuse_leaf(leaf, argument_name(f, position), "jvp")
            leaves.append(leaf)
            moved.append(matching(t, type_, "tangent"))
        treedefs.append(treedef)
    shapes: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        args = rebuilt(values, treedefs)
        out = f(*(shadowed(args) if copies else args))  # type: ignore[call-arg]
        found, *shapes[:] = of_numbers(results_and_aux, f, out, has_aux)
        return found

    def run() -> Any:
        return pushed_forward(flat, leaves, moved, lambda: f"jvp of {describe(f)}")

    values, pushed = observed(f, run, flat, leaves)
    count, out_def, aux_def = shapes
    full = [
        zeros(Type(typeof(v).shape, typeof(v).dtype))
        if t is None and leaf_type(v) is not None
        else t
        for v, t in zip(values[:count], pushed[:count], strict=True)
    ]
    if current() is EVAL:
        new = owned([*values, *full], [*leaves, *moved])
        values, full = new[: len(values)], new[len(values) :]
    result = (pytree.unflatten(out_def, values[:count]), pytree.unflatten(out_def, full))
    return (*result, pytree.unflatten(aux_def, values[count:])) if has_aux else result


def _sparse_leaves(treedef: pytree.TreeDef, tangent: Any, f: Any, position: int) -> list[Any]:
    """The leaves of a tangent tree, some of which may be None, the zero tangent."""
    leaves, found = pytree.flatten(tangent, is_leaf=lambda x: x is None)
    if found != treedef:
        return pytree.match(treedef, tangent, f"tangent of {argument_name(f, position)}")
    return leaves
