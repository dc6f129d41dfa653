"""Samples of the spherical Bessel functions."""

from __future__ import annotations

import numpy as np
from sampling import C128, F32, F64, add, draw

import fungrad.scipy.special  # noqa: F401 - its primitives are declared when it is imported

for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
    for shape, dtype in (((3,), F64), ((), F64), ((2, 1), F32), ((3,), C128)):
        add(name, 2, draw(name, shape, dtype, 0.5, 3))
    add(name, np.array([0, 1, 3]), draw(name, (2, 1), F64, 0.5, 3))
