"""Oracles of values: each way to run a program, against plain NumPy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

import fungrad as fg

from .case import Case, Outcome
from .compare import difference, same
from .elsewhere import in_another_process, in_threads
from .oracles import against_plain, oracle, own_formula, raised


@oracle("eager", 20)
def eager(case: Case) -> str:
    """The interpreted Graph: tracing changes nothing."""
    return against_plain(case, "eager", lambda *args: fg.evaluate(case.graph, *args))


@oracle("jit", 60)
def jitted(case: Case) -> str:
    return against_plain(case, "jit", fg.jit(case.program.traced))


@oracle("process", 1)
def in_a_process(case: Case) -> str:
    """jit in another process, which the program and its arguments reach pickled."""

    def run(*args: Any) -> Any:
        return in_another_process(case.program, *args)

    return against_plain(case, "process", run, warnings=False)


@oracle("threads", 1)
def at_once(case: Case) -> str:
    """One compiled function, called by several threads at the same time: as by one."""
    if isinstance(case.expected, Exception):
        raise Outcome("NumPy raises")
    with np.errstate(all="ignore"):  # which may choose the program that runs
        one = list(fg.jit(case.program.traced)(*case.args))
    several = in_threads(fg.jit(case.program.traced), *case.args)
    for number, value in enumerate(several):
        alone, value = np.asarray(one[number % len(one)]), np.asarray(value)
        if not same(value, alone):
            return f"thread {number // len(one)}: output {number % len(one)} differs"
    return ""


@oracle("reassociated", 4)
def reassociated(case: Case) -> str:
    """jit that may reorder sums and products, on moderate numbers."""
    if isinstance(case.expected, Exception) or not case.tame():
        raise Outcome("values are not moderate")
    return against_plain(case, "jit", fg.jit(case.program.traced, reassociate=True), loose=True)


@oracle("fungrad", 8)
def untraced(case: Case) -> str:
    """The program with fungrad's names and no transform.

    All its branches are traced, so that their computations on plain arrays may warn.
    """
    return against_plain(case, "fungrad", case.program.traced, warnings=False)


@oracle("source", 6)
def source(case: Case) -> str:
    """The text that to_source writes, run."""
    try:
        text = fg.to_source(case.program.traced, *case.args, name="written")
    except fg.errors.FungradError as error:
        if isinstance(case.expected, Exception):
            return ""
        raise Outcome("to_source refuses") from error

    def run(*args: Any) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(text, "<written>", "exec"), scope)
        return scope["written"](*args)

    return against_plain(case, "source", run)


@oracle("saved", 4)
def saved(case: Case) -> str:
    if isinstance(case.expected, Exception) or "custom_" in case.program.source:
        raise Outcome("NumPy raises, or a rule that is Python")

    def run(*args: Any) -> Any:
        file = io.BytesIO()
        fg.save(fg.export(case.program.traced)(*args), file)
        file.seek(0)
        return fg.load(file)(*args)

    return against_plain(case, "saved", run)


@oracle("vmap", 14)
def vmapped(case: Case) -> str:
    """vmap against a loop, with and without jit."""
    program, rng = case.program, case.rng
    size = rng.choice((1, 2, 3))
    axes: list[Any] = []
    for value in program.inputs:
        native = np.asarray(value.make()).dtype.isnative
        axes.append(None if value.kind == "python" or not native or rng.random() < 0.2 else 0)
    if all(axis is None for axis in axes):
        raise Outcome("nothing to map")
    described = list(zip(case.args, program.inputs, axes, strict=True))
    rows = [[a if axis is None else v.make(i * 5) for a, v, axis in described] for i in range(size)]
    if rng.random() < 0.3:
        axes = [-1 if axis == 0 else axis for axis in axes]
    batches = [
        rows[0][k] if axis is None else np.stack([row[k] for row in rows], axis=axis)
        for k, axis in enumerate(axes)
    ]  # fmt: skip
    try:
        results = [case.watched("plain", program.plain, *row) for row in rows]
        expected = [np.stack([np.asarray(r[i]) for r in results]) for i in range(len(results[0]))]
    except Exception as error:
        raise Outcome("NumPy raises") from error
    mapped = fg.vmap(program.traced, in_axes=tuple(axes))
    run = fg.jit(mapped) if rng.random() < 0.4 else mapped
    try:
        found = list(case.watched("vmap", run, *batches))
    except Exception as error:
        return raised(error)

    def noisy(count: int) -> list[list[Any]]:
        each = []
        for row in rows:
            spread = case.spread(program.traced, row, own_formula(case))
            each.append(spread(count))
        return [
            [np.stack([e[k][i] for e in each]) for i in range(len(expected))] for k in range(count)
        ]

    return difference(expected, found, noisy, signs=not case.contracts())
