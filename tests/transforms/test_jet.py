"""Taylor mode against nested forward mode, to order 8."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fungrad as fg
from fungrad import lax
from fungrad.errors import (
    ArgumentError,
    NonDifferentiableInputError,
    ShapeError,
    StructureMismatchError,
)
from fungrad.taylor import taylor_trace
from fungrad.testing import programs

ORDER = 8
A = np.random.default_rng(0).normal(size=(3, 3))
X = np.array([0.3, -0.7, 1.1])

SMOOTH = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arctanh": np.arctanh,
    "arccosh": lambda x: np.arccosh(x + 1.5), "sqrt": np.sqrt, "cbrt": np.cbrt,
    "square": np.square, "reciprocal": np.reciprocal, "neg": np.negative, "abs": np.abs,
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "power": lambda x: x**2.5,
    "integer power": lambda x: x**3, "exponential": lambda x: 2.0**x, "x^x": lambda x: x**x,
    "arctan2": lambda x: np.arctan2(x, 1 + x * x), "hypot": lambda x: np.hypot(x, 1 + x),
    "logaddexp": lambda x: np.logaddexp(x, x * x), "logaddexp2": lambda x: np.logaddexp2(x, 1.0),
    "mul": lambda x: x * np.sin(x), "div": lambda x: np.sin(x) / (1 + x * x),
    "div by": lambda x: 1.0 / x, "maximum": lambda x: np.maximum(x**3, np.sin(x) - 3),
    "where": lambda x: np.where(x > 0, np.log(x), x), "copysign": lambda x: np.copysign(x, -1.0),
    "remainder": lambda x: np.remainder(x * x, 1.0), "sum of all": lambda x: x + np.exp(x) - 2 * x,
    "composed": lambda x: np.exp(np.sin(np.sqrt(x)) / np.log1p(x)),
    "stopped": lambda x: np.exp(x) * fg.stop_gradient(np.exp(x)),
}  # fmt: skip


def nested(f, x, order, direction=1.0):
    """The derivatives along a direction by forward mode of forward mode of ..."""
    result = []
    for _ in range(order):
        f = (lambda g: lambda y: fg.jvp(g, (y,), (direction,))[1])(f)
        result.append(f(x))
    return result


def ray(direction, order):
    return [direction, *[np.zeros_like(direction)] * (order - 1)]


@pytest.mark.parametrize("name", SMOOTH)
def test_elementwise_functions_to_order_8(name):
    f = SMOOTH[name]
    value, series = fg.jet(f, (0.37,), (ray(np.float64(1.0), ORDER),))
    assert value == f(0.37)
    # x^x doubles with each order in nested mode; six are enough there
    order = 6 if name in ("x^x", "composed", "hypot", "arctan2") else ORDER
    np.testing.assert_allclose(series[:order], nested(f, 0.37, order), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "div", "power", "sin", "mul"])
def test_complex_curves(name):
    z = 0.4 + 0.3j
    _, series = fg.jet(SMOOTH[name], (z,), (ray(np.complex128(1 + 0.5j), 6),))
    np.testing.assert_allclose(series, nested(SMOOTH[name], z, 6, 1 + 0.5j), rtol=1e-9)


cubed = fg.extend.general(
    "cubed_for_jet",
    eval=lambda x: np.sum(x**3),
    type=lambda x: fg.Type((), x.dtype),
    vjp=lambda ct, output, args, wanted: [ct * 3.0 * args[0] ** 2],
)
ARRAYS = {
    "matmul": lambda x: A @ np.sin(x),
    "both factors": lambda x: np.outer(np.exp(x), np.cos(x)) @ x,
    "einsum": lambda x: np.einsum("i,ij,j->", np.sin(x), A, x),
    "sum": lambda x: np.sum(np.exp(x)) * x,
    "prod": lambda x: np.prod(np.sin(x)),
    "cumprod": lambda x: np.cumprod(x + 2.0),
    "max": lambda x: np.max(np.exp(x)),
    "min": lambda x: np.min(x) ** 3,
    "a primitive without a jvp": lambda x: cubed(np.sin(x)) * x,
    "index": lambda x: np.exp(x)[[0, 2, 0]] * x[1],
    "shapes": lambda x: np.concatenate([x, np.exp(x)]).reshape(2, 3).T[::-1] ** 2,
    "mean": lambda x: np.mean(x**2) + np.var(x),
    "jit": fg.jit(lambda x: np.tanh(A @ x) * x),
    "branch": lambda x: lax.cond(x[0] > 0, np.sin, np.cos, x),
    "scan": lambda x: lax.scan(lambda c, a: (np.sin(A @ c) * a, c[0]), x, np.ones(3)),
    "tree": lambda x: {"a": x * x, "b": (np.sum(x),)},
}


@pytest.mark.parametrize("name", ARRAYS)
def test_functions_of_arrays(name):
    f = ARRAYS[name]
    direction = np.array([1.0, -0.5, 2.0])
    value, series = fg.jet(f, (X,), (ray(direction, 4),))
    expected = nested(f, X, 4, direction)
    fg.tree_map(np.testing.assert_allclose, value, f(X))
    for k in range(4):
        found = fg.tree_map(lambda _, terms, k=k: terms[k], value, series)
        fg.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, expected[k])


@pytest.mark.slow
@settings(max_examples=25)
@given(programs(max_steps=6), st.integers(0, 1000))
def test_random_programs_along_random_curves(program, seed):
    random = np.random.default_rng(seed)
    curves = [[random.normal(size=a.shape) for _ in range(3)] for a in program.args]

    def along(t):
        points = [
            a + c[0] * t + c[1] * (t * t / 2) + c[2] * (t * t * t / 6)
            for a, c in zip(program.args, curves, strict=True)
        ]
        return program(*points)

    _, series = fg.jet(program, program.args, curves)
    np.testing.assert_allclose(series, nested(along, 0.0, 3), rtol=1e-8, atol=1e-8)


def test_the_first_coefficient_is_jvp():
    v = np.array([1.0, 2.0, 3.0])
    _, (first,) = fg.jet(lambda x: np.sin(A @ x), (X,), ([v],))
    np.testing.assert_allclose(first, fg.jvp(lambda x: np.sin(A @ x), (X,), (v,))[1])


def test_trees_constants_and_other_leaves():
    p = {"w": X, "n": 2, "name": "net"}
    terms = [
        {"w": np.ones(3), "n": None, "name": None},
        {"w": np.zeros(3), "n": None, "name": None},
    ]
    with pytest.raises(StructureMismatchError):
        fg.jet(lambda p: p["w"], (p,), ([{"w": X}],))
    value, (first, second) = fg.jet(
        lambda w, n: w**2 * n, (X, 3), ([np.ones(3), np.zeros(3)], None)
    )
    np.testing.assert_allclose(first, 6 * X)
    np.testing.assert_allclose(second, np.full(3, 6.0))
    value, series = fg.jet(lambda x: (x, 1.0), (2.0,), ([1.0, 0.0],))
    assert (value, series[1]) == ((2.0, 1.0), [0.0, 0.0])
    assert terms[0]["n"] is None
    value, series = fg.jet(np.sin, (X,), ([],))
    assert series == []


def test_single_precision_and_weak_numbers_stay():
    x = X.astype(np.float32)
    value, series = fg.jet(lambda x: np.sin(x) * 2.0 + x**2 / 3, (x,), ([x, x, x],))
    assert value.dtype == np.float32 and all(s.dtype == np.float32 for s in series)
    _, series = fg.jet(np.exp, (np.zeros((0, 2)),), ([np.zeros((0, 2))] * 3,))
    assert all(s.shape == (0, 2) for s in series)


def test_jets_under_and_over_transforms():
    f = lambda x: np.tanh(x) * x  # noqa: E731

    def third(x):
        return fg.jet(f, (x,), ([np.ones_like(x), np.zeros_like(x), np.zeros_like(x)],))[1][2]

    expected = nested(f, X, 4, np.ones(3))
    np.testing.assert_allclose(third(X), expected[2], rtol=1e-10)
    np.testing.assert_allclose(fg.jit(third)(X), expected[2], rtol=1e-10)
    np.testing.assert_allclose(fg.vmap(third)(X[:, None])[:, 0], expected[2], rtol=1e-10)
    np.testing.assert_allclose(fg.grad(lambda x: np.sum(third(x)))(X), expected[3], rtol=1e-10)
    again = fg.jet(third, (X,), ([np.ones(3)],))[1][0]
    np.testing.assert_allclose(again, expected[3], rtol=1e-10)
    inner = fg.jet(fg.grad(lambda x: np.sum(f(x))), (X,), ([np.ones(3)] + [np.zeros(3)] * 2,))[1]
    np.testing.assert_allclose(inner, expected[1:], rtol=1e-10)


def test_python_control_flow():
    def f(x):
        while x < 10.0:
            x = x * np.exp(x / 5)
        return x

    g = lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * np.exp(c / 5), x)  # noqa: E731
    for h in (f, g):
        _, series = fg.jet(h, (1.0,), (ray(np.float64(1.0), 4),))
        np.testing.assert_allclose(series, nested(f, 1.0, 4), rtol=1e-10)


def test_long_programs_need_no_deep_stack():
    def f(x):
        for _ in range(3000):
            x = np.sin(x) + 0.5 * x
        return x

    _, series = fg.jet(f, (0.3,), (ray(np.float64(1.0), 3),))
    assert np.all(np.isfinite(series))


def test_perturbations_are_not_confused():
    def f(x):
        inner = fg.jet(lambda y: x * y, (1.0,), ([1.0],))[1][0]
        return x * inner

    assert fg.jet(f, (3.0,), ([1.0, 0.0],))[1] == [6.0, 2.0]


def test_nth_derivative():
    for n in range(9):
        np.testing.assert_allclose(fg.nth_derivative(np.exp, n)(X), np.exp(X), rtol=1e-12)
    np.testing.assert_allclose(fg.nth_derivative(np.tanh, 3)(0.0), -2.0)
    np.testing.assert_allclose(fg.nth_derivative(lambda x, a: a * x**4, 2)(2.0, a=3.0), 144.0)
    curve = fg.nth_derivative(lambda t: np.stack([np.cos(t), np.sin(t)]), 2)(0.5)
    np.testing.assert_allclose(curve, [-np.cos(0.5), -np.sin(0.5)])
    both = fg.jit(fg.nth_derivative(np.sin, 5))
    np.testing.assert_allclose(both(X), np.cos(X))
    np.testing.assert_allclose(
        fg.grad(fg.nth_derivative(np.tanh, 3))(0.3), fg.nth_derivative(np.tanh, 4)(0.3)
    )
    assert fg.nth_derivative(lambda x: 2.0, 3)(1.0) == 0.0
    assert fg.nth_derivative(np.sin, 2)(np.float32(1)).dtype == np.float32


def test_the_terms_of_a_square_that_are_equal_are_made_once(monkeypatch):
    monkeypatch.setattr(taylor_trace, "_LINE", 0)
    fifth = fg.jit(fg.nth_derivative(np.tanh, 5))
    x = np.linspace(-2.0, 2.0, 9)
    square = np.tanh(x) ** 2
    by_hand = (1.0 - square) * (16.0 + square * (120.0 * square - 120.0))
    np.testing.assert_allclose(fifth(x), by_hand, rtol=1e-12)
    assert len(fifth.lower(x).optimised.equations) <= 24
    monkeypatch.undo()
    fifth = fg.jit(fg.nth_derivative(np.tanh, 5))
    np.testing.assert_allclose(fifth(x), by_hand, rtol=1e-12)
    assert len(fifth.lower(x).optimised.equations) <= 8


@pytest.mark.parametrize("order", range(1, 10))
def test_the_hyperbolic_tangent_along_a_line(order, monkeypatch):
    x = np.concatenate([np.linspace(-3.0, 3.0, 14), [0.0, -0.0, 12.0, -15.0, 40.0]])
    direction = np.linspace(-1.5, 1.0, x.size)

    def derivatives():
        return fg.jet(lambda x: np.tanh(2.0 * x - 1.0), (x,), (ray(direction, order),))[1]

    found = derivatives()
    monkeypatch.setattr(taylor_trace, "_LINE", 0)
    for k, (got, want) in enumerate(zip(found, derivatives(), strict=True), 1):
        assert got.dtype == np.float64 and got.shape == x.shape
        largest = np.max(np.abs(want))
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14 * largest, err_msg=f"{k}")


def test_the_hyperbolic_tangent_of_what_is_no_line():
    curve = [np.float64(1.0), np.float64(0.5), np.float64(0.0)]
    found = fg.jet(np.tanh, (0.3,), (curve,))[1]
    along = fg.jet(lambda t: np.tanh(0.3 + t + 0.25 * t**2), (0.0,), (ray(1.0, 3),))[1]
    np.testing.assert_allclose(found, along, rtol=1e-13)
    for dtype in (np.float32, np.complex64):
        assert fg.nth_derivative(np.tanh, 4)(dtype(0.3)).dtype == dtype
    assert fg.nth_derivative(np.tanh, 5)(np.zeros((0, 2))).shape == (0, 2)
    assert fg.nth_derivative(np.tanh, 5)(np.zeros(())).tolist() == 16.0


def test_errors():
    with pytest.raises(ShapeError, match="not elementwise"):
        fg.nth_derivative(np.sum, 2)(X)
    with pytest.raises(NonDifferentiableInputError):
        fg.nth_derivative(np.sin, 2)(3)
    for n in (-1, 1.5, True):
        with pytest.raises(ArgumentError):
            fg.nth_derivative(np.sin, n)
    with pytest.raises(ArgumentError, match="one length"):
        fg.jet(np.add, (1.0, 2.0), ([1.0], [1.0, 0.0]))
    with pytest.raises(StructureMismatchError):
        fg.jet(np.add, (1.0, 2.0), ([1.0],))
    with pytest.raises(StructureMismatchError):
        fg.jet(np.sin, (X,), ([1.0],))


def test_stop_gradient_stops_all_orders_and_limited_stops_none():
    # stop_gradient(order=k) is told apart by nested transforms; a jet is one.
    value, series = fg.jet(lambda x: fg.stop_gradient(x) * x, (3.0,), ([1.0, 0.0],))
    assert (value, series) == (9.0, [3.0, 0.0])
    value, series = fg.jet(lambda x: fg.stop_gradient(x, order=2) * x, (3.0,), ([1.0, 0.0],))
    assert (value, series) == (9.0, [6.0, 2.0])
    with_block = lambda x: x * _blocked(x)  # noqa: E731
    assert fg.jet(with_block, (3.0,), ([1.0, 0.0],))[1] == [9.0, 0.0]


def _blocked(x):
    with fg.no_gradient():
        return x * x
