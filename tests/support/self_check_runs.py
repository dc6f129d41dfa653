"""A plugin of pytest that runs the tests of many mutants in forks of one process, which has
imported the package and collected the tests, and reports what the compiler's self-check notices.

A fork ends at the first alarm: what follows would not change the answer.
"""

from __future__ import annotations

import importlib
import os
import resource
import select
import signal
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import patched_code
import pytest
import self_check_watch

import fungrad

ROOT = Path(fungrad.__file__).parent
SECONDS = 60
"""The CPU time of a mutant's tests, and half as much as their time on a quiet machine."""


def _matches(item: Any, tests: tuple[str, ...]) -> bool:
    file = Path(item.path).name
    names = {file, f"{file}::{item.originalname}", f"{file}::{item.name}"}
    return not names.isdisjoint(tests)


def _native_run(f: Any, args: Any) -> None:
    """Runs a function as a compiled program of loops over arrays, which is checked."""
    backend: Any = importlib.import_module("fungrad.compiler.native.backend")
    fused: Any = importlib.import_module("fungrad.compiler.native.fused")
    single: Any = importlib.import_module("fungrad.compiler.native.single_equations")
    before, fungrad.config.backend = fungrad.config.backend, "native"
    loops = mock.patch.object(backend, "GENERATORS", [fused.fused_kernel, single.single_kernel])
    try:
        with loops, np.errstate(all="ignore"):
            fungrad.jit(f)(*args)
    finally:
        fungrad.config.backend = before


def _of_kernels(module: Any, f: Any, *args: Any, **how: Any) -> Any:
    return f, args


def _of_elements(module: Any, name: str, ufunc: Any, *dtypes: Any, **how: Any) -> Any:
    return lambda *xs: ufunc(*xs), module.pairs(*dtypes)


def _of_products(module: Any, x: Any, y: Any, contract: Any, batch: Any = ((), ())) -> Any:
    return lambda x, y: module.dot_general(x, y, contract=contract, batch=batch), (x, y)


KERNELS = {
    "test_native_fused": _of_kernels,
    "test_native_elements": _of_elements,
    "test_native_products": _of_products,
}
"""The modules of tests that run kernels alone, by `check` or `native`, and what makes a function
and arguments of the arguments of these: the functions run as programs, which are what is checked.
"""


def _as_programs(module: Any) -> None:
    given = KERNELS.get(module.__name__.rpartition(".")[2])
    if given is None:
        return
    native = getattr(module, "native", None)

    def check(*args: Any, **how: Any) -> None:
        _native_run(*given(module, *args, **how))

    def both(*args: Any, **how: Any) -> Any:
        check(*args)
        return native(*args, **how)

    module.check, module.native = check, both


def _child(mutant: Any, items: list[Any], answer: int) -> None:
    """Runs the tests of a mutant, and writes its counts."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))

    def end(word: str) -> None:
        os.write(answer, repr({**self_check_watch.counts, "end": word}).encode())
        os._exit(0)

    signal.signal(signal.SIGXCPU, lambda *_: end("time"))
    self_check_watch.at_alarm = lambda: end("alarm")
    try:
        importlib.import_module("fungrad." + mutant.file.removesuffix(".py").replace("/", "."))
        patched_code.apply(str(ROOT / mutant.file), mutant.old, mutant.new)
    except patched_code.NotInFunctions:
        os.write(answer, b"{'end': 'import'}")
        os._exit(0)
    for module in {item.module for item in items}:
        _as_programs(module)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    end("all")


def _answer(mutant: Any, items: list[Any]) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            _child(mutant, items, write)
        finally:
            os._exit(1)
    os.close(write)
    ready, _, _ = select.select([read], [], [], 20 * SECONDS)
    text = os.read(read, 10_000) if ready else b""
    os.close(read)
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return eval(text) if text else {"end": "crash"}


class Runs:
    """The plugin.

    Args:
      mutants: those to run.
      report: called with each mutant and its counts.
      slow: words in the names of tests that are left out.
    """

    def __init__(self, mutants: Any, report: Any, slow: tuple[str, ...]) -> None:
        self.mutants, self.report, self.slow = mutants, report, slow

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        for mutant in self.mutants:
            items = [i for i in session.items if _matches(i, mutant.tests)]
            items = [i for i in items if not any(word in i.name for word in self.slow)]
            started = time.monotonic()
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = _answer(mutant, items)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            self.report(mutant, {**found, "cpu": round(cpu, 1), "tests": len(items),
                                 "wall": round(time.monotonic() - started, 1)})  # fmt: skip
        return True
