"""eig, the eigenvalues and eigenvectors of general matrices, and eigvals.

Knows the forms of matrix_parts.py and `inv`; what becomes of equal values is said in
degenerate_spectra.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import imag
from fungrad.primitives.linalg import flop_counts
from fungrad.primitives.linalg.degenerate_spectra import apart, coincide, gaps, shared
from fungrad.primitives.linalg.matrix_parts import (
    adjoint,
    bar,
    columns,
    diagonal_matrix,
    real_part,
    result,
    square,
)
from fungrad.primitives.linalg.solve import inv
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.primitives.primitive import Primitive, general, or_zero
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import shape_of


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """complex64 for float32, and complex128 for float64."""
    return np.result_type(dtype, np.complex64)


def _eval_eig(a: Any) -> Any:
    dtype = complex_dtype(a.dtype)
    w, v = np.linalg.eig(a)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


def _type_eig(a: Type) -> tuple[Type, Type]:
    square("eig", a)
    dtype = complex_dtype(result(a))
    return Type(a.shape[:-1], dtype), Type(a.shape, dtype)


def _eval_anchors(v: Any) -> Any:
    size = np.where(v.imag == 0, np.abs(v), -1.0)
    found = np.argmax(size, axis=-2, keepdims=True) if v.size else np.zeros(v.shape, int)
    return np.arange(v.shape[-2])[:, None] == found


anchors: Primitive = general(
    "anchors",
    eval=_eval_anchors,
    type=lambda v: Type(v.shape, np.bool_),
    batch=lambda args, batched, size: anchors(args[0]),
    cuts=True,
)
"""`anchors(v)`: in each column the one element, the largest, that LAPACK made real."""


def _eval_trusted(inverse: Any) -> Any:
    if np.abs(inverse).max(initial=0) > 1e6:
        warnings.warn(
            f"The derivative of the eigenvalues of a general matrix was taken{user_line()} where "
            "its eigenvectors are nearly dependent: the matrix has too few of them, or is close "
            "to one that has, and the derivative is infinite or wrong (docs/linalg.md). "
            "Differentiate a function of the matrix itself instead: a trace of powers, a "
            "determinant, an exponential.",
            RuntimeWarning,
            stacklevel=2,
        )
    return inverse


trusted: Primitive = general(
    "trusted",
    eval=_eval_trusted,
    type=lambda inverse: inverse,
    vjp=lambda ct, y, args, wanted: [ct],
    jvp=lambda primals, tangents: (trusted(*primals), tangents[0]),
    batch=lambda args, batched, size: trusted(args[0]),
)
"""`trusted(inverse)`: the inverse of eigenvectors of length 1 as it is; warns where it is huge."""


def _vjp_eig(cts: Any, outputs: Any, args: Any, wanted: Any) -> list[Any]:
    w, v = outputs
    gw, gv = [None if ct is None else bar(ct) for ct in cts]
    v_h = adjoint(v)
    gw = None if gw is None else shared(gw, w)
    inner = None if gw is None else diagonal_matrix(gw)
    if gv is not None:
        # A column u of V P moves v by u - v Re(v^H u) - i v Im(u_k) / v_k: its length stays 1, and
        # its element k real.
        axis = len(shape_of(v)) - 2
        place = anchors(v)
        along = columns(reduce_sum(bar(v) * gv, axes=(axis,)))
        real_v = select(place, real_part(v), 1.0)
        turned = imag(bar(along)) / real_v * 1j
        gv = gv - v * real_part(along) + select(place, turned, 0.0)
        same = coincide(w, opposite=False)
        x = apart(v_h @ gv, same, or_zero(gw, w), values="eigenvalues", strict=True)
        vectors = x / bar(gaps(w, same))
        inner = vectors if inner is None else inner + vectors
    return [bar(trusted(inv(v_h)) @ inner @ v_h)]


eig: Primitive = general(
    "eig",
    cost=flop_counts.cubed(25),  # GVL 7.5, Hessenberg QR
    eval=_eval_eig,
    type=_type_eig,
    vjp=_vjp_eig,
    batch=lambda args, batched, size: eig(args[0]),
    multiple=True,
)
"""`eig(a)`: eigenvalues and eigenvectors, always complex; the vectors as LAPACK scales them, of
length 1 and with a real largest element. M. Giles (2008), section 3.1; C. Boeddeker et al., "On the
computation of complex-valued gradients with application to statistically optimum beamforming"
(2017), for complex ones. Where a has too few eigenvectors it has no derivative: inv raises, or
`trusted` warns."""

eigvals: Primitive = general(
    "eigvals",
    cost=flop_counts.cubed(10),
    eval=lambda a: np.linalg.eigvals(a).astype(complex_dtype(a.dtype), copy=False),
    type=lambda a: _type_eig(a)[0],
    vjp=lambda ct, w, args, wanted: _vjp_eig((ct, None), eig(args[0]), args, wanted),
    batch=lambda args, batched, size: eigvals(args[0]),
)
"""`eigvals(a)`: the eigenvalues alone, always complex; see `eigvalsh`."""

__all__ = ["eig", "eigvals"]
