"""The data set that fungrad ships for examples, and minibatches.

Source and licence stand beside the data, in old_faithful.md.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from fungrad.data.minibatches import minibatches


class OldFaithful(NamedTuple):
    """The two columns of the Old Faithful data, in minutes, float64[272] each."""

    eruptions: np.ndarray[Any, np.dtype[np.float64]]
    waiting: np.ndarray[Any, np.dtype[np.float64]]


def old_faithful() -> OldFaithful:
    """272 eruptions of the Old Faithful geyser: duration, and waiting time to the next, in minutes.

    Source: R's `datasets::faithful`, after W. Härdle (1991), Smoothing Techniques, Springer.

    >>> eruptions, waiting = old_faithful()
    >>> eruptions.shape, round(float(eruptions.mean()), 6), round(float(waiting.mean()), 6)
    ((272,), 3.487783, 70.897059)
    """
    with files(__name__).joinpath("old_faithful.csv").open(encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.float64)
    return OldFaithful(table[:, 0].copy(), table[:, 1].copy())


__all__ = ["OldFaithful", "minibatches", "old_faithful"]
