"""Elementary and special functions in native code: errors in ulp, special values, lanes.

CASES has the exact function of each native form; what it lacks fails a test. Errors are measured
on ranges that a case names, and over all floats: from a grid over their bits, the tests find by
themselves where the exact function changes its sign, overflows, underflows, or ends, and look at
the floats around these points.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import pkgutil
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from native_loops import element_loop, ours

import fungrad.scipy.special
from fungrad.compiler.native.element_operations import apply
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Function, Module

mp = pytest.importorskip("mpmath")

Range = Callable[[Any, int], Any]
COUNT = 500


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


def _log_logistic(x: Any) -> Any:
    return -mp.log1p(mp.exp(-x)) if x >= 0 else x - mp.log1p(mp.exp(x))


def _log_of_sum(x: Any, y: Any) -> Any:
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


def _log2_of_sum(x: Any, y: Any) -> Any:
    return max(x, y) + mp.log1p(mp.mpf(2) ** -abs(x - y)) / mp.log(2)


def _tail(x: Any) -> Any:
    """erfc, which mpmath has no numbers for where it is less than exp(-1e6)."""
    return mp.erfc(x) if abs(x) < 1000 else mp.mpf(2 if x < 0 else 0)


def _log_gamma(x: Any) -> Any:
    if x > 0:  # infinite as SciPy's, which ends 0.14 % before the exact one overflows
        return mp.loggamma(x) if x <= 2.556348e305 else mp.inf
    return mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def _digamma(x: Any) -> Any:
    return mp.digamma(x) if x > 0 else mp.digamma(1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x)


def _of_difference(function: Callable[..., Any]) -> Callable[..., Any]:
    """The difference is rounded first, in double precision."""
    return lambda x, y: function(mp.mpf(float(x) - float(y)))


def _product_with(log: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: x * log(y) if x else x


def _entropy(x: Any) -> Any:
    return -x * mp.log(x) if x > 0 else x if x == 0 else -mp.inf


def _terms_at_poles(x: Any) -> Any:
    """Left of 0, the size of the terms that cancel at zeros of log gamma and digamma."""
    return abs(x) + abs(mp.pi / mp.tan(mp.pi * x)) if x < 0 else 0


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
    "tanh": (mp.tanh, np.tanh, [uniform(-3, 3), uniform(0.1, 0.2), uniform(-25, 25), SMALL]),
    "arcsinh": (mp.asinh, np.arcsinh, [uniform(-3, 3), exponents(-60, 1020)]),
    "arccosh": (mp.acosh, np.arccosh, [uniform(1, 3), near(1.0, 1), exponents(0, 1020, False)]),
    "arctanh": (mp.atanh, np.arctanh, UNIT),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), np.cbrt, [uniform(-9, 9), *POSITIVE[2:]]),
    "hypot": (mp.hypot, np.hypot, ON_PLANE),
    "power": (mp.power, np.power, [pairs(uniform(0, 9), uniform(-9, 9)), powers,
                                   pairs(near(1.0), exponents(0, 9))]),
    "logaddexp": (_log_of_sum, np.logaddexp, SUMS),
    "logaddexp2": (_log2_of_sum, np.logaddexp2, SUMS),
    "expit": (_logistic, None, [uniform(-3, 3), uniform(-740, 40), SMALL]),
    "log_expit": (_log_logistic, None, [uniform(-3, 3), uniform(-40, 40)]),
    "erf": (mp.erf, None, [uniform(-1, 1), uniform(-6, 6), SMALL]),
    "erfc": (_tail, None, [uniform(-1, 1), uniform(-6, 26), uniform(26, 27.2), SMALL]),
    "gammaln": (_log_gamma, None, [uniform(0, 2.5), uniform(2.5, 9), near(1.0), near(2.0),
                                    exponents(-1000, 1000, signs=False)]),
    "digamma": (_digamma, None, [uniform(0, 2), uniform(2, 9), near(1.4616321449683622),
                                   exponents(-900, 60, signs=False)]),
    "normal_cdf": (lambda x: _tail(-x / mp.sqrt(2)) / 2, None, [uniform(-1, 1), uniform(-6, 9),
                                                                 SMALL]),
    "exp_difference": (_of_difference(mp.exp), None, SUMS),
    "exp2_difference": (_of_difference(lambda x: mp.mpf(2) ** x), None, SUMS),
    "xlogy": (_product_with(mp.log), None, [pairs(uniform(-9, 9), uniform(0, 9))]),
    "entr": (_entropy, None, [uniform(0, 3), near(1.0), exponents(-1000, 1000, signs=False)]),
    "xlog1py": (_product_with(mp.log1p), None, [pairs(uniform(-9, 9), uniform(-1, 9))]),
}  # fmt: skip
"""By primitive's name: the exact function, NumPy's (None: SciPy's, if any), and ranges."""
TERMS: dict[str, Callable[..., Any]] = {
    "logaddexp": lambda x, y: max(abs(x), abs(y)),
    "logaddexp2": lambda x, y: max(abs(x), abs(y)),
    "gammaln": _terms_at_poles,
    "digamma": _terms_at_poles,
    "normal_cdf": lambda x: (1 + x * x) * _tail(-x / mp.sqrt(2)) / 2,
}
"""Where terms cancel, or the rounded argument of erfc makes the larger error, errors count in units
of the last place of these, if larger.
"""
PAGE = (Path(__file__).parents[2] / "docs" / "native.md").read_text(encoding="utf-8")
BOUNDS = {
    name: float(bound)
    for bound, names in re.findall(r"^\| ([\d.]+) ulp \| (.*) \|$", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
"""The bounds in double precision that the page states."""
[(_most, _larger)] = re.findall(
    r"In single precision all are within ([\d.]+) ulp, but (.*), which compute", PAGE
)
IN_SINGLE = dict.fromkeys(BOUNDS, float(_most)) | {
    name: float(bound) for name, bound in re.findall(r"`(\w+)` \(([\d.]+) ulp\)", _larger)
}


def bound_of(name: str, dtype: Any) -> float:
    return BOUNDS[name] if dtype is np.float64 else IN_SINGLE[name]


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


@functools.cache
def compiled(name: str, count: int, dtype: Any, lanes: int) -> Any:
    return element_loop(
        lambda code, *xs: apply(code, ours(name), xs, dtype), [dtype] * count, dtype, lanes
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_errors_are_below_their_bounds(name: str, dtype: Any) -> None:
    function, _, ranges = CASES[name]
    bound = bound_of(name, dtype)
    first = drawn(ranges[0], 0, dtype)
    f = compiled(name, len(first), dtype, 8)
    for seed, draw in enumerate(ranges):
        arguments = drawn(draw, seed, dtype)
        if dtype is np.float32:  # except values rounded to a zero, or to an end
            inside = [(x != 0) & (np.abs(x) != 1) for x in arguments]
            arguments = [x[np.logical_and.reduce(inside)][::2] for x in arguments]
            if not arguments[0].size:  # no such floats
                continue
        found = f(*arguments)
        wrong = error(found, *exact(function, arguments))
        if name in TERMS:
            wrong = [
                counted(name, x, y) if e > bound else e
                for e, y, *x in zip(wrong, found, *arguments, strict=True)
            ]
        worst = int(np.argmax(wrong))
        assert wrong[worst] <= bound, (draw, [x[worst] for x in arguments], wrong[worst])


def test_each_native_function_has_a_case() -> None:
    for package in (fungrad.scipy, fungrad.scipy.special):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    native = [p.name for p in FUNCTIONS if p.module.startswith("fungrad.")]
    assert len(set(native)) == len(native)
    assert set(native) == set(CASES) == set(BOUNDS)


# --- over all floats ------------------------------------------------------------------------------

Points = list[Any]


class Floats:
    """All finite floats of a dtype, numbered in their order; both zeros have the number 0."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.integer = dtype, np.int64 if dtype is np.float64 else np.int32
        self.largest = np.finfo(dtype).max
        self.last = int(self.largest.view(self.integer))

    def __getitem__(self, number: int) -> Any:
        size = self.integer(min(abs(number), self.last)).view(self.dtype)
        return -size if number < 0 else size

    def grid(self, count: int) -> list[int]:
        """From the lowest to the highest, and the ends of the subnormal numbers."""
        tiny = int(np.finfo(self.dtype).tiny.view(self.integer))
        ends = [tiny - 1, tiny, 1, 2]
        steps = np.linspace(-self.last, self.last, count).astype(object)
        return sorted({0, *map(int, steps), *ends, *[-n for n in ends]})


def _value(function: Callable[..., Any], point: Sequence[Any]) -> Any:
    """The exact value: NaN outside of the domain; None at a pole."""
    try:
        found = function(*[mp.mpf(float(x)) for x in point])
    except (ValueError, ZeroDivisionError):
        return None
    return found if isinstance(found, mp.mpf) else mp.nan


@functools.cache
def _ends(dtype: Any) -> list[Any]:
    """Where a positive value begins to be a subnormal number, a normal one, and infinite."""
    info = np.finfo(dtype)
    ends = [float(info.smallest_subnormal) / 2, float(info.tiny), float(info.max)]
    return [mp.mpf(end) for end in ends]


def _kind(value: Any, dtype: Any) -> Any:
    """Of what kind a value is: its sign, and whether it is finite, normal, or underflows."""
    if value is None or mp.isnan(value):
        return value is None
    return bool(value < 0), sum(bool(abs(value) > end) for end in _ends(dtype))


def _along(
    value: Callable[..., Any], floats: Floats, grid: Sequence[int], point: Points, place: int
) -> list[Points]:
    """Points along one argument: a grid, and the floats around changes of the kind."""

    def at(number: int) -> Points:
        return [*point[:place], floats[number], *point[place + 1 :]]

    def kind(number: int) -> Any:
        return _kind(value(*at(number)), floats.dtype)

    numbers, kinds = [], {n: kind(n) for n in grid}
    for low, high in itertools.pairwise(grid):
        first, second = kinds[low], kinds[high]
        while first != second and high - low > 1:
            middle = (low + high) // 2
            if kind(middle) == first:
                low = middle
            else:
                high, second = middle, kind(middle)
        if first != second:
            numbers += [low + sign * step for step in AROUND for sign in (1, -1)]
    return [at(n) for n in (*grid, *numbers) if abs(n) <= floats.last]


AROUND = (0, 1, 2, 3, 7, 50, 1000, 10**5, 10**7, 2**40, 2**50)


@functools.cache
def whole_range(name: str, dtype: Any) -> tuple[list[Any], list[Any]]:
    """Arguments over all floats, and the exact values."""
    function, floats = CASES[name][0], Floats(dtype)
    count = len(drawn(CASES[name][2][0], 0, dtype))
    value = functools.cache(lambda *point: _value(function, point))
    with mp.workprec(160):
        if count == 1:
            points = _along(value, floats, floats.grid(257), [None], 0)
        else:
            rng, points = np.random.default_rng(3), list[Points]()
            fixed = [dtype(x) for x in (0.75, -1.5, 2.0, 30.5, -200.0)]
            fixed += [floats[int(n)] for n in rng.integers(-floats.last, floats.last, 4)]
            for x, place in itertools.product(fixed, (0, 1)):
                points += _along(value, floats, floats.grid(33), [x, x], place)
        values = [value(*point) for point in points]
    kept = [n for n, value in enumerate(values) if value is not None]
    arrays = [np.array(column, dtype) for column in zip(*[points[n] for n in kept], strict=True)]
    return arrays, [values[n] for n in kept]


def counted(name: str, point: Points, found: Any, value: Any = None) -> float:
    """The error in units of the last place of the exact value, or of larger TERMS. The float after
    the last finite one counts as infinity.
    """
    info, arguments = np.finfo(found.dtype), [mp.mpf(float(x)) for x in point]
    with mp.workprec(160):
        value = CASES[name][0](*arguments) if value is None else value
        if mp.isnan(value) or np.isnan(found):
            return 0.0 if mp.isnan(value) and np.isnan(found) else math.inf
        beyond = mp.ldexp(1, info.maxexp)
        if mp.isinf(value) or abs(value) >= beyond:
            value = mp.sign(value) * beyond
        terms = TERMS[name](*arguments) if name in TERMS else 0
        size = found.dtype.type(float(min(max(abs(value), terms), float(info.max))))
        with np.errstate(over="ignore"):  # the unit of the last float is that of the one below
            unit = float(np.spacing(size))
        unit = unit if math.isfinite(unit) else beyond * info.epsneg
        got = mp.mpf(float(found)) if np.isfinite(found) else mp.sign(float(found)) * beyond
        return float(abs(got - value) / unit)


def worst_over_all_floats(name: str, dtype: Any) -> tuple[float, Points]:
    """The largest error, and its arguments."""
    arrays, values = whole_range(name, dtype)
    results = compiled(name, len(arrays), dtype, 8)(*arrays)
    worst: tuple[float, Points] = 0.0, []
    for n, value in enumerate(values):
        point = [x[n] for x in arrays]
        wrong = counted(name, point, results[n], value)
        if wrong > worst[0]:
            worst = wrong, [*point, results[n], value]
    return worst


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_errors_over_all_floats(name: str, dtype: Any) -> None:
    """Zeros of the function, overflow, underflow and subnormal numbers among them."""
    wrong, point = worst_over_all_floats(name, dtype)
    assert wrong <= bound_of(name, dtype), (wrong, point)


SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324,
    1e-310, -1e-310, 1e-300, 1e300, -1e300, 1e-40, -1e-40, 88.8, -104.0, 710.3, -745.3, -746.0,
    1e-20, -1e-20, -1e13, 1024.0, -1075.0, 22.0, -22.0, 1.5, -1.5, 2.5, -2.5, 10.0, 170.0,
]  # fmt: skip


def _scipy(name: str) -> Any:
    """SciPy's function, or what the evaluator computes where it has none."""
    special = pytest.importorskip("scipy.special")
    return getattr(special, name, ours(name).eval)


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
        count = len(ours(name).partials)
        arguments = [x.ravel() for x in np.meshgrid(*[points] * count)]
        expected = ufunc(*arguments)
        found = compiled(name, count, dtype, 4)(*arguments)
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


def edges(dtype: Any) -> Any:
    """Powers of two, where formulas change, with their neighbours, up to the largest floats."""
    info = np.finfo(dtype)
    powers_ = np.exp2(np.arange(info.minexp - info.nmant, info.maxexp, dtype=float)).astype(dtype)
    last = (info.max * np.linspace(0.5, 1.0, 99)).astype(dtype)
    x = np.concatenate([powers_, last, [np.sqrt(info.max)]]).astype(dtype)
    x = np.concatenate([x, np.nextafter(x, dtype(0)), np.nextafter(x[x < info.max], dtype(np.inf))])
    return np.concatenate([x, -x])


@pytest.mark.parametrize(
    "name", [n for n, (_, _, ranges) in CASES.items() if len(drawn(ranges[0], 0, np.float64)) == 1]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_at_powers_of_two_and_the_largest_floats(name: str, dtype: Any) -> None:
    function, ufunc, _ = CASES[name]
    x = edges(dtype)
    if name in ("gammaln", "digamma"):
        x = x[x > 0]
    with np.errstate(all="ignore"):
        expected, found = (ufunc or _scipy(name))(x), compiled(name, 1, dtype, 8)(x)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        same |= np.abs(found - expected) <= np.spacing(np.abs(expected))
    assert np.isnan(found[~same]).sum() == 0
    if not same.all():  # SciPy is not exact everywhere
        wrong = error(found[~same], *exact(function, [x[~same]]))
        assert wrong.max() <= bound_of(name, dtype), (
            x[~same][wrong.argmax()],
            found[~same][wrong.argmax()],
        )


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
        known = ~np.isnan(found)  # the sign of NaN depends on the order of operands
        assert np.array_equal(np.signbit(found[known]), np.signbit(expected[known]))


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
    assert all(FUNCTIONS[ours(name)].nanoseconds > 0 for name in CASES)


@pytest.mark.parametrize("name", ["erf", "erfc", "normal_cdf", "gammaln", "digamma"])
def test_special_functions_of_single_precision_are_shorter(name: str) -> None:
    lengths = []
    for type in ("float", "double"):
        code = Function(Module(), "f", type, [(type, "x")])
        code.ret(FUNCTIONS[ours(name)](code, *code.parameters))
        lengths.append(len(code))
    assert lengths[0] < 0.8 * lengths[1]
