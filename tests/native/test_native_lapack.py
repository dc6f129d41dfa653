"""Factorisations by LAPACK's C pointers in native programs: NumPy's values, warnings and errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fungrad as fg
import fungrad.scipy.linalg
from fungrad.compiler.native import lapack
from fungrad.primitives.linalg import factors

pytestmark = pytest.mark.skipif(not lapack.available(), reason="NumPy's LAPACK is not OpenBLAS")
LARGE = 200
"""Transposes of larger matrices are copied, and triangular systems solved by blocks."""


@pytest.fixture(autouse=True)
def _native() -> Any:
    backend, fg.config.backend = fg.config.backend, "native"
    yield
    fg.config.backend = backend


def weights(x: Any) -> Any:
    return np.cos(np.arange(x.shape[-2] * x.shape[-1])).reshape(x.shape[-2:]).astype(x.dtype)


def of_qr(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    return np.sum(weights(q) * q) + np.sum(weights(r) * r)


def of_r(a: Any) -> Any:
    r = np.linalg.qr(a, mode="r")
    return np.sum(weights(r) * r)


def of_eigh(a: Any) -> Any:
    w, v = np.linalg.eigh(a + np.swapaxes(a, -1, -2))
    return np.sum(np.tanh(w)) + np.sum(weights(v) * v**2)


def of_upper(a: Any) -> Any:
    w, v = np.linalg.eigh(np.triu(a), "U")
    return np.sum(w[..., 0]) + np.sum(weights(v) * v**2)


def of_eigenvalues(a: Any) -> Any:
    return np.sum(np.exp(0.1 * np.linalg.eigvalsh(a + np.swapaxes(a, -1, -2))))


def of_svd(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(weights(u) * u**2) + np.sum(np.sin(s)) + np.sum(weights(vh) * vh**2)


def of_full_svd(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a)
    projection = u[..., : s.shape[-1]] @ np.swapaxes(u[..., : s.shape[-1]], -1, -2)
    return np.sum(weights(projection) * projection) + np.sum(s**3) + np.sum(vh[..., 0, :] ** 4)


def of_singular_values(a: Any) -> Any:
    return np.sum(np.tanh(np.linalg.svd(a, compute_uv=False)))


SQUARE = (of_qr, of_r, of_eigh, of_upper, of_eigenvalues, of_svd, of_full_svd, of_singular_values)
TALL = (of_qr, of_r, of_svd, of_full_svd, of_singular_values)
SMALL = (of_qr, of_eigh, of_svd)
CASES = [
    *[pytest.param(f, (n, n), id=f"{f.__name__}-{n}") for f in SQUARE for n in (3, 70)],
    *[pytest.param(f, (n, n), id=f"{f.__name__}-{n}") for f in SMALL for n in (1, 2)],
    *[pytest.param(f, (40, 11), id=f"{f.__name__}-tall") for f in TALL],
    *[pytest.param(f, (11, 40), id=f"{f.__name__}-wide") for f in (of_qr, of_svd)],
    *[pytest.param(f, (5, 12, 12), id=f"{f.__name__}-stack") for f in SQUARE],
    *[pytest.param(f, (LARGE, LARGE), id=f"{f.__name__}-large") for f in SMALL],
]


def matrix(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype(dtype)


def close(found: Any, expected: Any, dtype: Any = np.float64) -> None:
    size = np.abs(expected).max(initial=1.0)
    error = 1e5 if dtype == np.float64 else 1e4
    np.testing.assert_allclose(found, expected, rtol=0, atol=error * np.finfo(dtype).eps * size)


@pytest.mark.parametrize(("f", "shape"), CASES)
def test_values_and_gradients_are_native(f: Any, shape: Any) -> None:
    a = matrix(shape)
    run = fg.jit(fg.value_and_grad(f))
    value, gradient = run(a)
    assert run.lower(a).refused == ()
    expected = fg.value_and_grad(f)(a)
    close(value, expected[0])
    close(gradient, expected[1])


def of_solve(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) ** 2)


def of_triangle(a: Any, b: Any) -> Any:
    return np.sum(fg.scipy.linalg.solve_triangular(a, b, lower=True) ** 2)


def of_cho_solve(a: Any, b: Any) -> Any:
    factor = np.linalg.cholesky(a @ np.swapaxes(a, -1, -2))
    return np.sum(fg.scipy.linalg.cho_solve((factor, True), b) ** 2)


def of_log_determinant(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.slogdet(a)[1]) + np.sum(b)


def of_determinant(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.det(a)) + np.sum(b)


SYSTEMS = [
    *[pytest.param(f, (40, 32, 32), (40, 32, 1), id=f"{f.__name__}-stack")
      for f in (of_solve, of_triangle, of_cho_solve, of_log_determinant, of_determinant)],
    pytest.param(of_triangle, (LARGE, LARGE), (LARGE, 1), id="of_triangle-large"),
    pytest.param(of_log_determinant, (64, 64), (64, 1), id="of_log_determinant-64"),
    pytest.param(of_triangle, (3, LARGE, LARGE), (3, LARGE, 1), id="of_triangle-large-stack"),
]  # fmt: skip
BROADCAST = [
    pytest.param(f, (*x, n, n), (*y, n, 2), id=f"{f.__name__}-{n}-{len(x)}-{len(y)}-{max(x)}")
    for f in (of_solve, of_triangle)
    for n in (12, 60)
    for x, y in (((1,), (3,)), ((3,), (1,)), ((3, 1), (1, 2)))
]


@pytest.mark.parametrize(("f", "first", "second"), [*SYSTEMS, *BROADCAST])
def test_systems_of_equations_are_native(f: Any, first: Any, second: Any) -> None:
    n = first[-1]
    a, b = matrix(first) / n + 2 * np.eye(n), matrix(second)
    a = np.tril(a) if f is of_triangle else a
    run = fg.jit(fg.grad(f, argnums=(0, 1)))
    found = run(a, b)
    if first[:-2] == second[:-2]:
        assert run.lower(a, b).refused == ()
    for x, y in zip(found, fg.grad(f, argnums=(0, 1))(a, b), strict=True):
        close(x, y)


def turned(a: Any) -> Any:
    return np.swapaxes(a, -1, -2)


def of_all(a: Any, b: Any) -> Any:
    equations = np.linalg.solve(a, b), np.linalg.solve(turned(a), b)
    numbers = np.linalg.slogdet(a), np.linalg.det(turned(a)) * np.linalg.det(a)
    return *equations, np.linalg.inv(a), np.linalg.inv(turned(a)), *numbers[0], numbers[1]


@pytest.mark.parametrize("definite", [False, True])
@pytest.mark.parametrize("shape", [(70, 70), (2, 45, 45)])
def test_equations_of_a_matrix_share_its_factors(shape: Any, definite: bool) -> None:
    a, b = matrix(shape) / 7, matrix((*shape[:-1], 2))
    a = a @ turned(a) + np.eye(shape[-1]) if definite else a
    run = fg.jit(of_all)
    for x, y in zip(run(a, b), of_all(a, b), strict=True):
        close(x, y)
    assert run.lower(a, b).refused == ()
    if definite:
        factor = fg.jit(lambda a, b: (np.linalg.cholesky(a), np.linalg.solve(a, b)))(a, b)[0]
        close(factor, np.linalg.cholesky(a))
        with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
            fg.jit(lambda a: np.linalg.cholesky(-a) + np.linalg.inv(-a))(a)


@pytest.mark.parametrize("shape", [(60, 60), (130, 130), (3, 45, 45)])
def test_equations_alone_are_numpys_to_the_bit(shape: Any) -> None:
    a, b = matrix(shape), matrix((*shape[:-1], 2))
    a = np.tril(a) + turned(np.tril(a, -1)) / 3 + 2 * shape[-1] * np.eye(shape[-1])
    for f in (
        lambda a, b: np.linalg.inv(turned(a)),
        lambda a, b: turned(np.linalg.inv(a)),
        lambda a, b: -np.linalg.solve(a, b),
        lambda a, b: np.linalg.solve(turned(a), b),
        lambda a, b: np.linalg.cholesky(a) * 2.0,
    ):
        run = fg.jit(f)
        np.testing.assert_array_equal(run(a, b), f(a, b))
        assert run.lower(a, b).refused == ()


def test_triangles_are_solved_by_substitution() -> None:
    a, b = np.tril(matrix((60, 60))) + 9 * np.eye(60), matrix((60, 1))
    for x in (a, a.T.copy(), a[::-1, ::-1].copy()):
        close(fg.jit(of_solve)(x, b), of_solve(x, b))
    a[40, 40] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        fg.jit(fg.grad(of_solve))(a, b)


@pytest.mark.parametrize("f", [of_solve, of_triangle, of_log_determinant, of_determinant])
def test_other_libraries_give_the_same_numbers(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = matrix((60, 60)) / 9 + 2 * np.eye(60), matrix((60, 1))
    gradient = fg.grad(lambda a, b: f(a, b) + of_qr(a))
    expected = fg.jit(gradient)(a, b)
    monkeypatch.setattr(lapack, "available", lambda: False)
    monkeypatch.setattr(factors, "exchanges", lambda: None)
    run = fg.jit(lambda a, b: gradient(a, b))
    close(run(a, b), expected)
    assert run.lower(a, b).refused != ()


def of_pseudoinverse(a: Any) -> Any:
    return np.sum(weights(turned(a)) * np.linalg.pinv(a))


def of_part(a: Any) -> Any:
    return np.sum(np.sin(np.linalg.pinv(a, rcond=0.3)))


def of_least_squares(a: Any) -> Any:
    return np.sum(np.linalg.lstsq(a, np.cos(np.arange(1.0 * len(a))).astype(a.dtype))[0] ** 2)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [*[(shape, np.float64) for shape in ((2, 2), (9, 4), (4, 9), (3, 5, 4))], ((9, 4), np.float32)],
)
def test_pseudoinverses_are_native(shape: Any, dtype: Any) -> None:
    a = matrix(shape, dtype)
    for f in (of_pseudoinverse, of_part, of_least_squares)[: 3 if len(shape) == 2 else 2]:
        run = fg.jit(fg.value_and_grad(f))
        for x, y in zip(run(a), fg.value_and_grad(f)(a), strict=True):
            close(x, y, dtype)
        assert run.lower(a).refused == ()
    if dtype == np.float64:
        a[..., 0] = 0.0  # without full rank
        np.testing.assert_array_equal(fg.jit(lambda a: 2.0 * np.linalg.pinv(a))(a),
                                      2.0 * np.linalg.pinv(a))  # fmt: skip
        a[..., 0] = np.nan
        with pytest.raises(np.linalg.LinAlgError, match="SVD"):
            fg.jit(fg.grad(of_pseudoinverse))(a)


def test_cutoffs_of_each_matrix_are_numpys() -> None:
    a, cutoffs = matrix((3, 4, 4)), np.array([0.01, 0.2, 0.5])
    along = fg.vmap(lambda a, rcond: np.linalg.pinv(a, rcond=rcond) * 1.0)
    close(fg.jit(along)(a, cutoffs), np.linalg.pinv(a, rcond=cutoffs))


@pytest.mark.parametrize("shape", [(LARGE, LARGE), (2, 161, 161)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pullbacks_of_large_factors_are_native(shape: Any, dtype: Any) -> None:
    a = matrix(shape, dtype)
    a = a @ turned(a) + shape[-1] * np.eye(shape[-1], dtype=dtype)
    gradient = fg.grad(lambda a: np.sum(weights(a) * np.linalg.cholesky(a)))
    run = fg.jit(gradient)
    close(run(a), gradient(a), dtype)
    assert run.lower(a).refused == ()


def test_stacks_are_native_by_default() -> None:
    fg.config.backend = "auto"
    for f, n in ((of_log_determinant, 24), (lambda a, b: np.sum(np.linalg.cholesky(a) ** 3), 8)):
        a, run = matrix((100, n, n)), fg.jit(fg.grad(f))
        a = a @ turned(a) + np.eye(n)
        run(a, 0.0)
        assert run.lower(a, 0.0).refused == ()


NEARLY_SINGULAR = np.diag([1e-12, *np.arange(1.0, 9.0)]) + np.eye(9, k=1)


@pytest.mark.parametrize(
    "a", [np.zeros((9, 9)), np.ones((9, 9)), NEARLY_SINGULAR, matrix((9, 9)), matrix((4, 9, 9))]
)
def test_determinants_and_cofactors_are_those_of_numpys_program(a: Any) -> None:
    for f in (lambda a: np.sum(np.linalg.det(a)), lambda a: np.sum(np.linalg.det(a) ** 2)):
        found, gradient = fg.jit(fg.value_and_grad(f))(a)
        expected = fg.value_and_grad(f)(a)
        close(found, expected[0])
        close(gradient, expected[1])


@pytest.mark.parametrize(("f", "n"), [(of_qr, LARGE), *[(f, n) for f in SMALL for n in (4, 60)]])
def test_single_precision_is_computed_in_double(f: Any, n: int) -> None:
    a = matrix((n, n), np.float32) + 4 * np.eye(n, dtype=np.float32)
    found = fg.jit(fg.grad(f))(a)
    assert found.dtype == np.float32
    close(found, fg.grad(f)(a), np.float32)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (17, 5), (5, 17), (90, 90)])
def test_factors_are_numpys_to_the_bit(shape: Any, order: Any) -> None:
    a = np.asarray(matrix(shape), order=order)
    calls = [np.linalg.qr, np.linalg.svd, lambda a: np.linalg.svd(a, full_matrices=False)]
    calls += [lambda a: (np.linalg.svd(a, compute_uv=False),)]
    if shape[0] == shape[1]:
        calls += [np.linalg.eigh, lambda a: np.linalg.eigh(a, "U")]
        if shape[0] > 3:
            calls += [lambda a: (np.linalg.eigvalsh(a),)]
    for call in calls:
        found = fg.jit(lambda a, call=call: tuple(call(a)))(a)
        for x, y in zip(found, call(a), strict=True):
            assert np.array_equal(x, y)


@pytest.mark.parametrize("f", SMALL)
def test_other_transforms_agree(f: Any) -> None:
    a, e = matrix((8, 8)), matrix((3, 8, 8))
    forward = lambda a, e: fg.jvp(f, (a,), (e,))[1]  # noqa: E731
    second = lambda a, e: fg.jvp(fg.grad(f), (a,), (e,))[1]  # noqa: E731
    close(fg.jit(second)(a, e[0]), second(a, e[0]))
    along = fg.vmap(forward, in_axes=(None, 0))
    close(fg.jit(along)(a, e), np.stack([forward(a, x) for x in e]))


@pytest.mark.parametrize("f", SMALL)
def test_steps_of_a_scan(f: Any) -> None:
    def steps(a: Any) -> Any:
        step = lambda c, _: (0.9 * c + 0.01 * a @ c, f(c))  # noqa: E731
        return np.sum(fg.lax.scan(step, a, None, length=4)[1])

    a = matrix((9, 9))
    close(fg.jit(fg.grad(steps))(a), fg.grad(steps)(a))


def _warns(f: Any, a: Any) -> set[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(a)
    return {str(w.message)[:60] for w in found}  # a first call may be checked by another one


REPEATED = np.diag([1.0, 1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 8.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.sum(np.linalg.eigvalsh(a) ** 3),
        lambda a: np.linalg.eigvalsh(a)[0],
        lambda a: np.linalg.eigh(a)[1][0, 0],
        lambda a: np.linalg.eigh(a)[1][:, 3] ** 2 @ np.arange(8.0),
        lambda a: (lambda w, v: np.sum(weights(a) * ((v * np.exp(w)) @ v.T)))(*np.linalg.eigh(a)),
        lambda a: np.linalg.svd(a)[0][0, 1],
        lambda a: (lambda u, s, vh: np.sum(weights(a) * (u @ vh)))(*np.linalg.svd(a)),
        lambda a: np.linalg.norm(a, "nuc"),
    ],
)
def test_equal_values_warn_as_without_native_code(f: Any) -> None:
    gradient = fg.grad(f)
    compiled = fg.jit(gradient)
    assert _warns(compiled, REPEATED) == _warns(gradient, REPEATED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(compiled(REPEATED), gradient(REPEATED))
    other = matrix((8, 8))
    close(compiled(other + other.T), gradient(other + other.T))


@pytest.mark.parametrize("f", [of_qr, of_eigh, of_svd, of_singular_values])
def test_what_is_not_finite_does_as_numpy(f: Any) -> None:
    a = matrix((9, 9))
    a[0, 0] = np.nan  # LAPACK's dgesdd does not end for some infinities

    def outcome(call: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                return np.isnan(call(a)).tolist()
        except np.linalg.LinAlgError as error:
            return str(error).split("\n")[0]

    assert outcome(fg.jit(f)) == outcome(f)


def test_qr_of_dependent_columns_is_not_finite() -> None:
    a = matrix((60, 60))
    a[:, 3] = 0.0
    with np.errstate(all="ignore"):
        found, expected = fg.jit(fg.grad(of_r))(a), fg.grad(of_r)(a)
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))


def test_empty_matrices() -> None:
    for f in (of_qr, of_svd, of_eigh):
        assert fg.jit(fg.grad(f))(np.zeros((0, 0))).shape == (0, 0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transposes_and_checks_of_odd_sizes(dtype: Any) -> None:
    """Neither rows nor columns fill vectors; the last number of all is checked, too."""
    rng = np.random.default_rng(4)
    a = (rng.normal(size=(100, 27, 27)) + 9.0 * np.eye(27)).astype(dtype)
    b = rng.normal(size=(100, 27, 1)).astype(dtype)
    gradient = fg.grad(lambda a, b: of_triangle(np.tril(a), b), argnums=(0, 1))
    compiled = fg.jit(gradient)
    assert not compiled.lower(a, b).refused
    for found, wanted in zip(compiled(a, b), gradient(a, b), strict=True):
        np.testing.assert_allclose(
            found, wanted, 0, 100 * np.finfo(dtype).eps * np.abs(wanted).max()
        )
    a[-1, -1, -1] = np.inf
    with pytest.raises(ValueError, match=r"infinit|infs"):
        compiled(a, b)
