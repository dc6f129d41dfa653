"""Gradients of quotients by values that are constant along a row."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.passes.pipeline import optimised

SETTINGS = pytest.mark.parametrize("thread_count", [1, 2])


def softmax(x):
    e = np.exp(x)
    return e / np.sum(e, -1, keepdims=True)


def normalised(x):
    centred = x - np.mean(x, -1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, -1, keepdims=True) + 1e-5)


def unit(x):
    return x / np.sqrt(np.sum(x * x, -1, keepdims=True))


def pulled_back(f):
    return lambda x, g: fg.vjp(f, x)[1](g)[0]


def whole_divisions(graph):
    """The number of divisions of arrays of the size of the first input."""
    size = graph.inputs[0].type.size
    outputs = [e.outputs[0] for e in graph.equations if e.primitive.name == "div"]
    return sum(output.type.size == size for output in outputs)


def data(dtype=np.float64, shape=(6, 5)):
    rng = np.random.default_rng(0)
    values = [rng.uniform(0.5, 2.0, shape) for _ in range(2)]
    return [v.astype(dtype) for v in values]


@pytest.mark.slow
def test_gradients_of_long_chains_of_factors_stay_linear():
    def chain(x, steps):
        y = np.arange(1.0, 51.0)
        for k in range(steps):
            y = (y * x[k % 3]) / x[0]
        return np.sum(y)

    x = np.array([1.0, 1.1, 0.9])
    counts = []
    for steps in (50, 100):
        gradient = fg.grad(lambda x, steps=steps: chain(x, steps))
        graph = fg.make_jaxpr(gradient)(x)
        counts.append(len(optimised(graph).equations))
        np.testing.assert_allclose(fg.jit(gradient)(x), gradient(x), rtol=1e-11)
    assert counts[1] < 2.1 * counts[0] and counts[0] <= 12 * 50


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128, np.float64])
@pytest.mark.parametrize("f", [softmax, normalised, unit])
def test_gradients_agree_in_all_dtypes(f, dtype):
    args = data(dtype)
    expected = pulled_back(f)(*args)
    found = fg.jit(pulled_back(f))(*args)
    assert found.dtype == expected.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=200 * eps, atol=20 * eps)
    assert whole_divisions(optimised(fg.make_jaxpr(pulled_back(f))(*args))) == 2


@SETTINGS
@pytest.mark.parametrize("f", [softmax, normalised, unit])
@pytest.mark.parametrize("shape", [(6, 5), (0, 5), (1, 1), (900, 300)])
def test_gradients_of_two_orders_agree(f, shape, thread_count, monkeypatch):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    args = data(shape=shape)

    def second(x, g):
        return fg.grad(lambda x: np.sum(pulled_back(f)(x, g) ** 2))(x)

    rows = fg.vmap(pulled_back(f))
    for function in (pulled_back(f), second, rows):
        np.testing.assert_allclose(fg.jit(function)(*args), function(*args), rtol=1e-9, atol=1e-12)


@SETTINGS
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_sums_of_products_along_rows_agree(dtype, thread_count, monkeypatch):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 700, 400)).astype(dtype)
    tolerance = 1e-10 if np.dtype(dtype).itemsize > 4 else 1e-4
    for f in (
        lambda x, y: np.sum(np.exp(x) * np.tanh(y), 1),
        lambda x, y: np.sum(np.exp(x) ** 2, 1),
        lambda x, y: np.sum((np.sin(x) - y) ** 2),
        lambda x, y: np.sum(np.sin(x) ** 2, 0),
        lambda x, y: np.sum(np.exp(x).reshape(350, 2, 400) * y.reshape(350, 2, 400), 2),
        lambda x, y: np.sum(np.exp(x) * y[:1], 1),
    ):
        found = fg.jit(f)(x, y)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, f(x, y), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cotangent_of_a_divisor_is_divided_after_its_sum(dtype):
    x, y = data(dtype)
    rows = y[:, :1]
    slopes = fg.grad(lambda x, y: np.sum((x / y) ** 2), (0, 1))
    with np.errstate(all="raise"):
        found = slopes(x, rows)
    eps = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(found[0], 2 * x / rows**2, rtol=eps)
    np.testing.assert_allclose(found[1], -np.sum(2 * x**2, 1, keepdims=True) / rows**3, rtol=eps)
    assert whole_divisions(fg.make_jaxpr(slopes)(x, rows)) == 2  # x / y, and that of the cotangent


def test_cotangents_are_negated_after_their_sum():
    x, y = data()
    for f in (lambda x, y: np.sum((x - y) ** 2), lambda x, y: np.sum((x / y) ** 2)):
        graph = fg.make_jaxpr(fg.grad(f, 1))(x, y[:1])
        (negated,) = [e for e in graph.equations if e.primitive.name == "neg"]
        assert negated.outputs[0].type.shape == (1, 5)
        step = fg.grad(f, 1)(x, y[:1])
        by_differences = [
            (f(x, y[:1] + 1e-6 * d) - f(x, y[:1] - 1e-6 * d)) / 2e-6 for d in np.eye(5)
        ]
        np.testing.assert_allclose(step[0], by_differences, rtol=1e-6)


def test_the_derivative_by_a_short_divisor_is_rounded_once():
    x, y = (
        np.array([-0.4504069100600625, 0.9173834879771965, 1.3422245525284113]),
        np.float32(0.878),
    )
    exact = -np.sum(x / np.float64(y) ** 2)
    for f in (lambda y: np.sum(x / y), lambda y: np.nansum(x / y, axis=0, keepdims=True)[0]):
        for run in (fg.grad(f), fg.jit(fg.grad(f)), fg.jacrev(f)):
            found = run(y)
            assert found.dtype == np.float32 and found == np.float32(exact)
