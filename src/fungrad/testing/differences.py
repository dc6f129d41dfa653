"""Slopes by central differences, and how far they can be trusted.

What `check_grads` and the command `fungrad check` compare derivatives with. Knows functions of one
number that give arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.support.record import Record

ROUNDINGS = 16
"""How many units of the last place of a function's largest value its rounding may come to."""
ROUGH = 1e-2
"""Where two steps differ by more than this share of the slope, neither of them is trusted."""
CLOSE = 1e-4
"""As far as this share of the slope, the difference of two steps may be an error of the slope."""


class Slope(Record):
    """A derivative by differences, with its size and the bounds of its errors.

    `doubt` is the disagreement of two steps, `noise` what rounding may come to, and `bend` how much
    the slopes to the two sides differ, where that does not shrink with the step: at a kink.
    """

    value: Any
    size: float
    doubt: float
    noise: float
    bend: float

    @property
    def slack(self) -> float:
        """By how much a right derivative may differ from the value."""
        return self.noise + min(self.doubt, CLOSE * self.size)

    @property
    def trusted(self) -> bool:
        """Whether the value says something about a derivative."""
        return self.doubt <= ROUGH * self.size + self.noise and self.noise <= ROUGH * self.size


def slopes(at: Callable[[float], list[Any]], step: float, epsilon: float) -> list[Slope]:
    """The derivatives at 0 of a function of one number that gives arrays of floats.

    Args:
      at: the function.
      step: the larger of the two steps.
      epsilon: the rounding of the function's arithmetic, relative.

    Richardson's extrapolation (1911) of steps h and h/2, (4 D(h/2) - D(h)) / 3: error h**4.
    """
    values = [at(sign * step / part) for part in (1, 2) for sign in (1.0, -1.0)]
    rows = zip(*values, at(0.0), strict=True)
    return [_slope(row, step, epsilon) for row in rows]


def _slope(values: tuple[Any, ...], step: float, epsilon: float) -> Slope:
    above, below, half_above, half_below, centre = values
    coarse = (above - below) / (2 * step)
    fine = (half_above - half_below) / step
    value = (4 * fine - coarse) / 3
    wide = _largest(above - 2 * centre + below) / step
    narrow = _largest(half_above - 2 * centre + half_below) / (step / 2)
    return Slope(
        value,
        size=_largest(value),
        doubt=_largest(fine - coarse) / 3,
        noise=ROUNDINGS * epsilon * max(map(_largest, (above, below))) / step,
        bend=narrow if narrow > 0.75 * wide else 0.0,
    )


def spreads(at: Callable[[float], list[Any]], step: float, value: Any, position: int) -> Any:
    """How far the differences of one output with several steps are from a slope, entry by entry.

    The steps have no simple ratio, so that values rounded to multiples of a unit far larger than
    their own last place do not agree by chance.
    """
    found = []
    for share in (1.0, 0.73, 0.41, 0.29):
        above, below = (at(sign * share * step)[position] for sign in (1.0, -1.0))
        found.append(np.abs((above - below) / (2 * share * step) - value))
    return np.max(found, axis=0)


def _largest(values: Any) -> float:
    return float(np.max(np.abs(values), initial=0.0))


__all__ = ["ROUGH", "ROUNDINGS", "Slope", "slopes", "spreads"]
