"""Facts that a declaration states of a primitive beside its rules, for passes and tools.

tests/test_primitive_facts.py checks each fact against `eval` on samples. `Primitive` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import numpy as np

from fungrad.ir.graph import Equation


class Work(NamedTuple):
    """A number of operations: `flops` are simple ones (sums, products, comparisons) of any dtype;
    `transcendentals` are evaluations of all other functions (exp, a root, a Bessel function), each
    of which takes many.
    """

    flops: int = 0
    transcendentals: int = 0

    def plus(self, other: Work, times: int = 1) -> Work:
        """The sum with `times` the other."""
        return Work(
            self.flops + times * other.flops,
            self.transcendentals + times * other.transcendentals,
        )


NOTHING = Work()
TRANSCENDENTAL = Work(0, 1)
"""The cost of an elementwise primitive that states none, also of roots and powers, as in XLA's
HloCostAnalysis.
"""

Cost = int | Work | Callable[[Equation], float | Work]


class ScalarForm:
    """An elementwise primitive as a function of numbers, one for each argument.

    Attributes:
      operation: the name of an operation of scalar programs ("mul", "select") or of a function of
        C's mathematical library ("atan2", "erf"), or a function `operation(apply, *numbers)` that
        composes them: `apply("mul", x, 2.0)`.
      kinds: the kinds of numbers for which it agrees with the primitive: "f" floats, "i" integers,
        "b" truth values. With floats among the operands or the result, it computes in floats.
    """

    __slots__ = ("kinds", "operation")

    def __init__(self, operation: str | Callable[..., Any], kinds: str = "fib") -> None:
        self.operation = operation
        self.kinds = kinds


class Facts(TypedDict, total=False):
    """The facts that every family of primitives takes: see `Primitive`."""

    cost: Cost
    view: bool
    commutative: bool
    scalar: ScalarForm | str
    reduces: np.ufunc
    inline: bool
    kink: Callable[..., Any]
    fresh: bool
    order: str | Callable[..., Any]


DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "cost": None,
        "view": False,
        "commutative": False,
        "scalar": None,
        "reduces": None,
        "inline": False,
        "kink": None,
        "fresh": False,
        "order": None,
    }
)
"""The facts of a declaration that does not state them."""


def work_of(equation: Equation) -> Work | None:
    """The number of operations of an equation; None if its primitive does not state it.

    >>> import numpy as np, fungrad as fg
    >>> (equation,) = fg.make_jaxpr(lambda x: np.exp(x))(np.ones(5)).equations
    >>> work_of(equation)
    Work(flops=0, transcendentals=5)
    """
    cost: Any = equation.primitive.cost
    if cost is None:
        return None
    if callable(cost):
        found = cost(equation)
        return found if isinstance(found, Work) else Work(round(found))
    size = sum(variable.type.size for variable in equation.outputs)
    each = cost if isinstance(cost, Work) else Work(cost)
    return NOTHING.plus(each, size)


def is_view(equation: Equation) -> bool:
    """Whether an equation moves no bytes: its outputs are views of its only input."""
    return equation.primitive.view and len(equation.inputs) == 1


def is_arithmetic(equation: Equation) -> bool:
    """Whether an equation is elementwise, and evaluates no transcendental function."""
    primitive: Any = equation.primitive
    if primitive.partials is None or primitive.cost is None:
        return False
    found = work_of(equation)
    return found is not None and not found.transcendentals


def each_element(count: int, of: int = 0) -> Callable[[Equation], int]:
    """A cost of `count` operations for each element of an input."""
    return lambda equation: count * equation.inputs[of].type.size


def factor_of_complex(equation: Equation) -> int:
    """4 for complex numbers (as many real products and sums, WN41), else 1."""
    return 4 if any(atom.type.dtype.kind == "c" for atom in equation.inputs) else 1
