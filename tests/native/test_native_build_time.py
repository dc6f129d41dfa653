"""Building long programs: they are cut into kernels, equal kernels are made once, and the work
grows linearly with the number of equations.
"""

from __future__ import annotations

import cProfile
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native

import fungrad as fg
from fungrad.compiler.cost_model import costs
from fungrad.compiler.native import machine_code
from fungrad.compiler.native.element_values import KernelGraph
from fungrad.retracing.inlining import key_of_graph

rng = np.random.default_rng(5)
Program = tuple[Callable[..., Any], tuple[Any, ...]]


@pytest.fixture(autouse=True)
def unrolled(native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "rerolled_equations", 1 << 60)


def ring(n: int) -> Program:
    def f(u: Any, k: Any) -> Any:
        for _ in range(n):
            u = u + k * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return np.sum(u**2)

    return f, (rng.normal(size=200), 0.1)


def plate(n: int) -> Program:
    def f(u: Any) -> Any:
        for _ in range(n):
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            u = np.pad(u[1:-1, 1:-1] + 0.1 * (around - 4 * u[1:-1, 1:-1]), 1)
        return np.sum(u * u)

    return f, (rng.normal(size=(20, 25)),)


def joined(n: int) -> Program:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = np.concatenate([x[:1], x[1:] * x[:-1]])
        return np.sum(x)

    return f, (np.linspace(0.9, 1.0, 300),)


def writes(n: int) -> Program:
    def f(x: Any) -> Any:
        out = np.zeros(n)
        for i in range(n):
            out[i] = np.sin(x * i)
        return np.sum(out * out)

    return f, (0.3,)


def states(n: int) -> Program:
    def f(x: Any) -> Any:
        found = []
        for _ in range(n):
            x = 0.99 * x + 0.01 * np.sin(x)
            found.append(x)
        return np.sum(np.stack(found) ** 2)

    return f, (1.0,)


def series(n: int) -> Program:
    def f(x: Any, c: Any) -> Any:
        total = 0.0
        for i in range(n):
            total = total + c[i] * np.cos(i * x)
        return np.sum(total * total)

    return f, (np.linspace(0.0, 1.0, 300), rng.normal(size=n))


def chain(n: int) -> Program:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = np.sin(x * x)
        return np.sum(x)

    return f, (np.linspace(0.1, 1.0, 10),)


def products(n: int) -> Program:
    def f(a: Any, x: Any) -> Any:
        for _ in range(n):
            x = x + 0.01 * np.tanh(a @ x)
        return np.sum(x)

    return f, (rng.normal(size=(4, 4)), np.ones(4))


def solves(n: int) -> Program:
    def f(e: Any, means: Any) -> Any:
        total = e * 0.0
        for i in range(n):
            x = means[i]
            for _ in range(5):
                x = x - (x - e * np.sin(x) - means[i]) / (1 - e * np.cos(x))
            total = total + np.cos(x)
        return total

    return f, (0.3, np.linspace(0.1, 6.0, n))


def gradient(program: Program) -> tuple[Any, tuple[Any, ...]]:
    f, args = program
    return fg.grad(f, tuple(range(len(args)))), args


def calls(run: Callable[[], Any]) -> int:
    """How many functions a run calls: a measure of its time that is the same in each run."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "make, n",
    [(ring, 30), (plate, 14), (joined, 24), (writes, 260), (states, 100), (series, 30),
     (chain, 80), (products, 40), (solves, 15)],
)  # fmt: skip
def test_work_grows_linearly(
    make: Callable[[int], Program], n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = machine_code.host(True)  # LLVM's own work is not counted
    monkeypatch.setattr(machine_code, "host", lambda _quick=True: quick)
    found = []
    for count in (n, 2 * n):
        g, args = gradient(make(count))
        found.append(calls(functools.partial(fg.jit(g), *args)))
    assert found[1] < 2.4 * found[0]


@pytest.mark.parametrize("make, n", [(ring, 70), (plate, 24), (joined, 24)])
def test_moves_of_moved_values_are_one_native_function(
    make: Callable[[int], Program], n: int
) -> None:
    g, args = gradient(make(n))
    run = fg.jit(g)
    for x, y in zip(run(*args), g(*args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)
    lowered = run.lower(*args)
    assert not lowered.refused
    defined = sum(kernel.llvm.count("define ") for kernel in lowered.kernels)
    assert defined < 40  # not one for each step


def test_a_sum_over_many_steps_is_divided() -> None:
    def f(*xs: Any) -> Any:
        total = 0.0
        for x in xs:
            total = total + np.sum(np.roll(x, 1) * x)
        return total

    args = [rng.normal(size=100) for _ in range(200)]
    run = fg.jit(f)
    np.testing.assert_allclose(run(*args), f(*args), rtol=1e-12)
    assert any(map(is_native, run.lower(*args).parts))


def test_the_key_of_a_graph_is_that_of_its_program() -> None:
    def key(f: Callable[..., Any], *args: Any) -> Any:
        return key_of_graph(fg.make_jaxpr(f)(*args))

    x = np.ones(3)
    assert key(lambda x: np.sin(x) * 2.0, x) == key(lambda y: np.sin(y) * 2.0, x)
    different = [
        key(lambda x: np.sin(x) * 2.0, x),
        key(lambda x: np.sin(x) * -0.0, x),
        key(lambda x: np.sin(x) * 0.0, x),
        key(lambda x: np.sin(x) * 0, x),
        key(lambda x: np.sin(x) * 2.0, np.ones(4)),
        key(lambda x: np.cos(x) * 2.0, x),
        key(lambda x: np.roll(x, 1), x),
        key(lambda x: np.roll(x, 2), x),
        key(lambda x, y: x - y, x, x),
        key(lambda x, y: y - x, x, x),
        key(lambda x, y: (y - x, x), x, x),
    ]
    assert len(set(different)) == len(different)


def test_what_an_element_reads_is_found_once(monkeypatch):
    asked: list[Any] = []
    find = KernelGraph._pieces

    def counted(self: KernelGraph, maps: Any, atom: Any, place: Any) -> Any:
        asked.append((maps, atom, place))
        return find(self, maps, atom, place)

    monkeypatch.setattr(KernelGraph, "_pieces", counted)
    f, args = ring(5)
    fg.jit(fg.grad(f))(*args)
    assert len(asked) == len({(id(maps), atom, place) for maps, atom, place in asked}) > 20
