"""Samples of the structural primitives, harvested from programs that use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sampling import SAMPLES, add

import fungrad as fg
from fungrad.ir.graph import Graph, Literal

NAMES = ("call", "while_loop", "scan", "switch")
FAMILY = {f"{name}{part}" for name in NAMES for part in ("", "_record", "_pullback")}


def harvest(f: Callable[..., Any], *args: Any) -> None:
    """Makes a sample of every call of a structural primitive that f makes."""
    graph: Graph = fg.make_jaxpr(f)(*args)
    values: dict[Any, Any] = {**dict(graph.constants), **dict(zip(graph.inputs, args, strict=True))}
    for equation in graph.equations:
        read = [a.value if isinstance(a, Literal) else values[a] for a in equation.inputs]
        name, params = equation.primitive.name, equation.params
        found = equation.primitive(*read, **params)
        outputs = found if equation.primitive.multiple else (found,)
        values.update(zip(equation.outputs, outputs, strict=True))
        if name in FAMILY and name.endswith("_pullback") and params["trailed"]:
            # The trail only spares it the recording; without one it is a function of its arguments.
            read = [x for x in read if np.asarray(x).dtype != object]
            params = {**params, "trailed": False}
        if name in FAMILY:
            add(name, *read, **params)


def both(f: Callable[..., Any], *args: Any) -> None:
    """Harvests from f and from its gradient."""
    harvest(f, *args)
    harvest(fg.grad(lambda *xs: np.sum(f(*xs))), *args)


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
