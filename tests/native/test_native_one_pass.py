"""Products with vectors, and sums along several axes, in one native pass over the large array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg

RNG = np.random.default_rng(5)
X, W, Y = RNG.normal(size=(501, 35)), RNG.normal(size=35), RNG.normal(size=501)


def logistic(w: Any, x: Any, y: Any) -> Any:
    return np.sum(np.log1p(np.exp(-y * (x @ w)))) + 0.1 * np.sum(w * w)


PASSES: dict[str, Callable[..., Any]] = {
    "least squares": fg.grad(lambda w, x, y: np.sum((x @ w - y) ** 2)),
    "least squares by rows": fg.grad(lambda w, x, y: np.sum((w @ x.T - y) ** 2)),
    "logistic regression": fg.grad(logistic),
    "and by the matrix": fg.grad(logistic, argnums=(0, 1, 2)),
    "columns": lambda w, x, y: np.tanh(y @ x) * w,
    "rows and columns": lambda w, x, y: (np.exp(x).sum(1), np.exp(x).sum(0), np.exp(x).sum()),
    "columns of centred rows": lambda w, x, y: ((x - x.mean(1, keepdims=True)) ** 3).sum(0),
    "columns, read again": lambda w, x, y: np.tanh((x * np.tanh(x @ w)[:, None]).sum(0)),
    "beside smaller arrays": lambda w, x, y: ((x.T @ np.tanh(x @ w)), 2.0 * w, y + 1.0),
    "functions of columns": lambda w, x, y: np.tanh(x * np.exp(w) + np.log1p(w * w)),
    "rows of functions of columns": lambda w, x, y: np.tanh((x * np.exp(w)).sum(1)) * y,
    "rows of centred columns": lambda w, x, y: ((x - x.mean(0)) ** 3).sum(1) * y,
}


@pytest.mark.parametrize("name", PASSES)
def test_one_pass(native: None, name: str) -> None:
    f = PASSES[name]
    for dtype, rounding in ((np.float64, 1e-11), (np.float32, 2e-4)):
        given = [a.astype(dtype) for a in (W, X, Y)]
        wanted = f(*given)
        for a, b in zip(fg.tree_leaves(fg.jit(f)(*given)), fg.tree_leaves(wanted), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rounding, rounding * np.abs(b).max())


def test_the_gradient_of_least_squares_is_one_kernel(native: None) -> None:
    lowered = fg.jit(PASSES["least squares"]).lower(W, X, Y)
    assert not lowered.refused and len(lowered.kernels) == 1


def test_sums_of_columns_do_not_depend_on_threads(native: None) -> None:
    x, before, found = RNG.normal(size=(3_001, 35)), fg.config.num_threads, []
    f = fg.jit(lambda w, x: x.T @ np.tanh(x @ w))
    for fg.config.num_threads in (1, 2):
        found.append(f(W, x))
    fg.config.num_threads = before
    np.testing.assert_array_equal(*found)


def test_what_is_not_finite_stays_in_its_column(native: None) -> None:
    x = X.copy()
    x[3, 4], x[7, 8] = np.nan, np.inf
    f = PASSES["columns of centred rows"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isnan(fg.jit(f)(W, x, Y)), np.isnan(f(W, x, Y)))


# --- rows in groups -------------------------------------------------------------------------------


def layer_norm(x: Any, w: Any) -> Any:
    c = x - np.mean(x, axis=1, keepdims=True)
    return np.tanh(c / np.sqrt(np.mean(c * c, axis=1, keepdims=True) + 1e-5)) * w


def scaled_rows(x: Any, w: Any) -> Any:
    """Numbers of each row: a truth value, an output, and a sum over all rows."""
    total = x @ w
    good = total > 0
    factor = np.where(good, 1.0 / (1.0 + np.exp(-total)), x[:, 0])
    return x * factor[:, None], good, np.sum(factor), np.exp(total) @ x


GROUPS: dict[str, Callable[..., Any]] = {
    "layer norm": layer_norm,
    "its gradient": fg.grad(lambda x, w: np.sum(layer_norm(x, w)), argnums=(0, 1)),
    "numbers of rows": scaled_rows,
    "softmax": lambda x, w: (
        np.exp(x - x.max(1, keepdims=True))
        / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        / np.log1p(w * w).sum()
    ),
    "product with a Hessian": fg.grad(
        lambda x, w: np.sum(fg.grad(lambda v: logistic(v, x, x[:, 1]))(w) ** 2), argnums=1
    ),
}


@pytest.mark.parametrize(
    ("dtype", "rows"),
    [(np.float64, n) for n in (8, 15, 17, 500)] + [(np.float32, n) for n in (16, 17, 33, 64)],
)
@pytest.mark.parametrize("name", GROUPS)
def test_rows_in_groups(native: None, name: str, dtype: Any, rows: int) -> None:
    f, rounding = GROUPS[name], 1e-11 if dtype is np.float64 else 2e-4
    given = [a.astype(dtype) for a in (X[:rows], W)]
    for a, b in zip(fg.tree_leaves(fg.jit(f)(*given)), fg.tree_leaves(f(*given)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rounding, rounding * max(1.0, np.abs(b).max()))


def test_work_on_one_number_of_each_row_fills_the_lanes(native: None) -> None:
    for f, given in ((layer_norm, (X[:64], W)), (fg.grad(logistic), (W, X[:64], Y[:64]))):
        (kernel,) = fg.jit(f).lower(*given).kernels
        assert "fdiv <" in kernel.llvm
        assert "fdiv double" not in kernel.llvm


def test_what_is_not_finite_stays_in_its_row(native: None) -> None:
    x = X[:40].copy()
    x[3, 2], x[17, 5], x[30] = np.nan, np.inf, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        wanted, found = layer_norm(x, W), fg.jit(layer_norm)(x, W)
        np.testing.assert_allclose(found, wanted, 1e-12)
        rows = np.arange(40) != 30
        factors = fg.jit(scaled_rows)(x, W)[0]
        np.testing.assert_allclose(factors[rows], scaled_rows(x, W)[0][rows], 1e-12)
