"""Sequential loops: networks with memory, filters, differential equations, by scan."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.case import ARRAYS, LOOP, Case, normal

DURATION = 10.0
NO_LOOPS = ("PyTorch",)


def lstm(np: Any, ad: Any) -> Any:
    """The mean square of an LSTM's outputs on a batch, and its gradient by the parameters."""

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    def loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
        size = u.shape[0]

        def step(carry: Any, x: Any) -> Any:
            h, cell = carry
            z = x @ w + h @ u + b
            keep, take = sigmoid(z[:, :size]), sigmoid(z[:, size : 2 * size])
            out, new = sigmoid(z[:, 2 * size : 3 * size]), np.tanh(z[:, 3 * size :])
            cell = keep * cell + take * new
            h = out * np.tanh(cell)
            return (h, cell), h

        start = np.zeros((xs.shape[1], size))
        return np.mean(ad.lax.scan(step, (start, start), xs)[1] ** 2)

    return ad.value_and_grad(loss, (0, 1, 2))


def lstm_by_hand(w: Any, u: Any, b: Any, xs: Any) -> tuple[Any, tuple[Any, ...]]:
    """Backpropagation through time; the products with the inputs and weights are one each."""
    steps, batch, _ = xs.shape
    size = u.shape[0]
    gates = xs @ w + b
    hs, cells = np.zeros((steps + 1, batch, size)), np.zeros((steps + 1, batch, size))
    bent = np.empty((steps, batch, size))
    for i in range(steps):
        z = gates[i]
        z += hs[i] @ u
        z[:, : 3 * size] = 1.0 / (1.0 + np.exp(-z[:, : 3 * size]))
        z[:, 3 * size :] = np.tanh(z[:, 3 * size :])
        keep, take, out, new = (z[:, j * size : (j + 1) * size] for j in range(4))
        cells[i + 1] = keep * cells[i] + take * new
        bent[i] = np.tanh(cells[i + 1])
        hs[i + 1] = out * bent[i]
    outputs = hs[1:]
    slopes = np.empty_like(gates)
    g_h, g_cell = np.zeros((batch, size)), np.zeros((batch, size))
    for i in reversed(range(steps)):
        keep, take, out, new = (gates[i, :, j * size : (j + 1) * size] for j in range(4))
        g_h = g_h + outputs[i] * (2.0 / outputs.size)
        g_cell = g_cell + g_h * out * (1.0 - bent[i] * bent[i])
        s = slopes[i]
        s[:, :size] = g_cell * cells[i] * keep * (1.0 - keep)
        s[:, size : 2 * size] = g_cell * new * take * (1.0 - take)
        s[:, 2 * size : 3 * size] = g_h * bent[i] * out * (1.0 - out)
        s[:, 3 * size :] = g_cell * take * (1.0 - new * new)
        g_cell = g_cell * keep
        g_h = s @ u.T
    flat = slopes.reshape(steps * batch, 4 * size)
    by_w = xs.reshape(steps * batch, -1).T @ flat
    by_u = hs[:-1].reshape(steps * batch, size).T @ flat
    return np.mean(outputs * outputs), (by_w, by_u, flat.sum(0))


def texts(steps: int, batch: int, inputs: int, size: int) -> tuple[Any, ...]:
    """Parameters and inputs."""
    weights = normal(inputs, 4 * size, scale=0.2), normal(size, 4 * size, seed=1, scale=0.2)
    return *weights, np.zeros(4 * size), normal(steps, batch, inputs, seed=2)


def kalman(np: Any, ad: Any) -> Any:
    """The negative log-likelihood of a Kalman filter, and its gradient by motion and noises.

    The covariance is updated in Joseph's form: in the short one reverse mode is unstable.
    """

    def loss(motion: Any, log_q: Any, log_r: Any, look: Any, seen: Any) -> Any:
        q, r = np.diag(np.exp(log_q)), np.diag(np.exp(log_r))
        one = np.eye(motion.shape[0])

        def step(carry: Any, y: Any) -> Any:
            mean, spread = carry
            mean = motion @ mean
            spread = motion @ spread @ motion.T + q
            s = look @ spread @ look.T + r
            gain = np.linalg.solve(s, look @ spread).T
            rest = one - gain @ look
            error = y - look @ mean
            cost = 0.5 * (error @ np.linalg.solve(s, error) + np.linalg.slogdet(s)[1])
            return (mean + gain @ error, rest @ spread @ rest.T + gain @ r @ gain.T), cost

        return np.sum(ad.lax.scan(step, (np.zeros(motion.shape[0]), one), seen)[1])

    return ad.value_and_grad(loss, (0, 1, 2))


def kalman_by_hand(
    motion: Any, log_q: Any, log_r: Any, look: Any, seen: Any
) -> tuple[Any, tuple[Any, ...]]:
    """The filter, and its adjoint. The gain is optimal: the covariance does not move with it."""
    q, r = np.diag(np.exp(log_q)), np.diag(np.exp(log_r))
    size = len(motion)
    one = np.eye(size)
    mean, spread, value, kept = np.zeros(size), one, 0.0, []
    for y in seen:
        before = mean, spread
        mean = motion @ mean
        spread = motion @ spread @ motion.T + q
        across = look @ spread
        inverse = np.linalg.inv(across @ look.T + r)
        gain = across.T @ inverse
        rest = one - gain @ look
        error = y - look @ mean
        weighted = inverse @ error
        value += 0.5 * (error @ weighted - np.log(np.linalg.det(inverse)))
        kept.append((*before, inverse, gain, rest, error, weighted))
        mean = mean + gain @ error
        spread = rest @ spread
    g_mean, g_spread = np.zeros(size), np.zeros((size, size))
    g_motion, g_q, g_r = np.zeros_like(motion), np.zeros_like(q), np.zeros_like(r)
    for mean, spread, inverse, gain, rest, error, weighted in reversed(kept):
        g_across = np.outer(inverse @ error, g_mean)
        g_s = 0.5 * (inverse - np.outer(weighted, weighted)) - g_across @ gain
        g_across += g_s @ look
        g_r += g_s + gain.T @ g_spread @ gain
        g_mean = g_mean - look.T @ (gain.T @ g_mean + weighted)
        g_spread = rest.T @ g_spread @ rest + look.T @ g_across
        g_q += g_spread
        g_motion += (g_spread + g_spread.T) @ motion @ spread + np.outer(g_mean, mean)
        g_spread = motion.T @ g_spread @ motion
        g_mean = motion.T @ g_mean
    noises = np.diag(g_q) * np.exp(log_q), np.diag(g_r) * np.exp(log_r)
    return value, (g_motion, *noises)


def track(steps: int) -> tuple[Any, ...]:
    """A point that moves in the plane, of which the place is seen."""
    motion, look = np.eye(4) + 0.1 * np.eye(4, k=2), np.eye(2, 4)
    return motion, np.full(4, -2.0), np.full(2, -1.0), look, normal(steps, 2)


def lorenz(np: Any, ad: Any) -> Any:
    """Where Lorenz's equations lead, by Runge and Kutta: the gradient by start and parameters."""

    def end(start: Any, parameters: Any, times: Any) -> Any:
        h = DURATION / times.shape[0]
        sigma, rho, beta = parameters[0], parameters[1], parameters[2]

        def slope(y: Any) -> Any:
            return np.stack(
                [sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]]
            )

        def step(y: Any, _: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return np.sum(ad.lax.scan(step, start, None, length=times.shape[0])[0])

    return ad.value_and_grad(end, (0, 1))


def lorenz_by_hand(start: Any, parameters: Any, times: Any) -> tuple[Any, tuple[Any, Any]]:
    """The adjoint of each step, with the places of the four slopes kept."""
    sigma, rho, beta = parameters
    h = DURATION / len(times)

    def slope(y: Any) -> Any:
        return np.array(
            [sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]]
        )

    def pulled(y: Any, g: Any) -> Any:
        (a, b, c), (u, v, w) = y.tolist(), g.tolist()
        by_parameters[0] += u * (b - a)
        by_parameters[1] += v * a
        by_parameters[2] -= w * c
        return np.array(
            [-sigma * u + (rho - c) * v + b * w, sigma * u - v + a * w, -a * v - beta * w]
        )

    y, kept, by_parameters = start, [], np.zeros(3)
    for _ in times:
        k1 = slope(y)
        y2 = y + h / 2 * k1
        k2 = slope(y2)
        y3 = y + h / 2 * k2
        k3 = slope(y3)
        y4 = y + h * k3
        kept.append((y, y2, y3, y4))
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y4))
    value, g = np.sum(y), np.ones(3)
    for y, y2, y3, y4 in reversed(kept):
        g4 = pulled(y4, h / 6 * g)
        g3 = pulled(y3, h / 3 * g + h * g4)
        g2 = pulled(y2, h / 3 * g + h / 2 * g3)
        g = g + g4 + g3 + g2 + pulled(y, h / 6 * g + h / 2 * g2)
    return value, (g, by_parameters)


def weather(steps: int) -> tuple[Any, ...]:
    """A start, Lorenz's parameters, and the times, of which only the number counts."""
    parameters = np.array([10.0, 28.0, 8.0 / 3.0])
    return np.array([1.0, 2.0, 3.0]), parameters, np.linspace(0.0, DURATION, steps)


def lorenz_case(steps: int, without: tuple[str, ...]) -> Case:
    """A case of so many steps."""
    functions = lorenz, lorenz_by_hand
    sizes = partial(weather, steps), partial(weather, 500)
    return Case(f"Lorenz {steps:g}", *functions, *sizes, kind=LOOP, without=without)


CASES = (
    *(
        Case(
            f"LSTM {steps}x{batch}x{inputs}x{size}",
            lstm,
            lstm_by_hand,
            partial(texts, steps, batch, inputs, size),
            partial(texts, 3, 2, 3, 2),
            kind=kind,
            without=NO_LOOPS,
        )
        for steps, batch, inputs, size, kind in (
            (50, 32, 64, 128, ARRAYS),
            (100, 1, 16, 32, LOOP),
        )
    ),
    Case(
        "Kalman filter 200",
        kalman,
        kalman_by_hand,
        partial(track, 200),
        partial(track, 20),
        kind=LOOP,
        without=NO_LOOPS,
    ),
    lorenz_case(1_000, NO_LOOPS),
    lorenz_case(100_000, (*NO_LOOPS, "autograd", "fungrad eager", "JAX eager")),
)
