"""fungrad.scipy.ndimage: numbers and dtypes are SciPy's in every mode; derivatives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.ndimage

import fungrad as fg
from fungrad.errors import AbstractValueError, UnsupportedArgumentError
from fungrad.scipy import ndimage
from fungrad.testing import check_grads

MODES = (
    "reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap",
)  # fmt: skip
DTYPES = ("float64", "float32", "int32", "uint8", "complex128")


def draw(shape, dtype="float64", seed=0):
    random = np.random.default_rng((seed, *np.atleast_1d(shape)))
    x = random.normal(size=shape) * 20
    if np.dtype(dtype).kind == "c":
        return x + 1j * random.normal(size=shape)
    return (np.abs(x) if dtype == "uint8" else x).astype(dtype)


def compare(name, x, *args, slack=0, **options):
    """SciPy's function against ours, on arrays and staged; slack is for ties in rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(scipy.ndimage, name)(x, *args, **options)
    ours = getattr(ndimage, name)
    for found in (ours(x, *args, **options), fg.jit(lambda v: ours(v, *args, **options))(x)):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        if expected.dtype.kind in "iu":
            difference = np.abs(found.astype(int) - expected.astype(int))
            assert np.mean(difference != 0) <= slack, (name, options)
            assert difference.max(initial=0) <= 1
            continue
        tolerance = 1e-5 if expected.dtype.char in "fF" else 1e-8
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# --- filters --------------------------------------------------------------------------------------


FILTERED = [(m, d) for i, d in enumerate(DTYPES) for m in (MODES[i::4] if i else MODES)]


@pytest.mark.parametrize(("mode", "dtype"), FILTERED)
def test_filters(mode, dtype):
    options = {"mode": mode, "cval": 1.5}
    x1, x2, x3 = draw(6, dtype), draw((5, 7), dtype), draw((3, 4, 5), dtype)
    for weights in ([1.0, 2.0, 3.0], [1.0, -2.0, 0.5, 1.0], [2.0], np.arange(9.0)):
        for origin in (0, 1) if len(weights) > 2 else (0,):
            if dtype != "uint8" or min(weights) >= 0:
                compare("correlate1d", x1, weights, origin=origin, **options)
                compare("convolve1d", x2, weights, axis=0, origin=origin, **options)
    positive = np.abs(draw((3, 2, 4), seed=1)) / 10
    for x in (x1, x2, x3):
        weights = positive[(slice(None),) * x.ndim + (0,) * (3 - x.ndim)]
        compare("correlate", x, weights, origin=-1, **options)
        compare("convolve", x, weights, **options)
        compare("gaussian_filter", x, 1.2, slack=0.05, **options)
        compare("uniform_filter", x, 3, slack=0.2, **options)
        if dtype.startswith("float"):
            compare("maximum_filter", x, 3, **options)
            compare("minimum_filter", x, 2, origin=-1, **options)
            compare("median_filter", x, 3, **options)
            compare("gaussian_gradient_magnitude", x, 0.9, **options)
        if dtype != "uint8":
            compare("sobel", x, 0, **options)
            compare("prewitt", x, **options)
            compare("laplace", x, **options)
            compare("gaussian_laplace", x, 0.9, slack=0.05, **options)
    if dtype == "float64":
        compare("gaussian_filter1d", x2, 1.3, axis=0, order=2, **options)
        compare("gaussian_filter1d", x2, 1.3, order=3, radius=2, **options)
        compare("gaussian_filter", x2, [0.5, 2.0], order=[1, 0], **options)
        compare("gaussian_filter", x3, 1.1, axes=(0, 2), **options)
        compare("correlate", x3, positive[0], axes=(2, 0), **options)
        compare("uniform_filter", x3, (2, 3), axes=(0, 1), **options)
        compare("maximum_filter", x3, (2, 3), axes=(0, 1), **options)


def test_other_dtypes_and_short_arrays():
    compare("correlate1d", draw(6, "int32"), [1.0, 2.0], output=np.float64)
    compare("gaussian_filter", draw((5, 7)), 1.0, output=np.float32)
    compare("correlate1d", np.ones(4), np.array([1j, 2.0]))
    compare("correlate", np.ones((4, 3)), np.ones((2, 2)) * 1j)
    assert ndimage.correlate1d(np.ones(0), [1.0, 2.0]).shape == (0,)
    for mode in ("mirror", "reflect", "wrap", "nearest"):
        compare("correlate1d", np.array([3.0]), np.arange(5.0), mode=mode)


def test_derivatives_of_filters():
    x, weights = draw((4, 5)), draw((2, 3), seed=1)
    for mode in ("reflect", "constant", "nearest", "mirror", "wrap"):
        check_grads(
            lambda x, w, c, m=mode: ndimage.convolve(x, w, mode=m, cval=c), [x, weights, 0.5],
            order=1,
        )  # fmt: skip
    check_grads(lambda x, w: ndimage.correlate(x, w), [x, weights])
    check_grads(lambda x, s: ndimage.gaussian_filter(x, s, radius=3), [x, 0.8])
    check_grads(lambda x, s: ndimage.gaussian_filter1d(x, s, order=2), [x, 0.8], order=1)
    edges = (ndimage.sobel, ndimage.laplace, lambda x: ndimage.uniform_filter(x, 3))
    for f in (*edges, lambda x: ndimage.gaussian_gradient_magnitude(x, 0.7)):
        check_grads(f, [x])
        np.testing.assert_allclose(fg.vmap(f)(np.stack([x, 2 * x]))[1], f(2 * x), atol=1e-10)
    for name in ("maximum_filter", "minimum_filter", "median_filter"):
        check_grads(lambda x, n=name: getattr(ndimage, n)(x, 3), [x], order=1)
    flat = fg.grad(lambda x: np.sum(ndimage.gaussian_gradient_magnitude(x, 0.7)))(np.ones((4, 4)))
    assert np.isfinite(flat).all()


# --- splines and geometry -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", range(6))
def test_geometry(mode, order):
    options = {"mode": mode, "order": order, "cval": 1.5}
    random = np.random.default_rng(order)
    turn = order + MODES.index(mode)  # zooms, matrices and angles take turns
    x1, x2 = draw(24), draw((22, 25))
    compare("map_coordinates", x1, random.uniform(-60, 80, (1, 90)), **options)
    compare("map_coordinates", x1, np.arange(-50.0, 70.0)[None], **options)
    compare("map_coordinates", x1, random.uniform(-60, 80, (1, 90)), prefilter=False, **options)
    compare("map_coordinates", x2, random.uniform(-30, 50, (2, 30, 2)), **options)
    compare("shift", x2, (1.1, -2.4), **options)
    compare("zoom", x2, (0.4, 2.2 - 0.2 * (turn % 2)), grid_mode=bool(turn % 2), **options)
    matrix, at, shape = (
        (np.array([[0.93, 0.31], [-0.22, 1.13]]), (1.0, -2.0), None),
        (np.array([[0.93, 0.31, 1.0], [-0.22, 1.13, 2.0]]), 0.0, (5, 6)),
        (np.array([0.71, 1.33]), 2.0, None),
    )[turn % 3]
    compare("affine_transform", x2, matrix, at, output_shape=shape, **options)
    compare("rotate", x2, (30.0, 90.0, -44.0, 180.0, 370.0)[turn % 5], **options)
    if order in (1, 3):
        x3 = draw((21, 20, 23))
        compare("map_coordinates", x3, random.uniform(-3, 25, (3, 20)), **options)
        compare("rotate", x3, 33.0, (2, 0), reshape=False, **options)
        for dtype in DTYPES[1:]:
            y, options["cval"] = draw((22, 25), dtype), 2.0  # SciPy pads integers by integers
            compare("map_coordinates", y, random.uniform(-9, 30, (2, 40)), slack=0.05, **options)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_spline_filters(mode, order):
    x = draw((3, 40))
    compare("spline_filter1d", x, order, mode=mode)
    compare("spline_filter", x[:2, :].T @ x[:2, :], order, mode=mode)
    # Splines go through the data, also on grids so short that SciPy's miss it.
    for count in (1, 2, 3, 7):
        line = draw(count)
        at = ndimage.map_coordinates(line, np.arange(float(count))[None], order=order, mode=mode)
        tolerance = 1e-4 if mode in ("nearest", "grid-constant") else 1e-10
        np.testing.assert_allclose(at, line, atol=tolerance * 20)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_of_geometry(mode):
    x = draw((4, 5)) / 20
    at = np.array([[0.3, 1.6, 2.2], [3.1, 0.7, 1.4]])
    for order in (1, 3):

        def f(x, at, cval, order=order):
            return ndimage.map_coordinates(x, at, order=order, mode=mode, cval=cval)

        check_grads(f, [x, at, 0.5], order=2 if order == 3 else 1)
        outside = at + np.array([[5.0], [-7.0]])
        check_grads(f, [x, outside, 0.5], order=1)
    rows = fg.vmap(lambda x, at: ndimage.map_coordinates(x, at, mode=mode))(
        np.stack([x, 2 * x]), np.stack([at, at + 0.1])
    )
    one = ndimage.map_coordinates(2 * x, at + 0.1, mode=mode)
    np.testing.assert_allclose(rows[1], one, rtol=1e-10)


@pytest.mark.slow
def test_derivatives_by_the_motion():
    x = draw((5, 6)) / 20
    check_grads(lambda x, s: ndimage.shift(x, s, mode="mirror"), [x, np.array([0.3, -0.6])])
    check_grads(lambda x: ndimage.zoom(x, 1.5), [x])
    check_grads(
        lambda x, m, o: ndimage.affine_transform(x, m, o, mode="mirror"),
        [x, np.array([[0.93, 0.21], [-0.12, 1.07]]), np.array([0.233, 0.171])],
    )
    check_grads(lambda x, a: ndimage.rotate(x, a, reshape=False, mode="reflect"), [x, 20.0])
    check_grads(lambda a: ndimage.rotate(x, a, mode="nearest"), [20.0], order=1)
    check_grads(lambda a: ndimage.rotate(x, a, reshape=False, order=1), [200.3], order=1)
    slopes = fg.grad(lambda at: ndimage.map_coordinates(np.array([0.0, 1.0, 5.0]), at, order=1)[0])
    assert slopes(np.array([[1.0]])) == 4.0
    at = np.array([[0.3, 1.6], [3.1, 0.7]])
    staged = fg.jit(lambda at: ndimage.map_coordinates(x, at))(at)
    np.testing.assert_allclose(staged, ndimage.map_coordinates(x, at), rtol=1e-12)
    moved = fg.vmap(lambda s: ndimage.shift(x, s))(np.array([0.5, 1.5]))
    np.testing.assert_allclose(moved[1], ndimage.shift(x, 1.5), rtol=1e-12)
    line = fg.jit(lambda x: ndimage.spline_filter1d(x, 3))
    check_grads(line, [x])


def test_mistakes():
    x = np.ones((4, 5))
    for error, call in (
        (RuntimeError, lambda m: m.correlate1d(x, [])),
        (ValueError, lambda m: m.correlate1d(x, [1.0, 2.0], origin=3)),
        (RuntimeError, lambda m: m.correlate(x, [1.0, 2.0])),
        (RuntimeError, lambda m: m.correlate1d(x, [1.0], mode="some")),
        (ValueError, lambda m: m.gaussian_filter1d(x, 1.0, radius=-1)),
        (RuntimeError, lambda m: m.gaussian_filter(x, [1.0, 2.0, 3.0])),
        (RuntimeError, lambda m: m.uniform_filter1d(x, 0)),
        (ValueError, lambda m: m.sobel(x, 3)),
        (RuntimeError, lambda m: m.map_coordinates(x, np.ones((3, 2)))),
        (RuntimeError, lambda m: m.map_coordinates(x, np.ones((2, 2)), order=6)),
        (RuntimeError, lambda m: m.map_coordinates(x, np.ones((2, 2)), mode="some")),
        (RuntimeError, lambda m: m.affine_transform(x, np.eye(4))),
        (RuntimeError, lambda m: m.spline_filter(x, 1)),
        (ValueError, lambda m: m.rotate(np.ones(3), 3.0)),
        (ValueError, lambda m: m.rotate(x, 3.0, (0, 1, 2))),
    ):
        for module in (scipy.ndimage, ndimage):
            with pytest.raises((error, RuntimeError) if error is RuntimeError else error):
                call(module)
    with pytest.raises(UnsupportedArgumentError, match="array as output"):
        ndimage.sobel(x, output=np.zeros((4, 5)))
    with pytest.raises(UnsupportedArgumentError, match="footprint"):
        ndimage.maximum_filter(x, footprint=np.ones((2, 2)))
    with pytest.raises(AbstractValueError, match="radius"):
        fg.jit(lambda s: ndimage.gaussian_filter(x, s), branches="error")(1.0)
    with pytest.raises(AbstractValueError, match="reshape=True"):
        fg.jit(lambda a: ndimage.rotate(x, a), branches="error")(1.0)


def test_the_namespace_is_scipys():
    assert ndimage.label is scipy.ndimage.label
    assert {"label", "zoom"} <= set(dir(ndimage))
