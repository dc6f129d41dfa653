"""Functions in native code, by primitive: the one place that says what computes a primitive there.

What compiler/native computes with instructions alone (sums, comparisons, square roots) stands in
element_operations.py. Functions are entered here: those of primitives below the compiler by
elementary_functions.py, others by the module that declares the primitive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fungrad.primitives.primitive import Primitive
from fungrad.support.lazy import Module

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

    @functools.cached_property
    def rules(self) -> tuple[Any, Any]:
        return self._rules()

    @functools.cached_property
    def nanoseconds(self) -> float:
        found = self._nanoseconds
        return float(self.rules[0].nanoseconds if found is None else found)

    def __call__(self, code: Function, *xs: Value) -> Value:
        found: Value = self.rules[xs[0].type != "double"](code, *xs)
        return found


FUNCTIONS: dict[Primitive, NativeForm] = {}
"""The native form of primitives on floats."""


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
