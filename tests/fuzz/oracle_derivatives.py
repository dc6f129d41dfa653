"""Oracles of derivatives: compiled against eager, backward against forward, and differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fungrad as fg

from .case import Case, Outcome
from .noise import Spread
from .oracles import oracle, raised, two_ways


@oracle("jit of grad", 30)
def jit_of_grad(case: Case) -> str:
    gradient, given = case.gradient()
    return two_ways(case, "jit", gradient, given, fg.jit(gradient))


@oracle("grad of jit", 6)
def grad_of_jit(case: Case) -> str:
    f, given = case.partial()
    cotangents = case.weights(case.outputs(), 1)
    gradient, _ = case.gradient()
    inner = fg.jit(f)
    return two_ways(
        case, "jit", gradient, given, lambda *xs: fg.vjp(inner, *xs)[1](cotangents), loose=True
    )


@oracle("jit of jvp", 8)
def jit_of_jvp(case: Case) -> str:
    f, given = case.partial()
    tangents = case.weights(given, 2)
    push = lambda *xs: fg.jvp(f, xs, tangents)[1]  # noqa: E731
    return two_ways(case, "jit", push, [np.asarray(x) for x in given], fg.jit(push))


@oracle("vmap of grad", 5)
def vmap_of_grad(case: Case) -> str:
    gradient, given = case.gradient()
    if any(value.kind == "python" for value in case.program.inputs):
        raise Outcome("a number of Python's")

    def looped(*xs: Any) -> Any:
        return [np.stack([g, g]) for g in gradient(*xs)]

    def mapped(*xs: Any) -> Any:
        return fg.vmap(gradient)(*(np.stack([x, x]) for x in xs))

    return two_ways(case, "vmap", looped, given, mapped, loose=True)


@oracle("order 2", 4)
def second(case: Case) -> str:
    """The gradient of a gradient: eager and compiled."""
    gradient, given = case.gradient()
    if case.program.large:
        raise Outcome("large")
    weights = case.weights(given, 3)

    def twice(*xs: Any) -> Any:
        return fg.vjp(gradient, *xs)[1](tuple(weights))

    return two_ways(case, "jit", twice, given, fg.jit(twice))


@oracle("transposes", 10)
def transposes(case: Case) -> str:
    """<cotangents, J tangents> is <J^T cotangents, tangents>."""
    f, given = case.partial()
    if not case.tame() or "custom" in case.program.source:
        raise Outcome("values are not moderate")
    given = [np.asarray(x) for x in given]
    tangents, cotangents = case.weights(given, 2), case.weights(case.outputs(), 1)

    def forward(*xs: Any) -> Any:
        return _inner(cotangents, fg.jvp(f, xs, tangents)[1])

    def backward(*xs: Any) -> Any:
        return _inner(fg.vjp(f, *xs)[1](cotangents), tangents)

    try:
        with np.errstate(all="ignore"):
            a, b = forward(*given), backward(*given)
    except Exception as error:
        return raised(error)
    if not (np.isfinite(a) and np.isfinite(b)):
        return (
            ""
            if not np.isfinite(a) and not np.isfinite(b)
            else _kink(case, f"{b!r} backward, {a!r} forward")
        )
    scale = 0.0
    for graph_of in (forward, backward):
        runs = Spread(fg.make_jaxpr(graph_of)(*given), given, loose=True).results(4)
        scale = max(scale, *(abs(float(r[0]) - float(runs[0][0])) for r in runs))
    terms = _size(cotangents, fg.jvp(f, tuple(given), tangents)[1]) + _size(
        fg.vjp(f, *given)[1](cotangents), tangents
    )
    eps = _coarsest(case.graph)
    if abs(a - b) <= 64 * scale + 1e4 * eps * (terms + abs(a)) or np.isnan(scale):
        return ""
    return f"backward mode gives {b!r}, forward mode {a!r}"


def _coarsest(graph: Any) -> float:
    """The largest unit of rounding among the dtypes that a Graph computes in."""
    atoms = [*graph.inputs, *(v for equation in graph.equations for v in equation.outputs)]
    found = [float(np.finfo(a.type.dtype).eps) for a in atoms if a.type.inexact]
    return max([*found, *map(_coarsest, graph.subgraphs())], default=0.0)


def _kink(case: Case, text: str) -> str:
    raise Outcome("infinite derivatives")


def _inner(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum(np.sum(np.real(w * t)) for w, t in zip(left, right, strict=True))


def _size(left: Sequence[Any], right: Sequence[Any]) -> float:
    return float(sum(np.sum(np.abs(w) * np.abs(t)) for w, t in zip(left, right, strict=True)))


@oracle("differences", 12)
def differences(case: Case) -> str:
    """Derivatives along a direction against central differences, of smooth programs."""
    if not case.program.smooth or not case.tame():
        raise Outcome("not smooth")
    f, given = case.partial()
    given = [np.asarray(x) for x in given]
    if any(x.dtype != np.float64 for x in given):
        raise Outcome("not of doubles")
    tangents = case.weights(given, 2)
    plain = case.program.plain
    where = case.floats()

    def at(step: float) -> list[Any]:
        full = list(case.args)
        for i, x, t in zip(where, given, tangents, strict=True):
            full[i] = x + step * t
        return [np.asarray(o) for o in plain(*full) if np.asarray(o).dtype.kind in "fc"]

    try:
        pushed = fg.jvp(f, tuple(given), tangents)[1]
    except Exception as error:
        return raised(error)
    step = 1e-4
    coarse, fine = (
        [(p - m) / (2 * h) for p, m in zip(at(h), at(-h), strict=True)] for h in (step, step / 2)
    )
    for i, (c, d, found) in enumerate(zip(coarse, fine, pushed, strict=True)):
        size = float(np.max(np.abs(case.outputs()[i]), initial=0.0))
        error = 4 * np.abs(c - d) + 1e-6 * (1 + np.abs(d)) + 1e-7 * size
        steep = np.abs(found) * step > 0.3 * (1 + size)  # it may turn on the way
        bad = ~((np.abs(found - d) <= error) | steep)
        if bad.any():
            k = np.argmax(bad)
            return f"output {i}: derivative {np.ravel(found)[k]!r}, differences {np.ravel(d)[k]!r}"
    return ""
