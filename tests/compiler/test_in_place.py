"""Compiled programs write over nothing that is still read: no value, argument, constant, result."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.tree_util import tree_leaves

at = fg.numpy.at
LONG, SHORT = 20_000, 9
CONSTANT = np.linspace(-1.0, 1.0, LONG)
MATRIX = np.linspace(0.0, 1.0, 300 * 70).reshape(300, 70)
STEPS = np.random.default_rng(0).normal(size=(4, 20, 20)) / 5


def added(x, v):
    return at(x)[1:3].add(v)


def added_to_a_constant(x, v):
    return at(CONSTANT)[1:3].add(v)


def added_and_read(x, v):
    y = np.sin(x) * v + 1.0
    return y, at(y)[1:3].add(v)


def added_twice(x, v):
    y = np.sin(x) * v
    return at(at(y)[1:3].add(1.0))[2:9].add(2.0), np.sum(y)


def scattered_and_read(x, v):
    y = at(np.zeros(LONG))[np.array([1, 5, 5])].add(v)
    return np.sum(y), at(y)[3:7].add(1.0), y * 2.0


def carries(x, v):
    def body(c, _):
        d = c * 0.5 + v
        return d, (c, d - c, np.outer(c[:7], d[:7]))

    return lax.scan(body, x, np.arange(3))


def carries_that_change_places(x, v):
    def body(c, _):
        a, b = c
        return (b * 1.5 + a, a), (a, b)

    return lax.scan(body, (x, x + v), np.arange(4))


def products_of_carries(x, v):
    def body(c, w):
        a, b = c
        return (a @ w, w @ b), (a @ b, b @ a, np.sum(a, axis=0))

    return lax.scan(body, (np.eye(20) * v, np.eye(20)), STEPS)


def products_for_their_factors(x, v):
    def body(c, w):
        c = c @ w + w
        c = np.tanh(c @ c) * v
        return c.T @ w, (np.sum(c, axis=1), c)

    return lax.scan(body, np.eye(20), STEPS)


def sums_for_their_rows(x, v):
    def body(c, w):
        d = w * c
        e = np.sum(d, axis=0)
        return e + c, (d, e - np.sum(d, axis=1), np.max(d, axis=0))

    return lax.scan(body, np.ones(20) * v, STEPS)


def products_and_factors(x, v):
    y = np.exp(-x * x)
    z = y * v
    return np.sum(z), np.sum(y * z), y


def rows(x, v):
    y = MATRIX * v
    s = np.sum(y, axis=1)
    t = y - s[:, None]
    return t, s, np.sum(t * y, axis=0), np.max(y, axis=0)


def softmax_of_rows(x, v):
    y = np.exp(MATRIX * v)
    p = y / np.sum(y, axis=1, keepdims=True)
    return p, np.sum(p, axis=0), np.sum(y * p, axis=1)


def columns(x, v):
    y = np.sin(MATRIX) * v
    return np.sum(y, axis=0), np.sum(y * MATRIX, axis=0), np.max(np.abs(y), axis=0), y @ np.ones(70)


def products_on_both_sides(x, v):
    y = np.tanh(MATRIX * v)
    return y @ y.T, np.sum(y), np.sum(y, axis=0) * 2.0, y.T @ np.ones(300)


def chains(x, v):
    a = x * v
    b = a + 1.0
    c = b * a
    d = c - b
    e = d * d
    return b, d, np.sum(e), e + a


def views(x, v):
    y = x * v
    s = y.reshape(3, -1) if len(y) == SHORT else y.reshape(100, -1)
    return y[::-1] + y, s.T * 2.0, y + 1.0, np.sum(s, axis=0)


PROGRAMS = (
    added, added_to_a_constant, added_and_read, added_twice, scattered_and_read, carries,
    carries_that_change_places, products_of_carries, products_for_their_factors,
    sums_for_their_rows, products_and_factors, rows, softmax_of_rows, columns,
    products_on_both_sides, chains, views,
)  # fmt: skip


@pytest.mark.parametrize("gradient", [False, True], ids=("value", "gradient"))
@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_nothing_that_is_read_is_written_over(f, size, gradient):
    def slope(x, v):
        loss = lambda x, v: sum(np.sum(np.sin(leaf)) for leaf in tree_leaves(f(x, v)))  # noqa: E731
        return fg.grad(loss, argnums=(0, 1))(x, v)

    g = slope if gradient else f
    x = np.linspace(0.1, 1.0, size)
    held = [x, CONSTANT, MATRIX, STEPS]
    before = [array.copy() for array in held]
    expected = tree_leaves(g(x, 1.5))
    run = fg.jit(g)
    for _ in range(3):
        found = tree_leaves(run(x, 1.5))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        for array, copy in zip(held, before, strict=True):
            np.testing.assert_array_equal(array, copy)
        for a in found:
            if np.ndim(a):
                a *= 0.0  # a write into a result changes nothing else
