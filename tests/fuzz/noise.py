"""The effect of rounding on the results of a Graph, measured by runs with noise.

A compiled program may differ from NumPy only as documented: kernels are within 2 ulp of the right
value, sums are added in blocks, BLAS and LAPACK have their own rounding. So a noisy run moves the
output of each such primitive by some ulp (for sums the operands), and leaves all others (moves,
comparisons, elementwise sums, products, quotients and roots, integers) unchanged. Where noisy runs
agree in every bit, so must the program; where they differ, it may be as far from them, times a
factor. This includes sines of sums that overflow, and comparisons of values equal up to rounding.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from fungrad.control_flow import call as call_module
from fungrad.control_flow.call import Backend, use
from fungrad.primitives.contraction.dot_general import scales
from fungrad.tracing.graph_trace import evaluate
from fungrad.tracing.trace import EvalTrace

EXACT = frozenset(
    """full broadcast_to concatenate conj convert flip pad reshape slice_axis to_discrete transpose
    add div eq ge gt le logical_and logical_not logical_or lt mul ne neg select sub attains cummax
    cummin argmax argmin reduce_all reduce_any reduce_max reduce_min abs bitwise_and bitwise_or
    bitwise_xor ceil copysign fabs floor floor_divide fmax fmin fmod frexp_exponent gcd heaviside
    imag invert isfinite isinf isnan lcm ldexp left_shift logical_xor maximum minimum nextafter
    positive real reciprocal remainder right_shift rint sign signbit spacing sqrt square trunc
    diagonal from_diagonal roll basis iota stack unstack getitem indexed argpartition
    argsort lexsort partition permuted searchsorted sort index_max index_min index_set stable_order
    stop_gradient stop_gradient_order call switch while_loop scan checkpoint recompute custom
    checkpoint_name deg2rad rad2deg""".split()
)
ROUNDED = frozenset("add sub mul div reciprocal sqrt square remainder fmod select".split())
ADDED = frozenset(
    """reduce_sum scatter cumsum dot_general convolve convolve_nd index_add linear_recurrence
    reduce_prod cumprod index_multiply product_of_others windows overlap_add exp_difference
    exp2_difference
    reduce_logaddexp reduce_logaddexp2""".split()
)
SIGNS = frozenset(("copysign", "signbit"))
PRODUCTS = frozenset(("reduce_prod", "cumprod", "index_multiply", "product_of_others"))
ORDERED = frozenset(
    """maximum minimum fmax fmin reduce_max reduce_min cummax cummin index_max index_min sort
    partition""".split()
)
ULP_KERNEL, ULP_SUM, ULP_REST = 4, 8, 64
SECONDS = 20.0
"""The time limit of the noisy runs of one Graph, since loops over large arrays are interpreted."""


class Outcome(Exception):
    """Ends an oracle early: there is nothing to compare."""


class NoisyTrace(EvalTrace):
    """Computes as EvalTrace, and then moves the results that may differ."""

    __slots__ = ("alike", "end", "loose", "rng")

    def __init__(self, seed: int, loose: bool, end: float) -> None:
        super().__init__(None, lambda: "noise")
        self.rng = np.random.default_rng(seed)
        self.loose = loose
        self.alike = seed % 3 == 2  # equal numbers stay equal, sorted ones too
        self.end = end

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if time.process_time() > self.end:
            raise Outcome("noisy runs take too long")
        name = primitive.name
        if name in SIGNS:
            args = [self.unsigned(arg) for arg in args]
        if name in EXACT:
            result = primitive.eval(*args, **params)
            if name in ORDERED:
                return self.turned(result, args)
            if self.loose and name in ROUNDED:
                return self.moved(result, ULP_KERNEL, True)
            if name == "abs" and np.iscomplexobj(args[0]):  # hypot
                return self.moved(result, ULP_KERNEL)
            if name in ("mul", "div", "reciprocal", "square", "sqrt", "sign"):
                return self.product(result) if np.iscomplexobj(result) else result
            return result
        if name == "power" and not np.iscomplexobj(args[0]) and type(args[1]) in (int, float):
            if args[1] in (0, 1, 2, 0.5, -1):
                return self.rooted(primitive.eval(*args, **params), *args)
        if primitive.multiple or primitive.partials is None:
            ulp = ULP_SUM if name in ADDED else ULP_REST
            if name == "reduce_sum":  # NumPy adds up columns one by one
                terms = np.prod([np.shape(args[0])[i] for i in params["axes"]], dtype=int)
                ulp *= 1 + int(terms) // 512
            given = [self.moved(arg, ulp) for arg in args]
            try:
                result = primitive.eval(*given, **params)
            except np.linalg.LinAlgError:
                result = primitive.eval(*args, **params)
            if name in ADDED and name not in PRODUCTS:
                result = self.overflowing(result, primitive, args, params)
            if primitive.multiple:
                return tuple(self.moved(part, ulp, True) for part in result)
            return self.moved(result, ulp, name != "reduce_sum")
        result = self.moved(primitive.eval(*args, **params), ULP_KERNEL)
        return self.rooted(result, *args) if name == "power" else result

    def rooted(self, result: Any, x: Any, y: Any) -> Any:
        """A power, as the root that NumPy's `**` may take for it, or not: they differ at -inf, and
        at -0.0.
        """
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        differ = np.equal(y, 0.5) & np.signbit(x) & ((x == 0) | np.isinf(x))
        either = np.sqrt(x) if self.rng.random() < 0.5 else np.sqrt(np.abs(x))
        return np.where(differ, either, result).astype(result.dtype)

    def moved(self, value: Any, ulp: int, signs: bool = False) -> Any:
        """A value, each number of it moved by up to `ulp` units in the last place."""
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fc":
            return value
        if value.dtype.kind == "c":
            size = np.spacing(np.abs(value))
            parts = [self.uniform(value) * size * ulp for _ in range(2)]
            moves = np.isfinite(value) & (value != 0)
            moved = np.where(moves, value + (parts[0] + 1j * parts[1]), value)
            if signs:
                zero = np.array([value.real == 0, value.imag == 0])
                turned = np.copysign(0.0, parts[0]), np.copysign(0.0, parts[1])
                moved = moved.copy()
                moved.real = np.where(zero[0], turned[0], moved.real)
                moved.imag = np.where(zero[1], turned[1], moved.imag)
            return moved.astype(value.dtype)
        step = np.abs(np.spacing(value)) * np.rint(self.uniform(value) * ulp).astype(value.dtype)
        moved = np.where(np.isfinite(value) & (value != 0), value + step, value)
        if signs:
            moved = np.where(value == 0, np.copysign(value, self.uniform(value)), moved)
        return moved.astype(value.dtype, copy=False)

    def product(self, result: Any) -> Any:
        """A complex product or quotient: NumPy's loops round and overflow in more than one way."""
        parts = self.rng.choice(np.array([np.inf, -np.inf, np.nan]), (2, *np.shape(result)))
        anything = (parts[0] + 1j * parts[1]).astype(result.dtype)
        return np.where(np.isfinite(result), self.moved(result, 2), anything).astype(result.dtype)

    def turned(self, result: Any, args: Sequence[Any]) -> Any:
        """Zeros of any sign, where zeros of both signs were compared: NumPy's loops differ."""
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        zeros = [np.signbit(a[a == 0]) for a in map(np.asarray, args) if a.dtype.kind == "f"]
        signs = np.unique(np.concatenate([np.zeros(0, bool), *zeros]))
        plain = any(np.asarray(a).dtype.kind in "biu" for a in args)  # 0 has no sign
        if len(signs) + plain < 2:
            return result
        return np.where(result == 0, np.copysign(result, self.uniform(result)), result)

    def unsigned(self, value: Any) -> Any:
        """NaN of either sign, which IEEE 754 leaves open, and `-1 * x` as `-x` turns."""
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind != "f":
            return value
        return np.where(np.isnan(value), np.copysign(value, self.uniform(value)), value)

    def uniform(self, value: Any) -> Any:
        shape = np.shape(value)
        found = self.rng.uniform(-1.0, 1.0, () if self.alike else shape)
        return np.broadcast_to(found, shape).astype(value.real.dtype)

    def overflowing(self, result: Any, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """Anything at all, where a partial sum may overflow in some order of the terms."""
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind not in "fc":
            return result
        sizes = [
            np.where(np.isfinite(a), np.abs(a), 0.0).astype(a.dtype)
            if isinstance(a, np.ndarray | np.generic) and a.dtype.kind in "fc" else a
            for a in args
        ]  # fmt: skip
        largest = np.abs(primitive.eval(*sizes, **params)) * 2
        eps = np.finfo(result.dtype).eps
        if self.rng.random() < 0.3:  # terms that cancel may do so to the last bit
            result = np.where(np.abs(result) <= 16 * eps * largest, result * 0, result)
        anything = self.rng.choice(np.array([np.inf, -np.inf, np.nan, 0.0]), np.shape(result))
        known = np.isfinite(largest)
        quirk = primitive.name == "dot_general" and scales(*args)  # np.dot, unlike np.matmul
        if (
            result.dtype.kind == "c" or quirk
        ):  # BLAS and loops take products of infinities apart otherwise
            known &= np.isfinite(result)
        return np.where(known, result, anything).astype(result.dtype)


@contextmanager
def running_on(backend: Backend) -> Iterator[None]:
    """Runs Graphs by a backend within the context."""
    before = call_module._backend
    use(backend)
    try:
        yield
    finally:
        use(before)


def reference() -> AbstractContextManager[None]:
    """Runs bodies of loops by the evaluator within the context, so that noise reaches them."""
    return running_on(Backend())


def _nan_like(x: Any) -> Any:
    return np.full_like(x, np.nan) if x.dtype.kind in "fc" else ~x


class Spread:
    """The results of noisy runs of a Graph, made at first use.

    With `loose`, elementwise sums and products are moved, too, as by another order of terms.
    """

    def __init__(self, graph: Any, args: Sequence[Any], loose: bool = False) -> None:
        self.graph, self.args, self.loose = graph, args, loose
        self.runs: list[list[Any]] = []

    def results(self, count: int) -> list[list[Any]]:
        """At least `count` runs; the first one is without noise."""
        end = time.process_time() + SECONDS
        with np.errstate(all="ignore"), reference():
            if not self.runs:
                self.runs.append(list(map(np.asarray, evaluate(self.graph, self.args))))
            while len(self.runs) < count:
                trace = NoisyTrace(len(self.runs), self.loose, end)
                try:
                    found = list(map(np.asarray, trace.run(evaluate, self.graph, self.args)))
                except np.linalg.LinAlgError:  # the rest is arbitrary then
                    found = [_nan_like(x) for x in self.runs[0]]
                self.runs.append(found)
        return self.runs
