"""Sparse matrices of SciPy that hold traced data, or meet traced vectors.

SciPy's classes are Python code around the compiled routines of `scipy.sparse._sparsetools`. These
have counterparts for traced data (scipy/sparse/routines.py). The names that SciPy's modules have
for them are replaced from the first time in a trace that a matrix gets traced data or operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from fungrad.numpy.protocol.implements import known
from fungrad.support.lazy import imported
from fungrad.tracing import interception
from fungrad.tracing.created_arrays import Writable, Written, holds_traced
from fungrad.tracing.trace import EVAL, Tracer, current

ROUTINES = (
    "bsr_diagonal bsr_matvec bsr_matvecs bsr_sort_indices bsr_tocsr bsr_transpose coo_matmat_dense "
    "coo_matvec coo_tocsr coo_todense csc_diagonal csc_matvec csc_matvecs csr_column_index2 "
    "csr_diagonal csr_eldiv_csr csr_eliminate_zeros csr_elmul_csr csr_hstack csr_matmat "
    "csr_matvec csr_matvecs csr_maximum_csr csr_minimum_csr csr_minus_csr csr_ne_csr csr_plus_csr "
    "csr_row_index csr_row_slice csr_sample_values csr_sort_indices csr_sum_duplicates csr_tobsr "
    "csr_tocsc csr_todense dia_matvec dia_matvecs dia_tocsr get_csr_submatrix"
)
"""The compiled routines that read or write data and have a counterpart."""


def _is_traced(value: Any) -> bool:
    return type(value) is Tracer or type(value) is Written or holds_traced(value)


def _known_index(value: Any) -> Any:
    """The values of traced integers, such as rows and columns of elements that are not zero."""
    if type(value) is Tracer and value.dtype.kind == "i":
        return known(value, "the index of an element of a sparse matrix")
    return value


def _routine(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def routine(*args: Any) -> Any:
        if current() is EVAL or not any(map(_is_traced, args)):
            return original(*args)
        given = [_known_index(arg) for arg in args]
        return getattr(imported("fungrad.scipy.sparse.routines"), name)(original, *given)

    return routine


def _routines(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    names = [name for name in ROUTINES.split() if hasattr(module, name)]
    return {name: _routine(name, getattr(module, name)) for name in names}


def _asmatrix(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def asmatrix(data: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and (type(data) is Writable or _is_traced(data)):
            return data  # np.matrix holds plain numbers only
        return original(data, *args, **kwargs)

    return asmatrix


def _opening(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that SciPy gives new data, or the operand of a product or sum, first."""

    @functools.wraps(original)
    def opening(value: Any) -> Any:
        if current() is not EVAL and _is_traced(value):
            interception.use_in("scipy.sparse")
        return original(value)

    return opening


def _gates(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    opening = {name: _opening(getattr(module, name)) for name in ("to_native", "isscalarlike")}
    interception.gate("scipy.sparse", opening.values())
    return opening | {"asmatrix": _asmatrix(module.asmatrix)}


interception.register_later("scipy.sparse._sparsetools", _routines)
interception.register_later("scipy.sparse._sputils", _gates)
