"""The command line's `digits`: the correct digits of a function, by line."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any, TextIO

import fungrad as fg
from fungrad.cli.parse_values import InputError
from fungrad.cli.report import PASSED, answer_json, finish, head, progress, titled, to_be_traced
from fungrad.cli.user_function import quiet, user_code
from fungrad.errors import MissingExtraError
from fungrad.inspect.digits.report import Digits
from fungrad.support.lazy import imported


def digits_command(options: Namespace, output: TextIO) -> int:
    """`fungrad digits`: the expected correct digits of a function, or of its gradient."""
    call, function, by = to_be_traced(options)
    with progress("digits"), quiet(call.notes), user_code(call, "was being analysed"):
        try:
            analyse = fg.digits(function, inputs=options.inputs, check=options.check)
            digits = analyse(*function.values)
        except MissingExtraError as error:
            raise InputError(str(error)) from None
    if options.plot:
        _plot(digits, options.plot)
    if options.json:
        content = head(call, by) | {"gradient": options.grad, "digits": digits.to_dict()}
        answer_json(content, call, output)
        return PASSED
    report = titled(call)
    report.heading(f"digits of the {_of(options.grad, by)}")
    report.tables(digits.tables())
    if options.plot:
        report.line(f"  drawn in {options.plot}")
    finish(report, call, output)
    return PASSED


def _of(gradient: bool, by: Sequence[str]) -> str:
    return f"gradient with respect to {', '.join(by)}" if gradient else "function"


def _plot(found: Digits, path: str) -> None:
    try:
        figure: Any = imported("matplotlib.figure").Figure(layout="constrained", figsize=(9, 5))
    except ImportError:
        raise InputError("--plot needs Matplotlib: pip install 'fungrad[viz]'.") from None
    found.plot(figure.subplots())
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"--plot {path}: {error}") from None
