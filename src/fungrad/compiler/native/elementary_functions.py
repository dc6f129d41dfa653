"""Elementary and special functions by the names of their primitives, in both precisions.

Errors are below 2 ulp (most below 1). A result does not depend on the number of lanes, nor on the
values in other lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from fungrad.compiler.native import (
    elementary_single,
    exponentials,
    logarithms,
    powers,
    special_functions,
    trigonometric_functions,
)
from fungrad.compiler.native.llvm_ir import Function, Value

Rule = Callable[..., Value]


def by_doubles(rule: Rule) -> Rule:
    """A rule for single precision that computes in double precision and rounds once."""

    def single(code: Function, *xs: Value) -> Value:
        wide = [code.convert("fpext", x, "double") for x in xs]
        return code.convert("fptrunc", rule(code, *wide), "float")

    return single


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
    "erf": special_functions.erf,
    "erfc": special_functions.erfc,
    "normal_cdf": special_functions.normal_cdf,
    "gammaln": special_functions.gammaln,
    "digamma": special_functions.digamma,
    "exp_difference": special_functions.exp_difference,
    "exp2_difference": functools.partial(special_functions.exp_difference, power=exponentials.exp2),
    "xlogy": special_functions.xlogy,
    "xlog1py": special_functions.xlog1py,
}
_SHORT: Mapping[str, Rule] = {
    **elementary_single.SINGLE,
    "power": functools.partial(powers.power, single=True),
    "cbrt": functools.partial(powers.cbrt, single=True),
}
FUNCTIONS: Mapping[str, Rule] = {
    name: _by_precision(rule, by_doubles(_SHORT.get(name, rule))) for name, rule in _DOUBLE.items()
}
"""Rules by the names of primitives: `rule(code, *xs)`, with Values of type double or float."""
_NANOSECONDS: Mapping[str, float] = {
    "exp": 0.6, "exp2": 0.6, "expm1": 0.9, "sinh": 1.0, "cosh": 1.1, "tanh": 1.0, "expit": 1.0,
    "log": 0.9, "log2": 1.2, "log10": 0.9, "log1p": 0.9, "arcsinh": 2.3, "arccosh": 2.0,
    "arctanh": 1.1, "logaddexp": 1.7, "logaddexp2": 1.8, "log_expit": 1.9, "sin": 0.8, "cos":
    0.8, "tan": 1.2, "arcsin": 1.0, "arccos": 1.0, "arctan": 1.0, "arctan2": 1.6, "cbrt": 0.9,
    "hypot": 0.7, "power": 2.7, "erf": 2.7, "erfc": 2.8, "normal_cdf": 2.5, "gammaln": 3.8,
    "digamma": 5.7, "exp_difference": 0.7, "exp2_difference": 0.7, "xlogy": 1.0, "xlog1py": 1.3,
}  # fmt: skip
"""Nanoseconds per element, measured by benchmarks/native_functions.py with AVX-512, data in L1."""


def heavy(name: str) -> float:
    """Estimated nanoseconds per element, for the cost model."""
    return _NANOSECONDS.get(name, 1.0)
