"""Elementary functions by the names of their primitives, in double and in single precision.

Errors are below 2 ulp (most below 1). A result does not depend on the number of lanes, nor on what
stands in the other ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from fungrad.compiler.native import exponentials, logarithms, powers, trigonometric_functions
from fungrad.compiler.native.llvm_ir import Function, Value

Rule = Callable[..., Value]


def by_doubles(rule: Rule) -> Rule:
    """A rule of doubles, for single precision too: converted, and rounded once."""

    def both(code: Function, *xs: Value) -> Value:
        if xs[0].type == "double":
            return rule(code, *xs)
        wide = [code.convert("fpext", x, "double") for x in xs]
        return code.convert("fptrunc", rule(code, *wide), "float")

    return both


def _by_precision(double: Rule, single: Rule) -> Rule:
    return lambda code, *xs: (double if xs[0].type == "double" else single)(code, *xs)


_DOUBLE: Mapping[str, Rule] = {
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "expm1": exponentials.expm1,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "tanh": exponentials.tanh,
    "expit": exponentials.sigmoid,
    "log": logarithms.log,
    "log2": logarithms.log2,
    "log10": logarithms.log10,
    "log1p": logarithms.log1p,
    "arcsinh": logarithms.arcsinh,
    "arccosh": logarithms.arccosh,
    "arctanh": logarithms.arctanh,
    "logaddexp": logarithms.logaddexp,
    "logaddexp2": logarithms.logaddexp2,
    "log_expit": logarithms.log_sigmoid,
    "sin": trigonometric_functions.sin,
    "cos": trigonometric_functions.cos,
    "tan": trigonometric_functions.tan,
    "arcsin": trigonometric_functions.arcsin,
    "arccos": trigonometric_functions.arccos,
    "arctan": trigonometric_functions.arctan,
    "arctan2": trigonometric_functions.arctan2,
    "cbrt": powers.cbrt,
    "hypot": powers.hypot,
    "power": powers.power,
}
_SINGLE: Mapping[str, Rule] = {
    "power": by_doubles(functools.partial(powers.power, single=True)),
}
FUNCTIONS: Mapping[str, Rule] = {
    name: _by_precision(rule, _SINGLE.get(name, by_doubles(rule))) for name, rule in _DOUBLE.items()
}
"""By names of primitives: `rule(code, *xs)`, of Values of one type, double or float."""
_NANOSECONDS: Mapping[str, float] = {}


def heavy(name: str) -> float:
    """Nanoseconds an element, roughly, for the cost model."""
    return _NANOSECONDS.get(name, 1.0)


__all__ = ["FUNCTIONS", "by_doubles", "heavy"]
