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


def _routine(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def routine(*args: Any) -> Any:
        if current() is EVAL or not any(map(_is_traced, args)):
            return original(*args)
        return getattr(imported("fungrad.scipy.sparse.routines"), name)(original, *args)

    return routine


def _routines(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    names = [name for name in ROUTINES.split() if hasattr(module, name)]
    return {name: _routine(name, getattr(module, name)) for name in names}


def _containers(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    original = module.asmatrix

    def asmatrix(data: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and (type(data) is Writable or _is_traced(data)):
            return data  # np.matrix holds plain numbers only
        return original(data, *args, **kwargs)

    return {"asmatrix": asmatrix}


def _opens(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of matrices that replaces the routines if its argument is traced."""

    @functools.wraps(method)
    def opening(self: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and _is_traced(other):
            interception.use_in("scipy.sparse")
        return method(self, other, *args, **kwargs)

    return opening


def _gates(module: ModuleType) -> Mapping[str, Callable[..., Any]]:
    base = module._spbase

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == "data" and current() is not EVAL and _is_traced(value):
            interception.use_in("scipy.sparse")
        object.__setattr__(self, name, value)

    interception.register_special_method(base, "__setattr__", set_attribute)
    for name in ("_matmul_dispatch", "_rmatmul_dispatch", "__add__", "__sub__", "__rsub__"):
        interception.register_special_method(base, name, _opens(vars(base)[name]))
    return {}


interception.register_later("scipy.sparse._base", _gates)
interception.register_later("scipy.sparse._sparsetools", _routines)
interception.register_later("scipy.sparse._sputils", _containers)
