"""LLVM IR as text: modules, functions, and the values of their instructions.

The methods of a Function append its lines in the order of their calls. Values have a number of
lanes: 1 for scalars, more for vectors. Arithmetic carries no fast-math flag, so that add, sub, mul,
div and sqrt are NumPy's to the bit; only elementary functions use `fma`. LLVM computes with halves
as NumPy does: in single precision, with each result rounded.

>>> module = Module()
>>> code = Function(module, "twice", "double", [("double", "x")])
>>> code.ret(code.add(code.parameters[0], code.parameters[0]))
>>> print(module.text())
define double @twice(double %x) {
entry:
  %v1 = fadd double %x, %x
  ret double %v1
}
<BLANKLINE>
"""

from __future__ import annotations

import itertools
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native.outlining import outlined

FLOATS = ("double", "float", "half")
_SHORT = {"double": "f64", "float": "f32", "half": "f16", "ptr": "p0"}
_OF_FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
_NAME = re.compile(r"@(\w+)")
RARELY = '!0 = !{!"branch_weights", i32 1, i32 2000}'


class Value:
    """A value of a function.

    Attributes:
      text: its name, or the constant.
      type: the LLVM type of a lane: double, float, half, i64, i32, i8, i1, ptr.
      lanes: the number of lanes.
    """

    __slots__ = ("lanes", "text", "type")

    def __init__(self, text: str, type: str, lanes: int = 1) -> None:
        self.text = text
        self.type = type
        self.lanes = lanes

    @property
    def full(self) -> str:
        """The type of all lanes."""
        return of_lanes(self.type, self.lanes)

    def __str__(self) -> str:
        return f"{self.full} {self.text}"


Operand = Any
"""A Value, or a Python number, which takes the type of the other operand."""


def of_lanes(type: str, lanes: int) -> str:
    """The LLVM type of so many lanes."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


def literal(number: Any, type: str) -> str:
    """A number in LLVM's syntax: floats by their bits, those of single precision as doubles."""
    if type == "double":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"
    if type == "float":
        single = struct.unpack("<f", struct.pack("<f", _within_single(float(number))))[0]
        return literal(single, "double")
    if type == "half":
        with np.errstate(over="ignore"):
            return f"0xH{np.float64(number).astype(np.float16).view(np.uint16):04X}"
    if type == "i1":
        return "true" if number else "false"
    return str(int(number))


def _within_single(number: float) -> float:
    """A number that `struct` can pack in single precision: infinite beyond its range."""
    if abs(number) < 3.4028235677973366e38 or number != number:
        return number
    return float("inf") if number > 0 else float("-inf")


class Module:
    """Functions, declarations and globals that are compiled together.

    Attributes:
      functions: the Functions, by name.
      quick: whether to compile quickly, to slower code.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.quick = False
        self._complete = b""
        self._lines: dict[str, None] = {}
        self._symbols: dict[tuple[Any, str], str] = {}
        self._numbers: dict[str, Iterator[int]] = {}

    def symbol(self, owner: Any, name: str) -> str:
        """The name of an owner's function: `name`, or one like it if another owner has that."""
        found = self._symbols.get((owner, name))
        if found is None:
            plain = re.sub(r"\W", "_", name, flags=re.ASCII)
            free = (f"{plain}_{n}" if n else plain for n in itertools.count())
            taken = {*self.functions, *self._symbols.values()}
            found = self._symbols[owner, name] = next(x for x in free if x not in taken)
        return found

    def declare(self, line: str) -> None:
        """Adds a declaration, global or metadata line, once."""
        self._lines.setdefault(line)

    def absorb(self, other: Module) -> dict[str, str]:
        """Adds another module's functions, sharing equal ones; returns their names here."""
        names = {name: name for name in other.functions}
        both = {n: f for n, f in other.functions.items() if n in self.functions}
        unlike = {name for name, function in both.items() if function != self.functions[name]}
        while unlike:
            for name in unlike:
                free = (f"{name}_{n}" for n in self._numbers.setdefault(name, itertools.count()))
                taken = (self.functions, other.functions)
                names[name] = next(x for x in free if not any(x in known for known in taken))
            called = re.compile("@(" + "|".join(unlike) + r")\b")
            unlike = {n for n, f in both.items() if names[n] == n and f.mentions(called)}
        for name, function in other.functions.items():
            if names[name] not in self.functions:
                self.functions[names[name]] = function
                function.rename(names)
        self._lines.update(other._lines)
        return names

    def __len__(self) -> int:
        """The number of lines of its functions."""
        return sum(map(len, self.functions.values()))

    def complete(self) -> str:
        """The module in LLVM's syntax. From now on it keeps this text alone, compressed: a program
        keeps its module, to show it, and thousands of lines take more memory than its code.
        """
        text = self.text()
        self._complete = zlib.compress(text.encode(), 1)
        for part in (self.functions, self._lines, self._symbols, self._numbers):
            part.clear()
        return text

    def text(self) -> str:
        """The module in LLVM's syntax."""
        if self._complete:
            return zlib.decompress(self._complete).decode()
        parts = [function.text() for function in self.functions.values()]
        return "\n".join([*self._lines, *parts])


class Function:
    """A function that is being written.

    Args:
      module: receives it, and the declarations of functions that it calls.
      name: its symbol.
      result: the LLVM type that it returns, or "void".
      parameters: their LLVM types, with all lanes, and names.
      attributes: the attributes before the result type, such as "internal".

    Attributes:
      parameters: the parameters as Values.
      block: the label of the basic block that is written.
      overflown: the basic block for integer overflow; "" if integers wrap.
      copies, written: the most inlined copies of a scalar elementary function, and the number so
        far by primitive; further ones are calls.
    """

    def __init__(
        self,
        module: Module,
        name: str,
        result: str,
        parameters: Sequence[tuple[str, str]],
        *,
        attributes: str = "",
    ) -> None:
        self.module = module
        self.name = name
        self.block = "entry"
        self.overflown = ""
        self.copies, self.written = tuned.number_copies, Counter[Any]()
        self.parameters = [_parameter(type, name) for type, name in parameters]
        given = ", ".join([f"{type} %{name}" for type, name in parameters])
        before = f"{attributes} " if attributes else ""
        self._head = f"define {before}{result} @{name}({given}) {{"
        self._variables: list[str] = []
        self._lines: list[str] = []
        self._types = {x.text: x.full for x in self.parameters}
        self._count = 0
        module.functions[name] = self

    def __len__(self) -> int:
        """The number of lines."""
        return len(self._lines)

    def __eq__(self, other: object) -> bool:
        """Whether two functions are the same text."""
        return isinstance(other, Function) and self._text() == other._text()

    __hash__ = object.__hash__

    def _text(self) -> tuple[str, list[str], list[str]]:
        return self._head, self._variables, self._lines

    def mentions(self, names: re.Pattern[str]) -> bool:
        """Whether a name occurs in its instructions."""
        return any(names.search(line) for line in self._lines)

    def text(self) -> str:
        """The function in LLVM's syntax, with its variables at the start, and what it outlines."""
        lines, frame, called = [*self._variables, *self._lines], "", list[str]()
        if len(self._lines) > tuned.block_lines:
            lines, frame, called = outlined(self.name, self._variables, self._lines, self._types)
        text = [self._head, "entry:", *lines, "}\n", *called]
        return "\n".join([frame, *text] if frame else text)

    def rename(self, names: Mapping[str, str]) -> None:
        """Renames the functions that occur in it."""

        def renamed(text: str) -> str:
            return _NAME.sub(lambda found: "@" + names.get(found[1], found[1]), text)

        self.name = names.get(self.name, self.name)
        self._head, self._lines = renamed(self._head), [*map(renamed, self._lines)]

    def rare(self) -> None:
        """Has this function compiled in less time, to slower code: it runs once a call, or less."""
        self._head = self._head.replace(") {", ") optnone noinline {")

    # Lines, names and basic blocks.

    def raw(self, line: str) -> None:
        """Adds an instruction without a value."""
        self._lines.append("  " + line)

    def first(self, text: str, name: str = "", type: str = "ptr") -> Value:
        """Adds an instruction at the function's start; returns its value, if it has a name."""
        if name:
            self._types[name] = type
        self._variables.append(f"  {name} = {text}" if name else f"  {text}")
        return Value(name, type)

    def erase(self, lines: slice) -> None:
        """Removes lines that no other one depends on."""
        self._lines[lines] = [""] * len(self._lines[lines])

    def new(self, text: str, type: str, lanes: int = 1) -> Value:
        """Adds an instruction; returns its value."""
        self._count += 1
        found = Value(f"%v{self._count}", type, lanes)
        self._types[found.text] = found.full
        self._lines.append(f"  {found.text} = {text}")
        return found

    def label(self, wish: str = "b") -> str:
        """A new name for a basic block."""
        self._count += 1
        return f"{wish}{self._count}"

    def begin(self, label: str) -> None:
        """Begins a basic block; the one before must have ended in a branch."""
        self._lines.append(f"{label}:")
        self.block = label

    def goto(self, label: str) -> None:
        self.raw(f"br label %{label}")

    def branch(self, condition: Value, yes: str, no: str, rare: bool = False) -> None:
        """Branches to one of two blocks; with `rare` the first is unlikely."""
        weights = ""
        if rare:
            self.module.declare(RARELY)
            weights = ", !prof !0"
        self.raw(f"br i1 {condition.text}, label %{yes}, label %{no}{weights}")

    def phi(self, arms: Sequence[tuple[Value, str]]) -> Value:
        """The value of the predecessor block that ran."""
        first = arms[0][0]
        found = ", ".join([f"[ {value.text}, %{label} ]" for value, label in arms])
        return self.new(f"phi {first.full} {found}", first.type, first.lanes)

    def ret(self, value: Value | None = None) -> None:
        self.raw("ret void" if value is None else f"ret {value}")

    def ret_unless(self, condition: Value, value: Value) -> None:
        """Returns a value if a condition does not hold."""
        on, off = self.label("on"), self.label("off")
        self.branch(condition, on, off)
        self.begin(off)
        self.ret(value)
        self.begin(on)

    # Structured control flow, with functions that write the blocks.

    def while_loop(self, condition: Callable[[], Value], body: Callable[[], None]) -> None:
        """A loop; its state is in variables."""
        head, inside, done = (self.label(w) for w in ("while", "do", "done"))
        self.goto(head)
        self.begin(head)
        self.branch(condition(), inside, done)
        self.begin(inside)
        body()
        self.goto(head)
        self.begin(done)

    def for_range(
        self, start: Operand, stop: Operand, body: Callable[[Value], None], step: int = 1
    ) -> None:
        """`body(i)` for each i64 i in range(start, stop, step)."""
        counter = self.variable("i64")
        self.set(counter, self.of(start, "i64", 1))

        def below() -> Value:
            return self.compare("slt", self.get(counter), self.of(stop, "i64", 1))

        def once() -> None:
            i = self.get(counter)
            body(i)
            self.set(counter, self.new(f"add nsw i64 {i.text}, {step}", "i64", 1))

        self.while_loop(below, once)

    def if_else(
        self,
        condition: Value,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Runs one of two blocks."""
        yes, no, done = (self.label(w) for w in ("then", "else", "end"))
        self.branch(condition, yes, no if otherwise else done)
        self.begin(yes)
        then()
        self.goto(done)
        if otherwise is not None:
            self.begin(no)
            otherwise()
            self.goto(done)
        self.begin(done)

    def rarely(
        self, mask: Value, fast: Sequence[Value], slow: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """`slow()` if any lane of a mask is set, which is unlikely, else `fast`.

        `slow` must return the fast values in lanes without the mask: no lane may depend on others.
        """
        yes, end, before = self.label("slow"), self.label("end"), self.block
        self.branch(self.any(mask), yes, end, rare=True)
        self.begin(yes)
        other = slow()
        after = self.block
        self.goto(end)
        self.begin(end)
        return [self.phi([(x, before), (y, after)]) for x, y in zip(fast, other, strict=True)]

    # Variables and memory.

    def variable(self, type: str, lanes: int = 1) -> Value:
        """A variable of this function, as a pointer; LLVM's passes move it to registers."""
        self._count += 1
        return self.first(
            f"alloca {of_lanes(type, lanes)}", f"%m{self._count}", _Pointer(type, lanes)
        )

    def initialised(self, value: Value) -> Value:
        """A variable, set to a value here."""
        variable = self.variable(value.type, value.lanes)
        self.set(variable, value)
        return variable

    def get(self, variable: Value) -> Value:
        kind = variable.type
        assert isinstance(kind, _Pointer)
        return self.new(f"load {of_lanes(kind.to, kind.of)}, ptr {variable.text}", kind.to, kind.of)

    def set(self, variable: Value, value: Value) -> None:
        self.raw(f"store {value}, ptr {variable.text}")

    def at(self, pointer: Value, index: Operand, type: str = "i8") -> Value:
        """The pointer to element `index` (i64) of an array of scalars of this type."""
        index = self.of(index, "i64", 1)
        return self.new(f"getelementptr {type}, ptr {pointer.text}, i64 {index.text}", "ptr", 1)

    def load(self, pointer: Value, type: str, lanes: int = 1, align: int = 0) -> Value:
        """Loads the lanes at a pointer; the default alignment is the size of an element."""
        align = align or size_of(type)
        text = f"load {of_lanes(type, lanes)}, ptr {pointer.text}, align {align}"
        return self.new(text, type, lanes)

    def load_where(self, mask: Value, pointer: Value, type: str) -> Value:
        """Loads the lanes of a mask of several; memory in other lanes may be invalid."""
        full = of_lanes(type, mask.lanes)
        name = f"llvm.masked.load.v{mask.lanes}{_SHORT.get(type, type)}.p0"
        self.module.declare(f"declare {full} @{name}(ptr, i32, {mask.full}, {full})")
        given = f"ptr {pointer.text}, i32 {size_of(type)}, {mask}, {full} zeroinitializer"
        return self.new(f"call {full} @{name}({given})", type, mask.lanes)

    def store(self, value: Value, pointer: Value, align: int = 0) -> None:
        self.raw(f"store {value}, ptr {pointer.text}, align {align or size_of(value.type)}")

    def read(self, pointer: Value, type: str, lanes: int = 1) -> Value:
        """`load`, also of bools, which are bytes in memory."""
        if type != "i1":
            return self.load(pointer, type, lanes)
        return self.compare("ne", self.load(pointer, "i8", lanes), 0)

    def write(self, x: Value, pointer: Value) -> None:
        """`store`, also of bools."""
        self.store(self.convert("zext", x, "i8") if x.type == "i1" else x, pointer)

    def copy(self, to: Value, source: Value, size: int) -> None:
        """Copies some bytes to other memory."""
        name = "llvm.memcpy.p0.p0.i64"
        self.module.declare(f"declare void @{name}(ptr, ptr, i64, i1)")
        self.raw(f"call void @{name}({to}, {source}, i64 {size}, i1 false)")

    def prefetch(self, pointer: Value, writes: bool) -> None:
        """Prefetches the cache line at an address, which may be invalid."""
        self.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.raw(f"call void @llvm.prefetch.p0({pointer}, i32 {int(writes)}, i32 3, i32 1)")

    # Constants and lanes.

    def constant(self, number: Any, type: str, lanes: int = 1) -> Value:
        """A number in all lanes."""
        text = literal(number, type)
        return Value(text if lanes == 1 else f"splat ({type} {text})", type, lanes)

    def of(self, x: Operand, type: str, lanes: int) -> Value:
        """An operand as a Value; numbers get this type and these lanes."""
        return x if isinstance(x, Value) else self.constant(x, type, lanes)

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in so many lanes."""
        if lanes == 1 or x.lanes > 1:
            return x
        full = of_lanes(x.type, lanes)
        one = self.new(f"insertelement {full} poison, {x}, i32 0", x.type, lanes)
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.new(f"shufflevector {one}, {full} poison, {mask}", x.type, lanes)

    def iota(self, lanes: int, type: str = "i64") -> Value:
        """0, 1, 2, ... along so many lanes."""
        if lanes == 1:
            return self.constant(0, type)
        numbers = ", ".join([f"{type} {literal(n, type)}" for n in range(lanes)])
        return Value(f"<{numbers}>", type, lanes)

    def lane(self, x: Value, place: int) -> Value:
        """One lane as a scalar."""
        if x.lanes == 1:
            return x
        return self.new(f"extractelement {x}, i32 {place}", x.type, 1)

    def vector(self, parts: Sequence[Value]) -> Value:
        """Scalars as the lanes of one value."""
        if len(parts) == 1:
            return parts[0]
        found = Value("poison", parts[0].type, len(parts))
        for place, x in enumerate(parts):
            found = self.new(f"insertelement {found}, {x}, i32 {place}", x.type, len(parts))
        return found

    def shuffled(self, xs: Sequence[Value], places: Iterable[int]) -> Value:
        """Some lanes of one or two values of equal lanes."""
        mask = [f"i32 {place}" for place in places]
        x, other = xs[0], xs[-1] if len(xs) > 1 else f"{xs[0].full} poison"
        text = f"shufflevector {x}, {other}, <{len(mask)} x i32> <{', '.join(mask)}>"
        return self.new(text, x.type, len(mask))

    def part(self, x: Value, start: int, lanes: int) -> Value:
        """Some adjacent lanes."""
        if lanes == x.lanes:
            return x
        return (
            self.lane(x, start) if lanes == 1 else self.shuffled([x], range(start, start + lanes))
        )

    def reverse(self, x: Value) -> Value:
        """The lanes in reversed order."""
        return x if x.lanes == 1 else self.shuffled([x], reversed(range(x.lanes)))

    def any(self, mask: Value) -> Value:
        """Whether a mask is set in any lane."""
        return mask if mask.lanes == 1 else self._reduced("or", mask)

    def all(self, mask: Value) -> Value:
        """Whether a mask is set in all lanes."""
        return mask if mask.lanes == 1 else self._reduced("and", mask)

    def _reduced(self, how: str, mask: Value) -> Value:
        name = f"llvm.vector.reduce.{how}.v{mask.lanes}i1"
        self.module.declare(f"declare i1 @{name}({mask.full})")
        return self.new(f"call i1 @{name}({mask})", "i1", 1)

    # Arithmetic. Python numbers take the type of the other operand.

    def both(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        """Two operands as Values of one type."""
        known = x if isinstance(x, Value) else y
        return self.of(x, known.type, known.lanes), self.of(y, known.type, known.lanes)

    def binary(self, instruction: str, x: Operand, y: Operand) -> Value:
        """Any instruction of two operands and their type: "fdiv", "and", "shl", "sdiv", ..."""
        x, y = self.both(x, y)
        return self.new(f"{instruction} {x}, {y.text}", x.type, x.lanes)

    def _arithmetic(self, name: str, x: Operand, y: Operand) -> Value:
        x, y = self.both(x, y)
        if x.type in FLOATS or not self.overflown:
            return self.binary(_OF_FLOATS[name] if x.type in FLOATS else name, x, y)
        full, pair, on = (
            f"llvm.s{name}.with.overflow.{x.type}",
            f"{{{x.type}, i1}}",
            self.label("on"),
        )
        self.module.declare(f"declare {pair} @{full}({x.type}, {x.type})")
        found = self.new(f"call {pair} @{full}({x}, {y})", pair, 1).text
        over = self.new(f"extractvalue {pair} {found}, 1", "i1", 1)
        self.branch(over, self.overflown, on, rare=True)
        self.begin(on)
        return self.new(f"extractvalue {pair} {found}, 0", x.type, 1)

    def add(self, x: Operand, y: Operand) -> Value:
        """x + y. As in sub and mul, integers wrap, or go to the block `overflown` (scalars)."""
        return self._arithmetic("add", x, y)

    def sub(self, x: Operand, y: Operand) -> Value:
        return self._arithmetic("sub", x, y)

    def mul(self, x: Operand, y: Operand) -> Value:
        return self._arithmetic("mul", x, y)

    def div(self, x: Operand, y: Operand) -> Value:
        """x / y of floats."""
        return self.binary("fdiv", x, y)

    def neg(self, x: Value) -> Value:
        if x.type in FLOATS:
            return self.new(f"fneg {x}", x.type, x.lanes)
        return self.sub(0, x)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """x * y + z, rounded once; only for elementary functions."""
        return self.intrinsic("fma", [x, y, z])

    def fabs(self, x: Value) -> Value:
        return self.intrinsic("fabs", [x])

    def sqrt(self, x: Value) -> Value:
        return self.intrinsic("sqrt", [x])

    def copysign(self, x: Operand, y: Operand) -> Value:
        """The magnitude of x with the sign of y."""
        return self.intrinsic("copysign", [x, y])

    def intrinsic(self, name: str, operands: Sequence[Operand]) -> Value:
        """`llvm.<name>` of operands of one type, which is also the result's."""
        known = next(x for x in operands if isinstance(x, Value))
        values = [self.of(x, known.type, known.lanes) for x in operands]
        suffix = _SHORT.get(known.type, known.type)
        lanes = "" if known.lanes == 1 else f"v{known.lanes}"
        full = f"llvm.{name}.{lanes}{suffix}"
        types = ", ".join([value.full for value in values])
        self.module.declare(f"declare {known.full} @{full}({types})")
        given = ", ".join([str(value) for value in values])
        return self.new(f"call {known.full} @{full}({given})", known.type, known.lanes)

    def compare(self, predicate: str, x: Operand, y: Operand) -> Value:
        """A mask; predicates: "oeq", "olt", "une", "uno", ... of floats, "eq", "slt", ... of
        integers.
        """
        x, y = self.both(x, y)
        instruction = "fcmp" if x.type in FLOATS else "icmp"
        return self.new(f"{instruction} {predicate} {x}, {y.text}", "i1", x.lanes)

    def select(self, mask: Value, x: Operand, y: Operand) -> Value:
        """x where a mask is set, else y; both are computed. One of them must be a Value."""
        x, y = self.both(x, y)
        return self.new(f"select {mask}, {x}, {y}", x.type, x.lanes)

    def convert(self, instruction: str, x: Value, type: str) -> Value:
        """A conversion: "sitofp", "fpext", "fptrunc", "zext", "trunc", "bitcast", ..."""
        return self.new(f"{instruction} {x} to {of_lanes(type, x.lanes)}", type, x.lanes)

    def as_integer(self, x: Value) -> Value:
        """The bits of a float."""
        return self.convert("bitcast", x, "i64" if x.type == "double" else "i32")

    def as_float(self, x: Value) -> Value:
        """The float with these bits."""
        return self.convert("bitcast", x, "double" if x.type == "i64" else "float")

    def polynomial(self, coefficients: Sequence[float], x: Value) -> Value:
        """c0 + c1 x + c2 x**2 + ..., fused: by Horner's scheme, or in two shorter chains of
        operations that run at once, of the even and the odd terms."""
        if len(coefficients) > tuned.polynomial_chain:
            square = self.mul(x, x)
            even, odd = (self.polynomial(coefficients[i::2], square) for i in (0, 1))
            return self.fma(odd, x, even)
        *rest, last = coefficients
        y = self.constant(last, x.type, x.lanes)
        for coefficient in reversed(rest):
            y = self.fma(y, x, coefficient)
        return y

    # Calls.

    def call(self, symbol: str, result: str, operands: Sequence[Value]) -> Value:
        """A call of a function of scalars; the Value of a void one must not be read."""
        types = ", ".join([value.full for value in operands])
        if symbol not in self.module.functions:
            self.module.declare(f"declare {result} @{symbol}({types})")
        given = ", ".join([str(value) for value in operands])
        if result == "void":
            self.raw(f"call void @{symbol}({given})")
            return Value("poison", result)
        return self.new(f"call {result} @{symbol}({given})", result, 1)

    def call_lanes(self, symbol: str, operands: Sequence[Value]) -> Value:
        """Calls a function of scalars lane by lane, by a loop in a rare function."""
        type, lanes, full = operands[0].type, operands[0].lanes, operands[0].full
        if lanes == 1:
            return self.call(symbol, type, operands)
        name = f"{symbol}_{lanes}"
        if name not in self.module.functions:
            given = [(x.full, f"x{n}") for n, x in enumerate(operands)]
            inner = Function(self.module, name, full, given, attributes="internal")
            inner.rare()
            memory = [inner.variable(type, lanes) for _ in operands]
            for at, x in zip(memory, inner.parameters, strict=True):
                inner.set(at, x)

            def one(i: Value) -> None:
                at = [inner.at(pointer, i, type) for pointer in memory]
                xs = [inner.load(pointer, type) for pointer in at]
                inner.store(inner.call(symbol, type, xs), at[0])

            inner.for_range(0, lanes, one)
            inner.ret(inner.get(memory[0]))
        return Value(self.call(name, full, operands).text, type, lanes)


class _Pointer(str):
    """The type `ptr` of a variable, and the type and lanes that it points to."""

    __slots__ = ("of", "to")
    to: str
    of: int

    def __new__(cls, to: str, of: int) -> _Pointer:
        made = super().__new__(cls, "ptr")
        made.to = to
        made.of = of
        return made


def size_of(type: str) -> int:
    """Bytes of a scalar in memory."""
    return {"double": 8, "i64": 8, "ptr": 8, "float": 4, "i32": 4, "half": 2, "i16": 2}.get(type, 1)


def _parameter(type: str, name: str) -> Value:
    if type.startswith("<"):
        lanes, _, lane = type[1:-1].partition(" x ")
        return Value("%" + name, lane, int(lanes))
    return Value("%" + name, type)
