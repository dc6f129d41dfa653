"""A Graph as a function of jax.numpy: equation by equation, or with fungrad's derivatives.

JAX must not differentiate the translated operations: it knows no custom rules and no erased stops,
and its derivatives of `where` and `abs` differ. So `differentiable` wraps a Graph in
`jax.custom_vjp` with fungrad's backward Graph, which is wrapped in turn, for every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.passes.pipeline import optimised
from fungrad.engines.jax import arrays, elementwise  # noqa: F401 - rules
from fungrad.engines.jax.elementwise import RULES, STRUCTURAL, Options, cast, jax, jnp
from fungrad.errors import UnsupportedFunctionError
from fungrad.ir.graph import Equation, Graph
from fungrad.retracing.graph_transforms import (
    differentiate,
    drop_dead,
    joint,
    memoised,
    strong_type,
)
from fungrad.scipy.linalg.matrix_functions import matrix_function
from fungrad.tracing.interpreter import evaluated_by

Function = Callable[..., list[Any]]


def run(graph: Graph, args: Sequence[Any], options: Options) -> list[Any]:
    """The outputs of a Graph on JAX's arrays."""

    def applied(equation: Equation, inputs: list[Any]) -> Any:
        outputs = apply(equation, inputs, options)
        return outputs if equation.primitive.multiple else outputs[0]

    return [
        x if type_.dtype.kind == "O" else cast(x, type_.dtype)
        for x, type_ in zip(evaluated_by(applied, graph, args), graph.output_types, strict=True)
    ]


def apply(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    """The results of one equation."""
    primitive: Any = equation.primitive
    types = [atom.type for atom in equation.inputs]
    if primitive in STRUCTURAL:
        outputs: Sequence[Any] = STRUCTURAL[primitive](equation, args, options)
        return outputs
    function = RULES.get(primitive) or elementwise.special(primitive)
    dtypes = None
    if function is None and primitive.partials is not None:
        function = elementwise.of_ufunc(primitive)
        dtypes = elementwise.loop_dtypes(primitive, types) if function is not None else None
    if function is None and primitive is matrix_function:
        function = elementwise.matrix_exponential if equation.params["name"] == "expm" else None
    if function is None:
        return _called_back(equation, args, options)
    if dtypes is None:
        dtypes = [t.dtype for t in types]
    given = [
        x if t.dtype.kind == "O" else cast(x, d)
        for x, d, t in zip(args, dtypes, types, strict=True)
    ]
    results = function(*given, **equation.params)
    results = tuple(results) if primitive.multiple else (results,)
    return [cast(x, v.type.dtype) for x, v in zip(results, equation.outputs, strict=True)]


def _called_back(equation: Equation, args: Sequence[Any], options: Options) -> Sequence[Any]:
    """The results of a primitive without a rule: computed by NumPy on the host, if allowed."""
    primitive: Any = equation.primitive
    if not options.callbacks:
        where = "" if equation.source is None else f" ({equation.source})"
        raise UnsupportedFunctionError(
            f"fg.to_jax has no rule for `{primitive.name}`{where}. Pass callbacks=True to compute "
            "it by NumPy on the host (it cannot be sharded then), or give a rule: "
            "fg.extend.jax_rule(primitive, function)."
        )
    types = [atom.type for atom in equation.inputs]
    results = [v.type for v in equation.outputs]

    def host(*values: Any) -> Any:
        plain = [
            np.asarray(x).item() if t.weak and not t.shape else np.asarray(x)
            for x, t in zip(values, types, strict=True)
        ]
        outputs = primitive.eval(*plain, **equation.params)
        outputs = outputs if primitive.multiple else (outputs,)
        return tuple(
            np.asarray(x, t.dtype).reshape(t.shape) for x, t in zip(outputs, results, strict=True)
        )

    shapes = tuple(jax.ShapeDtypeStruct(t.shape, t.dtype) for t in results)
    given = [cast(x, t.dtype) for x, t in zip(args, types, strict=True)]
    found: Sequence[Any] = jax.pure_callback(host, shapes, *given, vmap_method="sequential")
    return found


# --- derivatives ----------------------------------------------------------------------------------


def differentiable(graph: Graph, options: Options) -> Function:
    """A Graph as a function of JAX's arrays whose derivatives, of every order, are fungrad's."""
    key = ("jax", options.callbacks, options.max_steps)
    function: Function = memoised(graph, key, lambda: _differentiable(graph, options))
    return function


def opaque(graph: Graph, options: Options) -> Any:
    """A Graph in a `jax.custom_vjp` without its rule yet.

    JAX does not differentiate inside, so the optimised Graph runs, with stops erased.
    """
    return jax.custom_vjp(lambda *args: run(optimised(graph), args, options))


def _differentiable(graph: Graph, options: Options) -> Function:
    wanted = [t.inexact for t in graph.input_types]
    function = opaque(graph, options)

    def forward(*args: Any) -> Any:
        halves = differentiate(graph, wanted)
        if any(v.type.dtype.kind == "O" for v in halves.backward.inputs):
            return differentiable(graph, options)(*args), (True, args)
        outputs = differentiable(halves.forward, options)(*args)
        count = len(graph.outputs)
        return outputs[:count], (False, outputs[count:])

    def backward(residuals: Any, cotangents: Sequence[Any]) -> Any:
        again, held = residuals
        given = [
            cast(c, t.dtype)
            for c, t in zip(cotangents, graph.output_types, strict=True)
            if t.inexact
        ]
        if again:  # a loop's record is not an array of JAX: the loop runs again
            whole, reached = joint(graph, wanted)
            pullback = _only(whole, len(graph.outputs))
        else:
            halves = differentiate(graph, wanted)
            pullback, reached = halves.backward, halves.reached
        pulled = iter(differentiable(pullback, options)(*held, *given))
        return tuple(
            next(pulled) if i in reached else _zero(t) for i, t in enumerate(graph.input_types)
        )

    function.defvjp(forward, backward)
    return lambda *args: function(
        *[cast(x, t.dtype) for x, t in zip(args, graph.input_types, strict=True)]
    )


def _only(whole: Graph, first: int) -> Graph:
    """A joint Graph without its `first` outputs."""
    result: Graph = memoised(
        whole, ("jax", first), lambda: drop_dead(whole.replace(outputs=whole.outputs[first:]))
    )
    return result


def _zero(type_: Any) -> Any:
    return jnp.zeros(type_.shape, strong_type(type_).dtype) if type_.inexact else None
