"""Fingerprints of values and of Graphs with their constants: hashes by content."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.graph import Graph, Literal
from fungrad.primitives.movement.gather import Index
from fungrad.retracing.graph_transforms import memoised


def fingerprint(value: Any) -> int:
    """A hash of arrays by their bits, of numbers, and of Graphs with their constants; 0 for traced
    values and all other objects.
    """
    if type(value) is tuple:
        return hash(tuple([fingerprint(v) for v in value]))
    if issubclass(type(value), np.ndarray):
        return _of_array(value)
    if issubclass(type(value), _NUMBERS):
        return hash(value) if value == value else 1  # NaN has the hash of its address
    if type(value) is Graph:
        result: int = memoised(value, "fingerprint", lambda: _of_graph(value))
        return result
    return 0


_NUMBERS = (int, float, complex, str, np.generic, Index)


def _of_array(value: np.ndarray) -> int:
    if value.dtype.kind == "O":  # the tape of a loop
        return 0
    if value.dtype.char in "gG":  # has padding bits
        value = value.astype("d" if value.dtype.char == "g" else "D")
    once = value[tuple([slice(0, 1) if s == 0 else slice(None) for s in value.strides])]
    return hash((value.shape, value.dtype.char, once.tobytes()))


def _of_graph(graph: Graph) -> int:
    parts = [fingerprint(value) for _, value in graph.constants]
    for equation in graph.equations:
        literals = [a.value for a in equation.inputs if isinstance(a, Literal)]
        params = tuple(equation.params.values())
        parts.append(hash((equation.primitive.name, fingerprint((*literals, *params)))))
    return hash(tuple(parts))
