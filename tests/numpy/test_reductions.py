"""NumPy's reductions and cumulative functions: NumPy's values and dtypes under every transform,
right derivatives.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad.errors import AbstractValueError, ItemAssignmentError
from fungrad.primitives.reduction.cumulative import linear_recurrence
from fungrad.testing import check_grads

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def draw(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return random.integers(0, 5, shape).astype(dtype)
    size = int(np.prod(shape, dtype=int))
    x = random.permutation(np.linspace(-2, 2.1, size)).reshape(shape)
    if dtype.kind == "c":
        x = x + 1j * random.normal(size=shape)
    return x.astype(dtype)


def close(found, expected, exact_type=True):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if exact_type:
        assert found.dtype == expected.dtype
    single = expected.dtype.name in ("float32", "complex64")
    half = expected.dtype.name == "float16"
    tolerance = 4e-3 if half else 2e-6 if single else 1e-13
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def agrees(f, x):
    """f has NumPy's results under each transform, dtype and shape included."""
    expected = f(x)
    graph = fg.make_jaxpr(f)(x)
    fg.check_graph(graph)
    assert (graph.outputs[0].type.shape, graph.outputs[0].type.dtype) == (
        np.shape(expected),
        np.asarray(expected).dtype,
    )
    close(fg.evaluate(graph, x)[0], expected)
    if np.asarray(x).dtype.kind in "fc":
        close(fg.vjp(f, x)[0], expected)
        close(fg.jvp(f, [x], [np.ones_like(x)])[0], expected)
    if np.ndim(x):
        rows = np.stack([x, np.flip(x), np.roll(x, 1)])
        close(fg.vmap(f)(rows), np.stack([f(row) for row in rows]))
    return expected


# --- values and dtypes ----------------------------------------------------------------------------

DTYPES = ("float64", "float32", "float16", "complex128", "int64", "int32", "uint8", "bool")
PLAIN = [np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std, np.any, np.all]
AXES = [
    ((3, 2), None), ((3, 2), 0), ((3, 2), -1), ((3, 2), (0, 1)), ((3, 2), ()), ((2, 3, 2), (0, -1)),
    ((), None), ((1, 4), 0), ((4,), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
def test_axes_keepdims_and_dtypes_are_numpys(function, dtype):
    for i, (shape, axis) in enumerate(AXES):
        x, keepdims = draw(shape, dtype), (i + DTYPES.index(dtype)) % 2 == 0
        agrees(lambda x, a=axis, k=keepdims: function(x, axis=a, keepdims=k), x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"])
def test_methods_take_ndarrays_positional_arguments(name, dtype):
    x = draw((2, 3), dtype)
    agrees(lambda x: getattr(x, name)(), x)
    agrees(lambda x: getattr(x, name)(1), x)
    agrees(lambda x: getattr(x, name)(axis=0, keepdims=True), x)


@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.var, np.std])
@pytest.mark.parametrize("found", ["float32", "int32", "float64", "bool"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_dtype_is_honoured(function, found, dtype):
    if dtype == "int64" and function in (np.var, np.std):
        return
    agrees(lambda x: function(x, axis=0, dtype=dtype), draw((3, 2), found))


MASK = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.var, np.std, np.any, np.all])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128", "bool"])
def test_where_is_honoured(function, dtype):
    x = draw((2, 3), dtype)
    for mask, axis in ((MASK, None), (MASK, 1), (MASK[1], 1), (MASK[:, 2:], 0)):
        agrees(lambda x, m=mask, a=axis: function(x, axis=a, where=m), x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_initial_is_honoured(dtype):
    x = draw((2, 3), dtype)
    for function, initial in ((np.sum, 3), (np.prod, 2), (np.max, 1), (np.min, -1), (np.max, 9)):
        agrees(lambda x, f=function, i=initial: f(x, axis=1, initial=i), x)
        agrees(lambda x, f=function, i=initial: f(x, axis=1, initial=i, where=MASK), x)
        agrees(lambda x, f=function, i=initial: f(x, initial=i, keepdims=True), x)
    agrees(lambda x: np.max(x, axis=0, initial=-5), draw((0, 2), dtype))


@pytest.mark.parametrize("initial", [-0.0, np.float32(-0.0), 0.0])
def test_a_sum_that_begins_with_a_zero_has_its_sign(initial):
    for x in ([], [-0.0], [-0.0, -0.0], [0.0, -0.0], [1.0, -1.0], [-1.0, -2.0], [-np.inf, -0.0]):
        x = np.array(x)
        for options in ({}, {"axis": 0}, {"where": x == x[:1]}, {"dtype": np.float32}):

            def f(x, options=options):
                return np.sum(x, initial=initial, **options)

            expected = f(x)
            for found in (fg.jit(f)(x), fg.vjp(f, x)[0], fg.vmap(f)(np.stack([x, x]))[1]):
                assert found.dtype == expected.dtype and found == expected
                assert np.signbit(found) == np.signbit(expected)
        assert fg.grad(lambda x: np.sum(x, initial=initial))(x).tolist() == [1.0] * len(x)
    agrees(lambda x: np.sum(x, initial=initial), np.arange(3))


@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cumulative_functions(function, dtype):
    for shape, axis in (((3, 2), None), ((3, 2), 0), ((3, 2), -1), ((), None), ((4,), 0)):
        agrees(lambda x, a=axis: function(x, axis=a), draw(shape, dtype))
    agrees(lambda x: function(x, dtype=np.float64), draw((3, 2), dtype).real)


@pytest.mark.parametrize("function", [np.cumulative_sum, np.cumulative_prod])
def test_cumulative_functions_of_the_array_api(function):
    x = draw((3, 2), "float64")
    for include in (False, True):
        agrees(lambda x, i=include: function(x, axis=1, include_initial=i), x)
        agrees(lambda x, i=include: function(x[0], include_initial=i), x)
    with pytest.raises(ValueError, match="axis"):
        fg.grad(lambda x: np.sum(function(x)))(x)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
@pytest.mark.parametrize("function", [np.argmax, np.argmin])
def test_positions(function, dtype):
    for shape, axis, keep in (((3, 2), None, 0), ((3, 2), 0, 1), ((3, 2), -1, 0), ((4,), 0, 1)):
        x = draw(shape, dtype)
        agrees(lambda x, a=axis, k=keep: function(x, axis=a, keepdims=bool(k)), x)
    agrees(lambda x: function(x, keepdims=True), draw((2, 2), dtype))
    agrees(lambda x: getattr(x, function.__name__)(), draw((2, 2), dtype))


def test_counts_and_ranges():
    for dtype in ("float64", "int64", "bool"):
        x = draw((3, 4), dtype)
        agrees(lambda x: np.count_nonzero(x, axis=1, keepdims=True), x)
        if dtype != "bool":
            agrees(lambda x: np.ptp(x, axis=0), x)
            agrees(np.ptp, x)
    assert fg.vjp(lambda x: np.count_nonzero(x), np.array([0.0, 2.0, 3.0]))[0] == 2


NAN_FUNCTIONS = [
    np.nansum, np.nanprod, np.nanmax, np.nanmin, np.nanmean, np.nanvar, np.nanstd,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("function", NAN_FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_that_ignore_nan(function, dtype):
    x = draw((3, 4), dtype)
    agrees(lambda x: function(x, axis=0), x)
    if dtype != "int64":
        x[0, 1] = x[2, 2] = np.nan
        for axis, keepdims in itertools.product((None, 0, 1, (0, 1)), (False, True)):
            agrees(lambda x, a=axis, k=keepdims: function(x, axis=a, keepdims=k), x)
        x[1] = np.nan
        agrees(lambda x: function(x, axis=1), x)
    if function in (np.nanvar, np.nanstd):
        agrees(lambda x: function(x, axis=1, ddof=1), x)
        agrees(lambda x: function(x, axis=1, correction=1), x)


@pytest.mark.parametrize("function", [np.var, np.std])
def test_degrees_of_freedom(function):
    x = draw((3, 4), "float64")
    agrees(lambda x: function(x, ddof=1), x)
    agrees(lambda x: function(x, axis=1, correction=1), x)
    agrees(lambda x: function(x, axis=1, mean=np.mean(x, axis=1, keepdims=True)), x)
    agrees(lambda x: function(x, axis=0, ddof=1), x[:1])
    with pytest.raises(ValueError, match="simultaneously"):
        fg.grad(lambda x: function(x, ddof=1, correction=1))(x)


def test_averages():
    x, w = draw((3, 4), "float64"), np.array([0.5, 1.0, 2.0])
    agrees(np.average, x)
    agrees(lambda x: np.average(x, axis=1), x)
    agrees(lambda x: np.average(x, axis=0, weights=w), x)
    agrees(lambda x: np.average(x, weights=x**2), x)
    agrees(lambda x: np.average(x, axis=0, weights=w, keepdims=True), x)
    agrees(lambda x: np.average(x, axis=(1, 0), weights=np.arange(1.0, 13).reshape(4, 3)), x)
    agrees(lambda x: np.average(x, axis=0, weights=[1, 2, 3], returned=True)[1], x)
    agrees(lambda x: np.average(x, axis=0, returned=True)[1], x)
    agrees(lambda x: np.average(x, axis=0, weights=w), draw((3, 2), "float32"))
    agrees(lambda x: np.average(x, axis=0, weights=[1, 2, 3]), draw((3, 2), "int64"))
    with pytest.raises(TypeError, match="Axis"):
        fg.grad(lambda x: np.average(x, weights=w))(x)


def test_reduce_and_accumulate_of_ufuncs():
    x = draw((3, 4), "float64")
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logaddexp, np.logaddexp2,
                  np.fmax, np.fmin):  # fmt: skip
        agrees(lambda x, f=ufunc: f.reduce(x), x)
        agrees(lambda x, f=ufunc: f.reduce(x, axis=1, keepdims=True), x)
        agrees(lambda x, f=ufunc: f.reduce(x, axis=None), x)
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
        agrees(lambda x, f=ufunc: f.accumulate(x, axis=1), x)


def test_outside_of_transforms_the_namespace_is_numpys():
    assert fg.numpy.sum([1, 2, 3]) == 6
    assert isinstance(fg.numpy.mean([1, 2]), np.float64)
    assert fg.numpy.max(np.array([1.0, 3.0]), axis=0) == 3.0
    out = np.zeros(2)
    fg.numpy.sum(np.ones((3, 2)), axis=0, out=out)
    assert out.tolist() == [3.0, 3.0]


def test_constants_inside_of_a_transform_keep_their_values():
    def f(x):
        return x * fg.numpy.sum([1, 2, 3]) + fg.numpy.mean(np.arange(4)) + fg.numpy.std([1.0, 1.0])

    assert fg.value_and_grad(f)(2.0) == (13.5, 6.0)


def test_lists_of_traced_values():
    assert fg.grad(lambda x: np.sum([x, x * x, 1.0]))(3.0) == 7.0
    assert fg.grad(lambda x: np.max([x, x * x, 1.0]))(3.0) == 6.0
    assert fg.grad(lambda x: fg.numpy.mean([x, 2 * x]))(3.0) == 1.5


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [*PLAIN, *NAN_FUNCTIONS, np.argmax, np.cumsum, np.ptp])
def test_out_that_compiled_code_made_is_refused_by_name(function):
    text = ["0 0 0" if function is np.cumsum else "0"]
    with pytest.raises(ItemAssignmentError, match=f"by np.{function.__name__}"):
        fg.grad(lambda x: np.sum(function(x, out=np.loadtxt(text))))(np.ones(3))


def test_cumsum_takes_out_made_under_the_transform():
    x = np.array([0.3, -1.2, 2.0])
    value, gradient = fg.value_and_grad(lambda x: np.sum(np.cumsum(x, out=np.zeros(3)) ** 2))(x)
    np.testing.assert_allclose(value, np.sum(np.cumsum(x) ** 2), rtol=1e-15)
    np.testing.assert_allclose(gradient, 2.0 * np.cumsum(np.cumsum(x)[::-1])[::-1], rtol=1e-14)
    with pytest.raises(ValueError, match=r"returns an array of shape \(3,\).*`out` has the shape"):
        fg.grad(lambda x: np.sum(np.cumsum(x, out=np.zeros(()))))(x)


def test_errors_are_numpys():
    x = np.ones((2, 3))
    with pytest.raises(np.exceptions.AxisError):
        fg.grad(lambda x: np.sum(x, axis=2))(x)
    with pytest.raises(ValueError, match="repeated axis"):
        fg.grad(lambda x: np.sum(x, axis=(0, 0)))(x)
    with pytest.raises(ValueError, match="zero-size array"):
        fg.make_jaxpr(lambda x: np.max(x))(np.ones((0, 2)))
    with pytest.raises(ValueError, match="zero-size array"):
        fg.grad(lambda x: np.max(x))(np.ones((0, 2)))
    with pytest.raises(ValueError, match="empty sequence"):
        fg.make_jaxpr(lambda x: np.argmax(x))(np.ones(0))
    with pytest.raises(ValueError, match="initial"):
        fg.grad(lambda x: np.max(x, where=x > 0))(x)
    with pytest.raises(TypeError):
        fg.grad(lambda x: x * fg.numpy.sum("text"))(1.0)


def test_positions_of_unknown_values_cannot_be_looked_at():
    with pytest.raises(AbstractValueError):
        fg.make_jaxpr(lambda x: np.zeros(int(np.argmax(x))))(np.ones(3))


# --- derivatives ----------------------------------------------------------------------------------

SMOOTH = {
    "sum": lambda x: np.sum(x * x, axis=0),
    "prod": lambda x: np.prod(x, axis=1),
    "prod of all": np.prod,
    "mean": lambda x: np.mean(x**2, axis=1, keepdims=True),
    "var": lambda x: np.var(x, axis=0, ddof=1),
    "std": lambda x: np.std(x, axis=1),
    "max": lambda x: np.max(x**2, axis=1),
    "min": lambda x: np.min(x**3),
    "ptp": lambda x: np.ptp(x**3, axis=0),
    "logaddexp": lambda x: np.logaddexp.reduce(x, axis=1),
    "logaddexp2": lambda x: np.logaddexp2.reduce(x, axis=None),
    "cumsum": lambda x: np.cumsum(x**2, axis=1) ** 2,
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "cumprod of all": np.cumprod,
    "cummax": lambda x: np.maximum.accumulate(x**2, axis=1),
    "cummin": lambda x: np.minimum.accumulate(x**2, axis=0),
    "average": lambda x: np.average(x**2, axis=0, weights=np.exp(x)),
    "where": lambda x: np.mean(x**2, where=MASK) + np.prod(x, where=MASK),
    "initial": lambda x: np.max(x**2, axis=1, initial=0.3) * np.sum(x**2, initial=3.0),
    "nan": lambda x: np.nanstd(np.where(MASK, np.nan, x)) + np.nanmax(np.where(MASK, np.nan, x**2)),
    "nanmean": lambda x: np.nanmean(np.where(MASK, x**2, np.nan), axis=1),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    check_grads(SMOOTH[name], [draw((2, 3), "float64", 3)], order=2)


@pytest.mark.parametrize("name", ["sum", "prod", "cumprod", "mean", "cumsum", "average"])
def test_complex_derivatives(name):
    check_grads(SMOOTH[name], [draw((2, 3), "complex128", 3)], order=2)


@pytest.mark.parametrize("name", ["var", "std"])
def test_variance_of_complex_numbers(name):
    check_grads(SMOOTH[name], [draw((2, 3), "complex128", 3)], order=1)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_single_precision_are_single(name):
    x = draw((2, 3), "float32", 3)
    out, pullback = fg.vjp(SMOOTH[name], x)
    assert out.dtype == np.float32
    assert pullback(np.ones_like(out))[0].dtype == np.float32
    assert fg.jvp(SMOOTH[name], [x], [x])[1].dtype == np.float32


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_products_with_zeros_at_orders_one_to_three(count):
    x = np.array([2.0, 3.0, -1.5, 0.5])
    x[:count] = 0.0

    def derivative(indices):
        """The derivative of the product of four numbers by some of them, by hand."""
        if len(set(indices)) < len(indices):
            return 0.0
        return np.prod([v for i, v in enumerate(x) if i not in indices])

    shape = x.shape
    expected = [
        np.array([derivative(i) for i in itertools.product(range(4), repeat=n)]).reshape(shape * n)
        for n in (1, 2, 3)
    ]

    def basis(i):
        return np.eye(4)[i]

    for f in (np.prod, lambda x: np.cumprod(x)[-1], lambda x: np.prod(x.reshape(2, 2))):
        gradient = fg.grad(f)
        np.testing.assert_allclose(gradient(x), expected[0], atol=1e-14)
        hessian = [fg.grad(lambda x, g=gradient, i=i: g(x)[i])(x) for i in range(4)]
        np.testing.assert_allclose(hessian, expected[1], atol=1e-14)
        forward = [fg.jvp(gradient, [x], [basis(i)])[1] for i in range(4)]
        np.testing.assert_allclose(forward, expected[1], atol=1e-14)

        def directional(x, i, g=gradient):
            return fg.jvp(g, [x], [basis(i)])[1]

        third = [
            [fg.jvp(lambda x, d=directional, i=i: d(x, i), [x], [basis(j)])[1] for j in range(4)]
            for i in range(4)
        ]
        np.testing.assert_allclose(third, expected[2], atol=1e-14)


def test_a_product_is_not_differentiated_by_division():
    huge = np.array([1e200, 1e200, 1e-200])
    np.testing.assert_allclose(fg.grad(np.prod)(huge), [1.0, 1.0, np.inf], rtol=1e-12)


def test_long_products_and_recurrences():
    x = 1 + draw((300,), "float64") / 300
    assert fg.grad(lambda x: np.sum(np.cumprod(x)))(x).shape == (300,)
    check_grads(lambda x: np.cumprod(x)[::60], [x], order=1)
    check_grads(lambda x: np.prod(x), [x], order=2)
    # In two's steps the products of 1000 factors overflow, and overflow times 0 is NaN: not here.
    u = np.zeros(1000)
    u[-1] = 1.0
    assert linear_recurrence(np.full(1000, 1e3), u, axis=0).tolist() == u.tolist()


TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])


def test_ties_share_equally():
    np.testing.assert_allclose(
        fg.grad(lambda x: np.sum(np.max(x, axis=1)))(TIES), [[0, 0.5, 0.5], [1 / 3] * 3]
    )
    np.testing.assert_allclose(fg.grad(np.min)(TIES), [[1, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(
        fg.grad(lambda x: np.maximum.accumulate(x)[2])(TIES[0]), [0, 0.5, 0.5]
    )
    np.testing.assert_allclose(fg.grad(lambda x: np.maximum.accumulate(x)[1])(TIES[0]), [0, 1, 0])
    tangent = fg.jvp(lambda x: np.max(x, axis=1), [TIES], [np.arange(6.0).reshape(2, 3)])[1]
    np.testing.assert_allclose(tangent, [1.5, 4.0])
    assert fg.grad(lambda x: np.max(np.stack([x, np.float64(2)]), initial=2.0))(2.0) == 0.25


def test_nan_attains_nan():
    x = np.array([1.0, np.nan, 3.0])
    value, gradient = fg.value_and_grad(np.max)(x)
    assert np.isnan(value)
    assert gradient.tolist() == [0.0, 1.0, 0.0]
    assert fg.grad(np.nanmax)(x).tolist() == [0.0, 0.0, 1.0]
    assert fg.grad(np.nanmean)(x).tolist() == [0.5, 0.0, 0.5]
    assert np.isnan(fg.value_and_grad(np.nanmax)(np.full(2, np.nan))[0])


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("f", [np.nanmin, np.nanmax])
def test_complex_nan_where_there_is_nothing_else_is_numpys(f, axis, keepdims):
    nan = np.nan
    for last in (complex(nan, 7), 3.0):
        z = np.array([[complex(1, nan), complex(nan, 2)], [complex(nan, nan), last]])
        expected = f(z, axis=axis, keepdims=keepdims)
        found = fg.jit(lambda z: f(z, axis=axis, keepdims=keepdims))(z)
        np.testing.assert_array_equal(found.real, expected.real)
        np.testing.assert_array_equal(found.imag, expected.imag)
    assert fg.grad(lambda z: f(z).real)(np.array([complex(nan, 1)])) == 0.0


def test_what_is_not_the_largest_gets_exactly_zero():
    # behind the maximum stands an infinite slope, which times zero is not NaN
    x = np.array([0.0, 4.0])
    assert fg.grad(lambda x: np.max(np.sqrt(x)))(x).tolist() == [0.0, 0.25]
    assert fg.grad(lambda x: np.sum(np.sqrt(x), where=x > 1))(x).tolist() == [0.0, 0.25]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_the_deviation_of_constant_data_has_derivative_zero(dtype):
    for f, x in (
        (np.std, np.full(4, 2.0, dtype)),
        (np.std, np.full(1, 2.0, dtype)),
        (lambda x: np.sum(np.std(x, axis=0)), np.full((3, 2), 2.0, dtype)),
        (np.nanstd, np.array([2.0, np.nan, 2.0], dtype)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gradient = fg.grad(f)(x)
            assert gradient.dtype == dtype
            assert not gradient.any()
            assert not fg.jvp(f, [x], [np.ones_like(x)])[1].any()
        second = fg.grad(lambda x, f=f: np.real(np.sum(fg.grad(f)(x))))(x)
        assert not second.any()


def test_log_of_a_sum_of_infinite_exponentials():
    for values, share in (
        ([-np.inf, 0.0, 0.0], [0, 0.5, 0.5]),
        ([-np.inf, -np.inf], [0.5, 0.5]),
        ([np.inf, 1.0, np.inf], [0.5, 0, 0.5]),
        ([1000.0, 1000.0], [0.5, 0.5]),
    ):
        x = np.array(values)
        assert fg.grad(np.logaddexp.reduce)(x).tolist() == share
        assert fg.jvp(np.logaddexp.reduce, [x], [np.ones_like(x)])[1] == 1.0


def test_truth_and_positions_are_plain_values_under_grad():
    def f(x):
        assert isinstance(np.argmax(x), np.integer)
        return x[np.argmax(x)] ** 2 if np.any(x > 1) and not np.all(x > 1) else np.sum(x)

    assert fg.grad(f)(np.array([0.5, 3.0, 1.0])).tolist() == [0.0, 6.0, 0.0]


# --- programs ------------------------------------------------------------------------------------

REDUCTIONS = [np.sum, np.mean, np.prod, np.max, np.min, np.var, np.std]


@st.composite
def calls(draw_from):
    shape = tuple(draw_from(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    function = draw_from(st.sampled_from(REDUCTIONS))
    axes = st.integers(-len(shape), len(shape) - 1)
    several = st.sets(st.integers(0, len(shape) - 1)).map(tuple)
    axis = draw_from(st.one_of(st.none(), axes, several))
    keepdims = draw_from(st.booleans())
    return shape, lambda x: function(x, axis=axis, keepdims=keepdims)


@pytest.mark.slow
@settings(max_examples=40)
@given(calls(), st.integers(0, 99))
def test_any_reduction_agrees_with_numpy_and_itself(call, seed):
    shape, f = call
    x = draw(shape, "float64", seed)
    agrees(f, x)
    out, pullback = fg.vjp(f, x)
    t, g = draw(shape, "float64", seed + 1), draw(np.shape(out), "float64", seed + 2)
    left = np.sum(fg.jvp(f, [x], [t])[1] * g)
    right = np.sum(t * pullback(g)[0])
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)
    rows = np.stack([x, x[::-1]])
    expected = np.stack([fg.grad(lambda x: np.sum(f(x) * g))(row) for row in rows])
    found = fg.vmap(fg.grad(lambda x: np.sum(f(x) * g)))(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "function",
    [np.sum, np.prod, np.max, np.min, np.any, np.nansum, np.nanmax, np.nanstd, np.ptp],
)
def test_a_number_is_reduced_along_its_first_axis_as_numpy_does(function, axis, keepdims):
    f = lambda x: function(x, axis=axis, keepdims=keepdims)  # noqa: E731
    assert fg.jit(f)(2.5) == f(2.5)
    assert np.shape(fg.jit(f)(2.5)) == np.shape(f(2.5))
    assert fg.grad(lambda x: np.sum(x * x, axis=axis))(3.0) == 6.0
    with pytest.raises(np.exceptions.AxisError):
        fg.jit(lambda x: function(x, axis=1))(2.5)


def test_a_deviation_in_integers():
    x = np.arange(6.0)
    found = fg.jit(lambda x: np.std(x, dtype=int))(x)
    assert found == np.std(x, dtype=int)
    assert found.dtype == np.int64
    with pytest.raises(TypeError, match="Cannot cast"):
        fg.jit(lambda x: np.std(x, axis=0, dtype=int))(x.reshape(2, 3))


def test_the_variance_of_more_numbers_than_half_precision_can_count():
    x = (0.25 * np.random.default_rng(0).normal(size=70_000)).astype(np.float16)
    for f in (np.mean, np.var, np.std):
        found, wanted = fg.jit(f)(x), f(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-3)
        assert np.all(np.isfinite(fg.grad(f)(x)))
