"""The flow of an ODE as a function with rules of its own (optimise, then discretise).

Forward mode integrates the variational equation beside the state, with the state's steps; reverse
mode integrates the adjoint equation backwards (Pontryagin et al. 1962; Chen et al., Neural Ordinary
Differential Equations, 2018, appendix B), and holds nothing but the states at the output times.
Both are flows again, so all orders follow. Knows no method: any solver will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.lax.control import scan
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.grad import jvp, vjp
from fungrad.transforms.vmap_and_staging import vmap

Right = Callable[[Sequence[Any], Any, Any], Any]
"""A right-hand side: (parameters, t, y) -> the slope of y."""


class Solver(Protocol):
    """How initial value problems are solved."""

    def __call__(
        self,
        right: Right,
        parameters: Sequence[Any],
        times: Any,
        y0: Any,
        bound: Any,
        controlled: int,
    ) -> tuple[Any, Any, Any]:
        """(ys, evaluations, failed); the first `controlled` elements of y0 decide on the steps."""

    @property
    def pull_back(self) -> Callable[..., tuple[Any, list[Any]]] | None:
        """(right, parameters, moving, times, ys, cotangents) -> (the costate at the first time, the
        cotangents of the moving parameters), where the solver has a way of its own.
        """


class Joined:
    """Arrays as one vector, and back."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self.types = [typeof(x) for x in examples]
        self.dtype = np.result_type(*[t.dtype for t in self.types])
        self.sizes = [t.size for t in self.types]

    def join(self, parts: Sequence[Any]) -> Any:
        """One vector of the common dtype."""
        return np.concatenate([np.reshape(p, (-1,)).astype(self.dtype) for p in parts])

    def split(self, vector: Any) -> list[Any]:
        """The arrays with their own shapes and dtypes."""
        found = []
        start = 0
        for type_, size in zip(self.types, self.sizes, strict=True):
            part = np.reshape(vector[start : start + size], type_.shape)
            if self.dtype.kind == "c" and type_.dtype.kind != "c":
                part = np.real(part)
            found.append(part.astype(type_.dtype))
            start += size
        return found


def flow(right: Right, solver: Solver, controlled: int) -> Custom:
    """The function (parameters, times, y0, bound) -> (ys, evaluations, failed).

    times[0] is where y0 holds; ys has a row for each time. `bound` only says how far the solver may
    step.
    """

    def find(parameters: Any, times: Any, y0: Any, bound: Any) -> Any:
        return solver(right, parameters, times, y0, bound, controlled)

    def push(primals: Any, tangents: Any) -> Any:
        parameters, times, y0, bound = primals
        d_parameters, d_times, d_y0, _ = tangents
        moving = [i for i, d in enumerate(d_parameters) if d is not None]
        n = shape_of(y0)[0]

        def both(given: Any, t: Any, state: Any) -> Any:
            own, change = given[: len(parameters)], given[len(parameters) :]
            slope, pushed = jvp(
                lambda p, y: right(filled(own, moving, p), t, y),
                ([own[i] for i in moving], state[:n]),
                (list(change), state[n:]),
            )
            return np.concatenate([slope, pushed])

        change = y0 * 0.0 if d_y0 is None else d_y0
        if d_times is not None:
            change = change - right(parameters, times[0], y0) * d_times[0]
        pushes = [d_parameters[i] for i in moving]
        found, evaluations, failed = flow(both, solver, controlled)(
            [*parameters, *pushes], times, np.concatenate([y0, change]), bound
        )
        ys, d_ys = found[:, :n], found[:, n:]
        if d_times is not None:
            slopes = vmap(lambda t, y: right(parameters, t, y))(times, ys)
            d_ys = d_ys + slopes * d_times[:, None]
        return (ys, evaluations, failed), (d_ys, None, None)

    def forward(parameters: Any, times: Any, y0: Any, bound: Any, wanted: Any) -> Any:
        out = solution(parameters, times, y0, bound)
        return out, (parameters, times, out[0])

    def backward(saved: Any, cotangent: Any, wanted: Any) -> Any:
        parameters, times, ys = saved
        moving = [i for i, w in enumerate(wanted[0]) if w and typeof(parameters[i]).inexact]
        found = _adjoint(right, solver, parameters, moving, times, ys, cotangent[0])
        of_moving, of_times, of_y0 = found
        of_parameters: list[Any] = [None] * len(parameters)
        for i, part in zip(moving, of_moving, strict=True):
            of_parameters[i] = part
        return of_parameters, of_times, of_y0, None

    solution = Custom(find, ())
    solution.defjvp(push, symbolic_zeros=True)
    solution.defvjp(forward, backward, wanted=True)
    return solution


def filled(values: Sequence[Any], places: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The values with the parts put in at the places."""
    full = list(values)
    for i, part in zip(places, parts, strict=True):
        full[i] = part
    return full


def _adjoint(
    right: Right, solver: Solver, parameters: Sequence[Any], moving: Sequence[int],
    times: Any, ys: Any, cotangents: Any,
) -> tuple[list[Any], Any, Any]:  # fmt: skip
    """The cotangents of the moving parameters, of the times and of y0."""
    given = (right, parameters, moving, times, ys, cotangents)
    if solver.pull_back is None:
        costate, gathered = backwards(solver, *given)
    else:
        costate, gathered = solver.pull_back(*given)
    slopes = vmap(lambda t, y: right(parameters, t, y))(times, ys)
    weights = np.concatenate([-costate[None], cotangents[1:]])
    of_times = np.real(np.sum(weights * slopes, axis=1))
    return gathered, of_times, costate + cotangents[0]


def backwards(
    solver: Solver, right: Right, parameters: Sequence[Any], moving: Sequence[int], times: Any,
    ys: Any, cotangents: Any,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The costate at the first time, and the cotangents of the moving parameters, from flows that
    take the state back with them.
    """
    moved = [parameters[i] for i in moving]
    joined = Joined([ys[0], ys[0], *moved])
    count = len(parameters)

    def slope_back(given: Any, t: Any, state: Any) -> Any:
        y, costate, *_ = joined.split(state)
        slope, pullback = vjp(
            lambda p, y: right(filled(given[:count], moving, p), t, y),
            [given[i] for i in moving], y,
        )  # fmt: skip
        of_moved, of_y = pullback(costate)
        return joined.join([slope, -of_y, *[-part for part in of_moved]])

    back = flow(slope_back, solver, sum(joined.sizes))

    def segment(carry: Any, item: Any) -> Any:
        costate, gathered = carry
        t, before, y, cotangent = item
        ends = np.stack([t, before])
        start = joined.join([y, costate + cotangent, *gathered])
        out, _, _ = back(list(parameters), ends, start, before)
        _, costate, *gathered = joined.split(out[1])
        return (costate, gathered), None

    zeros = [np.zeros(t.shape, t.dtype) for t in joined.types[1:]]
    rows = (times[1:], times[:-1], ys[1:], cotangents[1:])
    (costate, gathered), _ = scan(segment, (zeros[0], zeros[1:]), rows, reverse=True)
    return costate, gathered


__all__ = ["Joined", "Right", "Solver", "backwards", "filled", "flow"]
