"""Facts that a declaration states of a primitive beside its rules, for passes and tools.

tests/primitives/test_primitive_facts.py checks each fact against `eval` on samples. `Primitive`
lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fungrad.ir.graph import Equation
from fungrad.support.lazy import Record


class Work(Record):
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
    """An elementwise primitive on Python's numbers, one for each argument.

    Attributes:
      expression: a function of numbers (`math.sin`), or a Python expression with a field for each
        number ("{0} * {1}"); of a conversion, the expression for each kind of result. Where NumPy's
        result is none of Python's (1 / 0, exp(1000)) it raises, and the program on arrays runs.
      kinds: the kinds of numbers for which it agrees with the primitive: "f" floats, "i" integers,
        "b" truth values. With floats among the operands or the result, it computes in floats.
      cost: the kind of operation in the cost table (`Costs`): "operation", "absolute", "power",
        "conversion" or "function".
      widens: whether integers have to become floats first if it computes in floats: by default
        all but functions in C do.
      grows: whether it may return an integer beyond 64 bits.
      chooses: whether the first number is a condition, which is left as it is.
    """

    __slots__ = ("chooses", "cost", "expression", "grows", "kinds", "widens")

    def __init__(
        self,
        expression: str | Callable[..., Any] | Mapping[str, str],
        kinds: str = "fib",
        *,
        cost: str = "",
        widens: bool | None = None,
        grows: bool = False,
        chooses: bool = False,
    ) -> None:
        if type(expression) is str and "{" not in expression:
            raise TypeError(
                f"scalar={expression!r} is no expression: write a function, as math.{expression}, "
                'or an expression with fields, as "{0} * {1}".'
            )
        self.expression = expression
        self.kinds = kinds
        self.cost = cost or ("function" if callable(expression) else "operation")
        self.widens = type(expression) is not BuiltinFunctionType if widens is None else widens
        self.grows = grows
        self.chooses = chooses


class Along(Record):
    """The index along one axis: `offset + step * i`, where i is the index along the axis, or in the
    loop, of number `loop`; just the offset if that is -1.
    """

    loop: int
    offset: int = 0
    step: int = 1


FIRST = Along(-1)


class Section(Record):
    """A box of an output whose elements are those of one operand: an affine index map.

    Attributes:
      box: for each axis of the output, the range of its indices.
      operand: the number of the operand; -1 for the number one.
      place: for each axis of the operand, the index as a function of the position in the box; None
        if it depends on several axes.
      adds: whether the elements are added to what is in the box; otherwise they replace it.
    """

    box: tuple[range, ...]
    operand: int
    place: tuple[Along | None, ...]
    adds: bool = False

    def read(self) -> list[range | None]:
        """For each axis of the operand, the range of the indices that the box reads."""
        counts = [*map(len, self.box), 1]
        return [a and range(a.offset, a.offset + a.step * counts[a.loop], a.step)
                for a in self.place]  # fmt: skip


Sections = Callable[[Equation], list[Section] | None]


def straight(ndim: int) -> tuple[Along, ...]:
    """The place of an operand with the axes of the box."""
    return tuple(map(Along, range(ndim)))


def whole(equation: Equation, place: Iterable[Along | None], operand: int = 0) -> Section:
    """A section of the whole output."""
    return Section(tuple(map(range, equation.outputs[0].type.shape)), operand, tuple(place))


def sections_of(equation: Equation) -> list[Section] | None:
    """The index maps of an equation that moves elements: its output is zeros, on which these
    sections are written in order; None if they are not affine, or it does more.

    >>> import numpy as np, fungrad as fg
    >>> (equation,) = fg.make_jaxpr(lambda x: x[1:, ::-1])(np.ones((3, 4))).equations
    >>> (section,) = sections_of(equation)
    >>> section.box
    (range(0, 2), range(0, 4))
    >>> section.place
    (Along(loop=0, offset=1, step=1), Along(loop=1, offset=3, step=-1))
    """
    sections: Sections | None = equation.primitive.sections
    return None if sections is None else sections(equation)


Rounding = float | str
"""How far an evaluation may be from the exact result: see `rounding_of`."""

EXACT, ARITHMETIC, FUNCTION, FOREIGN = 0.0, 0.5, 4.0, 128.0
"""Units in the last place: of operations that select or move numbers, of IEEE 754's arithmetic, of
fungrad's and NumPy's functions, and what is allowed of SciPy's and others', which state no bound
(those of betainc and fdtrc in single precision are off by 86 and 200).
"""
TERMS, FACTORS, OPERANDS, SPACES = "terms", "factors", "operands", "spaces"


def rounding_of(primitive: Any) -> Rounding:
    """How far an evaluation of a primitive may be from the exact result.

    Returns:
      A number: each number of the output is within so many units in its last place. TERMS: a sum of
      products of operands, added in any order. FACTORS: a product of operands in any order.
      OPERANDS: the exact result for operands that are off by a few units in the last place, as of a
      backward stable algorithm (Higham, Accuracy and Stability of Numerical Algorithms, 1.5).
      SPACES: the same, where the columns of the second output may have any sign.

    What a declaration does not state follows from its other facts.
    """
    stated: Rounding | None = primitive.rounding
    if stated is not None:
        return stated
    if primitive.cost == 0 and not callable(primitive.cost):
        return EXACT
    if primitive.partials is not None:
        cost = primitive.cost
        if cost is None or (isinstance(cost, Work) and cost.transcendentals):
            return FUNCTION if primitive.module.startswith("fungrad.primitives.") else FOREIGN
        # Of floor, sign and comparisons all derivatives are zero.
        return EXACT if all(p is None for p in primitive.partials) else ARITHMETIC
    return OPERANDS


if TYPE_CHECKING:
    from typing import TypedDict

    class Facts(TypedDict, total=False):
        """The facts that every family of primitives takes: see `Primitive`."""

        cost: Cost
        view: bool
        commutative: bool
        scalar: ScalarForm | str | Callable[..., Any]
        reduces: np.ufunc
        inline: bool
        kink: Callable[..., Any]
        fresh: bool
        order: str | Callable[..., Any]
        sections: Sections
        rounding: Rounding
        masks: bool | Callable[[Equation], bool]

else:
    Facts = dict  # typing compiles the annotations of every field


DEFAULTS: Mapping[str, Any] = MappingProxyType(
    dict.fromkeys(("cost", "scalar", "reduces", "kink", "order", "sections", "rounding"))
    | dict.fromkeys(("view", "commutative", "inline", "fresh", "masks"), False)
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
        work = cost(equation)
        return work if isinstance(work, Work) else Work(round(work))
    size = sum(variable.type.size for variable in equation.outputs)
    each = cost if isinstance(cost, Work) else Work(cost)
    return NOTHING.plus(each, size)


def may_mask(equation: Equation) -> bool:
    """Whether the pullback of an equation may mask cotangents; one of a user's primitive may."""
    primitive: Any = equation.primitive
    masks = primitive.masks
    known: bool = masks(equation) if callable(masks) else masks
    return known or primitive.kink is not None or not primitive.module.startswith("fungrad.")


def is_view(equation: Equation) -> bool:
    """Whether an equation moves no bytes: its outputs are views of its only input."""
    return equation.primitive.view and len(equation.inputs) == 1


def is_arithmetic(equation: Equation) -> bool:
    """Whether an equation is elementwise, and evaluates no transcendental function."""
    primitive: Any = equation.primitive
    if primitive.partials is None or primitive.cost is None:
        return False
    work = work_of(equation)
    return work is not None and not work.transcendentals


def each_element(count: int, of: int = 0) -> Callable[[Equation], int]:
    """A cost of `count` operations for each element of an input."""
    return lambda equation: count * equation.inputs[of].type.size


def factor_of_complex(equation: Equation) -> int:
    """4 for complex numbers (as many real products and sums, WN41), else 1."""
    return 4 if any(atom.type.dtype.kind == "c" for atom in equation.inputs) else 1
