"""How many operations an equation does, by rules for each family of primitives.

Counts are of the textbook's algorithm, not of a machine: a rule says what its source is. Knows
names and types; runs nothing. What has no rule gives None, never zero. Structural equations are
trip_counts.py's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fungrad.inspect.cost.linalg_flops import MATRICES
from fungrad.ir.graph import Equation, Literal
from fungrad.ir.types import Type


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
Rule = Callable[[Sequence[Type], Sequence[Type], dict[str, Any]], Work]

MOVES = frozenset(
    "reshape transpose broadcast_to concatenate slice_axis pad flip convert to_discrete getitem "
    "indexed index_set stack unstack iota full diagonal from_diagonal roll windows permuted "
    "bitcast checked number stop_gradient stop_gradient_order checkpoint_name".split()
)
"""What only makes, moves or converts elements."""

ARITHMETIC = frozenset(
    "neg add sub mul div select logical_not logical_and logical_or logical_xor lt le gt ge eq ne "
    "square reciprocal abs fabs maximum minimum fmax fmin copysign heaviside remainder fmod "
    "nextafter ldexp frexp_exponent real imag positive floor_divide floor ceil trunc rint sign "
    "signbit spacing isnan isinf isfinite bitwise_and bitwise_or bitwise_xor invert left_shift "
    "right_shift gcd lcm deg2rad rad2deg attains radian round_half_even gammasgn high_product "
    "uniform_of_bits".split()
)
"""Elementwise primitives of one operation; every other elementwise one is transcendental, as in
XLA's HloCostAnalysis, roots and powers included.
"""

_COMPLEX = {"add": 2, "sub": 2, "neg": 2, "mul": 6, "div": 11, "square": 6}
_MULTIPLICATIONS = {2, -1}
_SELECTION = 2 * (1 + math.log(2))


def work_of(equation: Equation) -> Work | None:
    """The operations of an equation without Graphs of its own; None where there is no rule.

    >>> import numpy as np, fungrad as fg
    >>> (equation,) = fg.make_jaxpr(lambda x: np.exp(x))(np.ones(5)).equations
    >>> work_of(equation)
    Work(flops=0, transcendentals=5)
    """
    primitive: Any = equation.primitive
    inputs = [atom.type for atom in equation.inputs]
    outputs = [variable.type for variable in equation.outputs]
    if primitive.module.startswith("fungrad."):
        if primitive.name in MOVES:
            return NOTHING
        if primitive.name in RULES:
            return RULES[primitive.name](inputs, outputs, equation.params)
        if primitive.name in MATRICES:
            return Work(round(MATRICES[primitive.name](inputs, outputs, equation.params)))
    if primitive.partials is not None and not primitive.multiple:
        return _elementwise(equation, outputs[0])
    return None


def _elementwise(equation: Equation, output: Type) -> Work:
    primitive: Any = equation.primitive
    own = primitive.module.startswith("fungrad.")
    if own and primitive.name == "power" and _is_short(equation):
        return Work(output.size)
    if not own or primitive.name not in ARITHMETIC:
        return Work(0, output.size)
    is_complex = any(atom.type.dtype.kind == "c" for atom in equation.inputs)
    return Work(output.size * (_COMPLEX.get(primitive.name, 1) if is_complex else 1))


def _is_short(equation: Equation) -> bool:
    """Whether a power is one product or quotient, as NumPy does x**2 and x**-1."""
    exponent = equation.inputs[1]
    return isinstance(exponent, Literal) and exponent.value in _MULTIPLICATIONS


def _reduction(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """n elements to m results: n - m operations."""
    x = inputs[0]
    each = 2 if x.dtype.kind == "c" else 1
    return Work(each * max(x.size - outputs[0].size, 0))


def _cumulative(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    x = inputs[0]
    length = x.shape[params["axis"]]
    return Work(x.size - x.size // length if length else 0)


def _logaddexp(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """The largest, the differences from it, their powers' sum, its logarithm, and back."""
    n, m = inputs[0].size, outputs[0].size
    return Work(3 * n - m if n else 0, n + m)


def _dot(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """2 m n k, a product and a sum each (Golub and Van Loan, Matrix Computations, 1.1); complex
    four times that (LAPACK Working Note 41).
    """
    x = inputs[0]
    inner = math.prod(x.shape[axis] for axis in params["contract"][0])
    return Work(2 * outputs[0].size * inner * _factor(inputs))


def _factor(types: Sequence[Type]) -> int:
    return 4 if any(t.dtype.kind == "c" for t in types) else 1


def _convolve(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """A product and a sum for each pair that meets, the direct sum."""
    axes = params.get("axes", 1)
    n, m = (t.shape[t.ndim - axes :] for t in inputs)
    lengths = outputs[0].shape[outputs[0].ndim - axes :]
    lead = outputs[0].size // max(math.prod(lengths), 1)
    pairs = math.prod(n) * math.prod(m)
    if params["mode"] != "full":
        pairs = math.prod(lengths) * math.prod(m)
    return Work(2 * lead * pairs * _factor(inputs))


def _transform(shape: Sequence[int], axes: Sequence[int], lead: float, each: float) -> Work:
    length = math.prod(shape[axis] for axis in axes)
    return Work(round(each * lead * length * math.log2(length)) if length > 1 else 0)


def _fft(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """5 n log2 n for n complex points, as FFTW's benchmarks count."""
    shape, axes = outputs[0].shape, params["axes"]
    lead = outputs[0].size / max(math.prod(shape[axis] for axis in axes), 1)
    return _transform(shape, axes, lead, 5.0)


def _real_fft(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """Half of it for real data."""
    shape = (inputs if inputs[0].dtype.kind != "c" else outputs)[0].shape
    axis = params["axis"]
    return _transform(shape, (axis,), math.prod(shape) / max(shape[axis], 1), 2.5)


def _sorting(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """n log2 n comparisons of each key (Knuth, The Art of Computer Programming, 5.3.1)."""
    length = inputs[0].shape[params.get("axis", -1)] if inputs[0].ndim else 1
    return Work(sum(round(x.size * math.log2(length)) for x in inputs) if length > 1 else 0)


def _selection(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """2 (1 + ln 2) n comparisons, those of Hoare's FIND of a median (Knuth, 5.2.2)."""
    return Work(round(_SELECTION * inputs[0].size))


def _search(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """log2(n + 1) comparisons for each place, bisection."""
    return Work(round(outputs[0].size * math.log2(inputs[0].shape[-1] + 1)))


def _per_element(count: int, of: int = 0) -> Rule:
    return lambda inputs, outputs, params: Work(count * inputs[of].size)


def _all_pole(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    """A product and a sum for each coefficient and step."""
    return Work(2 * outputs[0].size * inputs[0].shape[-1])


def _conj(inputs: Sequence[Type], outputs: Sequence[Type], params: dict[str, Any]) -> Work:
    return Work(inputs[0].size if inputs[0].dtype.kind == "c" else 0)


RULES: dict[str, Rule] = {
    "dot_general": _dot,
    "convolve": _convolve,
    "convolve_nd": _convolve,
    "fft": _fft,
    "rfft": _real_fft,
    "irfft": _real_fft,
    "sort": _sorting,
    "argsort": _sorting,
    "lexsort": _sorting,
    "stable_order": _sorting,
    "partition": _selection,
    "argpartition": _selection,
    "searchsorted": _search,
    "digitize": _search,
    "reduce_logaddexp": _logaddexp,
    "reduce_logaddexp2": _logaddexp,
    "exp_difference": lambda inputs, outputs, params: Work(outputs[0].size, outputs[0].size),
    "exp2_difference": lambda inputs, outputs, params: Work(outputs[0].size, outputs[0].size),
    "product_of_others": _per_element(3),
    "linear_recurrence": _per_element(2, of=1),
    "all_pole": _all_pole,
    "scatter": _per_element(1),
    "overlap_add": _per_element(1),
    "conj": _conj,
    "phase": _per_element(5),  # two squares, their sum, two quotients
    **dict.fromkeys(
        ["polygamma", "gamma_slope", "beta_slope"],
        lambda inputs, outputs, params: Work(0, outputs[0].size),
    ),
    **dict.fromkeys(["index_add", "index_multiply", "index_min", "index_max"], _per_element(1, 1)),
    **dict.fromkeys(["cumsum", "cumprod", "cummax", "cummin"], _cumulative),
    **dict.fromkeys(
        [
            "reduce_sum",
            "exact_sum",
            "reduce_max",
            "reduce_min",
            "reduce_prod",
            "reduce_any",
            "reduce_all",
            "argmax",
            "argmin",
        ],
        _reduction,
    ),
}

__all__ = ["ARITHMETIC", "MOVES", "NOTHING", "RULES", "Work", "work_of"]
