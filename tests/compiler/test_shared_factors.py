"""Equations with one matrix take its factors from one factorisation, with NumPy's answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.numpy_backend.shared_factors import with_shared_factors
from fungrad.compiler.passes.pipeline import optimised
from fungrad.primitives.linalg import factors

pytestmark = pytest.mark.skipif(factors.exchanges() is None, reason="NumPy has no OpenBLAS")
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


@pytest.fixture(params=["numpy", "native"], autouse=True)
def backend(request, monkeypatch):
    """Small matrices share factors, too."""
    monkeypatch.setattr(tuned, "lapack_ns", 0.0)
    monkeypatch.setattr(tuned, "factor_rows", 0)
    monkeypatch.setattr(tuned, "lapack_rows", 0)
    monkeypatch.setattr(tuned, "unrolled_rows", 0)
    monkeypatch.setattr(costs, "numpy_call", 0.0)
    if request.param == "native":
        pytest.importorskip("llvmlite")
    monkeypatch.setattr(fg.config, "backend", request.param)


def matrix(kind, n, dtype=np.float64):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.normal(size=(n, n))
    if kind == "definite":
        a = a @ a.conj().T + n * np.eye(n)
    elif kind == "indefinite":
        a = a + a.conj().T
    elif kind in ("lower", "upper"):
        a = (np.tril if kind == "lower" else np.triu)(a) + n * np.eye(n)
    return a.astype(dtype)


KINDS = ["definite", "indefinite", "general", "lower", "upper"]


def density(a, b):
    return np.sum(b * np.linalg.solve(a, b)) + np.linalg.slogdet(a)[1]


def all_of(a, b):
    sign, log = np.linalg.slogdet(a)
    inverse, turned = np.linalg.inv(a), np.linalg.inv(a.T)
    left, right = np.linalg.solve(a, b), np.linalg.solve(a.T, b)
    value = np.linalg.det(a.T)
    return sign, log, inverse, turned, left, right, value, left.T @ inverse


def calls(f, *args):
    graph = with_shared_factors(optimised(fg.jit(f).lower(*args).graph))
    return [e.primitive.name for e in graph.equations if "by_factors" in e.primitive.name]


def close(found, expected, dtype):
    tolerance = 1e-11 if np.finfo(dtype).eps < 1e-10 else 1e-3
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y).max())


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_equations_have_the_numbers_of_numpy(dtype):
    run = fg.jit(all_of)
    for n in (1, 5):
        b = matrix("general", n, dtype)[:, :2]
        assert len(calls(all_of, matrix("general", n, dtype), b)) == 6
        for a in [matrix(kind, n, dtype) for kind in KINDS]:
            close(run(a, b), all_of(a, b), dtype)


def test_matrices_of_several_blocks():
    run, b = fg.jit(all_of), np.ones((140, 1))
    for a in [matrix(kind, 140) for kind in KINDS]:
        close(run(a, b), all_of(a, b), np.float64)


def test_general_matrices_have_the_bits_of_numpy():
    a, b = matrix("general", 40), np.ones((40, 1))
    found, expected = fg.jit(all_of)(a, b), all_of(a, b)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[4], expected[4])


def test_derivatives_of_both_orders_in_both_modes():
    gradient, b = fg.grad(density, argnums=(0, 1)), np.ones((4, 1))
    assert len(calls(gradient, matrix("general", 4), b)) == 4
    along = (matrix("general", 4), np.arange(4.0)[:, None])
    tangent = lambda a, b: (fg.jvp(density, (a, b), along)[1],)  # noqa: E731
    second = lambda a, b: fg.jvp(gradient, (a, b), along)[1]  # noqa: E731
    for f in (gradient, tangent, second):
        run = fg.jit(f)
        for a in [matrix(kind, 4) for kind in KINDS]:
            close(run(a, b), f(a, b), np.float64)


def test_batches_are_loops():
    a = np.stack([matrix("definite", 4), matrix("general", 4)])
    b = np.ones((2, 4, 1))
    gradient = fg.grad(density)
    found = fg.jit(fg.vmap(gradient))(a, b)
    expected = [fg.jit(gradient)(*each) for each in zip(a, b, strict=True)]
    close(found, expected, np.float64)


def test_cholesky_takes_the_factor_of_a_definite_matrix_alone():
    def f(a, b):
        return np.linalg.cholesky(a), np.linalg.solve(a, b)

    b = np.ones((5, 1))
    for kind in ("definite", "lower", "general"):
        a = matrix(kind, 5) + 9 * np.eye(5)
        assert len(calls(f, a, b)) == 2
        close(fg.jit(f)(a, b), f(a, b), np.float64)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        fg.jit(f)(-a, b)


@pytest.mark.parametrize("kind", ["zero", "rank one", "nearly", "triangle"])
def test_singular_matrices_are_numpys(kind):
    n = 6
    a = np.zeros((n, n))
    if kind == "rank one":
        a = np.ones((n, n))
    if kind == "nearly":  # Cholesky's algorithm ends, with a pivot as small as rounding
        x = np.array([1, 0.1, 0.7, 0.3, 0.9, 0.2])
        a = np.outer(x, x)
    if kind == "triangle":
        a = np.tril(matrix("general", n))
        a[3, 3] = 0

    def both(a, b):
        return np.linalg.slogdet(a), np.linalg.solve(a, b)

    def logs(a):
        return np.linalg.slogdet(a), np.linalg.slogdet(a.T + 0)

    for x, y in zip(fg.jit(logs)(a), logs(a), strict=True):
        np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))
    for f in (both, lambda a, b: (np.linalg.slogdet(a), np.linalg.inv(a))):
        try:
            expected = f(a, np.ones((n, 1)))
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                fg.jit(f)(a, np.ones((n, 1)))
        else:
            assert kind in ("nearly", "triangle")  # its pivots are rounding errors
            found = fg.jit(f)(a, np.ones((n, 1)))
            np.testing.assert_array_equal(np.isfinite(found[1]), np.isfinite(expected[1]))


def test_the_derivative_of_slogdet_at_singular_matrices_is_infinite():
    f = fg.grad(lambda a: np.linalg.slogdet(a)[1] + np.linalg.slogdet(2 * a)[1])
    a = np.ones((4, 4))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fg.jit(f)(a), f(a))


@pytest.mark.parametrize("kind", ["definite", "general", "lower"])
def test_what_is_not_finite_is_where_numpy_has_it(kind):
    run, b = fg.jit(all_of), np.eye(5)[:, :2]
    for place, wrong in itertools.product([(0, 0), (2, 1), (1, 2), (4, 4)], [np.nan, np.inf]):
        a = matrix(kind, 5)
        a[place] = wrong
        if kind == "definite":
            a[place[::-1]] = wrong
        with np.errstate(all="ignore"):
            try:
                expected = all_of(a, b)
            except np.linalg.LinAlgError:
                with pytest.raises(np.linalg.LinAlgError):
                    run(a, b)
                continue
            found = run(a, b)
        for x, y in zip(found[:7], expected[:7], strict=True):
            np.testing.assert_array_equal(np.isnan(x), np.isnan(y), str((place, wrong)))


def test_what_is_not_shared():
    a, b = matrix("general", 4), np.ones((4, 1))
    empty = np.zeros((0, 0)), np.zeros((0, 1))
    assert not calls(np.linalg.solve, a, b)  # one equation
    assert not calls(density, *empty)
    assert fg.jit(density)(*empty) == density(*empty)
    assert not calls(lambda a, b: np.linalg.solve(a, b) + np.linalg.inv(2 * a) @ b, a, b)
    assert not calls(density, np.stack([a, a]), np.stack([b, b]))


def test_small_matrices_are_not_worth_the_calls(monkeypatch):
    monkeypatch.undo()
    gradient, b = fg.grad(density), np.ones((30, 1))
    assert not calls(gradient, matrix("definite", 30), b)
    assert calls(gradient, matrix("definite", 100), np.ones((100, 1)))
    assert not calls(density, matrix("definite", 100), np.ones((100, 1)))  # no inverse
    assert calls(density, matrix("definite", 200), np.ones((200, 1)))


def test_determinants_and_cofactors_take_the_factors():
    def f(a, b):
        return np.linalg.det(a) * np.sum(np.linalg.solve(a, b))

    def g(a, b):
        return np.linalg.slogdet(a)[1] + np.linalg.det(a.T)

    b = np.ones((4, 1))
    for function in (f, g):
        gradient = fg.grad(function)
        assert len(calls(gradient, matrix("general", 4), b)) == (4 if function is f else 3)
        run = fg.jit(gradient)
        along = fg.jit(lambda a, b, f=gradient: fg.jvp(f, (a, b), (a, b))[1])
        for a in [matrix(kind, 4) for kind in KINDS]:
            close([run(a, b)], [gradient(a, b)], np.float64)
            close([along(a, b)], [fg.jvp(gradient, (a, b), (a, b))[1]], np.float64)


def test_cofactors_of_singular_matrices_are_those_of_singular_values():
    for a in (np.zeros((3, 3)), np.outer([1.0, 2, 3], [4.0, 5, 6]), np.diag([1.0, 1e-13, 1.0])):
        f = fg.grad(lambda a: np.linalg.det(a) + np.linalg.det(a.T + 0) * np.linalg.det(a))
        close([fg.jit(f)(a)], [f(a)], np.float64)


def test_an_inverse_serves_all_that_need_it():
    def likelihood(a, b):
        return b @ np.linalg.inv(a) @ b + np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(2 * a))

    tangents = lambda a, b: fg.jvp(likelihood, (a, b), (a, b))  # noqa: E731
    for f, dtype in ((fg.grad(likelihood, argnums=(0, 1)), np.float64), (tangents, np.complex128)):
        run, (b, *_) = fg.jit(f), matrix("general", 5, dtype)
        for a in [matrix(kind, 5, dtype) for kind in KINDS]:
            close(run(a, b), f(a, b), np.float64)
        assert sum(name.startswith("inv_") for name in calls(f, a, b)) == 1


def test_derivatives_multiply_by_the_vectors_of_outer_products():
    def by_lstsq(a, x, y):
        return np.sum(np.sin(np.linalg.lstsq(np.concatenate([a, a]), np.concatenate([x, y]))[0]))

    vectors = np.arange(1.0, 5), np.arange(2.0, 6)
    for f in (
        by_lstsq,
        lambda a, x, y: x @ np.linalg.inv(a) @ y,
        lambda a, x, y: np.sum(np.sin(np.linalg.inv(a).T @ x)) * np.sum(y),
        lambda a, x, y: np.sum(np.cos(y @ np.linalg.pinv(a[:, :3]).T)),
    ):
        gradient, a = fg.grad(f), matrix("general", 4)
        graph = optimised(fg.jit(gradient).lower(a, *vectors).graph)
        products = [e for e in graph.equations if e.primitive.name == "dot_general"]
        assert all(e.outputs[0].type.ndim < 2 for e in products)
        close([fg.jit(gradient)(a, *vectors)], [gradient(a, *vectors)], np.float64)


def test_products_in_two_precisions_stay():
    @fg.custom_vjp
    def f(a, x, y):
        return np.sum(a)

    def backward(kept, ct):
        a, x, y = kept
        return np.linalg.inv(a) @ np.tensordot(x * ct, y, 0), None, None

    f.defvjp(lambda *args: (f(*args), args), backward)
    x = np.arange(1.0, 5)
    for single, count in ((x.astype(np.float32), 1), (x, 0)):
        a = matrix("general", 4, single.dtype)
        graph = optimised(fg.jit(fg.grad(f)).lower(a, x.astype(single.dtype), x).graph)
        products = [e for e in graph.equations if e.primitive.name == "dot_general"]
        assert sum(e.outputs[0].type.ndim == 2 for e in products) == count


def test_products_of_the_function_stay():
    def f(a, x, y):
        return np.linalg.inv(a) @ np.tensordot(x, y, 0)

    graph = optimised(fg.jit(f).lower(np.eye(3), np.ones(3), np.ones(3)).graph)
    shapes = [e.outputs[0].type.shape for e in graph.equations]
    assert (3,) not in shapes


def test_inverses_serve_their_transposes():
    def f(a, b):
        return np.linalg.slogdet(a)[1] * (np.linalg.inv(a).T * b)

    for dtype in (np.float64, np.complex128):
        run, b = fg.jit(f), matrix("general", 5, dtype)
        graph = with_shared_factors(optimised(run.lower(b, b).graph))
        assert "transpose" not in [e.primitive.name for e in graph.equations]
        for a in [matrix(kind, 5, dtype) for kind in KINDS]:
            close([run(a, b)], [f(a, b)], dtype)


def test_arguments_are_not_changed():
    run = fg.jit(all_of)
    for kind in KINDS:
        a, b = matrix(kind, 5), np.ones((5, 1))
        before = a.copy(), b.copy()
        run(a, b)
        np.testing.assert_array_equal(a, before[0])
        np.testing.assert_array_equal(b, before[1])


def test_the_listing_names_the_library(monkeypatch):
    monkeypatch.setattr(fg.config, "backend", "numpy")
    low = fg.jit(fg.grad(density)).lower(matrix("definite", 5), np.ones((5, 1)))
    assert "by_factors" in low.source
    assert "LAPACK" in str(low.explain())
