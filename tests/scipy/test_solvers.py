"""Functions of scipy.optimize on functions with traced values, against differences of SciPy's own
solutions: first and second order, both modes, jit, vmap.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import fungrad as fg
from fungrad.errors import AbstractValueError, ArgumentError, UnsupportedFunctionError

TIGHT = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
GRID = np.linspace(0.0, 1.0, 5)
SAMPLES = np.exp(-GRID) + 0.1 * np.sin(9 * GRID)


def cubic(a):
    return lambda v: v**3 + a * v - 5.0


def slope(a):
    return lambda v: 3 * v**2 + a


def both(a):
    return lambda v: (v**3 + a * v - 5.0, 3 * v**2 + a)


def system(a):
    return lambda v: [v[0] + a * v[1] - 3.0, v[0] * v[1] - a]


def matrix(a):
    return lambda v: np.array([[1.0, a], [v[1], v[0]]])


def hill(a):
    return lambda v: (v[0] - a) ** 2 + (v[1] - a * v[0]) ** 4 + 0.1 * np.exp(v[1])


def residuals(t):
    return lambda x: np.array([x[0] - t[0], x[0] * x[1] - t[1], np.sin(x[1]) * 2 - t[2]])


def decay(x, a, b):
    return a * np.exp(-b * x)


def branching(a):
    return optimize.brentq(lambda v: v**3 + a * v - 5.0 if v > 0 else v - 5.0, -1.0, 3.0)


class Holder:
    """Holds a traced value where only a call finds it."""

    def __init__(self, inner):
        self.inner = inner


def hidden(a):
    held = Holder(Holder(Holder(Holder(Holder({"a": a})))))
    return optimize.brentq(lambda v: held.inner.inner.inner.inner.inner["a"] * v**2 - 2.0, 0.0, 9.0)


START, T = [1.0, 0.5], np.array([1.0, 0.3, 1.7])
ROOTS = {
    **{
        name: (lambda a, name=name: getattr(optimize, name)(cubic(a), 0.0, 3.0) ** 2, 1.3)
        for name in ("brentq", "brenth", "ridder", "bisect", "toms748")
    },
    "traced bracket": (lambda a: optimize.brentq(lambda v, b: cubic(b)(v), 0.0, 3 * a, (a,)), 1.3),
    "full output": (lambda a: optimize.brentq(cubic(a), 0, 3, full_output=True)[1].root, 1.3),
    "secant": (lambda a: optimize.newton(cubic(a), 1.0), 1.3),
    "newton": (lambda a: optimize.newton(cubic(a), 1.0, fprime=slope(a)), 1.3),
    "newton of arrays": (lambda a: optimize.newton(cubic(a), a, fprime=slope(a)), [1.0, 2.0]),
    "root_scalar": (lambda a: optimize.root_scalar(cubic(a), bracket=[0, 3]).root, 1.3),
    "fprime=True": (lambda a: optimize.root_scalar(both(a), x0=1.0, fprime=True).root, 1.3),
    "fsolve": (lambda a: optimize.fsolve(system(a), [1.0, 1.2], xtol=1e-13), 1.3),
    "root": (lambda a: optimize.root(system(a), [1.0, 1.2], tol=1e-13).x, 1.3),
    "jac": (lambda a: optimize.root(system(a), [1, 1.2], jac=matrix(a), method="lm").x, 1.3),
    "fixed_point": (
        lambda a: optimize.fixed_point(lambda v: 0.7 * np.cos(a * v), 0.5, xtol=1e-13),
        1.3,
    ),
    "a traced value that only a call finds": (hidden, 1.3),
    "a branch": (branching, 1.3),
    "fungrad's": (lambda a: fg.scipy.optimize.root(system(a), [1.0, 1.2], tol=1e-13).x, 1.3),
}
MINIMA = {
    **{
        f"minimize {method}": (
            lambda a, m=method: optimize.minimize(hill(a), START, method=m, tol=1e-11).x,
            1.3,
        )
        for method in ("BFGS", "L-BFGS-B", "Nelder-Mead", "SLSQP")
    },
    "bounds": (
        lambda a: optimize.minimize(hill(a), START, bounds=[(0, 0.8 * a), (None, 3)], tol=1e-11).x,
        1.3,
    ),
    "fun": (lambda a: optimize.minimize(hill(a), START, tol=1e-10).fun, 1.3),
    "scalar": (lambda a: optimize.minimize_scalar(lambda v: (v - a) ** 4 + v**2).x, 1.3),
    "at a bound": (
        lambda a: optimize.minimize_scalar(lambda v: (v - a) ** 2, bounds=(0, 0.3 * a)).x,
        1.3,
    ),
    "fminbound": (lambda a: optimize.fminbound(lambda v: (v - a) ** 2 + v**4, -1, 3, (), 1e-12), 1),
    "fmin": (lambda a: optimize.fmin(hill(a), START, disp=0, xtol=1e-10, ftol=1e-14), 1.3),
    "least_squares": (lambda t: optimize.least_squares(residuals(t), START, **TIGHT).x, T),
    "loss": (
        lambda t: (
            optimize.least_squares(residuals(t), START, loss="cauchy", f_scale=0.3, **TIGHT).x
        ),
        T,
    ),
    "lm": (lambda t: optimize.least_squares(residuals(t), START, method="lm", **TIGHT).x, T),
    "active": (
        lambda t: (
            optimize.least_squares(residuals(t), [0.5, 0.5], bounds=([-1, -1], [0.7, 2]), **TIGHT).x
        ),
        T,
    ),
    "cost": (lambda t: optimize.least_squares(residuals(t), START).cost, T),
    "a number that does not enter": (
        lambda a: optimize.minimize(lambda v: (v[0] - a) ** 2, START).x,
        1.3,
    ),
    "curve_fit": (lambda y: optimize.curve_fit(decay, GRID, y, ftol=1e-14)[0], SAMPLES),
    "covariance": (
        lambda y: optimize.curve_fit(decay, GRID, y, sigma=1 + GRID)[1],
        SAMPLES,
    ),
}

SEARCHED = (
    "brenth", "ridder", "bisect", "toms748", "full output", "secant", "root_scalar",
    "newton", "root", "minimize L-BFGS-B", "minimize Nelder-Mead", "minimize SLSQP", "fmin",
    "lm",
)  # fmt: skip
"""Cases with the equation of another one: what does not depend on the search is compared there."""


def slopes(f, x, step=1e-5):
    """The Jacobian by central differences."""
    x = np.asarray(x, float)
    moved = np.eye(x.size).reshape((x.size, *x.shape)) * step
    columns = [np.asarray((f(x + d) - f(x - d)) / (2 * step)) for d in moved]
    return np.stack(columns, -1).reshape((*columns[0].shape, *x.shape))


def check(f, x, tolerance, batched=True, searched=False):
    x = np.asarray(x, float) if np.ndim(x) else float(x)
    other = x * 1.01
    close = {"rtol": tolerance, "atol": tolerance}
    np.testing.assert_allclose(fg.vjp(f, x)[0], f(x), rtol=1e-9)
    first = fg.jacrev(f)(x)
    np.testing.assert_allclose(first, slopes(f, x), **close)
    if searched:
        return
    np.testing.assert_allclose(fg.jacfwd(f)(x), first, rtol=1e-8, atol=1e-10)
    compiled = fg.jit(fg.jacrev(f))
    np.testing.assert_allclose(compiled(x), first, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(compiled(other), fg.jacrev(f)(other), rtol=1e-8, atol=1e-10)
    second = fg.jacobian(fg.jacobian(f))(x)
    size = np.max(np.abs(second)) + 1e-9
    np.testing.assert_allclose(
        second, slopes(fg.jacobian(f), x), rtol=10 * tolerance, atol=10 * tolerance * size
    )
    if batched:
        np.testing.assert_allclose(
            fg.vmap(f)(np.stack([x, other])), np.stack([f(x), f(other)]), rtol=1e-9
        )


@pytest.mark.parametrize("name", ROOTS)
def test_roots(name):
    f, x = ROOTS[name]
    check(f, x, 1e-5, name != "a branch", name in SEARCHED)


@pytest.mark.parametrize("name", MINIMA)
def test_minima(name):
    f, x = MINIMA[name]
    check(f, x, 3e-3, searched=name in SEARCHED)


def test_a_branch_under_vmap_is_an_error():
    with pytest.raises(AbstractValueError, match=r"a search of scipy\.optimize needs one value"):
        fg.vmap(branching)(np.array([1.0, 2.0]))


def test_what_has_not_converged_is_an_error():
    def f(a):
        return optimize.minimize(hill(a), START, method="Nelder-Mead", options={"maxiter": 3}).x[0]

    with pytest.raises(ArgumentError, match="has not converged"):
        fg.grad(f)(1.3)
    assert np.isnan(fg.jit(fg.grad(f))(1.3))


def test_a_minimum_that_is_not_the_only_one_is_an_error():
    def f(a):
        return optimize.minimize(lambda v: (v[0] + v[1] - a) ** 2, START).x[0]

    with pytest.raises(ArgumentError, match="not the only one"):
        fg.grad(f)(1.3)


def test_the_iterations_are_not_differentiated():
    """Gauss-Newton's steps converge before their derivative does, where residuals are left."""

    def f(t):
        return optimize.least_squares(residuals(t), START).x

    exact = fg.jacobian(lambda t: optimize.least_squares(residuals(t), START, **TIGHT).x)(T)
    np.testing.assert_allclose(fg.jacobian(f)(T), exact, rtol=1e-4)


@pytest.mark.parametrize(
    "search",
    [
        lambda a: optimize.minimize(
            lambda v: (v[0] - a) ** 2, [0.0], constraints={"type": "eq", "fun": lambda v: v[0] - a}
        ).x[0],
        lambda a: optimize.differential_evolution(lambda v: (v[0] - a) ** 2, [(0, 3)], rng=1).x[0],
        lambda a: optimize.fmin_slsqp(lambda v: (v[0] - a) ** 2, [0.0], disp=0)[0],
    ],
)
def test_a_search_without_an_equation_is_sent_to_others(search):
    with pytest.raises(UnsupportedFunctionError, match=r"scipy\.optimize\.minimize.*custom_root"):
        fg.grad(search)(2.0)


def test_plain_functions_are_scipys():
    def f(x):
        found = optimize.minimize(optimize.rosen, [1.2, 0.8], jac=optimize.rosen_der)
        return x * found.x[0] * found.jac.size

    assert np.isclose(fg.grad(f)(1.0), 2.0, atol=1e-4)
