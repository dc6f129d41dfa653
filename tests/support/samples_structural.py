"""Samples of the structural primitives, harvested from programs that use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sampling import SAMPLES, add

import fungrad as fg
from fungrad.ir.graph import Graph, Literal

STRUCTURAL = ("control_flow", "custom_rules", "debugging", "host", "implicit", "rematerialisation")
"""The folders whose primitives hold Graphs or functions of the user."""


def harvest(f: Callable[..., Any], *args: Any, upto: int = 2) -> None:
    """Makes a sample of every call of a structural primitive that f makes."""
    harvest_graph(fg.make_jaxpr(f)(*args), args, upto)


def harvest_graph(graph: Graph, args: Sequence[Any], upto: int) -> None:
    values: dict[Any, Any] = {**dict(graph.constants), **dict(zip(graph.inputs, args, strict=True))}
    for equation in graph.equations:
        read = [a.value if isinstance(a, Literal) else values[a] for a in equation.inputs]
        primitive, params = equation.primitive, equation.params
        found = primitive(*read, **params)
        values.update(zip(equation.outputs, found if primitive.multiple else (found,), strict=True))
        if primitive.module.split(".")[1] not in STRUCTURAL:
            continue
        if params.get("taped"):
            # The tape only spares it the recording; without one it is a function of its arguments.
            read = [x for x in read if np.asarray(x).dtype != object]
            params = {**params, "taped": False}
        if primitive.name in ("custom", "checkpoint", "recompute"):
            harvest_graph(params["graph"], read, upto)
        add(primitive.name, *read, upto=0 if primitive.cuts is True else upto, **params)


def both(f: Callable[..., Any], *args: Any, upto: int = 2) -> None:
    """Harvests from f and from its gradient."""
    harvest(f, *args, upto=upto)
    harvest(fg.grad(lambda *xs: np.sum(f(*xs))), *args, upto=upto)


X = np.array([0.3, -0.4, 1.1])

both(fg.jit(lambda x, y: np.sin(x) * y), X, 2.0)


def coupled(x: Any) -> Any:
    """A loop of two carries that depend on each other."""
    count, v = fg.lax.while_loop(
        lambda c: c[0] < 3.5,
        lambda c: (c[0] + 1.0 + 0.1 * np.sin(c[1][0]), np.sin(c[1]) + 0.1 * c[0]),
        (x[1], x),
    )
    return count * v


both(coupled, X)
both(lambda x: fg.lax.while_loop(lambda c: c < 10.0, lambda c: c * c * 0.25 + 1.25, x), 1.5)
both(lambda x: fg.lax.scan(lambda c, v: (np.tanh(c + v), c * v), 0.5 * x[0], x)[1], X)
both(lambda x: fg.lax.scan(lambda c, v: (c * np.cos(v), v), x, np.arange(3.0))[0], 0.4)
both(lambda x: fg.lax.switch(1, [np.sin, np.cos, lambda v: v * v], x), X)
both(lambda x: fg.lax.cond(np.sum(x) > 0.5, np.sin, lambda v: v * v, x), X)
both(
    lambda x: fg.lax.scan(lambda c, v: (np.tanh(c + v), c * v), x[0], x, checkpoint="binomial")[1],
    X,
)
for sample in tuple(SAMPLES["scan"]):  # reverse mode makes one of these with checkpoints only
    wanted = tuple(np.asarray(arg).dtype.kind in "fc" for arg in sample.args)
    add("scan_record", *sample.args, wanted=wanted, **sample.params)


@fg.custom_vjp
def cubed(x: Any) -> Any:
    """x^3, with a rule of its own."""
    return x**3


@fg.custom_jvp
def squared(x: Any) -> Any:
    """x^2, with a rule of its own."""
    return x * x


cubed.defvjp(lambda x: (x**3, x), lambda x, g: (3.0 * x**2 * g,))
squared.defjvps(lambda t, y, x: 2.0 * x * t)
both(cubed, X)
both(squared, X)
both(fg.checkpoint(lambda x: np.sin(np.cos(x)) * x), X)
both(fg.checkpoint(lambda x: fg.checkpoint_name(np.sin(x), "s") * x, policy=fg.save_names("s")), X)
harvest(fg.external(np.sin, shape=lambda x: x), X, upto=-1)
harvest(lambda a: fg.fixed_point(lambda x, a: 0.5 * (x + a / x), 1.0, a, tol=1e-15), 2.0)
harvest(lambda x: (fg.debug.callback(lambda v: None, x), x)[1], X)
