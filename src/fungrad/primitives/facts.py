"""Facts that a declaration states of a primitive beside its rules, and that passes and tools ask
for.

Each fact is checked against `eval` on the samples by tests/test_primitive_facts.py. `Primitive`
lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import numpy as np

from fungrad.ir.graph import Equation


class Work(NamedTuple):
    """Operations: `flops` are sums, products, comparisons and their like, of numbers of any dtype;
    `transcendentals` are evaluations of all other functions of numbers (exp, a root, a Bessel
    function), which take many.
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
"""The cost of an elementwise primitive that says nothing of it, roots and powers included, as in
XLA's HloCostAnalysis.
"""

Cost = int | Work | Callable[[Equation], float | Work]


class ScalarForm:
    """The form of an elementwise primitive for numbers, one of each argument.

    Attributes:
      operation: the name of an operation of scalar programs ("mul", "select"), of a function of C's
        mathematical library ("atan2", "erf"), or a function `operation(apply, *numbers)` that puts
        it together of those: `apply("mul", x, 2.0)`.
      kinds: the kinds of numbers of which it gives what the primitive does of arrays: "f" floats,
        "i" integers, "b" truth values. Where floats are among the operands or the result, it
        computes in floats.
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
    """The operations of an equation; None if its primitive does not say them.

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
    """Whether an equation moves no byte: its outputs lie in the memory of its only input."""
    return equation.primitive.view and len(equation.inputs) == 1


def is_arithmetic(equation: Equation) -> bool:
    """Whether an equation costs an operation or so for each element, and no transcendental one."""
    primitive: Any = equation.primitive
    if primitive.partials is None or primitive.cost is None:
        return False
    found = work_of(equation)
    return found is not None and not found.transcendentals


def each_element(count: int, of: int = 0) -> Callable[[Equation], int]:
    """So many operations for each element of an input."""
    return lambda equation: count * equation.inputs[of].type.size


def factor_of_complex(equation: Equation) -> int:
    """4 where numbers are complex, for the products and sums of real ones (WN41)."""
    return 4 if any(atom.type.dtype.kind == "c" for atom in equation.inputs) else 1
