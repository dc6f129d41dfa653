"""Elementary functions as IR, in double and in single precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fungrad.compiler.native.llvm_ir import Value

FUNCTIONS: dict[str, Callable[..., Value]] = {}
"""By names of primitives: `rule(code, *xs)`."""
_NANOSECONDS: Mapping[str, float] = {}


def heavy(name: str) -> float:
    """Nanoseconds an element, roughly, for the cost model."""
    return _NANOSECONDS.get(name, 1.0)


__all__ = ["FUNCTIONS", "heavy"]
