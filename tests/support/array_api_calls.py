"""Calls of the functions of the Python array API standard that are not elementwise.

Arguments that are ndarrays here stand for arrays of the library under test; `D("float32")` for a
dtype of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class D(str):
    """The name of a dtype."""


X = np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])
V = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75])
W = np.array([1.0, 2.0, -0.5, 0.75, -1.25, 0.5])
C = X + 1j * X[::-1]
N = np.array([[3, 1, 2], [1, 3, 1]])
B = np.array([[True, False, True], [False, False, True]])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]])
SS = np.stack([S, 2 * S])
F32, I32 = D("float32"), D("int32")

Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def _reductions(*more: Call) -> list[Call]:
    return [
        call(X), call(X, axis=0), call(X, axis=(0, 1), keepdims=True), call(X, axis=-1), *more,
    ]  # fmt: skip


CALLS: dict[str, list[Call]] = {
    "all": _reductions(call(B), call(B, axis=1, keepdims=True)),
    "any": _reductions(call(B), call(B, axis=1)),
    "arange": [call(4), call(1, 6, 2), call(1, stop=5, step=2, dtype=F32, device=None), call(0.5)],
    "argmax": [call(X), call(X, axis=0), call(X, axis=1, keepdims=True), call(N)],
    "argmin": [call(X), call(X, axis=0), call(X, axis=1, keepdims=True), call(N)],
    "argsort": [
        call(N),
        call(N, axis=0),
        call(N, axis=1, descending=True),
        call(X, stable=False),
        call(N, stable=True, descending=True),
    ],
    "asarray": [
        call(X),
        call([[1, 2], [3, 4]]),
        call(2.5),
        call(True),
        call(1j),
        call([], dtype=F32),
        call(X, dtype=F32),
        call(N, dtype=D("float64"), copy=True),
        call(X, copy=False),
        call(X, device=None, copy=None),
    ],
    "astype": [
        call(X, F32),
        call(X, I32, copy=True),
        call(N, D("complex64"), device=None),
        call(X, D("float64"), copy=False),
        call(B, I32),
    ],
    "broadcast_arrays": [call(X, V[:3]), call(X), call(np.array(2.0), X)],
    "broadcast_to": [call(V, (2, 6)), call(V, shape=(2, 6))],
    "can_cast": [
        call(F32, D("float64")),
        call(D("float64"), F32),
        call(X, F32),
        call(N, D("int64")),
    ],
    "clip": [
        call(X, 0.25),
        call(X, -1.0, 1.0),
        call(X, min=0.0),
        call(X, max=0.5),
        call(N, min=2, max=2),
        call(X, V[:3], np.abs(V[:3]) + 1),
    ],
    "concat": [
        call([X, X + 1]),
        call((X, X), axis=1),
        call([X, V], axis=None),
        call([N, N.astype(np.int32)]),
    ],
    "count_nonzero": [call(X), call(B, axis=0), call(N, axis=1, keepdims=True)],
    "cumulative_prod": [
        call(V),
        call(X, axis=1),
        call(X, axis=0, include_initial=True, dtype=F32),
        call(N, axis=-1),
    ],
    "cumulative_sum": [
        call(V),
        call(X, axis=1),
        call(X, axis=0, include_initial=True, dtype=F32),
        call(N, axis=-1),
    ],
    "diff": [call(X), call(X, axis=0), call(V, n=2), call(X, axis=1, prepend=X[:, :1], append=X)],
    "expand_dims": [call(X, axis=0), call(X, axis=-1), call(V, 1)],
    "eye": [call(3), call(2, 3, k=1), call(3, None, dtype=F32, device=None)],
    "flip": [call(X), call(X, axis=0), call(X, axis=(0, 1))],
    "full": [
        call(shape=(1, 2), fill_value=2.5),
        call((2, 2), 3.0),
        call(3, fill_value=1, dtype=F32, device=None),
        call((), True),
    ],
    "full_like": [call(X, 2.0), call(X, fill_value=2, dtype=I32, device=None)],
    "linspace": [
        call(0.0, 1.0, 5),
        call(0, 4, num=4, endpoint=False, dtype=F32, device=None),
        call(1.0, 2.0, 1),
    ],
    "matmul": [call(X, X.T), call(V, W), call(SS, S), call(X, V[:3]), call(N, N.T)],
    "matrix_transpose": [call(X), call(SS)],
    "max": _reductions(call(N)),
    "mean": [*_reductions(), call(X.astype(np.float32))],
    "meshgrid": [call(V[:2], W[:3]), call(V[:2], W[:3], indexing="ij"), call(V)],
    "min": _reductions(call(N)),
    "moveaxis": [call(SS, 0, -1), call(SS, (0, 1), (1, 2))],
    "nonzero": [call(X > 0), call(N - 1)],
    "ones": [call(shape=4), call((2, 3)), call(2, dtype=I32, device=None)],
    "ones_like": [call(X), call(X, dtype=I32, device=None)],
    "permute_dims": [call(SS, (2, 0, 1)), call(X, axes=(1, 0))],
    "prod": _reductions(call(N), call(N.astype(np.int8)), call(X, dtype=F32, axis=1)),
    "repeat": [
        call(V, 2),
        call(X, 3, axis=1),
        call(V[:3], np.array([1, 0, 2])),
        call(X, np.array([2, 1]), axis=0),
    ],
    "reshape": [
        call(X, (3, 2)),
        call(X, shape=(-1,)),
        call(X, (6,), copy=True),
        call(X, (2, 3), copy=None),
    ],
    "result_type": [
        call(X, F32),
        call(N, 1),
        call(F32, D("complex64")),
        call(D("int8"), D("uint8")),
        call(X.astype(np.float32), 2.5, 1j),
    ],
    "roll": [call(V, 2), call(X, shift=1, axis=1), call(X, (1, 2), axis=(0, 1)), call(X, -1)],
    "searchsorted": [
        call(np.sort(V), W),
        call(np.sort(V), W, side="right"),
        call(V, W, sorter=np.argsort(V)),
    ],
    "sort": [
        call(X),
        call(X, axis=0),
        call(X, descending=True),
        call(V, stable=False, axis=-1, descending=False),
    ],
    "squeeze": [call(X[:, :1], axis=1), call(X[None, :, None], (0, 2))],
    "stack": [call([X, X]), call((V, W), axis=1), call([X, X.astype(np.float32)], axis=-1)],
    "std": _reductions(call(X, correction=1.0), call(X, axis=1, correction=1.0, keepdims=True)),
    "sum": _reductions(
        call(N),
        call(N.astype(np.int8)),
        call(N.astype(np.uint8)),
        call(X, dtype=F32, axis=1),
        call(X.astype(np.float32)),
    ),
    "take": [
        call(V, np.array([3, 0, 3])),
        call(X, np.array([1]), axis=0),
        call(X, np.array([2, 0]), axis=1),
    ],
    "take_along_axis": [call(X, N[:, :2] % 3, axis=1), call(X, N[:1] % 2, axis=0), call(X, N % 3)],
    "tensordot": [
        call(X, X.T, axes=1),
        call(X, X),
        call(SS, X, axes=((1,), (1,))),
        call(V, W, axes=0),
    ],
    "tile": [call(V, (2,)), call(X, (2, 1, 2))],
    "tril": [call(S), call(SS, k=-1)],
    "triu": [call(S), call(SS, k=1)],
    "unique_all": [call(N), call(V)],
    "unique_counts": [call(N), call(V)],
    "unique_inverse": [call(N), call(V)],
    "unique_values": [call(N), call(V)],
    "unstack": [call(X), call(X, axis=1)],
    "var": _reductions(call(X, correction=1.0), call(X, axis=1, correction=1.0, keepdims=True)),
    "vecdot": [call(V, W), call(X, X, axis=-2), call(C, C), call(SS, S)],
    "where": [call(B, X, -X), call(B, X, 1.0), call(B, N, X.astype(np.int32)), call(B, 0.0, X)],
    "zeros": [call(shape=4), call((2, 3)), call(2, dtype=I32, device=None)],
    "zeros_like": [call(X), call(X, dtype=I32, device=None)],
    "linalg.cholesky": [call(S), call(SS, upper=True)],
    "linalg.cross": [call(X, -X + 1), call(S, S + 1, axis=-2)],
    "linalg.det": [call(S), call(SS)],
    "linalg.diagonal": [call(S), call(SS, offset=1)],
    "linalg.eigh": [call(S), call(SS)],
    "linalg.eigvalsh": [call(S), call(SS)],
    "linalg.inv": [call(S), call(SS)],
    "linalg.matmul": [call(X, X.T), call(SS, S)],
    "linalg.matrix_norm": [
        call(X),
        call(SS, keepdims=True, ord=1),
        call(X, ord="nuc"),
        call(X, ord=-np.inf),
        call(S, ord=2),
    ],
    "linalg.matrix_power": [call(S, 3), call(SS, 0), call(S, -2)],
    "linalg.matrix_rank": [call(S), call(SS, rtol=0.5)],
    "linalg.matrix_transpose": [call(X), call(SS)],
    "linalg.outer": [call(V, W)],
    "linalg.pinv": [call(X), call(SS, rtol=1e-9)],
    "linalg.qr": [call(X.T), call(SS, mode="complete")],
    "linalg.slogdet": [call(S), call(-SS)],
    "linalg.solve": [call(S, X.T), call(SS, np.stack([X.T, X.T])), call(S, V[:3])],
    "linalg.svd": [call(X, full_matrices=False), call(S)],
    "linalg.svdvals": [call(X), call(SS)],
    "linalg.tensordot": [call(X, X.T, axes=1)],
    "linalg.trace": [call(S), call(SS, offset=1, dtype=F32), call(N)],
    "linalg.vecdot": [call(V, W), call(X, X, axis=-2)],
    "linalg.vector_norm": [
        call(X),
        call(X, axis=1, keepdims=True, ord=1),
        call(X, axis=(0, 1)),
        call(X, axis=0, ord=np.inf),
        call(X, ord=0),
        call(C, axis=0, ord=3),
    ],
    "fft.fft": [call(C), call(C, n=4, axis=0, norm="ortho"), call(C.astype(np.complex64))],
    "fft.fftfreq": [call(5), call(4, d=0.5, dtype=F32, device=None)],
    "fft.fftn": [call(C), call(C, s=(2, 4), axes=(0, 1), norm="forward")],
    "fft.fftshift": [call(X), call(X, axes=1)],
    "fft.hfft": [call(C), call(C, n=5, axis=1, norm="ortho")],
    "fft.ifft": [call(C), call(C, n=4, axis=0, norm="ortho")],
    "fft.ifftn": [call(C), call(C, s=(2, 4), axes=(0, 1), norm="forward")],
    "fft.ifftshift": [call(X), call(X, axes=1)],
    "fft.ihfft": [call(V), call(X, n=5, axis=1, norm="ortho")],
    "fft.irfft": [call(C), call(C, n=5, axis=1, norm="ortho")],
    "fft.irfftn": [call(C), call(C, s=(2, 4), axes=(0, 1), norm="forward")],
    "fft.rfft": [call(V), call(X, n=4, axis=0, norm="ortho"), call(X.astype(np.float32))],
    "fft.rfftfreq": [call(5), call(4, d=0.5, dtype=F32, device=None)],
    "fft.rfftn": [call(X), call(X, s=(2, 4), axes=(0, 1), norm="forward")],
}
VALUE_SHAPES = {
    "nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values",
}  # fmt: skip
"""Functions whose results have shapes that depend on values: not for jit, and for vmap only where
the examples agree."""
APART = {
    "empty": "its values are unspecified", "empty_like": "its values are unspecified",
    "finfo": "tested for each dtype", "iinfo": "tested for each dtype",
    "from_dlpack": "tested alone", "isdtype": "tested for each kind",
}  # fmt: skip
"""Functions with their own test in test_array_api.py."""
