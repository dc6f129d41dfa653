"""Element-by-element functions that are no ufuncs: NumPy's numbers, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from surface import agrees, values

import fungrad as fg

F32, F64, C128, I64 = np.float32, np.float64, np.complex128, np.int64

FUNCTIONS = {
    "clip": lambda x: np.clip(x, -1, 1),
    "clip low": lambda x: np.clip(x, 0.25, None),
    "clip keywords": lambda x: np.clip(x, min=-1, max=1),
    "clip arrays": lambda x: np.clip(x, [-1.0, 0.0, 1.0], x + 0.5),
    "round": lambda x: np.round(x, 1) * x,
    "around": lambda x: np.around(x) * x,
    "round tens": lambda x: np.round(x * 30, -1) * x,
    "fix": lambda x: np.fix(x) * x,
    "sinc": np.sinc,
    "sinc small": lambda x: np.sinc(x / 50),
    "nan_to_num": np.nan_to_num,
    "real": np.real,
    "imag": np.imag,
    "diff": np.diff,
    "diff twice": lambda x: np.diff(x, 2),
    "diff too often": lambda x: np.diff(x, 5),
    "diff axis": lambda x: np.diff(x, axis=0),
    "diff prepend": lambda x: np.diff(x, prepend=0.0, append=x),
    "diff none": lambda x: np.diff(x, 0),
    "ediff1d": np.ediff1d,
    "ediff1d ends": lambda x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=x),
}


if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    del FUNCTIONS["clip keywords"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    agrees(FUNCTIONS[name], values((2, 3)))
    if name != "diff prepend" and "ends" not in name and "arrays" not in name:
        agrees(FUNCTIONS[name], values((2, 3), F32), order=0)


@pytest.mark.parametrize("name", ["real", "imag", "nan_to_num", "round", "diff"])
def test_function_of_complex_numbers(name):
    agrees(FUNCTIONS[name], values((2, 3), C128), order=0 if name == "round" else 1)


@pytest.mark.parametrize("dtype", [I64, np.int8, bool])
@pytest.mark.parametrize("name", ["clip", "round", "around", "fix", "nan_to_num", "real", "imag"])
def test_function_of_integers(name, dtype):
    if dtype is bool and name in ("clip", "round"):  # NumPy refuses these
        return
    agrees(FUNCTIONS[name], values((2, 3), dtype))


def test_differences_of_booleans_and_integers():
    agrees(np.diff, values((5,), bool))
    agrees(np.diff, values((5,), np.int8))
    agrees(lambda x: np.round(x, -1), values((5,), I64) * 13)


def test_angle():
    agrees(np.angle, values((3,), C128))
    agrees(lambda z: np.angle(z, deg=True), values((3,), C128))
    for dtype in (bool, np.int8, np.float16, np.float32):  # of which NumPy keeps all but the first
        x = np.array([0, 1], dtype)
        assert fg.jit(np.angle)(x).dtype == np.angle(x).dtype
    agrees(np.angle, values((3,)), order=1)


COMPARISONS = {
    "isclose": lambda x, y: np.isclose(x, y),
    "isclose tolerances": lambda x, y: np.isclose(x, y, 0.1, atol=0.2),
    "isclose nan": lambda x, y: np.isclose(x / 0, y / 0, equal_nan=True),
    "allclose": lambda x, y: np.allclose(x, y, atol=9.0),
    "array_equal": lambda x, y: (
        np.array_equal(x, y),
        np.array_equal(x, x),
        np.array_equal(x, y[:1]),
    ),
    "array_equal nan": lambda x, y: np.array_equal(x * np.nan, y * np.nan, equal_nan=True),
    "array_equiv": lambda x, y: (np.array_equiv(x, x[None]), np.array_equiv(x, y[:2])),
    "isposinf": lambda x, y: np.isposinf(x / 0.0),
    "isneginf": lambda x, y: np.isneginf(x / 0.0),
    "iscomplex": lambda x, y: np.iscomplex(x + 1j * (y > 0)),
    "isreal": lambda x, y: np.isreal(x + 1j * (y > 0)),
    "isreal of reals": lambda x, y: np.isreal(x),
    "kinds": lambda x, y: (np.iscomplexobj(x), np.isrealobj(y)),
}


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_comparison(name):
    agrees(COMPARISONS[name], values((3,)), values((3,), seed=1), order=0, batch=name != "kinds")


def test_comparisons_are_truths_in_eager_transforms():
    assert fg.grad(lambda x: x if np.allclose(x, 2.0) else 0.0 * x)(2.0) == 1.0
    assert (
        fg.grad(lambda x: np.sum(x) if np.array_equal(x, [1.0, 2.0]) else 0.0)(
            np.array([1.0, 2.0])
        )[0]
        == 1.0
    )


def test_sinc_at_zero_at_every_order():
    derivative = np.sinc
    expected = (1.0, 0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5)
    for value in expected:
        assert np.isclose(derivative(0.0), value, rtol=1e-13, atol=1e-13)
        derivative = fg.grad(derivative)


def test_nan_to_num_hides_what_it_replaces():
    x = np.array([np.nan, 1.0, np.inf, -np.inf])
    agrees(lambda x: np.nan_to_num(x, nan=2.0, posinf=7.0), x, order=0)
    slope = fg.grad(lambda x: np.sum(np.nan_to_num(1.0 / x)))(np.array([np.nan, 2.0]))
    assert slope.tolist() == [0.0, -0.25]


@pytest.mark.parametrize("low", [-0.0, 0.0, None])
@pytest.mark.parametrize("high", [-0.0, 0.0, None])
@pytest.mark.parametrize("size", [1, 4, 9000])
@pytest.mark.usefixtures("each_backend")
def test_where_zeros_of_both_signs_meet_clip_keeps_that_of_the_array(low, high, size):
    x = np.resize([-0.0, 0.0, -1.0, 1.0, np.nan], size)
    found = fg.jit(lambda x: np.clip(x, low, high))(x)
    if low is not None or high is not None:
        expected = np.clip(x, low, high)
        np.testing.assert_array_equal(found, expected)
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


@pytest.mark.parametrize("name", ["array_equal", "array_equiv", "allclose"])
@pytest.mark.usefixtures("each_backend")
def test_compiled_truths_promote_as_python_booleans(name):
    whether = getattr(np, name)
    for x in (np.array(1.5, np.float32), np.ones(3, np.float32), np.arange(3, dtype=np.int8)):
        assert fg.jit(lambda x: whether(x, x))(x) is True
        assert fg.jit(lambda x: whether(x, x + 1))(x) is False
        found = fg.jit(lambda x: whether(x, x) * 1 * x)(x)
        expected = whether(x, x) * 1 * x
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("size", [1, 3, 9000])
@pytest.mark.parametrize("exponent", [2, 0, 1, 3, 2.0, True, np.int64(2), np.int8(2)])
@pytest.mark.parametrize("raised", [lambda x, y: x**y, np.power])
def test_powers_of_booleans_have_the_dtype_of_numpy(size, exponent, raised):
    def f(x):
        return 100 * raised(x > 0, exponent) + 100

    x, expected = np.ones(size), f(np.ones(size))
    for found in (fg.jit(f)(x), fg.jit(fg.vmap(f))(x[None])[0]):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_bound_of_clip_shares_the_derivative():
    assert fg.grad(lambda x: np.clip(x, 1.0, 2.0))(1.0) == 0.5
    assert fg.grad(lambda x, low: np.clip(x, low, 2.0), argnums=1)(1.0, 1.0) == 0.5


@pytest.mark.parametrize("kwargs", [{}, {"atol": 1}, {"rtol": 0.5}, {"equal_nan": True}])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.uint8(3), np.uint8(4)),
        (np.array([True, False]), np.array([True, True])),
        (-3, np.uint16(2)),
        (np.array([1, 2]), np.array([1.0, np.nan])),
        (np.float32(1), 1),
    ],
)
def test_close_integers_and_logical_values(a, b, kwargs):
    for f in (np.isclose, np.allclose):
        found = fg.jit(lambda a, b, f=f: f(a, b, **kwargs))(a, b)
        np.testing.assert_array_equal(found, f(a, b, **kwargs))


def test_conjugates_of_logical_values_are_integers_as_numpys():
    f = lambda x: np.round(np.conj(x))  # noqa: E731
    x = np.array([True, False])
    assert fg.jit(f)(x).dtype == f(x).dtype == np.int8


def test_dtypes_are_numpys():
    """Also where one number of Python's, or of another dtype, stands beside an array."""
    x = np.array([1.0, np.nan, 3.0], F32)
    agrees(lambda x: np.nan_to_num(x, nan=np.float64(2)), x, order=0)
    agrees(lambda x: np.nan_to_num(x, nan=np.array([1.0, 2, 3])), x, order=0)
    y = np.array([1.0, 9.0, 3.0], F32)
    agrees(lambda x, p: np.unwrap(x, period=p), y, 2.5, order=0, batch=False)
    agrees(lambda x: np.unwrap(x, period=np.float64(2.5)), y, order=0)
    agrees(lambda x: np.select([x > 2, x > 1], [x, 2.0], default=1), y, order=0)
    agrees(lambda x: np.select([x > 2], [x], default=np.float64(1)), y, order=0)
    agrees(lambda x: np.clip(0.3, -x, x), y, order=0)
    agrees(lambda x: np.clip(x, 0, 2.5), y, order=0)
    small = np.array([1, 9, 3], np.int8)
    agrees(np.modf, small)
    agrees(lambda x: np.clip(x, -1000, 300), small)
    agrees(lambda x: np.clip(x, -1, 3), small.astype(np.uint8))
    truth = np.array([True, False])
    agrees(lambda x: np.power(x, 2), truth)
    agrees(lambda x: x**2, truth)
    agrees(lambda x: np.power(2, x), truth)


def test_answers_about_whole_arrays_are_pythons_booleans():
    found = []

    def f(x):
        found.extend([np.allclose(x, x), np.array_equal(x, x + 1), np.array_equiv(x, x[:1])])
        return np.sum(x)

    fg.grad(f)(np.array([1.0, 2.0]))
    assert [type(answer) for answer in found] == [bool] * 3
    assert found == [True, False, False]


def test_sign_of_complex_numbers():
    z = [complex(-0.0, -0.0), 1j, 0, complex(np.inf, 1), 3e200 + 4e200j, complex(-3, -0.0), -1 + 2j]
    z = np.array(z)
    for found in (fg.vjp(np.sign, z)[0], fg.jit(np.sign)(z), fg.vmap(np.sign)(z)):
        np.testing.assert_array_equal(found, np.sign(z))
        np.testing.assert_array_equal(np.signbit(found.real), np.signbit(np.sign(z).real))
        np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(np.sign(z).imag))
    agrees(np.sign, np.array([1 + 2j, -0.5 + 0.1j]))
    assert fg.jvp(np.sign, (0j,), (1 + 1j,))[1] == 0


# --- Python's numbers -----------------------------------------------------------------------------

OF_NUMBERS = """abs add bitwise_and bitwise_or clip conjugate copy divide divmod dot exp flip
    floor_divide frexp imag inner invert iscomplex isreal left_shift less logaddexp maximum mean
    modf multiply nan_to_num negative positive power real remainder round sign sin square squeeze
    subtract sum transpose trunc where""".split()


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("number", [0.5, 2, True, 1.5j], ids=repr)
def test_functions_of_pythons_numbers_give_numpys_numbers(name, number):
    """So that what is made of them promotes small floats, as in NumPy: np.abs(0.5) * float16."""
    f, half = getattr(np, name), np.ones(2, np.float16)

    def beside(*args):
        found = f(*args)
        found = found if isinstance(found, tuple) else (found,)
        return [part * half for part in found]

    args = (number,) * getattr(f, "nin", 1)
    args = {"dot": args * 2, "inner": args * 2, "where": (True, *args * 2),
            "clip": (*args, 0, 1)}.get(name, args)  # fmt: skip
    try:
        want = beside(*args)
    except TypeError:  # bitwise operations of floats, remainders of complex numbers
        return
    runs = {
        "graph": lambda *args: fg.evaluate(fg.make_jaxpr(beside)(*args), *args),
        "jit": fg.jit(beside),
        "vmap": lambda *args: fg.vmap(lambda _: beside(*args))(half)[:],
    }
    with np.errstate(all="ignore"):
        for how, run in runs.items():
            for got, part in zip(run(*args), want, strict=True):
                assert got.dtype == part.dtype, how
                np.testing.assert_array_equal(got if how != "vmap" else got[0], part)
        if type(number) is float and name not in ("where", "clip"):
            primal = fg.jvp(beside, args, args)[0]
            assert [x.dtype for x in primal] == [x.dtype for x in want]


@pytest.mark.parametrize("power", [0.5, -0.5, -1.5, 0.75])
def test_the_slope_of_a_power_of_pythons_zero_is_numpys(power):
    with np.errstate(all="ignore"):
        found = fg.grad(lambda x: x**power)(0.0)
        assert found == power * np.float64(0.0) ** (power - 1.0)
        assert fg.jit(fg.grad(lambda x: x**power))(0.0) == found
