"""The function that the entries of all native programs call: it checks the arguments, allocates the
outputs and runs the kernel, as the description of the program says.

It is compiled once a process, or read from the store: a program compiles its kernel, and two
instructions.
"""

from __future__ import annotations

import ctypes
import itertools
import re

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.kernel import GIVEN_UP, MOST_ARRAYS
from fungrad.compiler.native.machine_code import once, opened, symbol
from fungrad.compiler.native.symbols import (
    DATA,
    DIMS,
    DTYPE,
    FLAGS,
    HEAD,
    LAID_OUT,
    NDIM,
    RAISING,
    lasting,
)

PROGRAM = "{ ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64 }"
"""The description of a program, before those of its inputs and outputs: the kernel, `finish`,
`fg_share` if threads share the units, the pointers to the constants; the numbers of inputs, outputs
and constants, the units, the bytes of scratch; whether it is interruptible, and runs without the
interpreter's lock.
"""
ARRAY = "{ i64, ptr, ptr, i64, ptr, ptr, i64 }"
"""The description of an input or output: the number of axes, their lengths, the dtype and its
number; of a number the class of NumPy's scalars, Python's class, and how Python's object is read or
made (INSIDE, ...).
"""
INSIDE, FLOAT, BOOL, INT, COMPLEX = range(5)
"""INSIDE: the number is in the object, where NumPy's scalars have it; an output is such a scalar.
Floats and complex numbers are read INSIDE."""

QUICK_PROGRAMS = 8
"""So many programs have a quick build of the function, where no code is stored."""

_TEXT = """
%program = type PROGRAM
%array = type ARRAY
@extobj = internal constant [19 x i8] c"numpy.ufunc.extobj\\00"
@fg_ndarray = external global i8
@fg_true = external global i8
@fg_errors = external global i8
@fg_no_errors = external global i8
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define ptr @fg_call(ptr %self, ptr %args, i64 %given, ptr %program) {
entry:
  %arrays = alloca [MOST_ARRAYS x ptr]
  %numbers = alloca [MOST_ARRAYS x [2 x i64]]
  %stack = alloca [STACK x i8], align 64
  %state.at = alloca ptr
  %inputs.at = getelementptr %program, ptr %program, i64 0, i32 4
  %outputs.at = getelementptr %program, ptr %program, i64 0, i32 5
  %constants.at = getelementptr %program, ptr %program, i64 0, i32 6
  %scratch.at = getelementptr %program, ptr %program, i64 0, i32 8
  %types = getelementptr %program, ptr %program, i64 1
  %inputs = load i64, ptr %inputs.at
  %outputs = load i64, ptr %outputs.at
  %constants = load i64, ptr %constants.at
  %bytes = load i64, ptr %scratch.at
  %both = add i64 %inputs, %outputs
  %near = icmp ule i64 %bytes, STACK
  %enough = icmp eq i64 %given, %inputs
  br i1 %enough, label %arguments, label %fallback

arguments:                                 ; checks each, and stores the pointer to its data
  %i = phi i64 [ 0, %entry ], [ %i1, %stored ]
  %remain = icmp ult i64 %i, %inputs
  br i1 %remain, label %argument, label %errors
argument:
  %object.at = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %object.at
  %type = getelementptr %array, ptr %types, i64 %i
  %slot = getelementptr [2 x i64], ptr %numbers, i64 %i
  %kind.at = getelementptr i8, ptr %object, i64 KIND
  %kind = load ptr, ptr %kind.at
  %is_array = icmp eq ptr %kind, @fg_ndarray
  br i1 %is_array, label %array, label %number
array:
  %axes = load i64, ptr %type
  %dtype.at = getelementptr %array, ptr %type, i64 0, i32 2
  %dtype = load ptr, ptr %dtype.at
  %ndim.at = getelementptr i8, ptr %object, i64 NDIM
  %ndim.32 = load i32, ptr %ndim.at
  %ndim = zext i32 %ndim.32 to i64
  %dtype.its.at = getelementptr i8, ptr %object, i64 DTYPE
  %dtype.its = load ptr, ptr %dtype.its.at
  %flags.at = getelementptr i8, ptr %object, i64 FLAGS
  %flags.all = load i32, ptr %flags.at
  %flags = and i32 %flags.all, LAID_OUT
  %right.1 = icmp eq i64 %ndim, %axes
  %right.2 = icmp eq ptr %dtype.its, %dtype
  %right.3 = icmp eq i32 %flags, LAID_OUT
  %right.12 = and i1 %right.1, %right.2
  %right = and i1 %right.12, %right.3
  br i1 %right, label %lengths, label %fallback
lengths:
  %wanted.at = getelementptr %array, ptr %type, i64 0, i32 1
  %wanted = load ptr, ptr %wanted.at
  %dims.at = getelementptr i8, ptr %object, i64 DIMS
  %dims = load ptr, ptr %dims.at
  br label %axis
axis:
  %k = phi i64 [ 0, %lengths ], [ %k1, %same ]
  %left = icmp ult i64 %k, %axes
  br i1 %left, label %length, label %laid_out
length:
  %length.wanted.at = getelementptr i64, ptr %wanted, i64 %k
  %length.wanted = load i64, ptr %length.wanted.at
  %length.at = getelementptr i64, ptr %dims, i64 %k
  %length.its = load i64, ptr %length.at
  %equal = icmp eq i64 %length.its, %length.wanted
  br i1 %equal, label %same, label %fallback
same:
  %k1 = add i64 %k, 1
  br label %axis
laid_out:
  %data.at = getelementptr i8, ptr %object, i64 DATA
  %data = load ptr, ptr %data.at
  br label %stored
number:
  %scalar.at = getelementptr %array, ptr %type, i64 0, i32 4
  %scalar = load ptr, ptr %scalar.at
  %is_scalar = icmp eq ptr %kind, %scalar
  br i1 %is_scalar, label %inside, label %other
other:
  %python.at = getelementptr %array, ptr %type, i64 0, i32 5
  %python = load ptr, ptr %python.at
  %is_python = icmp eq ptr %kind, %python
  br i1 %is_python, label %own, label %fallback
own:
  %how.at = getelementptr %array, ptr %type, i64 0, i32 6
  %how = load i64, ptr %how.at
  switch i64 %how, label %inside [ i64 BOOL, label %truth
                                   i64 INT, label %integer ]
inside:
  %value = getelementptr i8, ptr %object, i64 HEAD
  br label %stored
truth:
  %true = icmp eq ptr %object, @fg_true
  %true.8 = zext i1 %true to i8
  store i8 %true.8, ptr %slot
  br label %stored
integer:
  %long = call i64 @PyLong_AsLongLong(ptr %object)
  store i64 %long, ptr %slot
  %odd = icmp eq i64 %long, -1
  br i1 %odd, label %doubted, label %stored
doubted:
  %error = call ptr @PyErr_Occurred()
  %fits = icmp eq ptr %error, null
  br i1 %fits, label %stored, label %too_long
too_long:
  call void @PyErr_Clear()
  br label %fallback
stored:
  %found = phi ptr [ %data, %laid_out ], [ %value, %inside ],
                   [ %slot, %truth ], [ %slot, %integer ], [ %slot, %doubted ]
  %found.at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %found, ptr %found.at
  %i1 = add i64 %i, 1
  br label %arguments

errors:                                    ; np.errstate must not be "raise" or "call" for any error
  %seen = call i32 @PyContextVar_Get(ptr @fg_errors, ptr null, ptr %state.at)
  %state = load ptr, ptr %state.at
  call void @Py_DecRef(ptr %state)
  %usual = icmp eq ptr %state, @fg_no_errors
  br i1 %usual, label %quiet, label %looked_at
looked_at:
  %bits.at = call ptr @PyCapsule_GetPointer(ptr %state, ptr @extobj)
  %bits = load i32, ptr %bits.at
  %raising = and i32 %bits, RAISING
  %none = icmp eq i32 %raising, 0
  br i1 %none, label %quiet, label %fallback

quiet:
  %result = call ptr @PyTuple_New(i64 %outputs)
  %no_result = icmp eq ptr %result, null
  br i1 %no_result, label %lost, label %allocated
allocated:                                 ; arrays, and slots of numbers, whose objects come later
  %j = phi i64 [ 0, %quiet ], [ %j1, %next ]
  %j.at = add i64 %inputs, %j
  %j.remain = icmp ult i64 %j, %outputs
  br i1 %j.remain, label %output, label %constant
output:
  %out = getelementptr %array, ptr %types, i64 %j.at
  %out.slot = getelementptr [2 x i64], ptr %numbers, i64 %j.at
  %out.axes = load i64, ptr %out
  %is_number = icmp eq i64 %out.axes, 0
  br i1 %is_number, label %next, label %new
new:
  %out.axes.32 = trunc i64 %out.axes to i32
  %out.lengths.at = getelementptr %array, ptr %out, i64 0, i32 1
  %out.lengths = load ptr, ptr %out.lengths.at
  %out.number.at = getelementptr %array, ptr %out, i64 0, i32 3
  %out.number = load i64, ptr %out.number.at
  %out.number.32 = trunc i64 %out.number to i32
  %made = call ptr @PyArray_New(ptr @fg_ndarray, i32 %out.axes.32, ptr %out.lengths,
                                i32 %out.number.32, ptr null, ptr null, i32 0, i32 0, ptr null)
  %not_made = icmp eq ptr %made, null
  br i1 %not_made, label %failed, label %given_out
given_out:
  %set = call i32 @PyTuple_SetItem(ptr %result, i64 %j, ptr %made)
  %made.data.at = getelementptr i8, ptr %made, i64 DATA
  %made.data = load ptr, ptr %made.data.at
  br label %next
next:
  %memory = phi ptr [ %out.slot, %output ], [ %made.data, %given_out ]
  %memory.at = getelementptr ptr, ptr %arrays, i64 %j.at
  store ptr %memory, ptr %memory.at
  %j1 = add i64 %j, 1
  br label %allocated
constant:
  %n = phi i64 [ 0, %allocated ], [ %n1, %copied ]
  %n.remain = icmp ult i64 %n, %constants
  br i1 %n.remain, label %copied, label %ready
copied:
  %table.at = getelementptr %program, ptr %program, i64 0, i32 3
  %table = load ptr, ptr %table.at
  %n.from = getelementptr ptr, ptr %table, i64 %n
  %n.data = load ptr, ptr %n.from
  %n.place = add i64 %both, %n
  %n.to = getelementptr ptr, ptr %arrays, i64 %n.place
  store ptr %n.data, ptr %n.to
  %n1 = add i64 %n, 1
  br label %constant

ready:
  br i1 %near, label %started, label %far
far:
  %heap = call ptr @PyMem_RawMalloc(i64 %bytes)
  %no_heap = icmp eq ptr %heap, null
  br i1 %no_heap, label %exhausted, label %started
started:
  %scratch = phi ptr [ %stack, %ready ], [ %heap, %far ]
  %kernel = load ptr, ptr %program
  %finish.at = getelementptr %program, ptr %program, i64 0, i32 1
  %finish = load ptr, ptr %finish.at
  %share.at = getelementptr %program, ptr %program, i64 0, i32 2
  %share = load ptr, ptr %share.at
  %units.at = getelementptr %program, ptr %program, i64 0, i32 7
  %units = load i64, ptr %units.at
  %interruptible.at = getelementptr %program, ptr %program, i64 0, i32 9
  %interruptible = load i64, ptr %interruptible.at
  %released.at = getelementptr %program, ptr %program, i64 0, i32 10
  %released = load i64, ptr %released.at
  %locked = icmp eq i64 %released, 0
  br i1 %locked, label %held, label %without_lock
without_lock:
  %thread.saved = call ptr @PyEval_SaveThread()
  br label %held
held:
  %thread = phi ptr [ null, %started ], [ %thread.saved, %without_lock ]
  %alone = icmp eq ptr %share, null
  br i1 %alone, label %in_one_thread, label %in_threads
in_threads:
  call void %share(ptr %kernel, ptr %arrays, i64 %units, ptr %scratch)
  br label %computed
in_one_thread:
  %whole = icmp eq i64 %interruptible, 0
  br i1 %whole, label %at_once, label %with_status
at_once:
  call void %kernel(ptr %arrays, i64 0, i64 %units, ptr %scratch)
  br label %computed
with_status:
  %status.its = call i32 %kernel(ptr %arrays, i64 0, i64 %units, ptr %scratch)
  br label %computed
computed:
  %status.own = phi i32 [ 0, %in_threads ], [ 0, %at_once ], [ %status.its, %with_status ]
  %finished = icmp eq ptr %finish, null
  br i1 %finished, label %ended, label %finishing
finishing:
  %status.end = call i32 %finish(ptr %arrays, ptr %scratch)
  br label %ended
ended:
  %status = phi i32 [ %status.own, %computed ], [ %status.end, %finishing ]
  br i1 %locked, label %back, label %with_lock
with_lock:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %back
back:
  br i1 %near, label %checked, label %freed
freed:
  call void @PyMem_RawFree(ptr %scratch)
  br label %checked
checked:
  %done = icmp eq i32 %status, 0
  br i1 %done, label %objects, label %stopped
stopped:
  %leaves = icmp eq i32 %status, GIVEN_UP
  br i1 %leaves, label %given_up, label %interrupted
given_up:
  call void @Py_DecRef(ptr %result)
  br label %fallback
interrupted:
  %raised = call ptr @PyErr_Occurred()
  %has_raised = icmp ne ptr %raised, null
  br i1 %has_raised, label %failed, label %exhausted
exhausted:
  %nothing = call ptr @PyErr_NoMemory()
  br label %failed

objects:                                   ; those of numbers
  %m = phi i64 [ 0, %checked ], [ %m1, %object_next ]
  %m.at = add i64 %inputs, %m
  %m.remain = icmp ult i64 %m, %outputs
  br i1 %m.remain, label %object_maybe, label %end
object_maybe:
  %m.type = getelementptr %array, ptr %types, i64 %m.at
  %m.axes = load i64, ptr %m.type
  %m.number = icmp eq i64 %m.axes, 0
  br i1 %m.number, label %object_of, label %object_next
object_of:
  %m.slot = getelementptr [2 x i64], ptr %numbers, i64 %m.at
  %m.how.at = getelementptr %array, ptr %m.type, i64 0, i32 6
  %m.how = load i64, ptr %m.how.at
  switch i64 %m.how, label %scalar_object [ i64 FLOAT, label %float_object
                                            i64 BOOL, label %bool_object
                                            i64 INT, label %int_object
                                            i64 COMPLEX, label %complex_object ]
scalar_object:
  %m.dtype.at = getelementptr %array, ptr %m.type, i64 0, i32 2
  %m.dtype = load ptr, ptr %m.dtype.at
  %m.scalar = call ptr @PyArray_Scalar(ptr %m.slot, ptr %m.dtype, ptr null)
  br label %object_made
float_object:
  %m.double = load double, ptr %m.slot
  %m.float = call ptr @PyFloat_FromDouble(double %m.double)
  br label %object_made
bool_object:
  %m.byte = load i8, ptr %m.slot
  %m.truth = zext i8 %m.byte to i64
  %m.bool = call ptr @PyBool_FromLong(i64 %m.truth)
  br label %object_made
int_object:
  %m.long = load i64, ptr %m.slot
  %m.int = call ptr @PyLong_FromLongLong(i64 %m.long)
  br label %object_made
complex_object:
  %m.real = load double, ptr %m.slot
  %m.imag.at = getelementptr double, ptr %m.slot, i64 1
  %m.imag = load double, ptr %m.imag.at
  %m.complex = call ptr @PyComplex_FromDoubles(double %m.real, double %m.imag)
  br label %object_made
object_made:
  %m.made = phi ptr [ %m.scalar, %scalar_object ], [ %m.float, %float_object ],
                    [ %m.bool, %bool_object ], [ %m.int, %int_object ],
                    [ %m.complex, %complex_object ]
  %m.lost = icmp eq ptr %m.made, null
  br i1 %m.lost, label %failed, label %object_set
object_set:
  %m.set = call i32 @PyTuple_SetItem(ptr %result, i64 %m, ptr %m.made)
  br label %object_next
object_next:
  %m1 = add i64 %m, 1
  br label %objects
end:
  ret ptr %result

failed:
  call void @Py_DecRef(ptr %result)
  br label %lost
lost:
  ret ptr null
fallback:                                  ; in Python
  %instead = call ptr @PyObject_Vectorcall(ptr %self, ptr %args, i64 %given, ptr null)
  ret ptr %instead
}
"""
_NUMBERS = {
    "STACK": tuned.stack_bytes, "KIND": HEAD - 8, "HEAD": HEAD, "DATA": DATA, "NDIM": NDIM,
    "DIMS": DIMS, "DTYPE": DTYPE, "FLAGS": FLAGS, "LAID_OUT": LAID_OUT, "RAISING": RAISING,
    "GIVEN_UP": GIVEN_UP, "FLOAT": FLOAT, "BOOL": BOOL, "INT": INT, "COMPLEX": COMPLEX,
    "MOST_ARRAYS": MOST_ARRAYS, "PROGRAM": PROGRAM, "ARRAY": ARRAY,
}  # fmt: skip


def text() -> str:
    """The function in LLVM's syntax."""
    return re.sub(r"\b[A-Z_]{3,}\b", lambda word: str(_NUMBERS[word[0]]), _TEXT)


@once
def _built(quick: bool) -> int:
    symbol("fg_call_at", ctypes.addressof(_pointer))
    return lasting(text(), quick).address("fg_call")


def ready() -> None:
    """Prepares `@fg_call_at` for one more program: it points to the function
    `ptr(ptr self, ptr args, i64 count, ptr program)`.

    Its full build takes as long as it saves some programs. A process that stores no code begins
    with a quick build.
    """
    _pointer.value = _built(opened() is None and next(_programs) < QUICK_PROGRAMS)


_pointer = ctypes.c_void_p()
_programs = itertools.count()
