"""Who is arrested again, and when: a Weibull regression of lifelines, differentiated as it is.

Needs lifelines, which is written for autograd: here it finds fungrad under that name, so that the
fit itself takes its gradients from fungrad.

>>> import fungrad as fg
>>> from fungrad.compat import autograd
>>> installed = autograd.install()
>>> from lifelines import WeibullAFTFitter
>>> from lifelines.datasets import load_rossi
>>> people = load_rossi()
>>> model = WeibullAFTFitter().fit(people, "week", "arrest")
>>> best = model.params_.to_numpy()
>>> print(f"{log_likelihood(best, model, people):.2f} {model.log_likelihood_:.2f}")
-679.92 -679.92
>>> curvature = fg.jacrev(fg.grad(log_likelihood))(best, model, people)
>>> spread = np.linalg.inv(-curvature)                 # the covariance of the estimates
>>> np.allclose(np.sqrt(np.diag(spread)), model.standard_errors_)
True
>>> first = people[:1]                                 # how likely he is free after a year
>>> value, slope = fg.value_and_grad(at_liberty)(best, model, first)
>>> print(f"{value:.3f} +- {np.sqrt(slope @ spread @ slope):.3f}")
0.714 +- 0.054
>>> float(model.predict_survival_function(first, times=[52.0]).squeeze().round(3))
0.714
"""

import numpy as np


def inputs(parameters, model, people):
    """Arguments of lifelines' functions: parameters and covariates, by distribution parameter."""
    names = model.params_.loc["lambda_"].index
    table = people.assign(Intercept=1.0)[names].to_numpy(float)
    ones = np.ones((len(people), 1))
    return {"lambda_": parameters[:-1], "rho_": parameters[-1:]}, {"lambda_": table, "rho_": ones}


def log_likelihood(parameters, model, people):
    """Of weeks until the next arrest, or until the end of the study."""
    parts, covariates = inputs(parameters, model, people)
    weeks, arrested = people["week"].to_numpy(float), people["arrest"].to_numpy(bool)
    hazards = model._log_hazard(parts, weeks, covariates)
    return np.sum(arrested * hazards - model._cumulative_hazard(parts, weeks, covariates))


def at_liberty(parameters, model, person, weeks=52.0):
    """The probability that a person has not been arrested after so many weeks."""
    parts, covariates = inputs(parameters, model, person)
    return model._survival_function(parts, weeks, covariates)[0]
