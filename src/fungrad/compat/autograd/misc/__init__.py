"""`flatten`, and modules of autograd.misc, imported at first use."""

import functools
from typing import Any

from fungrad.compat.autograd.misc.flatten import flatten as flatten
from fungrad.support.lazy import imported as _imported

const_graph = functools.partial
"""`const_graph(f, *args)`: f with its first arguments fixed. No graph is recorded for reuse."""

_SUBMODULES = ("fixed_points", "optimizers")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return _imported(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["const_graph", "flatten"]
