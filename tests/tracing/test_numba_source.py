"""Functions that numba compiled run their Python source on traced values."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg

numba = pytest.importorskip("numba")


@numba.njit
def inner(x, a):
    return a * x * np.sin(x)


@numba.njit
def smooth(x, a):
    y = np.empty_like(x)
    last = 0.0
    for i in range(len(x)):
        last = a * last + inner(x[i], 1.0 - a)
        y[i] = last
    return y


X = np.array([0.3, -0.7, 1.9])


def test_value_and_gradient():
    def f(x):
        return np.sum(smooth(x, 0.4) ** 2)

    def plain(x):
        return np.sum(smooth.py_func(x, 0.4) ** 2)

    assert np.isclose(f(X), plain(X))
    value, slope = fg.value_and_grad(f)(X)
    assert np.isclose(value, f(X))
    expected = [(f(X + 1e-6 * e) - f(X - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    assert np.allclose(slope, expected, rtol=1e-6)
    assert np.allclose(fg.jit(fg.grad(f))(X), slope)


def test_plain_arguments_are_compiled_under_a_trace_too():
    seen = []

    def f(x):
        seen.append(type(smooth(X, 0.4)))
        return np.sum(x * smooth(X, 0.4))

    assert np.allclose(fg.grad(f)(X), smooth(X, 0.4))
    assert set(seen) == {np.ndarray}  # twice, where numba compiles during the first trace


def test_the_class_is_as_before():
    kind = type(smooth)
    before = kind.__call__
    fg.grad(lambda x: np.sum(smooth(x, 0.4)))(X)
    assert kind.__call__ is before
