"""Gradients of extrema in large arrays: few places of a mask, ties, NaN."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.numpy_backend.backend import build
from fungrad.compiler.passes.pipeline import optimised
from fungrad.primitives.cotangents import Collected, Masked

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RNG = np.random.default_rng(0)
ROWS = (300, 60)


def untied(dtype=float):
    return RNG.permutation(np.prod(ROWS)).reshape(ROWS).astype(dtype)


INPUTS = {
    "one_each": untied(),
    "ties": np.round(RNG.normal(size=ROWS)),
    "all_equal": np.ones(ROWS),
    "one_row_of_ties": np.vstack([untied()[1:], np.zeros((1, ROWS[1]))]),
    "nan": np.where(RNG.random(ROWS) < 0.02, np.nan, RNG.normal(size=ROWS)),
    "infinite": np.where(RNG.random(ROWS) < 0.02, np.inf, RNG.normal(size=ROWS)),
    "zeros": np.where(RNG.random(ROWS) < 0.5, -0.0, 0.0),
    "float32": untied(np.float32),
    "float16": RNG.normal(size=ROWS).astype(np.float16),
    "longdouble": untied(np.longdouble),
    "transposed": np.asfortranarray(untied()),
}


def shifted(x):
    """The logarithm of a sum, with its shift."""
    m = np.max(x, 1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - m), 1)) * 0.1 + np.sum(np.sin(x - m), 1))


def weighed(x):
    """A mask that is read by sums, products and a contraction."""
    return np.sum(np.min(x * 0.5 - 2.0 * x[:1], 1) * 3.0) + np.sum(np.cos(x))


def boxes(x):
    """Two axes at once, and one in front."""
    y = np.reshape(x, (-1, 6, 10)) * 0.5
    return np.sum(np.max(y, (1, 2)) ** 2) + np.sum(np.min(y, 0)) + np.sum(np.max(y, 1))


def spread(x):
    return np.sum(np.max(x, 1) - np.min(x, 1)) + np.sum(np.max(np.abs(x), -1, keepdims=True) * x)


FUNCTIONS = {f.__name__: f for f in (shifted, weighed, boxes, spread)}


def same(f, *args, tolerance=1e-12):
    """Compiled as compiled without regions."""
    graph = optimised(fg.make_jaxpr(f)(*args))
    for want, got in zip(fg.evaluate(graph, *args), build(graph)(*args), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        tolerance = max(tolerance, 30 * np.finfo(want.dtype).eps)
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=1e-30)
        np.testing.assert_allclose(got / scale, want / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", INPUTS)
def test_gradients(name, function):
    x, f = INPUTS[name], FUNCTIONS[function]
    same(fg.value_and_grad(f), x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "fused_array", 2)
        patch.setattr(costs, "tile_elements", 7 * ROWS[1])
        same(fg.value_and_grad(f), x[:40])


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["one_each", "ties", "nan"])
def test_second_order_and_batches(name, function):
    x, f = INPUTS[name], FUNCTIONS[function]
    same(lambda x, t: fg.jvp(fg.grad(f), (x,), (t,))[1], x, np.cos(x))
    same(lambda x, t: fg.jvp(f, (x,), (t,)), x, np.cos(x))
    same(fg.vmap(fg.grad(f)), np.stack([x, x[::-1]]))


def test_ties_share_equally():
    x = untied()
    x[3, :2] = x[3].max() + 1
    x[5] = 1.0
    g = fg.jit(fg.grad(lambda x: np.sum(np.max(x, 1) * 2.0) + np.sum(x * 0.0)))(x)
    want = 2.0 * (x == x.max(1, keepdims=True)) / (x == x.max(1, keepdims=True)).sum(1)[:, None]
    np.testing.assert_array_equal(g, want)


def test_dense_masks_are_as_they_were():
    x, y = RNG.normal(size=ROWS), RNG.normal(size=ROWS)
    same(lambda x, y: y + np.where(x > 0.0, np.exp(x), 0.0), x, y)
    same(lambda x, y: np.where(x > 0.0, y, 0.0) * 2.0 + y, x, y)
    same(lambda x, y: y + np.where(x > 2.5, y * 2.0, 0.0), x, y)
    same(lambda x: np.sum(x > 1.0, 1) + np.sum(x > 2.5, 1) * np.sum(x * x, 1), x)


@pytest.mark.parametrize("bound", [-9.0, 0.3, 2.9, 9.0])
def test_choices_between_zeros_in_regions_are_numpys(bound):
    x = np.where(RNG.random(200_000) < 0.3, -0.0, RNG.normal(size=200_000))
    for f in (
        lambda x: np.where(x > bound, x, -0.0) - 0.0,
        lambda x: np.where(x > bound, x, 0.0) - 0.0,
        lambda x: np.where(x > bound, x, 0) + x,
        lambda x: x + np.where(x > bound, x, -0.0),
        lambda x: np.where(x > bound, -0.0, x * x),
        lambda x: np.maximum(x, 0.0) - np.minimum(-0.0, x),
    ):
        assert fg.jit(f)(x).tobytes() == f(x).tobytes()


@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64, bool])
def test_choices_agree_in_regions(dtype, thread_count, monkeypatch):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    rng = np.random.default_rng(0)
    x, y = (4.0 * rng.normal(size=(2, 400, 300))).astype(dtype)
    rows = x[:, :1]

    def f(x, y, rows):
        c, d = x > y, rows > 0
        return (
            np.where(c, x, y), np.where(c, x, 0), np.where(~c, 2, y), np.where(d, x, y),
            np.where(c & d, np.where(d, x, 1), y * 1), np.sum(np.where(c, x, 0), 0),
            np.where(c, x > 0, y > 0), np.where(c, x, y)[:, 1:] * y[:, 1:],
        )  # fmt: skip

    for got, want in zip(fg.jit(f)(x, y, rows), f(x, y, rows), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extrema_that_are_equal_share(dtype, thread_count, monkeypatch):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    x = np.round(RNG.normal(size=(300, 400)) * 2.0).astype(dtype)
    y = RNG.normal(size=x.shape).astype(dtype)
    for f in (
        lambda x: np.maximum(x, 0) * y,
        lambda x: np.minimum(x, y) * x,
        lambda x: np.clip(x, -1, 1) ** 2,
        lambda x: np.fmax(np.maximum(x, 1), x) * np.sin(x),
    ):
        gradient = fg.grad(lambda x, f=f: np.sum(f(x)))
        found, wanted = fg.jit(gradient)(x), gradient(x)
        assert found.dtype == wanted.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=20 * np.finfo(dtype).eps)


def test_gradients_of_piecewise_functions_agree():
    x = RNG.normal(size=(300, 400))
    for f in (
        lambda x: np.where(np.abs(x) < 1, 0.5 * x**2, np.abs(x) - 0.5),
        lambda x: np.where(x > 0, x, np.expm1(x)),
        lambda x: np.maximum(x, 0.1 * x),
        lambda x: np.clip(x, -0.5, 0.7) * np.where(x > 0.3, np.sin(x), x),
        lambda x: np.where(x > 0, np.where(x > 1, x, x**2), np.where(x < -1, -x, x**3)),
    ):

        def loss(x, f=f):
            return np.sum(f(x))

        def second(x, loss=loss):
            return np.sum(fg.grad(loss)(x) ** 2)

        for g in (fg.value_and_grad(loss), fg.grad(second)):
            for got, want in zip(
                fg.tree_util.tree_leaves(fg.jit(g)(x)), fg.tree_util.tree_leaves(g(x)), strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.exp(x) * np.where(x > 0.2, 0.25, 2.0),
        lambda x: np.exp(x) * np.where(x > 0.2, 1.0, 0.5),
        lambda x: x[:1] + np.where(x > 0.2, np.exp(x), 0.0),
        lambda x: np.sum(x.reshape(-1, 8, 8) > 0.2, axis=1) * np.exp(x.reshape(-1, 8, 8)[:, 0]),
    ],
    ids=["other numbers", "halves for the others", "a row", "counts of columns"],
)
def test_what_only_looks_like_a_choice_of_blocks(f):
    x = np.random.default_rng(5).normal(size=(4096, 64))
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=4e-15)


@pytest.mark.parametrize("thread_count", [1, 2])
@pytest.mark.parametrize("extremum", [np.max, np.min])
@pytest.mark.parametrize("equal", [0, 1, 40])
def test_rows_with_and_without_ties_share_the_derivative_of_their_extremum(
    equal, extremum, thread_count, monkeypatch
):
    monkeypatch.setattr(fg.config, "num_threads", thread_count)
    x = RNG.permuted(np.arange(300.0 * 400).reshape(300, 400), axis=1)
    x[7, : equal + 1] = x[7, equal] = extremum(x[7])
    x[9, 3:5] = np.nan
    gradient = fg.grad(lambda x: np.sum(extremum(x, 1) * np.arange(300.0)))
    found = fg.jit(gradient)(x)
    assert found.tobytes() == gradient(x).tobytes()
    assert np.count_nonzero(found[7]) >= equal + 1 and found[9, 3] == 4.5


def test_sums_of_masks_count():
    x = RNG.normal(size=(200, 400))
    x[:, 0] = 9.0  # attains a maximum of 9 in every row, but a maximum over other axes in one
    f = lambda x: np.sum(x == np.max(x, 0), 1) + np.sum(x >= np.max(x, 1, keepdims=True), 1)  # noqa: E731
    np.testing.assert_array_equal(fg.jit(f)(x), f(x))
    x[:, 0] = -9.0
    gradient = fg.grad(lambda x: np.sum(np.max(x, 0) ** 2))
    np.testing.assert_array_equal(fg.jit(gradient)(x), gradient(x))


def test_a_mask_that_is_true_everywhere_is_dropped():
    """The steps before a clip that cuts nothing take the plain path."""

    def f(x):
        return np.sum(np.exp(np.log(np.clip(x + 3.0, -10.0, 10.0)) ** 2) * np.maximum(x, -5.0))

    calls = []

    def called(frame, event, arg):
        if event == "call" and frame.f_code.co_name == "scale_masked":
            calls.append(1)

    x = np.linspace(-1.0, 1.0, 5)
    gradient = fg.grad(f)
    first = gradient(x)
    sys.setprofile(called)
    try:
        np.testing.assert_array_equal(gradient(x), first)
    finally:
        sys.setprofile(None)
    assert not calls
    e = 1e-6
    slope = [(f(x + e * d) - f(x - e * d)) / (2 * e) for d in np.eye(5)]
    np.testing.assert_allclose(first, slope, 1e-7)
    np.testing.assert_allclose(fg.jit(gradient)(x), first, 1e-13)
    np.testing.assert_allclose(fg.vmap(gradient)(np.stack([x, x])), [first, first], 1e-13)
    second = fg.hessian(f)(x)
    slopes = [(gradient(x + e * d) - gradient(x - e * d)) / (2 * e) for d in np.eye(5)]
    np.testing.assert_allclose(second, slopes, 1e-6, 1e-6)
    with np.errstate(all="ignore"):  # one element is outside: its part is zero
        cut = fg.grad(lambda x: np.sum(np.sqrt(np.clip(x, 0.0, 1.0))))(np.array([-1.0, 0.5]))
    assert cut[0] == 0.0 and np.isfinite(cut[1])
    assert fg.grad(lambda x: np.sum(np.clip(x, 0.0, 1.0)))(np.ones(0)).shape == (0,)


HALF = np.array([True, False])


@pytest.mark.parametrize("other", [np.array([1.0, 2.0]), np.float64(3.0), 3.0])
@pytest.mark.parametrize("collected", [False, True])
def test_cotangents_with_and_without_masks_add_up(other, collected):
    def begun():
        masked = Masked(np.array([4.0, 0.0]), HALF)
        return Collected(masked) if collected else masked

    for total in (begun() + other, other + begun()):
        found = total.total() if isinstance(total, Collected) else total
        np.testing.assert_array_equal(found, np.array([4.0, 0.0]) + other)
    again = begun() + Masked(np.array([0.0, 5.0]), ~HALF)
    again = again.total() if collected else again
    np.testing.assert_array_equal(again.value, [4.0, 5.0])
    assert np.all(again.mask)


def test_traced_cotangents_add_to_masked_ones():
    def f(x):
        masked = Masked(x, HALF)
        return np.sum((x * 2 + masked) * (masked + x))

    np.testing.assert_array_equal(fg.grad(f)(np.array([1.0, 2.0])), [12.0, 24.0])
