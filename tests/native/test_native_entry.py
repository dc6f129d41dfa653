"""The entry of native programs: its inputs, its outputs, and its fallback to NumPy."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fungrad.compiler.native import entry, entry_function, symbols
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.native.llvm_ir import Function, Module, Value
from fungrad.ir.types import Type

GIVEN = [("ptr", "arrays"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")]
LLVM = {**symbols.DTYPES, "complex128": "double", "complex64": "float"}


class Fallback:
    """Counts its calls, and answers them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *args: Any) -> list[Any]:
        self.calls.append(args)
        return ["fallback"]


def doubling(*types: Type, **how: Any) -> tuple[Any, Fallback]:
    """A program that doubles its inputs, and its fallback."""
    fallback = Fallback()
    return entry.callable(doubling_kernel(*types, **how), fallback), fallback


def doubling_kernel(*types: Type, **how: Any) -> Kernel:
    module = Module()
    result = "i32" if how.get("interruptible") else "void"
    code = Function(module, "kernel", result, GIVEN, attributes="internal")
    arrays = code.parameters[0]
    for place, type in enumerate(types):
        source, target = (
            code.load(code.at(arrays, place + shift, "ptr"), "ptr") for shift in (0, len(types))
        )
        lane = LLVM[type.dtype.name]

        def once(
            i: Value, source: Value = source, target: Value = target, lane: str = lane
        ) -> None:
            x = code.load(code.at(source, i, lane), lane)
            twice = x if lane == "i8" else code.add(x, x)
            code.store(twice, code.at(target, i, lane))

        code.for_range(0, type.size * (2 if type.dtype.kind == "c" else 1), once)
    code.ret(code.constant(0, "i32") if how.get("interruptible") else None)
    return Kernel(module, types, types, **how)


@pytest.mark.parametrize("name", symbols.DTYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (2, 0, 3), (1, 1), ()])
def test_arrays_go_in_and_come_out(name: str, shape: tuple[int, ...]) -> None:
    run, fallback = doubling(Type(shape, np.dtype(name)))
    x = (np.arange(np.prod(shape, dtype=int)) + 1).reshape(shape).astype(name)
    (y,) = run(x)
    expected = x if name in ("bool", "int8", "uint8") else x + x
    assert y.tobytes() == expected.tobytes() and y.dtype == x.dtype and y.shape == x.shape
    assert type(y) is (np.ndarray if shape else x.dtype.type) and not fallback.calls
    if shape:
        assert y.flags.owndata and y.flags.c_contiguous and y.flags.writeable


@pytest.mark.parametrize("value", [1.5, 7, -1, -(2**62), True, False, 2.5 - 1j, float("nan")])
@pytest.mark.parametrize("weak", [True, False])
def test_numbers_of_python(value: Any, weak: bool) -> None:
    type_ = Type((), np.asarray(value).dtype, weak)
    run, fallback = doubling(type_)
    (y,) = run(value)
    expected = value if isinstance(value, bool) else value + value
    assert repr(y) == repr(expected if weak else type_.dtype.type(expected)) and not fallback.calls
    (y,) = run(np.array(value))
    assert repr(y) == repr(expected if weak else type_.dtype.type(expected)) and not fallback.calls


@pytest.mark.parametrize(
    "given",
    [
        np.ones(4),
        np.ones((3, 1)),
        np.ones(3, np.float32),
        np.ones(3, np.dtype("f8", metadata={"a": 1})),
        np.ma.ones(3),
        [1.0, 1.0, 1.0],
        None,
        1.0,
    ],
)
def test_what_is_no_such_array_goes_to_numpy(given: Any) -> None:
    run, fallback = doubling(Type((3,), "float64"))
    if isinstance(given, np.ndarray) and given.dtype.metadata:
        np.testing.assert_array_equal(run(given)[0], given + given)  # a copy has the usual dtype
        return
    assert run(given) == ["fallback"] and fallback.calls[0][0] is given


@pytest.mark.parametrize("given", [2**63, -(2**63) - 1, 1.0, np.int32(1), np.ones(1, int), "a"])
def test_what_is_no_such_number_goes_to_numpy(given: Any) -> None:
    run, fallback = doubling(Type((), "int64", True))
    assert run(given) == ["fallback"] and fallback.calls == [(given,)]


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (2, 4), (1, 6)])
def test_each_length_of_an_argument_is_asked(shape: tuple[int, ...]) -> None:
    run, fallback = doubling(Type((2, 3), "float64"))
    known = shape == (2, 3)
    found = run(np.ones(shape))
    assert len(fallback.calls) == (not known)
    assert found[0].tolist() == [[2.0] * 3] * 2 if known else found == ["fallback"]


def test_a_wrong_number_of_arguments_goes_to_numpy() -> None:
    run, fallback = doubling(Type((3,), "float64"), Type((), "float64"))
    x = np.ones(3)
    assert run(x) == run() == run(x, 1.0, x) == ["fallback"]
    assert [len(args) for args in fallback.calls] == [1, 0, 3]
    assert [type(y) for y in run(x, 1.0)] == [np.ndarray, np.float64]


def test_arrays_in_another_layout_are_copied() -> None:
    run, fallback = doubling(Type((3, 4), "float64"))
    base = np.arange(48.0).reshape(6, 8)
    odd = np.frombuffer(b"\0" + base[:3, :4].tobytes(), np.float64, 12, offset=1).reshape(3, 4)
    fixed = base[:3, :4].copy()
    fixed.flags.writeable = False
    for x in (base[::2, ::2], base[:3, :4], base.T[:3, :4], np.asfortranarray(base[:3, :4]),
              np.broadcast_to(1.5, (3, 4)), odd, fixed, base[2::-1, 3::-1]):  # fmt: skip
        (y,) = run(x)
        np.testing.assert_array_equal(y, x + x)
    assert not fallback.calls


@pytest.mark.parametrize(
    "made",
    [
        lambda: np.zeros(3),
        lambda: np.zeros(3, np.dtype("f8", copy=True)),
        lambda: np.zeros(3, np.dtype("f8", metadata={"a": 1})),
        lambda: np.zeros(3, ">f8"),
        lambda: np.zeros(6)[::2],
        lambda: np.zeros(25, np.uint8)[1:].view(float),
        lambda: np.zeros(3, np.float32),
    ],
)
@pytest.mark.parametrize("given", [np.ones(3), np.ones(6)[::2], np.ones(3, ">f8")])
def test_an_array_that_is_written_into_is_never_copied(made: Any, given: Any) -> None:
    kernel = doubling_kernel(Type((3,), "float64"))
    run = entry.callable(kernel.into(1), kernel.written(lambda x: [x + x]))
    out = made()
    assert len(run(given, out)) == 0
    assert out.tolist() == [2.0] * 3


def test_errors_that_shall_raise_go_to_numpy() -> None:
    run, fallback = doubling(Type((), "float64"))
    for kind in ("divide", "over", "under", "invalid"):
        with np.errstate(**{kind: "raise"}):  # type: ignore[arg-type]
            assert run(1.0) == ["fallback"]
        for how in ("ignore", "warn"):
            with np.errstate(**{kind: how}):  # type: ignore[arg-type]
                assert run(1.0) == (2.0,)
    with np.errstate(all="raise"), np.errstate(all="ignore"):
        assert run(1.0) == (2.0,)
    assert len(fallback.calls) == 4


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"cost_ns": 1e6},
        {"interruptible": True},
        {"scratch": 64},
        {"scratch": 1 << 20},
        {"scratch": 1 << 20, "cost_ns": 1e6},
    ],
)
def test_each_way_to_run(how: Any) -> None:
    run, _ = doubling(Type((5,), "float64"), Type((), "int64", True), **how)
    for n in range(3):
        x, y = run(np.full(5, float(n)), n)
        assert y == 2 * n and type(y) is int
    x, y = run(np.full(5, 2.5), 3)
    assert x.tolist() == [5.0] * 5 and y == 6


def test_memory_that_is_not_there() -> None:
    with pytest.raises(MemoryError):
        doubling(Type((), "float64"), scratch=1 << 60)[0](1.0)
    huge = Type((1 << 45,), "float64")
    module = Module()
    code = Function(module, "kernel", "void", GIVEN, attributes="internal")
    code.ret()
    run = entry.callable(Kernel(module, [], [Type((2,), "float64"), huge]), Fallback())
    with pytest.raises(MemoryError):
        run()


def test_constants_stand_behind_the_results() -> None:
    module = Module()
    code = Function(module, "kernel", "void", GIVEN, attributes="internal")
    arrays = code.parameters[0]
    x, y, a, b = (code.load(code.at(arrays, n, "ptr"), "ptr") for n in range(4))
    total = code.add(code.load(x, "double"), code.load(code.at(a, 1, "double"), "double"))
    code.store(code.add(total, code.load(b, "double")), y)
    code.ret()
    given = np.array([9.0, 10.0])[::-1]
    type_ = Type((), "float64")
    kernel = Kernel(module, [type_], [type_], constants=[given, np.float64(100.0)])
    assert entry.callable(kernel, Fallback())(1.0) == (110.0,)


def test_types_that_no_entry_knows_are_refused() -> None:
    for type_ in (Type((2,), "longdouble"), Type((), "longdouble"), Type((), "O")):
        found = entry.refusal_of(Kernel(Module(), [type_], []))
        assert found is not None and found.code == "dtype"
    found = entry.refusal_of(Kernel(Module(), [Type((), "float64")] * 251, []))
    assert found is not None and found.code == "long"
    assert entry.refusal_of(Kernel(Module(), [Type((), "float64")] * 9, [])) is None


def test_programs_are_freed_with_their_functions() -> None:
    run, fallback = doubling(Type((3,), "float64"))
    run(np.ones(3))
    gone = weakref.ref(run.__self__)
    held = weakref.ref(fallback)
    del run, fallback
    gc.collect()
    assert gone() is None and held() is None


def test_results_hold_no_references_too_many() -> None:
    run, _ = doubling(Type((3,), "float64"), Type((), "float64"))
    x, number = np.ones(3), np.float64(1.5)
    before = sys.getrefcount(x), sys.getrefcount(number), sys.getrefcount(np.dtype("float64"))
    for _ in range(100):
        y, z = run(x, number)
    assert sys.getrefcount(y) == 2 and sys.getrefcount(z) == 2
    assert before[:2] == (sys.getrefcount(x), sys.getrefcount(number))
    del y, z
    assert abs(sys.getrefcount(np.dtype("float64")) - before[2]) < 10


def test_this_process_is_as_native_code_assumes() -> None:
    assert symbols.mismatch() == ""


def test_definitions_outlive_the_lists_that_hold_them() -> None:
    """At the end of the interpreter builtin functions may be traversed after the module is gone."""
    program = entry.EntryProgram(doubling_kernel(Type((3,), np.float64)), lambda *args: [])
    function = program.callable(lambda *args: None)
    definition = weakref.ref(program._definition)
    del program
    gc.collect()
    entry._spare[:] = [spare for spare in entry._spare if spare is not definition()]
    gc.collect()
    assert definition() is not None and callable(function)


def test_programs_get_the_full_build_of_the_entry_function_later(monkeypatch: Any) -> None:
    monkeypatch.setattr(entry_function, "QUICK_PROGRAMS", 1 << 60)
    program, fallback = doubling(Type((2,), np.dtype(float)))
    quick, x = entry_function._pointer.value, np.array([1.0, -2.0])
    assert program(x)[0].tolist() == [2.0, -4.0]
    monkeypatch.setattr(entry_function, "QUICK_PROGRAMS", 0)
    entry_function.ready()
    assert entry_function._pointer.value != quick
    assert program(x)[0].tolist() == [2.0, -4.0] and not fallback.calls
