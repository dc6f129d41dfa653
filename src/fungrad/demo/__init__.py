"""`fungrad demo`: four uses of stop_gradient, each gradient checked against a hand-derived formula.

The demos use public functions only. The formulas are derived in the docstrings; every claim
compares two numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fungrad.demo import adversary, boltzmann, mixture, softmax
from fungrad.demo.claims import Claim, Result

__all__ = ["Claim", "Result", "run_all"]

DEMOS: tuple[Callable[[int], Result], ...] = (
    softmax.run,
    mixture.run,
    boltzmann.run,
    adversary.run,
)


def run_all(seed: int = 0, advance: Callable[[], None] = lambda: None) -> list[Result]:
    """Runs and times the four demos; `advance` is called after each."""
    results = []
    for run in DEMOS:
        start = time.perf_counter()
        result = run(seed)
        result.seconds = time.perf_counter() - start
        results.append(result)
        advance()
    return results
