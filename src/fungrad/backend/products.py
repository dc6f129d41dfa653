"""Floor 6: products of matrices in blocks, each on the thread that asks for it.

Several threads that multiply at once would wait for those that a BLAS has of its own. OpenBLAS
takes none for real products of few terms (its interface/gemm.c and gemv.c); larger ones are done in
such pieces. Knows NumPy and how many threads its BLAS has.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fungrad.backend.kernels import PIECE
from fungrad.backend.threads import single_blas

TERMS = 262_144
"""The most terms of a product of matrices that OpenBLAS computes on one thread."""


def one_thread(dtype: np.dtype[Any]) -> bool:
    """Whether products of a dtype are the BLAS's, and can be done so that each takes one thread."""
    return dtype.char in ("fdFD" if single_blas() else "fd" if _openblas() else "")


@functools.cache
def _openblas() -> bool:
    built: Any = np.show_config(mode="dicts")
    return "openblas" in built.get("Build Dependencies", {}).get("blas", {}).get("name", "")


def product() -> Any:
    """The function that multiplies: `f(x, y)`, `f(x, y, out=z)` for a z in C order."""
    return np.dot if single_blas() else in_pieces


def in_pieces(x: Any, y: Any, out: Any = None) -> Any:
    """x @ y, in pieces along the longest axis of the three."""
    (rows, terms), columns = x.shape, y.size // max(1, len(y))
    most = PIECE if columns == 1 or rows == 1 else TERMS
    longest = max(rows, terms, columns)
    count = -(-rows * terms * columns // most)
    if count <= 1:
        return np.dot(x, y, out=out)
    step = -(-longest // count)
    if longest == terms:
        out = np.dot(x[:, :step], y[:step], out=out)
        for i in range(step, terms, step):
            out += np.dot(x[:, i : i + step], y[i : i + step])
        return out
    if out is None:
        out = np.empty((*x.shape[:1], *y.shape[1:]), x.dtype)
    for i in range(0, longest, step):
        if longest == rows:
            np.dot(x[i : i + step], y, out=out[i : i + step])
        else:
            np.matmul(x, y[:, i : i + step], out=out[:, i : i + step])
    return out


__all__ = ["in_pieces", "one_thread", "product"]
