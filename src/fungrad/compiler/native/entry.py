"""The entry of a native program: a builtin Python function that checks its arguments, allocates the
outputs and runs the kernel.

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
from fungrad.compiler.native.kernel import GIVEN_UP, MOST_ARRAYS, Kernel
from fungrad.compiler.native.llvm_ir import Function, Value
from fungrad.compiler.native.machine_code import Built, assembly, build, host
from fungrad.compiler.native.symbols import (
    DATA,
    DIMS,
    DTYPE,
    DTYPES,
    FLAGS,
    HEAD,
    LAID_OUT,
    NDIM,
    RAISING,
    registered,
)
from fungrad.compiler.refusal import Refusal, refusal
from fungrad.ir.canonical import canonical, in_rows
from fungrad.ir.types import Type

Runner = Callable[..., Sequence[Any]]

_FASTCALL = 0x80
_PYTHON = {"float64": "float", "int64": "int", "bool": "bool", "complex128": "complex"}
"""The Python types of weak numbers, by dtype."""


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
    """Adds the entry, `fg_entry`, to the module of a kernel for which `refusal_of` is None."""
    _Entry(kernel).write()


def refusal_of(kernel: Kernel) -> Refusal | None:
    """Why a kernel can have no entry; None if it can."""
    types = [*kernel.inputs, *kernel.outputs]
    for type in types:
        if type.dtype.name not in DTYPES:
            return refusal(f"arguments or results of {type}", "dtype")
    if len(types) + len(kernel.constants) > MOST_ARRAYS:
        return refusal(f"{len(types)} arguments and results", "long")
    return None


class _Entry:
    """An entry that is being written."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        given = [("ptr", "self"), ("ptr", "args"), ("i64", "nargs")]
        self.code = Function(kernel.module, "fg_entry", "ptr", given)
        if kernel.cost_ns >= tuned.released_ns:
            self.code.rare()
        self.called, self.args, self.count = self.code.parameters

    def write(self) -> None:
        kernel, code = self.kernel, self.code
        count = len(kernel.inputs) + len(kernel.outputs) + len(kernel.constants)
        self.arrays = code.first(f"alloca [{max(count, 1)} x ptr]", "%arrays")
        self.scratch = _NULL
        if 0 < kernel.scratch <= tuned.stack_bytes:
            self.scratch = code.first(f"alloca [{kernel.scratch} x i8], align 64", "%scratch")
        self.must(code.compare("eq", self.count, len(kernel.inputs)))
        for place, type in enumerate(kernel.inputs):
            self.argument(place, type)
        self.errors_are_quiet()
        result = code.call("PyTuple_New", "ptr", [code.constant(len(kernel.outputs), "i64")])
        self.result = result
        self.made(result, "lost")
        numbers = [self.output(place, type) for place, type in enumerate(kernel.outputs)]
        self.constants()
        self.run()
        for place, (type, pointer) in enumerate(zip(kernel.outputs, numbers, strict=True)):
            if pointer is not None:
                self.give(place, self.number(type, pointer))
        code.ret(result)
        code.begin("failed")
        code.call("Py_DecRef", "void", [result])
        code.goto("lost")
        code.begin("lost")
        code.ret(_NULL)
        code.begin("fallback")
        given = [self.called, self.args, self.count, _NULL]
        code.ret(code.call("PyObject_Vectorcall", "ptr", given))

    # Pieces.

    def must(self, condition: Value) -> None:
        """Continues if this holds, else goes to the fallback."""
        yes = self.code.label("ok")
        self.code.branch(condition, yes, "fallback")
        self.code.begin(yes)

    def made(self, object: Value, otherwise: str = "failed") -> None:
        """Continues if Python could make an object."""
        yes = self.code.label("made")
        self.code.branch(self.code.compare("ne", object, _NULL), yes, otherwise)
        self.code.begin(yes)

    def symbol(self, name: str) -> Value:
        """The address of a Python object."""
        self.code.module.declare(f"@fg_{name} = external global i8")
        return Value(f"@fg_{name}", "ptr")

    def field(self, object: Value, offset: int, type: str = "ptr") -> Value:
        return self.code.load(self.code.at(object, offset), type)

    def is_kind(self, object: Value, *names: str) -> Value:
        """Whether an object's type is one of these."""
        kind = self.field(object, HEAD - 8)
        found = [self.code.compare("eq", kind, self.symbol(name)) for name in names]
        return found[0] if len(found) == 1 else self.code.binary("or", *found)

    def array(self, place: int) -> Value:
        """The slot of the pointer to an array's data."""
        return self.code.at(self.arrays, place, "ptr")

    def argument(self, place: int, type: Type) -> None:
        """Checks an argument, and stores the pointer to its data in `arrays`."""
        code = self.code
        object = code.load(code.at(self.args, place, "ptr"), "ptr")
        if type.shape:
            self.must(self.is_kind(object, "ndarray"))
            code.store(self.data(object, type), self.array(place))
            return
        name = type.dtype.name
        scalar, after, own = f"scalar_{name}", code.label("known"), _PYTHON.get(name, "")
        data, same = code.variable("ptr"), own in ("float", "complex")
        kinds = [scalar, own] if same else [scalar]
        yes, no = code.label("number"), code.label("other")
        code.branch(self.is_kind(object, *kinds), yes, no)
        code.begin(yes)
        code.set(data, code.at(object, HEAD))
        code.goto(after)
        code.begin(no)
        if own in ("bool", "int"):
            code.set(data, (self.boolean if own == "bool" else self.integer)(object, after))
            code.goto(after)
            code.begin(after + "b")
        self.must(self.is_kind(object, "ndarray"))
        code.set(data, self.data(object, type))
        code.goto(after)
        code.begin(after)
        code.store(code.get(data), self.array(place))

    def boolean(self, object: Value, after: str) -> Value:
        """A slot with the value of a Python bool; other objects go to the block `after` + "b"."""
        code, slot = self.code, self.code.variable("i8")
        truth = code.compare("eq", object, self.symbol("true"))
        either = code.binary("or", truth, code.compare("eq", object, self.symbol("false")))
        yes = code.label("truth")
        code.branch(either, yes, after + "b")
        code.begin(yes)
        code.set(slot, code.convert("zext", truth, "i8"))
        return slot

    def integer(self, object: Value, after: str) -> Value:
        """A slot with the value of a Python int; other objects go to the block `after` + "b"."""
        code, slot = self.code, self.code.variable("i64")
        yes, odd, fine = code.label("integer"), code.label("odd"), code.label("fits")
        code.branch(self.is_kind(object, "int"), yes, after + "b")
        code.begin(yes)
        number = code.call("PyLong_AsLongLong", "i64", [object])
        code.set(slot, number)
        code.branch(code.compare("eq", number, -1), odd, fine, rare=True)
        code.begin(odd)
        raised = code.compare("ne", code.call("PyErr_Occurred", "ptr", []), _NULL)
        long = code.label("long")
        code.branch(raised, long, fine)
        code.begin(long)
        code.call("PyErr_Clear", "void", [])
        code.goto("fallback")
        code.begin(fine)
        return slot

    def data(self, array: Value, type: Type) -> Value:
        """The pointer to an array's data, after checks of its type and memory layout."""
        code = self.code
        right = code.compare("eq", self.field(array, NDIM, "i32"), type.ndim)
        dtype = self.symbol(f"dtype_{type.dtype.name}")
        flags = code.binary("and", self.field(array, FLAGS, "i32"), LAID_OUT)
        for more in (
            code.compare("eq", self.field(array, DTYPE), dtype),
            code.compare("eq", flags, LAID_OUT),
        ):
            right = code.binary("and", right, more)
        self.must(right)
        if type.shape:
            dims = self.field(array, DIMS)
            same = [
                code.compare("eq", code.load(code.at(dims, axis, "i64"), "i64"), length)
                for axis, length in enumerate(type.shape)
            ]
            right = same[0]
            for more in same[1:]:
                right = code.binary("and", right, more)
            self.must(right)
        return self.field(array, DATA)

    def errors_are_quiet(self) -> None:
        """Goes to the fallback if `np.errstate` is "raise" or "call" for some error."""
        code, slot = self.code, self.code.variable("ptr")
        code.call("PyContextVar_Get", "i32", [self.symbol("errors"), _NULL, slot])
        state = code.get(slot)
        code.call("Py_DecRef", "void", [state])
        other, go = code.label("errstate"), code.label("quiet")
        code.branch(code.compare("eq", state, self.symbol("no_errors")), go, other)
        code.begin(other)
        code.module.declare(f'@fg_extobj = internal constant [19 x i8] c"{_EXTOBJ}\\00"')
        at = code.call("PyCapsule_GetPointer", "ptr", [state, Value("@fg_extobj", "ptr")])
        raising = code.binary("and", code.load(at, "i32"), RAISING)
        code.branch(code.compare("eq", raising, 0), go, "fallback")
        code.begin(go)

    def give(self, place: int, object: Value) -> None:
        """Puts an object into the result tuple, or fails if it is null."""
        self.made(object)
        given = [self.result, self.code.constant(place, "i64"), object]
        self.code.call("PyTuple_SetItem", "i32", given)

    def output(self, place: int, type: Type) -> Value | None:
        """Allocates an output; returns the slot of a number, whose object is made later."""
        code, array = self.code, self.array(len(self.kernel.inputs) + place)
        if not type.shape:
            slot = code.variable("i64", 2)
            code.store(slot, array)
            return slot
        lengths = ", ".join([f"i64 {length}" for length in type.shape])
        name = f"@fg_shape{place}"
        code.module.declare(f"{name} = internal constant [{type.ndim} x i64] [{lengths}]")
        object = code.call(
            "PyArray_New", "ptr",
            [self.symbol("ndarray"), code.constant(type.ndim, "i32"), Value(name, "ptr"),
             code.constant(type.dtype.num, "i32"), _NULL, _NULL, code.constant(0, "i32"),
             code.constant(0, "i32"), _NULL],
        )  # fmt: skip
        self.give(place, object)
        code.store(self.field(object, DATA), array)
        return None

    def number(self, type: Type, pointer: Value) -> Value:
        """The object of a number: Python's if weak, else NumPy's."""
        code, name = self.code, type.dtype.name
        if not type.weak:
            dtype = self.symbol(f"dtype_{name}")
            return code.call("PyArray_Scalar", "ptr", [pointer, dtype, _NULL])
        if name == "float64":
            return code.call("PyFloat_FromDouble", "ptr", [code.load(pointer, "double")])
        if name == "int64":
            return code.call("PyLong_FromLongLong", "ptr", [code.load(pointer, "i64")])
        if name == "bool":
            truth = code.convert("zext", code.load(pointer, "i8"), "i64")
            return code.call("PyBool_FromLong", "ptr", [truth])
        parts = [code.load(code.at(pointer, i, "double"), "double") for i in (0, 1)]
        return code.call("PyComplex_FromDoubles", "ptr", parts)

    def constants(self) -> None:
        """Stores the pointers to the constants after the others."""
        code, kernel = self.code, self.kernel
        count = len(kernel.constants)
        if count:
            code.module.declare(f"@fg_constants = global [{count} x ptr] zeroinitializer")
        for n in range(count):
            pointer = code.load(code.at(Value("@fg_constants", "ptr"), n, "ptr"), "ptr")
            code.store(pointer, self.array(len(kernel.inputs) + len(kernel.outputs) + n))

    def run(self) -> None:
        """Runs the kernel, without the interpreter's lock if it takes long."""
        code, kernel = self.code, self.kernel
        scratch, on_stack = self.scratch, kernel.scratch <= tuned.stack_bytes
        if not on_stack:
            size = code.constant(kernel.scratch, "i64")
            scratch = code.call("PyMem_RawMalloc", "ptr", [size])
            self.made(scratch, "exhausted")
        released = kernel.interruptible or kernel.cost_ns >= tuned.released_ns
        if released:
            state = code.call("PyEval_SaveThread", "ptr", [])
        units = code.constant(kernel.units, "i64")
        given = [self.arrays, code.constant(0, "i64"), units, scratch]
        if kernel.units > 1 and kernel.cost_ns >= tuned.shared_ns:
            kernel_pointer = Value("@kernel", "ptr")
            code.call("fg_share", "void", [kernel_pointer, self.arrays, units, scratch])
        else:
            status = code.call("kernel", "i32" if kernel.interruptible else "void", given)
        if kernel.finish:
            code.call(kernel.finish, "void", [self.arrays, scratch])
        if released:
            code.call("PyEval_RestoreThread", "void", [state])
        if not on_stack:
            code.call("PyMem_RawFree", "void", [scratch])
        if not on_stack or kernel.interruptible:
            self.failures(status if kernel.interruptible else code.constant(0, "i32"))

    def failures(self, status: Value) -> None:
        """Handles a status that is not 0: the fallback, the kernel's error, or a MemoryError."""
        code = self.code
        yes, no, end = code.label("stopped"), code.label("ended"), "failed"
        code.branch(code.compare("ne", status, 0), yes, no, rare=True)
        code.begin(yes)
        given_up, lasting = code.label("given_up"), code.label("lasting")
        code.branch(code.compare("eq", status, GIVEN_UP), given_up, lasting)
        code.begin(given_up)
        code.call("Py_DecRef", "void", [self.result])
        code.goto("fallback")
        code.begin(lasting)
        raised = code.compare("ne", code.call("PyErr_Occurred", "ptr", []), _NULL)
        code.branch(raised, end, "exhausted")
        code.begin("exhausted")
        code.call("PyErr_NoMemory", "ptr", [])
        code.goto(end)
        code.begin(no)


_NULL = Value("null", "ptr")
_EXTOBJ = "numpy.ufunc.extobj"
