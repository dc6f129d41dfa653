"""Periods of a sequence of words: the distances at which the same words follow one another again.

Equal windows of 1, 2, 4, ... words are ranked by prefix doubling (Karp, Miller and Rosenberg,
1972); the most frequent distances of neighbouring equal windows are the candidates. The time is
n log(n)^2 for n words.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fungrad.compiler.cost_model import costs


def candidates(words: np.ndarray) -> list[int]:
    """Distances at which windows of words often recur, each once."""
    periods: dict[int, None] = {}
    rank, width = np.unique(words, return_inverse=True)[1].astype(np.int64), 1
    while True:
        order = np.argsort(rank, kind="stable")
        ordered = rank[order]
        gaps = np.diff(order)[ordered[1:] == ordered[:-1]]
        if not len(gaps):
            return list(periods)
        distances, counts = np.unique(gaps, return_counts=True)
        often = np.lexsort((distances, -counts))[: costs.rerolled_periods]
        periods.update(dict.fromkeys(distances[often].tolist()))
        if 2 * width >= len(words):
            return list(periods)
        pairs = rank[:-width] * (rank.max() + 1) + rank[width:]
        rank, width = np.unique(pairs, return_inverse=True)[1].astype(np.int64), 2 * width


def runs(same: np.ndarray) -> Iterator[tuple[int, int]]:
    """The longest stretches (start, stop) of true values, the longest first."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
    starts, stops = edges[::2], edges[1::2]
    for i in np.argsort(starts - stops, kind="stable").tolist():
        yield int(starts[i]), int(stops[i])
