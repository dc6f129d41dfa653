"""Small systems of linear equations as native code, against NumPy's LAPACK."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native

import fungrad as fg
from fungrad import lax

rng = np.random.default_rng(3)
pytestmark = pytest.mark.usefixtures("native")


def matrices(n: int, dtype: Any) -> list[Any]:
    """Matrices that need exchanges, and one that does not."""
    some = [rng.normal(size=(n, n)), np.eye(n)[rng.permutation(n)] * 3.0, np.eye(n)]
    some.append(np.triu(rng.normal(size=(n, n)))[::-1] + np.eye(n)[::-1])
    return [np.ascontiguousarray(a).astype(dtype) for a in some]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_systems_inverses_and_determinants(n: int, dtype: Any) -> None:
    """In single precision, too, NumPy computes in double precision."""

    def f(a: Any, b: Any) -> Any:
        x = np.linalg.solve(a, b)
        return x, np.linalg.inv(a), *np.linalg.slogdet(a), np.linalg.solve(a, b[:, 0])

    b = rng.normal(size=(n, 2)).astype(dtype)
    run = fg.jit(f)
    assert not any("solve" in str(reason) for reason in run.lower(b @ b.T, b).refused)
    hilbert = 1.0 / (1.0 + np.arange(n) + np.arange(n)[:, None]) + 1e-6 * np.eye(n)
    for a in (*matrices(n, dtype), hilbert.astype(dtype)):
        rest = 2e3 * 2.0**-52 * float(np.linalg.cond(a)) + 8 * float(np.finfo(dtype).eps)
        for found, expected in zip(run(a, b), f(a, b), strict=True):
            assert found.dtype == expected.dtype == dtype
            np.testing.assert_allclose(found, expected, rtol=rest, atol=rest)


def test_systems_without_unknowns() -> None:
    a, b = np.zeros((0, 0)), np.zeros((0, 2))
    f = fg.jit(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.slogdet(a)[0]))
    x, inverse, sign = f(a, b)
    assert (x.shape, inverse.shape, sign) == ((0, 2), (0, 0), 1.0)


@pytest.mark.parametrize("lower", [True, False])
def test_triangles_are_read_alone(lower: bool) -> None:
    a, b = rng.normal(size=(4, 4)) + 3.0 * np.eye(4), rng.normal(size=(4, 3))
    run = fg.jit(
        lambda a, b: fg.scipy.linalg.solve_triangular(a, b, lower=lower, check_finite=False)
    )
    assert any(map(is_native, run.lower(a, b).parts))
    part = np.tril(a) if lower else np.triu(a)
    np.testing.assert_allclose(run(a, b), np.linalg.solve(part, b), rtol=1e-12)


def test_singular_matrices_raise_and_have_no_logarithm() -> None:
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    for f in (np.linalg.inv, lambda a: np.linalg.solve(a, a)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            fg.jit(f)(a)
    sign, log = fg.jit(lambda a: tuple(np.linalg.slogdet(a)))(a)
    assert (sign, log) == (0.0, -np.inf)
    sign, log = fg.jit(lambda a: tuple(np.linalg.slogdet(a)))(np.array([[0.0, 2.0], [3.0, 0.0]]))
    assert sign == -1.0 and np.isclose(log, np.log(6.0))
    assert np.isnan(fg.jit(lambda a: np.linalg.slogdet(a)[1])(np.full((2, 2), np.nan)))


@pytest.mark.slow
def test_filters_run_as_native_loops() -> None:
    def loss(a: Any, seen: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            mean, spread = carry
            mean, spread = a @ mean, a @ spread @ a.T + np.diag(a[0] ** 2) + np.eye(3)
            s = spread[:2, :2] + 0.5 * np.eye(2)
            gain = np.linalg.solve(s, spread[:2]).T
            error = y - mean[:2]
            cost = error @ np.linalg.inv(s) @ error + np.linalg.slogdet(s)[1]
            return (mean + gain @ error, spread - gain @ spread[:2]), cost

        return np.sum(lax.scan(step, (np.zeros(3), np.eye(3)), seen)[1])

    a, seen = np.eye(3) + 0.1 * rng.normal(size=(3, 3)), rng.normal(size=(30, 2))

    def curvature(a: Any, seen: Any) -> Any:
        return fg.jvp(lambda a: fg.grad(loss)(a, seen), (a,), (a * a,))[1]

    for derivative in (fg.value_and_grad(loss), curvature):
        found = fg.tree_leaves(fg.jit(derivative)(a, seen))
        fg.config.backend = "numpy"
        expected = fg.tree_leaves(fg.jit(derivative)(a, seen))
        fg.config.backend = "native"
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


# --- stacks of matrices, which vector loops compute -----------------------------------------------

COUNT = 70
STACKED = {
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a),
    "inv": lambda a: np.tanh(np.linalg.inv(a)),
    "solve": lambda a: np.linalg.solve(a, a[..., :1] * 2.0 + 1.0),
    "cholesky": lambda a: np.linalg.cholesky(a @ a.mT + np.eye(3, dtype=a.dtype)),
    "eigvalsh": lambda a: (np.linalg.eigvalsh(a), np.linalg.eigvalsh(a[:, :2, :2], "U")),
    "product": lambda a: np.sin(a @ a.mT),
    "forms": lambda a: np.einsum("nij,ni,nj->n", a, a[..., 0], a[:, 0]),
    "prod": lambda a: np.prod(a, axis=-1),
    "cumulative": lambda a: np.cumprod(a, axis=1) * np.cumsum(a, axis=2),
    "triangular": lambda a: fg.scipy.linalg.solve_triangular(
        a, a[..., :2] * 1.5, lower=True, check_finite=False
    ),
}  # fmt: skip


def compared(f: Any, a: Any) -> tuple[list[Any], list[Any]]:
    """Numbers by native code, which does all but constants, and by NumPy's program."""
    run = fg.jit(lambda a: fg.tree_leaves(f(a)))
    lowered = run.lower(a)
    assert any(map(is_native, lowered.parts))
    assert all("full" in str(reason) for reason in lowered.refused)
    found = [np.asarray(x) for x in run(a)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fg.config, "backend", "numpy")
        return found, [np.asarray(x) for x in fg.jit(lambda a: fg.tree_leaves(f(a)))(a)]


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STACKED)
def test_stacks_are_arithmetic_on_elements(name: str, dtype: Any) -> None:
    f, n = STACKED[name], 3
    a = (np.random.default_rng(5).normal(size=(COUNT, n, n)) + 2.0 * np.eye(n)).astype(dtype)
    weights = np.cos(np.arange(COUNT, dtype=dtype))

    def total(a: Any) -> Any:
        return sum(np.sum(x.T * weights) for x in fg.tree_leaves(f(a)))

    for g in (f, fg.grad(total)) if dtype is np.float64 else (fg.grad(total),):
        for found, expected in zip(*compared(g, a), strict=True):
            assert found.dtype == expected.dtype and found.shape == expected.shape
            rest = 1e-10 if dtype is np.float64 else 1e-2
            np.testing.assert_allclose(found, expected, rtol=rest, atol=rest)


@pytest.mark.parametrize("name", ["det", "slogdet"])
def test_stacks_with_special_matrices(name: str) -> None:
    a = np.random.default_rng(5).normal(size=(COUNT, 3, 3))
    a[0], a[1], a[2] = 0.0, 1.0, [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [1.0, 2.0, 3.0]]
    a[3, 0, 0], a[4, 2, 0], a[5, 1, 1] = np.nan, np.inf, -np.inf
    a[6], a[7] = np.diag([1e200, 1e-200, 1e200]), np.diag([1e-200, 1e-200, 1e250])
    for found, expected in zip(*compared(STACKED[name], a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_cofactors_of_singular_matrices_are_polynomials() -> None:
    a = np.random.default_rng(5).normal(size=(COUNT, 3, 3))
    a[0], a[1], a[2, 0, 0] = 0.0, np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]), np.nan
    a[3] = np.diag([0.0, 2.0, 3.0])
    gradient = fg.grad(lambda a: np.sum(np.linalg.det(a)))
    ((found,), (expected,)) = compared(gradient, a)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert np.isnan(found[2]).all() and found[3, 0, 0] == 6.0 and not found[:2].any()
    single = np.resize([np.inf, np.nan, 0.0, -2.0], (COUNT, 1, 1))
    assert (fg.jit(gradient)(single) == gradient(single)).all() and (gradient(single) == 1.0).all()


@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_cofactors_near_rank_one_keep_half_of_their_digits(noise: float) -> None:
    draw = np.random.default_rng(0).normal
    a = np.outer(draw(size=4), draw(size=4)) + noise * draw(size=(4, 4))
    gradient = fg.grad(np.linalg.det)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fg.jit(gradient)(a), gradient(a))


def test_stacks_with_a_matrix_without_factors_raise() -> None:
    a = np.random.default_rng(5).normal(size=(COUNT, 2, 2))
    a[33] = 1.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        fg.jit(lambda a: np.linalg.inv(a) * 2.0)(a)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        fg.jit(lambda a: np.linalg.solve(a, a) + 1.0)(a)
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        fg.jit(lambda a: np.linalg.cholesky(a) * 2.0)(a)


def test_stacks_in_threads_are_the_same() -> None:
    a = np.random.default_rng(5).normal(size=(20_000, 3, 3)) + 2.0 * np.eye(3)
    run = fg.jit(lambda a: np.sum(np.tanh(np.linalg.inv(a) @ a.mT), axis=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fg.config, "num_threads", 1)
        one = run(a)
        patch.setattr(fg.config, "num_threads", 2)
        np.testing.assert_array_equal(run(a), one)


def test_eigenvalues_of_stacks_with_special_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(5).normal(size=(COUNT, 3, 3))
    a = a + a.mT
    a[0], a[1], a[2], a[3] = 0.0, 1.0, 2.0 * np.eye(3), np.diag([3.0, -1.0, 3.0])
    a[4], a[5] = np.diag([1e200, 1e-200, 1e200]), a[5] * 1e-170
    value = lambda a: np.linalg.eigvalsh(a)  # noqa: E731
    gradient = fg.grad(lambda a: np.sum(np.sin(np.linalg.eigvalsh(a))))
    curvature = lambda a: fg.jvp(gradient, (a,), (np.cos(a),))[1]  # noqa: E731
    for f, which in ((value, a), (gradient, a), (curvature, a[6:]), (fg.vmap(gradient), a)):
        found, expected = fg.jit(f)(which), f(which)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for wrong in (np.nan, np.inf):
        a[7, 1, 0] = wrong
        outcomes = []
        for setting in ("native", "numpy"):
            monkeypatch.setattr(fg.config, "backend", setting)
            try:
                outcomes.append(fg.jit(value)(a))
            except np.linalg.LinAlgError as error:
                outcomes.append(str(error).split("\n")[0])
        np.testing.assert_equal(*outcomes)


def test_vectors_have_the_signs_of_lapack() -> None:
    a = np.random.default_rng(5).normal(size=(COUNT, 2, 2))
    f = fg.value_and_grad(lambda a: np.sum(np.sin(np.linalg.eigh(a)[1])))
    for found, expected in zip(fg.jit(f)(a), f(a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_eigenvalues_in_loops() -> None:
    def steps(a: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return c * 0.5 + a, np.linalg.eigvalsh(c)

        return np.sum(np.tanh(lax.scan(step, a, None, length=5)[1]))

    for n in (1, 2, 3):
        a = np.random.default_rng(n).normal(size=(n, n))
        derivative = fg.grad(steps)
        run = fg.jit(derivative)
        assert any(map(is_native, run.lower(a).parts))
        np.testing.assert_allclose(run(a), derivative(a), rtol=1e-12, atol=1e-14)


def test_factors_and_determinants_in_loops() -> None:
    def steps(a: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            factor = np.linalg.cholesky(c @ c.T + a)
            return 0.5 * factor, np.linalg.det(factor) * np.prod(c[0] + 2.0)

        return np.sum(lax.scan(step, a, None, length=5)[1])

    a = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    run = fg.jit(fg.value_and_grad(steps))
    assert run.lower(a).refused == ()
    found, gradient = run(a)
    assert np.isclose(found, steps(a), rtol=1e-13)
    np.testing.assert_allclose(gradient, fg.grad(steps)(a), rtol=1e-12, atol=1e-14)
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        run(np.diag([1.0, -50.0, 1.0]))


# --- larger matrices, which loops over rows factorise ---------------------------------------------


def factorised(a: Any, b: Any) -> Any:
    """All factorisations of `a` (also one with a symmetric and one with a triangular matrix)."""
    positive = a @ a.T + 9.0 * np.eye(len(a), dtype=a.dtype)
    factor = np.linalg.cholesky(positive)
    lower = fg.scipy.linalg.solve_triangular(factor, b, lower=True, check_finite=False)
    upper = fg.scipy.linalg.solve_triangular(factor.T, b, check_finite=False)
    return (np.linalg.solve(a, b), np.linalg.solve(a, b[:, 0]), np.linalg.inv(a), factor,
            lower, upper, *np.linalg.slogdet(a))  # fmt: skip


@pytest.mark.parametrize(("n", "dtype"), [(7, np.float64), (20, np.float32)])
def test_factorisations_are_loops_over_rows(n: int, dtype: Any) -> None:
    derivative = fg.grad(lambda a, b: sum(np.sum(np.sin(x)) for x in factorised(a, b)), (0, 1))
    b, rest = rng.normal(size=(n, 5)).astype(dtype), 1e4 * float(np.finfo(dtype).eps)
    for f in (factorised, derivative):
        run = fg.jit(f)
        assert run.lower(b @ b.T, b).refused == ()
        for a in matrices(n, dtype):
            for found, expected in zip(run(a, b), f(a, b), strict=True):
                assert found.dtype == expected.dtype == dtype
                scale = max(1.0, np.abs(expected).max()) * np.linalg.cond(a)
                np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=rest)


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky"])
def test_matrices_without_factors_are_left_to_numpy(name: str) -> None:
    f: Any = getattr(np.linalg, name)
    function = (lambda a: f(a, a)) if name == "solve" else f
    run = fg.jit(lambda a: function(a) * 2.0)
    a = np.eye(9) + 0.1
    np.testing.assert_allclose(run(a), 2.0 * function(a), rtol=1e-12, atol=1e-14)
    for place, number in (((8, 8), np.nan), ((0, 3), np.nan), ((4, 4), -np.inf), ((8,), 0.0)):
        special = a.copy()
        special[place] = number
        outcomes = []
        for g in (run, lambda a: function(a) * 2.0):
            try:
                outcomes.append(np.isnan(g(special)))
            except np.linalg.LinAlgError as error:
                outcomes.append(str(error).split("\n")[0])
        np.testing.assert_array_equal(*outcomes, err_msg=str((place, number)))


def test_weights_of_matrices_that_are_not_symmetric() -> None:
    a = np.eye(9) * 4.0 + rng.normal(size=(9, 9)) * 0.1
    symmetric = a + a.T
    derivative = fg.grad(lambda a: np.sum(np.linalg.cholesky(a) ** 3))
    for x in (a, symmetric, symmetric + 1e-16 * a):
        np.testing.assert_allclose(fg.jit(derivative)(x), derivative(x), rtol=1e-12, atol=1e-14)


def test_stacks_of_factorisations_in_loops() -> None:
    def steps(a: Any, b: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            factor = np.linalg.cholesky(a @ a.mT + 9.0 * np.eye(8))
            x = np.linalg.solve(a, (factor @ c[..., None]))[..., 0]
            return np.sin(x) + b, np.sum(x)

        return np.sum(lax.scan(step, b, None, length=5)[1])

    a, b = rng.normal(size=(3, 8, 8)) + 4.0 * np.eye(8), rng.normal(size=(3, 8))
    derivative = fg.value_and_grad(steps, (0, 1))
    run = fg.jit(derivative)
    assert run.lower(a, b).refused == ()
    for found, expected in zip(
        fg.tree_leaves(run(a, b)), fg.tree_leaves(derivative(a, b)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("n", [3, 9])
def test_scipys_checks_of_numbers_are_native(n: int) -> None:
    linalg = fg.scipy.linalg

    def likelihood(a: Any, b: Any) -> Any:
        factor = linalg.cho_factor(a, lower=True)
        return b @ linalg.cho_solve(factor, b) + np.sum(np.log(np.diagonal(factor[0])))

    def loss(a: Any, b: Any) -> Any:
        step = lambda c, _: (np.sin(c) + 0.1 * likelihood(a, c), None)  # noqa: E731
        return likelihood(a, b) + np.sum(lax.scan(step, b, None, length=3)[0])

    a, b = np.eye(n) * 3.0 + 0.5, rng.normal(size=n)
    for f in (fg.value_and_grad(likelihood, (0, 1)), fg.value_and_grad(loss, (0, 1))):
        run = fg.jit(f)
        assert run.lower(a, b).refused == ()
        pairs = zip(fg.tree_leaves(run(a, b)), fg.tree_leaves(f(a, b)), strict=True)
        for found, expected in pairs:
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
        for number in (np.nan, np.inf):
            with pytest.raises(ValueError, match="infs or NaNs"):
                run(a, np.append(b[1:], number))


OF_MATRICES = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "solve": lambda a: np.linalg.solve(a, np.ones((a.shape[-1], 2), a.dtype)),
    "cholesky": lambda a: np.linalg.cholesky(a @ np.swapaxes(a, -1, -2)),
}


@pytest.mark.parametrize("ahead", [(), (300,)])
@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("name", OF_MATRICES)
def test_matrices_that_are_not_finite_have_numpys_answer(name: str, n: int, ahead: Any) -> None:
    """LAPACK places NaN by the pivots that it chooses, and calls some such matrices singular."""
    f, rng = OF_MATRICES[name], np.random.default_rng(n)
    g = fg.jit(f)
    for _ in range(40):
        a = rng.normal(size=(*ahead, n, n))
        where = rng.random(a.shape) < (0.002 if ahead else 0.15)
        a[where] = rng.choice([np.nan, np.inf, -np.inf], np.sum(where))
        try:
            with np.errstate(all="ignore"):
                expected = f(a)
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)), np.errstate(all="ignore"):
                g(a)
            continue
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(g(a), expected, rtol=1e-9, atol=1e-9)
