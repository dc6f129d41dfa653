"""Runs of a Graph in which each operation is perturbed by as much as it may round.

Two correct programs of one Graph differ in the rounding of their operations: in the order of sums,
in the last places of functions, in LAPACK's algorithms. Each primitive states how much that can be
(`rounding_of`). A perturbed run moves the result of each operation, or its operands, by a random
amount of that size. How far the outputs of some runs lie apart is the first-order propagation of
all these errors, with their correlations, through loops and branches; a comparison that rounding
can decide either way is taken both ways. This is stochastic arithmetic (Parker, Monte Carlo
Arithmetic, 1997; Vignes, Discrete stochastic arithmetic, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from fungrad.ir.graph import Equation, Graph, graphs_of, inner_graphs
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import add, sub
from fungrad.primitives.elementwise.ufuncs import copysign, power, signbit
from fungrad.primitives.facts import (
    ARITHMETIC,
    EXACT,
    FUNCTION,
    OPERANDS,
    SPACES,
    TERMS,
    rounding_of,
)
from fungrad.primitives.movement.scatter import index_max, index_min
from fungrad.retracing.graph_transforms import memoised
from fungrad.rounding.evaluation_time import Limit, TimedTrace, evaluated, trips
from fungrad.support import forks

SUM_ULP = 8.0
"""The units in the last place by which the terms of a sum are moved."""
LONG_SUM = 512
"""The number of terms after which those of a sum are moved by twice as much: NumPy adds the rows of
an array one by one."""
OPERAND_ULP = 64.0
"""The units in the last place by which the operands of backward stable algorithms are moved."""
_import = forks.lock()
"""Held while NumPy may import its module of random numbers: a child that is forked meanwhile would
wait for the end of the import."""


class Undefined(Exception):
    """A perturbed run has left the domain of an operation: any number may be right there."""


class PerturbedTrace(TimedTrace):
    """Evaluates each primitive with perturbed operands or results.

    Args:
      seed: of the random numbers.
      regrouped: whether sums and products of two numbers are perturbed, too. Otherwise these, and
        quotients and roots, are as IEEE 754 rounds them.
      limit: the time after which it raises TooLong.
      zeros: whether sums and products of two numbers that are zero get either sign, if they are
        perturbed: in programs that add in another order.
    """

    __slots__ = ("random", "regrouped", "together", "zeros")

    def __init__(
        self, seed: int, regrouped: bool, limit: Limit | None = None, zeros: bool = True
    ) -> None:
        super().__init__(limit or Limit(math.inf))
        self.regrouped, self.zeros = regrouped, zeros
        with _import:
            self.random = np.random.default_rng(seed)
        self.together = seed % 3 == 2
        """Whether all numbers of an array move by the same amount, so that equal ones stay equal.
        """

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        self.limit.check()
        rounding = rounding_of(primitive)
        if primitive is copysign or primitive is signbit:
            args = [self.with_any_sign(arg) for arg in args]
        elif self.regrouped and (primitive is add or primitive is sub):
            args = [self.moved(arg, FUNCTION) for arg in args]
        runs = any(graphs_of(params))  # which are perturbed on their own
        if rounding == EXACT or (primitive.multiple and rounding == OPERANDS and runs):
            return self._exact(primitive, args, params)
        if isinstance(rounding, str):
            return self._collective(rounding, primitive, args, params)
        result = _raising(primitive, args, params)
        if np.iscomplexobj(result) and rounding == ARITHMETIC:
            return self.with_any_infinities(self.moved(result, 2.0))
        if rounding > ARITHMETIC or self.regrouped:
            signs = self.zeros or rounding > ARITHMETIC
            result = self.moved(result, max(rounding, FUNCTION), signs=signs)
        return self.rooted(result, *args) if primitive is power else result

    def _exact(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """A result that is not rounded: it selects or moves numbers, or runs a Graph."""
        result = _raising(primitive, args, params)
        if primitive.multiple:
            return result
        if not np.iscomplexobj(result) and any(map(np.iscomplexobj, args)):
            return self.moved(result, FUNCTION)  # the absolute value of complex numbers
        if primitive.kink is not None or primitive is index_max or primitive is index_min:
            return self.with_zeros_of(result, args)
        return result

    def _collective(self, rounding: str, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """A sum, a product, or an algorithm of linear algebra."""
        ulp = OPERAND_ULP if rounding in (OPERANDS, SPACES) else SUM_ULP
        if rounding == TERMS:
            ulp *= 1 + _terms(args, params) // LONG_SUM
        given = [self.moved(arg, ulp) for arg in args]
        try:
            result = primitive.eval(*given, **params)
        except np.linalg.LinAlgError:  # a matrix at the edge of what LAPACK takes
            result = _raising(primitive, args, params)
        if rounding == SPACES:
            values, vectors = result
            signs = self.random.choice(np.array([-1.0, 1.0]), values.shape)
            result = values, vectors * signs[..., None, :].astype(values.dtype)
        if rounding == TERMS:
            result = self.with_any_overflow(result, primitive, args, params)
        if primitive.multiple:
            return tuple([self.moved(part, ulp, signs=True) for part in result])
        return self.moved(result, ulp, signs=rounding != TERMS)

    def moved(self, value: Any, ulp: float, signs: bool = False) -> Any:
        """The value with each inexact number moved by up to `ulp` units in its last place.

        With `signs`, zeros get either sign.
        """
        if type(value) is complex:
            return complex(self.moved(np.complex128(value), ulp, signs))
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fc":
            return self._moved_number(value, ulp) if type(value) is float else value
        if value.dtype.kind == "c":
            size = np.spacing(np.abs(value)) * ulp
            moved = np.array(value)
            for part in (moved.real, moved.imag):  # views
                zero = part == 0
                part[...] = part + self.uniform(value) * size
                if signs and zero.any():
                    part[zero] = np.copysign(0.0, self.uniform(value))[zero]
            kept = np.isfinite(value) & (value != 0)
            return (moved if kept.all() else np.where(kept, moved, value))[()]
        step = np.abs(np.spacing(value)) * np.rint(self.uniform(value) * ulp).astype(value.dtype)
        kept = np.isfinite(value) & (value != 0)
        if kept.all():
            return (value + step).astype(value.dtype, copy=False)
        moved = np.where(kept, value + step, value)
        if signs:
            moved = np.where(value == 0, np.copysign(value, self.uniform(value)), moved)
        return moved.astype(value.dtype, copy=False)

    def _moved_number(self, value: float, ulp: float) -> float:
        if value == 0.0 or not np.isfinite(value):
            return value
        return float(value + np.spacing(abs(value)) * round(self.random.uniform(-ulp, ulp)))

    def uniform(self, value: Any) -> Any:
        """Random numbers between -1 and 1 for the elements of an array."""
        shape = np.shape(value)
        drawn = self.random.uniform(-1.0, 1.0, () if self.together else shape)
        return np.broadcast_to(drawn, shape).astype(value.real.dtype)

    # What IEEE 754 and NumPy leave open: signs of NaN and of zeros, partial overflow.

    def with_any_sign(self, value: Any) -> Any:
        """The value, with a random sign of each NaN."""
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind != "f":
            return value
        unknown = np.isnan(value)
        if not np.any(unknown):
            return value
        return np.where(unknown, np.copysign(value, self.uniform(value)), value)

    def with_zeros_of(self, result: Any, args: Sequence[Any]) -> Any:
        """An extremum: a zero of either sign, if zeros of both signs are among the operands."""
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        signs: set[bool] = set()
        for arg in map(np.asarray, args):
            if arg.dtype.kind == "f":
                signs.update(np.unique(np.signbit(arg[arg == 0])).tolist())
            else:
                signs.add(False)
        if len(signs) < 2:
            return result
        return np.where(result == 0, np.copysign(result, self.uniform(result)), result)

    def with_any_infinities(self, result: Any) -> Any:
        """A complex result: products and quotients overflow in more than one way."""
        if type(result) is complex:  # of a Python number times a float64
            return complex(self.with_any_infinities(np.complex128(result)))
        finite = np.isfinite(result)
        if np.all(finite):
            return result
        parts = self.random.choice(np.array([np.inf, -np.inf, np.nan]), (2, *np.shape(result)))
        dtype = np.result_type(result)  # the result may be a Python number
        anything = (parts[0] + 1j * parts[1]).astype(dtype)
        return np.where(finite, result, anything).astype(dtype)

    def with_any_overflow(self, result: Any, primitive: Any, args: Any, params: Any) -> Any:
        """A sum: anything where a partial sum overflows in some order of the terms, and zero where
        the terms may cancel.
        """
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind not in "fc":
            return result
        sizes = [
            np.where(np.isfinite(a), np.abs(a), 0.0).astype(a.dtype)
            if isinstance(a, np.ndarray | np.generic) and a.dtype.kind in "fc"
            else a
            for a in args
        ]
        largest = np.abs(primitive.eval(*sizes, **params)) * 2
        if self.random.random() < 0.3:
            cancelled = np.abs(result) <= 16 * np.finfo(result.dtype).eps * largest
            result = np.where(cancelled, np.zeros_like(result), result)
        known = np.isfinite(largest)
        if result.dtype.kind == "c" or not np.all(np.isfinite(result)):
            known &= np.isfinite(result)  # a BLAS and loops take products of infinities apart
        if np.all(known):
            return result
        anything = self.random.choice(np.array([np.inf, -np.inf, np.nan, 0.0]), np.shape(result))
        return np.where(known, result, anything).astype(result.dtype)

    def rooted(self, result: Any, x: Any, y: Any) -> Any:
        """A power: NumPy takes a root for x**0.5, or not; they differ at -inf and at -0.0."""
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        differ = np.equal(y, 0.5) & np.signbit(x) & ((x == 0) | np.isinf(x))
        either = np.sqrt(x) if self.random.random() < 0.5 else np.sqrt(np.abs(x))
        return np.where(differ, either, result).astype(result.dtype)


def _raising(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of a primitive.

    Raises:
      Undefined: if these numbers are outside of its domain.
    """
    try:
        return primitive.eval(*args, **params)
    except (ValueError, IndexError, np.linalg.LinAlgError) as error:
        raise Undefined from error


def _terms(args: Sequence[Any], params: dict[str, Any]) -> int:
    """About how many terms each sum has."""
    shape = np.shape(args[0])
    if "contract" in params:
        axes = params["contract"][0]
    elif type(params.get("axes")) is tuple:
        axes = params["axes"]
    elif "axis" in params:
        axes = (params["axis"],)
    else:
        axes = range(len(shape))
    return math.prod([shape[axis] for axis in axes])


class PerturbedRuns:
    """The outputs of perturbed runs of a Graph at some arguments, made when they are asked for.

    Args:
      graph: the program.
      args: its arguments.
      regrouped: see `PerturbedTrace`.
      seconds: the time after which a run raises TooLong.
      around: makes the context of each run.
      zeros: see `PerturbedTrace`.
    """

    def __init__(
        self,
        graph: Graph,
        args: Sequence[Any],
        regrouped: bool,
        seconds: float = math.inf,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
        zeros: bool = True,
    ) -> None:
        self.graph = graph
        self.args = args
        self.regrouped, self.zeros = regrouped, zeros
        self._limit = Limit(seconds)
        self._around = around
        self._runs: list[Sequence[Any]] = []

    def first(self, count: int) -> Sequence[Sequence[Any]]:
        """The outputs of the first `count` runs.

        Raises:
          TooLong: if they take too long.
        """
        while len(self._runs) < count:
            trace = PerturbedTrace(len(self._runs) + 1, self.regrouped, self._limit, self.zeros)
            with self._around():
                try:
                    outputs = evaluated(self.graph, self.args, trace)
                except Undefined:
                    outputs = [_undefined(type_) for type_ in self.graph.output_types]
            self._runs.append(list(map(np.asarray, outputs)))
        return self._runs[:count]


def _undefined(type_: Type) -> Any:
    """An output that says that any number may be right."""
    if type_.dtype.kind in "fc":
        return np.full(type_.shape, np.nan, type_.dtype)
    return ~type_.zeros() if type_.dtype.kind in "iub" else type_.zeros()


MOST_ULP = 1024.0


def accumulated_ulp(graph: Graph) -> float:
    """The sum of the roundings of all operations of a Graph, in units in the last place.

    A result to which each operation contributes with a condition number of 1 may be off by so much
    (Higham, Accuracy and Stability of Numerical Algorithms, 3.1). At most MOST_ULP.
    """

    def total() -> float:
        sum_of_ulps = 0.0
        for equation in graph.equations:
            inner = sum(map(accumulated_ulp, inner_graphs(equation)))
            sum_of_ulps += inner * trips(equation) if inner else _ulp(equation)
        return min(sum_of_ulps, MOST_ULP)

    result: float = memoised(graph, "accumulated ulp", total)
    return result


def _ulp(equation: Equation) -> float:
    primitive: Any = equation.primitive
    rounding = rounding_of(primitive)
    if not isinstance(rounding, str):
        return 2 * rounding
    if rounding in (OPERANDS, SPACES):
        return 0.0  # the condition of the problem decides
    return min(MOST_ULP, float(max([1, *(atom.type.size for atom in equation.inputs)])))
