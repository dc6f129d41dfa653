"""fg.digits: the expected number of correct digits of each output, by a first-order analysis."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fungrad.compiler.backend_choice  # noqa: F401 - loops are compiled
from fungrad.errors import ArgumentError
from fungrad.inspect.digits.causes import advice_of, first_overflow, operations_of
from fungrad.inspect.digits.error_sweep import (
    DRIFT,
    ENTRIES,
    LOST,
    VARIANCE,
    ErrorsOf,
    ObservingTrace,
    Site,
)
from fungrad.inspect.digits.exact_run import Branch, Check, exact_errors
from fungrad.inspect.digits.report import Digits, Output, digits_of, full_digits, lines_of
from fungrad.inspect.digits.single_precision import Single, rounded_run, single_lines
from fungrad.inspect.outermost import check_outermost
from fungrad.inspect.source_lines import place_of
from fungrad.ir.graph import Source
from fungrad.support import pytree
from fungrad.tracing.captured_arrays import CopyingGuards
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import Tracer, current, typeof, value_under
from fungrad.tracing.traced_again import traced
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.arguments import differentiable, flat_results, leaf_names
from fungrad.transforms.engine.reverse import VjpTrace, backward

FEW = 16
"""The most elements of all outputs together for which each has its own sweep."""
PROBES = 4
"""The sweeps for each larger output, if the program is small."""
SMALL = 100_000
"""The most numbers in the results of all operations of a small program."""


def digits(
    f: Callable[..., Any],
    *,
    inputs: Mapping[str, Any] | Any = None,
    constants: bool = False,
    check: bool = False,
) -> Callable[..., Digits]:
    """A function that tells how many digits of f's results are right, and which lines lose them.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     return (1 - np.cos(x)) / x**2
    >>> report = fg.digits(f)(1e-5)
    >>> round(report.digits), report.lines[0].primitive
    (6, 'sub')

    Args:
      f: a function, or a transform of one: `fg.grad(f)`, `fg.vmap(f)`.
      inputs: uncertainties of the arguments: a mapping from their names (`"x"`, `"params['w']"`) to
        standard deviations, numbers or arrays of their shape; or to `fg.significant(n)`. One number
        holds for all inputs: their correct digits. By default inputs are exact.
      constants: whether numbers written into the program that are no short binary fractions (0.1)
        have the error of their representation.
      check: whether to run f again with many digits, and to compare: needs mpmath, the extra
        `digits`.

    Returns:
      A function with f's arguments that returns a `Digits`. It costs one evaluation of f under
      reverse mode, and a backward walk for each output (each element, if there are few).

    Raises:
      ArgumentError: inside another transform, and where `inputs` names no argument.

    Each operation is taken to make an independent random error of its known size. To first order,
    the error of the result is the sum of these, each times the derivative of the result with
    respect to the value (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 3.1).
    """

    def run(*args: Any, **kwargs: Any) -> Digits:
        check_outermost("digits", "numbers")
        keys: list[int | str] = [*range(len(args)), *kwargs]
        parts = [*args, *kwargs.values()]
        names = leaf_names(f, keys, parts)
        leaves, treedef = pytree.flatten(parts)
        spreads = _spreads(inputs, names, leaves)

        def flat(values: Sequence[Any]) -> Any:
            new = pytree.unflatten(treedef, values)
            return f(*new[: len(args)], **dict(zip(kwargs, new[len(args) :], strict=True)))

        def report_of() -> Digits:
            return _report(f, flat, leaves, names, spreads, constants)

        with np.errstate(all="ignore"):
            report = traced(report_of, lambda: f"digits of {describe(f)}", flat)
            return _checked(report, f, flat, leaves) if check else report

    return TransformedFunction(run, digits, f, inputs=inputs, constants=constants, check=check)


def _spreads(inputs: Any, names: Sequence[str], leaves: Sequence[Any]) -> dict[str, Any]:
    """The standard deviations of the inputs that have one, by their names."""
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        spreads = {n: x for n, x in zip(names, leaves, strict=True) if differentiable(x)}
        return {name: 10.0 ** -float(inputs) * np.abs(x) / 2 for name, x in spreads.items()}
    unknown = set(inputs) - set(names)
    if unknown:
        raise ArgumentError(
            f"inputs= names {', '.join(sorted(map(repr, unknown)))}, but the arguments are "
            f"{', '.join(map(repr, names))}."
        )
    return dict(inputs)


def _report(
    f: Any, flat: Any, leaves: Sequence[Any], names: Sequence[str], spreads: dict[str, Any],
    constants: bool,
) -> Digits:  # fmt: skip
    below = current()
    reverse = VjpTrace(below, lambda: f"digits of {describe(f)}", CopyingGuards())
    accumulators: dict[Site, Tracer] = {}

    def accumulator(site: Site) -> Tracer:
        known = accumulators.get(site)
        if known is None:
            known = accumulators[site] = reverse.tracer(np.zeros(ENTRIES.shape))
        return known

    trace = ObservingTrace(
        reverse, below, lambda: f"digits of {describe(f)}", accumulator, constants
    )

    def observed(*values: Any) -> tuple[list[Any], Any]:
        given = []
        for value, name in zip(values, names, strict=True):
            if differentiable(value):
                site = Site(None, f"input {name}")
                spread = spreads.get(name)
                uncertain = spread is not None
                if uncertain:
                    spread = np.broadcast_to(np.asarray(spread, float), np.shape(value))
                value = trace.observed(
                    value, site, ErrorsOf("given"), [spread if uncertain else 0.0]
                )
                if not uncertain:
                    trace.inexact.discard(value.extra)
            given.append(value)
        return flat_results(flat(given))

    results, treedef = trace.run(observed, *leaves)
    paths = pytree.paths(treedef)
    outputs = []
    total: dict[Site, np.ndarray] = {}
    small = _numbers(reverse) <= SMALL
    count = sum(np.size(value_under(r)) for r in results)
    for path, result in zip(paths, results, strict=True):
        if not typeof(result).inexact:
            continue
        mine = type(result) is Tracer and result.owner is reverse
        value = value_under(result)
        sweeps = _seeds(value, count, small) if mine else []
        summed: dict[Site, np.ndarray] = {}
        errors = []
        for seed in sweeps:
            swept = _sweep(reverse, result, seed, accumulators)
            errors.append(sum(s[VARIANCE] for s in swept.values()))
            for site, sums in swept.items():
                held = summed.setdefault(site, np.zeros(5))
                most = max(held[LOST], sums[LOST])
                held += sums if count <= FEW else sums / len(sweeps)
                held[LOST] = most
        outputs.append(_output(path, value, errors, count <= FEW))
        for site, sums in summed.items():
            held = total.setdefault(site, np.zeros(5))
            most = max(held[LOST], sums[LOST])
            held += sums
            held[LOST] = most
    loss = max([full_digits(np.asarray(o.value).dtype) - o.digits for o in outputs], default=0.0)
    lines = lines_of(list(total.items()), loss)
    finite = all(np.all(np.isfinite(o.value)) for o in outputs)
    by_slot = {tracer.extra: site for site, tracer in accumulators.items()}
    overflow = None if finite else first_overflow(reverse, by_slot)
    advice = advice_of(operations_of(reverse, by_slot), total, loss, overflow)
    remarks = tuple(
        [
            f"{place_of(site.source)}: roundings inside of `{site.primitive}` are not counted"
            for site in trace.unseen
        ]
    )
    chosen = AnalysedProgram(f, flat, leaves, outputs, total)
    return Digits(
        getattr(f, "__name__", "a function"),
        tuple(outputs),
        lines,
        advice,
        remarks,
        None,
        chosen.single,
    )


class AnalysedProgram:
    """An analysed program: runs it again with some lines in single precision."""

    def __init__(
        self, f: Any, flat: Any, leaves: Sequence[Any], outputs: Sequence[Output],
        sums: Mapping[Site, np.ndarray],
    ) -> None:  # fmt: skip
        self._f = f
        self._flat = flat
        self._leaves = leaves
        self._outputs = outputs
        self._sums = sums

    def single(self, tolerance: float) -> Single:
        """See `Digits.single`."""
        kinds = {np.asarray(o.value).dtype.char for o in self._outputs}
        if not kinds <= {"d", "D"}:
            raise ArgumentError(
                "report.single chooses lines of a program in double precision; outputs of this one "
                f"are {', '.join(sorted(str(np.dtype(c)) for c in kinds))}."
            )
        variances: dict[Source, float] = {}
        for site, sums in self._sums.items():
            if site.source is not None and sums[VARIANCE]:
                variances[site.source] = variances.get(site.source, 0.0) + float(sums[VARIANCE])
        return single_lines(variances, tolerance, self._error)

    def _error(self, lines: frozenset[tuple[str, int]]) -> float:
        """The largest relative error of an output in a run with these lines rounded."""
        rounded = rounded_run(
            lambda values: flat_results(self._flat(values))[0],
            self._leaves,
            list(map(differentiable, self._leaves)),
            lambda: f"single precision of {describe(self._f)}",
            current(),
            lines,
        )
        worst = 0.0
        for output, value in zip(self._outputs, filter(_inexact, rounded), strict=True):
            size = _norm(np.asarray(output.value))
            error = _norm(np.asarray(value) - np.asarray(output.value))
            worst = max(worst, error / size if size else error)
        return worst


def _inexact(value: Any) -> bool:
    return typeof(value).inexact


def _checked(report: Digits, f: Any, flat: Any, leaves: Sequence[Any]) -> Digits:
    """The report with a comparison with exact numbers."""
    errors, trace = exact_errors(
        lambda values: flat_results(flat(values))[0],
        leaves,
        list(map(differentiable, leaves)),
        lambda: f"exact run of {describe(f)}",
        current(),
    )
    outputs = []
    for output, error in zip(report.outputs, errors, strict=True):
        full = full_digits(np.asarray(output.value).dtype)
        true = min(full, max(0.0, -math.log10(error))) if error else full
        outputs.append((output.path, output.digits, true))
    branches = [Branch(*key, count) for key, count in trace.branches.items()]
    parted = any(abs(e - t) > 1 for _, e, t in outputs)
    check = Check(
        tuple(outputs),
        tuple(branches),
        (branches[0].source if branches else trace.spoiled) if parted else None,
        tuple(sorted(trace.operations.doubtful)),
    )
    return dataclasses.replace(report, check=check)


def _numbers(reverse: VjpTrace) -> int:
    total = 0
    for _, _, _, args, _, _, _ in reverse.tape.records():
        total += max([np.size(a) for a in args if isinstance(a, np.ndarray)], default=1)
    return total


def _seeds(value: Any, count: int, small: bool) -> list[Any]:
    """The cotangents of the sweeps for one output, relative to its root of the sum of squares."""
    array = np.asarray(value)
    norm = _norm(array)
    scale = 1.0 / norm if norm and np.isfinite(norm) else 1.0
    if count <= FEW:
        found = []
        for index in np.ndindex(array.shape):
            seed = np.zeros_like(array)
            seed[index] = scale
            found.append(seed[()])
        return found
    random = np.random.default_rng(0)
    probes = PROBES if small else 1
    return [
        (random.choice([-1.0, 1.0], array.shape) * scale).astype(array.dtype)[()]
        for _ in range(probes)
    ]


def _norm(array: np.ndarray) -> float:
    """The root of the sum of squares; the largest number is factored out, against overflow."""
    size = np.abs(array.astype(np.complex128))
    most = float(np.max(size, initial=0.0))
    if not most or not np.isfinite(most):
        return most
    return most * float(np.sqrt(np.sum((size / most) ** 2)))


def _sweep(
    reverse: VjpTrace, result: Tracer, seed: Any, accumulators: dict[Site, Tracer]
) -> dict[Site, np.ndarray]:
    totals = backward(reverse, [(result.extra, seed)], reverse.slots)
    sums = {}
    for site, tracer in accumulators.items():
        entries = totals[tracer.extra - 1]
        if entries is not None:
            entries = np.array(entries, float)
            entries[DRIFT] **= 2
            entries[VARIANCE] = max(entries[VARIANCE], entries[DRIFT])
            sums[site] = entries
    return sums


def _output(path: str, value: Any, errors: Sequence[float], each: bool) -> Output:
    array = np.asarray(value)
    norm = _norm(array)
    if not np.isfinite(norm):
        return Output(path, value, 0.0, float("nan"), None)
    scale = norm or 1.0
    squares = np.array(errors, float)
    if each:
        own = np.sqrt(squares).reshape(array.shape) * scale if errors else np.zeros(array.shape)
        with np.errstate(all="ignore"):
            relative = np.where(own == 0, 0.0, own / np.abs(array))
        elements: Any = digits_of(relative, array.dtype)[()]
        whole = float(np.sqrt(np.sum(squares)))
    else:
        elements = None
        whole = float(np.sqrt(np.mean(squares))) if errors else 0.0
    if not norm and whole:
        whole = np.inf
    digits = float(digits_of(whole, array.dtype))
    return Output(path, value, digits, whole * scale, elements)
