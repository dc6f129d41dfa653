"""Mutants of the compiler that no test notices, and why."""

from __future__ import annotations

_COST = "equivalent in numbers: only the cost is another"

ALIVE: dict[str, str] = {
    "numpy_backend/liveness: carries die in the step": (
        "equivalent: what is carried lies in a row or in memory of its own, which nobody reuses"
    ),
    "loops/residual_rematerialisation: expensive equations are recomputed": _COST,
    "loops/dce_licm: larger arrays are hoisted": _COST,
}
