"""Whose code a file holds: fungrad's, NumPy's, SciPy's, Python's, another package's or the user's.

Messages name the user's line, tracing refuses or observes what other packages do, and captured
state is what the user's code reads: all ask `origin`.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Literal

import numpy as np

Origin = Literal["fungrad", "numpy", "scipy", "python", "package", "user"]

FUNGRAD = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PROGRAMS = os.path.join(FUNGRAD, "demo")
"""Shipped programs, which use fungrad as a user does: their lines are the user's."""
_BELOW = (
    os.path.dirname(os.path.abspath(np.__file__)) + os.sep,
    "<__array_function__",
    "<graph ",  # the names that compiled programs have
    "<scalarised ",
)
_PYTHON = (os.path.dirname(os.path.abspath(os.__file__)) + os.sep, "<frozen ")
_INSTALLED = r"[\\/](?:site|dist)-packages[\\/](\w*)"  # compiled at its first use
_KNOWN: dict[str, Origin] = {"scipy": "scipy", "llvmlite": "numpy"}


@functools.lru_cache(maxsize=4096)
def origin(filename: str) -> Origin:
    """Whose code a file holds. Compiled programs and llvmlite are, as NumPy, below fungrad."""
    if filename.startswith(FUNGRAD):
        return "user" if filename.startswith(_PROGRAMS) else "fungrad"
    if filename.startswith(_BELOW):
        return "numpy"
    package = re.search(_INSTALLED, filename)
    if package is not None:
        return _KNOWN.get(package[1], "package")
    return "python" if filename.startswith(_PYTHON) else "user"


@functools.lru_cache(maxsize=4096)
def is_ours(filename: str) -> bool:
    """Whether a file is fungrad's, and not one of its shipped programs."""
    return origin(filename) == "fungrad"


@functools.lru_cache(maxsize=4096)
def is_library(filename: str) -> bool:
    """Whether a file is fungrad's, NumPy's or SciPy's, whose lines no message names."""
    return origin(filename) in ("fungrad", "numpy", "scipy")


@functools.lru_cache(maxsize=4096)
def is_internal(filename: str) -> bool:
    """Whether a file is fungrad's or NumPy's: code that knows of traced values."""
    return origin(filename) in ("fungrad", "numpy")


@functools.lru_cache(maxsize=4096)
def is_foreign(filename: str) -> bool:
    """Whether a file belongs to SciPy or another installed package, not written for traces."""
    return origin(filename) in ("scipy", "package")
