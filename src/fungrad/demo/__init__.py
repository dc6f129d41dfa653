"""`fungrad demo`: four uses of stop_gradient at work, each gradient checked against a hand formula.

Written as a user of fungrad would: knows the public functions only. The formulas are derived in the
docstrings; every claim is a number compared with a number.
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
    """Runs the four demos, with the time that each took; `advance` is called after each."""
    results = []
    for run in DEMOS:
        start = time.perf_counter()
        result = run(seed)
        result.seconds = time.perf_counter() - start
        results.append(result)
        advance()
    return results
