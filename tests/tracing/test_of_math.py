"""Functions of Python's `math` take traced numbers while a transform traces: the values, dtypes and
errors are math's, the derivatives NumPy's; at all other times the functions are math's own.
"""

from __future__ import annotations

import math
import threading
from types import MappingProxyType

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import AbstractValueError, ArgumentError

# A dict that a traced function names is a space of names, whose functions are replaced.
ORIGINALS = MappingProxyType({n: value for n, value in vars(math).items() if callable(value)})

ARGS = {
    "acosh": (1.3,), "atan2": (0.3, -0.7), "copysign": (0.3, -0.7), "fmod": (-7.3, 2.1),
    "remainder": (7.3, 2.1), "pow": (1.3, 0.7), "hypot": (0.3, -0.4, 0.5), "log": (1.3, 2.5),
    "nextafter": (1.0, 2.0), "fma": (1.3, 0.7, -0.2), "lgamma": (2.3,), "gamma": (2.3,),
}  # fmt: skip
SMOOTH = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh",
    "degrees", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fmod", "gamma", "hypot", "lgamma",
    "log", "log10", "log1p", "log2", "pow", "radians", "remainder", "sin", "sinh", "sqrt", "tan",
    "tanh", "fma",
]  # fmt: skip
SMOOTH = [name for name in SMOOTH if hasattr(math, name)]
POINTS = {name: ARGS.get(name, (0.37,)) for name in SMOOTH}


def function(name):
    return lambda *args: getattr(math, name)(*args)


def untouched():
    return all(getattr(math, name) is original for name, original in ORIGINALS.items())


@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_derivatives(name):
    f, args = function(name), POINTS[name]
    if name in ("erf", "erfc", "gamma", "lgamma"):
        pytest.importorskip("scipy")
    expected = f(*args)
    for found in (fg.vjp(f, *args)[0], fg.jit(f)(*args), fg.jvp(f, args, args)[0]):
        assert type(found) is float
        assert found == pytest.approx(expected, rel=1e-15 if "gamma" in name else 4e-16)
    batch = [np.array([a, a * 0.99]) for a in args]
    loop = [f(*[b[i] for b in batch]) for i in range(2)]
    np.testing.assert_allclose(fg.vmap(f)(*batch), loop, rtol=1e-15)
    fg.testing.check_grads(f, list(args), order=2)
    assert untouched()


@pytest.mark.parametrize("name", SMOOTH)
def test_a_result_promotes_as_a_python_float(name):
    if name in ("erf", "erfc", "gamma", "lgamma"):
        pytest.importorskip("scipy")
    args = POINTS[name]
    single = np.ones(2, np.float32)
    for make in (float, np.float32, np.float64, lambda a: np.full(1, a)[0]):
        given = tuple(map(make, args))
        f = lambda *xs: single * function(name)(*xs)  # noqa: E731
        for found in (fg.vjp(f, *given)[0], fg.jit(f)(*given)):
            assert found.dtype == f(*given).dtype == np.float32
            np.testing.assert_allclose(found, f(*given), rtol=1e-6)


def test_questions_and_parts():
    for x in (0.37, -2.5, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e300, 3.0):
        for name in ("isfinite", "isinf", "isnan", "modf", "frexp", "ulp", "fabs"):
            want = function(name)(x)
            for found in (fg.vjp(function(name), x)[0], fg.jit(function(name))(x)):
                np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
                if name == "modf":
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))
    assert fg.grad(lambda x: x if math.isfinite(x) else 0.0 * x)(1.0) == 1.0
    assert fg.grad(lambda x: math.ldexp(x, 3) + math.modf(x)[0])(1.5) == 9.0


@pytest.mark.parametrize("x", [7.3, -7.3, 5.0, 2.5, 7.5, -0.0, 0.1])
@pytest.mark.parametrize("y", [2.1, -2.1, 5.0, math.inf, 1e-3])
def test_remainder_is_exact(x, y):
    found = fg.vjp(math_remainder, x, y)[0]
    assert found == math.remainder(x, y)
    assert math.copysign(1.0, found) == math.copysign(1.0, math.remainder(x, y))
    assert fg.jit(math_remainder)(x, y) == math.remainder(x, y)


def math_remainder(x, y):
    return math.remainder(x, y)


@pytest.mark.parametrize("a", [1.0, 1.0 + 1e-10, 1.1, 0.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("b", [1.0, 1.0 - 1e-10, 1e-12, math.inf, math.nan])
def test_isclose(a, b):
    for kwargs in ({}, {"rel_tol": 0.2}, {"abs_tol": 1e-9}):
        want = math.isclose(a, b, **kwargs)
        f = lambda a, b, kwargs=kwargs: math.isclose(a, b, **kwargs)  # noqa: E731
        assert fg.vjp(f, a, b)[0] == want == fg.jit(f)(a, b)
    with pytest.raises(ValueError, match="non-negative"):
        fg.grad(lambda a: a * math.isclose(a, 1.0, rel_tol=-1.0))(1.0)


def test_sums_and_distances():
    row = [1e16, 1.0, -1e16, 0.1]
    f = lambda x: math.fsum(v * x for v in row)  # noqa: E731
    for found in (fg.vjp(f, 1.0)[0], fg.jit(f)(1.0), fg.vmap(f)(np.ones(2))[1]):
        assert found == math.fsum(row)
    assert fg.grad(lambda x: math.fsum(x) ** 2)(np.array([1.0, 2.0])).tolist() == [6.0, 6.0]
    fg.testing.check_grads(lambda x: math.fsum(x**3), [np.array([0.3, 0.7])], order=2)
    point = np.array([0.3, -0.7, 1.1])
    for f in (
        lambda x: math.dist(x, [0.1, 0.2, 0.3]),
        lambda x: math.dist((0.1, x[0] * x[1], 0.3), tuple(x)),
        lambda x: math.hypot(*x),
        lambda x: math.hypot(x[1]),
        lambda x: math.prod(x) * math.prod([x[0], 2.0], start=x[2]),
    ):
        fg.testing.check_grads(f, [point], order=2)
        assert fg.jit(f)(point) == pytest.approx(f(point), rel=1e-15)
    assert fg.grad(lambda x: x * math.dist([0.0], [3.0]) * math.fsum([0.1] * 10))(1.0) == 3.0
    with pytest.raises(ValueError, match="dimensions"):
        fg.grad(lambda x: math.dist([x], [1.0, 2.0]))(1.0)


def test_integers():
    f = lambda n: math.gcd(n, 12) + math.lcm(n, 4) + math.comb(n, 2)  # noqa: E731
    assert fg.jvp(f, (18,), (None,))[0] == f(18)
    g = lambda n: math.gcd(n, 12) + math.lcm(4, n)  # noqa: E731
    assert fg.jit(g)(18) == g(18)
    h = lambda x: x * math.factorial(np.argmax(np.stack([x, 2 * x, 3 * x])))  # noqa: E731
    assert fg.grad(h)(1.0) == 2.0
    assert fg.grad(lambda x: math.floor(x) * math.sqrt(np.argmax(x) + 4))(1.5) == 0.0
    with pytest.raises(AbstractValueError):
        fg.jit(lambda x: math.floor(x), branches="error")(1.5)
    assert fg.jit(lambda x: math.floor(x))(1.5) == 1


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: math.sqrt(-x), ValueError, "domain"),
        (lambda x: math.log(x - x), ValueError, "domain|positive"),
        (lambda x: math.exp(x * 1e4), OverflowError, "range"),
        (lambda x: math.pow(-x, 0.5), ValueError, "domain"),
        (lambda x: math.acos(x + 1), ValueError, "domain|range"),
        (lambda x: math.fmod(x, 0.0), ValueError, "domain"),
        (lambda x: math.pow(x, "a"), TypeError, "real number"),
    ],
)
def test_errors_are_those_of_math_where_the_number_is_known(f, error, words):
    for run in (f, fg.grad(f), lambda x: fg.jvp(f, (x,), (x,)), fg.grad(fg.grad(f))):
        with pytest.raises(error, match=words):
            run(1.0)
    assert untouched()


def test_where_the_number_is_unknown_the_value_is_numpys():
    with np.errstate(all="ignore"):
        assert math.isnan(fg.jit(lambda x: math.sqrt(-x))(1.0))
        assert np.isnan(fg.vmap(lambda x: math.sqrt(-x))(np.ones(2))).all()
        assert fg.jit(lambda x: math.exp(x * 1e4))(1.0) == math.inf


def test_an_overflow_that_the_user_catches():
    def f(x):
        try:
            return math.exp(x)
        except OverflowError:
            return x * 0.0

    assert fg.grad(f)(1e4) == 0.0 and fg.grad(f)(1.0) == math.exp(1.0)


def test_arrays_and_complex_numbers_are_refused():
    for f in (lambda x: math.sin(np.ones(2) * x), lambda x: math.sin(1j * x)):
        with pytest.raises(ArgumentError, match=r"math\.sin takes a real .*test_of_math\.py"):
            fg.grad(f)(1.0)
    assert fg.grad(lambda x: math.sin(x))(np.array(1.0)) == math.cos(1.0)
    assert fg.grad(lambda x: math.sin(x * np.ones((1, 1))))(1.0) == math.cos(1.0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_math_is_untouched_after_an_exception(error):
    def f(x):
        assert math.sin is not ORIGINALS["sin"]
        raise error

    for transform in (fg.grad, fg.jit, fg.vmap, lambda f: fg.hessian(f)):
        with pytest.raises(error):
            transform(f)(np.ones(1))
        assert untouched()


def test_another_thread_keeps_maths_behaviour():
    inside, done, found = threading.Event(), threading.Event(), []

    def other():
        inside.wait(60)
        found.extend(
            [math.sqrt(4.0), math.fsum([0.1] * 10), math.dist([0.0], [2.0]), math.pow(2, 3)]
        )
        done.set()

    def f(x):
        inside.set()
        assert done.wait(60)
        return math.sqrt(x)

    thread = threading.Thread(target=other)
    thread.start()
    assert fg.grad(f)(4.0) == 0.25
    thread.join()
    assert found == [2.0, 1.0, 2.0, 8.0] and untouched()


def test_a_loop_of_math_is_compiled():
    def f(x):
        for _ in range(20):
            x = math.sin(x) + math.sqrt(math.fabs(x)) / math.pi
        return x

    assert fg.jit(f)(0.3) == pytest.approx(f(0.3), rel=1e-13)
    assert fg.jit(fg.grad(f))(0.3) == pytest.approx(fg.grad(f)(0.3), rel=1e-12)


@pytest.mark.parametrize("block", [fg.debug.trap, fg.no_gradient])
def test_functions_are_replaced_inside_of_a_block(block):
    def f(x):
        return math.sin(x) * np.asarray([x, 1.0])[0]

    wanted = math.cos(1.0) + math.sin(1.0)
    with block():
        assert fg.grad(f)(1.0) == pytest.approx(wanted, rel=1e-14)
        assert fg.jit(fg.grad(f))(1.0) == pytest.approx(wanted, rel=1e-14)
        assert fg.jvp(f, (1.0,), (1.0,))[1] == pytest.approx(wanted, rel=1e-14)
        second = 2 * math.cos(1.0) - math.sin(1.0)
        assert fg.grad(fg.grad(f))(1.0) == pytest.approx(second, rel=1e-14)


def test_a_trap_names_the_function_of_math_that_made_an_infinity():
    with fg.debug.trap(), pytest.raises(fg.errors.TrapError, match="backward pass of `sqrt`"):
        fg.grad(lambda x: math.sqrt(x * x))(0.0)
