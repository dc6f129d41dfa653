"""Two fits of the same data beside each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from fungrad.fitting.tables import Rows, html_table, text_table
from fungrad.scipy.optional import scipy_module

_fdtrc = scipy_module("scipy.special").fdtrc


class Comparison:
    """Two fits of the same data, by information criteria and by the F test.

    Args:
      first, second: CurveFits.

    Attributes:
      aic, bic: a pair each; the smaller one is better.
      weight: the share of the first fit by AIC, between 0 and 1 (Burnham and Anderson 2002).
      f: the F statistic of the fit with more parameters; None if both have the same number.
      p: the probability of such an F or a larger one if the smaller model is true and nested in
        the larger one; None if there is no F.
    """

    def __init__(self, first: Any, second: Any) -> None:
        self.aic = (first.aic, second.aic)
        self.bic = (first.bic, second.bic)
        self.weight = float(1.0 / (1.0 + np.exp(0.5 * (first.aic - second.aic))))
        small, large = sorted((first, second), key=lambda fit: -fit.degrees_of_freedom)
        more, freedom = (
            small.degrees_of_freedom - large.degrees_of_freedom,
            large.degrees_of_freedom,
        )
        self.f: float | None = None
        self.p: float | None = None
        if more > 0 and freedom > 0:
            gain = (small.sum_of_squares - large.sum_of_squares) / more
            self.f = gain / (large.sum_of_squares / freedom)
            self.p = float(_fdtrc(more, freedom, max(self.f, 0.0)))
        self._columns: list[tuple[str, tuple[Any, Any]]] = [
            ("sum of squares", (first.sum_of_squares, second.sum_of_squares)),
            ("degrees of freedom", (first.degrees_of_freedom, second.degrees_of_freedom)),
            ("AIC", self.aic),
            ("BIC", self.bic),
        ]

    def _rows(self) -> Rows:
        rows = [(name, f"{a:<12.6g} {b:.6g}") for name, (a, b) in self._columns]
        if self.f is not None:
            rows.append(("F", f"{self.f:.6g}"))
            rows.append(("p", f"{self.p:.3g}"))
        return rows

    def __repr__(self) -> str:
        return text_table("Comparison: this fit, the other", self._rows())

    def _repr_html_(self) -> str:
        return html_table("Comparison: this fit, the other", self._rows())
