"""The eval `lstm`: the loss of a network of diagonal LSTM layers that predicts a text.

The layers run as a wave: at step s layer i works on character s - i, all layers in one operation
on [layers, ...]. The first steps, in which not all layers have begun, are written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax


def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The mean negative log-likelihood of each character, given those before it."""
    layers, b = state.shape[0] // 2, state.shape[1]
    count = sequence.shape[0] - 1
    # sigmoid(v) = 1/2 + 1/2 tanh(v/2): one tanh serves the four gates (forget, in, out, change).
    scale = np.array([0.5, 0.5, 0.5, 1.0])[:, None, None]
    weights = np.transpose(main[0::2].reshape(layers, 4, b), (1, 0, 2)) * scale
    bias = np.transpose(main[1::2].reshape(layers, 4, b), (1, 0, 2)) * scale
    of_x, of_h = weights[0::2], weights[1::2]
    bias_x, bias_h = bias[0::2], bias[1::2]
    half, shift = scale[1::2], np.array([0.5, 0.0])[:, None, None]
    idle = layers - 1
    inputs = np.concatenate([sequence[:-1] * extra[0], np.zeros((idle, b))])

    def step(carry: tuple[Any, Any], first: Any) -> tuple[tuple[Any, Any], Any]:
        h, cell = carry
        n = h.shape[0]
        x = np.concatenate([first[None, :], h[:-1]])
        forget_out = 0.5 + 0.5 * np.tanh(x * of_x[:, :n] + bias_x[:, :n])
        in_change = shift + half * np.tanh(h * of_h[:, :n] + bias_h[:, :n])
        cell = cell * forget_out[0] + in_change[0] * in_change[1]
        h = forget_out[1] * np.tanh(cell)
        return (h, cell), h[-1]

    h, cell = state[0::2], state[1::2]
    for s in range(idle):  # the wave begins with layer 0 alone
        (some_h, some_cell), _ = step((h[: s + 1], cell[: s + 1]), inputs[s])
        h = np.concatenate([some_h, h[s + 1 :]])
        cell = np.concatenate([some_cell, cell[s + 1 :]])
    _, outputs = lax.scan(step, (h, cell), inputs[idle:])
    y = outputs * extra[1] + extra[2]
    norm = np.log(2.0 + np.sum(np.exp(y), axis=1, keepdims=True))
    return -np.sum(sequence[1:] * (y - norm)) / (b * count)


def gradient(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The gradient by both tables of parameters, flat."""
    by_main, by_extra = fg.grad(objective, argnums=(0, 1))(main, extra, state, sequence)
    return np.concatenate([by_main.reshape(-1), by_extra.reshape(-1)])


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes parameters, state and text for a function of them."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        names = ("main_params", "extra_params", "state", "sequence")
        arguments = [np.asarray(given[name], dtype=np.float64) for name in names]
        return lambda: f(*arguments), lambda out: out.tolist()

    return prepare


FUNCTIONS = {"objective": prepared(fg.jit(objective)), "jacobian": prepared(fg.jit(gradient))}
