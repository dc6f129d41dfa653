"""`finite`, a value that is checked for infinities and NaN when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.ir.types import Type
from fungrad.primitives.primitive import Primitive, general


def _eval_finite(x: Any, *, solution: bool = False) -> Any:
    if not np.all(np.isfinite(x)):
        if solution:
            raise np.linalg.LinAlgError("singular matrix")
        raise ValueError("array must not contain infs or NaNs")
    return x


finite: Primitive = general(
    "finite",
    eval=_eval_finite,
    type=lambda x, **options: Type(x.shape, x.dtype, x.weak),
    vjp=lambda ct, y, args, wanted, **options: [ct],
    jvp=lambda primals, tangents, **options: (finite(*primals, **options), tangents[0]),
    batch=lambda args, batched, size, **options: finite(args[0], **options),
)
"""`finite(x, solution=False)`: x unchanged; ValueError if it holds infinities or NaN, as SciPy's
check_finite; LinAlgError for the solution of an equation."""
