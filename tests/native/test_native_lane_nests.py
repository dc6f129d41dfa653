"""Products of items of 8 or 16 numbers in loops whose lanes run along the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native.fused import lane_kernel
from fungrad.compiler.native.machine_code import host

WIDE = host().vector_bytes >= 32
needs_registers = pytest.mark.skipif(not WIDE, reason="8 doubles do not fit two registers")


def data(n: int, dtype: Any, width: int = 8) -> list[Any]:
    """Matrices, items, and a matrix and numbers that all items share."""
    rng = np.random.default_rng(n)
    shapes = (n, width, width), (n, width), (width, width), (width,)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def layers(a: Any, x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.maximum(np.tanh(x @ w + b) @ w.T, 0.0) @ w)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "matvec": lambda a, x, w, b: np.tanh(np.einsum("nij,nj->ni", a, x)) * b,
    "its gradient": fg.grad(
        lambda a, x, w, b: np.sum(np.tanh((a @ x[..., None])[..., 0])), argnums=(0, 1)
    ),
    "layer": lambda a, x, w, b: np.tanh(x @ w),
    "gradient of layers": fg.grad(layers, argnums=(1, 2)),
    "gradient of a layer": fg.grad(
        lambda a, x, w, b: np.sum(np.tanh(x @ w + b) ** 2), argnums=(1, 2, 3)
    ),
    "product with a Hessian": fg.grad(
        lambda a, x, w, b: np.sum(fg.grad(layers, argnums=1)(a, x, np.tanh(w), b) * x), argnums=1
    ),
    "tangents": lambda a, x, w, b: fg.jvp(lambda v: np.sin(v @ w) @ w, (x,), (np.cos(x),)),
    "reversed items": lambda a, x, w, b: np.exp(x[:, ::-1] @ w) * x,
    "comparisons": lambda a, x, w, b: (x @ w > b, np.where(x @ w > 0.0, x, b)),
    "transposed matrices": lambda a, x, w, b: np.einsum("nij,ni->nj", np.exp(a * 0.1), x @ w),
    "a sum of all": lambda a, x, w, b: (np.sum((x @ w) ** 2), x @ w),
    "a value of each item": lambda a, x, w, b: (np.sum((x @ w) ** 2, axis=1), x @ w),
    "what items share": lambda a, x, w, b: (np.tanh(w), x @ np.tanh(w), b + 1.0),
}


@pytest.mark.parametrize(
    ("n", "dtype"), [(67, np.float64), (5_001, np.float64), (64, np.float32), (513, np.float32)]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(native: None, name: str, dtype: Any, n: int) -> None:
    f, given = PROGRAMS[name], data(n, dtype)
    rounding = 1e-12 if dtype is np.float64 else 3e-5
    for a, b in zip(fg.tree_leaves(fg.jit(f)(*given)), fg.tree_leaves(f(*given)), strict=True):
        assert a.dtype == b.dtype
        if a.dtype.kind == "b":
            assert np.array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rounding, rounding * max(1.0, np.abs(b).max()))


@needs_registers
@pytest.mark.parametrize("name", ["its gradient", "gradient of a layer", "layer"])
def test_one_item_fills_the_lanes(native: None, name: str) -> None:
    lowered = fg.jit(PROGRAMS[name]).lower(*data(5_000, np.float64))
    assert lane_kernel.refusal(lowered.optimised) is None
    (kernel,) = lowered.kernels
    assert "for 5000 x 8 elements" in kernel.loops


@needs_registers
def test_wide_items_of_floats(native: None) -> None:
    f, given = PROGRAMS["its gradient"], data(700, np.float32, 16)
    found = fg.jit(f)
    assert "for 700 x 16 elements" in found.lower(*given).kernels[0].loops
    for a, b in zip(found(*given), f(*given), strict=True):
        np.testing.assert_allclose(a, b, 3e-5, 3e-5 * np.abs(b).max())


def test_what_is_not_finite_stays_in_its_item(native: None) -> None:
    for name in ("its gradient", "layer", "comparisons", "transposed matrices"):
        given = data(200, np.float64)
        given[1][3, 2], given[1][50, 7], given[0][70, 1, 1] = np.nan, np.inf, np.nan
        with np.errstate(all="ignore"):
            wanted = fg.tree_leaves(PROGRAMS[name](*given))
            found = fg.tree_leaves(fg.jit(PROGRAMS[name])(*given))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def test_sums_over_items_do_not_depend_on_threads(native: None) -> None:
    f, given, found = fg.jit(PROGRAMS["gradient of layers"]), data(30_001, np.float64), []
    before = fg.config.num_threads
    for fg.config.num_threads in (1, 2):
        found.append(f(*given))
    fg.config.num_threads = before
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)


def test_no_items(native: None) -> None:
    for name in ("its gradient", "gradient of layers"):
        given = data(0, np.float64)
        for a, b in zip(fg.jit(PROGRAMS[name])(*given), PROGRAMS[name](*given), strict=True):
            assert np.array_equal(a, b)
