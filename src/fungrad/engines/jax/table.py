"""The table of JAX rules: for a primitive, a function of jax.numpy that computes what it does.

A rule gets arrays of the types that the equation's inputs have, and the parameters; its result is
cast to the type of the output. Primitives of others are entered by `fungrad.extend.jax_rule`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fungrad.extend import jax_rules as RULES
from fungrad.primitives.primitive import Primitive

Rule = Callable[..., Any]


class Options:
    """How one function is translated: what stands for primitives without a rule, and bounds."""

    __slots__ = ("callbacks", "max_steps")

    def __init__(self, callbacks: bool, max_steps: int | None) -> None:
        self.callbacks = callbacks
        self.max_steps = max_steps


STRUCTURAL: dict[Primitive, Rule] = {}
"""Rules of primitives that run Graphs: `(equation, args, options) -> results`."""


def rule(*primitives: Primitive) -> Callable[[Rule], Rule]:
    """Enters a function as the rule of some primitives."""

    def enter(function: Rule) -> Rule:
        for primitive in primitives:
            RULES[primitive] = function
        return function

    return enter


def cast(x: Any, dtype: Any) -> Any:
    """An array in a dtype; of a complex one that becomes real, the real part."""
    x = jnp.asarray(x)
    if x.dtype == dtype:
        return x
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x).astype(dtype)


__all__ = ["RULES", "STRUCTURAL", "Options", "Rule", "cast", "jax", "jnp", "rule"]
