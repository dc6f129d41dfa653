"""Lists with traced items, in every function of NumPy that takes array-likes.

Each function gets nested lists in place of its arrays, with the array's elements as items. It has
to return what NumPy returns for lists of numbers, with the derivatives of the call with arrays.
"""

from __future__ import annotations

import math
import operator
import pickle
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.special
import surface_linalg
import surface_table
from numpy import exp as _exp

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError

DISPATCHED = type(np.sum)
EXCLUDED = {
    "block": "nests blocks in lists",
    "ix_": "takes integers",
    "copyto": "writes into its argument",
    "fill_diagonal": "writes into its argument",
    "place": "writes into its argument",
    "put": "writes into its argument",
    "put_along_axis": "writes into its argument",
    "putmask": "writes into its argument",
}


def function(name):
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def cases():
    spaces = {"": surface_table.CASES, "linalg.": surface_linalg.LINALG, "fft.": surface_linalg.FFT}
    for space, table in spaces.items():
        for name, case in table.items():
            if type(function(space + name)) is DISPATCHED and name not in EXCLUDED:
                yield space + name, case


CASES = dict(cases())


def nested(array):
    """The elements of an array in nested lists; the array itself if it has no axes."""
    return [nested(part) for part in array] if np.ndim(array) else array


def leaves(tree):
    parts = tree if isinstance(tree, (tuple, list)) else [tree]
    return [
        np.asarray(p)
        for part in parts
        for p in (leaves(part) if isinstance(part, (tuple, list)) else [part])
    ]


def flat(result):
    """A result as one number, in which each element has another weight."""
    total = 0.0
    for part in fg.trees.leaves(result):
        if np.asarray(part).dtype.kind in "fc":
            weights = np.cos(np.arange(np.size(part))).reshape(np.shape(part))
            total = total + np.sum(np.real(part) * weights) + np.sum(np.imag(part) * weights)
    return total


@pytest.mark.parametrize("name", CASES)
def test_lists_are_converted_as_by_np_array(name):
    case = CASES[name]
    call = case.call or (lambda f, *args: f(*args))
    f = function(name)
    floats = [i for i, a in enumerate(case.args) if np.asarray(a).dtype.kind == "f"]

    def by(convert):
        def total(*xs):
            args = list(case.args)
            for i, x in zip(floats, xs, strict=True):
                args[i] = convert(x)
            return call(function(name), *args)

        return total

    xs = [np.asarray(case.args[i]) for i in floats]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = by(lambda x: x.tolist())(*xs)
        except (AttributeError, TypeError):
            pytest.skip("takes no lists, or the call uses methods of arrays")
        kept = []

        def lists(*xs):
            kept.append(by(nested)(*xs))
            return flat(kept[-1])

        numbers = tuple(range(len(xs)))
        if case.order:
            gradient = fg.grad(lists, argnums=numbers)(*xs)
            same = fg.grad(lambda *xs: flat(by(lambda x: x)(*xs)), argnums=numbers)(*xs)
            for found, wanted in zip(gradient, same, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
        else:
            fg.value_and_grad(lambda *xs: lists(*xs) + 0.0 * np.sum(xs[0]))(*xs)
        assert f is function(name)
    for found, wanted in zip(leaves(fg.trees.leaves(kept[-1])), leaves(expected), strict=True):
        found = np.asarray(found)
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def agrees(f, x, expected, derivative):
    value, gradient = fg.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(gradient, derivative, rtol=1e-12)
    np.testing.assert_allclose(fg.jvp(f, (x,), (1.0,))[1], derivative, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(f)(np.array([x, x])), [expected, expected], rtol=1e-12)
    np.testing.assert_allclose(fg.jit(f)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(x), derivative, rtol=1e-12)


def test_complex_items():
    agrees(lambda x: np.atleast_1d([x * 1j, 1.0]).imag[0], 1.5, 1.5, 1.0)
    agrees(lambda x: np.sum(np.imag([x * 1j, 1.0])), 1.5, 1.5, 1.0)
    agrees(lambda x: np.abs(np.fft.fft([x, 1.0])[1]), 1.5, 0.5, 1.0)


def test_polynomials():
    f = lambda x: np.sum(np.poly1d([x + 1j * x, 1.0]).coeffs.imag)  # noqa: E731
    assert fg.value_and_grad(f)(1.5) == (1.5, 1.0)
    assert fg.grad(lambda x: np.poly1d([x, 1.0])(3.0))(1.5) == 3.0

    def g(x):
        p = np.poly1d([x, 1.0])
        assert isinstance(p, np.poly1d) and issubclass(type(p), np.poly1d)
        return p.deriv()(0.0)

    assert fg.grad(g)(1.5) == 1.0


def test_matrices():
    agrees(lambda x: np.linalg.det([[x, 1.0], [0.5, x]]), 2.0, 3.5, 4.0)
    agrees(lambda x: np.linalg.inv([[x, 1.0], [0.0, 2.0]])[0, 0], 2.0, 0.5, -0.25)
    agrees(lambda x: np.linalg.norm((x, 4.0)), 3.0, 5.0, 0.6)
    agrees(lambda x: np.interp(0.5, [0.0, 1.0], [x, 1.0]), 2.0, 1.5, 0.5)

    def f(x):
        m = np.diag([x, 1.0])
        m[:1, :1] += x
        return np.sum(m)

    agrees(f, 2.0, 5.0, 2.0)


def test_tuples_in_lists_and_keywords():
    agrees(lambda x: np.sum([(x, 1.0), (2.0, x)], axis=0)[1], 1.5, 2.5, 1.0)
    agrees(lambda x: np.sum(np.full_like(np.ones(3), fill_value=x)), 1.5, 4.5, 3.0)
    agrees(lambda x: np.sum(np.where([True, False], [x, 1.0], 0.0)), 1.5, 1.5, 1.0)
    agrees(lambda x: np.average([1.0, 2.0], weights=[x, 1.0]), 1.0, 1.5, -0.25)


def test_object_arrays_of_traced_values():
    def f(x):
        q = np.empty(2, object)
        q[0], q[1] = x, x * x
        return np.sum(np.array([q, q])) + np.mean(q) + np.dot(q, [1.0, x])

    value, gradient = fg.value_and_grad(f)(1.5)
    x = 1.5
    np.testing.assert_allclose(value, 2 * (x + x**2) + (x + x**2) / 2 + x + x**3, rtol=1e-12)
    np.testing.assert_allclose(gradient, 2.5 * (1 + 2 * x) + 1 + 3 * x**2, rtol=1e-12)
    np.testing.assert_allclose(fg.jit(f)(x), value, rtol=1e-12)


def test_lists_of_plain_numbers_stay_numpys():
    def f(x):
        assert type(np.sum([1.0, 2.0])) is np.float64
        assert type(np.linalg.det([[1.0, 2.0], [3.0, 4.0]])) is np.float64
        assert np.mean([1, 2]) == 1.5
        return x * x

    assert fg.grad(f)(3.0) == 6.0
    assert np.sum.__module__ == "numpy" and type(np.sum) is DISPATCHED


B = np.array([2.0, 3.0])
UFUNCS = {
    "exp": lambda x: np.exp([x, 1.0]),
    "imag": lambda x: np.multiply([x, 1j], 2.0).imag,
    "conj": lambda x: np.conj([x * 1j, 1.0]).imag,
    "tuple": lambda x: np.sin((x, 1.0)),
    "nested": lambda x: np.sqrt([[x, 1.0], (2.0, x)]),
    "arrays": lambda x: np.exp([B, B * x]),
    "both": lambda x: np.hypot([x, 1.0], [1.0, x]),
    "maximum": lambda x: np.maximum([x, 1.0], 0.5),
    "greater": lambda x: np.greater([x, 1.0], 0.5) * x,
    "dtype": lambda x: np.exp([x, 1.0], dtype=np.float32),
    "out": lambda x: np.exp([x, 1.0], out=np.zeros(2)),
    "outputs": lambda x: np.modf([x, 1.5])[0],
    "products": lambda x: np.matmul(np.outer(B, B), [x, 1.0]),
    "reduce": lambda x: np.maximum.reduce([x, 0.5]),
    "reduceat": lambda x: np.add.reduceat([x, x, 1.0], [0, 1]),
    "accumulate": lambda x: np.multiply.accumulate([x, 2.0, x]),
    "outer": lambda x: np.subtract.outer([x, 1.0], [1.0, x]),
    "operator": lambda x: B - [x, 1.0],
    "parts": lambda x: (B * [x * 1j, 1.0]).imag,
    "reflected": lambda x: ([x * 1j, 1.0] / np.sqrt(B)).imag,
    "compared": lambda x: ([x, 1.0] < B) * x,
    "contained": lambda x: ([x, 1.0] in B) + B * x,
    "in place": lambda x: operator.iadd(np.array(B), [x, 1.0]),
    "quotients": lambda x: divmod(B, [x, 1.0])[1],
    "product": lambda x: (B @ [x * 1j, 1.0]).imag,
    "method": lambda x: B.dot([x * 1j, 1.0]).imag,
    "special method": lambda x: B.__mul__([x * 1j, 1.0]).imag,
    "made inside": lambda x: (np.ones(2) * [x * 1j, 1.0]).imag + (np.asarray(B) * [x, x]),
    "name": lambda x: _exp([x, 1.0]),
    "scipy": lambda x: scipy.special.erf([x, 1.0]),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_convert_lists_as_arrays(name):
    f = UFUNCS[name]
    expected = f(0.7)
    traced = [fg.jit(f)(0.7), fg.vmap(f)(np.array([0.7, 0.7]))[1], fg.jvp(f, (0.7,), (1.0,))[0]]
    for found in traced:
        assert np.asarray(found).dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    difference = np.sum(f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6
    if name not in ("dtype", "out"):
        for gradient in (fg.grad(flat_sum(f)), fg.jit(fg.grad(flat_sum(f)))):
            np.testing.assert_allclose(gradient(0.7), difference, rtol=1e-6)
    assert type(np.exp) is np.ufunc and _exp is np.exp


def test_arguments_beside_lists():
    class Held:
        __slots__ = ("b",)

    parts = [Held()]
    parts[0].b = B

    def f(x, a, tree):
        return np.sum(((a + tree["a"][0] + tree["b"][0] + parts[0].b) * [x * 1j, 1.0]).imag)

    given = B, {"a": (B, 1), "b": [B]}
    assert fg.grad(f)(0.7, *given) == 8.0
    np.testing.assert_allclose(fg.vmap(f, (0, None, None))(np.array([0.7]), *given), [5.6])
    assert parts[0].b is B
    assert type(given[1]["b"][0]) is np.ndarray and given[1]["b"][0] is B


def test_threads_that_meet_lists_at_once():
    def f(x, k):
        return np.sum((B * [x * 1j, 1.0]).imag) * k

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda k: [fg.grad(f)(0.7, k) for _ in range(8)], range(4))
        assert list(found) == [[2.0 * k] * 8 for k in range(4)]


def test_an_array_that_is_not_found_is_no_array_of_objects():
    f = lambda x: (np.float64(2.0) - [x * 1j, 1.0]).imag[0] + x  # noqa: E731
    for transform in (fg.grad, fg.jit, lambda f: fg.jit(fg.grad(f))):
        with pytest.raises(UnsupportedArgumentError, match=r"test_lists\.py.*did not find"):
            transform(f)(0.7)


def flat_sum(f):
    return lambda x: np.sum(f(x))


def test_all_transforms_trace_lists():
    f = lambda x: np.sum(np.exp([x, x * x]))  # noqa: E731
    first, second = math.exp(0.5) + math.exp(0.25), math.exp(0.5) + 3 * math.exp(0.25)
    np.testing.assert_allclose(fg.hessian(f)(0.5), second)
    np.testing.assert_allclose(fg.linearize(lambda x: f(x) * 1.0, 0.5)[1](1.0), first)
    series = fg.jet(lambda x: f(x) + 0.0, (0.5,), ((1.0, 0.0),))
    np.testing.assert_allclose(series[1], [first, second])
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.array([0.5, 0.5])), [first, first])
    assert fg.grad(lambda v: np.sum(np.exp(v)))([0.0, 0.0]) == [1.0, 1.0]
    assert fg.jit(np.exp)([0.0, 0.0]).tolist() == [1.0, 1.0]


def test_a_function_that_meets_lists_is_traced_twice_once():
    runs, kept = [], deque()

    def f(x):
        found = np.exp
        runs.append(found == np.exp and isinstance(found, np.ufunc) and found.nin == 1)
        kept.append(found)
        return np.sum(np.exp([x, 1.0]))

    for _ in range(3):
        assert fg.grad(f)(0.0) == 1.0
    assert runs == [True] * 4
    assert pickle.loads(pickle.dumps(kept[-1])) is np.exp


def test_object_arrays_stay_where_they_are_meant():
    runs = []

    def f(x):
        runs.append(x)
        o = np.empty(2, object)
        o[:] = [x, x]
        kept = np.array([x, 1.0], dtype=object)
        assert kept.dtype == object and hasattr(x, "__array__") is False
        return np.sum(o) + kept[0]

    assert fg.grad(f)(1.0) == 3.0
    assert len(runs) == 1


def test_digits_of_lists():
    assert fg.digits(lambda x: np.sum(np.exp([x, 1.0])))(0.7).outputs[0].digits > 15
