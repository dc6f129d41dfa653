"""Compiled code has NumPy's results: every rounding, NaN, infinity and sign of zero."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax

BIG = np.finfo(np.float64).max


def norm(x):
    s = np.max(np.abs(x))
    q = x / s
    return s * np.sqrt(np.sum(q * q))


# By the rewrite that would change them: a function, and arguments of doubles where it did.
PROGRAMS = {
    "squares in a sum": (norm, [[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]]),
    "divisor of a sum": (lambda x: np.sum(x / np.max(x)), [np.full(4, 1e308)]),
    "factor of a sum": (lambda x, w: np.sum(x * w), [(np.full(4, 1e308), 0.25)]),
    "number before a product": (
        lambda x, y: (x / 8.0) @ y, [(np.full((2, 8), 1e308), np.ones(8))],
    ),
    "small number before a product": (
        lambda x, y: (x * 1e-10) @ y, [(np.full((2, 8), 1e300), np.full(8, 1e10))],
    ),
    "number behind a product": (
        lambda x, y: (x @ y) * 1e10, [(np.full((20, 8), 1e-300), np.full((8, 2), 1e300))],
    ),
    "x + 0x": (lambda x: x + 0 * x, [[np.inf, -np.inf, np.nan, -0.0, 1.0]]),
    "x - 3x": (lambda x: x - x * 3.0, [[np.inf, -np.inf, BIG, -0.0, 1.0]]),
    "a common factor": (
        lambda g, a, b: g * a - g * b,
        [(np.inf, 2.0, 1.0), (0.0, 1e308, -1e308), (1e-200, 1e308, -1e308)],
    ),
    "a square of both": (lambda x: x * x - x * x, [[1e200, 1.0, -0.0]]),
    "a term twice": (lambda x, y: x + y + y, [(-1e308, 1e308), (-0.0, -0.0)]),
    "a common divisor": (
        lambda a, b, t: a / t - b / t, [(1e308, -1e308, 1e10), (2.0, 1.0, 0.0)],
    ),
    "multiples": (lambda x: x * 1e308 - x * -1e308, [[0.0, -0.0, 0.5]]),
    "a zero of a factor": (
        lambda g, a, b: np.arctan2(g * a - g * b, -1.0), [(-1.0, 2.0, 2.0)],
    ),
    "a zero of a difference": (lambda x, y: np.arctan2(-(x - y), -1.0), [(1.0, 1.0)]),
    "a zero of a sum": (lambda x: np.arctan2(-(x + 1.0), -1.0), [-1.0]),
    "a multiple with 0": (lambda a: a * 0.0 - a, [[0.0, -0.0, np.inf, 2.0]]),
    "a multiple with 2": (lambda a: a - a * 2.0, [[0.0, -0.0, np.inf, 2.0]]),
    "reciprocals of powers": (
        lambda x: (x**-2, x**-3, x**-4), [[2e154, 1e103, 1e-170, -0.0, np.inf, -3.0]],
    ),
    "two numbers": (
        lambda x: (x * 1e-200 * 1e200, x * 3.0 * 7.0, 0.1 * (x * 0.3)),
        [[1e-200, 5e-324, 1e308, 0.7]],
    ),
    "twice a divisor": (lambda x, y: x / (y * 2.0), [([1.0, 1e300, 5e-324], [1e308, 1e-300, 0.7])]),
    "a factor of a row": (
        lambda x, r: np.sum(x * r, axis=1), [(np.full((2, 3), 1e308), np.full((2, 1), 0.1))],
    ),
    "a quotient twice": (
        lambda a, t, y: (a / t * y, y / t), [(1e-300, 1e10, 1e300), (0.0, 0.0, 1.0)],
    ),
    "zeros of a sum": (lambda x: np.copysign(1.0, np.sum(-x)), [[1.0, -1.0], np.zeros(100)]),
    "zeros of a product": (
        lambda x, y: np.copysign(1.0, (-x) @ y), [([[1.0, -1.0]], [1.0, 1.0])],
    ),
    "zeros beside a slice": (
        lambda x, y: (np.copysign(1.0, np.pad(y, (1, 0)) + x), x - np.pad(y, (1, 0))),
        [([-0.0, -0.0, 1.0], [2.0, -0.0])],
    ),
    "zeros around a negation": (
        lambda y: [np.copysign(1.0, k * np.pad(y, 1)) for k in (-1, -2, 2)],
        [[1.0, -0.0]],
    ),
    "zeros times a large number": (
        lambda x, y: np.pad(y, (1, 0)) * 65536.0 + x, [([1.0, -2.0, 1.0], [2.0, -0.0])],
    ),
    "a slice with zeros added": (
        lambda x, y: np.copysign(1.0, x + np.pad(y, (1, 0))), [([-0.0, -0.0, -0.0], [-0.0, 0.0])],
    ),
    "zeros of choices": (
        lambda x, y: np.copysign(1.0, np.where(x > 0, y, 0.0) + np.where(~(x > 0), x, 0.0)),
        [([1.0, -1.0, -0.0], [-0.0, -0.0, 1.0])],
    ),
    "zeros that are negated": (lambda x: np.copysign(1.0, x * 0.0 + x * -0.0), [[0.0, -0.0, 1.0]]),
    "the opposite of an integer 0": (lambda x: np.copysign(1.0, -(x * 0)), [[0.0, -0.0, -1.0]]),
    "a slice with zeros added to a sum": (
        lambda x, y: np.copysign(1.0, (x + x[::-1]) + np.pad(y, (1, 0))),
        [([-0.0, 1.0, -0.0], [-0.0, 0.0])],
    ),
    "a slice with zeros added to a choice": (
        lambda x, y: np.copysign(1.0, np.where(x > 0, 1.0, x) + np.pad(y, (1, 0))),
        [([-0.0, 1.0, -0.0], [-0.0, -0.0])],
    ),
    "a slice with zeros added to what vanishes": (
        lambda x, y: np.copysign(
            1.0,
            (x.astype(np.float64) * 1e-300 + 0.0).astype(np.float16)
            + np.pad(y.astype(np.float16), (1, 0)),
        ),
        [([-1.0, -2.0, 1.0], [-0.0, -0.0])],
    ),
}  # fmt: skip
CASES = [(name, point) for name, (_, points) in PROGRAMS.items() for point in range(len(points))]


def bits(value):
    """Everything but the sign and payload of NaN has to be the same."""
    value = np.asarray(value)
    assert value.dtype.kind == "f"
    return value.dtype, value.shape, np.where(np.isnan(value), np.nan, value).tobytes()


def same(got, want):
    assert [bits(x) for x in fg.tree_leaves(got)] == [bits(x) for x in fg.tree_leaves(want)]


def in_a_scan(f):
    def g(*args):
        return lax.scan(lambda c, _: (c, f(*args)), 0.0, None, length=1)[1]

    return g


def moving(f, args):
    """f in a scan whose steps read their arguments anew, so that nothing is known before it."""

    def g(*args):
        return lax.scan(lambda c, row: (c, f(*row)), 0, tuple(np.stack([a, a]) for a in args))[1]

    return g(*args) if f is None else g


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("name", "point"), CASES)
def test_compiled_numbers_are_numpys(name, point, dtype):
    f, points = PROGRAMS[name]
    args = points[point] if isinstance(points[point], tuple) else (points[point],)
    with np.errstate(all="ignore"):
        args = [np.asarray(a).astype(dtype) for a in args]
        want = f(*args)
        same(fg.jit(f)(*args), want)
        same(fg.jit(in_a_scan(f))(*args), [np.asarray(x)[None] for x in fg.tree_leaves(want)])
        rows = fg.jit(moving(f, args))(*args)
        same(rows, [np.stack([x, x]) for x in fg.tree_leaves(want)])
        same(fg.jit(lambda *args: fg.jit(f)(*args))(*args), want)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0])
def test_the_derivative_of_a_quotient_by_a_small_divisor_is_that_of_its_equations(x):
    args = (np.array([1e10]), np.array([x]), np.array([1e-300]))
    slope = fg.grad(lambda w, x, y: np.sum(w * (x / y)), argnums=2)
    with np.errstate(all="ignore"):
        same(fg.jit(slope)(*args), slope(*args))
        same(slope(*args), -args[0] * (args[1] / args[2]) / args[2])


def test_a_sum_of_complex_numbers_with_itself_keeps_its_infinities():
    x = np.array([np.inf + 2j, 1 - np.inf * 1j, -0.0 + 0j, 3 + 4j])
    with np.errstate(invalid="ignore"):
        for f in (
            lambda x: x + x, lambda x: x * 1.0, lambda x: x / 1.0, lambda x: x * -1.0,
            lambda x: -(x * 2.0), lambda x: x / 8.0, lambda x: x * 2.0 * 3.0, lambda x: (-x) * x,
            lambda x: x**3, lambda x: x**1,
        ):  # fmt: skip
            got, want = fg.jit(f)(x), f(x)
            same((got.real, got.imag), (want.real, want.imag))


@pytest.mark.parametrize("exponent", [1.5 + 0.2j, 1j, -2 + 0j, 3 + 0j])
def test_complex_powers(exponent):
    x = np.array([0.3, 1.7, 12.0])
    for f in (
        lambda x: x**exponent,
        lambda x: lax.cond(x[0] > 0, lambda x: x**exponent, lambda x: x * 1j, x),
        lambda x: lax.scan(lambda c, x: (c, x**exponent), 0.0, x)[1],
    ):
        for args in (x, x * 1j):
            if args.dtype.kind == "c":
                f, args = (lambda z: z**exponent), args
            np.testing.assert_allclose(fg.jit(f)(args), f(args), rtol=1e-14)


def test_the_gradient_of_a_quotient_keeps_its_zero():
    def f(y):
        return np.sum(1e10 * (np.zeros(2) / y))

    y = np.array([1e-300, 1.0])
    with np.errstate(all="ignore"):
        same(fg.jit(fg.grad(f))(y), fg.grad(f)(y))


def test_the_stack_of_a_scan_as_the_cotangent_of_a_constant_of_a_loop():
    def loss(x):
        def body(state):
            i, y = state
            _, ys = fg.lax.scan(lambda c, row: (np.tanh(c) + np.sum(row), c * row), y, x)
            return i + 1, np.sum(ys) * 0.1

        return fg.lax.while_loop(lambda state: state[0] < 4, body, (0, 0.3))[1]

    x = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(fg.jit(fg.grad(loss))(x), fg.grad(loss)(x), rtol=1e-12)
