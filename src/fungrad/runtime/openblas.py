"""The routines of NumPy's OpenBLAS, by their C pointers.

Builds of OpenBLAS may add a prefix and a suffix to all names, and have integers of 64 bits.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.support.lazy import Record, imported


class OpenBlas(Record):
    """A library, and how it names its functions.

    Attributes:
      path: the file of the library, or of a module that is linked to it.
      handle: what ctypes opened; calls keep the interpreter's lock.
      prefix, suffix: what stands around each name.
    """

    path: str
    handle: Any
    prefix: str
    suffix: str

    def own(self, name: str) -> Any:
        """A function of OpenBLAS itself, such as get_config; None if there is none."""
        return getattr(self.handle, f"{self.prefix}openblas_{name}{self.suffix}", None)

    def routine(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """A routine that releases the interpreter's lock: of CBLAS as `cblas_dtrsm`, of LAPACK as
        `dgetrf_`; None if there is none.
        """
        routine = getattr(_released(self.path), f"{self.prefix}{name}{self.suffix}", None)
        if routine is not None:
            routine.restype, routine.argtypes = result, arguments
        return routine

    def address(self, name: str) -> int:
        """The address of such a routine; 0 if there is none."""
        routine = getattr(_released(self.path), f"{self.prefix}{name}{self.suffix}", None)
        ctypes = imported("ctypes")
        return 0 if routine is None else int(ctypes.cast(routine, ctypes.c_void_p).value)

    @property
    def integer(self) -> Any:
        """The type of its integers."""
        ctypes, config = imported("ctypes"), self.own("get_config")
        config.restype = ctypes.c_char_p
        return ctypes.c_int64 if b"USE64BITINT" in config() else ctypes.c_int32


@functools.cache
def _released(path: str) -> Any:
    return imported("ctypes").CDLL(path)


@functools.cache
def openblas() -> OpenBlas | None:
    """The OpenBLAS that NumPy calls; None if it has another BLAS."""
    try:
        ctypes = imported("ctypes")
    except ImportError:  # a Python that was built without libffi
        return None
    for path in _paths():
        try:
            handle = ctypes.PyDLL(path)
        except OSError:  # no library, or one that cannot be opened again
            continue
        for prefix, suffix in itertools.product(("", "scipy_"), ("", "64_", "_64")):
            library = OpenBlas(path, handle, prefix, suffix)
            if library.own("get_config") is not None:
                return library
    return None


def _paths() -> list[str]:
    """NumPy's module that calls the BLAS, through which symbols of its linked libraries are found,
    and on Windows the libraries in NumPy's wheel.
    """
    module = imported("numpy._core._multiarray_umath")
    beside = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    names = os.listdir(beside) if os.path.isdir(beside) else []
    libraries = sorted([name for name in names if "openblas" in name and name.endswith(".dll")])
    return [module.__file__ or "", *[os.path.join(beside, name) for name in libraries]]
