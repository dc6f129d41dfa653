"""Nanoseconds an element of elementary functions in native code, beside NumPy's: CPU time in L1.

Run by `python -m benchmarks.native_functions [name ...]`; needs the extra `native`. Each figure is
the minimum of interleaved rounds. Functions that NumPy does not have are compared with SciPy's.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from fungrad.compiler.native.element_operations import apply, type_of
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Function, Module, Value
from fungrad.compiler.native.machine_code import build, host

import_module("fungrad.scipy.special.lazy_functions")  # declares functions that have a native form
PRIMITIVES = {primitive.name: primitive for primitive in FUNCTIONS}
COUNT, CALLS, ROUNDS = 1024, 100, 15
_KEPT: list[Any] = []
_POSITIVE = ("log", "log2", "log10", "power", "gammaln", "digamma", "xlogy")


def native(name: str, dtype: Any, arity: int, registers: int) -> Callable[..., None]:
    """`f(inputs..., output)`, a loop with so many vector registers a step."""
    size = np.dtype(dtype).itemsize
    lanes = max(host().vector_bytes // size, 1) * registers
    module = Module()
    names = [("ptr", f"p{i}") for i in range(arity + 1)]
    code = Function(module, "f", "void", [*names, ("i64", "times")])
    *pointers, times = code.parameters
    type = type_of(dtype)

    def step(i: Value) -> None:
        xs = [code.load(code.at(p, i, type), type, lanes) for p in pointers[:-1]]
        code.store(apply(code, PRIMITIVES[name], xs, dtype), code.at(pointers[-1], i, type))

    code.for_range(0, times, lambda _: code.for_range(0, COUNT, step, lanes))
    code.ret()
    built = build(module)
    _KEPT.append(built)
    address = built.address("f")
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(address)

    def run(*arrays: Any) -> None:
        call(*[x.ctypes.data for x in arrays], CALLS)

    return run


def ufunc_of(name: str) -> Any:
    """NumPy's or SciPy's function; None where there is none."""
    if hasattr(np, name):
        return getattr(np, name)
    try:
        import scipy.special
    except ImportError:
        return None
    return getattr(scipy.special, name, None)


def arguments(name: str, dtype: Any, arity: int) -> list[Any]:
    rng = np.random.default_rng(0)
    low, high = (0.1, 9.0) if name in _POSITIVE else (-3.0, 3.0)
    if name in ("arcsin", "arccos", "arctanh"):
        low, high = -0.99, 0.99
    if name in ("arccosh", "log1p"):
        low, high = (1.0, 9.0) if name == "arccosh" else (-0.9, 9.0)
    return [rng.uniform(low, high, COUNT).astype(dtype) for _ in range(arity)]


def times(name: str, dtype: Any) -> list[float]:
    """With one, two and four registers a step, and NumPy's."""
    ufunc = ufunc_of(name)
    arity = getattr(ufunc, "nin", 2 if "difference" in name else 1)
    xs = arguments(name, dtype, arity)
    output = np.empty(COUNT, dtype)
    runs = [native(name, dtype, arity, registers) for registers in (1, 2, 4)]
    if ufunc is not None:
        runs.append(lambda *arrays: [ufunc(*arrays[:-1], out=arrays[-1]) for _ in range(CALLS)])
    best = [float("inf")] * 4
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            start = time.process_time()
            run(*xs, output)
            best[i] = min(best[i], (time.process_time() - start) / (COUNT * CALLS) * 1e9)
    return best


def main(names: list[str]) -> None:
    print(f"{'':16}{'double: 1, 2, 4 registers, NumPy':40}single: the same")
    for name in names or PRIMITIVES:
        double, single = times(name, np.float64), times(name, np.float32)
        columns = ["".join(f"{t:8.2f}" for t in row) for row in (double, single)]
        print(f"{name:16}{columns[0]}        {columns[1]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
