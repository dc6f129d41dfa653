"""Functions whose derivatives go through every part of the compiler: loops, branches, rules, tiles.

Each has arguments, and the transforms that are taken of it: v for itself, g for the gradient, h for
a product with the Hessian, j for the forward mode, b for a batch, B for a batch of gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fungrad as fg
from fungrad import lax

Function = Callable[..., Any]
Row = tuple[str, Function, tuple[Any, ...], str]


def normal(*shape: int, dtype: Any = np.float64, scale: float = 0.5, seed: int = 0) -> Any:
    """Normal numbers."""
    rng = np.random.default_rng(seed + sum(shape))
    found = scale * rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * scale * rng.normal(size=shape)
    return found.astype(dtype)


def definite(size: int) -> Any:
    """A positive definite matrix."""
    a = normal(size, size, seed=3)
    return a @ a.T + size * np.eye(size)


# --- elementwise chains, numbers, tiles


def chain(x: Any) -> Any:
    """Ten operations and a sum."""
    y = np.sin(x) * x + 0.5
    z = np.tanh(y) ** 2 - x / (1.0 + y * y)
    return np.sum(np.exp(-z) * y)


def scalars(a: Any, b: Any) -> Any:
    """A program on numbers."""
    r = np.sqrt(a * a + b * b)
    angle = np.arctan2(b, a)
    return r * np.cos(3.0 * angle) + np.where(a > b, np.log1p(r), np.expm1(-r))


def columns(x: Any, w: Any) -> Any:
    """Reductions over both axes, broadcast back."""
    centred = x - np.mean(x, axis=0)
    rows = np.sum(centred * centred, axis=1, keepdims=True)
    return centred / np.sqrt(rows + 1.0) * w


def masks(x: Any) -> Any:
    """Conditions and clips."""
    y = np.where(x > 0, np.sqrt(np.abs(x) + 1e-3), x**3)
    return np.sum(np.clip(y, -0.4, 0.6) * np.maximum(x, 0.1) + np.minimum(y, 0.0))


def moved(x: Any) -> Any:
    """Slices, rolls, joins, stacks."""
    y = np.concatenate([x[1:], x[:1]]) - np.roll(x, 2)
    z = np.stack([y, x[::-1]], axis=-1).reshape(-1)
    return np.sum(z[::2] * z[1::2]) + np.sum(np.diff(x) ** 2)


def stencil(x: Any) -> Any:
    """Two steps of diffusion inside of a frame."""
    for _ in range(2):
        inner = x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1] - 4.0 * x[1:-1, 1:-1]
        x = fg.numpy.at(x)[1:-1, 1:-1].add(0.1 * inner)
    return np.sum(x**2)


def gathered(x: Any, i: Any) -> Any:
    """Indexing with repeated places, and sums into places."""
    y = x[i] * 2.0
    return fg.numpy.at(np.zeros(x.shape[0]))[i].add(np.sin(y)) * x


def counted(n: Any) -> Any:
    """Whole numbers and bits."""
    return np.cumsum(n) % 7 + (n << 1) - (n & 3), np.sort(n), n // 3


def spectrum(x: Any) -> Any:
    """Fourier transforms."""
    return np.sum(np.abs(np.fft.rfft(x)) ** 2) + np.sum(np.fft.fft(x).imag * x)


def holomorphic(z: Any) -> Any:
    """Complex numbers, to a real one."""
    w = np.exp(1j * z) * np.conj(z) + z**2
    return np.sum(np.real(w) ** 2 + np.abs(w))


def dense(x: Any, w: Any, v: Any) -> Any:
    """A network of two layers."""
    return np.sum(np.tanh(x @ w) @ v * 0.1)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Softmax over scores."""
    scores = np.einsum("bqd,bkd->bqk", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - np.max(scores, -1, keepdims=True))
    return np.einsum("bqk,bkd->bqd", weights / np.sum(weights, -1, keepdims=True), v)


# --- loops


def rnn(w: Any, u: Any, xs: Any) -> Any:
    """A recurrent network."""

    def step(h: Any, x: Any) -> Any:
        h = np.tanh(h @ w + x @ u)
        return h, h

    return lax.scan(step, np.zeros((xs.shape[1], w.shape[0])), xs)[1]


def lstm(w: Any, xs: Any) -> Any:
    """A network with gates."""
    size = w.shape[1] // 4

    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        z = np.concatenate([x, h]) @ w
        i, f, o = (1.0 / (1.0 + np.exp(-z[n * size : (n + 1) * size])) for n in range(3))
        c = f * c + i * np.tanh(z[3 * size :])
        h = o * np.tanh(c)
        return (h, c), h

    return lax.scan(step, (np.zeros(size), np.zeros(size)), xs)[1]


def summed(x: Any, ws: Any) -> Any:
    """A scan whose carry is a sum: it can leave the loop."""
    return lax.scan(lambda c, w: (c + w, np.sin(c) * w), x, ws)


def ordinary(x: Any, ws: Any) -> Any:
    """What depends on the steps' inputs alone can leave the loop."""
    return lax.scan(lambda c, w: (c * 0.5 + np.exp(w), c), x, ws)


def scalar_scan(x: Any, ws: Any) -> Any:
    """A loop on numbers."""
    return lax.scan(lambda c, w: (np.sin(c) * w + 0.3, c), x, ws)


def backwards(x: Any, ws: Any) -> Any:
    """From the end to the start, unrolled, two carries."""

    def step(carry: Any, w: Any) -> Any:
        a, b = carry
        return (a * 0.9 + b * w, a - b), a * w

    return lax.scan(step, (x, x * 0.5), ws, reverse=True, unroll=2)


def whole(x: Any) -> Any:
    """Carries of several dtypes."""

    def step(carry: Any, i: Any) -> Any:
        n, y, flag = carry
        return (n + i, np.where(flag, y * 1.1, y - 0.1), np.logical_not(flag)), n

    return lax.scan(step, (0, x, np.bool_(True)), np.arange(12))


def nested(x: Any, ws: Any) -> Any:
    """A loop in a loop."""

    def outer(c: Any, w: Any) -> Any:
        inner, _ = lax.scan(lambda d, v: (np.tanh(d * v + c), None), c, w)
        return inner, inner * 2.0

    return lax.scan(outer, x, ws)


def kept(policy: Any) -> Function:
    """A scan that keeps some residuals and computes the others again."""

    def f(x: Any, ws: Any) -> Any:
        step = fg.checkpoint(lambda c, w: (np.tanh(c * w) + np.sin(c) * 0.1, np.sum(c)), **policy)
        return lax.scan(step, x, ws)

    return f


def binomial(x: Any, ws: Any) -> Any:
    """A scan by binomial checkpointing."""
    return lax.scan(lambda c, w: (np.tanh(c * w) + 0.1, None), x, ws, checkpoint="binomial")[0]


def checkpointed(x: Any) -> Any:
    """A part that is computed again."""
    part = fg.checkpoint(lambda y: np.tanh(np.sin(y) * y))
    return np.sum(part(part(x)) ** 2)


def newton(a: Any) -> Any:
    """Square roots by a loop that ends by itself."""
    return lax.while_loop(
        lambda y: np.max(np.abs(y * y - a)) > 1e-12, lambda y: 0.5 * (y + a / y), a + 1.0
    )


def collatz(n: Any) -> Any:
    """A loop on whole numbers with a branch."""

    def step(s: Any) -> Any:
        n = lax.cond(s[0] % 2 == 0, lambda k: k // 2, lambda k: 3 * k + 1, s[0])
        return n, s[1] + 1

    return lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]


def growing(x: Any) -> Any:
    """A loop whose number of steps depends on the values, differentiated backwards."""
    return lax.while_loop(
        lambda s: np.sum(s[0] ** 2) < 50.0,
        lambda s: (s[0] * 1.3 + np.sin(s[1]), s[1] + s[0] * 0.1),
        (x, x * 0.2),
    )


def iterated(x: Any) -> Any:
    """A loop of a number of steps."""
    return lax.fori_loop(0, 9, lambda i, y: np.cos(y) * 0.9 + i * 0.01, x)


def branches(x: Any, i: Any) -> Any:
    """One of three branches, and one of two."""
    y = lax.switch(i, [np.sin, lambda z: z * z, lambda z: np.exp(-z)], x)
    return lax.cond(np.sum(y) > 0, lambda z: z * 2.0, lambda z: -z / 3.0, y)


def in_loop(x: Any, ws: Any) -> Any:
    """A branch in a scan."""

    def step(c: Any, w: Any) -> Any:
        return lax.cond(w > 0, lambda d: d * w, lambda d: np.sin(d), c), c

    return lax.scan(step, x, ws)


def prefix(x: Any) -> Any:
    """An associative scan, cumulative sums and products."""
    total = lax.associative_scan(lambda a, b: a * b + a, x)
    return total, np.cumsum(x), np.cumprod(1.0 + 0.1 * x), np.maximum.accumulate(x)


def mapped(x: Any) -> Any:
    """A function of each row, in turn."""
    return lax.map(lambda row: np.sum(np.sin(row)) * row, x)


def runge_kutta(y: Any, k: Any) -> Any:
    """Forty steps of an equation of motion."""

    def slope(y: Any) -> Any:
        return np.stack([y[1], -k * np.sin(y[0]) - 0.1 * y[1]])

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.05 * a)
        return y + 0.1 * b, y[0]

    return lax.scan(step, y, None, length=40)


def filtered(noise: Any, seen: Any) -> Any:
    """A Kalman filter of two states."""
    motion, look = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])

    def step(carry: Any, y: Any) -> Any:
        mean, spread = carry
        mean, spread = motion @ mean, motion @ spread @ motion.T + np.exp(noise[0]) * np.eye(2)
        s = look @ spread @ look.T + np.exp(noise[1])
        gain = np.linalg.solve(s, look @ spread).T
        error = y - look @ mean
        mean, spread = mean + gain @ error, spread - gain @ look @ spread
        return (mean, spread), np.sum(error**2 / s[0, 0]) + np.linalg.slogdet(s)[1]

    return np.sum(lax.scan(step, (np.zeros(2), np.eye(2)), seen)[1])


# --- rules of one's own


@fg.custom_vjp
def clipped(x: Any) -> Any:
    """The identity, whose gradient is clipped."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, x), lambda x, g: (np.clip(g, -0.5, 0.5),))


@fg.custom_jvp
def soft(x: Any) -> Any:
    """log(1 + exp(x)) with its own tangent."""
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0.0)


soft.defjvp(lambda p, t: (soft(p[0]), t[0] / (1.0 + np.exp(-p[0]))))
cube = fg.extend.elementwise(
    "replay_cube", lambda x: x * x * x, partials=[lambda y, x: 3.0 * x * x]
)


def ruled(x: Any) -> Any:
    """Functions with rules, and a part without a gradient."""
    return np.sum(clipped(np.sin(x)) * soft(x) + fg.stop_gradient(x) * x)


def extended(x: Any, ws: Any) -> Any:
    """A primitive of the user's in a loop."""
    return lax.scan(lambda c, w: (c * 0.5 + cube(w), c), x, ws)


# --- linear algebra


def solved(a: Any, b: Any) -> Any:
    """Systems of equations and a determinant."""
    x = np.linalg.solve(a, b)
    return np.sum(x**2) + np.linalg.slogdet(a)[1] + np.sum(np.linalg.inv(a))


def factored(a: Any) -> Any:
    """Factors of a matrix."""
    q, r = np.linalg.qr(a)
    root = np.linalg.cholesky(a @ a.T + np.eye(a.shape[0]))
    return np.sum(np.abs(r)) + np.sum(np.log(np.diag(root))) + q[0, 0]


def spectral(a: Any) -> Any:
    """Eigenvalues and singular values."""
    values, vectors = np.linalg.eigh(a)
    return values**2 + np.sum(vectors[0] ** 4) + np.linalg.svd(a, compute_uv=False)


def chained(a: Any, b: Any, c: Any) -> Any:
    """Products of matrices that may be regrouped."""
    return (a @ b) @ c + a @ (b @ c), np.trace(a @ b), np.kron(a[:2, :2], b[:2, :2])


def regrouped(x: Any, a: Any, b: Any) -> Any:
    """Factors, quotients and sums that may be taken together."""
    y = a * x + b * x + 2.0 * x
    return np.sum(y / a + x / a) + np.sum(3.0 * (x * 2.0)) - np.sum(y) * 0.5


def quadratic(x: Any) -> Any:
    """Rosenbrock's function."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


F32, C64, C128 = np.float32, np.complex64, np.complex128
STEPS, CARRY = normal(30, 6, seed=5), normal(6)
POLICIES: dict[str, dict[str, Any]] = {
    "nothing": {"policy": fg.save_nothing},
    "everything": {"policy": fg.save_everything},
    "dots": {"policy": fg.save_dots},
}
ROWS: tuple[Row, ...] = (
    *((f"chain {n}", chain, (normal(n),), "vghj") for n in (1, 10, 1_000, 30_000, 200_000)),
    *((f"chain of {t.__name__}", chain, (normal(5_000, dtype=t),), "vg") for t in (F32, C64, C128)),
    ("chain of float32 200000", chain, (normal(200_000, dtype=F32),), "g"),
    ("chain 0-d", chain, (np.array(0.3),), "vghb"),
    ("scalars", scalars, (0.4, -0.7), "vghj"),
    ("scalars of arrays", scalars, (normal(9), normal(9, seed=1)), "vghb"),
    ("columns", columns, (normal(7, 5), normal(5)), "vghbB"),
    ("columns 400x300", columns, (normal(400, 300), normal(300)), "vg"),
    ("masks", masks, (normal(11),), "vghbB"),
    ("masks 100000", masks, (normal(100_000),), "vgh"),
    ("masks of float32", masks, (normal(20_000, dtype=F32),), "vg"),
    ("moved", moved, (normal(8),), "vghbB"),
    ("moved 100000", moved, (normal(100_000),), "vgh"),
    ("stencil", stencil, (normal(6, 7),), "vghbB"),
    ("stencil 300x300", stencil, (normal(300, 300),), "vg"),
    ("gathered", gathered, (normal(6), np.array([0, 2, 2, 5, 1])), "vghjB"),
    ("gathered 20000", gathered, (normal(20_000), np.arange(30_000) * 7 % 20_000), "vg"),
    ("counted", counted, (np.arange(20) * 37 % 23,), "vb"),
    ("spectrum", spectrum, (normal(16),), "vghB"),
    ("holomorphic", holomorphic, (normal(7, dtype=C128),), "vghB"),
    ("holomorphic 50000", holomorphic, (normal(50_000, dtype=C128),), "vg"),
    ("holomorphic of complex64", holomorphic, (normal(40, dtype=C64),), "vg"),
    ("dense", dense, (normal(5, 4), normal(4, 3), normal(3, 2)), "vghjB"),
    ("dense 256", dense, (normal(256, 128), normal(128, 256), normal(256, 10)), "vgh"),
    ("dense of float32", dense, tuple(normal(64, 64, dtype=F32, seed=i) for i in range(3)), "vg"),
    ("attention", attention, tuple(normal(2, 5, 4, seed=i) for i in range(3)), "vghj"),
    ("attention 64", attention, tuple(normal(4, 64, 32, seed=i) for i in range(3)), "vg"),
    ("rnn", rnn, (normal(4, 4), normal(3, 4), normal(12, 2, 3)), "vghjB"),
    ("rnn 64", rnn, (normal(64, 64, scale=0.1), normal(32, 64), normal(40, 16, 32)), "vg"),
    ("rnn of float32", rnn, tuple(normal(*s, dtype=F32) for s in ((4, 4), (3, 4), (9, 2, 3))), "g"),
    ("lstm", lstm, (normal(7, 16), normal(10, 3)), "vghB"),
    ("lstm 32", lstm, (normal(48, 128, scale=0.2), normal(60, 16)), "vg"),
    ("summed", summed, (CARRY, STEPS), "vghjbB"),
    ("summed 300", summed, (normal(200), normal(300, 200)), "vg"),
    ("ordinary", ordinary, (CARRY, STEPS), "vghjB"),
    ("ordinary 200", ordinary, (normal(200), normal(50, 200)), "vg"),
    ("scan of numbers", scalar_scan, (0.3, normal(40)), "vghjb"),
    ("scan of numbers 5000", scalar_scan, (0.3, normal(5_000)), "vg"),
    ("backwards", backwards, (CARRY, STEPS), "vghjB"),
    ("whole", whole, (normal(4),), "vgb"),
    ("nested", nested, (0.2, normal(5, 6)), "vghj"),
    ("nested of arrays", nested, (normal(3), normal(4, 5, 3)), "vghB"),
    *((f"kept {name}", kept(p), (CARRY, STEPS), "vghB") for name, p in POLICIES.items()),
    ("binomial", binomial, (CARRY, STEPS), "vgh"),
    ("binomial 400", binomial, (normal(50), normal(400, 50)), "vg"),
    ("checkpointed", checkpointed, (normal(9),), "vghB"),
    ("checkpointed 60000", checkpointed, (normal(60_000),), "vg"),
    ("newton", newton, (np.array([2.0, 3.0, 5.0]),), "vghjb"),
    ("newton of a number", newton, (2.0,), "vghj"),
    ("newton 20000", newton, (np.linspace(1.0, 9.0, 20_000),), "vg"),
    ("collatz", collatz, (27,), "v"),
    ("growing", growing, (normal(3) + 0.5,), "vghjB"),
    ("growing of a number", growing, (0.7,), "vgh"),
    ("iterated", iterated, (normal(5),), "vghjB"),
    ("iterated number", iterated, (0.3,), "vghj"),
    ("branches", branches, (normal(4), 1), "vghj"),
    ("branches of a number", branches, (0.7, 2), "vgh"),
    ("branch in a loop", in_loop, (normal(3), normal(14)), "vghj"),
    ("branch in a loop of numbers", in_loop, (0.5, normal(25)), "vgh"),
    ("prefix", prefix, (normal(9),), "vghB"),
    ("prefix 30000", prefix, (normal(30_000, scale=0.05),), "vg"),
    ("mapped", mapped, (normal(6, 5),), "vghB"),
    ("runge_kutta", runge_kutta, (np.array([1.0, 0.2]), 2.0), "vghj"),
    ("filtered", filtered, (np.array([-1.0, -0.5]), normal(25, 1)), "vghB"),
    ("ruled", ruled, (normal(6),), "gB"),
    ("ruled 50000", ruled, (normal(50_000),), "g"),
    ("extended", extended, (CARRY, STEPS), "vghB"),
    ("solved", solved, (definite(4), normal(4, 2)), "vghB"),
    ("solved 60", solved, (definite(60), normal(60, 5)), "vg"),
    ("factored", factored, (normal(4, 4, scale=1.0),), "vghB"),
    ("spectral", spectral, (definite(4) + np.diag(np.arange(4.0)),), "vghB"),
    ("spectral 40", spectral, (definite(40) + np.diag(np.arange(40.0)),), "vg"),
    ("chained", chained, tuple(normal(5, 5, seed=i) for i in range(3)), "vghB"),
    ("regrouped", regrouped, (normal(7), normal(7, seed=1) + 3.0, 0.3), "vghB"),
    ("regrouped 100000", regrouped, (normal(100_000), normal(100_000, seed=1) + 3.0, 0.3), "vg"),
    *((f"quadratic {n}", quadratic, (normal(n),), "vghj") for n in (2, 10, 1_000, 100_000)),
)
