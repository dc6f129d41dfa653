"""Applies the rewrite rules: which rules are tried for a primitive, and in which order.

The rules hold for every number, with rounding, NaN, infinities and the signs of zeros: x * 1 is x,
-a * b is -(a * b), x / 8 is x * 0.125; but x * 0 is not 0. Nothing is reassociated, except by the
rules of derivatives.py in derivatives, and by those of reassociation.py if the Graph allows them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from fungrad.compiler.passes.patterns import Rule
from fungrad.compiler.passes.rewriter import apply_rules
from fungrad.compiler.passes.simplify import (
    arithmetic,
    derivatives,
    select,
    shapes_and_constants,
    slices,
)
from fungrad.compiler.passes.simplify.reassociation import REGROUPED
from fungrad.compiler.passes.simplify.shapes_and_constants import ELEMENTWISE, of_column_and_row
from fungrad.ir.graph import Graph
from fungrad.primitives.contraction.dot_general import dot_general
from fungrad.support.lazy import imported

SETTINGS = ("auto", "numpy")
"""Whether compiled functions may compute by other operations than NumPy's, or by NumPy's alone."""


class Kernels:
    """The setting `fg.config.kernels`."""

    chosen = "auto"


def choices(graph: Graph) -> tuple[str, bool]:
    """The settings that the optimised Graph depends on: a part of its key."""
    return Kernels.chosen, graph.reassociates


def _by_primitive(rules: Iterable[Rule]) -> dict[Any, tuple[Rule, ...]]:
    table: dict[Any, tuple[Rule, ...]] = {}
    for one in rules:
        for primitive in one.pattern.primitives:
            table[primitive] = (*table.get(primitive, ()), one)
    return table


RULES = (
    *shapes_and_constants.RULES, *slices.RULES, *arithmetic.RULES, *select.RULES,
    *derivatives.RULES,
    *shapes_and_constants.ADDED, slices.filled,
)  # fmt: skip
MOVES = (
    *shapes_and_constants.MOVES, *slices.RULES, *shapes_and_constants.ADDED, slices.filled,
)  # fmt: skip
"""The rules of equations that move elements: they do not depend on the values of numbers."""
_SYSTEMS = "fungrad.primitives.linalg.solve"
_RULES_FOR_SYSTEMS = "fungrad.compiler.passes.simplify.factors"
_EXACT, _KERNELS, _REGROUPED, _MOVES = map(
    _by_primitive, (RULES, arithmetic.KERNELS, REGROUPED, MOVES)
)


@functools.cache
def rules_of(primitive: Any, kernels: bool, regroup: bool) -> tuple[Rule, ...]:
    """The rules to try for equations of a primitive: exact ones, and on request those for other
    kernels than NumPy's, and those that hold in exact arithmetic only.
    """
    rules: tuple[Rule, ...] = () if primitive.partials is None else ELEMENTWISE
    rules += _EXACT.get(primitive, ())
    if primitive.module == _SYSTEMS:
        rules += _by_primitive(imported(_RULES_FOR_SYSTEMS).RULES).get(primitive, ())
    if regroup:
        rules += _REGROUPED.get(primitive, ())
    return rules + (_KERNELS.get(primitive, ()) if kernels else ())


def rules_for(graph: Graph) -> Callable[[Any], tuple[Rule, ...]]:
    """The rules of each primitive in a Graph."""
    return functools.partial(
        rules_of, kernels=Kernels.chosen != "numpy", regroup=graph.reassociates
    )


def simplify(graph: Graph) -> Graph:
    """Applies the rules to the Graph's equations, in one pass."""
    return apply_rules(graph, rules_for(graph))


def simplify_moves(graph: Graph) -> Graph:
    """Applies the rules of equations that move elements."""
    return apply_rules(graph, lambda primitive: _MOVES.get(primitive, ()))


def simplify_outer_products(graph: Graph) -> Graph:
    """Writes outer products as elementwise ones, which can be fused; after the passes for loops,
    which sum products over the steps.
    """
    return apply_rules(graph, lambda p: (of_column_and_row,) if p is dot_general else ())
