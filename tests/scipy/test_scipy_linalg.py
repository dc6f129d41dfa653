"""fungrad.scipy.linalg: SciPy's values under every transform, derivatives of two orders,
identities, degenerate spectra, and bad input.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg as la

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.scipy import linalg
from fungrad.scipy.linalg.exponential_derivative import derivative
from fungrad.support import pytree
from fungrad.testing import check_grads

random = np.random.default_rng(5)


def draw(*shape, complex=False):
    x = random.uniform(-1, 1, shape)
    return x + 1j * random.uniform(-1, 1, shape) if complex else x


def regular(n, complex=False):
    return 0.3 * draw(n, n, complex=complex) + np.diag(1.0 + np.arange(n))


def definite(n, complex=False):
    a = regular(n, complex)
    return a @ a.conj().T


def hermitian(a):
    return (a + np.swapaxes(np.conj(a), -1, -2)) / 2


CASES = {}


def case(name, f, *args, order=2, g=None):
    """f(linalg, *args) is compared with g(scipy.linalg, *args); g is f where it is not given."""
    CASES[name] = (f, g or f, args, order)


for c in (False, True):
    t = "complex " if c else ""
    A, B, V = regular(3, c), draw(3, 2, complex=c), draw(3, complex=c)
    for name in ("expm", "sqrtm", "det", "inv", "norm"):
        case(t + name, lambda m, a, name=name: getattr(m, name)(a), 0.5 * A)
    for name in ("cosm", "sinm", "coshm", "sinhm", "tanhm"):  # sums of expm, which is complex above
        case(t + name, lambda m, a, name=name: getattr(m, name)(a), 0.5 * A, order=2 - c)
    case(t + "logm", lambda m, a: m.logm(a), regular(2, c), order=2 - c)
    case(t + "signm", lambda m, a: m.signm(a), regular(2, c) - 1.6 * np.eye(2))
    case(
        t + "expm_frechet", lambda m, a, e: m.expm_frechet(a, e), A, draw(3, 3, complex=c), order=1
    )
    case(t + "power", lambda m, a: m.fractional_matrix_power(a, 0.3), regular(2, c), order=1)
    case(t + "whole power", lambda m, a: m.fractional_matrix_power(a, -2), A)
    case(t + "solve", lambda m, a, b: m.solve(a, b), A, B)
    case(t + "solve a vector", lambda m, a, b: m.solve(a, b), A, V)
    case(t + "sylvester", lambda m, a, b, q: m.solve_sylvester(a, b, q), A, regular(2, c), B)
    case(t + "continuous lyapunov", lambda m, *args: m.solve_continuous_lyapunov(*args), A, A * A)
    for method in ("direct", "bilinear"):
        case(
            t + "discrete lyapunov " + method,
            lambda m, a, q, method=method: m.solve_discrete_lyapunov(a, q, method),
            0.2 * A,
            A,
        )
    for low in (True, False):
        for kind in ("her", "pos") if c else ("sym", "her", "pos"):
            case(
                f"{t}solve {kind} {low}",
                lambda m, a, b, k=kind, low=low: m.solve(hermitian(a), b, assume_a=k, lower=low),
                definite(3, c),
                B,
            )
        case(
            f"{t}cholesky {low}",
            lambda m, a, low=low: m.cholesky(hermitian(a), lower=low),
            definite(3, c),
        )
        case(
            f"{t}cho_solve {low}",
            lambda m, a, b, low=low: m.cho_solve(m.cho_factor(hermitian(a), lower=low), b),
            definite(3, c),
            B,
        )
        ab = random.uniform(0.2, 0.5, (2, 4))
        ab[0 if low else 1] += 3
        case(
            f"{t}solveh_banded {low}",
            lambda m, ab, b, low=low: m.solveh_banded(ab, b, lower=low),
            ab,
            draw(4, 2, complex=c),
        )
        for trans in (0, 1, 2):
            for unit in (False, True):
                case(
                    f"{t}solve_triangular {low} {trans} {unit}",
                    lambda m, a, b, o=(trans, low, unit): m.solve_triangular(a, b, *o),
                    A,
                    B,
                )
    for below, above in ((1, 1), (2, 1), (0, 2), (1, 0)):
        ab = draw(below + above + 1, 4, complex=c)
        ab[above] += 4
        case(
            f"{t}solve_banded {below} {above}",
            lambda m, ab, b, o=(below, above): m.solve_banded(o, ab, b),
            ab,
            draw(4, 2, complex=c),
        )
    first = draw(4, complex=c) + np.array([5, 0, 0, 0])
    last = draw(4, complex=c)
    case(t + "solve_toeplitz", lambda m, x, y, b: m.solve_toeplitz((x, y), b), first, last, last)
    case(t + "solve_circulant", lambda m, x, b: m.solve_circulant(x, b), first, last)
    case(t + "toeplitz", lambda m, x: m.toeplitz(x), first)
    case(t + "toeplitz of two", lambda m, x, y: m.toeplitz(x, y), first, last[:3])
    case(t + "hankel", lambda m, x: m.hankel(x), first)
    case(t + "hankel of two", lambda m, x, y: m.hankel(x, y), first, last[:3])
    case(t + "circulant", lambda m, x: m.circulant(x), first)
    case(t + "companion", lambda m, x: m.companion(x), first)
    case(t + "block_diag", lambda m, *xs: m.block_diag(*xs), A, B, first)
    case(t + "khatri_rao", lambda m, a, b: m.khatri_rao(a, b), A, draw(2, 3, complex=c))
    case(t + "matmul_toeplitz", lambda m, x, b: m.matmul_toeplitz(x, b), first, draw(4, 2))
    for shape in ((3, 3), (4, 2), (2, 4)):
        X = draw(*shape, complex=c)
        X[np.arange(2), np.arange(2)] += 2
        end = f"{t}{shape}"
        case(f"lu {end}", lambda m, a: m.lu(a), X)
        case(f"lu permuted {end}", lambda m, a: m.lu(a, permute_l=True), X)
        case(f"lu indices {end}", lambda m, a: m.lu(a, p_indices=True)[1:], X)
        case(f"lu_factor {end}", lambda m, a: m.lu_factor(a), X)
        for mode in ("full", "economic", "r"):
            case(f"qr {mode} {end}", lambda m, a, mode=mode: m.qr(a, mode=mode), X, order=1)
            case(f"rq {mode} {end}", lambda m, a, mode=mode: m.rq(a, mode=mode), X, order=1)
        for side in ("left", "right"):
            case(f"polar {side} {end}", lambda m, a, side=side: m.polar(a, side), X)
        case(f"pinv {end}", lambda m, a: m.pinv(a), X, order=1)
        case(f"svdvals {end}", lambda m, a: m.svdvals(a), X)
        if not c:
            case(f"svd {end}", lambda m, a: m.svd(a, full_matrices=False), X)
    for trans in (0, 1, 2):
        case(
            f"{t}lu_solve {trans}",
            lambda m, a, b, trans=trans: m.lu_solve(m.lu_factor(a), b, trans=trans),
            draw(3, 3, complex=c),
            B,
        )
    case(t + "eigvals", lambda m, a: m.eigvals(a), A)
    case(t + "eig", lambda m, a: [x + 0j for x in m.eig(a, left=True)], A, order=1)
    for kind in (1, 2, 3):
        case(
            f"{t}eigh of type {kind}",
            lambda m, a, b, kind=kind: [
                np.abs(x) ** 2
                for x in m.eigh(hermitian(a), hermitian(b), type=kind, lower=kind != 2)
            ],
            definite(3, c) + np.diag([1.0, 3.0, 6.0]),
            definite(3, c),
            order=1,
        )
    case(t + "lstsq", lambda m, a, b: m.lstsq(a, b)[:2], draw(4, 2, complex=c), draw(4, 2), order=1)
    case(
        t + "orthogonal_procrustes",
        lambda m, a, b: m.orthogonal_procrustes(a, b),
        draw(4, 2, complex=c),
        draw(4, 2, complex=c),
    )
case("eigvalsh_tridiagonal", lambda m, d, e: m.eigvalsh_tridiagonal(d, e), draw(4), draw(3))
case("eigvalsh", lambda m, a: m.eigvalsh(hermitian(a), subset_by_index=[1, 2]), definite(3))
case(
    "pinv with a rank", lambda m, a: m.pinv(a, atol=1e-3, return_rank=True)[0], draw(4, 2), order=1
)
case(
    "funm_hermitian",
    lambda m, a: m.funm_hermitian(hermitian(a), np.exp),
    definite(3),
    g=lambda m, a: m.expm(hermitian(a)),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_scipys_values_under_every_transform_and_two_derivatives(name):
    f, g, args, order = CASES[name]
    expected = pytree.leaves(g(la, *args))

    def ours(*args):
        return f(linalg, *args)

    for found in (ours(*args), fg.vjp(ours, *args)[0], fg.jit(ours)(*args)):
        for x, y in zip(pytree.leaves(found), expected, strict=True):
            assert x.shape == y.shape
            assert x.dtype == y.dtype or name == "eigvals"  # always complex where it is traced
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    batch = [np.stack([a, a * 1.05]) for a in args]
    rows = zip(pytree.leaves(ours(*args)), pytree.leaves(ours(*[b[1] for b in batch])), strict=True)
    for x, pair in zip(pytree.leaves(fg.vmap(ours)(*batch)), rows, strict=True):
        np.testing.assert_allclose(x, np.stack(pair), rtol=1e-10, atol=1e-10)
    check_grads(ours, args, order=order)


# --- identities, and results that are not unique --------------------------------------------------


@pytest.mark.slow
def test_identities():
    a = regular(3)
    jacobian = fg.jacobian(lambda a: linalg.expm(linalg.logm(a)))(a)
    np.testing.assert_allclose(jacobian.reshape(9, 9), np.eye(9), atol=1e-10)
    jacobian = fg.jacobian(lambda a: linalg.sqrtm(a) @ linalg.sqrtm(a))(a)
    np.testing.assert_allclose(jacobian.reshape(9, 9), np.eye(9), atol=1e-12)
    gradient = fg.grad(lambda a: np.trace(linalg.logm(a)))(a)  # log det
    np.testing.assert_allclose(gradient, np.linalg.inv(a).T, atol=1e-12)
    p, low, up = linalg.lu(a)
    np.testing.assert_allclose(p @ low @ up, a, atol=1e-14)
    jacobian = fg.jacobian(lambda a: (lambda p, low, up: p @ low @ up)(*linalg.lu(a)))(a[::-1])
    np.testing.assert_allclose(jacobian.reshape(9, 9), np.eye(9), atol=1e-12)


def test_vectors_of_eigh_are_the_same_in_and_out_of_transforms():
    a, b = definite(4), definite(4)
    for args in ((a,), (a, b)):
        for x, y in zip(linalg.eigh(*args), fg.jit(linalg.eigh)(*args), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-12)
        w, v = linalg.eigh(*args)
        np.testing.assert_allclose(w, la.eigh(*args)[0], rtol=1e-12)
        np.testing.assert_allclose(np.abs(v), np.abs(la.eigh(*args)[1]), rtol=1e-9)
    d, e = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25])
    w, v = fg.jit(linalg.eigh_tridiagonal)(d, e)
    np.testing.assert_allclose(
        (v * w) @ v.T, np.diag(d) + np.diag(e, 1) + np.diag(e, -1), atol=1e-14
    )
    chosen = linalg.eigh(a, subset_by_index=[0, 1])[0]
    np.testing.assert_allclose(chosen, la.eigh(a)[0][:2])
    np.testing.assert_allclose(
        fg.jit(lambda a: linalg.eigh(a, subset_by_index=[0, 1])[0])(a), chosen
    )


def test_left_vectors_of_real_matrices():
    for a in (regular(3), np.array([[0.5, -2.0], [1.0, 0.25]]), regular(3, True)):
        expected = la.eig(a, left=True)
        for x, y in zip(fg.jit(lambda a: linalg.eig(a, left=True))(a), expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-12)


def test_orth_where_the_rank_is_known():
    a = np.array([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0]])
    value, _ = fg.vjp(linalg.orth, a)
    np.testing.assert_allclose(value, la.orth(a))
    with pytest.raises(TypeError, match="the rank, which determines orth's shape"):
        fg.jit(linalg.orth, branches="error")(a)


# --- degenerate spectra ---------------------------------------------------------------------------

NILPOTENT = np.array([[0.0, 1.0], [0.0, 0.0]])
ZERO = np.zeros((3, 3))


@pytest.mark.slow
def test_expm_at_degenerate_matrices():
    np.testing.assert_allclose(fg.jacobian(linalg.expm)(ZERO).reshape(9, 9), np.eye(9))
    for a in (ZERO, NILPOTENT, np.eye(2), np.diag([1.0, 1.0, 2.0])):
        check_grads(linalg.expm, [a], order=2)
        check_grads(linalg.cosm, [a], order=1)
    check_grads(linalg.cosm, [ZERO], order=2)
    e = draw(3, 3)
    second = fg.jvp(lambda a: fg.jvp(linalg.expm, (a,), (e,))[1], (ZERO,), (e,))[1]
    np.testing.assert_allclose(second, e @ e, atol=1e-14)


@pytest.mark.slow
def test_roots_and_logarithms_at_equal_eigenvalues():
    for a in (np.eye(2), np.diag([2.0, 2.0, 1.0]), np.array([[1.0, 1.0], [0.0, 1.0]])):
        for f in (linalg.sqrtm, linalg.logm):
            check_grads(f, [a], order=1)
    np.testing.assert_allclose(
        fg.jacobian(linalg.sqrtm)(np.eye(2)).reshape(4, 4), np.eye(4) / 2, atol=1e-14
    )
    check_grads(lambda a: fg.grad(lambda a: np.sum(linalg.sqrtm(a) ** 2))(a), [np.eye(2)], order=1)


@pytest.mark.filterwarnings("ignore:Matrix is singular")
def test_where_a_root_has_no_derivative():
    for a in (np.zeros((2, 2)), np.diag([1.0, 0.0])):
        with pytest.raises(np.linalg.LinAlgError, match="sqrtm has no derivative"):
            fg.grad(lambda a: np.sum(linalg.sqrtm(a)))(a)
    with pytest.raises(np.linalg.LinAlgError, match="logm has no derivative"):
        fg.grad(lambda a: np.sum(linalg.logm(a)))(np.diag([1.0, 1e-20]))


@pytest.mark.parametrize("f", [np.exp, np.cos, lambda w: w**3], ids=["exp", "cos", "cube"])
def test_functions_of_hermitian_matrices_at_equal_eigenvalues(f):
    turn = np.linalg.qr(draw(3, 3))[0]
    for w in ([1.0, 1.0, 1.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0 + 1e-5, 1.0 + 1e-4]):
        a = (turn * w) @ turn.T
        check_grads(lambda a: linalg.funm_hermitian(hermitian(a), f), [a], order=2)
    c = definite(3, True)
    check_grads(lambda a: linalg.funm_hermitian(hermitian(a), f), [c / 9], order=2)


def test_third_derivatives_of_a_function_of_a_hermitian_matrix():
    e = hermitian(draw(3, 3))

    def along(s):
        return linalg.funm_hermitian(np.eye(3) + s * e, np.exp)

    third = fg.jacfwd(fg.jacfwd(fg.jacfwd(along)))(0.0)
    np.testing.assert_allclose(third, math.e * e @ e @ e, atol=1e-8)


def test_polar_without_full_rank():
    for a in (np.zeros((2, 2)), np.diag([1.0, 0.0])):
        with pytest.raises(np.linalg.LinAlgError, match="polar has no derivative"):
            fg.grad(lambda a: np.sum(linalg.polar(a)[0]))(a)


def test_polar_of_equal_singular_values():
    for a in (np.eye(3), 2 * np.linalg.qr(draw(3, 3))[0], np.eye(4)[:, :2]):
        check_grads(linalg.polar, [a], order=2)


@pytest.mark.filterwarnings("ignore")
def test_hankel_of_several_vectors_is_what_the_installed_scipy_makes_of_them():
    c, r = draw(2, 3), draw(2, 2)
    for f in (fg.jit(linalg.hankel), lambda *args: fg.vjp(linalg.hankel, *args)[0]):
        np.testing.assert_array_equal(f(c), la.hankel(c))
        np.testing.assert_array_equal(f(c, r), la.hankel(c, r))


# --- dtypes, batches, empty -----------------------------------------------------------------------

SINGLE = np.float32(regular(3))


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
def test_single_precision_stays():
    for f in (
        linalg.expm, linalg.logm, linalg.sqrtm, linalg.inv, linalg.det, linalg.lu, linalg.polar,
        linalg.cosm, lambda a: linalg.solve_sylvester(a, a, a), lambda a: linalg.solve(a, a),
        lambda a: linalg.solve_banded((1, 1), a, a), linalg.toeplitz, linalg.block_diag,
        lambda a: linalg.funm_hermitian(a, np.exp),
    ):  # fmt: skip
        dtypes = {np.asarray(x).dtype for x in pytree.leaves(fg.jit(f)(SINGLE))}
        assert dtypes == {np.dtype(np.float32)}
        gradient = fg.grad(lambda a, f=f: sum(np.sum(x) for x in pytree.leaves(f(a))))(SINGLE)
        assert gradient.dtype == np.float32


def test_leading_axes_are_batches():
    a = np.stack([regular(3), regular(3), definite(3)])
    b = draw(3, 3, 2)
    functions = [
        linalg.expm, linalg.logm, linalg.sqrtm, linalg.signm, linalg.polar, linalg.lu_factor,
        lambda a: linalg.solve_continuous_lyapunov(a, a), linalg.toeplitz, linalg.circulant,
    ]  # fmt: skip
    for f in functions:
        whole = pytree.leaves(fg.jit(f)(a))
        rows = zip(*[pytree.leaves(f(x)) for x in a], strict=True)
        for x, parts in zip(whole, rows, strict=True):
            np.testing.assert_allclose(x, np.stack(parts), rtol=1e-10, atol=1e-10)
    found = fg.jit(lambda a, b: linalg.solve_sylvester(a, a[0], b @ np.ones((2, 3))))(a, b)
    for i in range(3):
        expected = la.solve_sylvester(a[i], a[0], b[i] @ np.ones((2, 3)))
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [0, 1])
def test_empty_and_single(n):
    a = np.full((n, n), 2.0)
    for f in (
        linalg.expm, linalg.logm, linalg.sqrtm, linalg.inv, linalg.lu, linalg.cholesky,
        lambda a: linalg.solve_sylvester(a, a, a), lambda a: linalg.solve_continuous_lyapunov(a, a),
        lambda a: linalg.funm_hermitian(a, np.exp), lambda a: linalg.solve(a, a),
    ):  # fmt: skip
        values = pytree.leaves(fg.jit(f)(a))
        assert all(x.shape == (n, n) for x in values)
        gradient = fg.grad(lambda a, f=f: sum(np.sum(x) for x in pytree.leaves(f(a))))(a)
        assert gradient.shape == (n, n) and np.all(np.isfinite(gradient))


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, on the way to the error
def test_bad_input_raises_as_in_scipy():
    nan = np.array([[1.0, np.nan], [0.0, 1.0]])
    singular = np.ones((2, 2))
    wide = np.ones((2, 3))
    for f, args, error, text in (
        (linalg.expm, (wide,), np.linalg.LinAlgError, "square"),
        (linalg.solve, (singular, np.ones(2)), np.linalg.LinAlgError, "[Ss]ingular"),
        (linalg.solve, (nan, np.ones(2)), ValueError, "infs or NaNs"),
        (linalg.solve, (np.eye(2), np.ones(3)), ValueError, "incompatible"),
        (linalg.lu, (nan,), ValueError, "infs or NaNs"),
        (linalg.cholesky, (-np.eye(2),), np.linalg.LinAlgError, "positive definite"),
        (lambda a, b: linalg.solve_banded((1, 1), a, b), (wide, np.ones(3)), ValueError,
         "lower and upper"),
        (linalg.solve_sylvester, (np.eye(2), -np.eye(2), np.eye(2)), np.linalg.LinAlgError,
         "eigenvalue in common"),
        (linalg.sqrtm, (-np.eye(2),), np.linalg.LinAlgError, "real matrix is complex"),
        (linalg.solve_circulant, (np.ones(3), np.arange(3.0)), np.linalg.LinAlgError,
         "singular"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            fg.jit(lambda *a, f=f: f(*a))(*args)
        if isinstance(args[0], np.ndarray):
            rest = args[1:]
            with pytest.raises(error, match=text):
                fg.grad(lambda a, f=f, rest=rest: np.sum(np.real(pytree.leaves(f(a, *rest))[-1])))(
                    args[0]
                )
    unchecked = fg.jit(lambda a: linalg.norm(a, check_finite=False))(nan)
    assert np.isnan(unchecked)


def test_what_has_no_derivative_is_refused():
    a = regular(3)
    for f, text in (
        (lambda a: linalg.qr(a, pivoting=True)[1], "pivoting=True"),
        (lambda a: linalg.qr(a, mode="raw")[1], "mode='raw'"),
        (lambda a: linalg.eig(a, a)[0], "Solve with b first"),
        (lambda a: linalg.eigh(a, subset_by_value=[0.0, 1.0])[0], "slice them"),
    ):
        with pytest.raises(UnsupportedArgumentError, match=text):
            fg.jit(f)(a)


def test_the_namespace_is_scipys():
    assert linalg.null_space is la.null_space and linalg.hilbert is la.hilbert
    assert {"expm", "hadamard"} <= set(dir(linalg))
    np.testing.assert_array_equal(linalg.expm(NILPOTENT), la.expm(NILPOTENT))


@pytest.mark.parametrize("scale", [0.0, 1e-4, 0.1, 0.5, 1.5, 4.0, 40.0])
@pytest.mark.parametrize("n", [1, 3, 70])
def test_derivative_of_expm_along_a_matrix(scale, n):
    a, e = np.random.default_rng(1).normal(size=(2, n, n))
    a *= scale / np.abs(a).sum(0).max()
    for x, y in ((a, e), (a + 0.3j * scale * e, e + 1j * a), (a.astype(np.float32), e)):
        expected = la.expm_frechet(x, y, compute_expm=False)
        found = derivative(x, y)
        limit = (1e-12 if x.dtype != np.float32 else 1e-5) * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


def test_stack_of_derivatives_of_expm_is_scaled_one_by_one():
    a, e = np.random.default_rng(1).normal(size=(2, 7, 4, 4))
    a *= np.array([0.0, 1e-4, 0.1, 1.0, 3.0, 10.0, 50.0])[:, None, None]
    expected = [la.expm_frechet(*pair, compute_expm=False) for pair in zip(a, e, strict=True)]
    for x, y in zip(derivative(a, e), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())
