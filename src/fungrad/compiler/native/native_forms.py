"""What native code computes for the elements of a primitive, entered by primitive: functions of
floats, and operations of a few instructions.

Those of primitives below the compiler are entered by elementary_functions.py and
element_operations.py, others by the module that declares the primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fungrad.primitives.primitive import Primitive
from fungrad.support.forks import cached_property
from fungrad.support.lazy import Module, Record

if TYPE_CHECKING:
    from fungrad.compiler.native.llvm_ir import Function, Value

exponentials: Any = Module("fungrad.compiler.native.exponentials")
logarithms: Any = Module("fungrad.compiler.native.logarithms")
double: Any = Module("fungrad.compiler.native.special_functions")
single: Any = Module("fungrad.compiler.native.elementary_single")
"""Modules of rules, for declarations of functions that native code may never meet."""
Rule = Callable[..., "Value"]
"""`rule(code, *xs)`: writes instructions that compute the Value of a function of Values."""


class NativeForm:
    """A function in native code.

    Args:
      rules: returns the rules for double and for single precision, when one is first needed.
      nanoseconds: the estimated time of an element; None if the rules state it.
    """

    def __init__(
        self, rules: Callable[[], tuple[Rule, Rule]], nanoseconds: float | None = None
    ) -> None:
        self._rules, self._nanoseconds = rules, nanoseconds

    @cached_property
    def rules(self) -> tuple[Any, Any]:
        return self._rules()

    @cached_property
    def nanoseconds(self) -> float:
        found = self._nanoseconds
        return float(self.rules[0].nanoseconds if found is None else found)

    def __call__(self, code: Function, *xs: Value) -> Value:
        found: Value = self.rules[xs[0].type != "double"](code, *xs)
        return found


FUNCTIONS: dict[Primitive, NativeForm] = {}
"""The native form of primitives on floats."""


class Operation(Record):
    """What a few instructions compute, bit for bit as NumPy.

    Attributes:
      rules: `rule(code, *xs)` for each kind of number: "f"(loat), "i"(nteger), "b"(ool).
      whole: `whole(code, operands, type)` in place of the rules: it converts the operands itself,
        Values or Python numbers.
      tests: whether the result is a bool; operands then have the dtype in which NumPy compares
        them, else that of the result.
      halves: whether the rules take halves as they are; other rules compute with floats, and the
        result is rounded.
      nanoseconds: the estimated time of an element.
      unbounded: how it treats Python's integers, which are unbounded: "overflows" where integers
        beyond 64 bits leave the program, "divides" where a division by zero does, too; "" if they
        are for NumPy.
    """

    rules: Mapping[str, Rule] = {}
    whole: Callable[..., Value] | None = None
    tests: bool = False
    halves: bool = False
    nanoseconds: float = 0.1
    unbounded: str = ""


OPERATIONS: dict[Primitive, Operation] = {}
"""The operation of primitives that few instructions compute."""


def operation(
    primitive: Primitive, rules: Mapping[str, Rule] = {}, *, f: Rule | None = None,
    i: Rule | None = None, b: Rule | None = None, **facts: Any,
) -> None:  # fmt: skip
    """Enters an Operation: the rules for floats, integers and bools, and the other facts."""
    own = {kind: rule for kind, rule in (("f", f), ("i", i), ("b", b)) if rule is not None}
    OPERATIONS[primitive] = Operation({**rules, **own}, **facts)


def form_of(rules: Callable[[], tuple[Rule, Rule]], nanoseconds: float) -> NativeForm:
    """A NativeForm of two rules for doubles, of which the second is rounded to single precision:
    the first again, or one that is shorter.
    """

    def by_precision() -> tuple[Rule, Rule]:
        double, short = rules()
        return double, _rounded(short)

    return NativeForm(by_precision, nanoseconds)


def _rounded(rule: Rule) -> Rule:
    def rounded(code: Function, *xs: Value) -> Value:
        wide = [code.convert("fpext", x, "double") for x in xs]
        return code.convert("fptrunc", rule(code, *wide), "float")

    return rounded
