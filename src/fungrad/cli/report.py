"""The command line's output: lines and tables, as plain text, by rich, or as JSON.

Rich is optional (extra `cli`), used if installed and the output is a terminal; plain text has the
same content. Progress is shown on stderr, and only on a terminal. Also the steps from options to a
Call and from findings to an answer, common to the commands.

Exit codes: 0 done, 1 a check failed.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np

import fungrad as fg
from fungrad.cli.parse_values import InputError, parse_arguments
from fungrad.cli.user_function import (
    UserCall,
    evaluate,
    is_differentiable,
    load_call,
    select,
    type_text,
)
from fungrad.inspect.tables import Table, aligned, rich_table
from fungrad.support.lazy import imported

SHOWN_ENTRIES = 36
FIRST_ENTRIES = 4


class Report:
    """The findings of one command, in the order of printing."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, Any]] = []

    def heading(self, text: str) -> None:
        """Adds a line that opens a section."""
        self.parts.append(("heading", text))

    def line(self, text: str) -> None:
        """Adds lines that are printed unchanged."""
        self.parts.append(("line", text))

    def verdict(self, passed: bool, text: str) -> None:
        """Adds the line of a passed or failed check."""
        self.parts.append(("passed" if passed else "failed", text))

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: frozenset[int] = frozenset(),
    ) -> None:
        """Adds a table of texts; the columns with numbers in `right` are set flush right."""
        self.parts.append(("table", (list(header), [list(row) for row in rows], right)))

    def tables(self, tables: Iterable[Table]) -> None:
        """Adds tables, each under its title."""
        for table in tables:
            self.heading(table.title)
            self.table(*table[1:])

    def write(self, file: TextIO) -> None:
        """Shows the report: by rich on a terminal, as plain text otherwise."""
        try:
            from rich.console import Console
        except ImportError:  # the extra `cli` is not installed
            self._write_plain(file)
            return
        console = Console(file=file, highlight=False)
        if console.is_terminal:
            self._write_rich(console)
        else:
            self._write_plain(file)

    def _write_plain(self, file: TextIO) -> None:
        width = shutil.get_terminal_size().columns if file.isatty() else None
        for kind, content in self.parts:
            if kind == "table":
                text = "\n".join(aligned(*content))
            elif kind in ("passed", "failed"):
                text = f"  {'ok    ' if kind == 'passed' else 'FAILED'}  {content}"
            else:
                text = content
            print(text if width is None else wrapped(text, width), file=file)

    def _write_rich(self, console: Any) -> None:
        from rich.text import Text

        for kind, content in self.parts:
            if kind == "table":
                console.print(rich_table(*content))
            elif kind in ("passed", "failed"):
                mark, style = ("ok    ", "green") if kind == "passed" else ("FAILED", "bold red")
                console.print(Text.assemble("  ", (mark, style), "  ", content))
            else:
                console.print(Text(content, style="bold" if kind == "heading" else ""))


def wrapped(text: str, width: int) -> str:
    """A text with lines broken between words, and continued with an indent.

    >>> print(wrapped("  the gradient is zero", 14))
      the gradient
        is zero
    """
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        texts = textwrap.wrap(
            line, max(width, 20), initial_indent=indent, subsequent_indent=f"{indent}  ",
            break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
            drop_whitespace=True,
        ) if len(line) > width else [line]  # fmt: skip
        lines += texts or [""]
    return "\n".join(lines)


def number_text(value: Any) -> str:
    """A number at eight significant digits.

    >>> number_text(2 / 3), number_text(-5.0), number_text(1e-30)
    ('0.66666667', '-5', '1e-30')
    """
    return f"{float(value):.8g}"


def array_text(value: Any) -> str:
    """All entries of a small array; extremes, norm and first entries of a large one.

    >>> print(array_text(np.array([1.0, 2 / 3])))
    [1, 0.66666667]
    >>> print(array_text(np.arange(100.0)))
    min 0, max 99, norm 573.01832, first 0, 1, 2, 3
    """
    array = np.asarray(value)
    if array.size <= SHOWN_ENTRIES:
        format = {"float_kind": number_text}
        return np.array2string(array, separator=", ", formatter=format, threshold=1000)  # type: ignore[arg-type]
    first = ", ".join(number_text(entry) for entry in array.ravel()[:FIRST_ENTRIES])
    norm = np.linalg.norm(array.astype(np.float64).ravel())
    return (
        f"min {number_text(array.min())}, max {number_text(array.max())}, norm "
        f"{number_text(norm)}, first {first}"
    )


def write_json(content: Any, file: TextIO) -> None:
    """Writes valid JSON; NaN and infinities, which it lacks, become "NaN" and "Infinity"."""
    print(json.dumps(jsonable(content), indent=2, allow_nan=False), file=file)


def jsonable(value: Any) -> Any:
    """The value with arrays as nested lists.

    >>> jsonable({"w": np.array([1.0, np.inf]), "n": (np.float32(2), None)})
    {'w': [1.0, 'Infinity'], 'n': [2.0, None]}
    """
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return jsonable(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return repr(value)


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each of `total` steps (None if the number is not known).

    The bar is erased at the end; nothing is written if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # the extra `cli` is not installed
        yield from _plain(what, total)
        return
    # No thread draws the bar: it would disturb the times of `bench` and `profile`.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=total)
        bar.refresh()

        def advance() -> None:
            bar.advance(task)
            bar.refresh()

        yield advance


def _plain(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    done = 0

    def show(text: str) -> None:
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    def advance() -> None:
        nonlocal done
        done += 1
        show(f"{what} {done}" + ("" if total is None else f" of {total}"))

    show(what)
    try:
        yield advance
    finally:
        show("")


PASSED, FAILED = 0, 1


def call_of(options: Namespace) -> UserCall:
    """The function that the options name, with its arguments."""
    return load_call(options.target, parse_arguments(options.arg), options.allow_nan)


def prepared(options: Namespace) -> tuple[UserCall, list[str]]:
    """The function with its arguments, and those to differentiate by."""
    call = call_of(options)
    return call, select(call, options.wrt)


def titled(call: UserCall) -> Report:
    """A Report that begins with the function and the types of its arguments."""
    report = Report()
    report.heading(f"{call.name}({call.types()})  {near_path(call.file)}")
    return report


def near_path(file: str) -> str:
    """The path of a file, relative if it lies below the current folder."""
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative


def head(call: UserCall, names: Sequence[str]) -> dict[str, Any]:
    """The first entries of each command's JSON."""
    return {
        "function": call.name,
        "file": call.file,
        "arguments": {name: type_text(value) for name, value in call.values.items()},
        "wrt": list(names),
    }


def finish(report: Report, call: UserCall, output: TextIO) -> None:
    """Shows a Report, with the warnings of the user's code at its end."""
    for note in call.notes:
        report.line(f"  warning: {note}")
    report.write(output)


def answer_json(content: dict[str, Any], call: UserCall, output: TextIO) -> None:
    """Writes JSON, with the warnings of the user's code."""
    write_json(content | {"warnings": call.notes}, output)


class Positional:
    """A Call as a function of named arguments in order, or its gradient with respect to some of
    them (a tuple if there are several).
    """

    def __init__(self, call: UserCall, names: Sequence[str], by: Sequence[str]) -> None:
        self.__name__ = call.name
        self.call, self.names, self.by = call, names, by
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])

    @property
    def values(self) -> list[Any]:
        """The given arguments."""
        return [self.call.values[name] for name in self.names]

    def __call__(self, *inputs: Any) -> Any:
        selected = dict(zip(self.names, inputs, strict=True))
        if not self.by:
            return self.call(selected)
        rest = {name: value for name, value in selected.items() if name not in self.by}
        gradients = fg.grad(lambda part: self.call(rest | part))({n: selected[n] for n in self.by})
        values = tuple(gradients[name] for name in self.by)
        return values if len(values) > 1 else values[0]


def to_be_traced(options: Namespace) -> tuple[UserCall, Positional, list[str]]:
    """The function that `ir`, `cost` and `profile` trace: the user's, of its real float arguments
    (only those of --wrt), or with --grad its gradient; and the arguments to differentiate by.
    """
    call = call_of(options)
    by = select(call, options.wrt) if options.grad or options.wrt else []
    floats = [name for name, value in call.values.items() if is_differentiable(value)]
    names = list(dict.fromkeys(by)) if options.wrt else floats
    if not names:
        raise InputError(f"{call.name} has no real float argument; there is nothing to trace.")
    evaluate(call)
    return call, Positional(call, names, by if options.grad else []), by


def traced_function(options: Namespace, by: Sequence[str]) -> str:
    """What `to_be_traced` traces, in words."""
    return f"gradient with respect to {', '.join(by)}" if options.grad else "function"


def new_figure(**options: Any) -> Any:
    """A figure of Matplotlib, for --plot.

    Raises:
      InputError: where Matplotlib is not installed.
    """
    try:
        return imported("matplotlib.figure").Figure(layout="constrained", **options)
    except ImportError:
        raise InputError("--plot needs Matplotlib: pip install 'fungrad[viz]'.") from None
