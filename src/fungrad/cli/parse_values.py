"""The command line's input: values of options, and the files that they name.

Every failure is an InputError that says the cause and the fix.
"""

from __future__ import annotations

import ast
import csv
import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
_FILE = re.compile(r"(?P<path>.*?\.(?P<kind>npy|npz|csv|tsv))(?::(?P<part>.*))?", re.I | re.S)


class InputError(Exception):
    """An argument that cannot be used; the message says why and how to write it."""


def nearest(name: str, names: Iterable[str]) -> str:
    """` Did you mean 'mu'?` if one of the names is close, else ""."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean '{close[0]}'?" if close else ""


def listed(names: Iterable[str]) -> str:
    """Names for a message, shortened where there are many."""
    texts = list(names)
    shown = ", ".join(texts[:12])
    return f"{shown}, ... ({len(texts)} in all)" if len(texts) > 12 else shown or "none"


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """The values of all `--arg NAME[:DTYPE]=VALUE` of one command."""
    values: dict[str, Any] = {}
    for text in texts:
        name, value = parse_argument(text)
        if name in values:
            raise InputError(f"--arg {name} is given twice; give each argument once.")
        values[name] = value
    return values


def parse_argument(text: str) -> tuple[str, Any]:
    """Name and value of one `--arg`.

    >>> parse_argument("w=[1, 2]")
    ('w', array([1., 2.]))
    >>> parse_argument("labels:int=[0, 1]")
    ('labels', array([0, 1]))
    """
    head, equals, body = text.partition("=")
    name, colon, dtype = head.strip().partition(":")
    if not equals or not name.isidentifier():
        raise InputError(
            f"--arg {text!r} is not NAME=VALUE; write it as --arg x=1.5, --arg 'x=[1, 2]' or --arg "
            "x=@data.csv:column."
        )
    value = parse_value(body.strip(), f"--arg {name}")
    return name, (cast(value, dtype, f"--arg {name}") if colon else value)


def parse_value(text: str, option: str) -> Any:
    """The value of an option: a literal, or the array in the file named after @."""
    return read_file(text[1:], option) if text.startswith("@") else parse_literal(text, option)


def parse_literal(text: str, option: str) -> Any:
    """A number, a string, None; a (nested) list becomes an array; tuples and dicts stay trees.

    The words nan and inf are numbers too.

    >>> parse_literal("{'w': [[1, 2], [3, 4]], 'n': 3}", "x")
    {'w': array([[1., 2.], [3., 4.]]), 'n': 3}
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of invalid escapes in strings
            value = ast.literal_eval(_NotFinite().visit(ast.parse(text, mode="eval")))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        # literal_eval raises one of these for a text that is not a literal
        hint = (
            f" For the string, quote it twice: {option}=\"'{text}'\"."
            if text.isidentifier()
            else ""
        )
        path = f" For the file, write {option}=@{text}." if _FILE.fullmatch(text) else ""
        raise InputError(
            f"{option}: {text!r} is not a Python literal; write a number, a list such as [1, "
            f"2.5], or @ and a .npy, .npz or .csv file.{hint}{path}"
        ) from None
    return _arrays(value, option)


class _NotFinite(ast.NodeTransformer):
    """Replaces the words nan and inf by these numbers, for which Python has no literals."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The number for one of the words; other names stay, and literal_eval refuses them."""
        if node.id.lower() in {"nan", "inf"}:
            return ast.copy_location(ast.Constant(float(node.id)), node)
        return node


def _arrays(value: Any, option: str) -> Any:
    """A literal with its lists turned into arrays of float64, bool or complex."""
    if isinstance(value, dict):
        return {key: _arrays(item, option) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_arrays(item, option) for item in value)
    if not isinstance(value, list):
        return value
    try:
        array = np.array(value)
    except ValueError:
        raise InputError(
            f"{option}: the rows of the list differ in length; make them equal, or pass a "
            "tuple of lists, which stays a tuple of arrays."
        ) from None
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"{option}: the list holds something that is not a number; a list becomes an "
            "array, so keep only numbers in it."
        )
    return array.astype(np.float64) if array.dtype.kind in "iuf" else array


def cast(value: Any, dtype: str, option: str) -> Any:
    """The value as an array or NumPy scalar of the dtype named in an option `name:dtype=...`."""
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        raise InputError(
            f"{option}:{dtype}: NumPy has no dtype {dtype!r}; write float32, int, bool or "
            "complex, for example."
        ) from None
    if wanted.kind not in "biufc":
        raise InputError(f"{option}:{dtype}: {wanted} is not a numeric dtype; write float32.")
    if isinstance(value, (dict, set, tuple, str, bytes, type(None))):
        raise InputError(f"{option}:{dtype}: a dtype goes with numbers, lists and files only.")
    array = np.asarray(value)
    if array.dtype.kind == "c" and wanted.kind != "c":
        raise InputError(f"{option}:{dtype}: complex numbers do not fit into {wanted}.")
    try:
        with np.errstate(all="ignore"):  # refused below, or later as infinite
            result = array.astype(wanted)
    except OverflowError:  # a Python integer of any size
        raise InputError(
            f"{option}:{dtype}: {value} does not fit into {wanted}; choose another dtype."
        ) from None
    if wanted.kind in "iu" and not np.array_equal(result, array):
        wrong = array[result != array]
        raise InputError(
            f"{option}:{dtype}: {wrong.flat[0]} is not a whole number that {wanted} can hold; "
            "round the data, or choose another dtype."
        )
    return result[()]


def read_file(text: str, option: str) -> Any:
    """The array in `file.npy`, `file.npz[:key]`, or `file.csv[:column[,column...]]`."""
    match = _FILE.fullmatch(text)
    if match is None:
        raise InputError(
            f"{option}: cannot tell the format of {text!r}; its name has to end in .npy, .npz "
            "or .csv (then :key or :column)."
        )
    path, part = Path(match["path"]), match["part"]
    readers: dict[str, Callable[[Path, str | None, str], Any]] = {
        "npy": _read_npy,
        "npz": _read_npz,
        "csv": _read_csv,
        "tsv": _read_csv,
    }
    try:
        return readers[match["kind"].lower()](path, part, option)
    except FileNotFoundError:
        raise InputError(
            f"{option}: there is no file {str(path)!r} in {Path.cwd()}; check the path."
        ) from None
    except OSError as error:
        raise InputError(f"{option}: {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{option}: {path} is not a text file in UTF-8; convert it.") from None
    except csv.Error as error:
        raise InputError(f"{option}: {path} is not a table: {error}; mend the file.") from None


def _numeric(array: Array, path: Path, option: str) -> Any:
    if array.dtype.kind not in "biufc":
        raise InputError(
            f"{option}: {path} holds {array.dtype} data, not numbers; save a numeric array."
        )
    return array[()]


def _read_npy(path: Path, part: str | None, option: str) -> Any:
    if part is not None:
        raise InputError(f"{option}: a .npy file holds one array; drop ':{part}'.")
    try:
        return _numeric(np.load(path, allow_pickle=False), path, option)
    except (InputError, OSError):
        raise
    except Exception as error:  # NumPy evaluates the header, and allocates that size
        raise InputError(
            f"{option}: {path} is not a .npy file of numbers (damaged, or of Python objects): "
            f"{_short(error)}; write it with np.save."
        ) from None


def _read_npz(path: Path, part: str | None, option: str) -> Any:
    try:
        with np.load(path, allow_pickle=False) as archive:
            keys = list(archive.files)
            if part is None and len(keys) != 1:
                raise InputError(
                    f"{option}: {path} holds {len(keys)} arrays ({listed(keys)}); choose one "
                    f"with @{path}:key."
                )
            key = keys[0] if part is None else part
            if key not in keys:
                raise InputError(
                    f"{option}: {path} has no array {key!r}; it has {listed(keys)}."
                    + nearest(key, keys)
                )
            return _numeric(archive[key], path, option)
    except (InputError, OSError):
        raise
    except Exception as error:  # of zipfile, of zlib, and of NumPy as above
        raise InputError(
            f"{option}: {path} is not a .npz file of numbers: {_short(error)}; write it with "
            "np.savez."
        ) from None


def _short(error: Exception) -> str:
    """The first line of an error's text, or the name of its class."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


def _read_csv(path: Path, part: str | None, option: str) -> Any:
    """The chosen columns: one gives a vector, several a matrix with one row for each line."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        delimiter = max("\t;,", key=first.count)
        lines = [(n, row) for n, row in enumerate(csv.reader(file, delimiter=delimiter), 1) if row]
    if not lines:
        raise InputError(f"{option}: {path} is empty; it needs at least one row of numbers.")
    names = [cell.strip() for cell in lines[0][1]]
    if any(_number(cell) is None for cell in names):
        lines = lines[1:]
    else:
        names = [str(index) for index in range(len(names))]
    if not lines:
        raise InputError(f"{option}: {path} has a header and no rows; add rows of numbers.")
    wanted = list(range(len(names))) if part is None else _columns(part, names, path, option)
    table = np.empty((len(lines), len(wanted)))
    for index, (line, row) in enumerate(lines):
        if len(row) != len(names):
            raise InputError(
                f"{option}: {path}, line {line} has {len(row)} cells where the first has "
                f"{len(names)}; mend that line."
            )
        for place, column in enumerate(wanted):
            value = _number(row[column])
            if value is None:
                raise InputError(
                    f"{option}: {path}, line {line}, column {names[column]!r} holds "
                    f"{row[column]!r}, not a number; choose numeric columns with @{path}:column "
                    f"(columns: {listed(names)})."
                )
            table[index, place] = value
    return table[:, 0].copy() if len(wanted) == 1 else table


def _number(cell: str) -> float | None:
    """The number in a cell, NaN for a missing one, None for other texts."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def _columns(part: str, names: list[str], path: Path, option: str) -> list[int]:
    chosen = []
    for column in (text.strip() for text in part.split(",")):
        if column not in names:
            raise InputError(
                f"{option}: {path} has no column {column!r}; it has {listed(names)}."
                + nearest(column, names)
            )
        chosen.append(names.index(column))
    return chosen
