"""fungrad's functions for plain arrays: control flow by Python's, stops and rules as identity.

With these names in place of fungrad's a random program is plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

NO_STEPS = "a loop of no steps says nothing about its outputs"


def _each(f: Callable[[Any], Any], tree: Any) -> Any:
    return tuple(_each(f, part) for part in tree) if isinstance(tree, tuple) else f(tree)


def _stacked(rows: list[Any]) -> Any:
    if isinstance(rows[0], tuple):
        return tuple(_stacked(list(parts)) for parts in zip(*rows, strict=True))
    return None if rows[0] is None else np.stack([np.asarray(row) for row in rows])


def scan(
    f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, **_: Any
) -> Any:
    first = xs[0] if isinstance(xs, tuple) else xs
    count = length if first is None else len(first)
    if not count:
        raise ValueError(NO_STEPS)
    rows: list[Any] = [None] * count
    carry = init
    for i in reversed(range(count)) if reverse else range(count):
        carry, rows[i] = f(carry, _each(lambda x, i=i: x[i], xs) if xs is not None else None)
    return carry, _stacked(rows)


def map_(f: Any, xs: Any, **_: Any) -> Any:
    return scan(lambda c, x: (c, f(x)), 0, xs)[1]


def while_loop(cond: Any, body: Any, init: Any, **_: Any) -> Any:
    while cond(init):
        init = body(init)
    return init


def fori_loop(lower: Any, upper: Any, body: Any, init: Any, **_: Any) -> Any:
    for i in range(int(lower), int(upper)):
        init = body(np.int64(i), init)
    return init


def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
    return yes(*operands) if pred else no(*operands)


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


class Custom:
    """A function with a rule that nobody asks for."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)

    def defjvp(self, rule: Any) -> None:
        pass

    def defvjp(self, forward: Any, backward: Any) -> None:
        pass


class At:
    """`at(x)[index].set(values)` and its like, by a copy that is written to."""

    def __init__(self, array: Any, index: Any = None) -> None:
        self.array, self.index = array, index

    def __getitem__(self, index: Any) -> At:
        return At(self.array, index)

    def _with(self, write: Callable[[Any], Any]) -> Any:
        result = np.array(self.array, order="C")
        write(result)
        return result

    def get(self) -> Any:
        return np.asarray(self.array)[self.index]

    def set(self, values: Any) -> Any:
        return self._with(lambda x: x.__setitem__(self.index, values))

    def add(self, values: Any) -> Any:
        return self._with(lambda x: np.add.at(x, self.index, np.asarray(values, x.dtype)))

    def multiply(self, values: Any) -> Any:
        return self._with(lambda x: np.multiply.at(x, self.index, np.asarray(values, x.dtype)))

    def max(self, values: Any) -> Any:
        return self._with(lambda x: np.maximum.at(x, self.index, values))

    def min(self, values: Any) -> Any:
        return self._with(lambda x: np.minimum.at(x, self.index, values))


def _same(x: Any, **_: Any) -> Any:
    return x


lax = SimpleNamespace(
    scan=scan, map=map_, while_loop=while_loop, fori_loop=fori_loop, cond=cond, switch=switch
)
fg = SimpleNamespace(
    stop_gradient=_same, checkpoint=_same, jit=_same, custom_jvp=Custom, custom_vjp=Custom
)
NAMES: dict[str, Any] = {"np": np, "lax": lax, "fg": fg, "at": At}
