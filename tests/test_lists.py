"""Lists with traced items, in every function of NumPy that takes array-likes.

Each function gets nested lists in place of its arrays, with the array's elements as items. It has
to return what NumPy returns for lists of numbers, with the derivatives of the call with arrays.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import surface_linalg
import surface_table

import fungrad as fg

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


def test_a_ufunc_of_a_list_names_the_cure():
    with pytest.raises(TypeError) as caught:
        fg.grad(lambda x: np.sum(np.exp([x, 1.0])))(1.0)
    assert "fg.numpy.array" in caught.value.__notes__[0]
    agrees(lambda x: np.sum(np.exp(np.array([x, 0.0]))), 0.0, 2.0, 1.0)
    agrees(lambda x: np.sum(np.multiply([x, 1.0], x)), 2.0, 6.0, 5.0)
