"""Native reshapes that join or split axes, between other moves and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg

RNG = np.random.default_rng(3)
CUBE, IMAGE = RNG.normal(size=(20, 24, 32)), RNG.normal(size=(4, 16, 20, 24))

RESHAPES: dict[str, tuple[Callable[..., Any], Any]] = {
    "of a transposed array": (lambda x: x.transpose(2, 0, 1).reshape(32, -1), CUBE),
    "to rows, and their sums": (lambda x: np.sum(x.swapaxes(0, 1).reshape(48, -1), axis=1), CUBE),
    "sums of blocks": (lambda x: x.reshape(4, 16, 5, 4, 6, 4).mean((3, 5)), IMAGE),
    "channels last": (lambda x: x.transpose(0, 2, 3, 1).reshape(-1, 16) * np.arange(16.0), IMAGE),
    "depth to space": (
        lambda x: x.reshape(4, 2, 8, 20, 24).transpose(0, 2, 3, 1, 4).reshape(4, 8, 40, 24), IMAGE),
    "with a constant": (lambda x: x.reshape(-1, 32).T + np.arange(480.0), CUBE),
    "with axes of length 1": (lambda x: x[:, None].reshape(20, 1, -1, 16).swapaxes(2, 3), CUBE),
    "split two ways": (lambda x: x.reshape(20, -1).T.reshape(24, 32, 4, 5), CUBE),
    "that no split fits": (lambda x: x.reshape(30, -1).T.reshape(-1, 24), CUBE),
    "and a slice of it": (lambda x: x.reshape(20, -1)[:, 5:700] * 2.0, CUBE),
    "with the means of split axes": (
        lambda x: (x - x.mean(1, keepdims=True) * x.mean((0, 2), keepdims=True)).reshape(20, 6, -1)
        .transpose(1, 0, 2).reshape(60, 16, 16), CUBE),
    "and its largest": (lambda x: x.reshape(20, -1).max(1), CUBE),
}  # fmt: skip


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes_and_their_gradients(native: None, name: str) -> None:
    reshaped, x = RESHAPES[name]

    def f(x: Any) -> Any:
        return np.tanh(reshaped(np.sin(x))) * 0.5

    for g, given in ((f, x.astype(np.float32)), (fg.grad(lambda x: np.sum(f(x) ** 2)), x)):
        rounding = 1e-12 if given.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(fg.jit(g)(given), g(given), rounding, rounding)


def test_a_reshape_of_a_transposed_array_is_no_end_of_a_kernel(native: None) -> None:
    gradient = fg.grad(lambda x: np.sum(np.tanh(x.transpose(2, 0, 1).reshape(32, -1)) * 0.5))
    lowered = fg.jit(gradient).lower(CUBE)
    assert not lowered.refused and len(lowered.kernels) == 1
