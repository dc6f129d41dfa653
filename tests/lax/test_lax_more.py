"""fungrad.lax: convolutions in other forms, reductions, elementwise functions, shapes and linalg,
against their definitions.
"""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from surface import agrees, values

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, ShapeError

V, M, T = values((6,)), values((4, 5)), values((2, 3, 4))
INT = np.array([-7, 7, -1, 0, 5, 6, 100])
OTHER = np.array([2, -2, 3, 4, -5, 7, 3])


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- convolutions ---------------------------------------------------------------------------------


def test_batch_groups():
    x, w = values((4, 2, 5)), values((6, 2, 3), seed=1)

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1,), "SAME", batch_group_count=2)

    parts = [lax.conv(x[2 * i : 2 * i + 2], w[3 * i : 3 * i + 3], (1,), "SAME") for i in range(2)]
    np.testing.assert_allclose(f(x, w), np.concatenate(parts, 1), rtol=1e-12)
    agrees(f, x, w)
    with pytest.raises(ShapeError, match="groups of a batch of 3"):
        f(x[:3], w)


def test_spatial_axes_are_counted_as_the_kernel_names_them():
    x, w = values((1, 2, 6, 5)), values((3, 2, 3, 2), seed=1)
    expected = lax.conv_general_dilated(x, w, (2, 1), [(1, 0), (0, 2)])
    found = lax.conv_general_dilated(
        x.transpose(0, 3, 2, 1), w.transpose(2, 3, 1, 0), (2, 1), [(1, 0), (0, 2)],
        dimension_numbers=("NWHC", "HWIO", "NCHW"),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    numbers = lax.conv_dimension_numbers((1, 5, 6, 2), (3, 2, 2, 3), ("NWHC", "HWIO", "NCHW"))
    assert numbers == ((0, 3, 2, 1), (3, 2, 0, 1), (0, 1, 2, 3))
    assert lax.conv_dimension_numbers((1, 5, 6, 2), (3, 2, 2, 3), numbers) is numbers


def spread(x, w, stride, dilation):
    """Each element of x puts down the kernel, times itself: (n, c), (k, c, o) -> (length, o)."""
    n, k = x.shape[0], w.shape[0]
    out = np.zeros(((n - 1) * stride + (k - 1) * dilation + 1, w.shape[2]))
    for i, j in itertools.product(range(n), range(k)):
        out[i * stride + j * dilation] += x[i] @ w[j]
    return out


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 2), (4, 1)])
def test_conv_transpose(stride, dilation):
    x, w = values((1, 5, 2)), values((3, 2, 4), seed=1)
    whole = spread(x[0], w[::-1], stride, dilation)
    reach = (w.shape[0] - 1) * dilation

    def f(x, w, padding, **options):
        return lax.conv_transpose(x, w, (stride,), padding, rhs_dilation=(dilation,), **options)

    np.testing.assert_allclose(f(x, w, [(reach, reach)])[0], whole, rtol=1e-12)
    valid = f(x, w, "VALID")[0]
    np.testing.assert_allclose(valid[: len(whole)], whole, rtol=1e-12)
    assert len(valid) == 5 * stride + max(reach + 1 - stride, 0) and not valid[len(whole) :].any()
    same = f(x, w, "SAME")[0]
    assert same.shape == (5 * stride, 4)
    before = max(math.floor((reach + 1 - stride) / 2), 0)
    inner = whole[before : before + 5 * stride]
    np.testing.assert_allclose(same[: len(inner)], inner, rtol=1e-12)
    agrees(lambda x, w: f(x, w, "SAME"), x, w)
    agrees(lambda x, w: f(x, w, [(1, 0)]), x, w, order=1, batch=False)


def test_conv_transpose_is_the_transpose_of_a_convolution():
    x, w = values((2, 7, 3)), values((3, 3, 4), seed=1)

    def forward(x):
        return lax.conv_general_dilated(
            x, w, (2,), [(1, 2)], dimension_numbers=("NHC", "HIO", "NHC")
        )

    y, pull = fg.vjp(forward, x)
    cotangent = values(y.shape, seed=2)
    found = lax.conv_transpose(
        cotangent, w, (2,), [(1, 2)], transpose_kernel=True, use_consistent_padding=True
    )
    (expected,) = pull(cotangent)
    np.testing.assert_allclose(found, expected[:, : found.shape[1]], rtol=1e-12, atol=1e-14)
    with pytest.raises(ArgumentError, match="'SAME_LOWER' of conv_transpose"):
        lax.conv_transpose(x, w, (2,), "SAME_LOWER")
    with pytest.raises(ArgumentError, match="give dimension_numbers"):
        lax.conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME")


def test_patches_are_what_a_convolution_contracts():
    x, w = values((2, 3, 6, 5)), values((4, 3, 2, 3), seed=1)
    options = ((2, 1), [(1, 0), (0, 1)], (1, 2), (2, 1))

    def f(x):
        return lax.conv_general_dilated_patches(x, (2, 3), *options)

    expected = lax.conv_general_dilated(x, w, *options)
    found = np.einsum("ok,nkhw->nohw", w.reshape(4, -1), f(x))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    agrees(f, x)
    last = lax.conv_general_dilated_patches(
        np.moveaxis(x, 1, -1), (2, 3), *options, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1), f(x))


# --- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_reduce_of_any_associative_function(count):
    matrices = values((count, 2, 2, 3), seed=count)

    def product(a, b):
        (p, q, r, s), (t, u, v, w) = a, b
        return (p * t + q * v, p * u + q * w, r * t + s * v, r * u + s * w)

    def f(x):
        parts = tuple(x[:, i, j] for i, j in np.ndindex(2, 2))
        return lax.reduce(parts, (1.0, 0.0, 0.0, 1.0), product, (0,))

    found = np.stack(f(matrices), -1).reshape(3, 2, 2)
    for k in range(3):
        expected = np.eye(2)
        for i in range(count):
            expected = expected @ matrices[i, :, :, k]
        np.testing.assert_allclose(found[k], expected, rtol=1e-12, atol=1e-14)
    agrees(f, matrices, order=2 if count else 0, batch=bool(count))


def test_reduce_by_name():
    for axes in ((0,), (0, 2), (-1,)):
        agrees(lambda x, axes=axes: lax.reduce_sum(x, axes), T)
        agrees(lambda x, axes=axes: lax.reduce_prod(x, axes), T)
        agrees(lambda x, axes=axes: lax.reduce_max(x, axes), T)
        agrees(lambda x, axes=axes: lax.reduce_min(x, axes), T)
        agrees(lambda x, axes=axes: lax.reduce(x, 0.5, lax.add, axes), T)
        agrees(lambda x, axes=axes: lax.reduce(x, -9.0, np.logaddexp, axes), T)
    np.testing.assert_allclose(lax.reduce(T, 2.0, lax.mul, (0, 1)), 2 * T.prod((0, 1)))
    assert lax.reduce(np.zeros((0, 2)), 5.0, lax.add, (0,)).tolist() == [5.0, 5.0]
    assert lax.reduce_sum(np.ones(3, np.int8), (0,)).dtype == np.int8
    bits = np.array([[12, 10, 7], [9, 8, 3]])
    for name, ufunc in (
        ("reduce_and", np.bitwise_and),
        ("reduce_or", np.bitwise_or),
        ("reduce_xor", np.bitwise_xor),
    ):
        f = getattr(lax, name)
        for x in (bits, bits > 8, bits.astype(np.uint8)):
            for g in (f, fg.jit(f, static_argnums=1)):
                found = g(x, (1,))
                np.testing.assert_array_equal(found, ufunc.reduce(x, 1))
                assert found.dtype == x.dtype
    with pytest.raises(ArgumentError, match="integers are needed"):
        lax.reduce_and(V, (0,))
    with pytest.raises(ShapeError, match="of shapes"):
        lax.reduce((V, M), (0.0, 0.0), lambda a, b: a, (0,))
    with pytest.raises(ArgumentError, match="have to be numbers"):
        lax.reduce(V, V, lax.add, (0,))


def test_places_and_products():
    assert lax.argmax(M, 1, np.int32).tolist() == M.argmax(1).tolist()
    assert lax.argmin(M, 0, np.int8).dtype == np.int8
    assert fg.jit(lambda x: lax.argmin(x, 0))(M).tolist() == M.argmin(0).tolist()
    agrees(lambda x, y: lax.dot(x, y), M, values((5,)))
    agrees(lambda x, y: lax.dot(x, y), V, V[::-1].copy())
    agrees(lambda x, y: lax.dot(x, y, dimension_numbers=(((0,), (0,)), ((), ()))), M, M + 1)
    agrees(lambda x, y: lax.batch_matmul(x, y), T, values((2, 4, 5)))
    with pytest.raises(ShapeError, match="vectors and matrices"):
        lax.dot(T, T)
    with pytest.raises(ShapeError, match="have to be the same"):
        lax.batch_matmul(T, T[0].T)


# --- elementwise ----------------------------------------------------------------------------------


def test_division_of_integers_is_c_s():
    found = lax.div(INT, OTHER)
    assert found.tolist() == [math.trunc(a / b) for a, b in zip(INT, OTHER, strict=True)]
    np.testing.assert_array_equal(lax.rem(INT, OTHER), INT - found * OTHER)
    np.testing.assert_array_equal(fg.jit(lax.div)(INT, OTHER), found)
    unsigned = INT.astype(np.uint8)
    np.testing.assert_array_equal(lax.div(unsigned, np.uint8(7)), unsigned // 7)
    agrees(lax.div, V, V + 3.0)


def test_rounding():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, -0.2, 2.0**52 + 1])
    away = [-3.0, -1.0, 1.0, 2.0, 3.0, 0.0, 0.0, 2.0**52 + 1]
    assert lax.round(x).tolist() == away
    np.testing.assert_array_equal(lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.rint(x))
    agrees(lax.round, V)
    with pytest.raises(ArgumentError, match="not a RoundingMethod"):
        lax.round(x, 1)


def test_numbers():
    agrees(lambda x: lax.integer_pow(x, 3), V)
    agrees(lambda x: lax.integer_pow(x, -2), V)
    agrees(lax.logistic, V * 10)
    agrees(lax.logistic, values((3,), np.complex128))
    far = np.array([-800.0, -40.0, 0.0, 40.0, 800.0])
    slopes = [0.0, math.exp(-40), 0.25, math.exp(-40), 0.0]
    np.testing.assert_allclose(fg.vmap(fg.grad(lax.logistic))(far), slopes, rtol=1e-12)
    assert lax.logistic(np.float32(1)).dtype == np.float32
    agrees(lax.complex, V, V[::-1].copy())
    special = np.array([1.0, np.inf, -np.inf, np.nan, -0.0])
    found = lax.complex(np.zeros(5), special)
    np.testing.assert_array_equal(found.imag, special)
    assert not found.real.any()
    assert lax.complex(np.float32(1), np.float32(2)).dtype == np.complex64


def test_bits():
    for dtype in (np.int8, np.uint16, np.int32, np.uint64, np.int64):
        x = np.array([0, 1, 2, 100, 127, *([-1, -128] if np.dtype(dtype).kind == "i" else [])])
        x = x.astype(dtype)
        width = 8 * x.itemsize
        texts = [np.binary_repr(int(v), width) for v in x]
        for f in (lambda f: f, fg.jit):
            leading = f(lax.clz)(x)
            assert leading.tolist() == [len(t) - len(t.lstrip("0")) for t in texts]
            counted = f(lax.population_count)(x)
            assert counted.tolist() == [t.count("1") for t in texts]
            assert leading.dtype == counted.dtype == dtype
            shifted = f(lax.shift_right_logical)(x, np.full(x.shape, 3, dtype))
            assert [np.binary_repr(int(v), width) for v in shifted] == [
                f"000{t[:-3]}" for t in texts
            ]
    with pytest.raises(ArgumentError, match="integers are needed"):
        lax.clz(V)


def test_special_functions_come_from_scipy():
    special = fg.scipy.special
    assert lax.erf is special.erf and lax.lgamma is special.gammaln
    assert lax.erf_inv is special.erfinv and lax.igammac is special.gammaincc
    assert {"erf", "linalg", "custom_root"} <= set(dir(lax))
    assert lax.custom_root is fg.custom_root
    agrees(lax.digamma, np.abs(V) + 0.5)


# --- shapes ---------------------------------------------------------------------------------------


def test_shapes():
    agrees(lambda x: lax.reshape(x, (4, 6), (2, 0, 1)), T)
    np.testing.assert_array_equal(lax.reshape(M, (20,), (1, 0)), M.ravel("F"))
    agrees(lambda x: lax.squeeze(x[None], (0,)), T)
    agrees(lambda x: lax.transpose(x, (2, 0, 1)), T)
    agrees(lambda x: lax.collapse(x, 1), T)
    assert lax.collapse(T, -3, -1).shape == (6, 4) and lax.collapse(T, 1, 1).shape == (2, 1, 3, 4)
    agrees(lambda x: lax.broadcast(x, (2, 3)), V)
    agrees(lambda x: lax.broadcast_to_rank(x, 3), V)
    agrees(lambda x: lax.broadcast_like(x, np.ones((2, 6))), V)
    agrees(lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), M)
    agrees(lambda x: lax.slice_in_dim(x, -4, None, 2, axis=1), M)
    agrees(lambda x: lax.index_in_dim(x, -2, 1, keepdims=False), M)
    assert lax.index_in_dim(M, 1, 1).shape == (4, 1)
    agrees(lambda x: lax.split(x, (1, 0, 4), 1), M)
    agrees(lambda x, y: lax.stack([x, y], 1), V, V + 1)
    agrees(lambda x: lax.unstack(x, -1), M)
    agrees(lambda x: lax.tile(x, (2, 3)), M)
    agrees(lambda x: lax.full((2, 3), x[0]), V)
    agrees(lambda x: lax.full_like(M, x[1]), V)
    agrees(lambda x: lax.convert_element_type(x, np.float32), V, order=0)
    agrees(lambda x: lax.sort_key_val(np.array([2, 0, 1, 0, 5, 1]), x)[1], V)
    assert lax.empty((2,), np.int8).dtype == np.int8 and lax.dtype(1) == np.int64
    for f, text in (
        (lambda: lax.slice(M, (0,), (1,)), "one start, limit and stride"),
        (lambda: lax.slice(V, (0,), (7,)), "of an axis of length 6"),
        (lambda: lax.split(V, (2, 2)), "into"),
        (lambda: lax.collapse(T, 2, 1), "lax.collapse"),
        (lambda: lax.broadcast_to_rank(T, 2), "to 2 axes"),
    ):
        with pytest.raises((ArgumentError, ShapeError), match=text):
            f()


# --- linalg ---------------------------------------------------------------------------------------

A = values((3, 3)) + 3 * np.eye(3)
S = A @ A.T


def test_factorizations():
    agrees(lambda x: lax.linalg.cholesky(x), S)
    agrees(lambda x: lax.linalg.cholesky(np.tril(x), symmetrize_input=False), S, batch=False)
    v, w = lax.linalg.eigh(S)
    np.testing.assert_allclose(v * w @ v.T, S, rtol=1e-12, atol=1e-12)
    agrees(lambda x: lax.linalg.eigh(x)[1], S)
    u, s, vh = lax.linalg.svd(A)
    np.testing.assert_allclose(u * s @ vh, A, rtol=1e-12, atol=1e-12)
    agrees(lambda x: lax.linalg.svd(x, compute_uv=False), A)
    q, r = lax.linalg.qr(A[:, :2])
    assert q.shape == (3, 3) and r.shape == (3, 2)
    agrees(lambda x: lax.linalg.qr(x, full_matrices=False), A[:, :2])
    w, left, right = lax.linalg.eig(A)
    np.testing.assert_allclose(A @ right, right * w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(left.conj().T @ A, w[:, None] * left.conj().T, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1.0)
    with pytest.raises(ArgumentError, match=r"qr\(pivoting=True\)"):
        lax.linalg.qr(A, pivoting=True)


@pytest.mark.parametrize("options", [*itertools.product([False, True], repeat=4)])
def test_triangular_solve(options):
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    given = dict(zip(names, options, strict=True))
    b = values((3, 2) if given["left_side"] else (2, 3), seed=1)

    def f(a, b):
        return lax.linalg.triangular_solve(a, b, **given)

    matrix = np.tril(A) if given["lower"] else np.triu(A)
    if given["unit_diagonal"]:
        np.fill_diagonal(matrix, 1.0)
    matrix = matrix.T if given["transpose_a"] else matrix
    x = f(A, b)
    np.testing.assert_allclose(matrix @ x if given["left_side"] else x @ matrix, b, atol=1e-12)
    agrees(f, A, b)
    other = fg.grad(lambda a: np.sum(f(a, b)))(A)
    unread = np.triu(other, 1) if given["lower"] else np.tril(other, -1)
    assert not unread.any()


def test_triangular_solve_of_complex_numbers():
    a, b = A + 1j * values((3, 3), seed=2), values((3, 1), seed=3)
    x = lax.linalg.triangular_solve(
        a, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    np.testing.assert_allclose(np.tril(a).conj().T @ x, b, atol=1e-12)


def test_products_and_updates():
    agrees(lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), A[:, :2], S)
    upper = np.linalg.cholesky(S).T.copy()
    w = values((3,), seed=4)
    found = lax.linalg.cholesky_update(upper, w)
    np.testing.assert_allclose(found.T @ found, S + np.outer(w, w), rtol=1e-12)
    assert (np.diagonal(found) > 0).all()
    agrees(lax.linalg.cholesky_update, upper, w, batch=False)
