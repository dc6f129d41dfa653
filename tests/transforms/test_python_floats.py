"""Reverse mode on Python floats, which records derivatives (transforms/engine/operators.py):
against forward mode, which runs the rules, and against plain Python.
"""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import fungrad as fg
from fungrad.interception.math_functions import OF_NUMBERS, SPECIAL
from fungrad.primitives.elementwise.on_floats import on_floats, slope
from fungrad.primitives.primitive import Primitive
from fungrad.tracing.trace import registry

POINTS = (0.3, 2.5, -0.7, 1.0, 0.0, 1e-310, 1e300, math.inf, math.nan)
NAMES = """acos acosh asin asinh atan atanh cbrt cos cosh degrees erf erfc exp exp2 expm1 fabs gamma
lgamma log log10 log1p log2 sin sinh sqrt tan tanh"""
UNARY = [name for name in NAMES.split() if hasattr(math, name)]
BINARY = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "pow")},
    **{f"math.{name}": getattr(math, name) for name in ("atan2", "hypot", "pow", "fmod")},
}


def result(call):
    """A function's numbers, or the class of its error."""
    try:
        with np.errstate(all="ignore"):
            return [float(found) for found in call()]
    except (ValueError, OverflowError) as error:
        return type(error)


def check(call):
    """Compares numbers with those of the rules, which run inside of another transform."""
    found = result(call)
    wanted = result(lambda: fg.vjp(lambda unused: tuple(call()), 0.0)[0])
    if isinstance(wanted, type) or isinstance(found, type):
        assert found is wanted
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=0, equal_nan=True)
    return found


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_math_have_their_values_and_the_derivatives_of_their_rules(name):
    def f(x):
        return getattr(math, name)(x) * 3.0

    for x in POINTS:
        if not isinstance(check(lambda x=x: [fg.grad(f)(x)]), type):
            assert result(lambda x=x: fg.value_and_grad(f)(x))[0] == f(x) or x != x


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name):
    def f(x, y):
        return BINARY[name](x, y) * 1.5

    for x in POINTS:
        for y in (0.5, -2.0, 3, 0, 1e-310, math.inf):
            check(lambda x=x, y=y: fg.grad(f, (0, 1))(x, float(y)))
            check(lambda x=x, y=y: [fg.grad(lambda x: f(x, y))(x)])
            check(lambda x=x, y=y: [fg.grad(lambda x: f(y, x))(x)])


@pytest.mark.parametrize("name", sorted({*OF_NUMBERS, *SPECIAL} - {"fma", "pow", "ulp"}))
def test_partials_of_declarations_run_on_floats(name):
    ufunc = OF_NUMBERS.get(name)
    if ufunc is None:
        ufunc = getattr(pytest.importorskip("scipy.special"), SPECIAL[name])
        fg.scipy.special.erf, fg.scipy.special.gammaln  # noqa: B018 - declares them
    primitive = registry.ufuncs[ufunc]
    assert isinstance(primitive, Primitive)
    args = [1.5 if name == "acosh" else 0.5, 0.75][: len(primitive.slopes)]
    value = float(primitive.eval(*args))
    for position, partial in enumerate(primitive.slopes):
        if partial is not None:
            scaled = primitive.partials[position](np.float64(1.0), value, args)
            assert float(slope(primitive, position)(value, *args)) == pytest.approx(
                scaled, rel=1e-14
            )


def test_scalar_forms_are_the_primitives_on_floats():
    select = on_floats(registry.ufuncs[np.maximum])
    assert select(1.0, 2.0) == 2.0 and select(3.0, 2.0) == 3.0
    assert on_floats(registry.ufuncs[np.sin]) is math.sin
    assert on_floats(registry.ufuncs[np.floor]) is None


def loop(x):
    y = 1.0
    for _ in range(4):
        x = math.sin(x) * y + x / (1.0 + y * y) - x**2 / 7.0
        y = abs(y - 0.3 * x) if y > 0.5 else 2.0 - y
    return x + y


def test_a_loop_at_orders_one_and_two_eager_staged_and_batched():
    x, step = 0.8, 1e-5
    slope_ = fg.grad(loop)(x)
    assert type(slope_) is np.float64
    assert slope_ == pytest.approx((loop(x + step) - loop(x - step)) / (2 * step), rel=1e-8)
    second = fg.grad(fg.grad(loop))(x)
    ends = [fg.grad(loop)(x + sign * step) for sign in (1, -1)]
    assert second == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-8)
    assert fg.jit(fg.grad(loop), branches="guard")(x) == pytest.approx(slope_, rel=1e-14)
    value, pullback = fg.vjp(loop, x)
    assert value == loop(x) and pullback(2.0)[0] == pytest.approx(2 * slope_, rel=1e-15)
    many = np.array([1.0, -2.0, 0.0])
    for transform in (fg.vmap(pullback), fg.jit(fg.vmap(pullback))):
        np.testing.assert_allclose(transform(many)[0], many * slope_, rtol=1e-14)
    assert fg.grad(lambda c: pullback(c * c)[0])(3.0) == pytest.approx(6 * slope_, rel=1e-14)


def test_floats_and_arrays_share_a_tape():
    def f(x):
        y = math.exp(x) * 2.0
        z = np.sum(np.arange(3.0) * y) + np.maximum(x * 3.0, 10.0) * y
        return z / y + float(np.float64(y)) * x

    wanted = fg.jvp(f, (0.5,), (1.0,))[1]
    assert fg.grad(f)(0.5) == pytest.approx(wanted, rel=1e-14)


def test_a_zero_behind_a_mask_stays_zero():
    def f(x):
        return np.maximum(1.0 / (x * x), np.inf) + x

    assert fg.grad(lambda x: np.where(x > 0.0, math.sqrt(x), 0.0) + x)(1e-320) > 1e150
    assert fg.grad(f)(2.0) == 1.0
    assert fg.grad(lambda x: np.where(x > 5.0, x * math.inf, x))(2.0) == 1.0


def test_an_unused_result_is_pruned_and_an_escaped_one_is_named():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        math.sqrt(x)
        return x * 3.0

    assert fg.vjp(f, 4.0)[1](1.0) == (3.0,)
    fg.grad(f)(4.0)
    with pytest.raises(fg.errors.LeakedTracerError, match="made by `mul`"):
        fg.grad(lambda x: x * kept[-1])(1.0)


def test_a_quotient_keeps_the_digits_of_a_division():
    tiny = 1e-310
    with np.errstate(over="ignore"):
        assert fg.grad(lambda x: (x / tiny) * 1e-20)(1.0) == 1e-20 / tiny
    assert fg.grad(lambda x: 1e-10 * math.log(x))(tiny) == pytest.approx(1e-10 / tiny, rel=1e-14)
    assert fg.grad(lambda y: (1e-300 / y) * 1e300)(1e20) == pytest.approx(-1e-40, rel=1e-14)


@pytest.mark.parametrize("factor", [3, 3.0, -2], ids=str)
def test_cotangents_of_elements_keep_their_fraction_through_whole_factors(factor):
    def written(x):
        a = np.zeros(2)
        a[0] = factor * x
        a[1] = x
        return a[0] * 0.7

    def read(x):
        a = np.zeros(2, complex)
        for n in range(2):
            a[n] = (factor * x) * np.sin(x + n)
        return np.conjugate(a)[0].real

    for f in (written, read):
        slope = fg.jvp(f, (3.3,), (1.0,))[1]
        assert fg.grad(f)(3.3) == pytest.approx(slope, rel=1e-14)
        assert fg.jit(fg.grad(f))(3.3) == pytest.approx(slope, rel=1e-14)
    curvature = fg.jvp(lambda x: fg.jvp(read, (x,), (1.0,))[1], (3.3,), (1.0,))[1]
    assert fg.hessian(read)(3.3) == pytest.approx(curvature, rel=1e-13)
