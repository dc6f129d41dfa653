"""Every function that autograd differentiates works here: value, both modes to order 2, vmap, jit.

The names stand in parity_names.txt; calls of NumPy's main namespace in surface_table.py, all others
below. Special functions of SciPy are called as SciPy's own wherever they are ufuncs.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.special as sp
import scipy.stats
from surface_table import CASES as SURFACE

import fungrad as fg
from fungrad.scipy import integrate, linalg, signal, special, stats
from fungrad.support import pytree
from fungrad.testing import check_grads

NAMES = [
    line
    for line in Path(__file__)
    .with_name("parity_names.txt")
    .read_text(encoding="utf-8")
    .splitlines()
    if not line.startswith("#") and (line != "numpy.row_stack" or hasattr(np, "row_stack"))
]
random = np.random.default_rng(11)


def draw(*shape, low=0.3, high=0.9):
    return random.uniform(low, high, shape)


M = draw(3, 3) + np.diag([1.0, 2.0, 3.5])
SQUARE = M @ M.T
V = draw(4)
CASES = {}


def case(name, f, *args, reference=None, order=2, batch=True, **options):
    """f(*args); `reference` is NumPy's or SciPy's own where f is not."""
    CASES[name] = (f, args, reference, order, batch, options)


for _name in NAMES:
    _short = _name.removeprefix("numpy.")
    if _name.startswith("numpy.") and _short in SURFACE:
        _case = SURFACE[_short]
        _f = getattr(np, _short)
        if _case.call is not None:
            _f = lambda *args, f=_f, call=_case.call: call(f, *args)  # noqa: E731
        case(_name, _f, *_case.args, order=_case.order, batch=_case.vmap)

# --- the rest of NumPy ----------------------------------------------------------------------------

case(
    "numpy.array",
    lambda x: fg.numpy.array([[x[0], x[1] * x[2]], [1.0, x[3]]]),
    V,
    reference=lambda x: np.array([[x[0], x[1] * x[2]], [1.0, x[3]]]),
)
case(
    "numpy.full",
    lambda x: fg.numpy.full((2, 3), x),
    np.float64(0.7),
    reference=lambda x: np.full((2, 3), x),
)
case(
    "numpy.c_",
    lambda x, y: fg.numpy.c_[x, y * x],
    V,
    V[::-1],
    reference=lambda x, y: np.c_[x, y * x],
)
case(
    "numpy.r_",
    lambda x, y: fg.numpy.r_[x, 1.0, y * x],
    V,
    V[::-1],
    reference=lambda x, y: np.r_[x, 1.0, y * x],
)
# autograd's own name for diagonal matrices along the last axes
case("numpy.make_diagonal", lambda x: x[..., None] * np.eye(x.shape[-1]), draw(2, 3))

for _name in ("det", "inv", "norm", "cholesky", "pinv"):
    case(f"numpy.linalg.{_name}", getattr(np.linalg, _name), SQUARE)
case("numpy.linalg.cholesky", lambda a: np.linalg.cholesky((a + a.T) / 2), SQUARE)
case("numpy.linalg.eig", lambda a: [np.abs(x) for x in np.linalg.eig(a)], M, order=1)
case("numpy.linalg.eigh", lambda a: [np.abs(x) for x in np.linalg.eigh((a + a.T) / 2)], SQUARE)
case("numpy.linalg.slogdet", lambda a: np.linalg.slogdet(a)[1], M)
case("numpy.linalg.solve", np.linalg.solve, M, draw(3, 2))
case("numpy.linalg.svd", lambda a: [np.abs(x) for x in np.linalg.svd(a, full_matrices=False)], M)
for _name in [n for n in NAMES if n.startswith("numpy.fft.")]:
    _f = getattr(np.fft, _name.rpartition(".")[2])
    case(_name, _f, draw(4, 4))

# --- scipy.special --------------------------------------------------------------------------------

for _name, _domains in {
    "beta": ((0.5, 3), (0.6, 2)), "betaln": ((0.5, 3), (0.6, 2)), "betainc": ((0.5, 3),) * 2
    + ((0.2, 0.8),), "digamma": ((0.5, 3),), "psi": ((0.5, 3),), "erf": ((-2, 2),),
    "erfc": ((-2, 2),), "erfinv": ((-0.8, 0.8),), "erfcinv": ((0.2, 1.8),), "expit": ((-3, 3),),
    "logit": ((0.1, 0.9),), "gamma": ((0.5, 3),), "gammaln": ((0.5, 3),), "rgamma": ((0.5, 3),),
    "gammainc": ((0.5, 3), (0.5, 3)), "gammaincc": ((0.5, 3), (0.5, 3)), "i0": ((-2, 2),),
    "i1": ((-2, 2),), "j0": ((-3, 3),), "j1": ((-3, 3),), "y0": ((0.5, 3),), "y1": ((0.5, 3),),
}.items():  # fmt: skip
    case(
        f"scipy.special.{_name}", getattr(sp, _name), *[draw(4, low=a, high=b) for a, b in _domains]
    )
for _name in ("iv", "ive", "jn", "yn"):
    _f = getattr(sp, _name)
    case(f"scipy.special.{_name}", lambda x, f=_f: f(2, x), draw(4, low=0.5, high=3))
case("scipy.special.gammasgn", sp.gammasgn, draw(4, low=-2.5, high=3), order=0)
case(
    "scipy.special.logsumexp",
    lambda x: special.logsumexp(x, axis=0),
    draw(3, 2),
    reference=lambda x: sp.logsumexp(x, axis=0),
)
case(
    "scipy.special.multigammaln",
    lambda a: special.multigammaln(a, 3),
    np.float64(2.7),
    reference=lambda a: sp.multigammaln(a, 3),
)
case(
    "scipy.special.polygamma",
    lambda x: special.polygamma(2, x),
    draw(4, low=0.5, high=3),
    reference=lambda x: sp.polygamma(2, x),
)

# --- scipy.linalg, signal, integrate --------------------------------------------------------------

case(
    "scipy.linalg.solve_banded",
    lambda ab, b: linalg.solve_banded((1, 1), ab, b),
    draw(3, 4) + np.array([[0.0], [3.0], [0.0]]),
    draw(4, 2),
    reference=lambda ab, b: scipy.linalg.solve_banded((1, 1), ab, b),
)
case(
    "scipy.linalg.solve_sylvester",
    linalg.solve_sylvester,
    M,
    SQUARE,
    draw(3, 3),
    reference=scipy.linalg.solve_sylvester,
)
case(
    "scipy.linalg.solve_triangular",
    lambda a, b: linalg.solve_triangular(a, b, lower=True),
    M,
    draw(3, 2),
    reference=lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True),
)
case("scipy.linalg.sqrtm", linalg.sqrtm, SQUARE, reference=scipy.linalg.sqrtm)
case("scipy.signal.convolve", signal.convolve, draw(5), draw(3), reference=scipy.signal.convolve)
TIMES = np.linspace(0.0, 0.4, 3)


def _motion(module):
    def solve(y0, k):
        return module.odeint(lambda y, t, k: -k * y * y, y0, TIMES, args=(k,), **TIGHT)

    return solve


TIGHT = {"rtol": 1e-11, "atol": 1e-11}
case(
    "scipy.integrate.odeint",
    _motion(integrate),
    draw(2),
    np.float64(0.8),
    order=1,
    reference=_motion(scipy.integrate),
    rtol=1e-7,
)

# --- scipy.stats ----------------------------------------------------------------------------------

COUNTS = np.array([0, 2, 3])
SIMPLEX = np.array([0.2, 0.5, 0.3])
SHAPES = {
    "beta": ((0.2, 0.8), (0.8, 2), (0.8, 2)),
    "chi2": ((0.5, 3), (1.5, 4)),
    "gamma": ((0.5, 3), (0.8, 2)),
    "norm": ((-2, 2), (-1, 1), (0.6, 2)),
    "t": ((-2, 2), (2, 5), (-1, 1), (0.6, 2)),
}
for _name in [n for n in NAMES if n.startswith("scipy.stats.")]:
    _family, _method = _name.split(".")[2:]
    _ours, _theirs = (getattr(getattr(s, _family), _method) for s in (stats, scipy.stats))
    if _family in SHAPES:
        case(
            _name,
            _ours,
            *[draw(3, low=a, high=b) for a, b in SHAPES[_family]],
            reference=_theirs,
            rtol=1e-9,
        )
    elif _family == "poisson":
        case(
            _name,
            lambda mu, f=_ours: f(COUNTS, mu),
            draw(3, low=0.5, high=3),
            reference=lambda mu, f=_theirs: f(COUNTS, mu),
            rtol=1e-9,
        )
    elif _family == "dirichlet":
        case(
            _name,
            lambda a, f=_ours: f(SIMPLEX, a),
            draw(3, low=0.8, high=2),
            reference=lambda a, f=_theirs: f(SIMPLEX, a),
            rtol=1e-9,
        )
    elif _method == "entropy":
        case(
            _name,
            lambda c, f=_ours: f(np.zeros(3), (c + np.swapaxes(c, -1, -2)) / 2),
            SQUARE,
            reference=lambda c, f=_theirs: f(np.zeros(3), c),
            rtol=1e-9,
        )
    else:
        case(
            _name,
            lambda x, m, c, f=_ours: f(x, m, (c + np.swapaxes(c, -1, -2)) / 2),
            draw(3),
            draw(3),
            SQUARE,
            reference=lambda x, m, c, f=_theirs: f(x, m, c),
            rtol=1e-9,
        )


def test_the_table_is_the_list():
    assert set(CASES) == set(NAMES)
    assert len(NAMES) == 217 + hasattr(np, "row_stack")  # which NumPy 2.5 removed


@pytest.mark.parametrize("name", NAMES)
def test_parity(name):
    f, args, reference, order, batch, options = CASES[name]
    rtol = options.get("rtol", 1e-12)
    expected = pytree.leaves((reference or f)(*args))
    for found in (fg.vjp(f, *args)[0], fg.jit(f)(*args)):
        for x, y in zip(pytree.leaves(found), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
    if order:
        check_grads(f, args, order=order)
    if batch:
        stacked = [np.stack([a, a * 1.01]) if np.asarray(a).dtype.kind in "fc" else
                   np.stack([a, a]) for a in args]  # fmt: skip
        rows = [pytree.leaves(f(*[s[i] for s in stacked])) for i in range(2)]
        for x, pair in zip(
            pytree.leaves(fg.vmap(f)(*stacked)), zip(*rows, strict=True), strict=True
        ):
            np.testing.assert_allclose(x, np.stack(pair), rtol=max(rtol, 1e-9), atol=1e-9)


def test_a_flat_function_has_a_gradient_of_zeros():
    assert not np.any(fg.grad(lambda x: np.sum(sp.gammasgn(x)))(V))
    assert math.isclose(fg.grad(sp.gamma)(1.0), sp.digamma(1.0))
