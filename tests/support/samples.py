"""The samples of every primitive: the families' tables in one."""

from __future__ import annotations

import samples_arrays
import samples_elementwise
import samples_linalg
import samples_random
import samples_scipy
import samples_scipy_composed
import samples_scipy_linalg
import samples_sorting
import samples_special
import samples_structural
import samples_ufuncs
from sampling import SAMPLES, Sample

TABLES = (
    samples_arrays,
    samples_elementwise,
    samples_linalg,
    samples_random,
    samples_scipy,
    samples_scipy_composed,
    samples_scipy_linalg,
    samples_sorting,
    samples_special,
    samples_structural,
    samples_ufuncs,
)

__all__ = ["SAMPLES", "TABLES", "Sample"]
