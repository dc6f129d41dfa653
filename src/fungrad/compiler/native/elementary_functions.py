"""The native forms of the elementary functions, and of functions that other rules use.

Errors are within the bounds that docs/native.md states. A result does not depend on the number of
lanes, nor on the values in other lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

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
_FORMS: Mapping[Primitive, tuple[Rule, Rule, float]] = {
    ufuncs.exp: (exponentials.exp, single.exp, 0.6),
    ufuncs.exp2: (exponentials.exp2, single.exp2, 0.6),
    ufuncs.expm1: (exponentials.expm1, single.expm1, 0.9),
    ufuncs.sinh: (exponentials.sinh, single.sinh, 1.0),
    ufuncs.cosh: (exponentials.cosh, single.cosh, 1.1),
    ufuncs.tanh: (exponentials.tanh, single.tanh, 1.0),
    ufuncs.log: (logarithms.log, single.log, 0.9),
    ufuncs.log2: (logarithms.log2, single.log2, 1.2),
    ufuncs.log10: (logarithms.log10, single.log10, 0.9),
    ufuncs.log1p: (logarithms.log1p, single.log1p, 0.9),
    ufuncs.arcsinh: (logarithms.arcsinh, single.arcsinh, 2.3),
    ufuncs.arccosh: (logarithms.arccosh, single.arccosh, 2.0),
    ufuncs.arctanh: (logarithms.arctanh, single.arctanh, 1.1),
    ufuncs.logaddexp: (logarithms.logaddexp, single.logaddexp, 1.7),
    ufuncs.logaddexp2: (logarithms.logaddexp2, single.logaddexp2, 1.8),
    ufuncs.sin: (trigonometric_functions.sin, single.sin, 0.8),
    ufuncs.cos: (trigonometric_functions.cos, single.cos, 0.8),
    ufuncs.tan: (trigonometric_functions.tan, single.tan, 1.2),
    ufuncs.arcsin: (trigonometric_functions.arcsin, single.arcsin, 1.0),
    ufuncs.arccos: (trigonometric_functions.arccos, single.arccos, 1.0),
    ufuncs.arctan: (trigonometric_functions.arctan, single.arctan, 1.0),
    ufuncs.arctan2: (trigonometric_functions.arctan2, single.arctan2, 1.6),
    ufuncs.cbrt: (powers.cbrt, _cbrt, 0.9),
    ufuncs.hypot: (powers.hypot, single.hypot, 0.7),
    ufuncs.power: (powers.power, _power, 2.7),
    normal_cdf: (special_functions.normal_cdf, single.normal_cdf, 2.5),
    exp_difference: (special_functions.exp_difference, single.exp_difference, 0.7),
    exp2_difference: (_exp2_difference, single.exp2_difference, 0.7),
}
"""The rules for doubles and for floats converted to doubles, and nanoseconds per element, measured
by benchmarks/native_functions.py with AVX-512, data in L1.
"""
_FLOATS: Mapping[Primitive, Rule] = {
    ufuncs.exp: elementary_float32.exp,
    ufuncs.tanh: elementary_float32.tanh,
}
"""The rules for floats that stay floats, in place of those above."""
for _primitive, (_double, _short, _nanoseconds) in _FORMS.items():
    FUNCTIONS[_primitive] = form_of(lambda d=_double, s=_short: (d, s), _nanoseconds)  # type: ignore[misc]
for _primitive, _short in _FLOATS.items():
    _double, _, _nanoseconds = _FORMS[_primitive]
    FUNCTIONS[_primitive] = NativeForm(lambda d=_double, s=_short: (d, s), _nanoseconds)  # type: ignore[misc]
