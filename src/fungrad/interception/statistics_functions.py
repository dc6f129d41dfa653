"""Replacements of functions of Python's module `statistics` while a transform traces.

The originals compute with fractions or with plain floats, which would lose the derivative. Those
here take traced numbers, and pass all other data on. `median`, `median_low`, `median_high` and
`quantiles` sort and add up numbers, and are not replaced.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from fungrad.errors import UnsupportedArgumentError
from fungrad.interception.math_functions import TABLE as _NUMBERS
from fungrad.interception.math_functions import fsum
from fungrad.interception.python_numbers import traced_in
from fungrad.tracing import interception
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, Tracer, current


def _mean(data: list[Any], weights: Any = None) -> Any:
    if weights is None:
        return fsum(data) / len(data)
    weights = list(weights)
    return fsum([x * w for x, w in zip(data, weights, strict=True)]) / fsum(weights)


def _geometric_mean(data: list[Any]) -> Any:
    return np.exp(_mean([_NUMBERS["log"](x) for x in data]))


def _harmonic_mean(data: list[Any], weights: Any = None) -> Any:
    if any(bool(x < 0) for x in data):
        from statistics import StatisticsError  # imported already

        raise StatisticsError("harmonic mean does not support negative values")
    weights = [1.0] * len(data) if weights is None else list(weights)
    return fsum(weights) / fsum([w / x for x, w in zip(data, weights, strict=True)])


def _squares(data: list[Any], center: Any = None) -> Any:
    center = _mean(data) if center is None else center
    return fsum([(x - center) * (x - center) for x in data])


def _pvariance(data: list[Any], mu: Any = None) -> Any:
    return _squares(data, mu) / len(data)


def _variance(data: list[Any], xbar: Any = None) -> Any:
    return _squares(data, xbar) / (len(data) - 1)


def _pstdev(data: list[Any], mu: Any = None) -> Any:
    return np.sqrt(_pvariance(data, mu))


def _stdev(data: list[Any], xbar: Any = None) -> Any:
    return np.sqrt(_variance(data, xbar))


def _median_grouped(data: list[Any], interval: Any = 1.0) -> Any:
    data = sorted(data)
    middle = data[len(data) // 2]
    below = sum(bool(x < middle) for x in data)
    equal = sum(bool(x == middle) for x in data)
    return middle - interval / 2 + interval * (len(data) / 2 - below) / equal


def _groups(data: list[Any]) -> list[list[Any]]:
    """The items in groups of equal ones: hashes of traced values tell apart what is equal."""
    groups: list[list[Any]] = []
    for x in data:
        for group in groups:
            if bool(group[0] == x):
                group.append(x)
                break
        else:
            groups.append([x])
    return groups


def _mode(data: list[Any]) -> Any:
    return max(_groups(data), key=len)[0]


def _multimode(data: list[Any]) -> Any:
    groups = _groups(data)
    most = max(map(len, groups))
    return [group[0] for group in groups if len(group) == most]


def _covariance(x: list[Any], y: list[Any]) -> Any:
    return _products(x, y) / (len(x) - 1)


def _products(x: list[Any], y: list[Any]) -> Any:
    mx, my = _mean(x), _mean(y)
    return fsum([(a - mx) * (b - my) for a, b in zip(x, y, strict=True)])


def _correlation(x: list[Any], y: list[Any], *, method: str = "linear") -> Any:
    if method != "linear":
        raise UnsupportedArgumentError(
            f"statistics.correlation was called with method={method!r}{user_line()}, which fungrad "
            "does not take for traced values: write fungrad.scipy.stats.spearmanr, or call it on "
            "fg.stop_gradient(x) where no gradient is wanted."
        )
    return _products(x, y) / np.sqrt(_squares(x) * _squares(y))


def _linear_regression(x: list[Any], y: list[Any], *, proportional: bool = False) -> Any:
    from statistics import LinearRegression  # imported already

    if proportional:
        products = [a * b for a, b in zip(x, y, strict=True)]
        return LinearRegression(fsum(products) / fsum([a * a for a in x]), 0.0)
    slope = _products(x, y) / _squares(x)
    return LinearRegression(slope, _mean(y) - slope * _mean(x))


TABLE: dict[str, Callable[..., Any]] = {
    "correlation": _correlation, "covariance": _covariance, "fmean": _mean,
    "geometric_mean": _geometric_mean, "harmonic_mean": _harmonic_mean,
    "linear_regression": _linear_regression, "mean": _mean,
    "median_grouped": _median_grouped, "mode": _mode, "multimode": _multimode, "pstdev": _pstdev,
    "pvariance": _pvariance, "stdev": _stdev, "variance": _variance,
}  # fmt: skip
"""The functions of statistics."""
_LEAST = {"correlation": 2, "covariance": 2, "linear_regression": 2, "stdev": 2, "variance": 2}
"""By function: the fewest data that it takes, if not one; the original raises for fewer."""
_OF_TWO = ("correlation", "covariance", "linear_regression")


def _traced(value: Any) -> bool:
    return traced_in(value, "__float__") is not None


def _replacing(
    name: str, original: Callable[..., Any], ours: Callable[..., Any]
) -> Callable[..., Any]:
    series = 2 if name in _OF_TWO else 1

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is EVAL:
            return original(*args, **kwargs)
        data = [x if type(x) is Tracer else list(x) for x in args[:series]]
        rest = [*args[series:], *kwargs.values()]
        found = [*data, *(x for x in rest if isinstance(x, list | tuple)), rest]
        if not any(type(x) is Tracer or any(map(_traced, x)) for x in found):
            return original(*data, *args[series:], **kwargs)
        given = [list(x) for x in data]
        if len({len(x) for x in given}) > 1 or len(given[0]) < _LEAST.get(name, 1):
            return original(*[[math.nan] * len(x) for x in given])  # which raises
        return ours(*given, *args[series:], **kwargs)

    return function


def _replacements(module: ModuleType) -> dict[str, Any]:
    own = vars(module)
    return {name: _replacing(name, own[name], ours) for name, ours in TABLE.items() if name in own}


interception.register_later("statistics", _replacements)
