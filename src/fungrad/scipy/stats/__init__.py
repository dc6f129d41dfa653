"""scipy.stats for traced values (`fungrad.scipy.stats`). All other names are SciPy's."""

from fungrad.scipy.optional import rest_of_scipy
from fungrad.scipy.stats.bounded import beta as beta
from fungrad.scipy.stats.bounded import loguniform as loguniform
from fungrad.scipy.stats.bounded import truncnorm as truncnorm
from fungrad.scipy.stats.bounded import uniform as uniform
from fungrad.scipy.stats.bounded import vonmises as vonmises
from fungrad.scipy.stats.bounded import wrapcauchy as wrapcauchy
from fungrad.scipy.stats.continuous import cauchy as cauchy
from fungrad.scipy.stats.continuous import gennorm as gennorm
from fungrad.scipy.stats.continuous import gumbel_l as gumbel_l
from fungrad.scipy.stats.continuous import gumbel_r as gumbel_r
from fungrad.scipy.stats.continuous import laplace as laplace
from fungrad.scipy.stats.continuous import logistic as logistic
from fungrad.scipy.stats.continuous import norm as norm
from fungrad.scipy.stats.continuous import skewnorm as skewnorm
from fungrad.scipy.stats.continuous import t as t
from fungrad.scipy.stats.discrete import bernoulli as bernoulli
from fungrad.scipy.stats.discrete import betabinom as betabinom
from fungrad.scipy.stats.discrete import binom as binom
from fungrad.scipy.stats.discrete import geom as geom
from fungrad.scipy.stats.discrete import nbinom as nbinom
from fungrad.scipy.stats.discrete import poisson as poisson
from fungrad.scipy.stats.half_line import chi2 as chi2
from fungrad.scipy.stats.half_line import expon as expon
from fungrad.scipy.stats.half_line import f as f
from fungrad.scipy.stats.half_line import fisk as fisk
from fungrad.scipy.stats.half_line import gamma as gamma
from fungrad.scipy.stats.half_line import halfcauchy as halfcauchy
from fungrad.scipy.stats.half_line import halfnorm as halfnorm
from fungrad.scipy.stats.half_line import invgamma as invgamma
from fungrad.scipy.stats.half_line import invgauss as invgauss
from fungrad.scipy.stats.half_line import lognorm as lognorm
from fungrad.scipy.stats.half_line import lomax as lomax
from fungrad.scipy.stats.half_line import pareto as pareto
from fungrad.scipy.stats.half_line import rayleigh as rayleigh
from fungrad.scipy.stats.half_line import weibull_min as weibull_min
from fungrad.scipy.stats.multivariate import dirichlet as dirichlet
from fungrad.scipy.stats.multivariate import multinomial as multinomial
from fungrad.scipy.stats.multivariate import multivariate_normal as multivariate_normal
from fungrad.scipy.stats.multivariate import wishart as wishart
from fungrad.scipy.stats.summaries import entropy as entropy
from fungrad.scipy.stats.summaries import gaussian_kde as gaussian_kde
from fungrad.scipy.stats.summaries import mode as mode
from fungrad.scipy.stats.summaries import rankdata as rankdata
from fungrad.scipy.stats.summaries import sem as sem

__getattr__, __dir__ = rest_of_scipy(globals())
