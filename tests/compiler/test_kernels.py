"""Kernels in place of slow loops of NumPy's: within 2 ulp of the right value, else NumPy's."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
import scipy.special

import fungrad as fg
import fungrad.scipy.special  # gives erf its kernel
from fungrad.compiler.cost_model import costs
from fungrad.compiler.loop_ir.printer import written_out
from fungrad.compiler.numpy_backend.fusion import tile_lowering
from fungrad.compiler.numpy_backend.fusion.clustering import FusionCluster, cluster_and_schedule
from fungrad.compiler.passes.pipeline import optimised
from fungrad.runtime.kernels import elementwise
from fungrad.runtime.kernels.elementwise import SCRATCH

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])


def call(kernel, *arrays, outputs=1):
    results = [np.empty_like(arrays[0]) for _ in range(outputs)]
    kernel(*arrays, *results, *[np.empty_like(arrays[0]) for _ in range(sum(SCRATCH[kernel]))])
    return results


def ulps(found, exact):
    """The largest error in units in the last place."""
    with mpmath.workdps(60):
        return max(
            float(abs(mpmath.mpf(float(got)) - want) / np.spacing(abs(float(want))))
            for got, want in zip(found, exact, strict=True)
            if want != 0
        )


def angles():
    """None is zero: of blocks with zeros NumPy computes sine and cosine."""
    return np.concatenate(
        [
            RNG.normal(size=300) * 3.0,
            RNG.uniform(-1e5, 1e5, 300),
            np.array([*range(-150, 0), *range(1, 150)]) * (np.pi / 2),  # next to the zeros
            RNG.integers(-60_000, 60_000, 300) * (np.pi / 2),
            RNG.normal(size=50) * 1e-9,
        ]
    )


def check(kernel, x, limit):
    sine, cosine = call(kernel, x, outputs=2)
    with mpmath.workdps(60):
        assert ulps(sine, [mpmath.sin(mpmath.mpf(float(v))) for v in x]) <= limit
        assert ulps(cosine, [mpmath.cos(mpmath.mpf(float(v))) for v in x]) <= limit


@pytest.mark.parametrize("largest", [2.3, 3.89, 13.0, elementwise.LARGEST])
def test_sine_and_cosine(largest):
    x = np.concatenate([angles(), RNG.uniform(-largest, largest, 300)])
    check(elementwise.sincos, x[np.abs(x) < largest], 2.0)


@pytest.mark.parametrize("quarter", range(-9, 10))
def test_signs_next_to_quarter_turns(quarter):
    x = np.array([quarter * (np.pi / 2)])
    x = np.concatenate([np.nextafter(x, np.inf), x, np.nextafter(x, -np.inf)])
    check(elementwise.sincos, x, 2.0)
    sine, _ = call(elementwise.sincos, np.array([-0.0, 0.0]), outputs=2)
    assert list(np.signbit(sine)) == [True, False]


@pytest.mark.parametrize(("setting", "called"), [("auto", "sincos("), ("numpy", "sin(")])
def test_the_kernel_is_chosen_by_the_setting(setting, called):
    before, fg.config.kernels = fg.config.kernels, setting
    try:
        x = RNG.normal(size=40_000)
        g = fg.grad(lambda x: np.sum(np.sin(x) * np.cos(x)))
        np.testing.assert_allclose(fg.jit(g)(x), np.cos(2.0 * x), rtol=0, atol=1e-14)
        steps = cluster_and_schedule(optimised(fg.make_jaxpr(g)(x)))
        (region,) = [step for step in steps if isinstance(step, FusionCluster)]
        assert called in written_out(tile_lowering.build(region))
    finally:
        fg.config.kernels = before


def test_sine_and_cosine_of_no_angles():
    found = call(elementwise.sincos, np.empty(0), outputs=2)
    assert [part.shape for part in found] == [(0,), (0,)]


@pytest.mark.parametrize("beyond", [1e15, np.nan, -np.inf])
def test_what_cannot_be_reduced_is_numpys(beyond):
    x = np.array([0.3, beyond, -2.0])
    with np.errstate(invalid="ignore"):
        sine, cosine = call(elementwise.sincos, x, outputs=2)
        np.testing.assert_array_equal(sine, np.sin(x))
        np.testing.assert_array_equal(cosine, np.cos(x))


@pytest.mark.parametrize("size", [9, 9_000, 70_000])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16"])
def test_dots_of_blocks_have_the_dtype_of_their_factors(dtype, size):
    x = (np.arange(size) % 1000 == 1).astype(dtype)
    expected = np.dot(x, x * x)
    found = fg.jit(lambda x: np.dot(x, x * x))(x)
    assert (found.dtype, found) == (expected.dtype, expected)


def test_logaddexp():
    x, y = RNG.normal(size=600) * 20.0, RNG.normal(size=600) * 20.0
    (found,) = call(elementwise.logaddexp, x, y)
    with mpmath.workdps(60):
        exact = [
            mpmath.log(mpmath.exp(mpmath.mpf(float(a))) + mpmath.exp(mpmath.mpf(float(b))))
            for a, b in zip(x, y, strict=True)
        ]
        # Where the sum is next to one, its logarithm cancels: NumPy's digits there.
        far = [i for i, e in enumerate(exact) if abs(e) > 1.0]
        assert ulps(found[far], [exact[i] for i in far]) <= 2.0
    np.testing.assert_allclose(found, np.logaddexp(x, y), rtol=1e-13, atol=1e-15)


def singles(scale):
    """Pairs of numbers of single precision."""
    values = RNG.normal(size=(2, 4000)) * scale
    return values.astype(np.float32)


def ulps_of_singles(found, exact):
    assert found.dtype == np.float32
    return np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32)))


@pytest.mark.parametrize("scale", [1.0, 3.0, 20.0])
def test_logaddexp_of_single_precision(scale):
    x, y = singles(scale)
    (found,) = call(elementwise.logaddexp, x, y)
    exact = np.logaddexp(x.astype(float), y.astype(float))
    far = np.abs(exact) > 1.0
    assert ulps_of_singles(found[far], exact[far]) <= 2.0
    np.testing.assert_allclose(found, exact, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("scale", [1e-20, 1e-12, 1.0, 1e12, 1e18, 1e30])
def test_hypot_of_single_precision(scale):
    x, y = singles(scale)
    (found,) = call(elementwise.hypot, x, y)
    assert ulps_of_singles(found, np.hypot(x.astype(float), y.astype(float))) <= 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_both_precisions_in_regions(dtype):
    x, y = RNG.normal(size=(2, 300, 100)).astype(dtype)

    def f(x, y):
        return np.logaddexp(x, y) + np.hypot(x, 1) * np.logaddexp(0.0, x) + np.hypot(x, y)

    (region,) = [
        s
        for s in cluster_and_schedule(optimised(fg.make_jaxpr(f)(x, y)))
        if isinstance(s, FusionCluster)
    ]
    namespace = tile_lowering.build(region).__globals__
    assert elementwise.logaddexp in namespace.values() and elementwise.hypot in namespace.values()
    found = fg.jit(f)(x, y)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, f(x, y), rtol=8 * np.finfo(dtype).eps)


def test_hypot():
    x, y = RNG.normal(size=600) * 10.0 ** RNG.uniform(-80, 80, 600), RNG.normal(size=600)
    (found,) = call(elementwise.hypot, x, y)
    with mpmath.workdps(60):
        exact = [
            mpmath.sqrt(mpmath.mpf(float(a)) ** 2 + mpmath.mpf(float(b)) ** 2)
            for a, b in zip(x, y, strict=True)
        ]
        assert ulps(found, exact) <= 2.0


def test_the_error_function():
    steps = np.arange(-3072, 3073) / 512.0
    x = np.concatenate(
        [
            RNG.normal(size=2000),
            RNG.uniform(-7.0, 7.0, 500),
            RNG.uniform(-3.0, 3.0, 2000) / 512.0,  # where the correction is not small
            RNG.choice(steps, 500) + 0.5 / 512.0,
            10.0 ** RNG.uniform(-300.0, 300.0, 100),
        ]
    )
    (found,) = call(elementwise.erf, x)
    with mpmath.workdps(40):
        assert ulps(found, [mpmath.erf(mpmath.mpf(float(v))) for v in x]) <= 2.0
    assert np.abs(found).max() <= 1.0


def test_the_error_function_at_special_arguments():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6.0, -6.0, 1e300, -1e300, 5e-324, -2e-310])
    with np.errstate(all="raise"):
        (found,) = call(elementwise.erf, x)
    np.testing.assert_array_equal(found, scipy.special.erf(x))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
    with np.errstate(all="raise"):
        assert call(elementwise.erf, x[x == 0.0])[0].tolist() == [0.0, 0.0]
        assert np.isnan(call(elementwise.erf, np.array([np.nan]))[0]).all()
    assert call(elementwise.erf, np.empty(0))[0].shape == (0,)


@pytest.mark.parametrize("name", ["logaddexp", "hypot"])
def test_special_arguments_are_numpys(name):
    x, y = (part.reshape(-1) for part in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        for i in range(x.size):
            pair = np.array([x[i], 0.5]), np.array([y[i], 0.25])
            (found,) = call(getattr(elementwise, name), *pair)
            want = getattr(np, name)(*pair)
            np.testing.assert_allclose(found, want, rtol=4.5e-16)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_sines_of_zeros_and_of_the_smallest_angles_are_numpys():
    tiny = np.array([0.0, -0.0, 5e-324, -5e-324, 1.5e-323, 2e-308, -2e-310, 1e-300])
    for x in (tiny, *(np.array([angle, 0.5]) for angle in tiny)):
        sine, cosine = call(elementwise.sincos, x, outputs=2)
        np.testing.assert_array_equal(cosine, np.cos(x))
        np.testing.assert_allclose(sine, np.sin(x), rtol=4.5e-16)
        np.testing.assert_array_equal(np.signbit(sine), np.signbit(x))


# Which of the zeros of a row is its extremum depends on the lanes of NumPy's own vectors.
OF_LANES = [pytest.param(f, 1, marks=pytest.mark.numpy_backend) for f in (np.max, np.min)]


@pytest.mark.parametrize("width", [6, 20, 60, 300])
@pytest.mark.parametrize(
    ("f", "axis"), [(np.max, 0), (np.min, 0), (np.sum, 0), (np.sum, 1), *OF_LANES]
)
def test_extrema_and_sums_of_zeros_have_the_signs_that_numpys_have(width, f, axis):
    x = np.where(RNG.random((12_000 // width * 20, width)) < 0.5, 0.0, -0.0)
    x[::3] = -0.0
    g = lambda x: f(x - 0.0, axis=axis)  # noqa: E731
    assert fg.jit(g)(x).tobytes() == g(x).tobytes()


@pytest.mark.numpy_backend  # counts NumPy's calls
def test_products_are_rounded_before_they_are_added_up():
    third = np.full((3000, 40), 1.0 / 3.0)
    third[:, 1::2] *= -1.0
    f = lambda x, y: np.sum(x * y * 1.5, axis=1) + np.sum(x * y, axis=1)  # noqa: E731
    y = np.abs(third)
    assert np.all(fg.jit(f)(third, y) == 0.0)


@pytest.mark.parametrize("kernel", [k for k in SCRATCH if k is not elementwise.chosen])
@pytest.mark.parametrize("setting", ["near", "far", "special", "none"])
def test_scratch_over_an_argument(kernel, setting):
    """Each scratch array that may be an argument, in place of each argument."""
    given = {"near": RNG.normal(size=500), "far": angles(), "special": SPECIAL, "none": []}[setting]
    x = np.array(given)
    arrays = (x, x[::-1].copy())[: 2 if kernel in (elementwise.logaddexp, elementwise.hypot) else 1]
    outputs = 2 if kernel is elementwise.sincos else 1
    alone, over = SCRATCH[kernel]
    with np.errstate(all="ignore"):
        wanted = call(kernel, *arrays, outputs=outputs)
        for which, place in itertools.product(range(len(arrays)), range(over)):
            copies = [a.copy() for a in arrays]
            results = [np.empty(x.size) for _ in range(outputs)]
            scratch = [np.empty(x.size) for _ in range(alone + over)]
            scratch[alone + place] = copies[which]
            kernel(*copies, *results, *scratch)
            np.testing.assert_array_equal(results, wanted)


def functions(x, y):
    return (
        np.sin(x) * 2.0 + np.cos(x) * y,
        np.cos(y),
        np.logaddexp(x, y) + np.logaddexp(0.0, x),
        np.hypot(x, y) * np.sin(x + y),
        scipy.special.erf(x) * y,
    )


@pytest.mark.parametrize("name", ["logaddexp", "hypot"])
def test_two_dtypes_in_one_region(name):
    function = getattr(np, name)

    def f(x, y):
        return function(x, 1.5) * 2.0 + function(y, np.float32(1.5)) + function(1.5, x)

    x = RNG.normal(size=20_000)
    args = x, x.astype(np.float32)
    np.testing.assert_allclose(fg.jit(f)(*args), f(*args), rtol=1e-6)


@pytest.mark.parametrize(
    "setting", ["auto", pytest.param("numpy", marks=pytest.mark.numpy_backend)]
)
@pytest.mark.parametrize("shape", [(40_000,), (300, 150), (9_000, 5)])
def test_in_regions(setting, shape):
    x, y = RNG.normal(size=shape), RNG.normal(size=shape[-1:])
    y = np.broadcast_to(y, shape) + 0.0 if len(shape) == 1 else y
    before = fg.config.kernels
    fg.config.kernels = setting
    try:
        f = fg.jit(lambda x, y: functions(x, y))
        g = fg.jit(fg.grad(lambda x, y: sum(np.sum(part) for part in functions(x, y)), (0, 1)))
        found, slopes = f(x, y), g(x, y)
    finally:
        fg.config.kernels = before
    exact = setting == "numpy"
    for got, want in zip(found, functions(x, y), strict=True):
        np.testing.assert_allclose(
            got, want, rtol=0 if exact else 1e-14, atol=0 if exact else 1e-15
        )
    wanted = fg.grad(lambda x, y: sum(np.sum(part) for part in functions(x, y)), (0, 1))(x, y)
    for got, want in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_error_function_in_regions(dtype):
    x = (RNG.normal(size=(200, 101)) * 3.0).astype(dtype)

    def f(x):
        return scipy.special.erf(x) * 2.0

    def slope(x):
        return fg.grad(lambda x: np.sum(f(x) ** 2))(x)

    within = 16 * np.finfo(dtype).eps
    for g in (f, slope, fg.grad(lambda x: np.sum(slope(x))), fg.vmap(f)):
        found = fg.jit(g)(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, g(x), rtol=within, atol=within)
    x[0, :4] = np.nan, np.inf, -np.inf, 1e30
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=within)


def chain(x):
    """Sines and cosines of values that nothing else reads, and of one that something does."""
    for _ in range(3):
        x = np.sin(x * 1.5) + 0.5 * np.cos(x * 1.5)
    y = np.logaddexp(0.25 * x, np.hypot(x, 0.5)) * scipy.special.erf(x)
    return x * np.cos(x) + np.sin(x) - y


@pytest.mark.parametrize("threads", [1, 2])
def test_arguments_that_end_with_a_kernel_are_its_scratch(threads):
    x = RNG.normal(size=100_000)
    x[:3] = np.nan, np.inf, -1e20
    before, fg.config.num_threads = fg.config.num_threads, threads
    try:
        with np.errstate(all="ignore"):
            found, wanted = fg.jit(chain)(x), chain(x)
            slope = fg.grad(lambda x: np.sum(chain(x)))
            np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
            np.testing.assert_allclose(fg.jit(slope)(x), slope(x), rtol=1e-11, atol=1e-11)
    finally:
        fg.config.num_threads = before


def test_a_sine_and_a_cosine_take_five_arrays_of_which_one_is_their_argument():
    def f(x):
        y = np.exp(x)
        return np.sin(y) * np.cos(y)

    (region,) = cluster_and_schedule(optimised(fg.make_jaxpr(f)(RNG.normal(size=40_000))))
    assert len(tile_lowering.build(region).plan.layout) == 5


def test_only_pairs_of_sine_and_cosine_are_replaced():
    x = RNG.normal(size=40_000)
    graph = optimised(fg.make_jaxpr(lambda x: (np.sin(x) + np.cos(x), np.sin(x * 2.0)))(x))
    (region,) = [step for step in cluster_and_schedule(graph) if isinstance(step, FusionCluster)]
    text = written_out(tile_lowering.build(region))
    assert text.count("sincos(") == 1 and text.count("sin(") == 1 and " cos(" not in text
    assert costs.fused_array <= x.size
