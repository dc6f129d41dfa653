"""Sums and means of groups and rolling windows of pandas, for traced values.

pandas computes them by compiled routines. Their counterparts are gathers and sums by group; as in
pandas a NaN is left out, and a group or window of fewer numbers than it needs is NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from fungrad.primitives.movement.gather import ARRAY, Index, getitem, scatter
from fungrad.tracing import interception
from fungrad.tracing.created_arrays import holds_traced, unwrapped
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of

_ROWS = Index((ARRAY,))


def _is_traced(values: Any) -> bool:
    return current() is not EVAL and (type(values) is Tracer or holds_traced(values))


def _sums(values: Any, groups: Any, count: int) -> Any:
    """The sums of the rows of values that belong to each of `count` groups."""
    return scatter(values, groups, index=_ROWS, shape=(count, *shape_of(values)[1:]))


def _reduced(values: Any, groups: Any, count: int, fewest: int, is_mean: bool) -> Any:
    """The sums or means by group of the rows of values."""
    known = values == values
    total = _sums(np.where(known, values, 0.0), groups, count)
    number = _sums(np.where(known, 1.0, 0.0), groups, count)
    enough = number >= max(fewest, int(is_mean))
    found = total / np.where(number > 0, number, 1.0) if is_mean else total
    return np.where(enough, found, np.nan)


def _window(is_mean: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def roll(values: Any, start: Any, end: Any, minp: int, *args: Any, **kwargs: Any) -> Any:
        if not _is_traced(values):
            return original(values, start, end, minp, *args, **kwargs)
        counts = np.asarray(end - start, np.intp)
        window = np.repeat(np.arange(len(counts)), counts)
        indices = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts - start, counts)
        picked = getitem(unwrapped(values), np.asarray(indices, np.intp), index=_ROWS)
        return _reduced(picked, window, len(counts), max(minp, 1), is_mean)

    return roll


def _windows(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    return {
        "roll_sum": _window(False, vars(module)["roll_sum"]),
        "roll_mean": _window(True, vars(module)["roll_mean"]),
    }


def _groups(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    kind = module.WrappedCythonOp
    name = "_call_cython_op"
    original = vars(kind)[name]

    @functools.wraps(original)
    def reduced(self: Any, values: Any, **options: Any) -> Any:
        plain = not _is_traced(values) or self.how not in ("sum", "mean")
        if plain or options.get("mask") is not None:
            return original(self, values, **options)
        labels = np.asarray(options["comp_ids"], np.intp)
        inside = np.flatnonzero(labels >= 0)
        rows = getitem(np.transpose(unwrapped(values)), inside, index=_ROWS)
        fewest, count = options["min_count"], options["ngroups"]
        return np.transpose(_reduced(rows, labels[inside], count, fewest, self.how == "mean"))

    interception.register_special_method(kind, name, reduced)
    return {}


interception.register_later("pandas._libs.window.aggregations", _windows)
interception.register_later("pandas.core.groupby.ops", _groups)
