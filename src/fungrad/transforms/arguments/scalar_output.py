"""The output that grad asks of a function: one number that has a derivative.

Knows trees and types; knows no transform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, NonScalarOutputError
from fungrad.support import pytree
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import typeof
from fungrad.transforms.arguments.binding import leaf_type, to_one_number
from fungrad.transforms.arguments.differentiated_leaves import Inputs

_ONE = np.float64(1.0)


def require_complex(inputs: Inputs, what: str) -> None:
    """Raises ArgumentError where an input of holomorphic=True is real."""
    for i in inputs.active:
        if typeof(inputs.leaves[i]).dtype.kind != "c":
            raise ArgumentError(
                f"holomorphic=True needs complex inputs, but {inputs.names()[i]} is "
                f"{typeof(inputs.leaves[i])}. Leave holomorphic out for real functions."
            )


def seed_of(f: Any, values: Sequence[Any], treedef: pytree.TreeDef, holomorphic: bool) -> Any:
    """The cotangent 1 of the one output of a function whose gradient is wanted.

    Raises:
      NonScalarOutputError, ArgumentError: where it is not one number, or has no derivative.
    """
    if treedef is pytree.LEAF and not holomorphic:
        kind = type(values[0])
        if kind is np.float64 or kind is float:
            return _ONE
    type_ = leaf_type(values[0]) if treedef is pytree.LEAF else None
    if type_ is None or type_.shape != ():
        seen: Any = type_.shape if type_ is not None else treedef
        if treedef is pytree.LEAF and type_ is None:
            seen = type(values[0]).__name__
        raise NonScalarOutputError(
            f"grad needs a function that returns one number (shape ()), but {describe(f)} returned "
            f"{seen}. {to_one_number(treedef)}"
        )
    if type_.dtype.kind == "c" and not holomorphic:
        raise NonScalarOutputError(
            f"grad needs a real output, but {describe(f)} returned a complex number ({type_}). "
            "Take its real part, or pass holomorphic=True, or use fg.vjp."
        )
    if not type_.inexact:
        raise ArgumentError(
            f"grad needs a floating output, but {describe(f)} returned {type_}: an index, a count "
            "or a comparison is constant nearly everywhere, and has no derivative. Return what it "
            "is computed from, or return it as aux (has_aux=True) beside a loss."
        )
    if holomorphic and type_.dtype.kind != "c":
        raise ArgumentError(
            f"holomorphic=True needs a complex output, but {describe(f)} returned {type_}."
        )
    return type_.dtype.type(1)


__all__ = ["require_complex", "seed_of"]
