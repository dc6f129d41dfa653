"""Advice where LAPACK gives up. Knows errors and reverse mode's frames."""

from __future__ import annotations

import numpy as np


def no_factor(error: BaseException, line: str) -> set[str]:
    """Advice where LAPACK found a matrix singular, or not positive definite.

    `line` is the user's, as text. Nothing where the error is another one, or has its note.
    """
    if not isinstance(error, np.linalg.LinAlgError) or hasattr(error, "__notes__"):
        return set()
    traceback, behind = error.__traceback__, ""
    while traceback is not None:
        known = traceback.tb_frame.f_locals
        if traceback.tb_frame.f_code.co_name == "walk" and "cotangent" in known:
            behind = f" in the derivative of `{known['primitive'].name}`"
        traceback = traceback.tb_next
    return {
        f"LAPACK met such a matrix{behind}{line}. Where a matrix has no inverse, or no such "
        "factor, these functions have no derivative. Keep it regular, as by a + 1e-9 * np.eye(n), "
        "or take pinv or lstsq; fg.why(f)(*args) names the line of the function."
    }


__all__ = ["no_factor"]
