"""Code that the command line's commands share: from options to a Call, and from findings to an
answer.

Knows Calls and Reports; knows no command. Exit codes: 0 done, 1 a check failed.
"""

from __future__ import annotations

import inspect
import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, TextIO

import fungrad as fg
from fungrad.cli.parse_values import InputError, parse_arguments
from fungrad.cli.report import Report, write_json
from fungrad.cli.user_function import (
    Call,
    evaluate,
    is_differentiable,
    load_call,
    select,
    type_text,
)

PASSED, FAILED = 0, 1


def call_of(options: Namespace) -> Call:
    """The function that the options name, with its arguments."""
    return load_call(options.target, parse_arguments(options.arg), options.allow_nan)


def prepared(options: Namespace) -> tuple[Call, list[str]]:
    """The function with its arguments, and those to differentiate by."""
    call = call_of(options)
    return call, select(call, options.wrt)


def titled(call: Call) -> Report:
    """A Report that begins with the function and the types of its arguments."""
    report = Report()
    report.heading(f"{call.name}({call.types()})  {near_path(call.file)}")
    return report


def near_path(file: str) -> str:
    """A file as it is named from here: relative where it lies below the current folder."""
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def head(call: Call, names: Sequence[str]) -> dict[str, Any]:
    """The first entries of each command's JSON."""
    return {
        "function": call.name,
        "file": call.file,
        "arguments": {name: type_text(value) for name, value in call.values.items()},
        "wrt": list(names),
    }


def finish(report: Report, call: Call, output: TextIO) -> None:
    """Shows a Report, with the warnings of the user's code at its end."""
    for note in call.notes:
        report.line(f"  warning: {note}")
    report.write(output)


def answer_json(content: dict[str, Any], call: Call, output: TextIO) -> None:
    """Writes JSON, with the warnings of the user's code."""
    write_json(content | {"warnings": call.notes}, output)


class Positional:
    """A Call as a function of the named arguments in order, or its gradient by some of them, a
    tuple where they are several.
    """

    def __init__(self, call: Call, names: Sequence[str], by: Sequence[str]) -> None:
        self.__name__ = call.name
        self.call, self.names, self.by = call, names, by
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])

    @property
    def values(self) -> list[Any]:
        """The arguments as they were given."""
        return [self.call.values[name] for name in self.names]

    def __call__(self, *inputs: Any) -> Any:
        selected = dict(zip(self.names, inputs, strict=True))
        if not self.by:
            return self.call(selected)
        rest = {name: value for name, value in selected.items() if name not in self.by}
        gradients = fg.grad(lambda part: self.call(rest | part))({n: selected[n] for n in self.by})
        found = tuple(gradients[name] for name in self.by)
        return found if len(found) > 1 else found[0]


def to_be_traced(options: Namespace) -> tuple[Call, Positional, list[str]]:
    """What `ir`, `cost` and `profile` look at: the function of its real float arguments (those of
    --wrt only), or with --grad its gradient; and what it is differentiated by.
    """
    call = call_of(options)
    by = select(call, options.wrt) if options.grad or options.wrt else []
    floats = [name for name, value in call.values.items() if is_differentiable(value)]
    names = list(dict.fromkeys(by)) if options.wrt else floats
    if not names:
        raise InputError(f"{call.name} has no real float argument; there is nothing to trace.")
    evaluate(call)
    return call, Positional(call, names, by if options.grad else []), by
