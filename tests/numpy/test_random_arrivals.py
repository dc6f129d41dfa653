"""Random arrays, ways in which they come, and programs: the results are those of plain arrays.

A run has the first 60, and one in 28 of 2,000 by the date, natively and with NumPy: those of four
weeks have all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import numpy as np
import pytest
from arrivals import WAYS, applies
from test_array_arrival import check, fused, leaves, reduced, scanned, softmax

import fungrad as fg

SHAPES = ((), (1,), (3,), (8,), (40,), (900,), (9000,), (0,), (2, 3), (7, 1), (40, 6), (300, 5),
          (1200, 20), (5, 0), (2, 3, 4))  # fmt: skip
FLOATS = ("f8", "f8", "f4")
DTYPES = (*FLOATS, "c16", "c8", "f2", "i8", "i4", "i2", "u1", "u8", "?")
SLOW_WAYS = ("another process",)
TWICE = 0.15
"""The share of arrays that come in two ways, one after the other."""


def last(x: Any) -> Any:
    """The axis of rows, or a number as a row."""
    return np.reshape(x, (-1, np.shape(x)[-1] if np.ndim(x) else 1))


OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "fused": fused,
    "arithmetic": lambda x, y: (x + y, x * y - y, x > y, -(x * 2), abs(y)),
    "reduced": lambda x, y: reduced(np.reshape(x, -1), np.reshape(y, -1)),
    "rows": lambda x, y: softmax(last(x), last(y)) if np.size(x) else x,
    "product": lambda x, y: last(x) @ np.transpose(last(y)),
    "vector": lambda x, y: last(x) @ last(y)[0] if np.size(y) else y,
    "dot": lambda x, y: np.dot(np.reshape(x, -1), np.reshape(y, -1)),
    "einsum": lambda x, y: np.einsum("ij,kj->k", last(x), last(y)),
    "scan": lambda x, y: scanned(np.zeros(last(x).shape[1]), last(y) * 0.1),
    "moves": lambda x, y: (np.concatenate([last(x), last(y)[::-1]]), np.reshape(x, -1)[::2], x.T),
    "where": lambda x, y: np.where(x > y, x * 2, y),
    "gather": lambda x, y: np.reshape(x, -1)[np.argsort(np.reshape(y, -1))],
    "writes": lambda x, y: fg.numpy.at(last(x) * 1)[..., 0].add(last(y)[..., -1]),
    "statistics": lambda x, y: (np.mean(x) if np.size(x) else x, np.std(last(y), axis=0)),
    "moments": lambda x, y: np.sum((last(x) - np.mean(last(y), axis=0)) ** 2, axis=1),
    "roots": lambda x, y: np.sqrt(abs(x)) * np.log1p(abs(y)) + np.hypot(abs(x), abs(y)),
    "padded": lambda x, y: np.pad(np.reshape(x, -1), 2) * np.pad(np.reshape(y, -1), (1, 3)),
    "repeated": lambda x, y: np.repeat(x, 2) + np.tile(np.reshape(y, -1), 2),
}
"""Programs of two arrays of one shape."""


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.normal(size=shape) * 3
    if dtype[0] == "c":
        x = x + 1j * rng.normal(size=shape)
    x = np.asarray(np.abs(x) if dtype[0] == "u" else x).astype(dtype)
    if x.ndim and len(x) and rng.random() < 0.3:
        x[:] = x[:1]  # so that it may be broadcast
    return x


def way(rng: np.random.Generator, x: Any) -> tuple[str, Any]:
    """An array in a random way, and its name."""
    names = [name for name in WAYS if applies(name, x) and name not in SLOW_WAYS]
    if not (x.ndim and len(x) and (x == x[:1]).all()):
        names = [name for name in names if name != "broadcast"]
    name = str(rng.choice(names))
    return name, WAYS[name](x)


def forms(f: Callable[..., Any]) -> dict[str, Callable[[], Callable[..., Any]]]:
    """The ways to run a program; each makes a function that no call has compiled."""

    def g(x: Any, y: Any) -> Any:
        return sum(np.sum(np.real(leaf) * 0.5) for leaf in fg.tree_leaves(f(x, y)) if np.size(leaf))

    def slope(x: Any, y: Any) -> Any:
        return fg.value_and_grad(lambda x: g(x, y))(x)

    return {
        "jit": lambda: fg.jit(lambda x, y: f(x, y)),
        "gradient, compiled": lambda: fg.jit(lambda x, y: slope(x, y)),
        "gradient": lambda: lambda x, y: slope(x, y),
        "captured": lambda: lambda x, y: fg.jit(lambda s: f(x * s, y))(np.asarray(x).dtype.type(1)),
        "vmap": lambda: fg.jit(fg.vmap(lambda x, y: f(x, y))),
    }


@pytest.fixture(params=["native", "numpy"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "native":
        pytest.importorskip("llvmlite")
    before, fg.config.backend = fg.config.backend, request.param
    yield request.param
    fg.config.backend = before


def run(seed: int) -> str:
    """One draw; returns what differs."""
    rng = np.random.default_rng(seed)
    name = str(rng.choice(list(OF_TWO)))
    shape = SHAPES[rng.integers(len(SHAPES))]
    made = forms(OF_TWO[name])
    form = str(rng.choice(list(made)))
    kinds = FLOATS if "gradient" in form else DTYPES
    dtypes = [str(rng.choice(kinds)) for _ in range(2)]
    args = [drawn(rng, shape, dtype) for dtype in dtypes]
    if form == "vmap":
        args = [np.stack([x, x, x]) for x in args]
    with np.errstate(all="ignore"):
        try:
            expected = made[form]()(*args)
        except Exception as error:
            expected = error
        given, ways = [], []
        for x in args:
            word, found = way(rng, x) if rng.random() < 0.8 else ("plain", x)
            if rng.random() < TWICE and type(found) is np.ndarray and found.dtype.isnative:
                more, found = way(rng, found)
                word = f"{word}, {more}"
            given.append(found)
            ways.append(word)
        about = f"{seed}: {name}, {form}, {shape}, {dtypes}, {ways}"
        f = made[form]()
        if rng.random() < 0.4 and not isinstance(expected, Exception):
            f(*args)  # the program is there
        try:
            found = f(*given)
            if isinstance(expected, Exception):
                return f"{about}: no {type(expected).__name__}"
            single = any(d in ("f4", "c8", "f2") for d in dtypes)
            for one, other in zip(leaves(found), leaves(expected), strict=True):
                half = np.asarray(other).dtype == np.float16
                if half:
                    np.testing.assert_allclose(one, other, rtol=2e-2, atol=1e-2)
                else:
                    check(one, other, single)
        except Exception as error:
            if isinstance(expected, Exception) and type(error) is type(expected):
                return ""
            return f"{about}: {type(error).__name__} {error}"
    return ""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(60), id="60", marks=pytest.mark.fast),
        pytest.param(range(date.today().toordinal() % 28, 2000, 28), id="of the day",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_random_arrays_in_random_ways(backend: str, seeds: range) -> None:
    wrong = list(filter(None, map(run, seeds)))
    assert not wrong, "\n".join([f"{len(wrong)} of {len(seeds)}", *wrong[:10]])
