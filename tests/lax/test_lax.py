"""fungrad.lax: slices at traced places, order, padding, windows and convolutions, against brute
force.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.signal
from surface import agrees, values

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, ShapeError
from fungrad.lax import convolution
from fungrad.testing import check_grads

V, M, T = values((6,)), values((4, 5)), values((2, 3, 4))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [-9, -2, 0, 1, 3, 9])
def test_a_start_counts_from_the_end_and_is_moved_into_the_array(start):
    place = min(max(start + 6 if start < 0 else start, 0), 3)
    expected = V[place : place + 3]
    np.testing.assert_array_equal(lax.dynamic_slice(V, (start,), (3,)), expected)
    np.testing.assert_array_equal(
        fg.jit(lambda x, i: lax.dynamic_slice(x, (i,), (3,)))(V, start), expected
    )
    written = V.copy()
    written[place : place + 3] = -1.0
    for f in (lax.dynamic_update_slice, fg.jit(lax.dynamic_update_slice)):
        np.testing.assert_array_equal(f(V, -np.ones(3), (start,)), written)


def test_dynamic_slices():
    i, j = np.array(1), np.array(2)
    agrees(lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), M, i, j)
    agrees(lambda x: lax.dynamic_slice(x, (0, 1), (4, 2)), M)
    agrees(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, axis=-1), M, i)
    agrees(lambda x, i: lax.dynamic_index_in_dim(x, i, 1, keepdims=False), M, i)
    agrees(lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), M, values((2, 2)), i)
    agrees(lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1), M, values((4, 2)), i)
    agrees(lambda x, u, i: lax.dynamic_update_index_in_dim(x, u, i, 1), M, values((4,)), i)
    f = fg.vmap(lambda i: lax.dynamic_slice_in_dim(V, i, 2))
    np.testing.assert_array_equal(f(np.array([0, 9])), np.stack([V[:2], V[-2:]]))
    starts = np.array([1, 2])
    for g in (lax.dynamic_slice, fg.jit(lax.dynamic_slice, static_argnums=2)):
        np.testing.assert_array_equal(g(M, starts, (2, 3)), M[1:3, 2:5])
    full = lax.dynamic_update_slice(V.astype(np.float32), np.ones(6), (0,))
    assert full.dtype == np.float32
    with pytest.raises(ShapeError, match="slice of 7"):
        lax.dynamic_slice(V, (0,), (7,))
    with pytest.raises(ArgumentError, match="one integer"):
        lax.dynamic_slice(V, (0.5,), (2,))
    with pytest.raises(ArgumentError, match="2 starts"):
        lax.dynamic_slice(V, (0, 0), (2,))


# --- shapes, choices, order -----------------------------------------------------------------------


def test_shapes():
    agrees(lambda x: lax.expand_dims(x, [0, 2]), V)
    agrees(lambda x: lax.broadcast_in_dim(x, (2, 6, 3), [1]), V)
    agrees(lambda x: lax.rev(x, [0, 1]), M)
    agrees(lambda x, y: lax.concatenate([x, y], 1), M, values((4, 2)))
    np.testing.assert_array_equal(lax.broadcast_in_dim(V, (6, 2), [0]), np.stack([V, V], 1))
    assert lax.iota(np.int32, 3).dtype == np.int32
    np.testing.assert_array_equal(lax.broadcasted_iota(int, (2, 3), 1), [[0, 1, 2]] * 2)
    with pytest.raises(ArgumentError, match="broadcast_dimensions"):
        lax.broadcast_in_dim(M, (5, 4), [1, 0])


def test_pad():
    config = [(1, 0, 2), (-1, 2, 1)]
    padded = np.full((11, 10), 7.0)
    padded[1::3, ::2][:, :5] = M
    expected = padded[:, 1:]
    expected = np.concatenate([expected[:, :8], np.full((11, 2), 7.0)], 1)
    np.testing.assert_array_equal(lax.pad(M, 7.0, config), expected)
    agrees(lambda x, v: lax.pad(x, v, config), M, np.array(7.0))
    agrees(lambda x: lax.pad(x, 0, config), M)
    np.testing.assert_array_equal(lax.pad(V, 0.0, [(-2, -3, 0)]), V[2:3])
    assert lax.pad(np.zeros(0), 1.0, [(1, 1, 3)]).tolist() == [1.0, 1.0]
    with pytest.raises(ShapeError, match="Padding"):
        lax.pad(V, 0.0, [(-4, -4, 0)])


def test_dot_general():
    numbers = (([2], [1]), ([0], [0]))
    agrees(lambda x, y: lax.dot_general(x, y, numbers), T, values((2, 4, 3), seed=1))
    expected = np.einsum("bij,bjk->bik", T, values((2, 4, 3)))
    np.testing.assert_allclose(lax.dot_general(T, values((2, 4, 3)), numbers), expected)
    wide = lax.dot_general(V, V, (([0], [0]), ([], [])), preferred_element_type=np.float32)
    assert wide.dtype == np.float32


def test_choices_and_bounds():
    which = np.array([0, 2, 1])
    cases = [values((3,), seed=i) for i in range(3)]
    agrees(lambda *xs: lax.select_n(which, *xs), *cases)
    found = lax.select_n(which, *cases)
    np.testing.assert_array_equal(found, np.choose(which, cases))
    np.testing.assert_array_equal(lax.select_n(np.array(True), V, M[0, 0] + V), M[0, 0] + V)
    agrees(lambda x: lax.clamp(-1.0, x, 0.7), V)
    agrees(lax.rsqrt, np.abs(V))
    assert lax.rsqrt(np.float32(4)).dtype == np.float32
    with pytest.raises(ShapeError, match="one shape"):
        lax.select_n(which, V, cases[0])


def test_order():
    agrees(lambda x: lax.top_k(x, 2)[0], M)
    ties = np.array([1.0, 3.0, 2.0, 3.0, 0.0])
    found, places = lax.top_k(ties, 3)
    assert found.tolist() == [3.0, 3.0, 2.0] and places.tolist() == [1, 3, 2]
    slopes = fg.grad(lambda x: lax.top_k(x, 1)[0][0])(ties)
    assert slopes.tolist() == [0.0, 0.5, 0.0, 0.5, 0.0]
    found, places = fg.vmap(lambda x: lax.top_k(x, 2))(M)
    np.testing.assert_array_equal(np.take_along_axis(M, places, 1), found)
    keys = np.array([2, 0, 1, 0, 5, 1])
    agrees(lambda x: lax.sort((keys, x))[1], V)
    assert lax.sort((keys, np.arange(6)))[1].tolist() == [1, 3, 2, 5, 0, 4]
    assert lax.sort((keys, -np.arange(6)), num_keys=2)[1].tolist() == [-3, -1, -5, -2, 0, -4]
    agrees(lambda x: lax.sort(x, 0), M)


# --- windows --------------------------------------------------------------------------------------


def brute_windows(x, init, f, size, stride, padding, base=(1, 1), dilation=(1, 1)):
    x = lax.pad(x, init, [(a, b, d - 1) for (a, b), d in zip(padding, base, strict=True)])
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape, size, stride, dilation, strict=True)
    ]
    out = np.zeros(counts)
    for place in np.ndindex(*counts):
        slices = tuple(
            slice(i * s, i * s + (k - 1) * d + 1, d)
            for i, s, k, d in zip(place, stride, size, dilation, strict=True)
        )
        out[place] = f(x[slices])
    return out


@pytest.mark.parametrize("base", [(1, 1), (2, 1)])
@pytest.mark.parametrize("dilation", [(1, 1), (1, 2)])
def test_reduce_window(base, dilation):
    for init, ufunc, f in (
        (-np.inf, lax.max, np.max),
        (np.inf, lax.min, np.min),
        (0.0, lax.add, np.sum),
        (1.0, lax.mul, np.prod),
    ):
        args = ((2, 3), (2, 1), [(1, 0), (0, 2)], base, dilation)
        if dilation[1] == 2 and not np.isfinite(init):
            args = ((2, 2), *args[1:])

        def g(x, ufunc=ufunc, init=init, args=args):
            return lax.reduce_window(x, init, ufunc, *args)

        np.testing.assert_allclose(g(M), brute_windows(M, init, f, *args), rtol=1e-13)
        if ufunc is not lax.mul:
            agrees(g, M)


def test_reductions_of_other_functions_and_initial_values():
    def f(x):
        return lax.reduce_window(x, 0.0, np.logaddexp, (3,), (1,), "SAME")

    padded = np.concatenate([[0.0], V, [0.0]])
    expected = [np.log(1 + np.exp(padded[i : i + 3]).sum()) for i in range(6)]
    np.testing.assert_allclose(f(V), expected)
    agrees(f, V)
    np.testing.assert_array_equal(
        lax.reduce_window(V, 0.5, lax.max, (2,)), np.maximum(np.maximum(V[1:], V[:-1]), 0.5)
    )
    whole = lax.reduce_window(np.arange(6), 0, lax.add, (2,), (2,))
    assert whole.tolist() == [1, 5, 9] and whole.dtype == np.int64


def test_windows_of_several_arrays_are_reduced_together():
    places = np.arange(20).reshape(4, 5)

    def larger(a, b):
        keep = a[0] >= b[0]
        return np.where(keep, a[0], b[0]), np.where(keep, a[1], b[1])

    def f(x):
        return lax.reduce_window((x, places), (-np.inf, -1), larger, (2, 3), (1, 2))

    found, where = f(M)
    np.testing.assert_array_equal(found, lax.reduce_window(M, -np.inf, lax.max, (2, 3), (1, 2)))
    np.testing.assert_array_equal(M.ravel()[where], found)
    agrees(lambda x: f(x)[0], M)


# --- convolution ----------------------------------------------------------------------------------


def test_convolution_against_scipy():
    x, w = values((2, 3, 6, 5)), values((4, 3, 3, 2), seed=1)
    expected = np.array(
        [
            [
                sum(scipy.signal.correlate2d(a[c], k[c], "valid") for c in range(3))
                for k in w
            ]
            for a in x
        ]
    )  # fmt: skip
    for f in (lax.conv, fg.jit(lax.conv, static_argnums=(2, 3))):
        np.testing.assert_allclose(f(x, w, (1, 1), "VALID"), expected, rtol=1e-12)
    strided = lax.conv_general_dilated(x, w, (2, 3), "VALID")
    np.testing.assert_allclose(strided, expected[:, :, ::2, ::3], rtol=1e-12)


def brute_conv(x, w, strides, padding, base, dilation, groups):
    """The defining sum, element by element."""
    pairs = [(0, 0, 0)] * 2 + [(a, b, d - 1) for (a, b), d in zip(padding, base, strict=True)]
    x = lax.pad(x, 0.0, pairs)
    outs, inputs, *kernel = w.shape
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation, strict=True)
    ]
    y = np.zeros((x.shape[0], outs, *counts))
    for n, o, *place in itertools.product(*map(range, y.shape)):
        for c, *k in itertools.product(*map(range, (inputs, *kernel))):
            at = [p * s + q * d for p, s, q, d in zip(place, strides, k, dilation, strict=True)]
            channel = o // (outs // groups) * inputs + c
            y[(n, o, *place)] += x[(n, channel, *at)] * w[(o, c, *k)]
    return y


CASES = [
    ((2, 2, 7), (3, 2, 3), (2,), [(1, 2)], (1,), (2,), 1),
    ((1, 4, 5), (6, 2, 2), (1,), [(0, 0)], (1,), (1,), 2),
    ((2, 3, 4), (3, 1, 2), (1,), [(1, 0)], (2,), (1,), 3),
    ((1, 2, 4, 5), (2, 2, 2, 3), (2, 1), [(1, 0), (2, 1)], (1, 2), (2, 1), 1),
    ((1, 2, 4, 4), (2, 1, 2, 2), (1, 1), [(-1, 0), (0, -1)], (1, 1), (1, 1), 2),
    ((1, 1, 3, 3, 3), (2, 1, 2, 2, 1), (1, 1, 1), [(0, 0)] * 3, (1,) * 3, (1,) * 3, 1),
    ((2, 3), (4, 3), (), [], (), (), 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}")
def test_convolution_against_its_definition(case):
    (shape, kernel, strides, padding, base, dilation, groups) = case
    x, w = values(shape), values(kernel, seed=1)

    def f(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, base, dilation, feature_group_count=groups
        )

    expected = brute_conv(x, w, strides, padding, base, dilation, groups)
    np.testing.assert_allclose(f(x, w), expected, rtol=1e-12, atol=1e-14)
    agrees(f, x, w)
    np.testing.assert_allclose(fg.jit(f)(x, w), expected, rtol=1e-12, atol=1e-14)
    slope = fg.jit(fg.grad(lambda w: np.sum(f(x, w) ** 2)))(w)
    np.testing.assert_allclose(slope, fg.grad(lambda w: np.sum(f(x, w) ** 2))(w), rtol=1e-12)


def test_products_of_convolutions_keep_rows_of_images_together(monkeypatch):
    """Where windows are copied for a product, rows of images are rows of the copy, also of the
    cotangents of windows: nine numbers of a window would be a copy each."""
    x, w, found = values((2, 3, 8, 9)), values((4, 3, 3, 3), seed=1), []
    gradient = fg.grad(lambda x: np.sum(lax.conv(x, w, (1, 1), "SAME") ** 2))
    one, several = [(4, 144), (27, 144)], [(4, 2, 8, 9), (3, 3, 3, 2, 8, 9)]
    for most, shapes in ((27 * 144, one), (27 * 144 - 1, several)):
        monkeypatch.setattr(convolution, "COPIED", most)
        equations = fg.make_jaxpr(gradient)(x).equations
        products = [e for e in equations if e.primitive.name == "dot_general"]
        assert [e.outputs[0].type.shape for e in products] == shapes
        found.append(gradient(x))
    np.testing.assert_allclose(*found, 1e-12)


def test_convolution_is_batched_over_each_argument():
    x, w = values((3, 1, 2, 5)), values((3, 2, 2, 3), seed=1)

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1,), "SAME")

    for axes in ((0, 0), (0, None), (None, 0)):
        found = fg.vmap(f, in_axes=axes)(x if axes[0] == 0 else x[0], w if axes[1] == 0 else w[0])
        pick = [(x[i if axes[0] == 0 else 0], w[i if axes[1] == 0 else 0]) for i in range(3)]
        np.testing.assert_allclose(found, [f(a, b) for a, b in pick], rtol=1e-12)


def test_layouts_and_padding_by_name():
    x, w = values((2, 3, 6, 5)), values((4, 3, 3, 2), seed=1)
    for padding in ("SAME", "VALID", "SAME_LOWER", "same"):
        expected = lax.conv_general_dilated(x, w, (2, 2), padding)
        if padding.upper() != "VALID":
            assert expected.shape == (2, 4, 3, 3)
        found = lax.conv_general_dilated(
            x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), (2, 2), padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        np.testing.assert_allclose(found.transpose(0, 3, 1, 2), expected, rtol=1e-12)
    assert lax.padtype_to_pads((5, 6), (4, 3), (1, 2), "SAME_LOWER") == [(2, 1), (1, 0)]


def test_dtypes_of_convolutions():
    x, w = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
    f = lambda x, w: lax.conv(x, w, (1,), "VALID")  # noqa: E731
    assert f(x, w).dtype == np.float32 and f(x, w.astype(float)).dtype == np.float64
    assert fg.grad(lambda w: np.sum(f(x, w)))(w).dtype == np.float32
    check_grads(f, [x, w], order=1)
    whole = f(np.ones((1, 1, 4), int), np.ones((1, 1, 2), int))
    assert whole.dtype == np.int64
    agrees(f, values((1, 1, 4), np.complex128), values((1, 1, 2), np.complex128))


def test_convolutions_that_do_not_fit():
    x, w = np.ones((1, 4, 5)), np.ones((2, 4, 3))
    f = lax.conv_general_dilated
    with pytest.raises(ShapeError, match="4 channels"):
        f(x, np.ones((2, 3, 3)), (1,), "VALID")
    with pytest.raises(ShapeError, match="both need two axes"):
        f(x, np.ones((2, 4, 3, 3)), (1,), "VALID")
    with pytest.raises(ArgumentError, match="is not 'SAME'"):
        f(x, w, (1,), "FULL")
    with pytest.raises(ArgumentError, match="window_strides"):
        f(x, w, (1, 1), "VALID")
    with pytest.raises(ArgumentError, match="1 pairs"):
        f(x, w, (1,), [(0, 0), (0, 0)])
    with pytest.raises(ArgumentError, match="does not hold"):
        f(x, w, (1,), "VALID", dimension_numbers=("NCW", "OIX", "NCW"))
    assert f(x, np.ones((2, 4, 9)), (1,), "VALID").shape == (1, 2, 0)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_batch_of_map_holds_one_slice_at_least(size):
    with pytest.raises(fg.errors.ArgumentError, match=rf"batch_size={size}.*test_lax"):
        lax.map(lambda x: x, np.ones(3), batch_size=size)
