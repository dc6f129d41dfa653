"""What the user is told of a defect of the compiler: a warning at his line, and a file."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fungrad.errors import CompilerWarning, FungradError, MiscompiledWarning
from fungrad.ir.graph import Graph, above
from fungrad.tracing.source_location import user_line, warn_user

SMALL = 1 << 20
"""Arguments of up to so many bytes together are in the file."""


def message(graph: Graph, wrong: Any) -> str:
    """What differs, as text."""
    name = graph.name or "a function"
    return (
        f"The compiled program of {name}{user_line()} disagrees with the evaluator: {wrong}. "
        "This is a defect of fungrad."
    )


def miscompiled(graph: Graph, args: Sequence[Any], wrong: Any) -> None:
    """Warns that a program was wrong, and writes its Graph and small arguments to a file."""
    warn_user(
        f"{message(graph, wrong)} The evaluator's numbers are returned, now and in later calls. "
        f"{_written(graph, args)}\n(more: fungrad explain MiscompiledWarning)",
        MiscompiledWarning,
    )


def failed(graph: Graph, error: Exception) -> None:
    """Warns that a part of the compiler has raised an error."""
    name = graph.name or "a function"
    warn_user(
        f"{part(error)} of the compiler failed for {name}{user_line()} "
        f"({type(error).__name__}: {error}). This is a defect of fungrad. The function is "
        f"evaluated equation by equation, which is slower. {_written(graph, ())}\n"
        "(more: fungrad explain CompilerWarning)",
        CompilerWarning,
    )


def part(error: BaseException) -> str:
    """The part of the compiler that raised an error: the last function of a module of it."""
    traceback, name = error.__traceback__, "a part"
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        if module.startswith(_COMPILER) and not module.startswith(__package__):
            name = f"`{traceback.tb_frame.f_code.co_name}` ({module.removeprefix(_COMPILER)})"
        traceback = traceback.tb_next
    return name


_COMPILER = __package__.rpartition(".")[0] + "."


def _written(graph: Graph, args: Sequence[Any]) -> str:
    """Writes the Graph, in which small arguments become constants; says where."""
    folder = Path(os.environ.get("FUNGRAD_REPORTS") or tempfile.gettempdir())
    name = hashlib.sha256(f"{graph}{os.getpid()}".encode()).hexdigest()[:12]
    path = folder / f"fungrad-{name}.fungrad"
    whole = bool(args) and sum(np.asarray(arg).nbytes for arg in args) <= SMALL
    if whole:
        given = tuple(zip(graph.inputs, map(_kept, args), strict=True))
        graph = graph.replace(inputs=(), constants=(*graph.constants, *given))
    try:
        above.save(graph, path)
    except (FungradError, OSError) as error:
        return f"Its Graph could not be written: {error}"
    return f"Its Graph{' with the arguments' if whole else ''} is in {path}; fg.load opens it."


def _kept(arg: Any) -> Any:
    """A read-only copy of an array."""
    if not isinstance(arg, np.ndarray):
        return arg
    copy = arg.copy()
    copy.flags.writeable = False
    return copy
