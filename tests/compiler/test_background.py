"""Builds in another thread: results meanwhile and after, threads, forks, errors, the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native import backend
from fungrad.errors import ArgumentError, CompilerWarning, MiscompiledWarning

X = np.linspace(0.1, 1.0, 300)


@pytest.fixture(autouse=True)
def in_background(native: None) -> Iterator[None]:
    fg.config.build = "background"
    yield
    fg.config.build = "now"


class Gate:
    """Holds each build until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.begun, self.builds = threading.Event(), threading.Event(), 0
        whole = backend.Native._whole

        def held(*args: Any) -> Any:
            self.builds += 1
            self.begun.set()
            assert self.open.wait(60)
            return whole(*args)

        monkeypatch.setattr(backend.Native, "_whole", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open.set()
    fg.config.build = "now"


def loss(x: Any) -> Any:
    return np.sum(np.exp(-x * x) * np.sin(x))


def finish() -> None:
    """Waits for all builds."""
    fg.config.build = "now"
    fg.config.build = "background"


def is_native(f: Any, *args: Any) -> bool:
    (program,) = f._direct.values()
    return type(program).__name__ == "builtin_function_or_method"


def test_calls_are_evaluated_until_the_program_is_ready(gate: Gate) -> None:
    f = fg.jit(fg.grad(loss))
    expected = fg.grad(loss)(X)
    for _ in range(3):
        np.testing.assert_array_equal(f(X), expected)
    assert f.lower(X).checked.startswith("evaluated: its program is being built")
    gate.open.set()
    finish()
    for _ in range(3):
        np.testing.assert_allclose(f(X), expected, rtol=1e-13)
    assert is_native(f, X) and gate.builds == 1
    assert f.lower(X).checked.startswith("the first run was compared")


def test_loops_called_eagerly_are_built_too(gate: Gate) -> None:
    def f(x: Any) -> Any:
        return fg.lax.fori_loop(0, 50, lambda _, y: y + 0.1 * np.sin(y), x)

    first = f(X)
    gate.open.set()
    finish()
    for _ in range(3):
        np.testing.assert_allclose(f(X), first, rtol=1e-13)


def test_trees_branches_and_static_arguments(gate: Gate) -> None:
    def f(tree: Any, n: int, *, power: int) -> Any:
        return {"a": tree["a"] ** power * n, "b": -tree["b"] if np.sum(tree["b"]) > 0 else tree}

    g = fg.jit(f, static_argnames="power")
    tree = {"a": X, "b": X + 1.0}
    for opened in (False, True):
        for _ in range(3):
            found = g(tree, 3, power=2)
            np.testing.assert_allclose(found["a"], X**2 * 3, rtol=1e-14)
            np.testing.assert_array_equal(found["b"], -X - 1.0)
        if not opened:
            gate.open.set()
            finish()


def test_the_program_is_checked_at_its_first_run(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FUNGRAD_STRICT", raising=False)
    right = backend.Native.compile
    monkeypatch.setattr(
        backend.Native, "compile",
        lambda self, graph: lambda *args: tuple([x + 1.0 for x in right(self, graph)(*args)]),
    )  # fmt: skip
    f = fg.jit(loss)
    expected = f(X)
    gate.open.set()
    finish()
    with pytest.warns(MiscompiledWarning):
        assert f(X) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(X) == expected


@pytest.mark.parametrize("strict", ["0", "1"])
def test_an_error_of_the_compiler(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNGRAD_STRICT", strict)

    def fail(*args: Any) -> Any:
        raise ZeroDivisionError("of the compiler")

    monkeypatch.setattr(backend.Native, "_whole", fail)
    f = fg.jit(loss)
    expected = f(X)
    finish()
    if strict == "1":
        with pytest.raises(ZeroDivisionError, match="of the compiler"):
            f(X)
        return
    with pytest.warns(CompilerWarning, match="of the compiler") as found:
        assert f(X) == expected
    assert found[0].filename == __file__
    assert f(X) == expected


def test_many_threads_call_while_programs_are_built() -> None:
    functions = [fg.jit(fg.grad(lambda x, n=n: loss(x * n))) for n in range(1, 7)]
    expected = [fg.grad(lambda x, n=n: loss(x * n))(X) for n in range(1, 7)]
    wrong = []

    def work() -> None:
        for _ in range(40):
            for f, y in zip(functions, expected, strict=True):
                if not np.allclose(f(X), y, rtol=1e-12):
                    wrong.append(f)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    finish()
    for f, y in zip(functions, expected, strict=True):
        f(X)
        np.testing.assert_allclose(f(X), y, rtol=1e-12)
        assert is_native(f, X)


def test_cleared_caches_drop_what_waits(gate: Gate) -> None:
    functions = [fg.jit(lambda x, n=n: loss(x * n)) for n in range(3)]
    for f in functions:
        f(X)
    assert gate.begun.wait(60)
    held = functions[2]._direct.copy()
    fg.clear_caches()
    gate.open.set()
    finish()
    assert gate.builds == 1
    for program in held.values():  # a caller that had begun: its program is built after all
        program(X)
        finish()
        program(X)
    assert gate.builds == 2
    assert np.isfinite(functions[0](X))


def test_the_setting() -> None:
    with pytest.raises(ArgumentError, match="'later'"):
        fg.config.build = "later"
    assert fg.config.build == "background"


def test_numpy_and_verify_never() -> None:
    f = fg.jit(loss, verify="never")
    expected = f(X)
    finish()
    np.testing.assert_allclose([f(X), f(X)], expected, rtol=1e-13)
    assert is_native(f, X)
    fg.config.backend = "numpy"
    np.testing.assert_allclose(f(X), expected, rtol=1e-13)
    fg.config.backend = "native"


def test_now_is_the_same_from_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fg.config.build = "now"
    f = fg.jit(fg.grad(loss))
    first = f(X)
    np.testing.assert_array_equal(f(X), first)
    assert is_native(f, X)


SCRIPT = """
import os, sys, threading, time
import numpy as np
import fungrad as fg
fg.config.build = "background"
fg.config.backend = "native"
x = np.linspace(0.1, 1.0, 300)
def f(x, n):
    for _ in range(n):
        x = 0.5 * np.sin(x) + 0.3 * np.roll(x, 1)
    return np.sum(x)
functions = [fg.jit(fg.grad(lambda x, n=n: f(x, n))) for n in (20, 21, 22, 23)]
expected = [g(x) for g in functions]
"""
FORKS = """
for _ in range(6):
    child = os.fork()
    if not child:
        for g, y in zip(functions, expected):
            assert np.allclose(g(x), y, rtol=1e-9)
        fg.config.build = "now"
        for g, y in zip(functions, expected):
            g(x)
            assert np.allclose(g(x), y, rtol=1e-9)
            assert type(list(g._direct.values())[0]).__name__ == "builtin_function_or_method"
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
fg.config.build = "now"
for g, y in zip(functions, expected):
    assert np.allclose(g(x), y, rtol=1e-9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forks_while_programs_are_built() -> None:
    _run(SCRIPT + FORKS)


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "time.sleep(0.05)", "fg.clear_caches()", "del functions, fg"]
)
def test_a_process_may_end_while_programs_are_built(end: str) -> None:
    _run(SCRIPT + end)


def test_an_error_ends_the_process_while_programs_are_built() -> None:
    done = _done(SCRIPT + "raise ValueError('mine')")
    assert done.returncode == 1 and "ValueError: mine" in done.stderr, done.stderr


def _done(text: str) -> Any:
    environment = {**os.environ, "FUNGRAD_CACHE": "0"}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=environment, timeout=300
    )


def _run(text: str) -> None:
    done = _done(text)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
