"""docs/kinks.md, row by row, in both modes; and the branches of where that are not taken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks is no part of the package

from benchmarks.against_jax_points import POINTS, UNLIKE

DOCS = Path(__file__).parents[2] / "docs" / "kinks.md"
INF, NAN = np.inf, np.nan

# The words of the table's first two columns -> cases (function, argument, derivative by it).
ROWS = {
    ("`np.abs(x)`, `np.fabs(x)`", "x = 0"): [
        (np.abs, 0.0, 0.0),
        (np.fabs, 0.0, 0.0),
        (abs, -0.0, 0.0),
    ],
    ("`np.abs(z)`, complex", "z = 0"): [(np.abs, 0j, 0.0)],
    ("`np.sign(x)`, `np.floor(x)`, `np.ceil(x)`, `np.trunc(x)`, `np.rint(x)`", "everywhere"): [
        (f, x, 0.0)
        for f in (np.sign, np.floor, np.ceil, np.trunc, np.rint)
        for x in (0.0, 0.5, 1.0)
    ],
    ("`np.maximum(x, y)`, `np.minimum(x, y)`", "x = y"): [
        (lambda x: np.maximum(x, 1.0), 1.0, 0.5),
        (lambda x: np.maximum(1.0, x), 1.0, 0.5),
        (lambda x: np.minimum(x, 1.0), 1.0, 0.5),
        (lambda x: np.minimum(1.0, x), 1.0, 0.5),
        (lambda x: np.maximum(x, x), 1.0, 1.0),
        (lambda x: np.minimum(x, -x), 0.0, 0.0),
    ],
    ("`np.maximum(x, 0)` (relu) of a constant 0", "x = 0"): [
        (lambda x: np.maximum(x, 0), 0.0, 0.5)
    ],
    ("`np.where(x > 0, x, 0)` (relu)", "x = 0"): [(lambda x: np.where(x > 0, x, 0), 0.0, 0.0)],
    ("`np.fmax(x, y)`, `np.fmin(x, y)`", "one is NaN"): [
        (lambda x: np.fmax(x, NAN), 1.0, 1.0),
        (lambda x: np.fmin(NAN, x), 1.0, 1.0),
        (lambda x: np.fmax(x, 1.0), NAN, 0.0),
        (lambda x: np.fmin(1.0, x), NAN, 0.0),
        (lambda x: np.fmax(x, 1.0), 1.0, 0.5),
    ],
    ("`np.max(x)`, `np.min(x)`", "ties"): [
        (np.max, np.array([1.0, 1.0, 0.0]), [0.5, 0.5, 0.0]),
        (np.min, np.array([1.0, 0.0, 0.0, 0.0]), [0.0, 1 / 3, 1 / 3, 1 / 3]),
        (
            lambda x: np.sum(np.max(x, axis=1)),
            np.array([[1.0, 1.0], [2.0, 1.0]]),
            [[0.5, 0.5], [1.0, 0.0]],
        ),
        (lambda x: x.max(), np.array([2.0, 2.0]), [0.5, 0.5]),
    ],
    (
        "`np.sort(x)`, `np.partition(x, k)`, `np.median(x)`, `np.quantile(x, q)`, `np.unique(x)`",
        "ties",
    ): [
        (lambda x: np.sort(x)[0], np.array([1.0, 0.0, 0.0]), [0.0, 0.5, 0.5]),
        (lambda x: np.partition(x, 1)[1], np.array([1.0, 0.0, 1.0]), [0.5, 0.0, 0.5]),
        (np.median, np.array([1.0, 1.0, 0.0]), [0.5, 0.5, 0.0]),
        (lambda x: np.quantile(x, 0.5), np.array([1.0, 1.0, 0.0]), [0.5, 0.5, 0.0]),
        (lambda x: fg.numpy.unique(x, size=2)[1], np.array([1.0, 1.0, 0.0]), [0.5, 0.5, 0.0]),
    ],
    ("`np.interp(x, xp, fp)`, by x", "x is one of xp"): [
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), 1.0, 2.5),
        (lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 5.0]), 0.0, 0.5),
    ],
    ("`np.maximum.accumulate(x)`, `np.minimum.accumulate(x)`", "ties"): [
        (lambda x: np.sum(np.maximum.accumulate(x)), np.array([1.0, 1.0, 0.0]), [2.0, 1.0, 0.0]),
        (lambda x: np.sum(np.minimum.accumulate(x)), np.array([1.0, 1.0, 2.0]), [2.0, 1.0, 0.0]),
    ],
    ("`np.hypot(x, y)`", "(0, 0)"): [
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: np.hypot(x, x), 0.0, 0.0),
    ],
    ("`np.std(x)`", "all equal"): [(np.std, np.ones(3), [0.0, 0.0, 0.0])],
    ("`np.ptp(x)`", "ties"): [(np.ptp, np.array([1.0, 1.0, 2.0]), [-0.5, -0.5, 1.0])],
    ("`np.arctan2(y, x)`", "(0, 0)"): [
        (lambda x: np.arctan2(x, 0.0), 0.0, 0.0),
        (lambda x: np.arctan2(0.0, x), 0.0, 0.0),
    ],
    ("`np.sqrt(x)`", "x = 0"): [(np.sqrt, 0.0, INF)],
    ("`np.log(x)`", "x = 0"): [(np.log, 0.0, INF)],
    ("`x**2`, `x**3`", "x = 0"): [
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x**3, 0.0, 0.0),
        (lambda x: x**2.0, 0.0, 0.0),
        (lambda x: np.power(x, np.array(3.0)), 0.0, 0.0),
    ],
    ("`x**1`", "x = 0"): [
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: np.power(x, np.array(1.0)), 0.0, 1.0),
    ],
    ("`x**0`", "everywhere"): [
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**0, 2.0, 0.0),
        (lambda x: np.power(x, np.array(0.0)), 0.0, 0.0),
    ],
    ("`x**0.5`", "x = 0"): [(lambda x: x**0.5, 0.0, INF)],
    ("`x**y`, by y", "x = 0, y > 0"): [
        (lambda y: 0.0**y, 2.0, 0.0),
        (lambda y: np.array(0.0) ** y, 0.5, 0.0),
    ],
    ("`x**y`, by y", "x = 0, y = 0"): [(lambda y: np.array(0.0) ** y, 0.0, -INF)],
    ("`np.logaddexp(x, y)`", "both -inf, or both inf"): [
        (lambda x: np.logaddexp(x, -INF), -INF, 0.5),
        (lambda x: np.logaddexp(INF, x), INF, 0.5),
        (lambda x: np.logaddexp(x, -INF), 1.0, 1.0),
        (lambda x: np.logaddexp(-INF, x), 1.0, 1.0),
    ],
    ("`np.copysign(x, y)`", "x = 0"): [(lambda x: np.copysign(x, 1.0), 0.0, 0.0)],
    ("`np.heaviside(x, h)`", "x = 0"): [
        (lambda x: np.heaviside(x, 0.5), 0.0, 0.0),
        (lambda h: np.heaviside(0.0, h), 0.5, 1.0),
        (lambda h: np.heaviside(1.0, h), 0.5, 0.0),
    ],
    ("`np.prod(x)`", "zeros among x"): [
        (np.prod, np.array([0.0, 2.0, 3.0]), [6.0, 0.0, 0.0]),
        (np.prod, np.array([0.0, 0.0, 3.0]), [0.0, 0.0, 0.0]),
    ],
    ("`np.clip(x, low, high)`", "x = low or x = high"): [
        (lambda x: np.clip(x, 0.0, 1.0), 0.0, 0.5),
        (lambda x: np.clip(x, 0.0, 1.0), 1.0, 0.5),
        (lambda x: np.clip(x, 0.0, 1.0), 0.5, 1.0),
        (lambda x: np.clip(x, 0.0, 1.0), 2.0, 0.0),
    ],
}


def table():
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    return [row[:2] for row in rows[1:]]


def test_the_table_and_the_tests_hold_the_same_rows():
    assert table() == list(ROWS)


def forward_gradient(f, x):
    x = np.asarray(x)
    basis = np.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)
    return np.array([fg.jvp(f, (x,), (t,))[1] for t in basis]).reshape(x.shape)


@pytest.mark.parametrize("row", ROWS)
def test_row(row):
    for f, x, derivative in ROWS[row]:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(fg.grad(f)(x), derivative, rtol=1e-15)
            np.testing.assert_allclose(forward_gradient(f, x), derivative, rtol=1e-15)
            if np.ndim(x):
                batch = fg.vmap(fg.grad(f))(np.stack([x, x]))
            else:
                batch = fg.vmap(fg.grad(f))(np.array([x, x]))
            np.testing.assert_allclose(batch, np.stack([derivative, derivative]), rtol=1e-15)


# --- branches that are not taken ------------------------------------------------------

BRANCHES = {
    "sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0),
    "log": (lambda x: np.where(x > 0, np.log(x), 0.0), 0.0, 0.0),
    "reciprocal": (lambda x: np.where(x != 0, 1.0 / x, 5.0), 0.0, 0.0),
    "power": (lambda x: np.where(x > 0, x**0.5, x), 0.0, 1.0),
    "sqrt of a square": (lambda x: np.where(x == 0, 0.0, np.sqrt(x * x)), 0.0, 0.0),
    "arccos": (lambda x: np.where(np.abs(x) < 1, np.arccos(x), x), 1.0, 1.0),
    "log of a negative": (lambda x: np.where(x > 0, np.log(x), -x), -1.0, -1.0),
    "overflow": (lambda x: np.where(x < 700.0, np.exp(x), 2.0 * x), 1000.0, 2.0),
    "deep": (lambda x: np.where(x > 0, np.sin(np.sqrt(x) / x) * np.log(x), x), 0.0, 1.0),
    "nested": (lambda x: np.where(x > 0, np.where(x > 1, np.sqrt(x - 1), np.log(x)), x), 0.0, 1.0),
    "multiplied after": (lambda x: 3.0 * np.where(x > 0, np.sqrt(x), x), 0.0, 3.0),
    "both branches": (lambda x: np.where(x > 0, np.sqrt(x), np.where(x < 0, 1 / x, x)), 0.0, 1.0),
    "maximum": (lambda x: np.maximum(np.sqrt(x), 1.0), 0.0, 0.0),
    "minimum": (lambda x: np.minimum(1.0 / x, 2.0), 0.0, 0.0),
    "taken": (lambda x: np.where(x >= 0, np.sqrt(x), 0.0), 0.0, INF),
}


@pytest.mark.parametrize("case", BRANCHES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_branch_that_is_not_taken_gives_exactly_zero(case):
    f, x, derivative = BRANCHES[case]
    assert fg.grad(f)(x) == derivative
    assert fg.jvp(f, (x,), (1.0,))[1] == derivative
    others = np.array([x, 0.7, x])
    batch = fg.vmap(fg.grad(f))(others)
    assert batch[0] == batch[2] == derivative
    np.testing.assert_allclose(batch[1], fg.grad(f)(0.7), rtol=1e-15)  # by math, not by NumPy
    summed = fg.grad(lambda v: np.sum(f(v)))(others)
    np.testing.assert_array_equal(summed, batch)
    staged = fg.evaluate(fg.make_jaxpr(fg.grad(f))(x), x)[0]
    assert staged == derivative


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_second_derivatives_of_branches_that_are_not_taken():
    f = lambda x: np.where(x > 0, np.sqrt(x), x * x)  # noqa: E731
    for second in (
        fg.grad(fg.grad(f)), lambda x: fg.jvp(fg.grad(f), (x,), (1.0,))[1],
        fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1]),
    ):  # fmt: skip
        assert second(0.0) == 2.0
        np.testing.assert_allclose(second(4.0), -1 / 32, rtol=1e-14)


def test_no_warning_is_left_over_from_branches_that_are_not_taken():
    f = lambda x: np.where(x > 0, np.sqrt(x), 0.0)  # noqa: E731
    with np.errstate(all="raise"):
        assert fg.grad(f)(0.0) == 0.0


def test_a_condition_may_be_any_array():
    x = np.array([1.0, 2.0, 3.0])
    for condition in (
        np.array([True, False, True]),
        np.array([1, 0, 2]),
        np.array([0.5, 0.0, -1.0]),
    ):
        np.testing.assert_array_equal(
            fg.grad(lambda x, c=condition: np.sum(np.where(c, x, -x)))(x), [1.0, -1.0, 1.0]
        )
    np.testing.assert_array_equal(fg.grad(lambda c: np.sum(np.where(c, x, 2 * x)))(x), np.zeros(3))


@pytest.mark.parametrize(
    "moved",
    [
        lambda y: y.reshape(2, 2),
        lambda y: y.reshape(2, 2).T,
        lambda y: y[::-1],
        lambda y: np.concatenate([y, y]),
        lambda y: np.stack([y, y], axis=1),
        lambda y: np.pad(y, 1, constant_values=1.0),
        lambda y: np.roll(y, 1),
        lambda y: y.astype(np.float32),
    ],
)
def test_a_mask_goes_through_what_only_moves_elements(moved):
    x = np.array([0.0, 1.0, 4.0, 0.0])

    def f(x):
        y = moved(np.sqrt(x))
        return np.sum(np.where(y > 0.5, y, 0.0))

    gradient = fg.grad(f)(x)
    assert gradient[0] == gradient[3] == 0.0
    assert gradient[1] > 0.0 and gradient[1] == 2 * gradient[2]


def _one_element(x):
    y = np.zeros(3)
    y[0] = np.sqrt(x[0])
    y[0] = 5.0
    y[1] = x[1]
    return np.sum(y)


def _a_part_of_a_slice(x):
    y = np.zeros(3)
    y[:2] = np.sqrt(x[:2])
    y[0] = 5.0
    return np.sum(y)


def _of_all(x):
    y = np.zeros(3)
    y[:] = np.sqrt(x)
    y[0] = x[1]
    return np.sum(y)


def _by_index(first, second):
    """Roots are written at one index, numbers at another."""

    def f(x):
        y = np.zeros(3)
        y[first] = 2.0 * np.sqrt(x[first])
        y[second] = 5.0
        return np.sum(y)

    return f


FIRST, MASK = np.array([0]), np.array([True, False, False])


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (_one_element, [0.0, 1.0, 0.0]), (_a_part_of_a_slice, [0.0, 0.5, 0.0]),
        (_of_all, [0.0, 1.5, 0.25]),
        (_by_index(FIRST, 0), [0.0, 0.0, 0.0]), (_by_index(0, FIRST), [0.0, 0.0, 0.0]),
        (_by_index(FIRST, FIRST), [0.0, 0.0, 0.0]), (_by_index(MASK, MASK), [0.0, 0.0, 0.0]),
        (_by_index(np.array([1, 0]), MASK), [0.0, 1.0, 0.0]),
        (_by_index(slice(None), np.array([0, 0])), [0.0, 1.0, 0.5]),
    ],
)  # fmt: skip
def test_what_is_written_over_has_no_derivative_compiled_or_not(f, expected):
    x = np.array([0.0, 1.0, 4.0])
    for gradient in (fg.grad(f), fg.jit(fg.grad(f)), fg.grad(fg.jit(f))):
        assert gradient(x).tolist() == expected
    assert fg.vmap(fg.grad(f))(x[None]).tolist() == [expected]
    second = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(fg.jit(fg.hessian(f))(second), fg.hessian(f)(second), rtol=1e-15)


@pytest.mark.parametrize("i", [0, np.array([0]), np.array([1, 0])])
def test_what_is_written_over_at_traced_places_has_no_derivative(i):
    def f(x, i):
        y = np.zeros(3)
        y[i] = np.sqrt(x[i])
        y[0] = 5.0
        return np.sum(y)

    x = np.array([0.0, 1.0, 4.0])
    expected = [0.0, 0.5 if np.size(i) > 1 else 0.0, 0.0]
    for gradient in (fg.grad(f), fg.jit(fg.grad(f)), fg.grad(fg.jit(f))):
        assert gradient(x, i).tolist() == expected
    assert fg.vmap(fg.grad(f), (None, 0))(x, np.stack([i, i])).tolist() == [expected] * 2


def test_masks_that_leave_what_was_written_alone_are_not_handed_on():
    def f(x):
        y = np.zeros(3)
        y[0] = np.sin(x[0])
        y[1] = np.exp(x[1])
        y[2] = x[0] * x[2]
        return y

    program = fg.jit(lambda x: fg.vjp(f, x)[1](x)).lower(np.ones(3)).optimised
    assert "select" not in str(program)


def test_a_sum_not_taken_has_no_derivative():
    x = np.array([0.0, 1.0])
    f = fg.grad(lambda x: np.where(x[1] > 5.0, np.sum(np.sqrt(x)), 0.0))
    np.testing.assert_array_equal(f(x), 0.0)


@pytest.mark.parametrize("name", POINTS)
def test_points_where_derivatives_are_easily_wrong(name):
    point = POINTS[name]
    if "spence" in name:
        pytest.importorskip("scipy")
    with np.errstate(all="ignore"):
        found = point.derivative(fg, np, *point.args)
    np.testing.assert_allclose(found, point.exact, rtol=1e-9, atol=1e-12)


def test_every_explained_point_is_one():
    assert set(UNLIKE) < set(POINTS)
