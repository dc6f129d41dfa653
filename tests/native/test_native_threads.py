"""Native code beside Python: threads that share units, forks, the end of a process, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fungrad as fg
from fungrad.compiler.native import entry
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.ir.types import Type

GIVEN = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]
UNIT = 4096


def no_fallback(*args: Any) -> Any:
    raise AssertionError(args)


def sum_of_squares(size: int, cost_ns: float = 1e6, work: int = 4) -> Any:
    """A program of sum(x**2 * work) in blocks, which threads share."""
    units = -(-size // UNIT)
    module = Module()
    code = Function(module, "kernel", "void", GIVEN, attributes="internal")
    arrays, begin, end, scratch = code.parameters
    x = code.load(arrays, "ptr")
    total = code.variable("double")

    def unit(u: Any) -> None:
        code.set(total, code.constant(0.0, "double"))
        first = code.mul(u, UNIT)
        last = code.intrinsic("smin", [code.add(first, UNIT), size])

        def once(i: Any) -> None:
            value = code.load(code.at(x, i, "double"), "double")

            def again(_: Any) -> None:
                code.set(total, code.add(code.get(total), code.mul(value, value)))

            code.for_range(0, work, again)

        code.for_range(first, last, once)
        code.store(code.get(total), code.at(scratch, u, "double"))

    code.for_range(begin, end, unit)
    code.ret()
    finish = Function(module, "finish", "i32", GIVEN[:1] + GIVEN[3:], attributes="internal")
    arrays, scratch = finish.parameters
    y = finish.load(finish.at(arrays, 1, "ptr"), "ptr")
    result = finish.variable("double")
    finish.set(result, finish.constant(0.0, "double"))

    def add(i: Any) -> None:
        part = finish.load(finish.at(scratch, i, "double"), "double")
        finish.set(result, finish.add(finish.get(result), part))

    finish.for_range(0, units, add)
    finish.store(finish.get(result), y)
    finish.ret(finish.constant(0, "i32"))
    kernel = Kernel(
        module,
        [Type((size,), "float64")],
        [Type((), "float64")],
        units=units,
        scratch=8 * units,
        finish="finish",
        cost_ns=cost_ns,
    )
    return entry.callable(kernel, no_fallback)


def endless() -> Any:
    """A program that counts until somebody stops it."""
    module = Module()
    code = Function(module, "kernel", "i32", GIVEN, attributes="internal")
    status = code.variable("i32")
    code.set(status, code.constant(0, "i32"))
    x = code.load(code.parameters[0], "ptr")

    def look() -> None:
        code.for_range(0, 65536, lambda i: code.raw(f"store volatile i64 {i.text}, ptr {x.text}"))
        code.set(status, code.call("fg_signalled", "i32", []))

    code.while_loop(lambda: code.compare("eq", code.get(status), 0), look)
    code.ret(code.get(status))
    kernel = Kernel(module, [Type((1,), "int64")], [], interruptible=True)
    return entry.callable(kernel, no_fallback)


@pytest.fixture
def threads() -> Iterator[None]:
    before = fg.config.num_threads
    yield
    fg.config.num_threads = before


@pytest.mark.parametrize("size", [0, 1, UNIT, UNIT + 1, 40 * UNIT - 3, 400 * UNIT])
def test_results_do_not_depend_on_the_number_of_threads(size: int, threads: None) -> None:
    run = sum_of_squares(size)
    x = np.random.default_rng(0).standard_normal(size)
    found = set()
    for count in (1, 2, 4, 3, 1, 4):
        fg.config.num_threads = count
        found |= {run(x)[0].tobytes() for _ in range(5)}
    assert len(found) == 1
    np.testing.assert_allclose(np.frombuffer(found.pop()), [4 * np.sum(x * x)], rtol=1e-12)


def test_many_threads_of_python_call_one_program(threads: None) -> None:
    fg.config.num_threads = 4
    run = sum_of_squares(50 * UNIT)
    xs = [np.full(50 * UNIT, float(i)) for i in range(8)]
    expected = [run(x) for x in xs]
    wrong: list[Any] = []

    def call(i: int) -> None:
        for _ in range(50):
            if run(xs[i]) != expected[i]:
                wrong.append(i)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


HELP = f"import sys; sys.path[:0] = {sys.path!r}\n"
SHARED = (
    HELP
    + """
import os, threading, numpy as np, fungrad as fg
from test_native_threads import *
fg.config.num_threads = 4
def alive():
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
"""
)


def python(script: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SHARED + script], capture_output=True, text=True, timeout=300, **how
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_children_compute() -> None:
    script = """
run = sum_of_squares(100 * UNIT)
x = np.ones(100 * UNIT)
right = run(x)
busy = threading.Thread(target=lambda: [run(x) for _ in range(200)])
for during in (False, True):
    if during:
        busy.start()
    for _ in range(5):
        child = os.fork()
        if not child:
            os._exit(0 if [run(x) for _ in range(9)] == [right] * 9 else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert run(x) == right
busy.join()
print("right")
"""
    found = python(script)
    assert found.stdout == "right\n", found.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_thread_is_alive_at_the_end() -> None:
    script = """
import atexit, time
before = alive()
def end():
    for _ in range(100):  # the last one has said that it leaves
        if alive() > before:
            time.sleep(0.01)
    print("at the end", alive() - before)
atexit.register(end)
run = sum_of_squares(100 * UNIT)
x = np.ones(100 * UNIT)
print("at first", alive() - before)
run(x)
print("at work", alive() - before)
"""
    found = python(script)
    assert found.stdout.split("\n")[:3] == ["at first 0", "at work 3", "at the end 0"], found.stderr
    assert found.returncode == 0


@pytest.mark.slow
def test_the_end_comes_while_daemons_compute() -> None:
    script = """
run = sum_of_squares(100 * UNIT)
x = np.ones(100 * UNIT)
def forever():
    while True:
        run(x)
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
run(x)
print("end")
"""
    for _ in range(3):
        found = python(script)
        assert (found.stdout, found.returncode) == ("end\n", 0), found.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGINT from within")
@pytest.mark.parametrize("busy", [False, True])
def test_an_interrupt_ends_a_loop(busy: bool) -> None:
    script = f"""
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
run = endless()
def send():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)
def spin():
    while True:
        pass
if {busy}:
    threading.Thread(target=spin, daemon=True).start()
try:
    threading.Thread(target=send).start()
    run(np.zeros(1, int))
except KeyboardInterrupt:
    print("interrupted")
"""
    found = python(script)
    assert found.stdout == "interrupted\n", found.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_handlers_of_signals_run_within_a_loop() -> None:
    script = """
import signal
class Enough(Exception): pass
seen = []
def handle(*_):
    seen.append(1)
    if len(seen) == 3:
        raise Enough
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
try:
    endless()(np.zeros(1, int))
except Enough:
    print("enough", len(seen))
"""
    assert python(script).stdout == "enough 3\n"
