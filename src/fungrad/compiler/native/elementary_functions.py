"""The native forms of the elementary functions, and of functions that other rules use.

Errors are within the bounds that docs/native.md states. A result does not depend on the number of
lanes, nor on the values in other lanes.
"""

from __future__ import annotations

import functools

from fungrad.compiler.native import (
    elementary_float32,
    exponentials,
    logarithms,
    powers,
    special_functions,
    trigonometric_functions,
)
from fungrad.compiler.native import elementary_single as single
from fungrad.compiler.native.native_forms import FUNCTIONS, NativeForm, Rule, form_of
from fungrad.primitives.elementwise import ufuncs
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.reduce import exp2_difference, exp_difference
from fungrad.primitives.special.normal_distribution import normal_cdf

__all__ = ["FUNCTIONS"]
_exp2_difference = functools.partial(special_functions.exp_difference, power=exponentials.exp2)
_power, _cbrt = (functools.partial(rule, single=True) for rule in (powers.power, powers.cbrt))


def function(
    primitive: Primitive, double: Rule, short: Rule, nanoseconds: float, floats: bool = False
) -> None:
    """Enters a function.

    Args:
      primitive: a primitive of NumPy's.
      double: the rule for doubles.
      short: the rule for floats; they are converted to doubles, unless `floats`.
      nanoseconds: of an element, measured by benchmarks/native_functions.py with AVX-512, in L1.
      floats: whether floats stay floats.
    """
    made = NativeForm if floats else form_of
    FUNCTIONS[primitive] = made(lambda: (double, short), nanoseconds)


function(ufuncs.exp, exponentials.exp, elementary_float32.exp, 0.6, floats=True)
function(ufuncs.exp2, exponentials.exp2, single.exp2, 0.6)
function(ufuncs.expm1, exponentials.expm1, single.expm1, 0.9)
function(ufuncs.sinh, exponentials.sinh, single.sinh, 1.0)
function(ufuncs.cosh, exponentials.cosh, single.cosh, 1.1)
function(ufuncs.tanh, exponentials.tanh, elementary_float32.tanh, 1.0, floats=True)
function(ufuncs.log, logarithms.log, single.log, 0.9)
function(ufuncs.log2, logarithms.log2, single.log2, 1.2)
function(ufuncs.log10, logarithms.log10, single.log10, 0.9)
function(ufuncs.log1p, logarithms.log1p, single.log1p, 0.9)
function(ufuncs.arcsinh, logarithms.arcsinh, single.arcsinh, 2.3)
function(ufuncs.arccosh, logarithms.arccosh, single.arccosh, 2.0)
function(ufuncs.arctanh, logarithms.arctanh, single.arctanh, 1.1)
function(ufuncs.logaddexp, logarithms.logaddexp, single.logaddexp, 1.7)
function(ufuncs.logaddexp2, logarithms.logaddexp2, single.logaddexp2, 1.8)
function(ufuncs.sin, trigonometric_functions.sin, single.sin, 0.8)
function(ufuncs.cos, trigonometric_functions.cos, single.cos, 0.8)
function(ufuncs.tan, trigonometric_functions.tan, single.tan, 1.2)
function(ufuncs.arcsin, trigonometric_functions.arcsin, single.arcsin, 1.0)
function(ufuncs.arccos, trigonometric_functions.arccos, single.arccos, 1.0)
function(ufuncs.arctan, trigonometric_functions.arctan, single.arctan, 1.0)
function(ufuncs.arctan2, trigonometric_functions.arctan2, single.arctan2, 1.6)
function(ufuncs.cbrt, powers.cbrt, _cbrt, 0.9)
function(ufuncs.hypot, powers.hypot, single.hypot, 0.7)
function(ufuncs.power, powers.power, _power, 2.7)
function(normal_cdf, special_functions.normal_cdf, single.normal_cdf, 2.5)
function(exp_difference, special_functions.exp_difference, single.exp_difference, 0.7)
function(exp2_difference, _exp2_difference, single.exp2_difference, 0.7)
