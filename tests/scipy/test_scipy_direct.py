"""SciPy's own Python functions called on traced values: right, or an error that names fungrad's
function; never a silent wrong number.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.spatial
import scipy.special as sp
import scipy.stats

import fungrad as fg
from fungrad.errors import UnsupportedFunctionError
from fungrad.scipy import linalg
from fungrad.support import pytree

X = np.array([0.3, 1.2, 0.7])
S = np.array([[2.0, 0.3, 0.1], [0.2, 3.0, 0.4], [0.5, 0.1, 4.0]])

WORKS = {
    "rosen": scipy.optimize.rosen,
    "rosen_der": scipy.optimize.rosen_der,
    "rosen_hess": scipy.optimize.rosen_hess,
    "zeta": lambda x: sp.zeta(2, x),
    "lambertw": lambda x: sp.lambertw(x).real,
    "jvp": lambda x: sp.jvp(1, x),
    "sinc": sp.sinc,
    "assoc_laguerre": lambda x: sp.assoc_laguerre(x, 3),
    "multivariate_normal": lambda x: scipy.stats.multivariate_normal.logpdf(x, np.zeros(3)),
    "toeplitz": lambda x: scipy.linalg.toeplitz(x),
    "block_diag": lambda x: scipy.linalg.block_diag(x, x),
    "norm": lambda x: scipy.linalg.norm(S * x),
    "khatri_rao": lambda x: scipy.linalg.khatri_rao(S * x, S),
}
REFUSED = {
    "special.logsumexp": lambda x: sp.logsumexp(x),
    "special.log_softmax": lambda x: sp.log_softmax(x),
    "special.polygamma": lambda x: sp.polygamma(1, x),
    "special.multigammaln": lambda x: sp.multigammaln(x + 3, 2),
    "special.spherical_jn": lambda x: sp.spherical_jn(1, x),
    "special.comb": lambda x: sp.comb(x + 3, 2),
    "special.factorial": lambda x: sp.factorial(x),
    "special.diric": lambda x: sp.diric(x, 3),
    "linalg.expm": lambda x: scipy.linalg.expm(S * x),
    "linalg.sqrtm": lambda x: scipy.linalg.sqrtm(S * x),
    "linalg.logm": lambda x: scipy.linalg.logm(S * x),
    "linalg.solve": lambda x: scipy.linalg.solve(S * x, x),
    "linalg.cho_factor": lambda x: scipy.linalg.cho_factor(S * x)[0],
    "linalg.det": lambda x: scipy.linalg.det(S * x),
    "linalg.inv": lambda x: scipy.linalg.inv(S * x),
    "linalg.lu": lambda x: scipy.linalg.lu(S * x)[2],
    "linalg.qr": lambda x: scipy.linalg.qr(S * x)[1],
    "linalg.svdvals": lambda x: scipy.linalg.svdvals(S * x),
    "linalg.solve_triangular": lambda x: scipy.linalg.solve_triangular(S * x, x),
    "linalg.cho_solve": lambda x: scipy.linalg.cho_solve((S, True), x),
    "stats.norm.logpdf": lambda x: scipy.stats.norm.logpdf(x),
    "stats.norm.logpdf ": lambda x: scipy.stats.norm.logpdf(1.0, scale=x),
    "stats.norm.cdf": lambda x: scipy.stats.norm(0.0, 2.0).cdf(x),
    "stats.gamma.logpdf": lambda x: scipy.stats.gamma.logpdf(x, 2.0),
    "stats.dirichlet.logpdf": lambda x: scipy.stats.dirichlet.logpdf(np.ones(3) / 3, x),
    "stats.poisson.logpmf": lambda x: scipy.stats.poisson.logpmf(3, x),
    "interpolate.interp1d": lambda x: scipy.interpolate.interp1d(np.arange(5.0), np.ones(5))(x),
}
UNSPECIFIED = ("linalg.cho_factor", "interpolate.interp1d")
"""Where SciPy leaves anything in a part of the result, and an object of plain numbers of SciPy's,
whose code asks for branches.
"""


def total(f):
    return lambda x: sum(np.sum(v * v) for v in pytree.leaves(f(x)))


def works(f):
    expected = f(X)
    steps = [1e-6 * e for e in np.eye(3)]
    slope = [(total(f)(X + h) - total(f)(X - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(fg.grad(total(f))(X), slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(fg.jit(f)(X), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(fg.vmap(f)(X[None])[0], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", WORKS)
def test_what_works_unchanged(name):
    works(WORKS[name])


@pytest.mark.parametrize("name", [n for n in REFUSED if n not in UNSPECIFIED])
def test_what_fungrad_has_works_unchanged(name):
    works(REFUSED[name])


@pytest.fixture
def unintercepted():
    fg.config.intercept = False
    yield
    fg.config.intercept = True


@pytest.mark.parametrize("transform", [fg.grad, fg.jit, lambda f: lambda x: fg.vmap(f)(x[None])])
@pytest.mark.parametrize("name", REFUSED)
def test_without_interception_an_error_names_what_to_take(name, transform, unintercepted):
    package, _, function = name.strip().partition(".")
    with pytest.raises(UnsupportedFunctionError) as caught:
        transform(total(REFUSED[name]))(X)
    first = str(caught.value).splitlines()[0]
    called = f"{package}.{function}"
    assert first.startswith(f"scipy.{called} was called on a traced value at {__file__}")
    assert f"Take fungrad.scipy.{called}, with the same arguments" in first
    assert isinstance(caught.value.__cause__, Exception)  # SciPy's own words stand above


def test_softmax_is_right():
    found = fg.jacobian(lambda x: sp.softmax(x))(X)
    p = sp.softmax(X)
    np.testing.assert_allclose(found, np.diag(p) - np.outer(p, p), atol=1e-14)
    np.testing.assert_allclose(fg.jit(lambda x: sp.softmax(x))(X), p, rtol=1e-14)


@pytest.mark.parametrize("name", ["hessenberg", "schur", "ldl"])
def test_a_function_that_fungrad_has_not_says_so(name):
    function = getattr(linalg, name)
    assert function is getattr(scipy.linalg, name)
    for transform in (fg.grad, fg.jit):
        with pytest.raises(Exception) as caught:
            transform(lambda x: np.sum(function(S * x)[0]))(X)
        expected = f"fungrad has no linalg.{name} of its own"
        assert expected in str(caught.value)


MATRIX = scipy.sparse.csr_array(S)
NOT_HERE = {
    "fft.fht": lambda x: scipy.fft.fht(x, 0.1, 0.0),
    "linalg.ldl": lambda x: scipy.linalg.ldl(S * x)[0],
}


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_fungrad_has_not_is_not_advised(name):
    with pytest.raises(Exception) as caught:
        fg.grad(total(NOT_HERE[name]))(X)
    assert f"fungrad has no {name} of its own: wrap SciPy's by fg.external" in str(caught.value)


def test_a_sparse_matrix():
    product = fg.external(lambda x: MATRIX @ x, vjp=lambda ct, y, x: (MATRIX.T @ ct,))
    for f in (product, lambda x: MATRIX @ x):
        np.testing.assert_allclose(fg.grad(total(f))(X), 2.0 * S.T @ (S @ X), rtol=1e-12)


def test_a_mistake_that_has_nothing_to_do_with_traced_values():
    with pytest.raises(np.linalg.LinAlgError) as caught:
        scipy.linalg.inv(np.zeros((2, 2)))
    assert not getattr(caught.value, "__notes__", ())


@pytest.mark.slow
def test_scipys_own_dispatch():
    """With SCIPY_ARRAY_API=1 SciPy asks the namespace of a traced value for its functions."""
    script = (
        "import numpy as np, scipy.special as sp, fungrad as fg\n"
        "x = np.array([0.3, 1.2, 0.7])\n"
        "for f, slope in (\n"
        "    (sp.gammaln, sp.digamma),\n"
        "    (sp.digamma, lambda x: sp.polygamma(1, x)),\n"
        "    (sp.psi, lambda x: sp.polygamma(1, x)),\n"
        "    (lambda x: sp.polygamma(1, x), lambda x: sp.polygamma(2, x)),\n"
        "    (sp.erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x)),\n"
        "    (lambda x: sp.multigammaln(x + 3, 1), lambda x: sp.digamma(x + 3)),\n"
        "):\n"
        "    np.testing.assert_allclose(fg.grad(lambda x: np.sum(f(x)))(x), slope(x), rtol=1e-10)\n"
        "    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-12)\n"
        "p = sp.softmax(x)\n"
        "found = fg.jit(fg.jacobian(sp.softmax))(x)\n"
        "np.testing.assert_allclose(found, np.diag(p) - np.outer(p, p), atol=1e-14)\n"
    )
    root = str(Path(fg.__file__).parents[1])
    env = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
