"""The cases of `python -m benchmarks`, in the order in which they run."""

from benchmarks.cases import elementwise, learning, models, sequences
from benchmarks.cases.case import ARRAYS, ELEMENTWISE, LOOP, Case

ALL: tuple[Case, ...] = (
    *elementwise.CASES,
    *learning.CASES,
    *models.CASES,
    *sequences.CASES,
)

__all__ = ["ALL", "ARRAYS", "ELEMENTWISE", "LOOP", "Case"]
