"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_COST = "equivalent in numbers: only the cost is another"

ALIVE: dict[str, str] = {
    "lowering/loop_memory: carries die in the step": (
        "equivalent: what is carried lies in a row or in memory of its own, which nobody reuses"
    ),
    "lowering/output_placement: a product is written over its factor": (
        "equivalent in numbers: ndarray.dot copies where its output overlaps a factor"
    ),
    "loops/residual_rematerialisation: dear equations are computed again": _COST,
    "loops/dce_licm: larger arrays are hoisted": _COST,
    "kernels/reductions: pieces are larger than OpenBLAS does alone": _COST,
}
