"""Loops over arrays as one native program, against NumPy's backend: arithmetic to the bit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad import lax
from fungrad.compiler.native import array_loops
from fungrad.compiler.native.array_loops import loop_kernel, small_kernel
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.native.programs import scalar_kernel
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.refusal import Refused
from fungrad.runtime.thread_pool import num_threads

rng = np.random.default_rng(5)
X, XS, W = rng.normal(size=300), rng.normal(size=(7, 300)), rng.normal(size=(40, 30)) / 8
pytestmark = pytest.mark.usefixtures("native")


def check(f: Callable[..., Any], *args: Any, rest: float = 0.0, whole: bool = True) -> None:
    """The results are NumPy's, within `rest` of their size; `whole` programs are one kernel."""
    if whole:
        loop_kernel(optimised(fg.make_jaxpr(f)(*args)))  # refusal cannot hide
    found = []
    for backend in ("native", "numpy"):
        fg.config.backend = backend
        found.append([np.asarray(x) for x in fg.tree_leaves(fg.jit(f)(*args))])
    for a, b in zip(*found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=rest, atol=rest * np.max(np.abs(b), initial=0.0))


def swapped(x: Any, xs: Any) -> Any:
    """The carry is exchanged, kept and stacked; outputs are repeated, constant, or the inputs."""

    def step(carry: Any, x: Any) -> Any:
        a, b, c, n = carry
        new = a * x - b
        return (b, new, c, n + 1), (new, new, a, c, np.ones(3), x, n)

    return lax.scan(step, (x, x[::-1] * 2.0, x - 1.0, np.int64(3)), xs)


def test_a_loop_without_arguments_and_with_several_results():
    def f(x: Any) -> Any:
        inner = lambda v: lax.scan(lambda c, _: (c, x), v, x)[1][..., 2:]  # noqa: E731
        return np.sum(lax.map(inner, x))

    for dtype in (np.float64, np.float32):
        check(fg.grad(f), np.ones(2, dtype))


@pytest.mark.parametrize(("length", "kernels"), [(150, 1), (900, 2)])
def test_long_stacks_between_loops_leave_loops_over_arrays(length, kernels):
    """Not a program of all numbers, which takes 13 times as long."""

    def f(u: Any, k: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return u + k * (np.roll(u, 1) - 2 * u + np.roll(u, -1)), None

        return np.sum(lax.scan(step, u, None, length)[0] ** 2)

    source = fg.jit(fg.grad(f, (0, 1))).lower(X[:200], 0.1).source
    assert source.count("for 200 elements") >= 2
    assert source.count("is machine code:") == kernels
    check(fg.grad(f, (0, 1)), X[:200], 0.1, rest=1e-12, whole=False)


def smoothed(x: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        carry = (carry[2:] + carry[:-2]) * 0.5 + x[1:-1]
        return np.concatenate([carry[:1], carry, carry[-1:]]), carry > x[1:-1]

    return lax.scan(step, x, xs, reverse=True)


def nested(x: Any, xs: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        inner = lax.scan(lambda c, _: (c * 0.5 + x, c[:2]), total, None, length=4)
        count = lax.while_loop(lambda n: n < 1e3, lambda n: n * 2.0, np.abs(inner[0][0]) + 1.0)
        return inner[0] + count, inner[1]

    return lax.scan(step, x, xs)


def network(w: Any, u: Any, xs: Any) -> Any:
    """Products of vectors and matrices in a loop, from both sides, one matrix being known."""
    known = np.linspace(-1.0, 1.0, 900).reshape(30, 30).astype(xs.dtype)

    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ (u @ h) + known @ x * 0.1) * (h @ x)
        return h / (1.0 + np.sum(h * h)), h[::2]

    last, stacked = lax.scan(step, xs[0], xs)
    return np.sum(last**2) + np.sum(stacked * stacked)


@pytest.mark.parametrize("length", [0, 1, 2, 7])
@pytest.mark.parametrize("f", [swapped, smoothed, nested])
def test_arithmetic_is_numpys_to_the_bit(f: Callable[..., Any], length: int) -> None:
    check(f, X, XS[:length])


@pytest.mark.parametrize("f", [swapped, smoothed])
def test_derivatives_of_arithmetic_are_numpys_to_the_bit(f: Callable[..., Any]) -> None:
    def total(x: Any, xs: Any) -> Any:
        return fg.tree_leaves(f(x, xs))[0]

    def products(x: Any, xs: Any) -> Any:
        return fg.vjp(total, x, xs)[1](x + 1.0)

    check(products, X, XS, whole=False)
    check(lambda x, xs: fg.jvp(total, (x, xs), (xs[0], xs))[1], X, XS, whole=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_in_loops_and_their_pullbacks(dtype: Any) -> None:
    args = W.T.astype(dtype), W.astype(dtype), XS[:, :30].astype(dtype)
    rest = 3e2 * float(np.finfo(dtype).eps)
    check(network, *args, rest=rest)
    gradient = fg.grad(network, (0, 1, 2))
    check(gradient, *args, rest=rest, whole=False)
    fg.config.backend = "native"
    first, again = (fg.jit(gradient)(*args) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_views_are_read_and_given_where_they_lie() -> None:
    w = rng.normal(size=(20, 15)) / 8

    def step(c: Any, x: Any) -> Any:
        square = c.reshape(20, 15)
        c = (square @ w.T)[:, :15].reshape(-1) + x
        return c, (square[3:9], c[100:200], square[:, 2], x[5:9], c.reshape(15, 20), square[4])

    check(lambda x, xs: lax.scan(step, x, xs), X, XS, rest=1e-12)
    check(lambda x, xs: lax.scan(lambda c, x: (c[::-1], (c[:0], c * x)), x, xs), X, XS)


def test_long_programs_of_numbers_give_way_to_loops_over_arrays() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (np.tanh(c) * np.exp(-c * c), np.sin(c)), x, None, length=9)

    graph = optimised(fg.make_jaxpr(f)(X[:90]))
    lines = [len(make(graph).module) for make in (small_kernel, scalar_kernel)]
    assert 2 * lines[0] < lines[1]
    check(f, X[:90], rest=1e-12)
    short = optimised(fg.make_jaxpr(f)(X[:2]))
    assert small_kernel(short).module.text() == scalar_kernel(short).module.text()


def test_parts_that_read_constants_alone() -> None:
    known = np.linspace(0.0, 1.0, 300)

    def f(x: Any) -> Any:
        last = lax.scan(lambda c, _: (c * 0.5 + known, None), x, None, length=3)[0]
        return last, np.sin(lax.scan(lambda c, _: (c * 0.5, None), known, None, length=3)[0])

    check(f, X, rest=1e-15)
    check(lambda x: (np.expm1(lax.fori_loop(0, 1, lambda i, c: c, np.float64(-2.0))), x * x), X,
          whole=False)  # fmt: skip


@pytest.mark.parametrize("length", [0, 3])
def test_arguments_and_repeated_results_beside_a_loop(length: int) -> None:
    def f(x: Any) -> Any:
        last, rows = lax.scan(lambda c, _: (c * 0.5, c[:9]), x, None, length=length)
        return last, x, rows, last

    check(f, X)
    check(f, X.astype(np.float32))


def test_unused_results_take_no_place() -> None:
    check(lambda x, xs: swapped(x, xs)[1][2] * 2.0, X, XS)
    check(lambda x, xs: swapped(x, xs)[0][1] * 2.0, X, XS)


def test_stacks_of_small_systems_beside_loops() -> None:
    def f(a: Any, b: Any) -> Any:
        a = a + 3.0 * np.eye(3)
        inverses = np.linalg.inv(a)
        total = lax.scan(lambda c, m: (m @ c + 1.0, None), b[0], inverses)[0]
        return total, np.linalg.solve(a, b[..., None])[..., 0], np.linalg.slogdet(a)

    check(f, rng.normal(size=(90, 3, 3)), rng.normal(size=(90, 3)), rest=1e-12)


def test_what_is_refused() -> None:
    def refused(f: Callable[..., Any], *args: Any) -> str:
        with pytest.raises(Refused) as reason:
            loop_kernel(optimised(fg.make_jaxpr(f)(*args)))
        return str(reason.value)

    assert "neither a scan" in refused(lambda x: np.sin(x) * x, X)
    assert "neither a scan" in refused(np.linalg.inv, np.ones((90, 3, 3)))  # vectors over the stack
    large = np.zeros(1_000_000)
    found = refused(lambda x: lax.scan(lambda c, _: (c * 0.5, None), x, None, 3)[0], large)
    assert "16000000 bytes of new memory" in found
    matrix = np.zeros((300, 300))
    found = refused(lambda x: lax.scan(lambda c, _: (c @ c, None), x, None, 3)[0], matrix)
    assert "300" in found


def test_threads_share_the_parts_of_long_steps() -> None:
    def step(c: Any, n: Any) -> Any:
        return np.sin(c) * n + c, (np.sum(c * c), np.max(c))

    def f(x: Any, n: Any) -> Any:
        return lax.scan(step, x, n)

    x, n = rng.normal(size=60_000), np.linspace(0.0, 1.0, 40)
    module = loop_kernel(optimised(fg.make_jaxpr(f)(x, n))).module
    assert " @fg_share(" in module.text()
    check(f, x, n, rest=1e-13)
    before, found = num_threads(), []
    try:
        for fg.config.num_threads in (1, 2):
            found.append(fg.tree_util.tree_leaves(fg.jit(f)(x, n)))
    finally:
        fg.config.num_threads = before
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_intermediates_share_memory() -> None:
    def step(c: Any, a: Any) -> Any:
        for _ in range(6):
            c = np.tanh(a @ c)
        return c, None

    matrices = rng.normal(size=(5, 40, 40)) / 40.0
    graph = optimised(fg.make_jaxpr(lambda x, a: lax.scan(step, x, a))(X[:40], matrices))
    assert loop_kernel(graph).scratch <= 4 * 320
    check(lambda x, a: lax.scan(step, x, a), X[:40], matrices, rest=1e-13)


def test_ctrl_c_ends_a_loop_over_arrays() -> None:
    f = fg.jit(lambda x: lax.scan(lambda c, _: (c * 0.5 + x, None), x, None, length=10**9)[0])
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            f(X)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


def module(*bodies: tuple[str, str]) -> Module:
    made = Module()
    for name, line in bodies:
        Function(made, name, "void", []).raw(line)
    return made


def test_modules_share_equal_functions_and_rename_others() -> None:
    mine = module(("same", "ret void"), ("other", "ret void"), ("calls", "call void @other()"))
    theirs = module(
        ("same", "ret void"), ("other", "unreachable"), ("calls", "call void @other()"),
        ("new", "call void @calls()"),
    )  # fmt: skip
    names = mine.absorb(theirs)
    assert names == {"same": "same", "other": "other_0", "calls": "calls_0", "new": "new"}
    assert set(mine.functions) == {"same", "other", "calls", "other_0", "calls_0", "new"}
    assert "@other_0()" in mine.functions["calls_0"].text()
    assert "@calls_0()" in mine.functions["new"].text()
    assert "@other()" in mine.functions["calls"].text()


def test_many_arrays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_loops, "MOST_ARRAYS", 3)
    with pytest.raises(Refused, match="arrays"):
        loop_kernel(optimised(fg.make_jaxpr(swapped)(X, XS)))
