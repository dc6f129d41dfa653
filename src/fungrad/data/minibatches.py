"""Minibatches of arrays in memory, for stochastic gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
