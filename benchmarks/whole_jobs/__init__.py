"""Whole jobs with other people's packages, as their users write them: `python -m
benchmarks.whole_jobs [PACKAGE ...] [-v]` differentiates those of the packages that are installed.

Each is a function of parameters through the package's own classes, which know nothing of fungrad.
The jobs of pyquaternion, transforms3d, ase, bilby, colossus, ht, skyfield, tmm, geopy and pingouin
were written before their source was read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.third_party import FIRST

Make = Callable[[], Callable[[Any], Any]]

JOBS: list[tuple[str, str, Any, Make, float]] = []
"""The package, the job, its argument, the maker of its function, and how far it may be off."""


def job(package: str, name: str, x: Any, first: float = FIRST) -> Callable[[Make], Make]:
    """Enters the maker of a job's function, which imports the package."""

    def enter(make: Make) -> Make:
        JOBS.append((package, name, x, make, first))
        return make

    return enter


def row(*numbers: float) -> Any:
    """Numbers as an array."""
    return np.array(numbers, dtype=float)
