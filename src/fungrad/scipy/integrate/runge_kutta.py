"""Explicit Runge-Kutta methods: one step, its error estimate, its interpolant.

Tables and formulas alone; knows no loop, no tolerance and no derivative. RK45 is Dormand & Prince
1980 (RK5(4)7M) with the interpolant of Shampine 1986, RK23 Bogacki & Shampine 1989, DOP853 Hairer,
Norsett & Wanner, Solving Ordinary Differential Equations I, whose table SciPy brings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from fungrad.scipy.optional import scipy_module

Slope = Callable[[Any, Any], Any]


def combined(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    """The sum of the slopes with these weights, zeros left out."""
    total: Any = None
    for weight, slope in zip(weights, slopes, strict=False):
        if weight:
            term = weight * slope
            total = term if total is None else total + term
    return total


class RungeKutta:
    """An embedded pair.

    Args:
      a: for each stage the weights of the slopes before it. b, c: the weights of the solution,
        and the stages' times.
      e: the weights of the error estimate, the slope at the end of the step last.
      p: the interpolant: a row for each slope, a column for each power of x = (t - t_old) / h.
      error_order: the order of the error estimate.
    """

    def __init__(self, a: Any, b: Any, c: Any, e: Any, p: Any, error_order: int) -> None:
        self.a, self.b, self.c, self.e = a, b, c, e
        self.p = np.asarray(p)
        self.error_order = error_order
        self.stages = len(b)

    def step(self, fun: Slope, t: Any, y: Any, f: Any, h: Any) -> tuple[Any, Any, Any]:
        """(y, its slope, all slopes stacked) after a step of h from t, y and its slope f."""
        slopes = [f]
        for row, place in zip(self.a[1:], self.c[1:], strict=True):
            slopes.append(fun(t + place * h, y + combined(row, slopes) * h))
        new = y + h * combined(self.b, slopes)
        slopes.append(fun(t + h, new))
        return new, slopes[-1], np.stack(slopes)

    def error_norm(self, slopes: Any, h: Any, scale: Any) -> Any:
        """The root mean square of the error estimate in units of `scale`."""
        return _norm(combined(self.e, list(slopes)) * h / scale)

    def coefficients(
        self, fun: Slope, t: Any, y: Any, new: Any, h: Any, slopes: Any
    ) -> Any:  # fmt: skip
        """What `interpolated` needs of a step, a row for each power."""
        return self.p.T @ slopes

    def interpolated(self, coefficients: Any, x: Any, h: Any, y: Any) -> Any:
        """The solution at x = (t - t_old) / h: coefficients (..., powers, n), x and h (...)."""
        powers = np.cumprod(np.stack([x] * self.p.shape[1], axis=-1), axis=-1)
        return y + h[..., None] * np.sum(coefficients * powers[..., None], axis=-2)


class DormandPrince853(RungeKutta):
    """The method of order 8 with error estimates of orders 5 and 3."""

    def __init__(self, table: Any) -> None:
        super().__init__(
            [row[:i].tolist() for i, row in enumerate(table.A)], table.B.tolist(),
            table.C.tolist(), table.E5.tolist(), np.zeros((0, 7)), 7,
        )  # fmt: skip
        self.e3 = table.E3.tolist()
        self.extra = list(zip(table.A_EXTRA.tolist(), table.C_EXTRA.tolist(), strict=True))
        self.d = table.D

    def error_norm(self, slopes: Any, h: Any, scale: Any) -> Any:
        slopes = list(slopes)
        fifth, third = (
            np.sum(np.square(np.abs(combined(e, slopes) / scale))) for e in (self.e, self.e3)
        )
        total = fifth + 0.01 * third
        count = scale.size if hasattr(scale, "size") else 1
        safe = np.where(total == 0.0, 1.0, total)
        return np.abs(h) * fifth / np.sqrt(safe * count)

    def coefficients(
        self, fun: Slope, t: Any, y: Any, new: Any, h: Any, slopes: Any
    ) -> Any:  # fmt: skip
        found = list(slopes)
        for row, place in self.extra:
            found.append(fun(t + place * h, y + combined(row, found) * h))
        change = new - y
        first, last = found[0], found[self.stages]
        rows = [change, h * first - change, 2.0 * change - h * (last + first)]
        return np.concatenate([np.stack(rows), h * (self.d @ np.stack(found))])

    def interpolated(self, coefficients: Any, x: Any, h: Any, y: Any) -> Any:
        x = x[..., None]
        total = np.zeros(1)
        for i in range(7):
            total = (total + coefficients[..., 6 - i, :]) * (1.0 - x if i % 2 else x)
        return total + y


def _norm(x: Any) -> Any:
    return np.sqrt(np.mean(np.square(np.abs(x))))


RK45 = RungeKutta(
    a=[
        [],
        [1 / 5],
        [3 / 40, 9 / 40],
        [44 / 45, -56 / 15, 32 / 9],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    ],
    b=[35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    c=[0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1],
    e=[-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40],
    p=[
        [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
        [0, 0, 0, 0],
        [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
        [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
        [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
        [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
        [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
    ],
    error_order=4,
)
RK23 = RungeKutta(
    a=[[], [1 / 2], [0, 3 / 4]],
    b=[2 / 9, 1 / 3, 4 / 9],
    c=[0, 1 / 2, 3 / 4],
    e=[5 / 72, -1 / 12, -1 / 9, 1 / 8],
    p=[[1, -4 / 3, 5 / 9], [0, 1, -2 / 3], [0, 4 / 3, -8 / 9], [0, -1, 1]],
    error_order=2,
)

EXPLICIT = ("RK45", "RK23", "DOP853")
"""The methods that run here; all others are SciPy's own."""


@lru_cache(maxsize=8)
def explicit_method(name: str) -> RungeKutta:
    """One of EXPLICIT, by its name."""
    if name == "DOP853":
        return DormandPrince853(scipy_module("scipy.integrate").DOP853)
    return {"RK45": RK45, "RK23": RK23}[name]
