"""The data set that fungrad ships for examples, and minibatches.

Source and licence stand beside the data, in old_faithful.md.

Minibatches of arrays in memory, for stochastic gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.support import pytree


def minibatches(
    data: Any, size: int, *, rng: Any = None, epochs: int = 1, drop_last: bool = True
) -> Iterator[Any]:
    """Batches of arrays along their first axis, each row once an epoch.

    Args:
      data: a tree of arrays with the same length of the first axis.
      size: the rows of a batch.
      rng: a numpy.random.Generator, or a seed, that shuffles each epoch; None keeps the order.
      epochs: the number of passes over all rows.
      drop_last: whether to leave out an incomplete batch at the end of an epoch: a compiled
        function then sees one shape.

    Returns:
      An iterator of trees as `data`.

    Raises:
      ArgumentError: if the arrays differ in length, or hold less than one batch.

    >>> x, y = np.arange(5.0), np.arange(5)
    >>> for batch in minibatches((x, y), 2, drop_last=False):
    ...     print(*batch)
    [0. 1.] [0 1]
    [2. 3.] [2 3]
    [4.] [4]
    """
    leaves, treedef = pytree.flatten(data)
    arrays = [np.asarray(leaf) for leaf in leaves]
    lengths = {array.shape[:1] for array in arrays}
    if len(lengths) != 1 or () in lengths:
        raise ArgumentError(
            "minibatches takes arrays whose first axes are equally long, but their shapes are "
            f"{', '.join(str(array.shape) for array in arrays) or 'none'}."
        )
    ((rows,),) = lengths
    if size < 1 or (drop_last and rows < size):
        raise ArgumentError(
            f"A batch of {size} rows cannot be made of {rows}: choose a smaller size, or "
            "drop_last=False."
        )
    generator = None if rng is None else np.random.default_rng(rng)

    def batches() -> Iterator[Any]:
        for _ in range(epochs):
            order = np.arange(rows) if generator is None else generator.permutation(rows)
            for start in range(0, rows - size + 1 if drop_last else rows, size):
                chosen = order[start : start + size]
                yield pytree.unflatten(treedef, [array[chosen] for array in arrays])

    return batches()


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
