"""The choice of the generator that writes a Graph's kernel, by what each declares to accept.

A generator states its refusal of a Graph from the equations alone, as data, before anything is
written. Lengths and layouts that show only in the text end the writing of what was accepted: the
next generator that accepts the Graph follows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Sequence
from typing import Any

from fungrad.compiler.native.element_operations import TYPES
from fungrad.compiler.native.kernel import Kernel
from fungrad.compiler.refusal import Refusal, Refused, attempted, refusal
from fungrad.ir.graph import Equation, Graph, Literal, effectful
from fungrad.support.lazy import Record


class Generator(Record):
    """Writes the kernels of Graphs of one kind.

    Attributes:
      write: makes the kernel of a Graph that is accepted.
      refusal: why a Graph is not of this kind, by its equations; None if it is.
    """

    write: Callable[[Graph], Kernel]
    refusal: Callable[[Graph], Refusal | None] = lambda graph: None

    def __call__(self, graph: Graph) -> Kernel:
        """The kernel of a Graph.

        Raises:
          Refused: if the Graph is not accepted, or its text is too long.
        """
        found = self.refusal(graph)
        if found is not None:
            raise Refused(found)
        return self.write(graph)


def chosen(
    graph: Graph, generators: Sequence[Generator],
    fits: Callable[[Kernel], Refusal | None] = lambda kernel: None,
) -> tuple[Kernel | None, list[Refusal]]:  # fmt: skip
    """The kernel by the first generator that accepts a Graph, and the refusals of those before.
    None accepts effects, which keep their order.

    Args:
      graph: the Graph.
      generators: in the order of preference.
      fits: why a kernel shall not be built; None if it shall.
    """
    effect = next(filter(effectful, graph.equations), None)
    if effect is not None:
        return None, [refusal("effects", "effects", effect)]
    refusals: list[Refusal] = []
    for generator in generators:
        write = functools.partial(generator.write, graph)
        found: Any = generator.refusal(graph) or attempted(write)
        if isinstance(found, Kernel):
            unfit = fits(found)
            if unfit is None:
                return found, refusals
            found = unfit
        refusals.append(found)
    return None, refusals


class Single(Record):
    """A kernel of one equation.

    Attributes:
      refusal: why an equation of the primitive has no such kernel; None if it has.
      write: makes the kernel of a Graph of that equation.
      numpy_ns: estimates NumPy's time for the equation; None if it is that of a ufunc.
      separate: whether it is worth a kernel in a program that NumPy runs else.
    """

    refusal: Callable[[Equation], Refusal | None]
    write: Callable[[Graph, Equation], Kernel]
    numpy_ns: Callable[[Equation], float] | None = None
    separate: bool = False


def unfit(equation: Equation, types: Container[str | None]) -> Refusal | None:
    """Why no loops compute an equation, by its operands and results: they have numbers of other
    types than these, or no elements, or are Python's numbers.
    """
    name, atoms = equation.primitive.name, (*equation.inputs, *equation.outputs)
    for atom in atoms:
        if TYPES.get(atom.type.dtype) not in types:
            return refusal(f"{name} of {atom.type.dtype}", "dtype", equation)
    if any(isinstance(atom, Literal) for atom in equation.inputs):
        return refusal(f"{name} of a number", equation=equation)
    if not all(atom.type.size for atom in atoms):
        return refusal(f"{name} of an empty array", equation=equation)
    return None


def unlike(equation: Equation, types: Container[str | None]) -> Refusal | None:
    """`unfit`, or numbers of several types."""
    if len({atom.type.dtype for atom in (*equation.inputs, *equation.outputs)}) > 1:
        return refusal(f"{equation.primitive.name} of several dtypes", equation=equation)
    return unfit(equation, types)
