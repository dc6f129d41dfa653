"""IR of single elementwise equations: instructions for operations, and functions.

Results are NumPy's, also for NaN, infinities, zeros of both signs and integers that wrap. Other
operations are refused. Operations are entered by primitive: a primitive of another package is none
of ours, whatever its name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fungrad.compiler.cost_model import tuned
from fungrad.compiler.native import powers
from fungrad.compiler.native.elementary_functions import FUNCTIONS
from fungrad.compiler.native.llvm_ir import Function, Module, Operand, Value
from fungrad.compiler.native.machine_code import host
from fungrad.compiler.native.native_forms import OPERATIONS, operation
from fungrad.compiler.native.powers import known_power, product_of
from fungrad.compiler.refusal import Refused
from fungrad.ir.graph import Equation, Literal
from fungrad.primitives.elementwise import family, ufuncs
from fungrad.primitives.elementwise.family import select
from fungrad.primitives.elementwise.ufuncs import bitcast, power
from fungrad.primitives.movement import reshape_broadcast_cast as casts
from fungrad.primitives.reduction.cumulative import attains
from fungrad.primitives.reduction.reduce import root
from fungrad.primitives.stop_gradient import stop

Rule = Callable[..., Value]
TYPES: Mapping[np.dtype[Any], str] = {
    np.dtype(np.float64): "double",
    np.dtype(np.float32): "float",
    np.dtype(np.float16): "half",
    np.dtype(np.int64): "i64",
    np.dtype(np.int32): "i32",
    np.dtype(np.bool_): "i1",
}
"""The dtypes of native code, as types of Values; in memory a bool is an i8."""
_DTYPES = {type: dtype for dtype, type in TYPES.items()}
_KINDS = {"double": "f", "float": "f", "half": "f", "i64": "i", "i32": "i", "i1": "b"}
_BITS = {"double": 64, "float": 32, "half": 16, "i64": 64, "i32": 32, "i1": 1}
_NONE: Mapping[str, Any] = MappingProxyType({})


def type_of(dtype: Any) -> str:
    """The type of Values of a dtype.

    Raises:
      Refused: if native code does not support the dtype.
    """
    found = TYPES.get(np.dtype(dtype))
    if found is None or (found == "half" and not host().halves):
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
    result, form = type_of(dtype), OPERATIONS.get(primitive)
    if form is not None and form.whole is not None:
        return form.whole(code, xs, result)
    tests = form is not None and form.tests
    type = type_of(computed or np.result_type(*[_example(x) for x in xs])) if tests else result
    whole = type != "half" or (form is not None and form.halves)
    operands = [(_converted if whole else _computed)(code, x, xs, type) for x in xs]
    if primitive in FUNCTIONS and _KINDS[type] == "f":
        return convert(code, _function(code, primitive, operands), result)
    rule = None if form is None else form.rules.get(_KINDS[type])
    if rule is None:
        of = "" if form is None else f" of {_DTYPES[type]}"
        raise Refused(f"{primitive.name}{of}")
    return convert(code, rule(code, *operands), result)


def _computed(code: Function, x: Operand, others: Sequence[Operand], type: str) -> Value:
    """An operand in half precision, as the float with which NumPy computes."""
    if isinstance(x, Value):
        return convert(code, convert(code, x, type), "float")
    return _value(code, float(np.float16(x)), others, "float")


def _function(code: Function, primitive: Any, xs: Sequence[Value]) -> Value:
    """An elementary function: inlined up to `code.copies` times, then called."""
    rule, known = FUNCTIONS[primitive], xs[0]
    code.written[primitive, known.lanes] += 1
    most = code.copies if known.lanes == 1 else tuned.vector_copies
    if code.written[primitive, known.lanes] <= most:
        return rule(code, *xs)
    lanes = f"_{known.lanes}" if known.lanes > 1 else ""
    symbol = code.module.symbol((primitive, known.full), f"{primitive.name}_{known.type}{lanes}")
    if symbol not in code.module.functions:
        given = [(known.full, f"x{n}") for n in range(len(xs))]
        inner = Function(code.module, symbol, known.full, given, attributes="internal")
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
    return primitive in OPERATIONS or primitive in FUNCTIONS


def cost(equation: Equation) -> float:
    """Estimated nanoseconds per element."""
    primitive: Any = equation.primitive
    converted = 0.1 * takes_halves(equation)
    if primitive is power:
        exponent = getattr(equation.inputs[1], "value", None)
        if isinstance(exponent, (int, float)) and exponent in _CHEAP_POWERS:
            return _CHEAP_POWERS[exponent] + converted
    return nanoseconds_of(primitive) + converted


def nanoseconds_of(primitive: Any) -> float:
    """Estimated nanoseconds per element, whatever the operands."""
    form: Any = FUNCTIONS.get(primitive) or OPERATIONS.get(primitive)
    return 0.1 if form is None else float(form.nanoseconds)


def takes_halves(equation: Equation) -> bool:
    """Whether an equation has numbers in half precision, which are converted."""
    return any(a.type.dtype == np.float16 for a in (*equation.inputs, *equation.outputs))


def convert(code: Function, x: Value, type: str) -> Value:
    """A Value converted to another type, as by astype."""
    if x.type == type:
        return x
    before, after = _KINDS[x.type], _KINDS[type]
    if after == "b":
        return code.compare("une" if before == "f" else "ne", x, 0)
    if "half" in (x.type, type) and "float" not in (x.type, type):  # by way of single precision
        wide = _to_odd(code, x) if x.type == "double" else convert(code, x, "float")
        return convert(code, wide, type)
    if before == "b":
        return code.convert("uitofp" if after == "f" else "zext", x, type)
    if before == after == "f":
        if type == "half" and x.lanes == 1:
            _keep_double_to_half(code.module)
        return code.convert("fpext" if _BITS[type] > _BITS[x.type] else "fptrunc", x, type)
    if before == after:
        return code.convert("sext" if type == "i64" else "trunc", x, type)
    return code.convert("sitofp", x, type) if after == "f" else _to_integer(code, x, type)


def _keep_double_to_half(module: Module) -> None:
    """Adds the function that LLVM's code may call to convert a double to half precision, as it does
    for the sign of a number that is rounded twice; the library that has it is not linked.
    """
    name = "__truncdfhf2"
    if name not in module.functions:
        code = Function(module, name, "half", [("double", "x")], attributes="internal")
        code.ret(code.convert("fptrunc", _to_odd(code, code.parameters[0]), "half"))
        module.declare(
            f'@llvm.used = appending global [1 x ptr] [ptr @{name}], section "llvm.metadata"'
        )


def _to_odd(code: Function, x: Value) -> Value:
    """A double in single precision, as what rounds to the same half: of the neighbours of a number
    between two floats the one whose last bit is set (Boldo and Melquiond 2008).
    """
    near = code.convert("fptrunc", x, "float")
    back, bits = code.convert("fpext", near, "double"), code.as_integer(near)
    beyond = code.compare("ogt", code.fabs(back), code.fabs(x))
    below = code.select(beyond, code.sub(bits, 1), bits)
    return code.as_float(
        code.select(code.compare("one", back, x), code.binary("or", below, 1), bits)
    )


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


def _select(code: Function, xs: Sequence[Operand], type: str) -> Value:
    condition = _converted(code, xs[0], xs, "i1")
    x, y = (_converted(code, x, xs, type) for x in xs[1:])
    return code.select(condition, x, y)


def _cast(code: Function, xs: Sequence[Operand], type: str) -> Value:
    return convert(code, _value(code, xs[0], xs), type)


def _bitcast(code: Function, xs: Sequence[Operand], type: str) -> Value:
    (x,) = xs
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


def _extremum(strict: str) -> Rule:
    """NaN if an operand is NaN; of two zeros the second, of halves the first."""

    def rule(code: Function, x: Value, y: Value) -> Value:
        beyond = strict.replace("t", "e") if x.type == "half" else strict
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
    return not any(text in x.text for text in ("%", "0x7FF", "0xFFF", "0xH7C", "0xH7E", "0xHFC"))


def _extremum_of_numbers(strict: str) -> Rule:
    """The other operand if one is NaN; of two zeros as `_extremum`."""

    def rule(code: Function, x: Value, y: Value) -> Value:
        beyond = strict.replace("t", "e") if x.type == "half" else strict
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


def _power(code: Function, xs: Sequence[Operand], type: str) -> Value:
    """A power; a known exponent selects the method."""
    if type == "half":
        known = [x if isinstance(x, Value) else float(np.float16(x)) for x in xs]
        base = _computed(code, known[0], xs, type)
        if isinstance(known[1], Value):
            known[1] = _computed(code, known[1], xs, type)
        return convert(code, _power(code, [base, known[1]], "float"), type)
    base, exponent = _converted(code, xs[0], xs, type), xs[1]
    if isinstance(exponent, Value):
        if _KINDS[type] != "f":
            raise Refused(f"power of {_DTYPES[type]}")
        return _function(code, power, [base, convert(code, exponent, type)])
    if _KINDS[type] == "b":
        raise Refused(f"power of {_DTYPES[type]}")
    return (_float_power if _KINDS[type] == "f" else _integer_power)(code, base, exponent)


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
    if abs(n) <= tuned.known_power and 2 * n == int(2 * n):
        return known_power(code, x, n)
    return FUNCTIONS[power](code, x, _of(code, x, float(n)))


def _scaled(ufunc: Any) -> Rule:
    """Multiplies by NumPy's factor for the dtype."""
    return lambda code, x: code.mul(x, float(ufunc(_DTYPES[x.type].type(1))))


def _for(kinds: str, rule: Rule) -> dict[str, Rule]:
    """One rule for some kinds of numbers."""
    return dict.fromkeys(kinds, rule)


operation(family.add, _for("fi", lambda code, x, y: code.add(x, y)), b=_binary("or"),
          unbounded="overflows")  # fmt: skip
operation(family.sub, _for("fi", lambda code, x, y: code.sub(x, y)), unbounded="overflows")
operation(family.mul, _for("fi", lambda code, x, y: code.mul(x, y)), b=_binary("and"),
          unbounded="overflows")  # fmt: skip
operation(family.neg, _for("fi", lambda code, x: code.neg(x)), unbounded="overflows")
operation(family.div, f=lambda code, x, y: code.div(x, y), nanoseconds=0.5, unbounded="divides")
operation(ufuncs.positive, _for("fib", _same), unbounded="overflows")
operation(stop, _for("fib", _same))
operation(ufuncs.real, _for("fib", _same))
operation(casts.conj, _for("fib", _same))
operation(ufuncs.square, _for("fi", lambda code, x: code.mul(x, x)))
operation(ufuncs.sign, _for("fi", _sign))
operation(ufuncs.maximum, _for("fi", _extremum("ogt")), b=_binary("or"), halves=True)
operation(ufuncs.minimum, _for("fi", _extremum("olt")), b=_binary("and"), halves=True)
operation(ufuncs.bitwise_and, _for("ib", _binary("and")), unbounded="overflows")
operation(ufuncs.bitwise_or, _for("ib", _binary("or")), unbounded="overflows")
operation(ufuncs.bitwise_xor, _for("ib", _binary("xor")), unbounded="overflows")
operation(ufuncs.invert, i=lambda code, x: code.binary("xor", x, -1),
          b=lambda code, x: code.binary("xor", x, True), unbounded="overflows")  # fmt: skip
operation(ufuncs.floor, f=_rounded("floor"), i=_same)
operation(ufuncs.ceil, f=_rounded("ceil"), i=_same)
operation(ufuncs.trunc, f=_rounded("trunc"), i=_same)
operation(ufuncs.rint, f=_rounded("rint"), i=_same)
operation(ufuncs.reciprocal, f=lambda code, x: code.div(1.0, x))
operation(ufuncs.sqrt, f=lambda code, x: code.sqrt(x), nanoseconds=0.7)
operation(root, f=lambda code, x: code.sqrt(x), nanoseconds=0.7)
operation(ufuncs.abs, f=lambda code, x: code.fabs(x), i=_absolute, b=_same, unbounded="overflows")
operation(ufuncs.fabs, f=lambda code, x: code.fabs(x))
operation(ufuncs.fmax, f=_extremum_of_numbers("ogt"), i=_extremum("ogt"), b=_binary("or"),
          halves=True)  # fmt: skip
operation(ufuncs.fmin, f=_extremum_of_numbers("olt"), i=_extremum("olt"), b=_binary("and"),
          halves=True)  # fmt: skip
operation(ufuncs.copysign, f=lambda code, x, y: code.copysign(x, y))
operation(ufuncs.heaviside, f=_heaviside)
operation(ufuncs.deg2rad, f=_scaled(np.deg2rad))
operation(ufuncs.rad2deg, f=_scaled(np.rad2deg))
operation(ufuncs.left_shift, i=_shift("shl"))
operation(ufuncs.right_shift, i=_shift("ashr"))
operation(ufuncs.floor_divide, f=powers.floor_divide, i=powers.integer_floor_divide,
          nanoseconds=3.0, unbounded="divides")  # fmt: skip
operation(ufuncs.remainder, f=powers.remainder, i=powers.integer_remainder, nanoseconds=3.0,
          unbounded="divides")  # fmt: skip
operation(ufuncs.fmod, f=powers.fmod, i=powers.integer_fmod, nanoseconds=2.0)
operation(select, whole=_select)
operation(bitcast, whole=_bitcast)
operation(power, whole=_power, unbounded="overflows")
operation(casts.convert, whole=_cast)
operation(casts.to_discrete, whole=_cast)
operation(casts.number, whole=_cast)

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
operation(family.lt, _comparison("olt", "slt"), tests=True)
operation(family.le, _comparison("ole", "sle"), tests=True)
operation(family.gt, _comparison("ogt", "sgt"), tests=True)
operation(family.ge, _comparison("oge", "sge"), tests=True)
operation(family.eq, _comparison("oeq", "eq"), tests=True)
operation(family.ne, _comparison("une", "ne"), tests=True)
operation(attains, _comparison("oeq", "eq"), f=_attains, tests=True)
operation(family.logical_and, _logical("and"), tests=True)
operation(family.logical_or, _logical("or"), tests=True)
operation(ufuncs.logical_xor, _logical("xor"), tests=True)
operation(family.logical_not,
          _for("fib", lambda code, x: code.binary("xor", convert(code, x, "i1"), True)),
          tests=True)  # fmt: skip
operation(ufuncs.isnan, _for("ib", _never), tests=True,
          f=lambda code, x: code.compare("uno", x, x))  # fmt: skip
operation(ufuncs.isinf, _for("ib", _never), tests=True,
          f=lambda code, x: code.compare("oeq", code.fabs(x), _INFINITY))  # fmt: skip
operation(ufuncs.isfinite,
          _for("ib", lambda code, x: code.binary("xor", _never(code, x), True)), tests=True,
          f=lambda code, x: code.compare("olt", code.fabs(x), _INFINITY))  # fmt: skip
operation(ufuncs.signbit, tests=True, f=_negative, i=lambda code, x: code.compare("slt", x, 0),
          b=_never)  # fmt: skip

_CHEAP_POWERS = {1: 0.1, 2: 0.1, 3: 0.3, 4: 0.4, -1: 0.5, 0.5: 0.7}
