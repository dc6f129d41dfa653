"""np.emath, ufunc.accumulate and reduceat, as_strided, `.shape =` on traced values."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg

X = np.array([0.3, 0.9, 0.5, 0.7])
M = np.arange(12.0).reshape(3, 4) / 10 + 0.35
strided = np.lib.stride_tricks.as_strided


def shaped(x):
    y = x * 2.0
    y.shape = (2, 2)
    return y @ y


def shaped_by_rest(x):
    y = x * 2.0
    y.shape = (-1, 1)
    return y * np.ones(2)


CALLS = {
    **{f"emath.{n}": lambda x, n=n: getattr(np.emath, n)(x)
       for n in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")},
    **{f"emath.{n} outside": lambda x, n=n: getattr(np.emath, n)(-2.0 - x)
       for n in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")},
    "emath.logn": lambda x: np.emath.logn(2.0, -x),
    "emath.power": lambda x: np.emath.power(-x, 1.5),
    **{f"{u.__name__}.accumulate": lambda x, u=u: u.accumulate(x)
       for u in (np.fmax, np.fmin, np.hypot, np.logaddexp, np.subtract, np.divide, np.arctan2)},
    "accumulate of an axis": lambda x: np.hypot.accumulate(M * x, axis=1),
    "add.reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "add.reduceat backwards": lambda x: np.add.reduceat(x, [2, 1, 3]),
    "multiply.reduceat": lambda x: np.multiply.reduceat(M * x, [0, 1, 3], axis=1),
    "maximum.reduceat": lambda x: np.maximum.reduceat(x, [0, 3]),
    "as_strided": lambda x: strided(x, (3, 2), (8, 8)) ** 2,
    "as_strided of a matrix": lambda x: strided(M * x, (2, 2, 2), (32, 16, 8)) ** 2,
    "shape": shaped,
    "shape of the rest": shaped_by_rest,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_value_and_derivatives(name):
    def f(x):
        y = CALLS[name](x)
        return np.stack([y.real, y.imag]) if y.dtype.kind == "c" else y

    value, push = fg.vjp(f, X)
    assert np.allclose(value, f(X)) and value.shape == f(X).shape and value.dtype == f(X).dtype
    for along in np.eye(4):
        expected = (f(X + 1e-6 * along) - f(X - 1e-6 * along)) / 2e-6
        assert np.allclose(fg.jvp(f, (X,), (along,))[1], expected, atol=1e-7)
        seed = np.cos(np.arange(value.size)).reshape(value.shape)
        assert np.isclose(np.sum(push(seed)[0] * along), np.sum(seed * expected), atol=1e-7)
    assert np.allclose(fg.jit(f, branches="guard")(X), f(X))


def test_mistakes():
    with pytest.raises(ValueError, match="out of the array"):
        fg.grad(lambda x: np.sum(strided(x, (4, 2), (8, 8))))(X)
    with pytest.raises(IndexError, match="out-of-bounds"):
        fg.grad(lambda x: np.sum(np.add.reduceat(x, [0, 9])))(X)
    with pytest.raises(fg.errors.ItemAssignmentError):

        def writes(x):
            y = strided(x * 1.0, (3, 2), (8, 8))
            y[0] = 1.0
            return np.sum(y)

        fg.grad(writes)(X)
