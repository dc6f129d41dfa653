"""Every primitive at every sample as native code: its results are those of its `eval`.

Moves, comparisons and arithmetic agree in every bit; functions within a few units in the last
place, NumPy's own error among them; sums as far as another order of their terms may be.

`native_known.json` lists native samples, by a letter for each sample of a primitive: `e` for a
program of single elements, `a` for loops over arrays, `b` for both, `.` for neither. A loss fails,
so that a refusal cannot hide; `python tests/native/test_native_samples.py` writes the file anew.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from checks import OURS, call, samples_of
from fuzz.compare import difference
from fuzz.noise import Spread, running_on
from fuzz.oracle_native import is_native, loops_over_arrays
from sampling import Sample

import fungrad as fg
from fungrad.compiler.native import backend
from fungrad.control_flow.call import run
from fungrad.primitives.facts import ARITHMETIC, EXACT, rounding_of
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.trace import typeof

ULP = {"gammaln": 16}
"""How far off NumPy and native code may be together, other than 4."""
KNOWN = Path(__file__).with_name("native_known.json")
WAYS: Any = {"e": contextlib.nullcontext, "a": loops_over_arrays}


def wrong(name: str, graph: Any, args: Any, found: Any) -> str:
    """The error of the results of a Graph of one equation, or ""."""
    expected = evaluate(graph, args)
    types = [typeof(e) for e in expected]
    if types != [typeof(f) for f in found]:
        return f"{found} for {expected}"
    if object in [type_.dtype for type_ in types]:  # a tape, whose inside is its own business
        return ""
    if rounding_of(OURS[name]) in (EXACT, ARITHMETIC) or OURS[name].partials is None:
        spread = Spread(graph, args)
        return difference([*map(np.asarray, expected)], [*map(np.asarray, found)], spread.results)
    for e, f in zip(expected, found, strict=True):
        e, f = np.asarray(e), np.asarray(f)
        near = (e == f) | (np.isnan(e) & np.isnan(f))
        if e.dtype.kind in "fc":
            near |= np.abs(e - f) <= ULP.get(name, 4) * np.spacing(np.abs(e))
        if not near.all():
            return f"{f[~near]} for {e[~near]}"
    return ""


def judged(name: str, sample: Sample, letters: str = "ea") -> tuple[str, str]:
    """The letters of the ways in which a sample is native, and the error of its results."""
    how = ""
    for letter in letters:
        way = WAYS[letter]
        graph = fg.make_jaxpr(call(OURS[name], sample))(*sample.args)
        with running_on(backend.Native()), way():
            try:
                found = run(graph, sample.args)
            except Exception as error:
                return how, f"{sample}: {error!r}"
            if is_native(graph):
                how += letter
        message = wrong(name, graph, sample.args, found)
        if message:
            return how, f"{sample}, {letter}: {message}"
    return how, ""


def _letter(how: str) -> str:
    return {"": ".", "ea": "b"}.get(how, how)


@pytest.mark.parametrize("name", OURS)
def test_samples_of_primitives(name: str) -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8")).get(name, "")
    letters, once = known.ljust(9999, "."), not known or OURS[name].partials is not None
    bad = []
    with np.errstate(all="ignore"):
        for n, (sample, letter) in enumerate(zip(samples_of(OURS[name]), letters, strict=False)):
            # an elementwise primitive has the same code for an element either way, and one that
            # native code refuses is NumPy's program either way
            ways = "ea"[n % 2] if once and n else "ea"
            how, message = judged(name, sample, ways)
            if message:
                bad.append(message)
            elif not set("ea" if letter == "b" else letter.strip(".")) & set(ways) <= set(how):
                bad.append(f"{sample}: was native, {letter!r}, and is {_letter(how)!r}")
    assert not bad, "\n".join(bad)


def main() -> None:
    """Writes the letters of all samples."""
    found = {}
    with np.errstate(all="ignore"):
        for name in sorted(OURS):
            hows = [judged(name, sample)[0] for sample in samples_of(OURS[name])]
            letters = "".join(map(_letter, hows))
            if letters.strip("."):
                found[name] = letters
    lines = [f"  {json.dumps(name)}: {json.dumps(letters)}" for name, letters in found.items()]
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
