"""Complex numbers as native code: bits, special values, layouts, sums, loops, derivatives."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native, loops_over_arrays

import fungrad as fg
from fungrad import lax
from fungrad.compiler.native import backend

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
rng = np.random.default_rng(11)
DTYPES = (np.complex128, np.complex64)
_PARTS = [0.0, -0.0, 1.0, -1.5, 3.0, np.inf, -np.inf, np.nan, 1e-30, 1e30]
SPECIAL = np.array([complex(x, y) for x, y in itertools.product(_PARTS, repeat=2)])


def numbers(*shape: int) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def pairs(dtype: Any) -> tuple[Any, Any]:
    """All pairs of special numbers, and some others."""
    x, y = np.array(list(itertools.product(SPECIAL, repeat=2))).T
    return np.append(x, numbers(37)).astype(dtype), np.append(y, numbers(37)).astype(dtype)


def native(f: Callable[..., Any], *args: Any) -> Any:
    """f(*args) by a program that must be native."""
    graph = fg.make_jaxpr(f)(*args)
    runner = backend.Native().compile(graph)
    assert hasattr(getattr(runner, "__self__", None), "text"), graph.derived
    found = runner(*fg.tree_util.tree_leaves(args))
    return found[0] if len(found) == 1 else tuple(found)


def by_arrays(f: Callable[..., Any], *args: Any) -> Any:
    with loops_over_arrays():
        return native(f, *args)


def by_elements(f: Callable[..., Any], *args: Any) -> Any:
    """f of each element of arrays, by a loop over them as a scalar program."""
    return native(lambda *xs: lax.scan(lambda c, x: (c, f(*x)), 0.0, xs)[1], *args)


def same(found: Any, expected: Any) -> None:
    """Equal bits of both parts, but for those of NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    for x, y in ((found.real, expected.real), (found.imag, expected.imag)):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x) & (x == x), np.signbit(y) & (y == y))


def plain_product(x: Any, y: Any) -> Any:
    """NumPy's formula, each term rounded; its loops fuse one product with the sum."""
    made = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x, y))
    made.real = x.real * y.real - x.imag * y.imag
    made.imag = x.real * y.imag + x.imag * y.real
    return made


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "div": lambda x, y: x / y,
    "div by real": lambda x, y: x / y.real,
    "real by complex": lambda x, y: x.real / y,
    "add real": lambda x, y: x.imag + y,
    "neg": lambda x, y: -x,
    "conj": lambda x, y: np.conj(x),
    "reciprocal": lambda x, y: np.reciprocal(x),
    "real": lambda x, y: np.real(x),
    "imag": lambda x, y: np.imag(x),
    "complex": lambda x, y: lax.complex(x.real, y.imag),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "where": lambda x, y: np.where(x.real > y.real, x, y.imag),
    "truth": lambda x, y: np.logical_and(x, np.logical_not(y)),
    "tests": lambda x, y: (np.isnan(x), np.isinf(x), np.isfinite(x)),
    "to complex64": lambda x, y: x.astype(np.complex64) + y.astype(np.complex64),
    "to complex128": lambda x, y: x.astype(np.complex128) - y.real,
    "to bool": lambda x, y: x.astype(bool),
    "cube": lambda x, y: (x + 0) ** 3,
    "powers": lambda x, y: (x**0, x**1, x**-1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_numpys_to_the_bit(name: str, dtype: Any) -> None:
    f, (x, y) = ARITHMETIC[name], pairs(dtype)
    expected = f(x, y)
    if name == "cube":
        expected = plain_product(x + 0, plain_product(x + 0, x + 0))
        expected[x == 0] = 0
    for found in (by_arrays(f, x, y), by_elements(f, x, y)):
        for a, b in zip(
            found if isinstance(found, tuple) else [found],
            expected if isinstance(expected, tuple) else [expected],
            strict=True,
        ):
            same(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_have_the_plain_formula(dtype: Any) -> None:
    x, y = pairs(dtype)
    for way in (by_arrays, by_elements):
        same(way(lambda x, y: x * y, x, y), plain_product(x, y))
        same(way(lambda x, y: x * y.real, x, y), plain_product(x, y.real.astype(dtype)))
        same(way(np.square, x), plain_product(x, x))


@pytest.mark.parametrize("n", [-99, -7, -3, -2, 4, 5, 6, 7, 12, 99])
def test_integer_powers_are_products_in_numpys_order(n: int) -> None:
    x = np.append(SPECIAL, numbers(31))
    expected = np.array([z**n for z in x])  # NumPy's numbers: no fused products
    for found in (by_arrays(lambda x: x**n, x), by_elements(lambda x: x**n, x)):
        same(found, expected)


# --- shapes, layouts, sums ------------------------------------------------------------------------


def check(f: Callable[..., Any], *args: Any, ulp: float = 0.0) -> None:
    """A jitted function, natively, against NumPy: the sizes of their differences in units of the
    last place of the largest number.
    """
    run = fg.jit(f)
    found = fg.tree_util.tree_leaves(run(*args))
    lowered = run.lower(*args)
    assert any(map(is_native, lowered.parts)), lowered.refused
    fg.config.backend = "numpy"
    expected = fg.tree_util.tree_leaves(fg.jit(f)(*args))
    fg.config.backend = "native"
    for x, y in zip(map(np.asarray, found), map(np.asarray, expected), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        eps = np.finfo(y.dtype).eps if y.dtype.kind in "fc" else 0.0
        size = np.max(np.abs(y), initial=0.0)
        assert np.all(np.abs(x - y) <= ulp * eps * size), (x, y)


LENGTHS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 4095, 4096, 4097, 8193]


def mixed(x: Any, y: Any) -> Any:
    return x - y, x / y, np.where(x.real > 0, -y, 1j), (x + y).imag


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_of_arrays(n: int) -> None:
    x, y = numbers(n), numbers(n)
    for found, expected in zip(by_arrays(mixed, x, y), mixed(x, y), strict=True):
        same(found, expected)


def moves(x: Any, y: Any) -> Any:
    z = np.conj(x) + y - 2j
    return (
        z,
        z[..., ::-1],
        z.T,
        np.stack([x + 1.0, y - x]),
        np.concatenate([x, z.real]),
        x[1:, None],
    )


@pytest.mark.parametrize("shape", [(1,), (3, 5), (70, 9), (0, 3)])
def test_layouts_broadcasting_and_moves(native: None, shape: tuple[int, ...]) -> None:
    wide, read_only = numbers(*shape, 2), numbers(*shape)
    read_only.flags.writeable = False
    for x in (wide[..., 0], np.asfortranarray(wide[..., 1]), read_only, wide[::-1, ..., 0]):
        for y in (np.float64(2.5), numbers(*shape[-1:])):
            for a, b in zip(fg.jit(moves)(x, y), moves(x, y), strict=True):
                same(a, b)


@pytest.mark.parametrize("x", [1.5 - 2j, np.complex128(0.5j), np.array(2 + 1j), np.complex64(1j)])
def test_single_numbers(native: None, x: Any) -> None:
    f = fg.jit(lambda x: (x + 1, x / 2, -x, abs(x) > 1, x.real - x.imag))
    assert f.lower(x).native
    for a, b in zip(f(x), (x + 1, x / 2, -x, abs(x) > 1, x.real - x.imag), strict=True):
        same(a, b)


def test_writes_and_reads_by_index(native: None) -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.copy()
        z[2:40] = y
        z[5:] += 1j
        return z, np.where(z == 0, 1, z)[3:7]

    x = numbers(50)
    assert fg.jit(f).lower(x, 2.0).native
    for a, b in zip(fg.jit(f)(x, 2.0), f(x, 2.0), strict=True):
        same(a, b)


@pytest.mark.parametrize("shape", [(77,), (4097,), (30_000,), (40, 300), (7, 5, 90)])
def test_sums_are_those_of_the_parts(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    for axis in (None, 0, -1):
        total = functools.partial(np.sum, axis=axis)
        found, expected = by_arrays(total, x), total(x)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15 * x.size)
        if len(shape) == 1:  # other shapes have loops along other axes
            same(found, by_arrays(total, x.real.copy()) + 1j * by_arrays(total, x.imag.copy()))


def test_products_of_vectors_and_small_matrices(native: None) -> None:
    a, b, x = numbers(5, 4), numbers(4, 6), rng.normal(size=4)
    for f in (lambda a, b, x: a @ b, lambda a, b, x: (a @ x) @ (x @ b)[:5]):
        check(f, a, b, x, ulp=8)
    check(lambda x, y: x @ y, numbers(3000), numbers(3000), ulp=200)


# --- functions ------------------------------------------------------------------------------------


FUNCTIONS = (np.exp, np.sqrt, np.log, np.sin, np.cos, np.sinh, np.cosh)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_functions_and_their_special_values(f: Any, dtype: Any) -> None:
    wide = 10.0 ** rng.uniform(-30, 30, (2, 200)) * rng.choice([-1, 1], (2, 200))
    turned = np.exp(1j * rng.uniform(-4, 4, 100))
    far = rng.uniform(705, 1425, 50) + 1j * 10.0 ** rng.uniform(-300, 0, 50)
    x = np.concatenate([SPECIAL, numbers(500), wide[0] + 1j * wide[1], turned, 1 - 1e-9 * turned])
    x = np.append(x, far).astype(dtype)
    expected = f(x)
    for found in (by_arrays(f, x), by_elements(f, x)):
        assert found.dtype == dtype
        for a, b in ((found.real, expected.real), (found.imag, expected.imag)):
            near = np.abs(a - b) <= 5 * np.spacing(np.abs(b))
            near |= (a == b) | (np.isnan(a) & np.isnan(b))
            near &= (np.signbit(a) == np.signbit(b)) | np.isnan(b)
            assert near.all(), (x[~near], found[~near], expected[~near])


@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_and_angles(dtype: Any) -> None:
    x = np.append(SPECIAL, numbers(100)).astype(dtype)
    for f in (np.abs, np.angle):
        a, b = by_arrays(f, x), f(x)
        assert a.dtype == b.dtype
        near = (np.abs(a - b) <= 2 * np.spacing(np.abs(b))) | (a == b) | (np.isnan(a) & np.isnan(b))
        assert near.all(), (x[~near], a[~near], b[~near])


@pytest.mark.parametrize("f", [np.arcsin, np.arctanh, np.log1p, lambda x: x**1.5, lambda x: x**x])
def test_functions_without_a_rule_are_refused(native: None, f: Any) -> None:
    lowered = fg.jit(f).lower(numbers(2000))
    name = getattr(f, "__name__", "").replace("<lambda>", "power")
    assert lowered.native == ""
    assert any(f"{name} of complex numbers" in str(reason) for reason in lowered.refused)
    same(fg.jit(f)(x := numbers(2000)), f(x))


# --- loops and derivatives ------------------------------------------------------------------------


def mandelbrot(c: Any) -> Any:
    sizes = lax.scan(lambda z, _: (z * z + c, abs(z)), 0 * c, None, length=12)[1]
    return np.sum(sizes)


def oscillator(z: Any, w: Any) -> Any:
    def step(z: Any, t: Any) -> Any:
        z = z + 0.01 * (1j * w * z - 0.1 * z * abs(z) ** 2)
        return z, z

    end, path = lax.scan(step, z, np.arange(20.0))
    return np.sum(np.abs(path) ** 2) + end.real


def newton(z: Any) -> Any:
    def step(state: Any) -> Any:
        z, n = state
        return z - (z**3 - 1) / (3 * z**2), n + 1

    found = lax.while_loop(lambda s: (abs(s[0] ** 3 - 1) > 1e-9) & (s[1] < 50), step, (z, 0))
    return abs(found[0] - 2.0)


def escape(c: Any) -> Any:
    state = lax.while_loop(lambda s: s[1] < 6.0, lambda s: (s[0] ** 2 + c, s[1] + abs(s[0])),
                           (c, 1.0))  # fmt: skip
    return abs(state[0]) * state[1]


def branching(z: Any) -> Any:
    found = lax.cond(z.real > 0, lambda z: z * z, lambda z: np.conj(z) / (z + 2), z)
    return abs(found * z) + found.imag


def schroedinger(psi: Any) -> Any:
    x = np.linspace(-4, 4, 24)

    def step(psi: Any, _: Any) -> Any:
        second = np.concatenate([psi[1:], psi[:1]]) - 2 * psi + np.concatenate([psi[-1:], psi[:-1]])
        return psi * (1 - 0.01j * x**2) + 0.05j * second, None

    return np.sum(abs(lax.scan(step, psi, None, length=3)[0]) ** 2 * x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mandelbrot": (mandelbrot, (np.complex128(0.2 + 0.3j),)),
    "oscillator": (oscillator, (np.complex128(1 - 0.5j), 1.5)),
    "newton": (newton, (np.complex128(0.8 + 0.4j),)),
    "escape": (escape, (np.complex128(0.6 + 0.5j),)),
    "branch": (branching, (np.complex128(0.6 + 0.5j),)),
    "other branch": (branching, (np.complex128(-0.6 + 0.5j),)),
    "schroedinger": (schroedinger, (numbers(24),)),
    "phases": (lambda z: np.sum(np.real(np.exp(1j * z) * np.sqrt(z))), (numbers(50),)),
    "norm": (lambda z, w: np.sum(abs(z * w) ** 2), (numbers(33), numbers(33))),
    "quotients": (lambda z: np.sum(np.log(abs(z / (1 + z**2)))), (numbers(50),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients(native: None, name: str) -> None:
    f, args = PROGRAMS[name]
    for g in (f, fg.value_and_grad(f)):
        check(g, *args, ulp=64)


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, ("reverse", "forward")[n % 2]) for n, name in enumerate(PROGRAMS) if name != "norm"],
)
def test_second_derivatives(native: None, name: str, mode: str) -> None:
    f, (z, *rest) = PROGRAMS[name]

    def slope(z: Any) -> Any:
        return np.sum(fg.grad(f)(z, *rest).real * 0.5)

    tangents = lambda z: fg.jvp(slope, (z,), (z,))  # noqa: E731
    check(fg.grad(slope) if mode == "reverse" else tangents, z, ulp=256)


def test_a_batch_of_loops(native: None) -> None:
    c = 0.2 * np.exp(1j * np.arange(30.0))
    check(lambda c: fg.vmap(mandelbrot)(c), c, ulp=16)
    check(fg.grad(lambda c: np.sum(fg.vmap(mandelbrot)(c))), c, ulp=64)


def test_complex_parts_of_real_programs(native: None) -> None:
    def f(x: Any) -> Any:  # no complex argument or result
        return lax.scan(lambda c, t: (abs((c + 1j * t) ** 2), None), 0.5, x)[0]

    x = np.random.default_rng(5).normal(size=4)  # each square doubles the error
    check(f, x, ulp=32)
    check(fg.grad(f), x, ulp=64)


def test_numpy_computes_what_has_no_rule_beside_native_clusters(native: None) -> None:
    def f(z: Any) -> Any:
        return np.sum(abs(np.arctan(z * z - 1 / z) / (z + 2) * np.conj(z)))

    lowered = fg.jit(f).lower(numbers(5000))
    assert lowered.native and any("arctan of complex" in str(reason) for reason in lowered.refused)
    check(f, numbers(5000), ulp=16)


@pytest.mark.parametrize("size", [0, 3])
def test_powers_by_arrays_of_exponents_stay_with_numpy(native, size):
    x, n = np.arange(1.0, 1.0 + size) + 1j, np.full(size, 2.5, np.float32)
    np.testing.assert_allclose(fg.jit(lambda x: x**n)(x), x**n, rtol=1e-14)
