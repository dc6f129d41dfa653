"""statsmodels with exact scores and Hessians of likelihoods that you write with NumPy."""

from __future__ import annotations

from typing import Any

from fungrad.interop.vector_functions import VectorFunction


class ExactDerivatives:
    """The exact score and Hessian of a model: a base class before GenericLikelihoodModel.

    Your class defines the log-likelihood, `loglikeobs(params)` or `nloglikeobs(params)`, an array
    with a number for each observation. `fit(method="newton")`, `"bfgs"` and the others, the
    covariance and robust covariances use these derivatives.

    >>> import numpy as np
    >>> from statsmodels.base.model import GenericLikelihoodModel
    >>> class Exponential(ExactDerivatives, GenericLikelihoodModel):
    ...     def loglikeobs(self, params):
    ...         rate = np.exp(self.exog @ params)
    ...         return np.log(rate) - rate * self.endog
    >>> model = Exponential(np.array([0.5, 1.5, 2.0, 4.0]), np.ones((4, 1)))
    >>> fit = model.fit(start_params=[0.0], method="newton", disp=False)
    >>> print(fit.params.round(4), fit.bse.round(4))
    [-0.6931] [0.5]
    """

    loglike: Any
    loglikeobs: Any

    def score(self, params: Any) -> Any:
        """The gradient of the log-likelihood: float64[n]."""
        return self._exact("loglike").gradient(params)

    def score_obs(self, params: Any, **options: Any) -> Any:
        """The derivatives of each observation's log-likelihood: float64[m, n].

        Args:
          params: float64[n].
          options: of statsmodels' differences, which are not used.
        """
        return self._exact("loglikeobs").jacobian(params)

    def hessian(self, params: Any) -> Any:
        """The second derivatives of the log-likelihood: float64[n, n]."""
        return self._exact("loglike").hessian(params)

    def _exact(self, name: str) -> VectorFunction:
        derivatives = self.__dict__.setdefault("_exact_derivatives", {})
        if name not in derivatives:
            derivatives[name] = VectorFunction(getattr(self, name))
        made: VectorFunction = derivatives[name]
        return made


__all__ = ["ExactDerivatives"]
