"""Every kind of index, and every kind of update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..generate import Builder, family


def index(b: Builder, shape: tuple[int, ...], fancy: bool = True) -> str:
    """An index of an array of a shape."""
    rng, parts = b.rng, []
    for length in shape[: rng.randint(1, max(len(shape), 1))]:
        how = rng.randrange(9 if fancy else 6)
        if how == 0 and length:
            parts.append(str(rng.randrange(-length, length)))
        elif how == 1:
            parts.append(f"{rng.randint(0, 2)}:")
        elif how == 2:
            parts.append(f":{rng.choice((-1, 1, 2))}")
        elif how == 3:
            parts.append(rng.choice(("::2", "::-1", "1::2", "-1:0:-1", "::-2")))
        elif how == 4 and length:
            parts.append(str(length - 1))
        elif how == 6 and length:
            parts.append(f"{[rng.randrange(-length, length) for _ in range(rng.randint(1, 4))]}")
        elif how == 7 and length:
            parts.append(f"np.array([{rng.randrange(length)}, {rng.randrange(length)}])")
        elif how == 8 and length and length < 20:
            parts.append(f"np.array({[rng.random() < 0.5 for _ in range(length)]})")
        else:
            parts.append(":")
    if rng.random() < 0.15:
        parts.insert(rng.randint(0, len(parts)), "None")
    if rng.random() < 0.15:
        parts.insert(0, "...")
    return ", ".join(parts)


@family("indexing", 8)
def read(b: Builder) -> str | None:
    x = b.array()
    if x is None:
        return None
    shape = b.shape(x)
    row = math.prod(shape[1:])
    i = None if b.smooth else b.pick("i", lambda v: _index(v) and np.size(v) * row <= b.limit())
    if i is not None and shape[0] and b.rng.random() < 0.4:
        return b.rng.choice(
            (
                f"np.take({x}, {i} % {shape[0]}, axis=0)",
                f"at({x})[{i} % {shape[0]}].get()",
                f"np.take({x}, {i}, axis=0, mode='clip')",
                f"at({x})[np.clip({i}, 0, {shape[0] - 1})].get()",
            )
        )
    m = None if b.smooth else b.pick("b", lambda v: np.shape(v) == shape)
    if m is not None and b.rng.random() < 0.3:
        return b.rng.choice(
            (f"np.where({m}, {x}, 0)", f"np.where({m}, {x}, {b.number()})", f"np.sum({x} * {m})")
        )
    return f"{x}[{index(b, shape)}]"


@family("updates", 5)
def write(b: Builder) -> str | None:
    x = b.array("f" if b.smooth else "ifc")
    if x is None:
        return None
    shape = b.shape(x)
    m = None if b.smooth else b.pick("b", lambda v: np.shape(v) == shape)
    if m is not None and b.rng.random() < 0.3:
        return f"at({x})[{m}].set({b.rng.choice(('0', '1', '2'))})"
    text = index(b, shape)
    try:
        part = np.shape(eval(f"{x}[{text}]", b.scope))
    except IndexError:
        return None
    real = b.kind(x) == "f"
    methods = (
        ("set", "add", "multiply")
        if b.smooth or not real
        else ("set", "add", "multiply", "max", "min")
    )
    method = b.rng.choice(methods)
    kinds = {"f": "bif", "c": "bifc", "i": "b"}[b.kind(x)]
    y = b.pick("f" if b.smooth else kinds, lambda v: _into(np.shape(v), part))
    if (
        b.kind(x) == "f"
        and y is not None
        and np.asarray(b.value(y)).dtype != np.asarray(b.value(x)).dtype
    ):
        y = None
    if method == "set" and "[" in text and y is not None:  # repeated places: the last one counts
        method = "add"
    value = y if y is not None and b.rng.random() < 0.8 else b.rng.choice(("1", "2", "0"))
    return f"at({x})[{text}].{method}({value})"


def _index(value: Any) -> bool:
    """Whether it can be an index of one axis: NumPy wraps the largest of uint64 around."""
    return np.ndim(value) <= 1 and np.asarray(value).dtype != np.uint64


def _into(shape: tuple[int, ...], part: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, part) == part
    except ValueError:
        return False
