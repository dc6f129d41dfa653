"""Arrays for random programs: dtypes, special values and scales, layouts, all as plain data."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "support"))
import arrivals

SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.2e-308, 1e-310,
    1e308, -1e308,
    1e300, -1e-300, 1e-300, 1e200, -1e200, 1e-200, 1e155, 65504.0, 6e-8, 1e-7, 3e38, 1e-40, 1e16,
    3.0,
)  # fmt: skip
FINITE = tuple(v for v in SPECIAL if np.isfinite(v))
BASE = 37  # numbers of an input, which repeats them


def _wide(rng: Random) -> float:
    return rng.choice((-1.0, 1.0)) * 10.0 ** rng.uniform(-300, 300)


VALUES: dict[str, Callable[[Random], float]] = {
    "tame": lambda rng: rng.uniform(-2.0, 2.0),
    "positive": lambda rng: rng.uniform(0.1, 2.0),
    "whole": lambda rng: float(rng.randint(-3, 3)),
    "special": lambda rng: rng.choice(SPECIAL),
    "finite": lambda rng: rng.choice(FINITE),
    "mixed": lambda rng: rng.choice(SPECIAL) if rng.random() < 0.15 else rng.uniform(-2.0, 2.0),
    "zeros": lambda rng: rng.choice((0.0, -0.0, 0.0, 1.0, -2.5)),
    "huge": lambda rng: rng.uniform(-1e308, 1e308),
    "tiny": lambda rng: rng.uniform(-1e-307, 1e-307),
    "wide": _wide,
}


@dataclass(frozen=True)
class Input:
    """An argument: numbers repeated to fill a shape, with a dtype and a memory layout.

    `kind` is "array", "numpy" (a NumPy scalar) or "python" (a Python number); `arrival` is one of
    arrivals.WAYS in which the array comes to the program, or empty.
    """

    base: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: str
    layout: str = "c"
    kind: str = "array"
    arrival: str = ""

    def make(self, turn: int = 0) -> Any:
        """The value; `turn` rotates the numbers, for other values of the same type."""
        turn %= max(len(self.base), 1)
        numbers = self.base[turn:] + self.base[:turn]
        if self.kind == "python":
            return numbers[0]
        with np.errstate(all="ignore"):
            array = np.resize(np.array(numbers).astype(self.dtype), self.shape)
        if self.kind == "numpy":
            return array[()]
        array = LAYOUTS[self.layout](array)
        if self.arrival and arrivals.applies(self.arrival, array):
            return arrivals.WAYS[self.arrival](array)
        return array

    def __str__(self) -> str:
        """Python text that makes the value."""
        if self.kind == "python":
            return _number(self.base[0])
        used = self.base[: int(np.prod(self.shape))] or self.base[:1]
        numbers = "[" + ", ".join(map(_number, used)) + "]"
        if self.shape == ():
            text = (
                f"np.{self.dtype}({_number(used[0])})"
                if self.dtype != "bool"
                else f"np.bool_({used[0]})"
            )
            text = text if self.kind == "numpy" else f"np.array({_number(used[0])}, {self.dtype!r})"
        else:
            text = f"np.array({numbers}).astype({self.dtype!r})"
            if self.shape != (len(used),):
                text = f"np.resize({text}, {self.shape})"
        text = text if self.layout == "c" else f"LAYOUTS[{self.layout!r}]({text})"
        if self.arrival and arrivals.applies(self.arrival, replace(self, arrival="").make()):
            return f"WAYS[{self.arrival!r}]({text})"
        return text

    def smaller(self) -> list[Input]:
        """Simpler inputs of the same rank."""
        found = []
        if self.arrival:
            found.append(replace(self, arrival=""))
        if self.layout != "c":
            found.append(replace(self, layout="c"))
        if self.kind != "array":
            found.append(replace(self, kind="array", dtype=np.asarray(self.make()).dtype.name))
        if len(self.base) > 1:
            half = len(self.base) // 2
            found += [replace(self, base=self.base[:half]), replace(self, base=self.base[half:])]
            found += [
                replace(self, base=self.base[:i] + self.base[i + 1 :])
                for i in range(min(len(self.base), 12))
            ]
        for i, value in enumerate(self.base[:8]):
            for simple in (1.0, 0.0, 2.0, round(value.real, 1) if np.isfinite(value) else 1.0):
                simple = type(value)(simple)
                if repr(simple) != repr(value) and len(repr(simple)) <= len(repr(value)):
                    found.append(replace(self, base=(*self.base[:i], simple, *self.base[i + 1 :])))
        return found


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    text = repr(value)
    for name in ("nan", "inf"):
        text = text.replace(name, f"np.{name}")
    return text


def _strided(array: Any) -> Any:
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def _reversed(array: Any) -> Any:
    turned = tuple(slice(None, None, -1) for _ in array.shape)
    return np.ascontiguousarray(array[turned])[turned]


def _broadcast(array: Any) -> Any:
    return np.broadcast_to(array[:1], array.shape)


def _read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def _unaligned(array: Any) -> Any:
    room = np.zeros(array.nbytes + 1, np.uint8)
    result = room[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "c": lambda array: array,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": _reversed,
    "broadcast": _broadcast,
    "read_only": _read_only,
    "unaligned": _unaligned,
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "big_endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
}
_NEEDS_AXIS = ("strided", "reversed", "broadcast")
DTYPES = ("float64",) * 14 + ("float32",) * 4 + ("float16", "complex128", "complex128",
"complex64") + (
    "int64", "int64", "int32", "int8", "uint8", "bool", "bool", "uint64")  # fmt: skip


def random_input(
    rng: Random, shape: tuple[int, ...], values: str, dtypes: tuple[str, ...] = DTYPES
) -> Input:
    """An input of a shape; `values` names one of VALUES."""
    dtype = rng.choice(dtypes)
    draw = VALUES[values]
    count = min(BASE, max(int(np.prod(shape)), 1))
    letter = np.dtype(dtype).kind
    base: list[Any] = []
    for _ in range(count):
        if letter == "b":
            base.append(rng.random() < 0.5)
        elif letter in "iu":
            base.append(_integer(rng, dtype, values))
        elif letter == "c":
            base.append(complex(draw(rng), draw(rng)))
        else:
            base.append(draw(rng))
    layout = "c" if rng.random() < 0.7 else rng.choice(list(LAYOUTS))
    if not shape and rng.random() < 0.5:
        if dtype in ("float64", "int64", "bool", "complex128") and rng.random() < 0.5:
            return Input(tuple(base), shape, dtype, kind="python")
        return Input(tuple(base), shape, dtype, kind="numpy")
    if layout in _NEEDS_AXIS and 0 in (len(shape), *shape):
        layout = "c"
    return Input(tuple(base), shape, dtype, layout)


def in_a_way(rng: Random, value: Input) -> Input:
    """The input, in one of the ways in which arrays arrive."""
    if value.kind != "array" or value.layout == "big_endian":
        return value
    return replace(value, arrival=rng.choice(list(arrivals.WAYS)))


def _integer(rng: Random, dtype: str, values: str) -> int:
    info = np.iinfo(dtype)
    if values in ("special", "finite", "huge", "wide") and rng.random() < 0.3:
        return rng.choice((int(info.min), int(info.max), int(info.max) // 2, 0, 1))
    return rng.randint(max(-4, int(info.min)), 5)
