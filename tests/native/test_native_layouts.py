"""Compiled functions on native code, at arguments of every length, layout and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg

RNG = np.random.default_rng(3)
LENGTHS = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 4095, 4096, 4097)
SHAPES = [(), *[(n,) for n in LENGTHS], (3, 5), (1, 7), (5, 1), (0, 3), (3, 0), (65, 63), (2, 3, 4)]


class Named(np.ndarray):
    """A subclass without a behaviour of its own."""


def layouts(x: Any) -> Iterator[Any]:
    """The same numbers in other memory, or as other objects."""
    yield x
    yield np.asfortranarray(x)
    yield x.astype(x.dtype.newbyteorder(">"))
    yield x.view(Named)
    read_only = x.copy()
    read_only.flags.writeable = False
    yield read_only
    if x.ndim:
        yield np.repeat(x, 2, 0)[::2]
        yield np.ascontiguousarray(x[::-1])[::-1]
    else:
        yield from (x[()], x.item())
    if x.size:
        unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
        unaligned[...] = x
        yield unaligned


def arithmetic(x: Any) -> Any:
    chosen = x * 1.5 + np.maximum(x, 0.25) - abs(x) / 3
    return chosen, (x > 0.3) & (x < 2), x * x


def neighbours(x: Any) -> Any:
    return (x[1:] - x[:-1], x[::-1] * 2.0, np.cumsum(x, axis=0)) if x.ndim else (-x,)


def sums(x: Any) -> Any:
    return np.sum(x * x), np.sum(x * 2.0, axis=-1) if np.ndim(x) else x + 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize("f", [arithmetic, neighbours, sums])
def test_lengths_and_layouts(native: None, f: Callable[[Any], Any], dtype: Any) -> None:
    compiled, tolerance = (
        fg.jit(f),
        0.0 if f is not sums else 1e-5 if dtype is np.float32 else 1e-12,
    )
    for shape in SHAPES:
        for x in layouts(np.asarray((RNG.normal(size=shape) * 4).astype(dtype))):
            for found, expected in zip(compiled(x), f(np.asarray(x)), strict=True):
                if type(x) in (float, int):  # weak, as NumPy's own numbers are not
                    assert found == pytest.approx(expected, rel=1e-6)
                    continue
                assert found.dtype == np.asarray(expected).dtype.newbyteorder("=")
                scale = tolerance * np.max(np.abs(expected), initial=0.0)
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=scale, strict=True)


def test_arguments_that_overlap(native: None) -> None:
    memory = RNG.normal(size=5000)
    f = fg.jit(lambda x, y: (x * 2.0 + y, x - y[::-1]))
    for x, y in ((memory[:-1], memory[1:]), (memory, memory), (memory[::-1], memory)):
        for found, expected in zip(f(x, y), (x * 2.0 + y, x - y[::-1]), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert not np.shares_memory(found, memory)
