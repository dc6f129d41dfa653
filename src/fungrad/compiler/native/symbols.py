"""Symbols for the parts of Python and NumPy that native code uses, and their memory layouts.

Machine code contains no addresses, so that it can be stored in files. The assumed layouts of arrays
and numbers are checked by ctypes and NumPy before the first program is compiled.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath as _umath  # type: ignore[attr-defined]

from fungrad.compiler.native.llvm_ir import Module
from fungrad.compiler.native.machine_code import Built, build, once, symbol
from fungrad.runtime import error_state

HEAD = object.__basicsize__
"""Bytes before the fields of an object: 16, and more in free-threaded builds."""
DATA, NDIM, DIMS, DTYPE, FLAGS = HEAD, HEAD + 8, HEAD + 16, HEAD + 40, HEAD + 48
"""The offsets of an array's fields."""
LAID_OUT = 0x101
"""The flags of an aligned array in C order."""
RAISING = 0b010_010_010_010
"""The bits of NumPy's error state that are set if an error raises, or calls a function."""
DTYPES = {
    "float64": "double", "float32": "float", "float16": "half",
    "int64": "i64", "int32": "i32", "bool": "i8",
    "complex128": "", "complex64": "", "int16": "i16", "int8": "i8",
    "uint64": "i64", "uint32": "i32", "uint16": "i16", "uint8": "i8",
}  # fmt: skip
"""The dtypes of supported arrays, and the LLVM types of their numbers, if there is one."""

_NUMPY = {"PyArray_New": 93, "PyArray_Scalar": 60}
"""The indices of functions in NumPy's C API table, which its ABI fixes."""
_ABI = 0x02000000
_PYTHON = (
    "PyTuple_New", "PyTuple_SetItem", "PyObject_Vectorcall", "Py_DecRef",
    "PyContextVar_Get", "PyCapsule_GetPointer",
    "PyErr_CheckSignals", "PyErr_Clear", "PyErr_NoMemory", "PyErr_Occurred",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyGILState_Ensure", "PyGILState_Release",
    "PyThread_allocate_lock", "PyThread_acquire_lock", "PyThread_acquire_lock_timed",
    "PyThread_release_lock", "PyThread_start_new_thread", "PyThread_get_thread_ident",
    "PyMem_RawMalloc", "PyMem_RawRealloc", "PyMem_RawFree",
    "PyFloat_FromDouble", "PyLong_FromLongLong", "PyLong_AsLongLong", "PyBool_FromLong",
    "PyComplex_FromDoubles",
)  # fmt: skip
MICROSOFT = ("_fltused", "__chkstk")
"""What LLVM's code for Windows refers to: a mark of code that uses floats, and the function that
touches the pages of a large stack frame in order."""


def _table() -> Any:
    """NumPy's C API table of functions and types."""
    return ctypes.cast(_in_capsule(_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))


_in_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _address(function: Any) -> Any:
    return ctypes.cast(function, ctypes.c_void_p).value


@once
def registered() -> None:
    """Defines all symbols that native code may use."""
    for name in _PYTHON:
        symbol(name, _address(getattr(ctypes.pythonapi, name)))
    table = _table()
    for name, place in _NUMPY.items():
        symbol(name, table[place])
    if sys.platform == "win32":
        mark, check = MICROSOFT
        symbol(mark, ctypes.addressof(_MARK))
        symbol(check, _address(getattr(ctypes.WinDLL("ntdll"), check)))
    objects = {"ndarray": np.ndarray, "true": True}
    objects |= {"errors": _umath._extobj_contextvar, "no_errors": error_state.USUAL}
    objects |= {kind.__name__: kind for kind in (float, int, bool, complex)}
    for name in DTYPES:
        objects[f"dtype_{name}"] = np.dtype(name)
        objects[f"scalar_{name}"] = np.dtype(name).type
    for name, known in objects.items():
        _KEPT.append(known)
        symbol(f"fg_{name}", id(known))


def lasting(text: str, quick: bool = False) -> Built:
    """Functions that stay in memory: other threads may run them until the process ends."""
    registered()
    module = Module()
    module.quick = quick
    module.declare(text)
    built = build(module, lasting=True)
    _KEPT.append(built)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(built))
    return built


_KEPT: list[Any] = []
_MARK = ctypes.c_int(1)


@once
def mismatch() -> str:
    """The first difference from the memory layouts that native code assumes; "" if none."""
    if sys.implementation.name != "cpython":
        return "the interpreter is not CPython"
    table = _table()
    if table[2] != id(np.ndarray) or ctypes.CFUNCTYPE(ctypes.c_uint)(table[0])() != _ABI:
        return "NumPy's C API has another version"
    array = np.arange(6.0).reshape(2, 3)
    at, pointer, flags = id(array), ctypes.c_void_p, ctypes.c_int
    lengths = (ctypes.c_ssize_t * 2).from_address(pointer.from_address(at + DIMS).value or 0)
    laid_out = (
        pointer.from_address(at + DATA).value == array.ctypes.data
        and flags.from_address(at + NDIM).value == 2
        and list(lengths) == [2, 3]
        and pointer.from_address(at + DTYPE).value == id(np.dtype("float64"))
        and flags.from_address(at + FLAGS).value == array.flags.num
        and array.flags.num & LAID_OUT == LAID_OUT
        and np.asfortranarray(array).flags.num & LAID_OUT != LAID_OUT
    )
    if not laid_out:
        return "arrays have another layout"
    for number in (1.25, 2.5j, *(np.dtype(name).type(1) for name in DTYPES)):
        raw = np.asarray(number).tobytes()
        if ctypes.string_at(id(number) + HEAD, len(raw)) != raw:
            return f"numbers of type {type(number).__name__} have another layout"
    return "" if _errors_are_read() else "NumPy's error state has another layout"


def _errors_are_read() -> bool:
    """Whether the bits of `RAISING` in NumPy's error state mean that errors raise or call."""
    cases = {"ignore": 0, "warn": 0, "raise": 1, "call": 1, "print": 0, "log": 0}
    for how, expected in cases.items():
        for kind in ("divide", "over", "under", "invalid"):
            with np.errstate(**{"all": "ignore", kind: how}):  # type: ignore[arg-type]
                found = _in_capsule(error_state.state(), b"numpy.ufunc.extobj")
                if bool(ctypes.c_int.from_address(found).value & RAISING) != expected:
                    return False
    return True
