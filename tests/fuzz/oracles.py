"""Oracles: each computes a result in two ways, and returns their difference.

Those of values are in oracle_values.py, those of derivatives in oracle_derivatives.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import fungrad as fg

from .case import Case, Outcome
from .compare import difference
from .program import Program

FLAGLESS = re.compile("@|dot|einsum|matmul|inner|linalg|conv|corr|kron|outer|fft|nan")
"""Primitives whose warnings depend on the loops of BLAS and LAPACK; nanmean hides its own."""

OWN_FORMULA = re.compile("sinc|interp|logaddexp|unwrap|initial=|einsum")
"""Functions whose formula in fungrad differs from NumPy's, for the derivatives; and einsum, whose
sums NumPy begins with a zero.
"""

ORACLES: dict[str, tuple[float, Callable[[Case], str]]] = {}


def oracle(name: str, weight: float) -> Callable[[Callable[[Case], str]], Callable[[Case], str]]:
    def add(f: Callable[[Case], str]) -> Callable[[Case], str]:
        ORACLES[name] = (weight, f)
        return f

    return add


def own_formula(case: Case) -> bool:
    """Whether fungrad's own formula may round differently from NumPy's."""
    return bool(OWN_FORMULA.search(case.program.source))


def against_plain(
    case: Case,
    name: str,
    run: Callable[..., Any],
    loose: bool = False,
    warnings: bool = True,
) -> str:
    """A way to run a program against plain NumPy; `loose` if it may reorder terms."""
    expected = case.expected
    try:
        found = list(case.watched(name, run, *case.args))
    except Exception as error:
        if isinstance(expected, Exception):
            return ""
        return raised(error)
    if isinstance(expected, Exception):
        return f"no error, where NumPy raises {type(expected).__name__}: {expected}"
    loose = loose or own_formula(case)
    wrong = difference(expected, found, case.spread(loose=loose), signs=not case.contracts())
    if wrong or not warnings:
        return wrong
    return warned(
        case, name, lambda: run(*case.args), "plain", lambda: case.program.plain(*case.args), found
    )


def warned(case: Case, name: str, f: Any, other: str, g: Any, found: Sequence[Any]) -> str:
    """A warning that f gives and g does not, though all numbers are finite.

    It has to appear each time, since NumPy's own depend on the memory next to an array.
    """
    # Numbers of integers alone warn where arrays of them do not, as NumPy has it.
    finite = all(np.all(np.isfinite(x)) and np.asarray(x).dtype.kind in "fc" for x in found)
    extra = case.flags[name] - case.flags[other]
    if any(np.asarray(x).dtype.kind in "fc" and np.isinf(x).any() for x in case.args):
        extra -= {"overflow"}  # of a sum that an infinity ends, by the order of its terms
    if not finite or not extra or FLAGLESS.search(case.program.source):
        return ""
    for _ in range(3):
        case.flags[name] = set()
        case.watched(name, f)
        case.watched(other, g)
        extra &= case.flags[name]
        extra -= case.flags[other]
    return f"a warning that {other} does not give: {', '.join(sorted(extra))}" if extra else ""


def raised(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"raises {type(error).__name__}: {text[0][:300] if text else ''}"


def two_ways(
    case: Case,
    name: str,
    f: Callable[..., Any],
    given: Any,
    run: Callable[..., Any],
    loose: bool = False,
) -> str:
    """f against another way to run it; `loose` if that may reorder terms.

    A derivative is a sum over paths, with zeros among the terms: its zeros have any sign.
    """
    try:
        expected = list(case.watched("eager", f, *given))
    except Exception as error:
        try:
            case.watched(name, run, *given)
        except Exception:
            return "" if _expected_error(error) else raised(error)
        return f"no error, where the other way {raised(error)}"
    try:
        found = list(case.watched(name, run, *given))
    except Exception as error:
        return raised(error)
    # Cotangents are added after a loop, and where steps are run again.
    loose = loose or "lax." in case.program.source or "checkpoint" in case.program.source
    wrong = difference(expected, found, case.spread(f, given, loose), signs=False)
    if wrong:
        return wrong
    # Eager runs do not warn of values that masks discard; the interpreted Graph does.
    return warned(
        case, name, lambda: run(*given), "eager",
        lambda: fg.evaluate(fg.make_jaxpr(f)(*given), *given), found,
    )  # fmt: skip


def _expected_error(error: Exception) -> bool:
    return isinstance(error, np.linalg.LinAlgError | fg.errors.FungradError)


def drawn(program: Program, rng: Random, count: int) -> list[str]:
    """Oracles for one program; differences, which cost little, wherever they apply."""
    names = [n for n, (weight, _) in ORACLES.items() if weight and n != "differences"]
    found = rng.choices(names, [ORACLES[n][0] for n in names], k=count)
    return list(dict.fromkeys([*found, *["differences"] * program.smooth]))


def judge(name: str, case: Case) -> str:
    """The message of an oracle for a case, or ""; raises Outcome if it does not apply."""
    try:
        return ORACLES[name][1](case)
    except Outcome:
        raise
    except Exception as error:  # an unexpected error is a disagreement
        return raised(error)


from . import oracle_compiler, oracle_derivatives, oracle_values  # noqa: E402, F401  (they fill ORACLES)
