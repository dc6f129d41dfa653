"""The command line's `explain`: what an error means, how it comes about, and its repair.

Knows the classes of errors, whose docstrings it shows; knows no function of a user.
"""

from __future__ import annotations

import difflib
import inspect
from argparse import Namespace
from typing import TextIO

from fungrad import errors
from fungrad.cli.parse_values import InputError
from fungrad.cli.report import Report, write_json
from fungrad.cli.shared import PASSED

CLASSES: dict[str, type[errors.FungradError]] = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.FungradError)
}


def explain_command(options: Namespace, output: TextIO) -> int:
    """`fungrad explain`: the docstring of an error, or the first line of each."""
    names = [_name(options.name)] if options.name else list(CLASSES)
    texts = {name: inspect.getdoc(CLASSES[name]) or "" for name in names}
    if options.json:
        write_json(texts, output)
        return PASSED
    report = Report()
    for name, text in texts.items():
        report.heading(name)
        paragraph, _, rest = text.partition("\n\n")
        report.line("  " + " ".join(paragraph.split()))
        for line in ["", *rest.splitlines()] if options.name else ():
            report.line(f"  {line}".rstrip().replace("::", ":"))
    report.write(output)
    return PASSED


def _name(given: str) -> str:
    """The class that is meant, in whatever case."""
    known = {name.lower(): name for name in CLASSES}
    if given.lower() in known:
        return known[given.lower()]
    near = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {known[near[0]]}?" if near else ""
    raise InputError(f"{given} is none of fungrad's errors.{hint} `fungrad explain` lists them.")


__all__ = ["CLASSES", "explain_command"]
