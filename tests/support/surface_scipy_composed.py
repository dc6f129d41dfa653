"""Calls of SciPy's functions that are not ufuncs: solvers, distributions of counts and of vectors,
quadrature. `COMPOSED` has the calls by namespace; `EXCLUDED` the reasons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from surface_table import Case, draw

V, M = draw(4), draw(3, 4)
SQUARE = draw(3, 3) + np.diag([1.0, 2.0, 3.5])
SYMMETRIC = (SQUARE + SQUARE.T) / 2.0
POSITIVE = SYMMETRIC + 2.0 * np.eye(3)
RATE = np.float64(0.7)
PIVOTS = np.arange(3, dtype=np.int32)
COUNTS = np.array([0, 2, 3])
SIMPLEX = np.array([0.2, 0.5, 0.3])

SPECIAL: dict[str, Case] = {
    name: Case((V + 0.3,), lambda f, x: f(2, x))
    for name in "polygamma spherical_in spherical_jn spherical_kn spherical_yn zeta".split()
}
SPECIAL |= {name: Case((V,)) for name in "factorial softplus".split()}
SPECIAL |= {name: Case((V + 3.0, V)) for name in "comb perm".split()}
SPECIAL |= {
    name: Case((M,), lambda f, x: f(x, axis=1)) for name in "log_softmax logsumexp softmax".split()
}
SPECIAL |= {
    "diric": Case((V,), lambda f, x: f(x, 3)),
    "lambertw": Case((V,), lambda f, x: f(x).real),
    "multigammaln": Case((V + 2.0,), lambda f, a: f(a, 3)),
}

LINALG: dict[str, Case] = {
    "cho_factor": Case((POSITIVE,), lambda f, a: f((a + a.T) / 2.0)[0] * np.tri(3, dtype="f4").T),
    "eig": Case((SQUARE,), lambda f, a: np.abs(f(a)[1])),
    "eigh_tridiagonal": Case((V * 5.0, draw(3, seed=1)), lambda f, d, e: f(d, e)[1] ** 2),
    "eigvals": Case((SQUARE,), lambda f, a: np.real(f(a))),
    "eigvalsh_tridiagonal": Case((V * 5.0, draw(3, seed=1))),
    "lu_factor": Case((SQUARE,), lambda f, a: f(a)[0]),
    "lu_solve": Case((SQUARE, draw(3)), lambda f, lu, b: f((lu, PIVOTS), b)),
    "orth": Case((SQUARE,), lambda f, a: np.abs(f(a)), vmap=False, staged=False),
    "orthogonal_procrustes": Case((SQUARE, SYMMETRIC)),
    "rq": Case((SQUARE,)),
    "signm": Case((SQUARE - 2.5 * np.eye(3),)),
}


def falling(k: Any) -> Any:
    """The right-hand side of y' = -k y y."""
    return lambda t, y: -k * y * y


TIGHT = {"rtol": 1e-10, "atol": 1e-10}
INTEGRATE: dict[str, Case] = {
    "fixed_quad": Case((RATE,), lambda f, k: f(lambda x: np.exp(-k * x), 0.0, 1.0)[0]),
    "odeint": Case(
        (draw(2), RATE),
        lambda f, y, k: f(falling(k), y, np.linspace(0, 0.1, 3), tfirst=True, **TIGHT),
        order=1,
    ),
    "quad": Case((RATE,), lambda f, k: f(lambda x: np.exp(-k * x), 0.0, 1.0)[0]),
    "solve_ivp": Case(
        (draw(2), RATE), lambda f, y, k: f(falling(k), (0.0, 0.02), y, t_eval=[0.02], **TIGHT).y
    ),
}

INTERPOLATE: dict[str, Case] = {
    "BSpline": Case((V, draw(3) + 3.0), lambda f, c, at: f(np.arange(8.0), c, 3)(at)),
    "PPoly": Case((draw(3, 4), draw(3) + 1.0), lambda f, c, at: f(c, np.arange(5.0))(at)),
}

SIGNAL: dict[str, Case] = {
    "istft": Case((M,), lambda f, z: f(z, nperseg=4)[1].real),
    "sosfilt_zi": Case((draw(1, 6),), lambda f, s: f(np.where(np.arange(6) == 3, 1.0, s))),
}

STATS: dict[str, Case] = {
    f"{name}.{method}": Case((draw(2),), lambda f, p, method=method: getattr(f, method)(1, p))
    for name in "bernoulli geom poisson".split()
    for method in ("logpmf", "cdf")
}
STATS |= {
    "betabinom.logpmf": Case((draw(2), draw(2)), lambda f, a, b: f.logpmf(3, 7, a, b)),
    "binom.cdf": Case((draw(2),), lambda f, p: f.cdf(3, 7, p)),
    "binom.logpmf": Case((draw(2),), lambda f, p: f.logpmf(3, 7, p)),
    "dirichlet.logpdf": Case((draw(3),), lambda f, a: f.logpdf(SIMPLEX, a)),
    "entropy": Case((draw(4), draw(4, seed=1))),
    "gaussian_kde.logpdf": Case((draw(6), draw(3)), lambda f, data, x: f(data).logpdf(x)),
    "mode": Case((V,), lambda f, x: f(x).mode),
    "multinomial.logpmf": Case((draw(3),), lambda f, p: f.logpmf(COUNTS, 5, p / np.sum(p))),
    "multivariate_normal.logpdf": Case(
        (draw(3), draw(3, seed=1), POSITIVE),
        lambda f, x, m, c: f.logpdf(x, m, (c + np.swapaxes(c, -1, -2)) / 2.0),
    ),
    "nbinom.cdf": Case((draw(2) + 2.0, draw(2)), lambda f, n, p: f.cdf(3, n, p)),
    "nbinom.logpmf": Case((draw(2) + 2.0, draw(2)), lambda f, n, p: f.logpmf(3, n, p)),
    "rankdata": Case((V,), order=0),
    "sem": Case((M,)),
    "wishart.logpdf": Case(
        (POSITIVE, SYMMETRIC + 3.0 * np.eye(3)),
        lambda f, x, c: f.logpdf((x + x.T) / 2.0, 5.0, (c + c.T) / 2.0),
    ),
}

COMPOSED = {
    "special": SPECIAL,
    "linalg": LINALG,
    "integrate": INTEGRATE,
    "interpolate": INTERPOLATE,
    "signal": SIGNAL,
    "stats": STATS,
}
EXCLUDED = {"signal.savgol_coeffs": "takes whole numbers alone"}
