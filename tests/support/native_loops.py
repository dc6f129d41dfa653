"""Loops over arrays in native code, for the tests of element generators."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.native.element_operations import type_of
from fungrad.compiler.native.llvm_ir import Function, Module, Value
from fungrad.compiler.native.machine_code import build
from fungrad.primitives.primitive import Primitive, primitives

_KEPT: list[Any] = []


def ours(name: str) -> Primitive:
    """fungrad's own primitive of a name, which is unique."""
    if importlib.util.find_spec("scipy") is not None:
        importlib.import_module("fungrad.scipy.special.lazy_functions")
    (found,) = [
        p for (module, n), p in primitives.items() if n == name and module.startswith("fungrad.")
    ]
    return found


def element_loop(
    rule: Callable[..., Value], inputs: Sequence[Any], output: Any, lanes: int = 1
) -> Callable[..., Any]:
    """`f(*arrays)`: `rule(code, *values)` for each element; their number is one of the lanes."""
    module = Module()
    code = Function(module, "f", "void", [("ptr", "arrays"), ("i64", "n")])
    arrays, n = code.parameters
    pointers = [code.load(code.at(arrays, i, "ptr"), "ptr", 1) for i in range(len(inputs) + 1)]

    def step(i: Value) -> None:
        values = []
        for pointer, dtype in zip(pointers, inputs, strict=False):
            memory = _in_memory(type_of(dtype))
            value = code.load(code.at(pointer, i, memory), memory, lanes)
            values.append(value if memory != "i8" else code.compare("ne", value, 0))
        result, memory = rule(code, *values), _in_memory(type_of(output))
        if memory == "i8":
            result = code.convert("zext", result, "i8")
        code.store(result, code.at(pointers[-1], i, memory))

    code.for_range(0, n, step, lanes)
    code.ret()
    built = build(module)
    address = built.address("f")
    _KEPT.append(built)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)

    def run(*given: Any) -> Any:
        count = np.size(given[0])
        padded = -count % lanes
        parts = [
            np.concatenate([np.ravel(x).astype(dtype, copy=False), np.ones(padded, dtype)])
            for x, dtype in zip(given, inputs, strict=True)
        ]
        parts.append(np.empty(count + padded, output))
        call((ctypes.c_void_p * len(parts))(*[x.ctypes.data for x in parts]), count + padded)
        return parts[-1][:count]

    return run


def _in_memory(type: str) -> str:
    return "i8" if type == "i1" else type


__all__ = ["element_loop"]
