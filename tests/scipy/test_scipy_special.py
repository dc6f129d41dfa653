"""scipy.special on traced values: called as SciPy's own, exact where formulas cancel, and refused
where no derivative is known. The rules at ordinary points are tested in test_rules.py.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import samples_special
import scipy.optimize
import scipy.special as sp
from same_numbers import assert_same_numbers

import fungrad as fg
from fungrad import lax
from fungrad.errors import MissingRuleError
from fungrad.scipy import special
from fungrad.testing import check_grads

SCIPY_NAMES = {"bessel_i0": "i0", "bessel_i1": "i1"}


def run(script):
    root = str(Path(fg.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": root}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# --- SciPy's own functions, called on traced values -----------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.numpy_backend] if name == "digamma" else [])
        for name in samples_special.SPECIAL
    ],
)
def test_a_ufunc_called_directly(name):
    domains = samples_special.SPECIAL[name]
    f = getattr(sp, SCIPY_NAMES.get(name, name))
    args = [np.linspace(low, high, 3) for low, high in domains]
    assert_same_numbers(fg.jit(f)(*args), f(*args))
    np.testing.assert_array_equal(fg.vmap(f)(*args), f(*args))
    np.testing.assert_array_equal(fg.vjp(f, *args)[0], f(*args))
    gradient = fg.grad(lambda *xs: np.sum(f(*xs)))
    np.testing.assert_allclose(fg.jit(gradient)(*args), gradient(*args), rtol=1e-13)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(*args), gradient(*args), rtol=1e-13)
    check_grads(f, [a[1] for a in args], order=2)


@pytest.mark.parametrize("name", samples_special.ORDERED)
def test_a_ufunc_with_parameters_called_directly(name):
    orders, domain = samples_special.ORDERED[name]
    f, x = getattr(sp, name), np.linspace(*domain, 3)
    np.testing.assert_array_equal(fg.jit(f)(*orders, x), f(*orders, x))
    batched = fg.vmap(f, in_axes=(*[None] * len(orders), 0))
    np.testing.assert_array_equal(batched(*orders, x), f(*orders, x))
    check_grads(lambda x: f(*orders, x), [x], order=2)
    with pytest.raises(MissingRuleError, match=rf"scipy\.special\.{name}.*with respect to its"):
        fg.grad(lambda p: f(p, *orders[1:], 0.4))(float(orders[0]))


def test_names_that_scipy_has_twice():
    for f in (sp.psi, sp.digamma):
        assert float(fg.grad(f)(1.0)) == pytest.approx(np.pi**2 / 6)
    for f, g in (
        (sp.expm1, np.expm1),
        (sp.log1p, np.log1p),
        (sp.cbrt, np.cbrt),
        (sp.exp2, np.exp2),
    ):
        assert float(fg.grad(f)(0.3)) == float(fg.grad(g)(0.3))
    np.testing.assert_allclose(fg.grad(lambda z: np.real(sp.lambertw(z)))(0.0), 1.0)
    np.testing.assert_allclose(fg.grad(lambda q: sp.zeta(2.0, q))(1.0), -2 * sp.zeta(3.0))


@pytest.mark.parametrize("q", [0.003, 0.7, 1.0, 40.0, 1500.0])
@pytest.mark.parametrize("x", [1.0 + 1e-6, 1.1, 2.0, 7.5, 60.0])
def test_the_derivative_of_zeta_by_its_exponent(x, q):
    with mpmath.workdps(300):
        exact = mpmath.zeta(mpmath.mpf(x), mpmath.mpf(q), derivative=1)
        assert abs(fg.grad(sp.zeta)(x, q) / exact - 1) < 1e-15


@pytest.mark.parametrize("x", [-27.5, -4.0, -1.3, -0.3, 0.0, 0.4, 0.99, 1.01, 3.0, 60.0])
@pytest.mark.parametrize("f", [sp.zeta, sp.zetac])
def test_the_derivative_of_the_riemann_zeta_function(f, x):
    with mpmath.workdps(40):
        slopes = [mpmath.zeta(mpmath.mpf(x), 1, derivative=order) for order in (1, 2)]
        assert abs(fg.grad(f)(x) / slopes[0] - 1) < 1e-13
        assert abs(fg.grad(fg.grad(f))(x) / slopes[1] - 1) < 1e-12


def test_zeta_has_no_real_derivative_where_its_sum_has_none():
    with np.errstate(all="raise"):
        assert np.isnan(fg.grad(sp.zeta)(2.0, -0.5)) and np.isnan(fg.grad(sp.zeta)(1.0))


def test_code_that_scipy_wrote_in_python():
    x = np.array([0.3, -1.0, 2.0])
    check_grads(sp.softmax, [x], order=2)
    np.testing.assert_allclose(fg.jacobian(sp.softmax)(x), fg.jacobian(special.softmax)(x))
    np.testing.assert_allclose(fg.grad(scipy.optimize.rosen)(x), scipy.optimize.rosen_der(x))
    np.testing.assert_allclose(fg.hessian(scipy.optimize.rosen)(x), scipy.optimize.rosen_hess(x))


def test_float32_stays_float32():
    x = np.float32([0.5, 1.5])
    for f in (sp.gammaln, sp.erf, sp.expit, sp.j1, lambda x: sp.jv(2, x), special.logsumexp):
        assert fg.grad(lambda x, f=f: np.sum(f(x)))(x).dtype == np.float32
        assert fg.jit(f)(x).dtype == f(x).dtype == np.float32


# --- SciPy comes when it is needed ----------------------------------------------------------------


@pytest.mark.slow
def test_scipy_is_met_by_its_first_call():
    script = (
        "import sys, fungrad as fg\n"
        "assert not any(m.startswith(('scipy', 'fungrad.scipy')) for m in sys.modules)\n"
        "import scipy.special as sp\n"
        "print(float(fg.grad(sp.gammaln)(1.0)) == float(sp.digamma(1.0)))\n"
        "print('fungrad.scipy.special' in sys.modules)\n"
    )
    assert run(script) == ["True", "True"]


@pytest.mark.slow
def test_scipy_is_not_imported_for_what_can_do_without():
    script = (
        "import sys, numpy as np, fungrad as fg\n"
        "sp, x = fg.scipy.special, np.linspace(-4.0, 4.0, 20_001)\n"
        "erf = sp.erf\n"
        "f, g = lambda x: np.sum(erf(x) * np.exp(x)), lambda x: erf(x) ** 2\n"
        "large, number = fg.jit(fg.grad(f))(x), fg.jit(fg.grad(g))(0.5)\n"
        "print(np.sum(fg.grad(sp.logsumexp)(x[:2])), sp.erfc.__name__, sp.erfc)\n"
        "print(any(name.startswith('scipy') for name in sys.modules))\n"
        "print(np.allclose(fg.grad(f)(x), large, rtol=1e-14), fg.grad(g)(0.5) == number)\n"
        "import scipy.special\n"
        "print(sp.erf is scipy.special.erf, erf.nin, hasattr(erf, '__wrapped__'))\n"
        "print(fg.grad(scipy.special.erf)(0.5) == fg.grad(erf)(0.5) == fg.grad(sp.erf)(0.5))\n"
        "print(erf([0.0], out=np.ones(1)), fg.grad(sp.zeta, 1)(2.0, 1.0) < 0.0)\n"
    )
    assert run(script) == [
        *("1.0", "erfc", "<ufunc", "'erfc'>"),
        "False",
        *("True", "True"),
        *("True", "1", "False"),
        "True",
        *("[0.]", "True"),
    ]


@pytest.mark.slow
def test_a_graph_of_scipy_functions_is_pickled():
    text = pickle.dumps(fg.make_jaxpr(sp.gammaln)(1.5)).hex()
    script = f"import pickle, fungrad as fg; g = pickle.loads(bytes.fromhex({text!r}))\n"
    assert run(script + "print(float(fg.evaluate(g, 1.5)[0]))\n") == [repr(float(sp.gammaln(1.5)))]


@pytest.mark.parametrize("name", ["special", "optimize", "stats"])
def test_without_scipy(name):
    script = (
        "import sys\n"
        f"for name in ('scipy', 'scipy.{name}'): sys.modules[name] = None\n"
        "import numpy as np, fungrad as fg\n"
        "assert float(fg.grad(np.sin)(0.0)) == 1.0\n"
        "from fungrad.errors import MissingExtraError\n"
        f"try: import fungrad.scipy.{name}\n"
        "except MissingExtraError as error: assert \"pip install 'fungrad[scipy]'\" in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    run(script)


def test_a_ufunc_without_a_formula_is_named():
    with pytest.raises(MissingRuleError, match=r"scipy\.special\.smirnov .* with respect to its d"):
        fg.grad(lambda d: sp.smirnov(5, d))(0.5)


def test_complex_numbers_where_there_is_no_rule():
    with pytest.raises(MissingRuleError, match="erfcx was differentiated at complex"):
        fg.jvp(sp.erfcx, (1.0 + 1.0j,), (1.0 + 0.0j,))
    check_grads(sp.erf, [np.array([0.3 + 0.4j])], order=2)
    check_grads(lambda z: sp.jv(1, z), [np.array([0.3 + 0.4j])], order=2)


# --- points at which a formula would cancel or overflow, against mpmath at 50 digits --------------

HARD = {
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), (-3.0, 0.0, 24.9, 25.1, 300.0, 1e5)),
    "dawsn": (
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
        (-26.0, 0.0, 24.9, 25.1, 40.0),
    ),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), (-30.0, -5.0, 0.0, 3.0, 8.0)),
    "rgamma": (mpmath.rgamma, (-3.0, -1.0, 0.0, 0.4, 0.6, 3.0, -2.5)),
    "gammaln": (mpmath.loggamma, (1.0, 2.0, 1e-8, 1e8)),
    "exprel": (lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1), (1e-9, -20.0, 20.0)),
    "ellipk": (mpmath.ellipk, (-50.0, 0.0, 1e-9, 0.999)),
    "ellipe": (mpmath.ellipe, (-50.0, 0.0, 1e-9, 0.999)),
    "spence": (lambda z: mpmath.polylog(2, 1 - z), (0.01, 1.001, 1.9)),
    "log_expit": (lambda x: -mpmath.log1p(mpmath.exp(-x)), (-30.0, 0.0, 30.0)),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), (-30.0, 0.0, 30.0)),
    "j1": (lambda x: mpmath.besselj(1, x), (0.0, 1e-8, 50.0)),
    "i1": (lambda x: mpmath.besseli(1, x), (0.0, 1e-8, 50.0)),
    "digamma": (mpmath.digamma, (-0.5, 1e-3, 1e6)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_points(name):
    exact, points = HARD[name]
    first = fg.grad(getattr(sp, name))
    second = fg.grad(first)
    with mpmath.workdps(50):
        for x in points:
            for f, n, rtol in ((first, 1, 1e-11), (second, 2, 1e-7)):
                expected = float(mpmath.diff(exact, mpmath.mpf(x), n).real)
                np.testing.assert_allclose(
                    f(x), expected, rtol=rtol, atol=1e-60, err_msg=f"{name} {n} at {x}"
                )


def test_far_out_nothing_is_nan():
    with np.errstate(all="ignore"):
        for f, x, expected in (
            (sp.log_ndtr, 60.0, 0.0), (sp.log_ndtr, -1e5, 1e5), (sp.expit, 800.0, 0.0),
            (sp.expit, -800.0, 0.0), (sp.log_expit, -800.0, 1.0), (sp.erfcx, 1e10, 0.0),
            (sp.erf, 100.0, 0.0), (sp.spence, 1.0, -1.0), (sp.exprel, 0.0, 0.5),
        ):  # fmt: skip
            np.testing.assert_allclose(fg.grad(f)(x), expected, rtol=1e-9, atol=1e-19)
            assert np.isfinite(fg.grad(fg.grad(f))(x))


def test_kinks_and_edges():
    with np.errstate(all="ignore"):
        assert fg.grad(sp.i0e)(0.0) == 0.0  # the mean of both sides
        assert fg.grad(sp.xlogy, argnums=(0, 1))(0.0, 0.0) == (-np.inf, 0.0)
        assert fg.grad(sp.xlogy, argnums=1)(0.0, 2.0) == 0.0
        assert fg.grad(fg.grad(sp.xlogy, argnums=1))(0.0, 2.0) == 0.5
        assert fg.grad(sp.xlog1py, argnums=1)(0.0, -1.0) == 0.0
        assert fg.grad(sp.entr)(0.0) == np.inf
        assert fg.grad(sp.rel_entr, argnums=1)(0.0, 0.0) == 0.0
        assert fg.grad(sp.kl_div, argnums=1)(0.0, 0.0) == 1.0
        assert fg.grad(sp.huber, argnums=1)(1.0, 1.0) == 1.0
        masked = fg.grad(lambda x: np.sum(np.where(x > 0, sp.xlogy(x, x), 0.0)))
        np.testing.assert_array_equal(masked(np.array([0.0, 1.0])), [0.0, 1.0])


# --- SciPy's Python functions, from fungrad.scipy.special -----------------------------------------

A = np.array([[0.3, -1.2, 2.0], [1.0, 0.1, -0.4]])
B = np.array([0.5, 2.0, 1.5])
SUMS = [{}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1), "keepdims": True}, {"axis": 1, "b": B}]


@pytest.mark.parametrize("options", SUMS)
def test_logsumexp(options):
    def f(a):
        return special.logsumexp(a, **options)

    expected = sp.logsumexp(A, **options)
    for found in (f(A), fg.jit(f)(A), fg.vjp(f, A)[0], fg.vmap(f)(np.stack([A, 2 * A]))[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert np.shape(found) == np.shape(expected)
    check_grads(f, [A], order=2)
    check_grads(lambda b: special.logsumexp(A, axis=1, b=b), [B], order=2)


def test_logsumexp_with_signs():
    b = np.array([1.0, -1.0, -3.0])
    for axis in (0, 1, None):
        found = fg.jit(lambda a, axis=axis: special.logsumexp(a, axis, b, return_sign=True))(A)
        for x, y in zip(found, sp.logsumexp(A, axis, b, return_sign=True), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13)
    check_grads(lambda a: special.logsumexp(a, 1, b, return_sign=True)[0], [A], order=2)


def test_logsumexp_at_infinity():
    low = np.full(3, -np.inf)
    value, gradient = fg.value_and_grad(special.logsumexp)(low)
    assert value == -np.inf
    np.testing.assert_array_equal(gradient, 0.0)
    np.testing.assert_array_equal(
        fg.grad(special.logsumexp)(np.array([-np.inf, 1e300, 1e300])), [0.0, 0.5, 0.5]
    )
    assert fg.jit(special.logsumexp)(np.zeros(0)) == -np.inf
    np.testing.assert_allclose(fg.jit(special.logsumexp)(np.array([1, 2])), sp.logsumexp([1, 2]))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_softmax(name, axis):
    def f(x):
        return getattr(special, name)(x, axis=axis)

    expected = getattr(sp, name)(A, axis=axis)
    for found in (f(A), fg.jit(f)(A), fg.vjp(f, A)[0], fg.vmap(f)(A[None])[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
    check_grads(f, [A], order=2)
    assert np.all(np.isfinite(fg.jacobian(f)(1e4 * A)))


def test_polygamma_of_many_orders():
    x = np.linspace(0.5, 3.0, 4)
    orders = np.array([0, 1, 2, 5])
    for n in (orders, orders.astype(float), np.zeros(4), 2.0, orders[:, None], np.zeros((2, 1))):

        def f(x, n=n):
            return special.polygamma(n, x)

        for found in (fg.vjp(f, x)[0], fg.jit(f)(x), fg.vmap(f, in_axes=1)(np.stack([x, x], 1))[0]):
            np.testing.assert_allclose(found, sp.polygamma(n, x), rtol=1e-14)
        check_grads(f, [x], order=2)
    assert fg.jit(special.polygamma, static_argnums=0)(2, np.float32(0.5)).dtype == np.float32
    np.testing.assert_allclose(fg.grad(lambda x: lax.polygamma(2.0, x))(0.5), sp.polygamma(3, 0.5))


def test_polygamma_of_traced_orders():
    x, orders = np.linspace(0.5, 3.0, 4), np.array([0, 1, 2, 5])
    for n in orders:
        np.testing.assert_allclose(fg.jit(special.polygamma)(n, x), sp.polygamma(n, x), rtol=1e-14)
    found = fg.vmap(special.polygamma, in_axes=(0, None))(orders, x)
    np.testing.assert_allclose(found, sp.polygamma(orders[:, None], x), rtol=1e-14)
    slopes = fg.vmap(fg.grad(lambda x, n: special.polygamma(n, x)), in_axes=(None, 0))(0.7, orders)
    np.testing.assert_allclose(slopes, sp.polygamma(orders + 1, 0.7), rtol=1e-13)
    assert fg.jit(special.polygamma)(2, np.float32(0.5)).dtype == np.float32


def test_polygamma_and_multigammaln():
    x = np.array([0.7, 2.5])
    for n in (0, 1, 2, 3):
        np.testing.assert_allclose(
            fg.jit(lambda x, n=n: special.polygamma(n, x))(x), sp.polygamma(n, x), rtol=1e-14
        )
        slope = fg.grad(lambda x, n=n: np.sum(special.polygamma(n, x)))(x)
        np.testing.assert_allclose(slope, sp.polygamma(n + 1, x), rtol=1e-14)
    assert special.multigammaln(2.5, 2) == pytest.approx(sp.multigammaln(2.5, 2))
    check_grads(lambda a: special.multigammaln(a, 3), [2.7], order=2)
    check_grads(lambda x: np.abs(special.lambertw(x, -1)), [-0.2], order=2)


def test_comb_with_repetition():
    for n, k in ((0.0, 0.0), (0.5, 0.0), (-1.0, 0.0), (0.0, 1.0), (3.0, 2.0), (-2.5, 1.0)):
        expected = sp.comb(n, k, repetition=True)
        for run in (fg.jit, lambda f: lambda *a: fg.vjp(f, *a)[0]):
            found = run(lambda n, k: special.comb(n, k, repetition=True))(n, k)
            np.testing.assert_allclose(found, expected, rtol=1e-14)
    check_grads(lambda n, k: special.comb(n, k, repetition=True), [3.3, 1.7], order=2)


def test_the_namespace_is_scipys():
    assert special.gammaln is sp.gammaln
    assert special.roots_legendre is sp.roots_legendre
    assert {"gammaln", "logsumexp"} <= set(dir(special))
