"""Samples of linear algebra and of Fourier transforms.

Vectors of a complex factorisation have a phase that LAPACK chooses: their derivatives are compared
among the modes here, and with differences, by what does not depend on it, in test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sampling import C64, C128, F32, F64, add, draw

# The primitives of linear algebra and of transforms are declared when they are first needed.
import fungrad.numpy.fft
import fungrad.numpy.linalg  # noqa: F401

DTYPES = (F64, C128, F32, C64)


def regular(key: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Square matrices far from singular, with eigenvalues far from each other."""
    x = 0.25 * draw(key, shape, dtype)
    return (x + np.diag(1.0 + np.arange(shape[-1]))).astype(dtype)


def positive(key: str, shape: tuple[int, ...], dtype: Any, hermitian: bool) -> Any:
    """Matrices whose lower triangle is that of a positive definite one."""
    x = regular(key, shape, dtype)
    x = x @ x.conj().mT
    return x if hermitian else (x + np.triu(draw(key, shape, dtype), 1)).astype(dtype)


# --- equations ------------------------------------------------------------------------------------

TRIANGLES = ("", "lower", "upper")
for dtype in DTYPES:
    key = "solve"
    for i, (shape_a, shape_b) in enumerate(
        (((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), ((2, 2), (2, 2, 3)), ((1, 2, 2), (3, 1, 2, 1)))
    ):
        a, b = regular(key, shape_a, dtype), draw(key, shape_b, dtype)
        for triangle in TRIANGLES if dtype == F64 else (TRIANGLES[i % 3],):
            add("solve", a, b, triangle=triangle)
    for shape in ((3, 3), (2, 2, 2), (1, 1)):
        a = regular("inv", shape, dtype)
        for name in ("inv", "det", "cofactors"):
            add(name, a)
        add("cofactors_along", a, draw("along", shape, dtype))
        add("slogdet", a)
    for shape in ((3, 2), (2, 3), (2, 3, 2)):
        add("pinv", draw("pinv", shape, dtype), 1e-6)
    add("cholesky", positive("cholesky", (3, 3), dtype, False))
    add("cholesky", positive("cholesky", (2, 2, 2), dtype, False))
    add("cholesky", positive("cholesky", (3, 3), dtype, True), upto=0)
    for shape in ((3, 3), (2, 2, 2)):
        factor = np.linalg.cholesky(positive("cholesky", shape, dtype, True))
        add("cholesky_pullback", factor, draw("factor", shape, dtype))
    add("hermitian_weights", positive("weights", (3, 3), dtype, True), lower=True)
    add("hermitian_weights", positive("weights", (3, 3), dtype, False), lower=False)
    for shape in ((3, 3), (4, 2), (2, 3), (2, 3, 2), (1, 1)):
        add("qr", draw("qr", shape, dtype))
    # --- spectra
    real = dtype.kind == "f"
    for lower in (True, False):
        add("eigh", positive("eigh", (3, 3), dtype, False), lower=lower, upto=2 * real)
    add("eigh", positive("eigh", (2, 2, 2), dtype, True), lower=True, upto=0)
    add(
        "eigenspaces",
        positive("eigh", (3, 3), dtype, False),
        lower=real,
        upto=2 * real,
    )
    for shape in ((3, 3), (4, 2), (2, 3), (2, 2, 2)):
        whole = shape[-1] == shape[-2]
        add("svd", draw("svd", shape, dtype), full=False, upto=2 * real)
        add("svd", draw("svd", shape, dtype), full=True, upto=2 * real * whole)
    for shape in ((3, 3), (2, 2, 2)):
        add("eig", regular("eig", shape, dtype))
        add("eigvals", regular("eig", shape, dtype))
        add("eigvalsh", positive("eigh", shape, dtype, False), lower=True)
    add("eigvalsh", positive("eigh", (3, 3), dtype, True), lower=False, upto=0)
    for shape in ((3, 3), (4, 2), (2, 2, 3)):
        add("svdvals", draw("svd", shape, dtype))

for singular in (np.diag([2.0, 1.0, 0.0]), np.diag([1.0, 0.0, 0.0]), np.zeros((2, 2))):
    turn = np.linalg.qr(draw("turn", singular.shape, F64))[0]
    a = turn @ singular @ turn[::-1]
    add("det", a)
    add("cofactors", a, upto=1)
    add("invertible", a)
add("eig", np.array([[0.5, -2.0], [1.0, 0.25]]))  # a pair of complex ones

numbers = np.array([1.0, 1.0 + 1e-16, 2.0, -2.0])
for opposite in (False, True):
    add("coincide", numbers, opposite=opposite)
    add("coincide", numbers.astype(C64), opposite=opposite)
    add("coincide", np.stack([numbers, -numbers]), opposite=opposite)
for dtype in (F64, C64):
    add("shares", numbers.astype(dtype))
for dtype in (F64, C64):
    add("trusted", regular("trusted", (2, 2), dtype))
add("anchors", np.linalg.eig(regular("anchors", (3, 3), C128))[1])
for dtype in (F64, C64):
    x = draw("apart", (3, 3), dtype)
    same = np.eye(3, dtype=bool)
    weight = draw("weight", (3,), F64)
    add("apart", x, same, weight, values="values", strict=False, fixed=(1, 2))

# --- Fourier transforms ---------------------------------------------------------------------------

for dtype in DTYPES:
    for i, (shape, axes) in enumerate(
        (((4,), (0,)), ((3,), (0,)), ((2, 3), (0, 1)), ((2, 1, 5), (2, 0)))
    ):
        kinds = ((False, "backward"), (True, "ortho"), (True, "backward"))
        for inverse, norm in kinds if dtype == C128 else (kinds[i % 3],):
            x = draw("fft", shape, dtype)
            add("fft", x, axes=axes, inverse=inverse, norm=norm)
    for i, (shape, axis) in enumerate((((4,), 0), ((3, 2), 0), ((2, 5), 1), ((1,), 0))):
        norms = ("backward", "ortho", "forward")
        for norm in norms if dtype == F64 else (norms[i % 3],):
            if dtype.kind == "f":
                add("rfft", draw("rfft", shape, dtype), axis=axis, norm=norm)
            for length in {2 * shape[axis] - 1, max(1, 2 * shape[axis] - 2)}:
                add("irfft", draw("irfft", shape, dtype), axis=axis, length=length, norm=norm)
