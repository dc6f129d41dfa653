"""Bits of traced values: packbits, unpackbits, bitwise_count and views, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from surface import values

import fungrad as fg
from fungrad.testing import check_grads


def same_bits(f, *args):
    """f gives NumPy's bits eagerly, compiled and mapped."""
    expected = f(*args)
    rows = fg.vmap(f)(*[np.stack([a, a]) for a in args])
    for found in (fg.vjp(f, *args)[0], fg.jit(f)(*args), rows[1]):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if expected.dtype == bool:  # a true one may have any bits
            np.testing.assert_array_equal(found, expected)
        else:
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (8,), (9,), (2, 11), (2, 0), (3, 2, 4)])
def test_bits_of_bytes(shape, order):
    x = values(shape, np.int64) % 3
    for axis in (None, 0, -1):
        for dtype in (np.int64, bool, np.uint8):
            same_bits(lambda x, a=axis: np.packbits(x, a, bitorder=order), x.astype(dtype))
        bytes_ = (x * 87).astype(np.uint8)
        for count in (None, 3, -3, 100) if x.size else (None,):
            same_bits(lambda x, a=axis, c=count: np.unpackbits(x, a, c, order), bytes_)


def test_what_has_no_bits():
    for run in (lambda f: f, fg.jit, fg.vmap):
        with pytest.raises(TypeError, match="integer or boolean"):
            run(np.packbits)(np.ones((2, 8)))
        with pytest.raises(TypeError, match="unsigned byte"):
            run(np.unpackbits)(np.ones((2, 8), int))
        with pytest.raises(ValueError, match="-count larger"):
            run(lambda x: np.unpackbits(x, count=-1000))(np.ones((2, 8), np.uint8))


def test_bitwise_count():
    for dtype in (np.int8, np.uint8, np.int64, np.uint64):
        same_bits(np.bitwise_count, np.array([0, 1, 5, 100]).astype(dtype))


TYPES = ["f8", "f4", "c16", "c8", "i8", "i1", "?", "u2", "f2"]


@pytest.mark.parametrize("dtype", TYPES)
def test_views(dtype):
    for shape in ((), (0,), (3,), (4,), (2, 4)):
        x = values(shape, dtype)
        for wanted in TYPES:
            try:
                x.view(wanted)
            except ValueError:
                with pytest.raises(ValueError, match="dtype"):
                    fg.jit(lambda x, w=wanted: x.view(w))(x)
                continue
            same_bits(lambda x, w=wanted: x.view(w), x)
    same_bits(lambda x: x.view(), values((3,), dtype))
    same_bits(lambda x: x.view(np.ndarray), values((3,), dtype))


def test_complex_numbers_and_their_parts_have_derivatives():
    check_grads(lambda z: z.view(np.float64) ** 2, [values((2,), np.complex128)], order=2)
    check_grads(lambda x: x.view(np.complex128) ** 2, [values((2, 4))], order=2)
    np.testing.assert_allclose(
        fg.grad(lambda x: np.sum(np.abs(x.view(complex))))(np.array([3.0, 4.0])), [0.6, 0.8]
    )
    same_bits(fg.lax.complex, np.array([-0.0, np.inf, 1.0]), np.array([-0.0, -np.inf, np.nan]))
    assert not fg.jacrev(lambda x: x.view(np.int64) * 1.0)(np.ones(2)).any()


def test_known_bits_of_a_real_array_are_read_only():
    def f(x):
        with pytest.raises(ValueError):
            x.view(np.int64)[0] = 1
        return np.sum(x)

    fg.grad(f)(np.array([1.0, 2.0]))
