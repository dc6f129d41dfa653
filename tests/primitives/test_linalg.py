"""numpy.linalg on traced values: NumPy's results under every transform, right derivatives."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from samples_linalg import positive, regular
from surface import agrees, same, values

import fungrad as fg
from fungrad.primitives.linalg import lapack_calls, substitution
from fungrad.primitives.linalg.cholesky_pullback import cholesky_pullback
from fungrad.primitives.linalg.solve import solve
from fungrad.primitives.linalg.spectra import coincide, shares
from fungrad.testing import check_grads

REAL, COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)
LAPACK = ("solve", "inv", "cholesky", "det", "slogdet")
BOTH = pytest.mark.parametrize("dtype", (REAL, COMPLEX), ids=("real", "complex"))


def symmetric(shape, dtype=REAL):
    return positive("symmetric", shape, np.dtype(dtype), True)


def hermitian(x):
    """Hermitian matrices of any: the way to move along them."""
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


# --- equations ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "shapes",
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 2)),
     ((2, 2), (4, 1, 2, 3)), ((1, 2, 2), (3, 2, 1)), ((0, 0), (0,)), ((0, 2, 2), (2, 1))],
)  # fmt: skip
def test_solve(dtype, shapes):
    agrees(np.linalg.solve, regular("a", shapes[0], dtype), values(shapes[1], dtype))


def test_solve_of_mixed_dtypes():
    a, b = regular("a", (2, 2), np.dtype(np.float32)), values((2,), np.complex128)
    agrees(np.linalg.solve, a, b, order=1)
    agrees(lambda a: np.linalg.solve(a, np.arange(2)), a, order=0)
    agrees(lambda b: np.linalg.solve([[2, 1], [0, 1]], b), b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (1, 1), (2, 3, 3), (0, 0), (0, 2, 2)])
def test_lapack_is_what_numpy_calls(dtype, shape):
    a = positive("lapack", shape, np.dtype(dtype), True)
    right = np.ones((*shape[:-1], 2), dtype)
    for name, args in [("solve", (a, right)), *((n, (a,)) for n in LAPACK[1:])]:
        ours, theirs = (getattr(home, name)(*args) for home in (lapack_calls, np.linalg))
        for x, y in zip(
            *(r if name == "slogdet" else [r] for r in (ours, theirs)), strict=True
        ):  # fmt: skip
            assert type(x) is type(y) and x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("stage", [fg.jit, lambda f: f], ids=("staged", "eager"))
def test_errors_of_lapack_are_numpys(dtype, stage):
    singular, before = np.zeros((2, 2), dtype), np.geterr()
    with np.errstate(all="raise"):
        for name in LAPACK[:3]:
            f, args = getattr(np.linalg, name), [singular] * (1 + (name == "solve"))
            with pytest.raises(np.linalg.LinAlgError) as theirs:
                f(*args)
            with pytest.raises(np.linalg.LinAlgError) as ours:
                stage(lambda *args, f=f: f(*args))(*args)
            assert str(theirs.value) in str(ours.value)
            with pytest.raises(np.linalg.LinAlgError):
                fg.grad(lambda *args, f=f: np.sum(abs(f(*args))))(*args)
            with pytest.raises(FloatingPointError):  # the state of errors is as it was
                np.divide(1.0, np.zeros(1))
        assert np.linalg.det(singular) == stage(np.linalg.det)(singular) == 0
    assert np.geterr() == before


@pytest.mark.parametrize("name", LAPACK)
def test_lapack_is_called_directly_where_numpy_has_the_parts(name):
    assert getattr(lapack_calls, name).__wrapped__ is getattr(np.linalg, name)
    assert "gufunc" in getattr(lapack_calls, name).__code__.co_freevars


@pytest.mark.parametrize("name", LAPACK)
def test_without_numpys_own_parts_linalg_is_called(name, monkeypatch):
    public = getattr(np.linalg, name)
    monkeypatch.setitem(sys.modules, "numpy.linalg._umath_linalg", None)
    monkeypatch.delattr(np.linalg, "_umath_linalg")
    assert lapack_calls._fastest(public, name, "Singular matrix") is public
    assert lapack_calls._fastest(public, "no such name") is public


@pytest.mark.parametrize("wrong", [
    lambda a: tuple(np.linalg.qr(2 * a)), lambda a: np.linalg.qr(a)[:1], lambda a: None.q,
    lambda a: np.linalg.inv(np.zeros((2, 2))),
])  # fmt: skip
def test_parts_of_numpy_that_do_something_else_are_not_called(wrong):
    assert lapack_calls._by_ufuncs(lambda ufuncs: wrong, np.linalg.qr, [np.eye(2)]) is None


def test_qr_without_numpys_own_parts(monkeypatch):
    a = np.arange(6.0).reshape(3, 2)
    expected = np.linalg.qr(a)
    monkeypatch.setattr(np.linalg, "_umath_linalg", object())
    without = lapack_calls._qr()
    monkeypatch.undo()
    for x, y, z in zip(without(a), expected, lapack_calls.qr(a), strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(z, y)


@BOTH
@pytest.mark.parametrize("blas", ["OpenBLAS", "another"])
def test_systems_of_triangles_read_one_triangle(dtype, blas, monkeypatch):
    if blas == "another":
        monkeypatch.setattr(substitution, "_trsm", lambda dtype: None)
    one, b = regular("triangle", (150, 150), dtype), values((150, 3), dtype)
    for a in (one, one.T, one[::-1, ::-1], np.stack([one, one.T]), one[:1, :1], one[:0, :0]):
        right = b[: a.shape[-1]]
        for triangle, part in (("lower", np.tril), ("upper", np.triu)):
            found = solve(a, right, triangle=triangle)
            np.testing.assert_allclose(found, np.linalg.solve(part(a), right), rtol=1e-9)
            single = np.dtype(np.complex64 if dtype == COMPLEX else np.float32)
            rounded = solve(a.astype(single), right.astype(single), triangle=triangle)
            assert rounded.dtype == single
            np.testing.assert_allclose(rounded, found, rtol=1e-3, atol=1e-5)
            jitted = fg.jit(lambda a, b, t=triangle: solve(a, b, triangle=t))(a, right)
            np.testing.assert_allclose(jitted, found, rtol=1e-12)
    singular = np.tril(one)
    singular[80, 80] = 0
    for k in (0, 1):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            solve(singular, b[:, :k], triangle="lower")
    assert np.isnan(solve(np.full((2, 2), np.nan), b[:2], triangle="lower")).all()


@BOTH
def test_compiled_systems_of_cholesky_factors_are_triangular(dtype):
    def f(a, b):
        factor = np.linalg.cholesky(hermitian(a))
        upper = np.linalg.cholesky(hermitian(a), upper=True)
        turned = np.linalg.solve(factor.T, b) + np.linalg.solve(factor.conj().T, b)
        return np.linalg.solve(factor, b) + turned, np.linalg.solve(upper, b)

    a, b = symmetric((3, 3), dtype), values((3, 2), dtype)
    graph = fg.jit(f).lower(a, b).optimised
    triangles = [e.params["triangle"] for e in graph.equations if e.primitive is solve]
    assert sorted(triangles) == ["lower", *["upper"] * (len(triangles) - 1)]
    agrees(f, a, b)
    other = fg.jit(lambda a, b: np.linalg.solve(np.linalg.cholesky(a)[::-1], b)).lower(a, b)
    assert [e.params["triangle"] for e in other.optimised.equations if e.primitive is solve] == [""]


@pytest.mark.parametrize("name", ["eigvals", "eigvalsh", "svdvals"])
def test_compiled_gradients_take_values_and_vectors_from_one_factorisation(name):
    def loss(a):
        return np.sum(np.tanh(getattr(np.linalg, name)(a).real))

    a = symmetric((70, 3, 3))
    a[3:5] = np.diag([2.0, 2.0, 1.0])  # equal values
    run = fg.jit(fg.grad(loss))
    assert name not in [e.primitive.name for e in run.lower(a).optimised.equations]
    np.testing.assert_allclose(run(a), fg.grad(loss)(a), rtol=1e-10, atol=1e-12)


def test_large_systems_of_triangles_are_not_factorised(monkeypatch):
    monkeypatch.setattr(lapack_calls, "solve", None)
    a, b = regular("large", (130, 130), REAL), values((130, 2))
    for part in (np.tril(a), np.triu(a), np.tril(a).T, np.diag(np.diag(a))):
        for f in (np.linalg.solve, fg.jit(np.linalg.solve)):
            x = substitution.solved(part, b) if f is np.linalg.solve else f(part, b)
            np.testing.assert_allclose(x, np.linalg.solve(part, b), rtol=1e-9)
        part[100, 100] = 0
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            fg.grad(lambda a, b: np.sum(np.linalg.solve(a, b)))(part, b)
    monkeypatch.undo()
    for place in ((100, 2), (2, 100)):
        for number in (np.nan, 1.0):
            a = np.tril(regular("large", (130, 130), REAL))
            a[place] = number
            ours, theirs = substitution.solved(a, b), np.linalg.solve(a, b)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1), (0, 0)])
def test_inverse_and_determinants(dtype, shape):
    a = regular("inverse", shape, dtype)
    for f in (np.linalg.inv, np.linalg.det, np.linalg.slogdet):
        agrees(f, a)


@BOTH
def test_pseudoinverse(dtype):
    for shape in ((3, 2), (2, 3), (2, 2, 3), (2, 2)):
        agrees(np.linalg.pinv, values(shape, dtype))
    a = values((3, 2), dtype)
    agrees(lambda a: np.linalg.pinv(a, 1e-3), a, order=1)
    agrees(lambda a: np.linalg.pinv(a, rtol=None), a, order=1)
    agrees(lambda a: np.linalg.pinv(a, rtol=np.array(0.01)), a, order=1)
    stack = values((2, 3, 2), dtype)
    agrees(lambda a: np.linalg.pinv(a, np.array([1e-3, 1e-2])), stack, order=1, batch=False)
    agrees(lambda a: np.linalg.pinv(hermitian(a), hermitian=True), symmetric((3, 3), dtype))
    assert fg.make_jaxpr(np.linalg.pinv)(np.ones((0, 2))) is not None


def test_pseudoinverse_at_constant_rank():
    u, v = values((4, 2)), values((2, 3), seed=1)
    agrees(lambda u, v: np.linalg.pinv(u @ v, 1e-10), u, v)


@pytest.mark.parametrize("shapes", [((4, 2), (4,)), ((4, 2), (4, 3)), ((2, 4), (2, 2))])
def test_least_squares(shapes):
    for dtype in (REAL, COMPLEX):
        a, b = values(shapes[0], dtype), values(shapes[1], dtype)
        agrees(lambda a, b: np.linalg.lstsq(a, b, rcond=None), a, b)


def test_least_squares_in_single_precision_keep_small_singular_values():
    """NumPy computes in double precision."""
    a, b = np.diag([1.0, 1e-9]).astype(np.float32), np.ones(2, np.float32)
    for f in (np.linalg.lstsq, lambda a, b: np.linalg.lstsq(np.concatenate([a, a]), [*b, *b])):
        for x, y in zip(fg.jit(f)(a, b), f(a, b), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-12)


def test_least_squares_without_full_rank():
    a, b = values((4, 1)) @ values((1, 2)), values((4,))
    expected = np.linalg.lstsq(a, b, rcond=1e-8)
    found = fg.jvp(lambda b: np.linalg.lstsq(a, b, rcond=1e-8)[0], (b,), (b,))[1]
    same(found, expected[0], "x")
    x, residuals, rank, s = fg.jit(lambda a: np.linalg.lstsq(a, b, rcond=1e-8))(a)
    assert np.isnan(residuals).all() and rank == 1
    same((x, s), (expected[0], expected[3]), "staged")


# --- determinants where there is no inverse -------------------------------------------------------


def turned(spectrum, dtype=REAL):
    n = len(spectrum)
    u = np.linalg.qr(values((n, n), dtype))[0]
    v = np.linalg.qr(values((n, n), dtype, seed=1))[0]
    return (u * np.array(spectrum)) @ v


@BOTH
@pytest.mark.parametrize("spectrum", [(2, 1, 0), (1, 1, 0), (1, 0, 0), (0, 0, 0), (1, 1, 1)])
def test_determinants_of_singular_matrices_have_two_derivatives(dtype, spectrum):
    check_grads(np.linalg.det, [turned(spectrum, dtype)])


def test_the_cofactors_of_integers():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    cofactors = [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]]
    np.testing.assert_allclose(fg.grad(np.linalg.det)(a), cofactors, atol=1e-12)


def test_third_derivatives_of_a_determinant():
    weights = values((3, 3, 3, 3))

    def by_minors(a):
        return np.sum(a[0] * np.cross(a[1], a[2]))

    def third(det):
        return fg.grad(lambda a: np.sum(fg.hessian(det)(a) * weights))

    a = regular("third", (3, 3), REAL)
    np.testing.assert_allclose(third(np.linalg.det)(a), third(by_minors)(a), rtol=1e-9)
    assert np.isnan(third(np.linalg.det)(turned((2, 1, 0)))).all()


# --- factorisations -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1)])
def test_cholesky(dtype, shape):
    a = symmetric(shape, dtype)
    agrees(lambda a: np.linalg.cholesky(hermitian(a)), a)
    agrees(lambda a: np.linalg.cholesky(hermitian(a), upper=True), a)


@BOTH
def test_large_pullbacks_of_cholesky_are_the_formula_of_small_ones(dtype):
    n = 150
    y = np.linalg.cholesky(symmetric((2, n, n), dtype))
    ct = values((2, n, n), dtype)
    p = np.tril(y.conj().mT @ np.tril(ct.conj()))
    p = p + np.tril(p, -1).conj().mT
    p = (p + p.conj().mT) / 2
    inverse = np.linalg.inv(y)
    expected = (inverse.conj().mT @ p @ inverse).conj() / 2
    scale = np.abs(expected).max()
    for given, part in (((y, ct), slice(2)), ((y[0], ct), 0), ((y, ct[1]), 1)):
        found = cholesky_pullback(*given)
        assert found.shape == ct.shape
        np.testing.assert_allclose(found[part] / scale, expected[part] / scale, atol=1e-13)


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 1), (1, 1)])
def test_qr(dtype, shape):
    a = values(shape, dtype)
    agrees(np.linalg.qr, a)
    agrees(lambda a: np.linalg.qr(a, "r"), a)
    agrees(lambda a: np.linalg.qr(a, mode="complete"), a)


def test_qr_refuses_raw_by_name():
    with pytest.raises(fg.errors.UnsupportedArgumentError, match="raw"):
        fg.grad(lambda a: np.sum(np.linalg.qr(a, "raw")[0]))(np.eye(2))
    with pytest.warns(DeprecationWarning):
        same(fg.jit(lambda a: np.linalg.qr(a, "full"))(np.eye(2)), np.linalg.qr(np.eye(2)), "full")
    with pytest.raises(ValueError, match="mode"):
        fg.grad(lambda a: np.sum(np.linalg.qr(a, "other")[0]))(np.eye(2))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3), (2, 2, 2), (1, 1)])
def test_svd(shape):
    a = values(shape)
    agrees(lambda a: np.linalg.svd(a, full_matrices=False), a)
    agrees(lambda a: np.linalg.svd(a, compute_uv=False), a)
    agrees(np.linalg.svdvals, a)
    agrees(np.linalg.svd, a, order=2 if shape[-1] == shape[-2] else 0)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 3)])
def test_what_phases_do_not_change_in_a_complex_svd(shape):
    a = values(shape, np.complex128)

    def f(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.abs(u), s, np.abs(vh), u @ (vh * np.log(s)[:, None]), u @ vh

    agrees(f, a)
    agrees(np.linalg.svdvals, a)


@BOTH
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (5, 2)])
def test_the_projection_beside_a_full_svd(dtype, shape):
    k = min(shape)

    def f(a):
        u, _, vh = np.linalg.svd(a)
        rest, other = u[:, k:], vh[k:]
        return rest @ np.conj(rest.T), np.conj(other.T) @ other

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.grad(lambda a: np.sum(np.abs(f(a)[0])))(values(shape, dtype))
    agrees(f, values(shape, dtype), order=1, batch=False)


@BOTH
def test_svd_of_hermitian_matrices(dtype):
    a = symmetric((3, 3), dtype) - 4 * np.eye(3)
    agrees(lambda a: np.linalg.svd(hermitian(a), hermitian=True)[1], a)
    agrees(lambda a: np.linalg.svd(hermitian(a), compute_uv=False, hermitian=True), a)

    def f(a):
        u, s, vh = np.linalg.svd(hermitian(a), hermitian=True)
        return np.abs(u), u @ (vh * (s**2)[:, None])

    agrees(f, a)


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1)])
def test_eigh(shape):
    a = symmetric(shape)
    for side in ("L", "U", "l"):
        agrees(lambda a, side=side: np.linalg.eigh(hermitian(a), side), a)
        agrees(lambda a, side=side: np.linalg.eigvalsh(hermitian(a), UPLO=side), a)
    with pytest.raises(ValueError, match="UPLO"):
        fg.grad(lambda a: np.sum(np.linalg.eigvalsh(a, "X")))(a)


def test_what_phases_do_not_change_in_a_complex_eigh():
    def f(a):
        w, v = np.linalg.eigh(hermitian(a))
        return w, np.abs(v), (v * np.exp(-w)) @ np.conj(v.T)

    agrees(f, symmetric((3, 3), COMPLEX))


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1)])
def test_eig(dtype, shape):
    a = regular("eig", shape, dtype)
    agrees(lambda a: tuple(np.linalg.eig(a + 0j)), a)
    agrees(lambda a: np.linalg.eigvals(a + 0j), a)


def test_eig_of_real_matrices_is_complex_when_traced():
    a = np.array([[2.0, 1.0], [0.5, -1.0]])
    assert np.linalg.eigvals(a).real.dtype == REAL  # complex since NumPy 2.5
    assert fg.jit(np.linalg.eigvals)(a).dtype == COMPLEX
    slope = fg.grad(lambda a: np.max(np.linalg.eigvals(a).real))(a)
    w = np.linalg.eigvals
    step = 1e-6
    for i, j in np.ndindex(2, 2):
        e = np.zeros((2, 2))
        e[i, j] = step
        assert abs(slope[i, j] - (w(a + e).real.max() - w(a - e).real.max()) / (2 * step)) < 1e-8
    check_grads(lambda a: np.linalg.eig(a)[1].real, [np.array([[0.5, -2.0], [1.0, 0.25]])])


# --- one triangle, or a Hermitian matrix ----------------------------------------------------------


@BOTH
def test_gradients_at_hermitian_matrices_are_hermitian(dtype):
    a = symmetric((3, 3), dtype)
    for f in (np.linalg.eigvalsh, lambda a: np.diagonal(np.linalg.cholesky(a)).real):
        g = fg.grad(lambda a, f=f: np.sum(f(a) ** 3))(a)
        np.testing.assert_allclose(g, g.conj().T, atol=1e-9)
    log = fg.grad(lambda a: 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(a)).real)))(a)
    np.testing.assert_allclose(log, np.linalg.inv(a).T, rtol=1e-9)


@BOTH
def test_gradients_of_one_triangle_are_those_of_the_function_of_it(dtype):
    a = symmetric((3, 3), dtype)
    lower = np.tril(a)
    agrees(lambda x: np.linalg.eigvalsh(np.tril(x)), lower)
    agrees(lambda x: np.linalg.eigvalsh(np.triu(x), "U"), np.conj(lower.T))
    agrees(lambda x: np.linalg.cholesky(np.tril(x)), lower)
    check_grads(np.linalg.eigvalsh, [lower])


# --- equal values ---------------------------------------------------------------------------------


def quiet(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return f(*args)


def degenerate(spectrum):
    q = np.linalg.qr(values((len(spectrum),) * 2))[0]
    return hermitian((q * np.array(spectrum)) @ q.T)


@pytest.mark.parametrize("spectrum", [(1, 1, 1), (1, 1, 2), (2, 1, 3)])
@pytest.mark.parametrize("h, slope", [
    (lambda w: w, np.ones_like), (np.square, lambda w: 2 * w), (np.log, lambda w: 1 / w)
])  # fmt: skip
def test_symmetric_functions_of_equal_eigenvalues(spectrum, h, slope):
    a = degenerate([float(s) for s in spectrum])
    w, v = np.linalg.eigh(a)
    expected = (v * slope(w)) @ v.T
    for f in (np.linalg.eigvalsh, lambda a: np.linalg.eigh(a)[0], np.linalg.svdvals):
        g = quiet(fg.grad(lambda a, f=f: np.sum(h(f(a)))), a)
        np.testing.assert_allclose(g, expected, atol=1e-12)
    e = hermitian(values((3, 3), seed=4))
    pushed = quiet(lambda: fg.jvp(lambda a: np.sum(h(np.linalg.eigvalsh(a))), (a,), (e,))[1])
    np.testing.assert_allclose(pushed, np.sum(expected * e), atol=1e-12)


def test_projections_onto_equal_eigenvalues_are_differentiable():
    a = degenerate([1.0, 1.0, 2.0])
    weights = values((3, 3))

    def onto_equal(a):
        v = np.linalg.eigh(a)[1][:, :2]
        return np.sum(weights * (v @ v.T))

    def by_inverse(a):  # (2 - a) is that projection, to first order in the turn
        v = np.linalg.eigh(a)[1][:, 2:]
        return np.sum(weights * (np.eye(3) - v @ v.T))

    expected = quiet(fg.grad(by_inverse), a)
    np.testing.assert_allclose(quiet(fg.grad(onto_equal), a), expected, atol=1e-12)


def test_what_depends_on_the_choice_of_vectors_warns():
    a = np.eye(2)
    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.grad(lambda a: np.sum(np.linalg.eigh(a)[1][0] * np.arange(2.0)))(a)
    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.jvp(lambda a: np.linalg.eigh(a)[1], (a,), (np.ones((2, 2)),))
    with pytest.warns(RuntimeWarning, match="equal singular values"):
        fg.grad(lambda a: np.sum(np.linalg.svd(a)[0] * np.arange(4.0).reshape(2, 2)))(a)
    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.grad(lambda a: np.sum(np.linalg.eig(a)[1].real * np.arange(2.0)))(a)


def test_what_equal_eigenvalues_cannot_tell_warns():
    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum((v * np.exp(w)) @ v.T)

    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.grad(f)(np.eye(2))
    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.hessian(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2))(np.eye(2))
    with pytest.warns(RuntimeWarning, match="equal eigenvalues"):
        fg.jit(fg.grad(f))(np.eye(2))


def test_the_polar_factor_at_equal_singular_values():
    a = np.linalg.qr(values((3, 3)))[0]
    weights = values((3, 3), seed=2)

    def polar(a):
        u, _, vh = np.linalg.svd(a)
        return np.sum(weights * (u @ vh))

    g = quiet(fg.grad(polar), a)
    step = 1e-6
    e = values((3, 3), seed=3)
    difference = (polar(a + step * e) - polar(a - step * e)) / (2 * step)
    np.testing.assert_allclose(np.sum(g * e), difference, rtol=1e-7)


def test_the_nuclear_norm_of_an_orthogonal_matrix():
    a = np.linalg.qr(values((3, 3)))[0]
    np.testing.assert_allclose(fg.grad(lambda a: np.linalg.norm(a, "nuc"))(a), a, atol=1e-12)


def test_a_matrix_with_too_few_eigenvectors_warns():
    for a in ([[1.0, 1.0], [0.0, 1.0]], [[3.0, 1.0, 0.5], [-1.0, 1.0, 0.2], [0.0, 0.0, 2.0]]):
        with pytest.warns(RuntimeWarning, match="nearly dependent"):
            fg.grad(lambda a: np.sum(np.linalg.eigvals(a) ** 2).real)(np.array(a))


def test_equal_values_are_a_tie():
    for f in (np.linalg.eigvalsh, np.linalg.svdvals, lambda a: np.linalg.eigvals(a).real):
        for i in range(3):
            g = quiet(fg.grad(lambda a, f=f, i=i: f(a)[i]), np.eye(3))
            np.testing.assert_allclose(g, np.eye(3) / 3, atol=1e-15)
    a = degenerate([1.0, 1.0, 2.0])
    g = fg.grad(lambda a: np.linalg.eigvalsh(a)[0])(a)
    np.testing.assert_allclose(g, (2 * np.eye(3) - a) / 2, atol=1e-12)
    moved = fg.jvp(np.linalg.eigvalsh, (np.eye(3),), (np.diag([1.0, 2.0, 6.0]),))[1]
    np.testing.assert_allclose(moved, 3.0)
    orthogonal = np.linalg.qr(values((3, 3)))[0]
    g = fg.grad(lambda a: np.linalg.norm(a, 2))(orthogonal)
    np.testing.assert_allclose(g, orthogonal / 3, atol=1e-12)
    np.testing.assert_allclose(fg.grad(np.linalg.cond)(orthogonal), 0.0, atol=1e-12)


def test_values_far_smaller_than_others_are_no_tie():
    a = np.diag([1e-17, 3e-17, 1.0])
    g = fg.grad(lambda a: np.sum(np.log(np.linalg.eigvalsh(a))))(a)
    np.testing.assert_allclose(np.diag(g), 1 / np.diag(a))


# --- norms ----------------------------------------------------------------------------------------

VECTOR_ORDERS = (None, 2, 1, 0, 3, 2.5, -1, -2, np.inf, -np.inf, 0.5)
MATRIX_ORDERS = (None, "fro", "f", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


@BOTH
@pytest.mark.parametrize("ord", VECTOR_ORDERS)
def test_norms_of_vectors(dtype, ord):
    agrees(lambda x: np.linalg.norm(x, ord), values((4,), dtype))
    x = values((2, 3), dtype)
    for keepdims in (False, True):
        agrees(lambda x, k=keepdims: np.linalg.norm(x, ord, axis=0, keepdims=k), x, order=1)
    if ord is not None:
        agrees(lambda x: np.linalg.vector_norm(x, ord=ord), x, order=1)
        agrees(lambda x: np.linalg.vector_norm(x, ord=ord, axis=-1, keepdims=True), x, order=1)
        cube = values((2, 3, 2), dtype)
        agrees(lambda x: np.linalg.vector_norm(x, ord=ord, axis=(0, 2)), cube, order=1)


@BOTH
@pytest.mark.parametrize("ord", MATRIX_ORDERS)
@pytest.mark.parametrize("shape", [(3, 3), (3, 2), (2, 3)])
def test_norms_of_matrices(dtype, ord, shape):
    x = values(shape, dtype)
    agrees(lambda x: np.linalg.norm(x, ord), x)
    if ord is not None:
        agrees(lambda x: np.linalg.matrix_norm(x, ord=ord, keepdims=True), x, order=1)
    cube = values((2, *shape), dtype)
    turn = MATRIX_ORDERS.index(ord) + len(set(shape))
    for i, axis in enumerate(((0, 2), (2, 1), (-1, 0))):
        keepdims = (i + turn) % 2 == 0
        agrees(lambda x, a=axis, k=keepdims: np.linalg.norm(x, ord, a, k), cube, order=1)


def test_norms_of_other_things():
    agrees(np.linalg.norm, values((2, 3, 2)))
    agrees(np.linalg.norm, np.float64(-2.0), batch=False)
    agrees(lambda x: np.linalg.norm([x, 2 * x, 3.0]), 1.5, batch=False)
    agrees(lambda x: np.linalg.norm(x.astype(int)), values((3,)), order=0)
    agrees(np.linalg.norm, values((4,), np.float32), order=1)
    for bad in (lambda x: np.linalg.norm(x, "fro"), lambda x: np.linalg.norm(x, 2, (0, 0))):
        with pytest.raises(ValueError):
            fg.grad(bad)(np.ones(3))
    with pytest.raises(ValueError):
        fg.grad(lambda x: np.linalg.norm(x, 3))(np.ones((2, 2)))


@pytest.mark.parametrize("shape", [(3,), (2, 2), (3, 2)])
def test_a_norm_that_is_zero_has_the_derivative_zero(shape):
    orders = (None, 1, 2, 3, 0.5, np.inf) if len(shape) == 1 else (None, "nuc", 1, 2, np.inf)
    for ord in orders:
        for dtype in (REAL, COMPLEX):
            zero = np.zeros(shape, dtype)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                g = fg.grad(lambda x, ord=ord: np.linalg.norm(x, ord))(zero)
            assert np.all(g == 0), ord
    with np.errstate(all="ignore"):
        t = fg.jvp(np.linalg.norm, (np.zeros(shape),), (np.ones(shape),))[1]
    assert t == 0


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers(p):
    for dtype in (REAL, COMPLEX):
        agrees(lambda x: np.linalg.cond(x, p), regular("cond", (3, 3), dtype))
        agrees(lambda x: np.linalg.cond(x, p), regular("cond", (2, 2, 2), dtype), order=1)


def test_condition_of_a_singular_matrix_is_infinite():
    with np.errstate(divide="ignore"):
        assert np.isinf(fg.jit(np.linalg.cond)(np.diag([1.0, 0.0])))
    agrees(np.linalg.cond, values((3, 2)))


def test_ranks():
    a = values((3, 2)) @ values((2, 4))
    agrees(np.linalg.matrix_rank, a)
    agrees(lambda a: np.linalg.matrix_rank(a, tol=10.0), a)
    agrees(lambda a: np.linalg.matrix_rank(a, rtol=0.5), a)
    agrees(lambda a: np.linalg.matrix_rank(a @ a.T, hermitian=True), a)
    agrees(np.linalg.matrix_rank, values((2, 3, 2)))
    agrees(np.linalg.matrix_rank, values((3,)), batch=False)


# --- products -------------------------------------------------------------------------------------


@BOTH
def test_powers(dtype):
    a = regular("power", (3, 3), dtype)
    for n in (0, 1, 2, 3, 5, 8, -1, -3):
        agrees(lambda a, n=n: np.linalg.matrix_power(a, n), a, order=1)
    agrees(lambda a: np.linalg.matrix_power(a, 3), regular("power", (2, 2, 2), dtype))
    with pytest.raises(TypeError):
        fg.grad(lambda a: np.sum(np.linalg.matrix_power(a, 0.5)))(np.eye(2))


def test_chains():
    a, b, c, d = values((3,)), values((3, 5)), values((5, 2)), values((2,))
    agrees(lambda a, b: np.linalg.multi_dot([a, b]), a, b)
    agrees(lambda a, b, c, d: np.linalg.multi_dot([a, b, c, d]), a, b, c, d)
    agrees(lambda b, c: np.linalg.multi_dot((b.T, b, c, c.T)), b, c)
    assert "dot_general" in str(fg.make_jaxpr(lambda b: np.linalg.multi_dot([b, c]))(b))
    with pytest.raises(ValueError):
        fg.grad(lambda a: np.linalg.multi_dot([a]))(a)


def test_tensors():
    a = values((2, 3, 6))
    agrees(lambda a, b: np.linalg.tensorsolve(a, b), a, values((2, 3)))
    turned_about = np.moveaxis(values((6, 2, 3)), 0, 2)
    agrees(lambda a, b: np.linalg.tensorsolve(a, b, axes=(1,)), values((2, 6, 3)), values((2, 3)))
    agrees(np.linalg.tensorinv, turned_about)
    agrees(lambda a: np.linalg.tensorinv(a, ind=1), values((6, 2, 3)))
    with pytest.raises(ValueError):
        fg.grad(lambda a: np.sum(np.linalg.tensorinv(a, ind=0)))(a)


@BOTH
def test_what_the_main_namespace_has_too(dtype):
    x, y = values((2, 3), dtype), values((2, 3), dtype, seed=1)
    agrees(lambda x, y: np.linalg.outer(x[0], y[1]), x, y)
    agrees(np.linalg.cross, x, y)
    agrees(lambda x, y: np.linalg.cross(x.T, y.T, axis=0), x, y)
    agrees(np.linalg.vecdot, x, y)
    agrees(lambda x, y: np.linalg.vecdot(x, y, axis=0), x, y)
    agrees(lambda x, y: np.linalg.matmul(x, y.T), x, y)
    agrees(lambda x, y: np.linalg.tensordot(x, y, axes=1 + (x.ndim > 1)), x, y)
    cube = values((2, 3, 3), dtype)
    agrees(np.linalg.trace, cube)
    agrees(lambda x: np.linalg.trace(x, offset=1), cube)
    agrees(lambda x: np.linalg.diagonal(x, offset=-1), cube)
    agrees(np.linalg.matrix_transpose, cube)
    for bad in (lambda x: np.linalg.outer(x, x), lambda x: np.linalg.cross(x.T, x.T)):
        with pytest.raises(ValueError):
            fg.grad(lambda x, bad=bad: np.sum(np.abs(bad(x))))(x)


# --- the namespace --------------------------------------------------------------------------------


def test_every_public_function_is_there():
    for name in dir(np.linalg):
        if name.startswith("_") or name == "test":
            continue
        assert getattr(fg.numpy.linalg, name) is not None, name
        target = getattr(np.linalg, name)
        if hasattr(target, "__wrapped__"):
            assert target in fg.tracing.trace.registry.functions, name


def test_results_have_names():
    a = symmetric((2, 2))
    for f in (np.linalg.eigh, np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.slogdet):
        names = []
        fg.grad(lambda a, f=f, names=names: names.append(f(a)._fields) or np.sum(a))(a)
        assert names[0] == f(a)._fields
        assert type(getattr(fg.numpy.linalg, f.__name__)(a)) is type(f(a))


@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet", "cholesky", "eigh", "eig"])
def test_what_is_no_square_matrix_is_refused_as_by_numpy(name):
    f = getattr(np.linalg, name)
    args = (np.ones(2),) if name == "solve" else ()
    for bad in (np.ones((2, 3)), np.ones(3)):
        with pytest.raises(np.linalg.LinAlgError):
            f(bad, *args)
        with pytest.raises(np.linalg.LinAlgError):
            fg.make_jaxpr(lambda a, f=f, args=args: f(a, *args))(bad)
    with pytest.raises(TypeError, match="float16"):
        fg.make_jaxpr(lambda a: f(a, *args))(np.ones((2, 2), np.float16))


def test_a_matrix_of_traced_elements():
    def f(x):
        return np.linalg.det(np.array([[x, 1.0], [0.5, x]]))

    assert fg.grad(f)(2.0) == pytest.approx(4.0)
    objects = lambda x: np.linalg.det(np.array([[x, 1.0], [0.5, x]], dtype=object))  # noqa: E731
    assert fg.grad(objects)(2.0) == pytest.approx(4.0)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_is_kept(dtype):
    a = symmetric((3, 3), dtype)
    for f in (
        np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky, np.linalg.qr,
        np.linalg.svdvals, np.linalg.eigvalsh, np.linalg.pinv, np.linalg.norm, np.linalg.cond,
    ):  # fmt: skip
        agrees(f, a, order=0)
        g = fg.vjp(f, a)[1](fg.trees.map(np.ones_like, f(a)))[0]
        assert g.dtype == a.dtype


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0), (0, 3), (2, 0, 2)])
def test_empty_matrices(shape):
    a = np.zeros(shape)
    functions = [np.linalg.qr, np.linalg.svdvals, np.linalg.svd, np.linalg.pinv, np.linalg.norm]
    if shape[-1] == shape[-2]:
        functions += [np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky]
        functions += [np.linalg.eigh, np.linalg.eigvalsh]
    for f in functions:
        agrees(f, a, order=0, batch=False)
        expected = f(a)
        ones = (
            type(expected)(*fg.trees.map(np.ones_like, tuple(expected)))
            if isinstance(expected, tuple)
            else np.ones_like(expected)
        )
        assert fg.vjp(f, a)[1](ones)[0].shape == shape


def test_taylor_coefficients_pass_through():
    a = regular("taylor", (3, 3), REAL)
    found = fg.nth_derivative(lambda t: np.linalg.det(t * a), 3)(0.5)
    np.testing.assert_allclose(found, 6 * np.linalg.det(a), rtol=1e-9)
    found = fg.nth_derivative(lambda t: np.linalg.inv(t * a), 2)(0.5)
    np.testing.assert_allclose(found, 16 * np.linalg.inv(a), rtol=1e-9)


def test_integers_become_doubles():
    a = np.array([[2, 1], [1, 3]])
    for f in (np.linalg.inv, np.linalg.det, np.linalg.eigvalsh, np.linalg.cholesky):
        agrees(f, a)


def test_tolerances_may_be_traced():
    a = values((4, 3))
    cutoffs = np.array([1e-9, 0.6, 0.99])
    for f in (
        lambda a, k: np.linalg.pinv(a, rtol=k),
        lambda a, k: np.linalg.pinv(a, k),
        lambda a, k: np.linalg.lstsq(a, a[:, 0], rcond=k)[0],
        lambda a, k: np.linalg.matrix_rank(a, rtol=k) * 1.0,
    ):
        for k in cutoffs:
            np.testing.assert_allclose(fg.jit(f)(a, k), f(a, k), atol=1e-13)
            np.testing.assert_allclose(fg.jit(lambda k, f=f: f(a, k))(k), f(a, k), atol=1e-13)
            by_a, by_k = fg.jacrev(f, argnums=(0, 1))(a, k)
            np.testing.assert_allclose(by_a, fg.jacrev(lambda a, f=f, k=k: f(a, k))(a))
            assert not by_k.any()
        rows = fg.vmap(f, in_axes=(None, 0))(a, cutoffs)
        np.testing.assert_allclose(rows, np.stack([f(a, k) for k in cutoffs]), atol=1e-13)
    stack = values((2, 4, 3))
    rows = fg.vmap(lambda a, k: np.linalg.pinv(a, k), in_axes=(None, 0))(stack, cutoffs)
    expected = np.stack([np.linalg.pinv(stack, k) for k in cutoffs])
    np.testing.assert_allclose(rows, expected, atol=1e-13)


@pytest.mark.parametrize("diagonal", [(np.inf, 0.0, 0.0), (np.inf, 1.0, 1.0), (np.nan, 0.0, 1.0)])
def test_determinants_of_what_is_not_finite_have_derivatives_that_are_not(diagonal):
    a = np.diag(diagonal)  # LAPACK's singular value decomposition of some of these never ends
    with np.errstate(all="ignore"):
        for transform in (fg.grad, lambda f: fg.jit(fg.grad(f)), fg.hessian):
            assert np.isnan(transform(np.linalg.det)(a)).any()


@pytest.mark.parametrize(
    ("f", "a"),
    [
        (lambda a: np.linalg.slogdet(a)[1], np.ones((2, 2))),
        (lambda a: np.sum(np.linalg.qr(a)[1]), np.zeros((1, 1))),
    ],
    ids=["slogdet", "qr"],
)
def test_a_derivative_that_does_not_exist_is_no_number_and_explained(f, a):
    with pytest.warns(RuntimeWarning, match=r"divide|invalid"):
        found = fg.grad(f)(a)
    assert not np.isfinite(found).any()
    with np.errstate(all="ignore"):
        assert not np.isfinite(fg.jit(fg.grad(f))(a)).any()
        finding = fg.why(f)(a)["a"]
    assert finding.cause == "backward" and finding.source.line == f.__code__.co_firstlineno


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_lie_apart_are_found_as_those_of_stacks(dtype):
    eps = np.finfo(dtype).eps
    for w in ([1.0, 2.0], [2.0, 1.0, -3.0], [1.0, 1.0 + eps], [0.0, 0.0, 5.0], [1.0, np.nan],
              [1.0, np.inf], [1.0, 1.0 + 7 * eps], [1.0, 1.0 + 9 * eps], [3.0], []):  # fmt: skip
        w = np.array(w, dtype)
        with np.errstate(invalid="ignore"):
            for f in (shares, lambda w: coincide(w, opposite=False)):
                found, expected = f(w), f(w[None])[0]
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
