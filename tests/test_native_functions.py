"""Elementary and special functions in native code: errors in ulp, special values, lanes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from native_loops import element_loop, ours

from fungrad.compiler.native.element_operations import apply
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Function, Module

mp = pytest.importorskip("mpmath")

Range = Callable[[Any, int], Any]
COUNT = 1000


def uniform(low: float, high: float) -> Range:
    return lambda rng, n: rng.uniform(low, high, n)


def exponents(low: float, high: float, signs: bool = True) -> Range:
    """Of all magnitudes between two powers of two."""

    def draw(rng: Any, n: int) -> Any:
        return np.exp2(rng.uniform(low, high, n)) * (rng.choice([-1.0, 1.0], n) if signs else 1.0)

    return draw


def near(point: float, sign: int = 0) -> Range:
    """At all distances from a point, on both sides or on one."""

    def draw(rng: Any, n: int) -> Any:
        step = np.exp2(rng.uniform(-52, -1, n)) * (sign or rng.choice([-1.0, 1.0], n))
        return point + step

    return draw


def pairs(first: Range, second: Range) -> Range:
    return lambda rng, n: (first(rng, n), second(rng, n))


def powers(rng: Any, n: int) -> Any:
    """Powers of all magnitudes that floats have."""
    x = np.exp2(rng.uniform(-1000, 1000, n))
    return x, rng.uniform(-1070, 1020, n) / np.log2(x)


def multiples(rng: Any, n: int) -> Any:
    return np.round(rng.uniform(1, 1e6, n)) * (math.pi / 2)


ANGLES = [uniform(-4, 4), uniform(-1e5, 1e5), exponents(-60, 0), exponents(26.9, 1023), multiples]
SUBNORMAL = exponents(-1073, -1022, signs=False)
REAL, SMALL = [uniform(-3, 3), uniform(-700, 700)], exponents(-60, 0)
POSITIVE = [uniform(0.3, 3), near(1.0), exponents(-1022, 1023, signs=False), SUBNORMAL]
UNIT = [uniform(-1, 1), SMALL, near(1.0, -1), near(-1.0, 1)]
ON_PLANE = [
    pairs(uniform(-3, 3), uniform(-3, 3)),
    pairs(exponents(-1060, 1023), exponents(-1060, 1023)),
]
SUMS = [pairs(uniform(0, 9), uniform(0, 9)), pairs(uniform(-99, 99), uniform(-99, 99))]


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _log_of_exponentials(x: Any, y: Any) -> Any:
    return mp.log(mp.exp(x) + mp.exp(y))


Case = tuple[Callable[..., Any], Any, list[Range]]
CASES: dict[str, Case] = {
    "exp": (mp.exp, np.exp, [*REAL, uniform(-745, -708), SMALL]),
    "exp2": (lambda x: mp.mpf(2) ** x, np.exp2, [uniform(-3, 3), uniform(-1074, 1024), SMALL]),
    "expm1": (mp.expm1, np.expm1, [*REAL, SMALL]),
    "log": (mp.log, np.log, POSITIVE),
    "log2": (lambda x: mp.log(x) / mp.log(2), np.log2, POSITIVE),
    "log10": (mp.log10, np.log10, POSITIVE),
    "log1p": (mp.log1p, np.log1p, [uniform(-0.99, 3), SMALL, exponents(0, 1020, signs=False)]),
    "sin": (mp.sin, np.sin, ANGLES),
    "cos": (mp.cos, np.cos, ANGLES),
    "tan": (mp.tan, np.tan, ANGLES),
    "arcsin": (mp.asin, np.arcsin, UNIT),
    "arccos": (mp.acos, np.arccos, UNIT),
    "arctan": (mp.atan, np.arctan, [uniform(-4, 4), exponents(-60, 1000)]),
    "arctan2": (mp.atan2, np.arctan2, ON_PLANE),
    "sinh": (mp.sinh, np.sinh, [*REAL, SMALL, uniform(708, 710.4)]),
    "cosh": (mp.cosh, np.cosh, [*REAL, SMALL, uniform(708, 710.4)]),
    "tanh": (mp.tanh, np.tanh, [uniform(-3, 3), uniform(-25, 25), SMALL]),
    "arcsinh": (mp.asinh, np.arcsinh, [uniform(-3, 3), exponents(-60, 1020)]),
    "arccosh": (mp.acosh, np.arccosh, [uniform(1, 3), near(1.0, 1), exponents(0, 1020, False)]),
    "arctanh": (mp.atanh, np.arctanh, UNIT),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), np.cbrt, [uniform(-9, 9), *POSITIVE[2:]]),
    "hypot": (mp.hypot, np.hypot, ON_PLANE),
    "power": (mp.power, np.power, [pairs(uniform(0, 9), uniform(-9, 9)), powers,
                                   pairs(near(1.0), exponents(0, 9))]),
    "logaddexp": (_log_of_exponentials, np.logaddexp, SUMS),
    "logaddexp2": (lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y) / mp.log(2), np.logaddexp2,
                   SUMS),
    "expit": (_logistic, None, [uniform(-3, 3), uniform(-740, 40), SMALL]),
    "log_expit": (lambda x: mp.log(_logistic(x)), None, [uniform(-3, 3), uniform(-40, 40)]),
    "erf": (mp.erf, None, [uniform(-1, 1), uniform(-6, 6), SMALL]),
    "erfc": (mp.erfc, None, [uniform(-1, 1), uniform(-6, 26), uniform(26, 27.2), SMALL]),
    "gammaln": (mp.loggamma, None, [uniform(0, 2.5), uniform(2.5, 9), near(1.0), near(2.0),
                                    exponents(-1000, 1000, signs=False)]),
    "digamma": (mp.digamma, None, [uniform(0, 2), uniform(2, 9), near(1.4616321449683622),
                                   exponents(-900, 60, signs=False)]),
}  # fmt: skip
BOUND = 2.0


def exact(function: Callable[..., Any], arguments: list[Any]) -> tuple[Any, Any]:
    """Values as sums of two doubles."""
    with mp.workprec(160):
        points = zip(*[x.tolist() for x in arguments], strict=True)
        found = [function(*map(mp.mpf, point)) for point in points]
        high = np.array([float(value) for value in found])
        low = np.array([
            float(value - mp.mpf(h)) if math.isfinite(h) else 0.0
            for value, h in zip(found, high.tolist(), strict=True)
        ])  # fmt: skip
    return high, low


def error(found: Any, high: Any, low: Any) -> Any:
    """The error in units of the last place of the exact value, in the dtype of the result."""
    with np.errstate(all="ignore"):
        rounded = high.astype(found.dtype)
        ulp = np.spacing(np.abs(rounded)).astype(np.float64)
        wrong = np.abs((found.astype(np.float64) - high) - low) / ulp
    return np.where(np.isfinite(rounded), wrong, np.where(found == rounded, 0.0, np.inf))


def drawn(draw: Range, seed: int, dtype: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        points = draw(np.random.default_rng(seed), COUNT)
        points = points if isinstance(points, tuple) else (points,)
        arrays = [np.asarray(x).astype(dtype) for x in points]
    kept = np.logical_and.reduce([np.isfinite(x) for x in arrays])
    return [x[kept] for x in arrays]


def compiled(name: str, count: int, dtype: Any, lanes: int) -> Any:
    return element_loop(
        lambda code, *xs: apply(code, ours(name), xs, dtype), [dtype] * count, dtype, lanes
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_errors_are_below_two_ulp(name: str, dtype: Any) -> None:
    function, _, ranges = CASES[name]
    first = drawn(ranges[0], 0, dtype)
    f = compiled(name, len(first), dtype, 8)
    for seed, draw in enumerate(ranges):
        arguments = drawn(draw, seed, dtype)
        if dtype is np.float32:  # except values rounded to a zero, or to an end
            inside = [(x != 0) & (np.abs(x) != 1) for x in arguments]
            arguments = [x[np.logical_and.reduce(inside)][::4] for x in arguments]
            if not arguments[0].size:  # no such floats
                continue
        wrong = error(f(*arguments), *exact(function, arguments))
        worst = int(np.argmax(wrong))
        assert wrong[worst] <= BOUND, (draw, [x[worst] for x in arguments], wrong[worst])


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324,
    1e-310, -1e-310, 1e-300, 1e300, -1e300, 1e-40, -1e-40, 88.8, -104.0, 710.3, -745.3, -746.0,
    1e-20, -1e-20, -1e13, 1024.0, -1075.0, 22.0, -22.0, 1.5, -1.5, 2.5, -2.5, 10.0, 170.0,
]  # fmt: skip


def _scipy(name: str) -> Any:
    special = pytest.importorskip("scipy.special")
    return getattr(special, name)


@pytest.mark.parametrize(("dtype", "rest"), [(np.float64, 1e-15), (np.float32, 1.2e-7)])
def test_gamma_functions_of_negative_numbers(dtype: Any, rest: float) -> None:
    """Between the poles the error is absolute: of the terms that cancel at their zeros."""
    x = -np.random.default_rng(0).uniform(0, 40, 1000).astype(dtype)
    for name, function in (
        ("gammaln", lambda x: mp.log(abs(mp.gamma(x)))),
        ("digamma", mp.digamma),
    ):
        high, _ = exact(function, [x])
        size = np.abs(high) + np.abs(x) + np.abs(np.pi / np.tan(np.pi * x))
        assert (np.abs(compiled(name, 1, dtype, 8)(x) - high) <= rest * size).all()
    poles = -np.arange(1.0, 9.0)
    assert np.isposinf(compiled("gammaln", 1, np.float64, 8)(poles)).all()
    assert np.isnan(compiled("digamma", 1, np.float64, 8)(poles)).all()


def test_functions_composed_of_others() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=400), rng.uniform(0.1, 9, 400)
    x[:3], y[:3] = [np.inf, -np.inf, 0.0], [np.inf, -np.inf, 0.0]

    def near(name: str, expected: Any) -> None:
        found = compiled(name, 2, np.float64, 8)(x, y)
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        inside = np.isfinite(expected)
        assert np.array_equal(found[~inside], expected[~inside], equal_nan=True)
        assert (np.abs(found - expected) <= 3 * np.spacing(np.abs(expected)))[inside].all()

    with np.errstate(all="ignore"):
        d = np.where(x == y, 0.0, x - y)
        near("exp_difference", np.exp(d))
        near("exp2_difference", np.exp2(d))
        near("xlogy", np.where(x == 0, 0.0, x * np.log(y)))
        near("xlog1py", np.where(x == 0, 0.0, x * np.log1p(y)))
    cdf = compiled("normal_cdf", 1, np.float64, 8)(x)
    expected = np.array([0.5 * math.erfc(v * -math.sqrt(0.5)) for v in x.tolist()])
    assert np.allclose(cdf, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_values_are_those_of_numpy(name: str, dtype: Any) -> None:
    ufunc = CASES[name][1] or _scipy(name)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = np.array(SPECIAL).astype(dtype)
        if name in ("gammaln", "digamma"):  # SciPy is not exact next to zero and left of -3
            points = points[(points == 0) | (np.abs(points) > 1e-30) & ~(points < -3)]
        arguments = [x.ravel() for x in np.meshgrid(*[points] * ufunc.nin)]
        expected = ufunc(*arguments)
        found = compiled(name, ufunc.nin, dtype, 4)(*arguments)
        close = np.abs(found - expected) <= 4 * np.spacing(np.abs(expected))
        if name in (
            "expit",
            "logaddexp",
            "logaddexp2",
            "gammaln",
            "digamma",
        ):
            close |= np.abs(found - expected) <= 4 * np.finfo(dtype).eps
        same = close | (found == expected) | (np.isnan(found) & np.isnan(expected))
        signs = (np.signbit(found) == np.signbit(expected)) | np.isnan(expected)
    wrong = np.flatnonzero(~(same & signs))
    assert not wrong.size, [(x[wrong[0]], found[wrong[0]], expected[wrong[0]]) for x in arguments]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lanes_give_what_scalars_do(name: str, dtype: Any) -> None:
    """Whatever stands in the other lanes: rare arguments among common ones."""
    _, _, ranges = CASES[name]
    parts = [drawn(draw, seed, dtype) for seed, draw in enumerate(ranges)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    order = np.random.default_rng(7).permutation(columns[0].size + special.size)
    columns = [np.concatenate([column, special])[order] for column in columns]
    expected = compiled(name, len(columns), dtype, 1)(*columns)
    for lanes in (4, 16):
        found = compiled(name, len(columns), dtype, lanes)(*columns)
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("n", [3, 4, 5, 7, 12, 64, -2, -3, -7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_powers_by_known_integers(n: int, dtype: Any) -> None:
    """Nearest floats where they are normal, and so equal to any where these are exact."""
    f = element_loop(lambda code, x: apply(code, ours("power"), [x, n], dtype), [dtype], dtype, 8)
    last = (960.0 if dtype is np.float64 else 120.0) / abs(n)
    for draw in (uniform(-3, 3), exponents(-last, last)):
        (x,) = drawn(draw, 0, dtype)
        x = x[np.abs(np.log2(np.abs(x))) < last]
        assert error(f(x), *exact(lambda x: x**n, [x])).max() < 0.52
    if 0 < n < 8:
        whole = np.arange(1, 9).astype(dtype)
        assert (f(whole) == whole**n).all()
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-44], dtype)
    with np.errstate(all="ignore"):
        expected = special ** dtype(n)
        found = f(special)
        close = np.abs(found - expected) <= 2 * np.spacing(np.abs(expected))
    assert (close | (found == expected) | np.isnan(expected)).all()
    assert np.array_equal(np.isnan(found), np.isnan(expected))


def test_costs_are_known() -> None:
    assert all(form.nanoseconds > 0 for form in FUNCTIONS.values())


@pytest.mark.parametrize("name", ["erf", "erfc", "normal_cdf", "gammaln", "digamma"])
def test_special_functions_of_single_precision_are_shorter(name: str) -> None:
    lengths = []
    for type in ("float", "double"):
        code = Function(Module(), "f", type, [(type, "x")])
        code.ret(FUNCTIONS[ours(name)](code, *code.parameters))
        lengths.append(len(code))
    assert lengths[0] < 0.8 * lengths[1]
