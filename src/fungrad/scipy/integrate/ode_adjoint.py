"""The flow of an ODE as a function with custom rules (optimise, then discretise), and its solvers.

Forward mode integrates the variational equation with the state, with the state's steps; reverse
mode integrates the adjoint equation backwards (Pontryagin et al. 1962; Chen et al., Neural
Ordinary Differential Equations, 2018, appendix B), and keeps only the states at the output times.
Both are flows again, so all orders follow.

SciPy's solvers run as opaque code on arrays, with exact Jacobians. A stiff equation cannot be
integrated back in time, so there the costate is integrated along the interpolant of the forward
solution, and the parameters' cotangents are summed by Gauss' rule on every step (Serban &
Hindmarsh, CVODES, 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.compiler.jit import jit
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.host.external import pure_callback
from fungrad.ir.types import Type
from fungrad.lax.control import scan
from fungrad.retracing.graph_transforms import strong_type
from fungrad.scipy.integrate.runge_kutta import Problem, RungeKutta, Tolerances, solve_at
from fungrad.scipy.optional import scipy_module
from fungrad.tracing.trace import shape_of, typeof
from fungrad.transforms.grad import jvp, vjp
from fungrad.transforms.jacobian import jacfwd
from fungrad.transforms.vmap_and_staging import vmap

Right = Callable[[Sequence[Any], Any, Any], Any]
"""A right-hand side: (parameters, t, y) -> the slope of y."""


class Solver(Protocol):
    """A solver of initial value problems."""

    def __call__(
        self,
        right: Right,
        parameters: Sequence[Any],
        times: Any,
        y0: Any,
        bound: Any,
        controlled: int,
    ) -> tuple[Any, Any, Any]:
        """(ys, evaluations, failed); the first `controlled` elements of y0 determine the steps."""

    @property
    def pull_back(self) -> Callable[..., tuple[Any, list[Any]]] | None:
        """(right, parameters, moving, times, ys, cotangents) -> (the costate at the first time, the
        cotangents of the moving parameters), if the solver has its own way.
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
        parts = []
        start = 0
        for type_, size in zip(self.types, self.sizes, strict=True):
            part = np.reshape(vector[start : start + size], type_.shape)
            if self.dtype.kind == "c" and type_.dtype.kind != "c":
                part = np.real(part)
            parts.append(part.astype(type_.dtype))
            start += size
        return parts


def flow(right: Right, solver: Solver, controlled: int) -> Custom:
    """The function (parameters, times, y0, bound) -> (ys, evaluations, failed).

    times[0] is the time of y0; ys has a row for each time. `bound` only limits the solver's steps.
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
        cotangents = _adjoint(right, solver, parameters, moving, times, ys, cotangent[0])
        of_moving, of_times, of_y0 = cotangents
        of_parameters: list[Any] = [None] * len(parameters)
        for i, part in zip(moving, of_moving, strict=True):
            of_parameters[i] = part
        return of_parameters, of_times, of_y0, None

    solution = Custom(find, ())
    solution.defjvp(push, symbolic_zeros=True)
    solution.defvjp(forward, backward, wanted=True)
    return solution


def filled(values: Sequence[Any], indices: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The values, with the parts at the indices."""
    full = list(values)
    for i, part in zip(indices, parts, strict=True):
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
    """The costate at the first time, and the cotangents of the moving parameters, by flows that
    also integrate the state backwards.
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


def _for_part(tolerances: Tolerances, own: int, controlled: int, size: int) -> Tolerances:
    """The tolerances of a system of the user's `own` equations and of derivatives."""
    if controlled != own:
        tolerances = tolerances._replace(
            rtol=np.min(tolerances.rtol), atol=np.min(tolerances.atol), first_step=None
        )
    return tolerances._replace(controlled=None if controlled == size else controlled)


class ExplicitSolver:
    """A Runge-Kutta method that runs here; `own` is the number of the user's equations."""

    pull_back = None

    def __init__(self, method: RungeKutta, tolerances: Tolerances, own: int) -> None:
        self._method, self._tolerances, self._own = method, tolerances, own

    def __call__(
        self, right: Right, parameters: Sequence[Any], times: Any, y0: Any, bound: Any,
        controlled: int,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        given = _for_part(self._tolerances, self._own, controlled, shape_of(y0)[0])
        problem = Problem(
            self._method, lambda t, y: right(parameters, t, y), times[0], y0, bound, given
        )
        return solve_at(problem, times)


class ScipySolver:
    """One of SciPy's methods; `own` is the number of the user's equations."""

    def __init__(
        self, method: Any, tolerances: Tolerances, own: int, options: dict[str, Any]
    ) -> None:
        self._method, self._own = method, own
        self._options = {
            **options,
            "rtol": np.min(tolerances.rtol),
            "atol": np.min(tolerances.atol),
            "max_step": tolerances.max_step,
        }
        self._first_step = tolerances.first_step

    def _run(
        self, slope: Any, jacobian: Any, span: Any, y0: Any, **more: Any
    ) -> Any:  # fmt: skip
        """scipy.integrate.solve_ivp; SciPy approximates the Jacobian of a complex state."""
        if y0.dtype.kind != "c":
            more["jac"] = jacobian
        return scipy_module("scipy.integrate").solve_ivp(
            slope, span, y0, self._method, **self._options, **more
        )

    def __call__(
        self, right: Right, parameters: Sequence[Any], times: Any, y0: Any, bound: Any,
        controlled: int,
    ) -> tuple[Any, Any, Any]:  # fmt: skip
        slope, jacobian = jit(right), jit(jacfwd(right, argnums=2))
        first_step = self._first_step if controlled == self._own else None

        def run(parameters: Any, times: Any, y0: Any, bound: Any) -> Any:
            if bound == times[0]:
                return np.stack([y0] * len(times)), np.int64(0), np.bool_(False)
            asked, inverse = np.unique(times, return_inverse=True)
            order = -1 if bound < times[0] else 1
            solution = self._run(
                lambda t, y: slope(parameters, np.float64(t), y),
                lambda t, y: jacobian(parameters, np.float64(t), y),
                (times[0], bound), y0, t_eval=asked[::order], first_step=first_step,
            )  # fmt: skip
            ys = np.full((len(asked), len(y0)), np.nan, y0.dtype)
            if len(solution.t):
                ys[: len(solution.t)] = solution.y.T
            return ys[::order][inverse], np.int64(solution.nfev), np.bool_(solution.status < 0)

        count, size = shape_of(times)[0], shape_of(y0)[0]
        types = (Type((count, size), typeof(y0).dtype), Type((), np.int64), Type((), np.bool_))
        answer: tuple[Any, Any, Any] = pure_callback(run, types, list(parameters), times, y0, bound)
        return answer

    def pull_back(
        self, right: Right, parameters: Sequence[Any], moving: Sequence[int], times: Any, ys: Any,
        cotangents: Any,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """See `Solver`. Its derivatives are those of `backwards`, the same function."""

        def find(parameters: Any, times: Any, ys: Any, cotangents: Any) -> Any:
            return self._along_interpolant(right, parameters, moving, times, ys, cotangents)

        def by_flows(parameters: Any, times: Any, ys: Any, cotangents: Any) -> Any:
            return backwards(self, right, parameters, moving, times, ys, cotangents)

        solution = Custom(find, ())
        solution.defjvp(lambda p, t: (solution(*p), jvp(by_flows, p, t)[1]))
        pulled: tuple[Any, list[Any]] = solution(list(parameters), times, ys, cotangents)
        return pulled

    def _along_interpolant(
        self, right: Right, parameters: Sequence[Any], moving: Sequence[int], times: Any, ys: Any,
        cotangents: Any,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        joined = Joined([parameters[i] for i in moving]) if moving else None
        slope, jacobian = jit(right), jit(jacfwd(right, argnums=2))

        def of_state(parameters: Any, t: Any, y: Any, costate: Any) -> Any:
            return vjp(lambda y: right(parameters, t, y), y)[1](costate)[0]

        def of_moving(parameters: Any, t: Any, y: Any, costate: Any) -> Any:
            assert joined is not None
            values = [parameters[i] for i in moving]
            pullback = vjp(lambda p: right(filled(parameters, moving, p), t, y), values)[1]
            return joined.join(pullback(costate)[0])

        pulled = jit(of_state)
        summed = jit(vmap(of_moving, (None, 0, 0, 0)))

        def run(parameters: Any, times: Any, ys: Any, cotangents: Any) -> Any:
            costate = np.zeros_like(ys[0])
            total = 0.0
            for i in range(len(times) - 1, 0, -1):
                costate = costate + cotangents[i]
                if times[i] == times[i - 1]:
                    continue
                state = self._run(
                    lambda t, y: slope(parameters, np.float64(t), y),
                    lambda t, y: jacobian(parameters, np.float64(t), y),
                    (times[i - 1], times[i]), ys[i - 1], dense_output=True,
                ).sol  # fmt: skip
                back = self._run(
                    lambda t, a, y=state: -pulled(parameters, np.float64(t), y(t), a),
                    lambda t, a, y=state: -jacobian(parameters, np.float64(t), y(t)).T,
                    (times[i], times[i - 1]), costate, dense_output=True,
                )  # fmt: skip
                if moving:
                    steps = np.unique(np.concatenate([state.ts, back.sol.ts]))
                    nodes, weights = _gauss_nodes(steps)
                    parts = summed(parameters, nodes, state(nodes).T, back.sol(nodes).T)
                    total = total + np.sign(times[i] - times[i - 1]) * (weights @ parts)
                costate = back.y[:, -1]
            return costate, total if moving else np.zeros(0)

        size = sum(joined.sizes) if joined else 0
        dtype = joined.dtype if joined else np.dtype(np.float64)
        types = (strong_type(typeof(ys[0])), Type((size,), dtype))
        costate, total = pure_callback(run, types, list(parameters), times, ys, cotangents)
        return costate, joined.split(total) if joined else []


def _gauss_nodes(steps: Any) -> tuple[Any, Any]:
    """The points and weights of Gauss' rule of order 12 on each of ascending steps."""
    x, weights = np.polynomial.legendre.leggauss(6)
    half = np.diff(steps)[:, None] / 2.0
    return (steps[:-1, None] + half * (x + 1.0)).ravel(), (half * weights).ravel()
