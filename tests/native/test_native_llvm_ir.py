"""LLVM IR as text: loops, branches, lanes and constants compute the right values."""

from __future__ import annotations

import ctypes
import math
import struct

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fungrad.compiler.native.llvm_ir import Function, Module, literal
from fungrad.compiler.native.machine_code import build

KEPT: list[object] = []


def compiled(module: Module, name: str, result: object, *types: object) -> ctypes._CFuncPtr:
    built = build(module)
    KEPT.append(built)
    return ctypes.CFUNCTYPE(result, *types)(built.address(name))  # type: ignore[arg-type]


def test_a_loop_adds_up() -> None:
    module = Module()
    code = Function(module, "f", "double", [("double", "x"), ("i64", "n")])
    x, n = code.parameters
    total = code.variable("double")
    code.set(total, code.constant(0.0, "double"))
    code.for_range(
        0,
        n,
        lambda i: code.set(
            total, code.add(code.get(total), code.mul(x, code.convert("sitofp", i, "double")))
        ),
    )
    code.ret(code.get(total))
    f = compiled(module, "f", ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    assert f(2.0, 10) == 90.0 and f(2.0, 0) == 0.0 and f(2.0, -3) == 0.0


def test_one_of_two_blocks_runs() -> None:
    module = Module()
    code = Function(module, "f", "i64", [("i64", "n")])
    (n,) = code.parameters
    found = code.variable("i64")
    code.set(found, code.constant(7, "i64"))
    code.if_else(
        code.compare("slt", n, 0),
        lambda: code.set(found, code.neg(n)),
        lambda: code.if_else(
            code.compare("eq", n, 1), lambda: code.set(found, code.constant(11, "i64"))
        ),
    )
    code.ret(code.get(found))
    f = compiled(module, "f", ctypes.c_int64, ctypes.c_int64)
    assert [f(-5), f(1), f(2)] == [5, 11, 7]


@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
@pytest.mark.parametrize(("type", "dtype"), [("double", np.float64), ("float", np.float32)])
def test_lanes_compute_what_numpy_does(lanes: int, type: str, dtype: type) -> None:
    module = Module()
    code = Function(module, "f", "void", [("ptr", "x"), ("ptr", "y")])
    source, target = code.parameters
    x = code.load(source, type, lanes)
    rare = code.compare("ogt", x, 2.0)
    (y,) = code.rarely(
        rare, [code.div(1.0, x)], lambda: [code.select(rare, code.neg(x), code.div(1.0, x))]
    )
    code.store(code.add(code.mul(y, y), code.sub(x, code.splat(code.lane(x, 0), lanes))), target)
    code.ret()
    f = compiled(module, "f", None, ctypes.c_void_p, ctypes.c_void_p)
    for shift in (0.0, 1.0):
        values = np.linspace(0.3, 1.7, lanes).astype(dtype) + dtype(shift)
        found = np.zeros(lanes, dtype)
        f(values.ctypes.data, found.ctypes.data)
        y = np.where(values > 2, -values, dtype(1) / values)
        assert found.tobytes() == (y * y + (values - values[0])).tobytes()


def test_functions_of_scalars_run_lane_by_lane() -> None:
    module = Module()
    twice = Function(module, "twice", "double", [("double", "x")], attributes="internal")
    twice.ret(twice.add(twice.parameters[0], twice.parameters[0]))
    code = Function(module, "f", "void", [("ptr", "x")])
    (place,) = code.parameters
    x = code.load(place, "double", 4)
    some = code.any(code.compare("ogt", x, 2.5))
    every = code.all(code.compare("ogt", x, 2.5))
    both = code.add(code.call_lanes("twice", [x]), code.convert("sitofp", code.iota(4), "double"))
    code.store(both, place)
    flags = code.at(place, 4, "double")
    code.store(code.convert("uitofp", some, "double"), flags)
    code.store(code.convert("uitofp", every, "double"), code.at(flags, 1, "double"))
    code.ret()
    values = np.array([1.0, 2.0, 3.0, 4.0, 9.0, 9.0])
    compiled(module, "f", None, ctypes.c_void_p)(values.ctypes.data)
    assert values.tolist() == [2.0, 5.0, 8.0, 11.0, 1.0, 0.0]


@pytest.mark.parametrize("number", [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e300])
def test_constants_keep_their_bits(number: float) -> None:
    module = Module()
    for type in ("double", "float"):
        code = Function(module, type + "_of", type, [])
        code.ret(code.constant(number, type))
    double = compiled(module, "double_of", ctypes.c_double)
    single = compiled(module, "float_of", ctypes.c_float)
    assert struct.pack("<d", double()) == struct.pack("<d", number)
    with np.errstate(all="ignore"):
        assert np.float32(single()).tobytes() == np.float32(number).tobytes()


def test_literals_of_integers_and_masks() -> None:
    assert [literal(3, "i64"), literal(True, "i1"), literal(0, "i1")] == ["3", "true", "false"]
