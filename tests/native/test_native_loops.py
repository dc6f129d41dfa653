"""Native programs of small arrays and loops, against NumPy's backend: arithmetic to the bit."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native

import fungrad as fg
from fungrad import lax
from fungrad.compiler.native.array_loops import loop_kernel
from fungrad.compiler.native.programs import scalar_kernel
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refused

F64 = np.float64


def logistic(r: Any, x: Any) -> Any:
    return lax.scan(lambda x, _: (r * x * (1.0 - x), x), x, None, length=300)


def ar2(a: Any, noise: Any) -> Any:
    def step(carry: Any, e: Any) -> Any:
        x, y = carry
        new = a[0] * x + a[1] * y + e
        return (new, x), new

    return lax.scan(step, (noise[0], noise[1]), noise)[1]


def garch(p: Any, returns: Any) -> Any:
    def step(v: Any, r: Any) -> Any:
        v = p[0] + p[1] * r * r + p[2] * v
        return v, r * r / v

    return np.sum(lax.scan(step, returns[0] * returns[0], returns)[1])


def sir(p: Any, y: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        new = p[0] * y[0] * y[1]
        gone = p[1] * y[1]
        y = y + p[2] * np.stack([-new, new - gone, gone])
        return y, y[1]

    return lax.scan(step, y, None, length=120)


def van_der_pol(mu: Any, y: Any) -> Any:
    def step(_: Any, y: Any) -> Any:
        x, v = y[0], y[1]
        return y + mu / 128.0 * np.stack([v, mu * (1.0 - x * x) * v - x])

    return lax.fori_loop(0, 100, step, y)


def newton(a: Any) -> Any:
    def going(s: Any) -> Any:
        return np.abs(s * s - a) > a * 1e-6

    return lax.while_loop(going, lambda s: (s + a / s) / 2.0, a)


def collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return np.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, n * 0))


def branches(i: Any, x: Any) -> Any:
    ways = [lambda x: x * x, lambda x: x + 1.0, lambda x: 2.0 / x]
    return lax.fori_loop(0, 5, lambda k, x: lax.switch((i + k) % 3, ways, x), x)


def kalman(a: Any, zs: Any) -> Any:
    q = np.eye(2, dtype=a.dtype) * a[0, 0] / 8

    def step(carry: Any, z: Any) -> Any:
        x, p = carry
        x, p = a @ x, a @ p @ a.T + q
        s = p[0, 0] + 1
        k = p[:, 0] / s
        x = x + k * (z - x[0])
        return (x, p - np.outer(k, p[0])), x[0]

    return lax.scan(step, (np.zeros(2, a.dtype), q), zs)[1]


def nested(x: Any, w: Any) -> Any:
    def inner(y: Any) -> Any:
        return lax.while_loop(lambda s: s < 10.0 * x, lambda s: s * w + x, y)

    return lax.fori_loop(0, 4, lambda i, y: inner(y / np.where(i > 1, x, w)), x)


def inner_gradient(x: Any) -> Any:
    """Descends along a gradient of a loop: reverse mode in a loop."""
    slope = fg.grad(lambda y: lax.while_loop(lambda s: s < 50.0, lambda s: s * s + y, y))
    return lax.fori_loop(0, 20, lambda i, x: x - slope(x) / 65536.0, x)


def draw(*shape: int, dtype: Any = F64, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


CASES: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    "logistic": (logistic, lambda t: (t(3.7), t(0.3))),
    "ar2": (ar2, lambda t: (np.array([0.5, -0.3], t), draw(200, dtype=t))),
    "ar2, short": (ar2, lambda t: (np.array([0.5, -0.3], t), draw(20, dtype=t))),
    "garch": (garch, lambda t: (np.array([0.1, 0.2, 0.7], t), draw(150, dtype=t))),
    "sir": (sir, lambda t: (np.array([0.5, 0.2, 0.1], t), np.array([0.9, 0.1, 0.0], t))),
    "van der pol": (van_der_pol, lambda t: (t(1.5), np.array([1.0, 0.5], t))),
    "newton": (newton, lambda t: (t(7.0),)),
    "branches": (branches, lambda t: (np.int64(1), t(1.5))),
    "nested": (nested, lambda t: (t(1.25), t(1.5))),
    "kalman": (kalman, lambda t: (np.array([[1, 0.5], [0, 1]], t), draw(90, dtype=t))),
    "collatz": (collatz, lambda t: (np.int64(27),)),
    "inner gradient": (inner_gradient, lambda t: (t(1.25),)),
}
ROUNDED = {"garch": 8, "kalman": 16}
"""Cases that add up many numbers or matrix products, which NumPy does in another order; in units of
the last place of the largest number."""


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of all that a function gives, weighted."""

    def g(*args: Any) -> Any:
        found = fg.tree_util.tree_leaves(f(*args))
        return sum([np.sum(x * 0.5) if np.ndim(x) else x * 0.25 for x in found])

    return g


def inexact(args: Any) -> tuple[int, ...]:
    return tuple([i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f"])


def of_floats(f: Callable[..., Any], args: Any) -> tuple[Callable[..., Any], Any]:
    """A function of the floats among its arguments, and those."""
    places = inexact(args)

    def of(*chosen: Any) -> Any:
        full = list(args)
        for i, x in zip(places, chosen, strict=True):
            full[i] = x
        return f(*full)

    return of, tuple([args[i] for i in places])


def tangents(f: Callable[..., Any], args: Any) -> Callable[..., Any]:
    def along(*args: Any) -> Any:
        of, chosen = of_floats(f, args)
        return fg.jvp(of, chosen, tuple([np.ones_like(x) for x in chosen]))

    return along


def hessian_product(f: Callable[..., Any], args: Any, outer: str) -> Callable[..., Any]:
    gradient = fg.grad(total(f), inexact(args))

    def along(*args: Any) -> Any:
        of, chosen = of_floats(gradient, args)
        ones = tuple([np.ones_like(x) for x in chosen])
        return fg.jvp(of, chosen, ones)[1] if outer == "forward" else fg.vjp(of, *chosen)[1](ones)

    return along


MODES: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "value": lambda f, args: f,
    "gradient": lambda f, args: fg.grad(total(f), inexact(args)),
    "forward": lambda f, args: tangents(f, args),
    "forward over reverse": lambda f, args: hessian_product(f, args, "forward"),
    "reverse over reverse": lambda f, args: hessian_product(f, args, "reverse"),
    "batch": lambda f, args: fg.vmap(f),
    "batch of gradients": lambda f, args: fg.vmap(fg.grad(total(f), inexact(args))),
}  # fmt: skip


def must_be_native(f: Callable[..., Any], args: Any) -> None:
    """Refusal cannot hide."""
    graph = optimised(fg.make_jaxpr(f)(*args))
    try:
        scalar_kernel(graph)
    except Refused:
        loop_kernel(graph)


def both(f: Callable[..., Any], args: Any) -> tuple[list[Any], list[Any]]:
    """The results of a compiled function by native code and by NumPy."""
    found = []
    for backend in ("native", "numpy"):
        fg.config.backend = backend
        with np.errstate(all="ignore"):
            result = fg.jit(f)(*args)
        found.append([np.asarray(x) for x in fg.tree_util.tree_leaves(result)])
    return found[0], found[1]


def agree(f: Callable[..., Any], args: Any, ulp: float = 0.0) -> None:
    native, numpy = both(f, args)
    for x, y in zip(native, numpy, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if ulp and y.dtype.kind == "f":
            close = ulp * np.finfo(y.dtype).eps * np.max(np.abs(y), initial=0.0)
            np.testing.assert_allclose(x, y, rtol=0.0, atol=close)
        else:
            np.testing.assert_array_equal(x, y)


EVERY = ("value", "gradient", "batch of gradients")
PAIRS = [
    (case, mode) for n, case in enumerate(CASES) for m, mode in enumerate(MODES)
    if (mode in EVERY or m % 2 == n % 2 if case != "collatz" else mode in ("value", "batch"))
]  # fmt: skip
"""Cases and modes: the modes that the others contain, and others in turns."""


@pytest.mark.parametrize(("case", "mode"), PAIRS)
def test_loops_of_arithmetic_are_those_of_numpy_to_the_bit(native: Any, case: str, mode: str):
    f, args = CASES[case][0], CASES[case][1](F64)
    if "batch" in mode:
        args = tuple([np.stack([x, x + x.dtype.type(0), x]) for x in map(np.asarray, args)])
    wanted = MODES[mode](f, args)
    must_be_native(wanted, args)
    agree(wanted, args, ROUNDED.get(case, 0))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_scans(native: Any, length: int) -> None:
    def f(x: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * x, c + x), x, xs)

    args = (F64(1.5), np.arange(1.0, 1.0 + length))
    agree(f, args)
    agree(fg.grad(lambda *a: f(*a)[0], (0, 1)), args)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308])
def test_special_numbers_in_loops(native: Any, value: float) -> None:
    agree(logistic, (F64(3.7), F64(value)))
    agree(garch, (np.array([0.1, 0.2, 0.7]), np.full(7, value)))
    agree(fg.grad(total(garch), (0, 1)), (np.array([0.1, 0.2, 0.7]), np.full(7, value)))
    agree(lambda x: lax.fori_loop(0, 3, lambda i, x: np.maximum(x, np.sign(x) / x), x), (value,))


def test_an_index_that_is_known_when_the_program_runs(native: Any) -> None:
    table = np.arange(12.0).reshape(6, 2)

    def f(i: Any, table: Any) -> Any:
        return lax.fori_loop(0, 4, lambda k, x: x + table[(i + k) % 6], np.zeros(2))

    must_be_native(f, (np.int64(3), table))
    agree(f, (np.int64(3), table))
    fg.config.backend = "native"
    g = fg.jit(lambda i, table: table[i])
    assert g(np.int64(-1), table).tolist() == [10.0, 11.0]
    with pytest.raises(IndexError):
        g(np.int64(6), table)


def test_ctrl_c_ends_a_loop_and_frees_its_memory(native: Any) -> None:
    f = fg.jit(lambda x: lax.while_loop(lambda x: x > 0.5, lambda x: x * 0.5 + 0.5, x))
    assert f(0.25) == 0.25
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            f(1.0)  # without an end
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert f(0.25) == 0.25


@pytest.mark.slow
def test_a_matrix_times_the_rows_that_a_scan_leaves(native: Any) -> None:
    def f(xs: Any, w: Any) -> Any:
        rows = lax.scan(lambda c, x: (c * 0.5 + x, c * x), np.zeros(3), xs)[1]
        return w @ rows.T, w @ rows[7:190:2].T, np.sin(rows[5:])

    rng = np.random.default_rng(3)
    xs, w = rng.normal(size=(200, 3)), rng.normal(size=(2, 3))
    compiled = fg.jit(f)
    assert any(map(is_native, compiled.lower(xs, w).parts))
    for found, expected in zip(compiled(xs, w), f(xs, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_records_and_rows_leave_no_memory_behind(native: Any) -> None:
    def f(x: Any, xs: Any) -> Any:
        y = lax.while_loop(lambda y: y < 1e6, lambda y: y + x, x)
        return lax.scan(lambda c, x: (c * 0.5 + x * c, None), y, xs)[0]

    g, args = fg.jit(fg.grad(f, (0, 1))), (F64(60.0), np.full(20_000, 0.25))
    for _ in range(20):
        g(*args)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000):
        g(*args)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20_000  # KiB; each call takes more than 600


def pendulum(p: Any, y: Any) -> Any:
    def step(y: Any, _: Any) -> Any:
        a, b, u, v = y[0], y[1], y[2], y[3]
        d, s = np.cos(a - b), np.sin(a - b)
        m = 2 - d * d
        du = (-u * u * d * s + p * np.sin(b) * d - v * v * s) / m
        return y + np.stack([u, v, du, np.tanh(v) * np.exp(-u * u)]) / 256, None

    return lax.scan(step, y, None, length=50)[0]


def hidden_markov(transition: Any, seen: Any) -> Any:
    def step(alpha: Any, e: Any) -> Any:
        inner = alpha[:, None] + transition
        top = np.max(inner, axis=0)
        return top + np.log(np.sum(np.exp(inner - top), axis=0)) + e, None

    return lax.scan(step, seen[0], seen)[0]


def gated(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        both = np.concatenate([x, h])
        z = 1 / (1 + np.exp(-(w[0] @ both)))
        return (1 - z) * np.tanh(w[1] @ both) + z * h, h

    return lax.scan(step, xs[0], xs)


OF_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    "pendulum": (pendulum, lambda t: (t(9.8), np.array([1.0, 0.5, 0.0, 0.1], t))),
    "hidden markov": (
        hidden_markov,
        lambda t: (draw(3, 3, dtype=t), draw(90, 3, dtype=t, seed=1)),
    ),
    "gated": (gated, lambda t: (draw(2, 3, 6, dtype=t) / 2, draw(40, 3, dtype=t, seed=1))),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("mode", ["value", "gradient", "forward"])
@pytest.mark.parametrize("case", OF_FUNCTIONS)
def test_loops_of_elementary_functions(native: Any, case: str, mode: str, dtype: Any) -> None:
    f, args = OF_FUNCTIONS[case][0], OF_FUNCTIONS[case][1](dtype)
    wanted = MODES[mode](f, args)
    must_be_native(wanted, args)
    agree(wanted, args, 100)  # rounding errors grow from step to step


@pytest.mark.parametrize("mode", ["value", "gradient"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "collatz"])
def test_loops_of_arithmetic_in_single_precision(native: Any, case: str, mode: str) -> None:
    f, args = CASES[case][0], CASES[case][1](np.float32)
    wanted = MODES[mode](f, args)
    must_be_native(wanted, args)
    agree(wanted, args, ROUNDED.get(case, 0))


def test_checkpoints_in_loops(native: Any) -> None:
    def f(x: Any, w: Any) -> Any:
        step = fg.checkpoint(lambda x: x * w + x * x / 8)
        return lax.scan(lambda x, _: (step(x), x), x, None, length=30)[0]

    args = (np.array([0.5, 0.25]), F64(0.75))
    gradient = fg.grad(total(f), (0, 1))
    must_be_native(gradient, args)
    agree(gradient, args)


def test_rows_gathered_by_a_long_constant_array(native: Any) -> None:
    """The forward pass of a hidden Markov model, with 500 observations."""
    seen = np.random.default_rng(0).integers(0, 8, 500)

    def log_sum(x: Any, axis: int) -> Any:
        m = np.max(x, axis=axis, keepdims=True)
        return np.log(np.sum(np.exp(x - m), axis=axis)) + np.squeeze(m, axis)

    def loss(a: Any, b: Any) -> Any:
        a, b = a - log_sum(a, 1)[:, None], b - log_sum(b, 1)[:, None]
        e = b.T[seen]

        def step(s: Any, v: Any) -> Any:
            return log_sum(s[:, None] + a, 0) + v, None

        return -log_sum(lax.scan(step, e[0] - np.log(5.0), e[1:])[0], 0)

    a, b = np.linspace(-1.0, 1.0, 25).reshape(5, 5), np.linspace(1.0, -2.0, 40).reshape(5, 8)
    found, expected = fg.jit(fg.grad(loss, (0, 1)))(a, b), fg.grad(loss, (0, 1))(a, b)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
