"""The table of samples of every primitive, and functions that fill it.

`SAMPLES[name]` lists the samples of a primitive. Its derivatives are compared with
finite differences up to `order` (0 at a kink: there the modes are compared with each other),
moving all arguments but the `fixed` ones. To add a primitive, add a line to its family's table
in samples_elementwise.py or samples_arrays.py; test_rules.py fails until there is one.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

F32, F64, C64, C128 = (np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))
I32, I64, BOOL = (np.dtype(t) for t in (np.int32, np.int64, np.bool_))


class Sample(NamedTuple):
    """Arguments and parameters of a call of a primitive."""

    name: str
    args: tuple[Any, ...]
    params: dict[str, Any]
    order: int = 2
    fixed: tuple[int, ...] = ()

    def __repr__(self) -> str:
        args = ", ".join(
            f"{a.dtype.name}{list(a.shape)}" if hasattr(a, "dtype") else repr(a) for a in self.args
        )
        return f"{self.name}({args}; {self.params})"


SAMPLES: dict[str, list[Sample]] = {}


def add(
    primitive: str, /, *args: Any, upto: int = 2, fixed: tuple[int, ...] = (), **params: Any
) -> None:
    """Adds a sample of a primitive. Differences of single precision are too coarse for second
    derivatives.
    """
    if any(getattr(a, "dtype", None) in (F32, C64) for a in args):
        upto = min(upto, 1)
    SAMPLES.setdefault(primitive, []).append(Sample(primitive, args, params, upto, fixed))


def draw(key: str, shape: Sequence[int], dtype: Any, low: float = -2.0, high: float = 2.0) -> Any:
    """Numbers of a dtype in a domain; the same ones in every run, and distinct from each other."""
    random = np.random.default_rng(zlib.crc32(f"{key}{shape}{dtype}".encode()))
    dtype = np.dtype(dtype)
    shape = tuple(shape)
    if dtype == BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(int(np.ceil(low)), int(high) + 1, shape).astype(dtype)
    # Evenly spread and shuffled, so that no two are closer than finite differences can tell.
    size = int(np.prod(shape, dtype=int))
    grid = low + (high - low) * (np.arange(size) + random.uniform(0.25, 0.75, size)) / max(size, 1)
    values = random.permutation(grid).reshape(shape)
    if dtype.kind == "c":
        values = values + 1j * random.uniform(0.2, 0.9, shape)
    return values.astype(dtype)
