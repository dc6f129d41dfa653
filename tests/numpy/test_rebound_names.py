"""`r /= x` into an ndarray from outside, where the name alone holds it."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ItemAssignmentError

LAM = np.linspace(1.0, 2.0, 3)


def divided(x):
    r = 1.0 / LAM**5
    r /= np.exp(1 / (LAM * x)) - 1.0
    return np.sum(r)


def twice(x):
    r = LAM * 2
    r += x
    r *= x
    return np.sum(r)


def an_item(x):
    held = [LAM * 2]
    held[0] += x
    return np.sum(held[0] ** 2)


@pytest.mark.parametrize("f", [divided, twice, an_item])
def test_value_and_gradient(f):
    expected = (f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6
    value, slope = fg.value_and_grad(f)(1.5)
    assert np.isclose(value, f(1.5)) and np.isclose(slope, expected)
    assert np.isclose(fg.jvp(f, (1.5,), (1.0,))[1], expected)
    assert np.isclose(fg.jit(fg.grad(f))(1.5), expected)
    assert np.allclose(fg.vmap(f)(np.array([1.5, 2.0])), [f(1.5), f(2.0)])


ROWS = ["1 2 3"]


def two_names(x):
    r = np.loadtxt(ROWS)
    other = r
    r *= x
    return np.sum(other)


def a_view(x):
    r = np.loadtxt(ROWS)
    part = r[:2]
    r *= x
    return np.sum(part)


def in_a_container(x):
    r = np.loadtxt(ROWS)
    held = [r]
    r *= x
    return np.sum(held[0])


def of_the_caller(x):
    def scale(r):
        r *= x

    r = np.loadtxt(ROWS)
    scale(r)
    return np.sum(r)


def by_a_function(x):
    r = np.loadtxt(ROWS)
    operator.imul(r, x)
    return np.sum(r)


def out(x):
    r = np.loadtxt(ROWS)
    np.multiply(r, x, out=r)
    return np.sum(r)


@pytest.mark.parametrize(
    "f", [two_names, a_view, in_a_container, of_the_caller, by_a_function, out]
)
def test_what_another_name_would_see_is_refused(f):
    with pytest.raises(ItemAssignmentError):
        fg.grad(f)(1.5)


def test_an_attribute_that_outlives_the_call_is_not_bound_to_a_traced_array():
    class Model:
        weights = LAM * 2

        def __call__(self, x):
            self.weights *= x
            return np.sum(self.weights)

    model = Model()
    model.weights = weights = LAM * 2
    assert fg.grad(model)(1.5) == fg.grad(model)(2.5) == 9.0
    assert model.weights is weights and np.array_equal(weights, LAM * 2)


def test_casts_and_shapes_are_numpys():
    def integers(x):
        r = np.arange(3) * 2
        r += x
        return np.sum(r)

    def grows(x):
        r = LAM * 2
        r += x * np.ones((2, 3))
        return np.sum(r)

    def cuts(x):
        r = LAM.astype("f4") * np.float32(2)
        r += x
        return np.sum(r)

    for f, error in ((integers, TypeError), (grows, ValueError)):
        with pytest.raises(error):
            f(1.5)
        with pytest.raises(error):
            fg.grad(f)(1.5)
    assert fg.grad(cuts)(1.5) == 3.0 and fg.value_and_grad(cuts)(1.5)[0].dtype == np.float32
    assert np.array_equal(LAM, np.linspace(1.0, 2.0, 3))
