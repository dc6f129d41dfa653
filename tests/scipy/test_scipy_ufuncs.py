"""Every ufunc of scipy.special, called directly on traced values: a table holds each of them, with
the arguments in which it has derivatives, or the reason why it has none.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import samples_special
import scipy.special as sp
from samples_ufuncs import COARSE, NO_FORMULA, UFUNCS, arguments

import fungrad as fg
from fungrad.errors import MissingRuleError
from fungrad.support import pytree
from fungrad.testing import check_grads

ELSEWHERE = {
    "jn": "another name of jv",
    "psi": "another name of digamma",
    "cbrt": "NumPy's cbrt",
    "exp2": "NumPy's exp2",
    "expm1": "NumPy's expm1",
    "log1p": "NumPy's log1p",
    "i0": "bessel_i0 in samples_special",
    "i1": "bessel_i1 in samples_special",
    "stdtr": "declared in special_student",
    "stdtrit": "declared in special_student",
}
FLAT = {"round", "gammasgn"}


def public_ufuncs():
    return {name for name in dir(sp) if isinstance(getattr(sp, name), np.ufunc)}


def test_the_table_holds_every_ufunc():
    known = {*UFUNCS, *samples_special.SPECIAL, *samples_special.ORDERED, *ELSEWHERE}
    assert {name for name in public_ufuncs() if not name.startswith("_")} <= known
    assert len(public_ufuncs()) > 200


def call(name):
    """A ufunc as a function of its arguments that have derivatives, and such arguments."""
    dtype = np.complex128 if name == "wofz" else np.float64
    args = arguments(name, (3,), dtype)
    moved = [i for i, a in enumerate(args) if isinstance(a, np.ndarray)]

    def f(*values):
        given = list(args)
        for i, value in zip(moved, values, strict=True):
            given[i] = value
        return getattr(sp, name)(*given)

    return f, [args[i] for i in moved]


@pytest.mark.parametrize("name", [name for name in UFUNCS if name not in NO_FORMULA])
def test_a_ufunc_called_directly(name):
    f, args = call(name)
    expected = pytree.leaves(f(*args))
    assert all(np.all(np.isfinite(x)) for x in expected)
    for found in (fg.jit(f)(*args), fg.vmap(f)(*args), fg.vjp(f, *args)[0]):
        for x, y in zip(pytree.leaves(found), expected, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-13)
    if name in FLAT:
        assert not np.any(fg.grad(lambda *xs: np.sum(f(*xs)))(*args))
    elif name not in COARSE:
        check_grads(f, args, order=2)


@pytest.mark.parametrize(
    "name", [n for n, spec in UFUNCS.items() if not isinstance(spec[0], tuple)]
)
def test_an_argument_without_a_formula_is_refused(name):
    f, spec = getattr(sp, name), UFUNCS[name]
    rest = [np.mean(a) if isinstance(a, tuple) else a for a in spec[1:]]
    if name in ("eval_hermite", "eval_hermitenorm"):
        return  # whole numbers alone
    with pytest.raises((MissingRuleError, TypeError), match=f"{name}.*with respect to its|casting"):
        fg.jvp(lambda x: f(x, *rest), (float(spec[0]),), (1.0,))


@pytest.mark.parametrize("name", NO_FORMULA)
def test_without_a_formula_it_is_batched_and_compiled(name):
    f = getattr(sp, name)
    args = [np.full(2, a) for a in UFUNCS[name]]
    for found in (fg.jit(f)(*args), fg.vmap(f)(*args)):
        np.testing.assert_array_equal(found, f(*args))


def test_inverses_are_consistent():
    """Inverses that SciPy computes too coarsely for differences: by the reciprocal derivative."""
    for f, g, at, position in (
        (sp.ncfdtrinc, sp.ncfdtr, (3.0, 5.0, 0.3, 2.0), 2),
        (sp.chndtrinc, sp.chndtr, (7.0, 3.0, 0.5), 2),
    ):
        found = float(f(*at))
        there = (*at[:2], found, *at[3:])
        slope = fg.grad(lambda p, f=f, at=at: f(*at[:2], p, *at[3:]))(at[position])
        direct = fg.grad(lambda nc, g=g, at=at: g(*at[:2], nc, *at[3:]))(there[position])
        np.testing.assert_allclose(slope * direct, 1.0, rtol=2e-4)


# --- hard points, against mpmath ------------------------------------------------------------------

mp = mpmath.mpf
HARD = {
    "boxcox at lambda 0": (lambda k: sp.boxcox(2.0, k), lambda k: _power(2, k), 0.0, 1e-12),
    "boxcox near 0": (lambda k: sp.boxcox(2.0, k), lambda k: _power(2, k), 1e-9, 1e-12),
    "ellipkinc at m 0": (
        lambda m: sp.ellipkinc(0.7, m), lambda m: mpmath.ellipf(mp("0.7"), m), 0.0, 1e-12,
    ),
    "ellipeinc at m 0": (
        lambda m: sp.ellipeinc(0.7, m), lambda m: mpmath.ellipe(mp("0.7"), m), 0.0, 1e-12,
    ),
    "ellipkinc past pi": (
        lambda m: sp.ellipkinc(7.0, m), lambda m: mpmath.ellipf(mp(7), m), 0.3, 1e-11,
    ),
    "ellipkm1 near 0": (
        sp.ellipkm1, lambda p: mpmath.ellipk(1 - p), 1e-12, 1e-11,
    ),
    "agm of equals": (lambda b: sp.agm(1.5, b), lambda b: mpmath.agm(mp("1.5"), b), 1.5, 1e-12),
    "agm of unequals": (lambda b: sp.agm(1e3, b), lambda b: mpmath.agm(1000, b), 0.1, 1e-9),
    "sici at 0": (lambda x: sp.sici(x)[0], mpmath.si, 0.0, 1e-14),
    "sici far": (lambda x: sp.sici(x)[0], mpmath.si, 200.0, 1e-9),
    "shichi at 0": (lambda x: sp.shichi(x)[0], mpmath.shi, 0.0, 1e-14),
    "bei at 0": (sp.beip, lambda x: mpmath.diff(lambda t: mpmath.bei(0, t), x), 1e-3, 1e-9),
    "expn of order 0": (lambda x: sp.expn(0, x), lambda x: mpmath.expint(0, x), 0.5, 1e-12),
    "chebyu at 1": (
        lambda x: sp.eval_chebyu(4, x), lambda x: mpmath.chebyu(4, x), 1.0, 1e-12,
    ),
    "legendre at -1": (
        lambda x: sp.eval_legendre(5, x), lambda x: mpmath.legendre(5, x), -1.0, 1e-12,
    ),
    "voigt far out": (
        lambda x: sp.voigt_profile(x, 1.0, 0.5),
        lambda x: _voigt(x, 1, mp("0.5")), 300.0, 1e-9,
    ),
    "voigt without width": (
        lambda x: sp.voigt_profile(x, 0.0, 0.5),
        lambda x: mp("0.5") / mpmath.pi / (x * x + mp("0.25")), 0.7, 1e-12,
    ),
    "owens_t": (
        lambda a: sp.owens_t(0.7, a),
        lambda a: mpmath.quad(
            lambda t: mpmath.exp(-mp("0.49") / 2 * (1 + t * t)) / (1 + t * t), [0, a]
        ) / (2 * mpmath.pi), 1.3, 1e-11,
    ),
    "elliprd of equals": (
        lambda x: sp.elliprd(x, 2.0, 2.0), lambda x: mpmath.elliprd(x, 2, 2), 2.0, 1e-11,
    ),
    "elliprj of equals": (
        lambda p: sp.elliprj(2.0, 2.0, 2.0, p), lambda p: mpmath.elliprj(2, 2, 2, p), 2.0, 1e-11,
    ),
    "elliprg at 0": (
        lambda y: sp.elliprg(0.0, y, 2.0), lambda y: mpmath.elliprg(0, y, 2), 1.0, 1e-11,
    ),
    "elliprc of a principal value": (
        lambda y: sp.elliprc(1.0, y), lambda y: mpmath.elliprc(1, y), -0.5, 1e-11,
    ),
    "chndtr of one degree": (
        lambda x: sp.chndtr(x, 1.0, 2.0), lambda x: _noncentral(x, 1, 2), 3.0, 1e-8,
    ),
}  # fmt: skip


def _power(x, k):
    return mpmath.log(x) if k == 0 else mpmath.expm1(k * mpmath.log(x)) / k


def _voigt(x, sigma, gamma):
    z = (x + 1j * gamma) / (sigma * mpmath.sqrt(2))
    w = mpmath.exp(-z * z) * mpmath.erfc(-1j * z)
    return w.real / (sigma * mpmath.sqrt(2 * mpmath.pi))


def _noncentral(x, df, nc):
    return mpmath.nsum(
        lambda j: mpmath.exp(-mp(nc) / 2) * (mp(nc) / 2) ** j / mpmath.factorial(j)
        * mpmath.gammainc(mp(df) / 2 + j, 0, x / 2, regularized=True),
        [0, mpmath.inf],
    )  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_hard_points(name):
    f, exact, x, rtol = HARD[name]
    with mpmath.workdps(40):
        expected = float(mpmath.diff(exact, mp(x)).real)
    np.testing.assert_allclose(fg.grad(f)(x), expected, rtol=rtol, err_msg=name)
    assert np.isfinite(fg.grad(fg.grad(f))(x))


def test_edges_of_distributions():
    with np.errstate(all="ignore"):
        assert fg.grad(sp.kolmogorov)(0.01) == 0.0
        np.testing.assert_allclose(fg.grad(sp.kolmogorov)(1.0), -1.0719492, rtol=1e-6)
        assert fg.grad(lambda x: sp.tklmbda(x, 1.0))(3.0) == 0.0
        assert fg.grad(lambda p: sp.bdtr(5, 5, p))(0.3) == 0.0
        assert np.isfinite(fg.grad(lambda t: sp.nctdtr(5.0, 1.0, t))(0.0))


def test_complex_arguments():
    z = np.array([0.6 + 0.4j, -0.5 + 1.2j])
    for f in (sp.airy, sp.sici, sp.fresnel, sp.wofz, sp.wrightomega, lambda z: sp.hankel1(1, z)):
        check_grads(f, [z], order=2)
    for f in (sp.elliprf, sp.elliprd, sp.elliprg):
        check_grads(f, [z * z.conj() + 0.3j, 1.2 + 0.1j, 0.7 - 0.2j], order=2)
    with pytest.raises(MissingRuleError, match="jve was differentiated at complex"):
        fg.jvp(lambda z: sp.jve(1, z), (z,), (z,))
