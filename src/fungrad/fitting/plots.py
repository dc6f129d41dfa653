"""Plots of a fit: residuals, pulls, profiles. They need Matplotlib (extra `viz`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.errors import MissingExtraError
from fungrad.support import pytree
from fungrad.support.lazy import imported


def _axes(axes: Any) -> Any:
    """The given Axes, or those of a new figure."""
    if axes is not None:
        return axes
    try:
        pyplot = imported("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            'Plots of a fit need Matplotlib. Install it with: pip install "fungrad[viz]"'
        ) from error
    return pyplot.subplots(figsize=(6.0, 3.4), layout="constrained")[1]


def _sets(tree: Any) -> list[tuple[str, Any]]:
    """The names of data sets, and their numbers in one row."""
    leaves, treedef = pytree.flatten(tree)
    return [
        (path.strip(".[]'\""), np.ravel(leaf))
        for path, leaf in zip(pytree.paths(treedef), leaves, strict=True)
    ]


def residuals(fit: Any, axes: Any) -> Any:
    """Pulls in order, one colour for each data set."""
    axes = _axes(axes)
    begin = 0
    for name, values in _sets(fit.pulls):
        axes.plot(np.arange(begin, begin + values.size), values, "o", ms=3.5, label=name)
        begin += values.size
    axes.axhline(0.0, color="#888888", lw=1)
    axes.set(xlabel="datum", ylabel="(data - model) / σ")
    if len(_sets(fit.pulls)) > 1:
        axes.legend()
    return axes


def pulls(fit: Any, axes: Any) -> Any:
    """The histogram of all pulls, beside the standard normal density."""
    axes = _axes(axes)
    values = np.concatenate([part for _, part in _sets(fit.pulls)])
    axes.hist(values, bins="auto", density=True, color="#1f5fa8", alpha=0.4, label="pulls")
    z = np.linspace(min(-3.5, values.min()), max(3.5, values.max()), 200)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    axes.plot(z, density, color="#555555", label="standard normal")
    axes.set(xlabel="(data - model) / σ", ylabel="density")
    axes.legend(loc="upper left", frameon=False)
    return axes


def profile(found: Any, axes: Any) -> Any:
    """The growth of the sum of squares along one parameter, and its interval."""
    axes = _axes(axes)
    axes.plot(found.values, found.roots**2, "o-", ms=3.5, color="#1f5fa8")
    for end in (found.low, found.high):
        if np.isfinite(end):
            axes.axvline(end, color="#888888", lw=1)
    axes.set(xlabel=found.name, ylabel="growth of χ²")
    return axes
