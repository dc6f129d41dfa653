"""IR of single elementwise equations: tables from operations to instructions.

Results are NumPy's, also for NaN, infinities, zeros of both signs and integers that wrap. Other
operations are refused. The tables are keyed by primitives: a primitive of another package is none
of ours, whatever its name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fungrad.compiler.native import powers
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Function, Operand, Value
from fungrad.compiler.native.powers import LONGEST, integer_power, product_of
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Equation, Literal
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import bitcast, power
from fungrad.primitives.movement import reshape_broadcast_cast as casts
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.cumulative import attains
from fungrad.primitives.reduction.reduce import root
from fungrad.primitives.stop_gradient import stop

Rule = Callable[..., Value]
Table = Mapping[Primitive, Mapping[str, Rule]]
TYPES: Mapping[np.dtype[Any], str] = {
    np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.bool_): "i1",
}
"""The dtypes of native code, as types of Values; in memory a bool is an i8."""
_DTYPES = {type: dtype for dtype, type in TYPES.items()}
_KINDS = {"double": "f", "float": "f", "i64": "i", "i32": "i", "i1": "b"}
_BITS = {"double": 64, "float": 32, "i64": 64, "i32": 32, "i1": 1}
_NONE: Mapping[str, Any] = MappingProxyType({})


def type_of(dtype: Any) -> str:
    """The type of Values of a dtype.

    Raises:
      Refused: if native code does not support the dtype.
    """
    found = TYPES.get(np.dtype(dtype))
    if found is None:
        raise Refused(f"dtype {np.dtype(dtype)}", "dtype")
    return found


def apply(
    code: Function,
    primitive: Any,
    xs: Sequence[Operand],
    dtype: Any,
    params: Mapping[str, Any] = _NONE,
    computed: Any = None,
) -> Value:
    """The result of an elementwise primitive.

    Args:
      code: the function that is written.
      primitive: the primitive.
      xs: operands: Values, or Python numbers, which are weak as in NumPy.
      dtype: the result's dtype.
      params: the equation's parameters.
      computed: the dtype in which operands are compared; by default NumPy's promoted dtype.

    Raises:
      Refused: if the primitive is not supported for these dtypes.
    """
    result = type_of(dtype)
    if primitive is select:
        return _select(code, xs, result)
    if primitive in CASTS:
        return convert(code, _value(code, xs[0], xs), result)
    if primitive is bitcast:
        return _bitcast(code, xs[0], result)
    if primitive in TESTS:
        type = type_of(computed or np.result_type(*[_example(x) for x in xs]))
        rule = _found(TESTS, primitive, type)
        return rule(code, *[_converted(code, x, xs, type) for x in xs])
    if primitive is power and not isinstance(xs[1], Value):
        base = _converted(code, xs[0], xs, result)
        return _found(POWERS, primitive, result)(code, base, xs[1])
    operands = [_converted(code, x, xs, result) for x in xs]
    if primitive in FUNCTIONS and _KINDS[result] == "f":
        return _function(code, primitive, operands)
    return _found(OPERATIONS, primitive, result)(code, *operands)


VECTOR_COPIES = 10
"""The most inlined copies of an elementary function of vectors in a function."""


def _function(code: Function, primitive: Any, xs: Sequence[Value]) -> Value:
    """An elementary function: inlined up to `code.copies` times, then called."""
    rule, known = FUNCTIONS[primitive], xs[0]
    code.written[primitive, known.lanes] += 1
    most = code.copies if known.lanes == 1 else VECTOR_COPIES
    if code.written[primitive, known.lanes] <= most:
        return rule(code, *xs)
    lanes = f"_{known.lanes}" if known.lanes > 1 else ""
    symbol = code.module.symbol((primitive, known.full), f"{primitive.name}_{known.type}{lanes}")
    if symbol not in code.module.functions:
        given = [(known.full, f"x{n}") for n in range(len(xs))]
        inner = Function(
            code.module, symbol, known.full, given, lanes=known.lanes, attributes="internal"
        )
        inner.ret(rule(inner, *inner.parameters))
    return Value(code.call(symbol, known.full, xs).text, known.type, known.lanes)


def apply_equation(code: Function, equation: Equation, xs: Sequence[Operand]) -> Value:
    """The result of an elementwise equation of one output; weak inputs promote as in NumPy."""
    (output,) = equation.outputs
    operands, examples = [], []
    for atom, x in zip(equation.inputs, xs, strict=True):
        known = isinstance(atom, Literal) and type(atom.value) in (bool, int, float)
        operands.append(atom.value if isinstance(atom, Literal) and known else x)
        number = np.zeros((), type_of(atom.type.dtype) and atom.type.dtype)
        examples.append(number.item() if atom.type.weak else number.dtype)
    return apply(
        code, equation.primitive, operands, output.type.dtype, equation.params,
        np.result_type(*examples),
    )  # fmt: skip


def of_python(equation: Equation) -> bool:
    """Whether an equation computes with Python integers, which are unbounded."""
    atoms = (*equation.inputs, *equation.outputs)
    return all(a.type.weak for a in atoms) and any(a.type.dtype.kind == "i" for a in atoms)


def known(primitive: Any) -> bool:
    """Whether the primitive is supported for some dtypes."""
    return any(primitive in table for table in (OPERATIONS, TESTS, FUNCTIONS, _OTHERS))


def cost(equation: Equation) -> float:
    """Estimated nanoseconds per element."""
    primitive: Any = equation.primitive
    if primitive is power:
        exponent = getattr(equation.inputs[1], "value", None)
        if isinstance(exponent, (int, float)) and exponent in _CHEAP_POWERS:
            return _CHEAP_POWERS[exponent]
    form = FUNCTIONS.get(primitive)
    return _COSTS.get(primitive, 0.1) if form is None else form.nanoseconds


def convert(code: Function, x: Value, type: str) -> Value:
    """A Value converted to another type, as by astype."""
    if x.type == type:
        return x
    before, after = _KINDS[x.type], _KINDS[type]
    if after == "b":
        return code.compare("une" if before == "f" else "ne", x, 0)
    if before == "b":
        return code.convert("uitofp" if after == "f" else "zext", x, type)
    if before == after == "f":
        return code.convert("fpext" if type == "double" else "fptrunc", x, type)
    if before == after:
        return code.convert("sext" if type == "i64" else "trunc", x, type)
    return code.convert("sitofp", x, type) if after == "f" else _to_integer(code, x, type)


def _to_integer(code: Function, x: Value, type: str) -> Value:
    """Rounds towards zero; NaN and numbers beyond the range as NumPy on this machine."""
    bits = _BITS[type]
    above = 2.0 ** (bits - 1)
    if x.type == "double" and bits == 32:
        low = code.compare("ogt", x, -above - 1.0)
    else:
        low = code.compare("oge", x, -above)
    high = code.compare("olt", x, above)
    nan, largest, smallest = _beyond(x.type, type)
    other = code.constant(nan, type, x.lanes)
    if largest != nan:
        other = code.select(code.compare("oge", x, above), largest, other)
    if smallest != nan:
        other = code.select(code.compare("olt", x, 0.0), smallest, other)
    inside = code.binary("and", low, high)
    return code.select(inside, code.convert("fptosi", code.select(inside, x, 0.0), type), other)


@functools.cache
def _beyond(source: str, target: str) -> tuple[int, ...]:
    with np.errstate(all="ignore"):
        found = np.array([np.nan, np.inf, -np.inf] * 8, _DTYPES[source]).astype(_DTYPES[target])
    return tuple(found[:3].tolist())


def _example(x: Operand) -> Any:
    return _DTYPES[x.type] if isinstance(x, Value) else x


def _value(code: Function, x: Operand, others: Sequence[Operand], type: str = "") -> Value:
    """An operand as a Value; a number gets as many lanes as the other operands."""
    if isinstance(x, Value):
        return x
    lanes = max([y.lanes for y in others if isinstance(y, Value)], default=1)
    type = type or TYPES[np.result_type(x)]
    if _KINDS[type] == "i" and not -(2 ** (_BITS[type] - 1)) <= x < 2 ** (_BITS[type] - 1):
        raise Refused(f"the integer {x}")
    return code.constant(x, type, lanes)


def _converted(code: Function, x: Operand, others: Sequence[Operand], type: str) -> Value:
    if isinstance(x, Value):
        return convert(code, x, type)
    return _value(code, x, others, type)


def _found(table: Table, primitive: Any, type: str) -> Rule:
    rule = table.get(primitive, _NO_RULES).get(_KINDS[type])
    if rule is None:
        of = f" of {_DTYPES[type]}" if primitive in table else ""
        raise Refused(f"{primitive.name}{of}")
    return rule


_NO_RULES: Mapping[str, Rule] = {}


def _select(code: Function, xs: Sequence[Operand], type: str) -> Value:
    condition = _converted(code, xs[0], xs, "i1")
    x, y = (_converted(code, x, xs, type) for x in xs[1:])
    return code.select(condition, x, y)


def _bitcast(code: Function, x: Operand, type: str) -> Value:
    if not isinstance(x, Value) or _BITS[x.type] != _BITS[type]:
        raise Refused("bitcast to another size")
    return x if x.type == type else code.convert("bitcast", x, type)


# --- operations whose operands have the result's dtype ------------------------------------------


def _binary(instruction: str) -> Rule:
    return lambda code, x, y: code.binary(instruction, x, y)


def _rounded(name: str) -> Rule:
    return lambda code, x: code.intrinsic(name, [x])


def _same(code: Function, x: Value) -> Value:
    return x


def _of(code: Function, x: Value, number: Any) -> Value:
    """A constant in the lanes and type of a Value."""
    return code.constant(number, x.type, x.lanes)


def _extremum(beyond: str) -> Rule:
    """NaN if an operand is NaN; of two zeros the second."""

    def rule(code: Function, x: Value, y: Value) -> Value:
        if _KINDS[x.type] != "f":
            return code.select(code.compare(beyond.replace("o", "s", 1), x, y), x, y)
        if _finite(x):
            return code.select(code.compare(beyond, x, y), x, y)
        if _finite(y):
            return code.select(code.compare(beyond.replace("o", "u", 1), x, y), x, y)
        first = code.binary("or", code.compare(beyond, x, y), code.compare("uno", x, x))
        return code.select(first, x, y)

    return rule


def _finite(x: Value) -> bool:
    """Whether a value is a known finite number."""
    return not ("%" in x.text or "0x7FF" in x.text or "0xFFF" in x.text)


def _extremum_of_numbers(beyond: str) -> Rule:
    """The other operand if one is NaN."""

    def rule(code: Function, x: Value, y: Value) -> Value:
        first = code.binary("or", code.compare(beyond, x, y), code.compare("uno", y, y))
        return code.select(first, x, y)

    return rule


def _sign(code: Function, x: Value) -> Value:
    if _KINDS[x.type] == "i":
        some = code.select(code.compare("ne", x, 0), _of(code, x, 1), 0)
        return code.select(code.compare("slt", x, 0), -1, some)
    size = code.select(code.compare("ogt", x, 0.0), _of(code, x, 1.0), x)
    size = code.select(code.compare("olt", x, 0.0), -1.0, size)
    return code.select(code.compare("oeq", x, 0.0), 0.0, size)


def _heaviside(code: Function, x: Value, at_zero: Value) -> Value:
    y = code.select(code.compare("ogt", x, 0.0), _of(code, x, 1.0), x)
    y = code.select(code.compare("olt", x, 0.0), 0.0, y)
    return code.select(code.compare("oeq", x, 0.0), at_zero, y)


def _shift(instruction: str) -> Rule:
    """Shifts by a negative number, or by the number of bits or more, shift all bits out."""

    def rule(code: Function, x: Value, by: Value) -> Value:
        last = _BITS[x.type] - 1
        inside = code.compare("ule", by, last)
        if instruction == "ashr":
            return code.binary(instruction, x, code.select(inside, by, last))
        return code.select(inside, code.binary(instruction, x, code.select(inside, by, 0)), 0)

    return rule


def _absolute(code: Function, x: Value) -> Value:
    return code.select(code.compare("slt", x, 0), code.neg(x), x)


def _integer_power(code: Function, x: Value, n: Any) -> Value:
    """By repeated squaring: products wrap as NumPy's, in any order."""
    if isinstance(n, float) or n < 0:
        raise Refused("integer powers by exponents that are no natural numbers")
    return product_of(code, x, int(n)) if n else _of(code, x, 1)


def _float_power(code: Function, x: Value, n: Any) -> Value:
    """A power with a known exponent, which selects the method as in NumPy."""
    if n == 0:
        return _of(code, x, 1.0)
    if n in (1, 2):
        return x if n == 1 else code.mul(x, x)
    if n in (-1, 0.5):
        return code.div(1.0, x) if n == -1 else code.sqrt(x)
    if abs(n) <= LONGEST and n == int(n):
        return integer_power(code, x, int(n))
    return FUNCTIONS[power](code, x, _of(code, x, float(n)))


def _scaled(ufunc: Any) -> Rule:
    """Multiplies by NumPy's factor for the dtype."""
    return lambda code, x: code.mul(x, float(ufunc(_DTYPES[x.type].type(1))))


_ARITHMETIC: Mapping[Primitive, Rule] = {
    family.add: lambda code, x, y: code.add(x, y),
    family.sub: lambda code, x, y: code.sub(x, y),
    family.mul: lambda code, x, y: code.mul(x, y),
    family.neg: lambda code, x: code.neg(x),
    ufuncs.square: lambda code, x: code.mul(x, x),
    ufuncs.sign: _sign,
    ufuncs.maximum: _extremum("ogt"),
    ufuncs.minimum: _extremum("olt"),
}
_INTEGER_LOGIC = {ufuncs.bitwise_and: "and", ufuncs.bitwise_or: "or", ufuncs.bitwise_xor: "xor"}
_ROUNDED = {p: _rounded(p.name) for p in (ufuncs.floor, ufuncs.ceil, ufuncs.trunc, ufuncs.rint)}
_ROOT: Mapping[str, Rule] = {"f": lambda code, x: code.sqrt(x)}
OPERATIONS: dict[Primitive, dict[str, Rule]] = {
    **{primitive: {"f": rule, "i": rule} for primitive, rule in _ARITHMETIC.items()},
    **{primitive: {"i": _binary(i), "b": _binary(i)} for primitive, i in _INTEGER_LOGIC.items()},
    **{primitive: dict.fromkeys("fib", _same)
       for primitive in (ufuncs.positive, stop, ufuncs.real, casts.conj)},
    **{primitive: {"f": rule, "i": _same} for primitive, rule in _ROUNDED.items()},
    family.div: {"f": lambda code, x, y: code.div(x, y)},
    ufuncs.reciprocal: {"f": lambda code, x: code.div(1.0, x)},
    ufuncs.sqrt: {**_ROOT},
    root: {**_ROOT},
    ufuncs.abs: {"f": lambda code, x: code.fabs(x), "i": _absolute, "b": _same},
    ufuncs.fabs: {"f": lambda code, x: code.fabs(x)},
    ufuncs.fmax: {"f": _extremum_of_numbers("ogt"), "i": _extremum("ogt"), "b": _binary("or")},
    ufuncs.fmin: {"f": _extremum_of_numbers("olt"), "i": _extremum("olt"), "b": _binary("and")},
    ufuncs.copysign: {"f": lambda code, x, y: code.copysign(x, y)},
    ufuncs.heaviside: {"f": _heaviside},
    ufuncs.deg2rad: {"f": _scaled(np.deg2rad)},
    ufuncs.rad2deg: {"f": _scaled(np.rad2deg)},
    ufuncs.invert: {"i": lambda code, x: code.binary("xor", x, -1),
                    "b": lambda code, x: code.binary("xor", x, True)},
    ufuncs.left_shift: {"i": _shift("shl")},
    ufuncs.right_shift: {"i": _shift("ashr")},
    ufuncs.floor_divide: {"f": powers.floor_divide, "i": powers.integer_floor_divide},
    ufuncs.remainder: {"f": powers.remainder, "i": powers.integer_remainder},
    ufuncs.fmod: {"f": powers.fmod, "i": powers.integer_fmod},
}  # fmt: skip
"""By primitive, and by kind of number: f(loat), i(nteger), b(ool)."""
for _primitive, _logic in (
    (family.add, "or"), (family.mul, "and"), (ufuncs.maximum, "or"), (ufuncs.minimum, "and"),
):  # fmt: skip
    OPERATIONS[_primitive]["b"] = _binary(_logic)
POWERS: Table = {power: {"i": _integer_power, "f": _float_power}}

# --- tests: operands of one type, a bool as result ------------------------------------------------


def _comparison(floats: str, integers: str) -> dict[str, Rule]:
    kinds = {"f": floats, "i": integers, "b": integers.replace("s", "u")}
    return {kind: _compared(predicate) for kind, predicate in kinds.items()}


def _compared(predicate: str) -> Rule:
    return lambda code, x, y: code.compare(predicate, x, y)


def _logical(instruction: str) -> dict[str, Rule]:
    def rule(code: Function, x: Value, y: Value) -> Value:
        return code.binary(instruction, convert(code, x, "i1"), convert(code, y, "i1"))

    return dict.fromkeys("fib", rule)


def _never(code: Function, x: Value) -> Value:
    return code.constant(False, "i1", x.lanes)


def _attains(code: Function, x: Value, y: Value) -> Value:
    both = code.binary("and", code.compare("uno", x, x), code.compare("uno", y, y))
    return code.binary("or", code.compare("oeq", x, y), both)


def _negative(code: Function, x: Value) -> Value:
    return code.compare("slt", code.as_integer(x), 0)


_INFINITY = float("inf")
TESTS: Table = {
    family.lt: _comparison("olt", "slt"),
    family.le: _comparison("ole", "sle"),
    family.gt: _comparison("ogt", "sgt"),
    family.ge: _comparison("oge", "sge"),
    family.eq: _comparison("oeq", "eq"),
    family.ne: _comparison("une", "ne"),
    attains: {**_comparison("oeq", "eq"), "f": _attains},
    family.logical_and: _logical("and"),
    family.logical_or: _logical("or"),
    ufuncs.logical_xor: _logical("xor"),
    family.logical_not: dict.fromkeys(
        "fib", lambda code, x: code.binary("xor", convert(code, x, "i1"), True)
    ),
    ufuncs.isnan: {"f": lambda code, x: code.compare("uno", x, x), "i": _never, "b": _never},
    ufuncs.isinf: {"f": lambda code, x: code.compare("oeq", code.fabs(x), _INFINITY),
              "i": _never, "b": _never},
    ufuncs.isfinite: {"f": lambda code, x: code.compare("olt", code.fabs(x), _INFINITY),
                 **dict.fromkeys("ib", lambda code, x: code.binary("xor", _never(code, x), True))},
    ufuncs.signbit: {"f": _negative, "i": lambda code, x: code.compare("slt", x, 0), "b": _never},
}  # fmt: skip

CASTS = frozenset((casts.convert, casts.to_discrete, casts.number))
_OTHERS = CASTS | {select, bitcast, power}
_CHEAP_POWERS = {1: 0.1, 2: 0.1, 3: 0.3, 4: 0.4, -1: 0.5, 0.5: 0.7}
_COSTS: Mapping[Primitive, float] = {
    family.div: 0.5, ufuncs.sqrt: 0.7, root: 0.7, ufuncs.floor_divide: 3.0, ufuncs.remainder: 3.0,
    ufuncs.fmod: 2.0,
}  # fmt: skip
