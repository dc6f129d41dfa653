"""The choice of the backend: the setting, the refusals of native code, and their report."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad import lax
from fungrad.compiler import backend_choice
from fungrad.compiler.cost_model import costs
from fungrad.compiler.native import backend, entry
from fungrad.compiler.native.generators import Generator
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Graph, Verification

GIVEN = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]


def sines_as_a_thousand(graph: Graph) -> Kernel:
    """Takes Graphs of one sine of doubles, and returns 1000, so that its use is visible."""
    if [e.primitive.name for e in graph.equations] != ["sin"]:
        raise Refused("it is no sine")
    module = Module()
    code = Function(module, "kernel", "void", GIVEN, attributes="internal")
    y = code.load(code.at(code.parameters[0], 1, "ptr"), "ptr")
    size = graph.output_types[0].size
    code.for_range(
        0, size, lambda i: code.store(code.constant(1e3, "double"), code.at(y, i, "double"))
    )
    code.ret()
    return Kernel(module, graph.input_types, graph.output_types)


@pytest.fixture
def thousands(native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "GENERATORS", [Generator(sines_as_a_thousand)])
    monkeypatch.setattr(Verification, "runs", "never")


def test_a_change_of_the_setting_takes_effect_at_the_next_call(thousands: None) -> None:
    f = fg.jit(np.sin)
    guarded = fg.jit(lambda x: np.sin(x) if x[0] > 0 else x, branches="guard")
    x = np.full(3, 0.5)
    for _ in range(2):
        for setting, expected in (("native", 1e3), ("numpy", np.sin(0.5)), ("auto", 1e3)):
            fg.config.backend = setting
            assert fg.config.backend == setting
            for _ in range(3):
                assert f(x).tolist() == [expected] * 3
                assert guarded(x).tolist() == [expected] * 3


def test_what_is_refused_says_why_and_runs_on_numpy(thousands: None) -> None:
    g = fg.jit(lambda x: -np.sin(x))
    assert [(r.equation.primitive.name, r.reason) for r in g.lower(np.ones(2)).refused] == [
        ("sin", "it is no sine"), ("neg", "it is no sine"),
    ]  # fmt: skip
    assert g.lower(np.ones(2)).native == "" and "sin" in g.lower(np.ones(2)).source
    assert g(np.ones(2)).tolist() == (-np.sin(np.ones(2))).tolist()


def test_the_text_of_a_native_program(thousands: None) -> None:
    lowered = fg.jit(np.sin).lower(np.ones(2))
    assert "define ptr @fg_entry" in lowered.native and "\nfg_entry:" in lowered.native
    assert lowered.refused == ()
    assert "sin(" in lowered.source, "its fallback is shown"
    fg.config.backend = "numpy"
    assert lowered.native == ""


def test_the_names_of_settings(native: None) -> None:
    with pytest.raises(fg.errors.ArgumentError, match='"auto", "numpy" or "native", not 3'):
        fg.config.backend = 3
    assert fg.config.backend == "native"


def test_without_llvmlite(native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_choice, "installed", lambda: False)
    with pytest.raises(fg.errors.MissingExtraError, match=r"fungrad\[native\]"):
        fg.config.backend = "native"
    assert fg.config.backend == "native"
    fg.config.backend = "auto"
    assert fg.jit(np.sin)(1.0) == np.sin(1.0)


def test_where_memory_is_laid_out_otherwise_numpy_runs(
    thousands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend.symbols, "mismatch", lambda: "arrays have another layout")
    backend.usable.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="arrays have another layout") as seen:
            assert fg.jit(np.sin)(1.0) == np.sin(1.0)
            assert fg.jit(lambda x: np.sin(x))(1.0) == np.sin(1.0)
        assert len(seen) == 1
    finally:
        backend.usable.cache_clear()


@pytest.mark.parametrize(("value", "setting"), [("0", "numpy"), ("1", "auto"), ("", "auto")])
def test_the_environment_sets_the_start(value: str, setting: str) -> None:
    script = "import fungrad, sys; print(fungrad.config.backend, 'llvmlite' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "FUNGRAD_NATIVE": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [setting, "False"]


def test_eager_loops_are_offered_too(thousands: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def watching(graph: Graph) -> Kernel:
        seen.append([e.primitive.name for e in graph.equations])
        raise Refused("it only looks")

    monkeypatch.setattr(backend, "GENERATORS", [Generator(watching)])
    found = fg.lax.fori_loop(0, 5, lambda i, x: x * 1.5, np.ones(3))
    np.testing.assert_array_equal(found, np.full(3, 1.5**5))
    assert seen and seen[0] == ["scan"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forbids itself executable memory by prctl")
def test_where_memory_cannot_be_executable_numpy_runs() -> None:
    script = """
import ctypes, sys, warnings
import numpy as np, fungrad as fg
fg.config.backend = "auto"
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE
    sys.exit("not supported")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    right = [bool(fg.jit(f)(0.5) == f(0.5)) for f in (np.sin, np.cos)]
print(right, [str(w.message) for w in seen])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if found.stderr.strip() == "not supported":
        pytest.skip("this kernel cannot forbid it")
    assert found.stdout == (
        "[True, True] ['fungrad runs on NumPy, not on native code: memory cannot be made "
        "executable here.']\n"
    ), found.stderr


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: (x + 1, x), (2.0,)),
        (lambda x: (x + 1, x), (np.ones(3),)),
        (lambda x: x, (np.ones(3),)),
        (lambda x: fg.lax.fori_loop(0, 3, lambda i, y: y * 2, x), (2.0,)),
        (lambda x: (np.sin(x), x.T), (np.ones((3, 3)),)),
    ],
)
def test_a_tuple_says_that_arrays_are_nobody_elses(f: Any, args: Any) -> None:
    """Numpy's programs, whose results may be their arguments, return lists."""
    fg.config.backend = "numpy"
    compiled = fg.jit(f)
    compiled(*args)
    (program,) = compiled._direct.values()
    assert type(program(*args)) is list


def in_a_loop(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda n: lax.fori_loop(0, 2, lambda _, x: x + f(n), 0.5)


def in_a_branch(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda n: lax.cond(n < 0, lambda n: f(n) + n, f, n)


def from_a_literal(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def step(_: Any, x: Any) -> Any:
        return x + f(lax.cond(x > 0, lambda: -(2**63), lambda: 2**62))

    return lambda n: lax.fori_loop(0, 2, step, 0.5 * n)


@pytest.mark.parametrize("within", [lambda f: f, in_a_loop, in_a_branch, from_a_literal])
@pytest.mark.parametrize(
    "f",
    [
        lambda n: n * n + 1,
        lambda n: n + n,
        lambda n: n - 5 - n * 3,
        lambda n: -n,
        abs,
        lambda n: n**5,
        lambda n: n // -1,
        lambda n: (n % 7) + n // 3,
        lambda n: n / 3,
        lambda n: (n * 1.0 < n) * 2,
        lambda n: (n & 12) | ~n ^ 5,
        lambda n: n << 40,
    ],
)
def test_pythons_integers_have_no_bound(native: None, f: Any, within: Any) -> None:
    compiled = fg.jit(within(f))
    for n in (0, 3, -9, 2**40, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**70):
        fg.config.backend = "numpy"
        expected = compiled(n)
        fg.config.backend = "native"
        found = compiled(n)
        assert found == expected and type(found) is type(expected)


def test_divisions_of_pythons_integers_by_zero(native: None) -> None:
    for f in (lambda n: 5 // n, lambda n: 5 % n):
        compiled = fg.jit(f)
        assert compiled(2) == f(2) and compiled.lower(2).native
        with pytest.raises(ZeroDivisionError):
            compiled(0)


def test_numpys_integers_wrap(native: None) -> None:
    f = fg.jit(lambda n: n * n + 1)
    assert f(np.int64(2**40)) == 1 and f(2**40) == 2**80 + 1
    fibonacci = fg.jit(lambda n: lax.fori_loop(0, n, lambda _, ab: (ab[1], sum(ab)), (0, 1))[0])
    factorial = fg.jit(lambda n: lax.fori_loop(1, n + 1, lambda i, x: x * i, 1))
    assert fibonacci(90) == 2880067194370816120 and fibonacci(93) < 0
    assert factorial(20) == math.factorial(20) and factorial(66) == 0


def waves(x: Any) -> Any:
    """A Graph that is long for its work."""
    y = np.sin(x) * np.tan(x) + np.arctan(x) * np.log1p(x) - np.cosh(x) / np.cbrt(x)
    return np.arcsinh(y) * np.arctan2(y, x) + np.expm1(y) ** x


@pytest.mark.slow
def test_what_saves_less_than_its_build_takes_runs_on_numpy(native: None) -> None:
    assert fg.jit(waves).lower(0.5).native
    fg.config.backend = "auto"
    lowered = fg.jit(waves).lower(0.5)
    assert not lowered.native
    assert any("ms to build and save" in reason.reason for reason in lowered.refused)
    assert fg.jit(waves).lower(np.linspace(0.1, 0.9, 100_000)).native
    loop = fg.jit(lambda x: fg.lax.fori_loop(0, 1_000, lambda i, x: np.cos(x) * 1.1, x))
    assert loop.lower(0.5).native
    spread = fg.jit(fg.value_and_grad(lambda x: np.sum(np.std(x, 1))))
    lowered = spread.lower(np.ones((2000, 100)))  # roots and quotients of rows are few
    assert lowered.native.count("define ptr @fg_entry") == 1


@pytest.mark.parametrize("shape", [(), (10,)])
def test_functions_are_written_once_and_round_the_same(native: None, shape: Any) -> None:
    x = np.linspace(-2.0, 3.0, 10) if shape else np.float64(0.7)

    def f(x: Any) -> Any:
        return sum([np.sin(k * x) for k in range(1, 6)])

    lowered = fg.jit(f).lower(x)
    assert lowered.native.count("@sin_double(double %x0)") == 1
    one = fg.jit(np.sin)
    assert np.array_equal(fg.jit(f)(x), sum([one(k * x) for k in range(1, 6)]))


@pytest.mark.slow
def test_chains_deeper_than_pythons_stack(native: None) -> None:
    def f(x: Any) -> Any:
        for _ in range(400):
            x = np.sqrt(x * x + 1.0) * 0.9
        return x

    x = np.linspace(0.0, 1.0, 300)
    jitted = fg.jit(f)
    assert jitted.lower(x).native
    assert np.array_equal(jitted(x), f(x))


def test_threads_and_items_read_ahead_change_no_bit_of_columns(native: None) -> None:
    def f(a: Any) -> Any:
        e = np.exp(a - np.max(a, axis=0, keepdims=True))
        return e / np.sum(e, axis=0), np.log(np.sum(e, axis=0))

    a = np.random.default_rng(0).normal(size=(20, 16_001))
    jitted, before = fg.jit(f), fg.config.num_threads
    assert "prefetch" in jitted.lower(a).native
    found = []
    for threads in (1, 2, 4):
        fg.config.num_threads = threads
        found.append([np.array(x) for x in jitted(a)])
    fg.config.num_threads = before
    for results in found:
        for x, first, expected in zip(results, found[0], f(a), strict=True):
            assert np.array_equal(x, first)
            np.testing.assert_allclose(x, expected, rtol=1e-14, atol=1e-14)


def test_the_design_page_shows_the_native_program_that_runs(native: None) -> None:
    page = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
    (shown,) = re.findall("```llvm\n(.*?)```", page, re.DOTALL)
    lowered = fg.jit(fg.grad(lambda x: np.sum(np.sin(x) * x))).lower(np.ones(2))
    assert shown in lowered.native


def test_threads_that_build_one_program_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60.0)
    made = entry.callable

    def built(*args: Any) -> Any:
        found = made(*args)
        both.wait()
        return found

    monkeypatch.setattr(entry, "callable", built)
    graph = fg.jit(lambda x: np.sin(x) * 2.0).lower(np.ones(3_000)).optimised
    native = backend.Native()
    with ThreadPoolExecutor(2) as pool:
        programs = list(pool.map(native.compile, [graph, graph]))
    for program in programs:
        np.testing.assert_allclose(program(np.ones(3_000))[0], np.sin(1.0) * 2.0)


def test_a_long_program_calls_the_programs_of_its_parts(
    native: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = fg.jit(lambda x: np.sin(x) + 0.1)
    for _ in range(10):
        f = fg.jit(lambda x, f=f: f(f(x)))
    x = np.linspace(0.0, 1.0, 3)
    expected = x
    for _ in range(1_024):
        expected = np.sin(expected) + 0.1
    for most in (costs.native_equations, 64):
        monkeypatch.setattr(costs, "native_equations", most)
        f.cache_clear()
        assert bool(f.lower(x).native) == (most > 64)
        np.testing.assert_allclose(f(x), expected, rtol=1e-13)


def test_arrays_of_subclasses_leave_no_doubt(native: None) -> None:
    """Programs that may be left to NumPy, such as reads by index arrays, return all results."""

    class Own(np.ndarray):
        pass

    f = fg.make_jaxpr(lambda x, i: (np.tanh(x[i]), np.exp(x[i]) * 0.0))
    x, i = np.linspace(0.0, 1.0, 5_000), np.arange(5_000)[::-1].copy()
    run = backend.Native().compile(f(x, i))
    for given in (x, x.view(Own)):
        first, second = run(given, i)
        np.testing.assert_allclose(first, np.tanh(x[::-1]), 1e-14)
        assert not np.any(second)
