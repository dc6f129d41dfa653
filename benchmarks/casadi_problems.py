"""Six problems of ODEs and control beside CasADi: `python -m benchmarks.casadi_problems [words]`.

Each is an objective and constraints of one vector, written once, with the functions of a library as
an argument. Compared are the gradient of the Lagrangian, the sparse Jacobian of the constraints,
and the sparse Hessian of the Lagrangian. CasADi gets scalar expressions (SX), its fastest form.
Times are minima of CPU time of one interleaved run, in microseconds; the set-up, in milliseconds,
is that of the first problem of its size, without machine code of earlier processes (set
FUNGRAD_CACHE=0). Values are compared first.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import scipy.sparse

import fungrad as fg
from benchmarks.timing import least_cpu_times

ROUNDS, BURST = 30, 0.002


class Library(NamedTuple):
    """The functions of a library that the problems call.

    Attributes:
      join, column: join vectors, and numbers.
      total: the sum of a vector.
      sin, cos, exp: of each element.
    """

    join: Callable[..., Any]
    column: Callable[..., Any]
    total: Callable[[Any], Any]
    sin: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    exp: Callable[[Any], Any]


def _column(parts: Any) -> Any:
    return ca.vertcat(*parts)


NUMPY = Library(np.concatenate, np.stack, np.sum, np.sin, np.cos, np.exp)
CASADI = Library(_column, _column, ca.sum1, ca.sin, ca.cos, ca.exp)

State = list[Any]
"""The components of the states, each a vector over the times, or a number."""
Field = Callable[[State, Any], State]


def runge_kutta(f: Field, x: State, u: Any, h: float) -> State:
    """A classical Runge-Kutta step."""

    def moved(k: State, by: float) -> State:
        return [a + by * b for a, b in zip(x, k, strict=True)]

    k1 = f(x, u)
    k2 = f(moved(k1, h / 2), u)
    k3 = f(moved(k2, h / 2), u)
    k4 = f(moved(k3, h), u)
    return [a + h / 6 * (p + 2 * q + 2 * r + s)
            for a, p, q, r, s in zip(x, k1, k2, k3, k4, strict=True)]  # fmt: skip


def parted(z: Any, states: int, count: int) -> tuple[State, Any]:
    """The components of states at `count + 1` times, and `count` controls."""
    n = count + 1
    return [z[i * n : (i + 1) * n] for i in range(states)], z[states * n :]


def shooting(of: Callable[[Library], Field], states: int, h: float) -> Callable[..., Any]:
    """Multiple shooting: the states at the end of each step are those of the next."""

    def problem(at: Library, count: int) -> tuple[Any, Any]:
        f = of(at)

        def constraints(z: Any) -> Any:
            x, u = parted(z, states, count)
            ends = runge_kutta(f, [c[:-1] for c in x], u, h)
            return at.join([c[1:] - e for c, e in zip(x, ends, strict=True)])

        def objective(z: Any) -> Any:
            return at.total(z * z)

        return objective, constraints

    return problem


def trapezoids(of: Callable[[Library], Field], states: int, h: float) -> Callable[..., Any]:
    """Direct collocation by trapezoids, controls are constant in each step."""

    def problem(at: Library, count: int) -> tuple[Any, Any]:
        f = of(at)

        def constraints(z: Any) -> Any:
            x, u = parted(z, states, count)
            before, after = f([c[:-1] for c in x], u), f([c[1:] for c in x], u)
            return at.join([c[1:] - c[:-1] - h / 2 * (p + q)
                            for c, p, q in zip(x, before, after, strict=True)])  # fmt: skip

        def objective(z: Any) -> Any:
            return at.total(parted(z, states, count)[1] ** 2)

        return objective, constraints

    return problem


def van_der_pol(at: Library) -> Field:
    """The Van der Pol oscillator with a force."""
    return lambda x, u: [x[1], (1 - x[0] * x[0]) * x[1] - x[0] + u]


def cart_pole(at: Library) -> Field:
    """A pole of mass 0.3 on a cart of mass 1: position, angle, and their speeds."""

    def field(x: State, u: Any) -> State:
        _, angle, speed, turn = x
        s, c = at.sin(angle), at.cos(angle)
        low = 1.0 + 0.3 * s * s
        push = 0.3 * 0.5 * s * turn * turn + u
        return [speed, turn, (push + 0.3 * 9.81 * c * s) / low,
                -(push * c + 1.3 * 9.81 * s) / (0.5 * low)]  # fmt: skip

    return field


def rocket(at: Library) -> Field:
    """Goddard's rocket: height, speed and mass; the air is thinner above."""

    def field(x: State, u: Any) -> State:
        height, speed, mass = x
        drag = 310.0 * speed * speed * at.exp(-500.0 * (height - 1.0))
        return [speed, (u - drag) / mass - 1.0 / (height * height), -2.0 * u]

    return field


def reactor(at: Library) -> Field:
    """A stirred tank: concentration and temperature, with Arrhenius' law; the coolant is the
    control.
    """

    def field(x: State, u: Any) -> State:
        amount, heat = x
        rate = 7.2 * at.exp(-8.75 / heat) * amount
        return [1.0 - amount - rate, 1.0 - heat + 0.6 * rate + 2.1 * (u - heat)]

    return field


def fit(at: Library, count: int) -> tuple[Any, Any]:
    """Single shooting: rates and first state of a Lotka-Volterra model, measured at each step."""
    data = np.random.default_rng(1).random(2 * count)

    def constraints(z: Any) -> Any:
        def field(x: State, _: Any) -> State:
            prey, hunters = x
            return [z[0] * prey - z[1] * prey * hunters, z[2] * prey * hunters - z[3] * hunters]

        x, found = [z[4], z[5]], []
        for _ in range(count):
            x = runge_kutta(field, x, None, 0.1)
            found += x
        return at.column(found) - data

    def objective(z: Any) -> Any:
        residuals = constraints(z)
        return at.total(residuals * residuals)

    return objective, constraints


def masses(at: Library, count: int) -> tuple[Any, Any]:
    """The equilibrium of a chain of masses between two walls: energy, and forces."""

    def lengths(z: Any) -> tuple[Any, Any]:
        x, y = z[:count], z[count:]
        wall = np.zeros(1)
        x, y = at.join([wall, x, wall + 1.0]), at.join([wall, y, wall])
        return x[1:] - x[:-1], y[1:] - y[:-1]

    def objective(z: Any) -> Any:
        a, b = lengths(z)
        apart = (a * a + b * b) ** 0.5 - 0.5 / (count + 1)
        return at.total(100.0 * apart * apart) + at.total(z[count:])

    def constraints(z: Any) -> Any:
        a, b = lengths(z)
        pull = 1.0 - 0.5 / (count + 1) / (a * a + b * b) ** 0.5
        return at.join([(pull * a)[1:] - (pull * a)[:-1], (pull * b)[1:] - (pull * b)[:-1]])

    return objective, constraints


def _near(size: int) -> Any:
    return 1.0 + 0.1 * np.random.default_rng(0).random(size)


def _apart(count: int) -> Any:
    x = np.linspace(0.0, 1.0, count + 2)[1:-1]
    return np.concatenate([x, -x * (1.0 - x)])


PROBLEMS: Mapping[str, tuple[Callable[..., Any], int, Callable[[int], Any]]] = {
    "Van der Pol, shooting": (shooting(van_der_pol, 2, 0.1), 40, lambda n: _near(3 * n + 2)),
    "cart-pole, shooting": (shooting(cart_pole, 4, 0.05), 30, lambda n: _near(5 * n + 4)),
    "rocket, trapezoids": (trapezoids(rocket, 3, 0.01), 50, lambda n: _near(4 * n + 3)),
    "stirred tank, trapezoids": (trapezoids(reactor, 2, 0.1), 60, lambda n: _near(3 * n + 2)),
    "fit of Lotka-Volterra": (fit, 50, lambda n: _near(6)),
    "chain of masses": (masses, 40, _apart),
}  # fmt: skip
"""For each problem its text, its number of steps, and a point for a number of steps."""


def fungrad_derivatives(problem: Any, count: int) -> list[Callable[[], Any]]:
    """Functions that make fungrad's gradient, Jacobian and Hessian."""
    objective, constraints = problem(NUMPY, count)

    def lagrangian(z: Any) -> Any:
        return objective(z) + 0.5 * np.sum(constraints(z))

    return [lambda: fg.jit(fg.grad(lagrangian)), lambda: fg.sparse.jacobian(constraints),
            lambda: fg.sparse.hessian(lagrangian)]  # fmt: skip


def casadi_derivatives(problem: Any, count: int, size: int) -> list[Callable[[], Any]]:
    """The same of CasADi."""
    objective, constraints = problem(CASADI, count)

    def made(derive: Callable[[Any, Any], Any], of: Callable[[Any], Any]) -> Callable[[], Any]:
        def make() -> Any:
            z = ca.SX.sym("z", size)
            return ca.Function("derivative", [z], [derive(of(z), z)])

        return make

    def lagrangian(z: Any) -> Any:
        return objective(z) + 0.5 * ca.sum1(constraints(z))

    return [made(ca.gradient, lagrangian), made(ca.jacobian, constraints),
            made(lambda f, z: ca.hessian(f, z)[0], lagrangian)]  # fmt: skip


def first(make: Callable[[], Any], z: Any) -> tuple[Any, Any, float]:
    """A derivative, its value, and the CPU time of both."""
    start = time.process_time()
    derivative = make()
    value = derivative(z)
    return derivative, value, time.process_time() - start


def dense(value: Any) -> Any:
    """A value of either library as an array."""
    if isinstance(value, ca.DM):
        return np.squeeze(value.full())
    return np.squeeze(value.toarray() if scipy.sparse.issparse(value) else value)


def main() -> None:
    """Prints the table."""
    print("| problem | derivative | fungrad, us | CasADi, us | ratio | set-up, ms | CasADi's | "
          "ratio | difference |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    ratios: list[tuple[float, float]] = []
    for name, (problem, count, point) in PROBLEMS.items():
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        for smaller in (True, False):  # the first imports what it needs
            n = count - smaller
            z = point(n)
            rows = zip(("gradient", "Jacobian", "Hessian"), fungrad_derivatives(problem, n),
                       casadi_derivatives(problem, n, z.size), strict=True)  # fmt: skip
            for what, ours, theirs in rows:
                (f, found, setup), (g, wanted, other) = first(ours, z), first(theirs, z)
                found, wanted = dense(found), dense(wanted)
                apart = np.max(np.abs(found - wanted)) / np.max(np.abs(wanted))
                assert apart < 1e-9, (name, what, apart)
                if smaller:
                    continue
                a, b = least_cpu_times([partial(f, z), partial(g, z)], ROUNDS, BURST)
                ratios.append((a / b, setup / other))
                print(f"| {name} | {what} | {1e6 * a:.1f} | {1e6 * b:.1f} | {a / b:.2f} | "
                      f"{1e3 * setup:.0f} | {1e3 * other:.1f} | {setup / other:.0f} | "
                      f"{apart:.0e} |", flush=True)  # fmt: skip
    calls, setups = zip(*ratios, strict=True)
    print(f"calls: geometric mean {statistics.geometric_mean(calls):.2f}, worst {max(calls):.2f}; "
          f"set-up {statistics.geometric_mean(setups):.0f}, {max(setups):.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
