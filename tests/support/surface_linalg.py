"""Calls of the functions of numpy.linalg and numpy.fft, to measure support.

`LINALG[name]` and `FFT[name]` are calls as in surface_table.py; `EXCLUDED` says why another public
name is not counted. Undetermined parts of a factorisation (signs, phases) are removed from results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from surface_table import Case, draw

SQUARE = draw(3, 3) + np.diag([1.0, 2.0, 3.5])
SYMMETRIC = (SQUARE + SQUARE.T) / 2.0
TALL, RIGHT = np.vstack([SQUARE, draw(1, 3, seed=2)]), draw(3, 2, seed=1)


def symmetrised(f: Any, a: Any) -> Any:
    """f of the symmetric part, so that differences stay inside of its domain."""
    return f((a + a.T) / 2.0)


LINALG: dict[str, Case] = {name: Case((SQUARE,)) for name in "cond det inv pinv".split()}
LINALG |= {
    name: Case((TALL,))
    for name in ("diagonal matrix_norm matrix_transpose norm qr svdvals trace vector_norm").split()
}
LINALG |= {
    "cholesky": Case((SYMMETRIC,), symmetrised),
    "cross": Case((draw(2, 3), draw(2, 3, seed=1))),
    "eig": Case((SQUARE,), lambda f, a: np.abs(f(a)[1])),
    "eigh": Case((SYMMETRIC,), lambda f, a: symmetrised(f, a)[1] ** 2),
    "eigvals": Case((SQUARE,), lambda f, a: np.real(f(a + 0j))),
    "eigvalsh": Case((SYMMETRIC,), symmetrised),
    "lstsq": Case((TALL, draw(4, seed=1)), lambda f, a, b: f(a, b)[0]),
    "matmul": Case((TALL, RIGHT)),
    "matrix_power": Case((SQUARE,), lambda f, a: f(a, 3)),
    "matrix_rank": Case((TALL,), order=0),
    "multi_dot": Case((TALL, SQUARE, RIGHT), lambda f, a, b, c: f([a, b, c])),
    "outer": Case((draw(3), draw(4, seed=1))),
    "slogdet": Case((SQUARE,)),
    "solve": Case((SQUARE, RIGHT)),
    "svd": Case((TALL,), lambda f, a: f(a, full_matrices=False)[0] ** 2),
    "tensordot": Case((TALL, RIGHT), lambda f, a, b: f(a, b, axes=1)),
    "tensorinv": Case((SQUARE,), lambda f, a: f(a, ind=1)),
    "tensorsolve": Case((SQUARE, draw(3, seed=1))),
    "vecdot": Case((TALL, draw(4, 3, seed=1))),
}

FFT: dict[str, Case] = {
    name: Case((draw(4, 3),)) for name in np.fft.__all__ if name not in ("fftfreq", "rfftfreq")
}

EXCLUDED = {
    "linalg.LinAlgError": "an exception",
    "fft.fftfreq": "make arrays without an array",
    "fft.rfftfreq": "make arrays without an array",
}
NAMESPACES = {"linalg": LINALG, "fft": FFT}


def uncounted() -> set[str]:
    """The public names that have neither a call nor a reason."""
    return {
        f"{namespace}.{name}"
        for namespace, calls in NAMESPACES.items()
        for name in getattr(np, namespace).__all__
        if name not in calls and f"{namespace}.{name}" not in EXCLUDED
    }
