"""The command line's commands that count and measure: `cost`, `profile`, `digits` and `bench`."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

import fungrad as fg
from fungrad.cli.derivatives import gradient
from fungrad.cli.parse_values import InputError, listed, parse_arguments
from fungrad.cli.report import (
    FAILED,
    PASSED,
    answer_json,
    finish,
    head,
    new_figure,
    prepared,
    progress,
    titled,
    to_be_traced,
    traced_function,
)
from fungrad.cli.user_function import EVALUATED, UserCall, evaluate, load_call, quiet, user_code
from fungrad.errors import FungradError, MissingExtraError
from fungrad.inspect.tables import seconds
from fungrad.support import pytree

SAMPLE = 1e-3
"""The least seconds of one sample of a benchmark: short functions are called repeatedly."""


def cost_command(options: Namespace, output: TextIO) -> int:
    """`fungrad cost`: operations, bytes and memory of a function or of its gradient."""
    call, function, by = to_be_traced(options)
    with quiet(call.notes), user_code(call, "was being traced"):
        costs = fg.jit(function).lower(*function.values).cost()
    return _answer("cost", costs, call, by, options, output)


def profile_command(options: Namespace, output: TextIO) -> int:
    """`fungrad profile`: the time of a function, or of its gradient, by line and primitive."""
    call, function, by = to_be_traced(options)
    with progress("profiling"), quiet(call.notes), user_code(call, "was being profiled"):
        measure: Any = fg.explain_speed if options.explain else fg.profile
        measured = measure(function, repetitions=options.repetitions)(*function.values)
    title = "speed" if options.explain else ""
    return _answer("profile", measured, call, by, options, output, title)


def digits_command(options: Namespace, output: TextIO) -> int:
    """`fungrad digits`: the expected correct digits of a function, or of its gradient, by line."""
    call, function, by = to_be_traced(options)
    with progress("digits"), quiet(call.notes), user_code(call, "was being analysed"):
        try:
            analyse = fg.digits(function, inputs=options.inputs, check=options.check)
            digits = analyse(*function.values)
        except MissingExtraError as error:
            raise InputError(str(error)) from None
    if options.plot:
        figure = new_figure(figsize=(9, 5))
        digits.plot(figure.subplots())
        try:
            figure.savefig(options.plot)
        except (OSError, ValueError) as error:
            raise InputError(f"--plot {options.plot}: {error}") from None
    return _answer("digits", digits, call, by, options, output, drawn=options.plot)


def _answer(
    key: str, measured: Any, call: UserCall, by: Sequence[str], options: Namespace, output: TextIO,
    title: str = "", drawn: str | None = None,
) -> int:  # fmt: skip
    """Prints the tables of what was measured of the function, or of its gradient; or its JSON."""
    if options.json:
        content = head(call, by) | {"gradient": options.grad, key: measured.to_dict()}
        answer_json(content, call, output)
        return PASSED
    report = titled(call)
    report.heading(f"{title or key} of the {traced_function(options, by)}")
    report.tables(measured.tables())
    if drawn:
        report.line(f"  drawn in {drawn}")
    finish(report, call, output)
    return PASSED


class Direct:
    """A Call as a function of the arguments to differentiate by, without copies: the other
    arguments are fixed.
    """

    def __init__(self, call: UserCall, names: Sequence[str]) -> None:
        self.__name__ = call.name
        self._function = call.function
        self._names = tuple(names)
        self._values = dict(call.values)
        parameters = call.signature.parameters
        self._positional = [
            name for name in self._values
            if name in parameters and parameters[name].kind is not parameters[name].KEYWORD_ONLY
        ]  # fmt: skip
        self._named = [name for name in self._values if name not in self._positional]

    def __call__(self, *inputs: Any) -> Any:
        values = self._values | dict(zip(self._names, inputs, strict=True))
        return self._function(
            *[values[name] for name in self._positional],
            **{name: values[name] for name in self._named},
        )


@dataclass
class Timing:
    """One compared function: its times, or the reason why it cannot run."""

    what: str
    run: Callable[[], Any]
    first: float = 0.0
    calls: int = 1
    times: tuple[float, ...] = ()
    failure: str = ""

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return statistics.median(self.times)

    def as_json(self, base: float) -> dict[str, Any]:
        """The timing as plain data; `base` is the time of the function."""
        if self.failure:
            return {"what": self.what, "failure": self.failure}
        return {
            "what": self.what,
            "seconds": self.median,
            "least_seconds": min(self.times),
            "first_call_seconds": self.first,
            "times_the_function": self.median / base,
            "calls_in_a_row": self.calls,
        }

    def row(self, base: float) -> list[str]:
        """The timing as texts."""
        if self.failure:
            return [self.what, "-", "-", "-"]
        ratio = f"{self.median / base:.2f}"
        return [self.what, seconds(self.median), ratio, seconds(self.first)]


def bench_command(options: Namespace, output: TextIO) -> int:
    """`fungrad bench`: a function, its gradient, both under jit, and a gradient by hand."""
    call, names = prepared(options)
    evaluate(call)
    function = Direct(call, names)
    values = [call.values[name] for name in names]
    derived = fg.grad(function, argnums=tuple(range(len(names))) if len(names) > 1 else 0)
    rows = [
        Timing("function", lambda: function(*values)),
        Timing("gradient", lambda: derived(*values)),
        _jitted("jit", function, values),
        _jitted("jit of gradient", derived, values),
    ]
    error = None
    if options.hand:
        theirs, hand = _by_hand(options, names)
        rows.append(Timing("gradient by hand", lambda: hand(*values)))
        expected = gradient(call, names)
        with quiet(call.notes), user_code(theirs, EVALUATED):
            error = _disagreement(names, tuple(expected[name] for name in names), hand(*values))
    with quiet(call.notes), user_code(call, "was being timed"):
        _time(rows, options.rounds)
    passed = error is None or error <= options.tolerance
    if options.json:
        base = rows[0].median
        content: dict[str, Any] = head(call, names) | {
            "rounds": options.rounds,
            "timings": [row.as_json(base) for row in rows],
        }
        if error is not None:
            content["by_hand"] = {
                "worst_relative_error": error, "tolerance": options.tolerance, "passed": passed,
            }  # fmt: skip
        answer_json(content, call, output)
        return PASSED if passed else FAILED
    report = titled(call)
    report.heading(
        f"one call, median of {options.rounds} interleaved rounds, by {', '.join(names)}"
    )
    header = ["", "time", "times the function", "first call"]
    report.table(header, [row.row(rows[0].median) for row in rows], frozenset((1, 2, 3)))
    for row in rows:
        if row.failure:
            report.line(f"  {row.what} {row.failure}")
    if error is not None:
        limit = f"(limit {options.tolerance:g})"
        report.verdict(passed, f"by hand against the gradient: relative error {error:.1e} {limit}")
    finish(report, call, output)
    return PASSED if passed else FAILED


def _jitted(what: str, f: Callable[..., Any], values: Sequence[Any]) -> Timing:
    jitted = fg.jit(f)
    return Timing(what, lambda: jitted(*values))


def _by_hand(options: Namespace, names: Sequence[str]) -> tuple[UserCall, Direct]:
    """The hand-written gradient, a function of the same arguments."""
    hand = load_call(options.hand, parse_arguments(options.arg), options.allow_nan)
    missing = [name for name in names if name not in hand.values]
    if missing:
        raise InputError(
            f"--hand: {hand.name} has no argument {listed(missing)}; it has to take the same "
            "arguments as the function."
        )
    return hand, Direct(hand, names)


def _disagreement(names: Sequence[str], found: Any, hand: Any) -> float:
    """The error of the hand-written gradient, relative to each part's largest entry."""
    ours, structure = pytree.flatten(found)
    forms = [hand] if isinstance(hand, (tuple, list)) else []
    if isinstance(hand, dict) and all(name in hand for name in names):
        forms.append([hand[name] for name in names])
    for form in ((hand,), *map(tuple, forms)):
        theirs, other = pytree.flatten(form)
        if structure == other and list(map(np.shape, ours)) == list(map(np.shape, theirs)):
            return max(_relative(a, b) for a, b in zip(ours, theirs, strict=True))
    raise InputError(
        f"--hand did not return a gradient with respect to {', '.join(names)}: it has to return an "
        "array for each of these arguments, of its shape and in this order."
    )


def _relative(expected: Any, found: Any) -> float:
    size = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    return float(np.max(np.abs(np.subtract(expected, found)), initial=0.0)) / size


def _time(rows: list[Timing], rounds: int) -> None:
    """Times all rows in turn, round by round."""
    for row in rows:
        _first(row)
    running = [row for row in rows if not row.failure]
    with progress("timing", rounds) as advance:
        for _ in range(rounds):
            for row in running:
                start = time.perf_counter()
                for _ in range(row.calls):
                    row.run()
                row.times += ((time.perf_counter() - start) / row.calls,)
            advance()


def _first(row: Timing) -> None:
    """Times the first call, which traces jitted functions, and sets the calls of a sample."""
    start = time.perf_counter()
    try:
        row.run()
    except FungradError as error:
        if "jit" not in row.what:
            raise
        row.failure = f"cannot be traced: {error.message.splitlines()[0]}"
        return
    row.first = time.perf_counter() - start
    start = time.perf_counter()
    row.run()
    row.calls = max(1, int(SAMPLE / max(time.perf_counter() - start, 1e-9)))
