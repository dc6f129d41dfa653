"""NumPy's floating-point error state: whether `np.errstate` asks for errors.

Programs on Python's numbers, whose sums and products overflow silently, ask it once a call.
"""

from __future__ import annotations

import contextvars
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath as _umath  # type: ignore[attr-defined]

state: Any = _umath._extobj_contextvar.get
"""The present state, an object that changes with it."""
USUAL: Any = contextvars.Context().run(state)
"""The state outside of `np.errstate`."""

_last: list[tuple[Any, bool]] = [(USUAL, False)]
"""The last state that was asked for, and whether errors raise there."""


def raises() -> bool:
    """Whether some floating-point error raises, or calls a function of the user's."""
    present = state()
    known, answer = _last[0]
    if present is not known:
        answer = not {"raise", "call"}.isdisjoint(np.geterr().values())
        _last[0] = (present, answer)
    return answer
