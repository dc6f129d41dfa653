"""The entry of a native program: a builtin Python function that checks its arguments, allocates the
outputs and runs the kernel (`entry_function`).

Other arguments go to its `self`, in Python: inputs in another memory layout are copied and passed
again, and the rest runs on NumPy. An array that the program writes into is never copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import threads
from fungrad.compiler.native.entry_function import (
    ARRAY,
    BOOL,
    COMPLEX,
    FLOAT,
    INSIDE,
    INT,
    PROGRAM,
    ready,
)
from fungrad.compiler.native.kernel import MOST_ARRAYS, Kernel
from fungrad.compiler.native.llvm_ir import Function, Module, Value
from fungrad.compiler.native.machine_code import Built, assembly, build, host
from fungrad.compiler.native.symbols import DTYPES, registered
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.canonical import canonical, in_rows
from fungrad.ir.types import Type

Runner = Callable[..., Sequence[Any]]

_FASTCALL = 0x80
_PYTHON = {"float64": ("float", FLOAT), "int64": ("int", INT), "bool": ("bool", BOOL),
           "complex128": ("complex", COMPLEX)}  # fmt: skip
"""The Python classes of weak numbers, and how they are read and made, by dtype."""


class EntryProgram:
    """A native program, and its handling of arguments that the entry does not accept.

    Args:
      kernel: receives an entry.
      fallback: computes the same on NumPy.

    Attributes:
      kernel: with its entry.
      fallback: the NumPy program.
    """

    def __init__(self, kernel: Kernel, fallback: Runner) -> None:
        self._definition = _definition()  # first: __del__ gives it back, also after an error
        write(kernel)
        kernel.module.quick = kernel.quick
        self.kernel = kernel
        self.fallback = fallback
        registered()
        ready()
        text = kernel.module.complete()
        for call, define in threads.FUNCTIONS.items():
            if call in text:
                define()
        self._built: Built = build(kernel.module)
        self._definition.code = self._built.address("fg_entry")
        self._constants = [np.ascontiguousarray(array) for array in kernel.constants]
        if self._constants:
            table = (ctypes.c_void_p * len(self._constants)).from_address(
                self._built.address("fg_constants")
            )
            table[:] = [array.ctypes.data for array in self._constants]

    def __del__(self) -> None:
        _spare.append(self._definition)

    def callable(self, instead: Callable[..., Any]) -> Any:
        """A builtin function, which calls `instead` if it does not accept its arguments."""
        return _new_builtin(ctypes.addressof(self._definition), instead, None)

    def __call__(self, *args: Any) -> Any:
        """The results for arguments that the entry did not accept."""
        if len(args) != len(self.kernel.inputs):
            return self.fallback(*args)
        read = len(args) - self.kernel.filled
        given = [in_rows(canonical(x)) if type(x) is ndarray else x for x in args[:read]]
        return self.callable(self.fallback)(*given, *args[read:])

    def assembly(self) -> str:
        """The machine code, as assembly."""
        module = self.kernel.module
        return assembly(module.text(), host(module.quick))

    def text(self) -> str:
        """The LLVM IR and the assembly."""
        return f"{self.kernel.module.text()}\n{self.assembly()}"


def callable(kernel: Kernel, fallback: Runner) -> Runner:
    """The builtin function of a kernel.

    Args:
      kernel: receives an entry; `refusal_of` it is None.
      fallback: the NumPy program, for arguments that the entry does not accept.
    """
    program = EntryProgram(kernel, fallback)
    runner: Runner = program.callable(program)
    return runner


class _Definition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_spare: list[_Definition] = []
"""The definitions of dead programs. They are used again and never freed: Python reads the flags of
a builtin function when it destroys it, which the garbage collector may do after its program.
"""


def _definition() -> _Definition:
    """A definition of a builtin function, without its code."""
    try:
        return _spare.pop()
    except IndexError:
        made = _Definition(b"native_program", None, _FASTCALL, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # also when the interpreter ends
        return made


_new_builtin = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))


def write(kernel: Kernel) -> None:
    """Adds the entry, `fg_entry`, to the module of a kernel for which `refusal_of` is None.

    It calls the function of all entries with a description of the program.
    """
    module = kernel.module
    constants = "null"
    if kernel.constants:
        constants = "@fg_constants"
        module.declare(f"@fg_constants = global [{len(kernel.constants)} x ptr] zeroinitializer")
    share = "null"
    if kernel.units > 1 and kernel.cost_ns >= tuned.shared_ns:
        share = "@fg_share"
        module.declare("declare void @fg_share(ptr, ptr, i64, ptr)")
    released = kernel.interruptible or kernel.cost_ns >= tuned.released_ns
    pointers = ["@kernel", f"@{kernel.finish}" if kernel.finish else "null", share, constants]
    numbers = [len(kernel.inputs), len(kernel.outputs), len(kernel.constants), kernel.units,
               kernel.scratch, kernel.interruptible, released]  # fmt: skip
    program = _fields(PROGRAM, [*pointers, *numbers])
    read = [_described(module, type, True) for type in kernel.inputs]
    made = [_described(module, type, False) for type in kernel.outputs]
    arrays = ", ".join([f"{ARRAY} {fields}" for fields in (*read, *made)])
    kind = f"[{len(read) + len(made)} x {ARRAY}]"
    whole = f"{{ {PROGRAM} {program}, {kind} [{arrays}] }}"
    module.declare(f"@fg_program = internal constant {{ {PROGRAM}, {kind} }} {whole}")
    given = [("ptr", "self"), ("ptr", "args"), ("i64", "nargs")]
    code = Function(module, "fg_entry", "ptr", given)
    module.declare("@fg_call_at = external global ptr")
    function = code.new("load ptr, ptr @fg_call_at", "ptr").text
    passed = ", ".join(map(str, [*code.parameters, Value("@fg_program", "ptr")]))
    code.ret(code.new(f"tail call ptr {function}({passed})", "ptr"))


def _described(module: Module, type: Type, read: bool) -> str:
    """The fields of the description of an input that is read, or of an output."""

    def object(name: str) -> str:
        module.declare(f"@fg_{name} = external global i8")
        return f"@fg_{name}"

    name, lengths, how = type.dtype.name, "null", INSIDE
    classes = ["null", "null"]
    if type.shape:
        numbers = ", ".join([f"i64 {length}" for length in type.shape])
        lengths = "@fg_shape" + "_".join(map(str, type.shape))
        module.declare(f"{lengths} = internal constant [{type.ndim} x i64] [{numbers}]")
    elif read:
        own, how = _PYTHON.get(name, ("", INSIDE))
        classes = [object(f"scalar_{name}"), object(own) if own else "null"]
    elif type.weak:
        how = _PYTHON[name][1]
    dtype = object(f"dtype_{name}")
    return _fields(ARRAY, [type.ndim, lengths, dtype, type.dtype.num, *classes, how])


def _fields(kind: str, values: Sequence[Any]) -> str:
    """A constant of a structure of pointers and numbers."""
    types = kind.strip("{} ").split(", ")
    fields = [f"{type} {value if type == 'ptr' else int(value)}"
              for type, value in zip(types, values, strict=True)]  # fmt: skip
    return f"{{ {', '.join(fields)} }}"


def refusal_of(kernel: Kernel) -> Refusal | None:
    """Why a kernel can have no entry; None if it can."""
    types = [*kernel.inputs, *kernel.outputs]
    for type in types:
        if type.dtype.name not in DTYPES:
            return refusal(f"arguments or results of {type}", "dtype")
    if len(types) + len(kernel.constants) > MOST_ARRAYS:
        return refusal(f"{len(types)} arguments and results", "long")
    return None
