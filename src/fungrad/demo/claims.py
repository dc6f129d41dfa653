"""The report of a demo: sentences about its findings, and claims with their measured errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fungrad as fg

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Claim:
    """A statement, the error of its numbers, and the tolerance."""

    text: str
    error: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the error is within the tolerance (a NaN never is)."""
        return self.error <= self.tolerance


@dataclass
class Result:
    """The findings of one demo."""

    title: str
    found: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0

    def compare(self, text: str, ours: Any, hand: Any, tolerance: float = 1e-12) -> None:
        """Claims that two arrays agree, relative to the largest entry of the second."""
        ours, hand = np.asarray(ours), np.asarray(hand)
        largest = float(np.max(np.abs(hand))) or 1.0
        error = float(np.max(np.abs(ours - hand))) / largest
        self.claims.append(Claim(text, error, tolerance))

    def count_equations(
        self, stopped: Callable[..., Any], unstopped: Callable[..., Any], *args: Any
    ) -> None:
        """Finds the equations in the IR of the gradients of a function with and without stops."""
        counts = [len(fg.make_jaxpr(fg.grad(f))(*args).equations) for f in (stopped, unstopped)]
        self.found.append(f"equations of the gradient: {counts[0]} stopped, {counts[1]} unstopped")


def relative_gap(ours: Any, hand: Any) -> float:
    """The largest difference relative to the largest entry of the second array."""
    return float(np.max(np.abs(np.asarray(ours) - hand)) / np.max(np.abs(hand)))
