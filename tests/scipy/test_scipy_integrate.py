"""fungrad.scipy.integrate without differential equations: SciPy's numbers and dtypes, and the
derivatives of rules and of integrals.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate

import fungrad as fg
from fungrad.errors import UnsupportedArgumentError
from fungrad.scipy import integrate
from fungrad.testing import check_grads

SAMPLED = ("trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson")


def points(shape, axis=-1, seed=0):
    return np.cumsum(np.random.default_rng(seed).uniform(0.3, 1.0, shape), axis)


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 9])
def test_the_rules_are_scipys(name, count):
    ours, theirs = getattr(integrate, name), getattr(scipy.integrate, name)
    random = np.random.default_rng(count)
    for shape, axis in (((count,), -1), ((2, count), 1), ((count, 2), 0)):
        y = random.normal(size=shape)
        for options in ({}, {"dx": 0.3}, {"x": points(count)}, {"x": points(shape, axis)}):
            expected = np.asarray(theirs(y, axis=axis, **options))
            for f in (ours, lambda y, o=options, a=axis: fg.jit(lambda v: ours(v, axis=a, **o))(y)):
                found = f(y, axis=axis, **options) if f is ours else f(y)
                assert np.shape(found) == expected.shape
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("count", [5, 6])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "complex64"])
def test_dtypes_are_scipys(name, count, dtype):
    y = np.arange(1, count + 1).astype(dtype) ** 2
    expected = getattr(scipy.integrate, name)(y)
    for f in (getattr(integrate, name), fg.jit(getattr(integrate, name))):
        assert f(y).dtype == expected.dtype
        np.testing.assert_allclose(f(y), expected, rtol=1e-6)


def test_initial_values_and_steps_by_line():
    y = np.random.default_rng(1).normal(size=(2, 6))
    step = np.array([[0.5], [2.0]])
    for initial in (None, 0, 2.0, step):
        np.testing.assert_allclose(
            integrate.cumulative_simpson(y, dx=step, initial=initial),
            scipy.integrate.cumulative_simpson(y, dx=step, initial=initial),
        )
    np.testing.assert_allclose(
        integrate.cumulative_trapezoid(y, axis=0, initial=0),
        scipy.integrate.cumulative_trapezoid(y, axis=0, initial=0),
    )
    eight = np.random.default_rng(2).normal(size=(9, 2))
    np.testing.assert_allclose(
        integrate.romb(eight, 0.5, axis=0), scipy.integrate.romb(eight, 0.5, axis=0)
    )


def test_rules_differentiate_by_values_and_points():
    x, y = points(6), np.random.default_rng(3).normal(size=6)
    for f in (
        integrate.trapezoid,
        integrate.simpson,
        integrate.cumulative_trapezoid,
        lambda y, x: integrate.cumulative_simpson(y, x=x, initial=x[0]),
        lambda y, x: integrate.romb(y[:5], x[0]),
    ):
        check_grads(f, [y, x])
        rows = fg.vmap(lambda row, f=f: f(row, x))(np.stack([y, 2 * y]))
        np.testing.assert_allclose(rows[1], f(2 * y, x), rtol=1e-12)


def test_equal_points_count_nothing():
    x = np.array([0.0, 1.0, 1.0, 2.0])
    y = np.array([1.0, 2.0, 3.0, 5.0])
    np.testing.assert_allclose(integrate.simpson(y, x), scipy.integrate.simpson(y, x))
    assert np.isfinite(fg.grad(integrate.simpson)(y, x)).all()


def test_mistakes_in_samples():
    y = np.ones(4)
    for call in (
        lambda m: m.simpson(y, x=np.arange(3.0)),
        lambda m: m.simpson(y, x=np.ones((2, 4))),
        lambda m: m.cumulative_trapezoid(y, x=np.arange(3.0)),
        lambda m: m.cumulative_trapezoid(np.zeros(0)),
        lambda m: m.cumulative_trapezoid(y, initial=1),
        lambda m: m.cumulative_simpson(y, x=np.zeros(4)),
        lambda m: m.cumulative_simpson(y, dx=np.ones(3)),
        lambda m: m.cumulative_simpson(y, initial=np.ones(3)),
        lambda m: m.romb(y),
    ):
        for module in (scipy.integrate, integrate):
            with pytest.raises(ValueError):
                call(module)


# --- integrals of functions -----------------------------------------------------------------------


def bell(x, rate):
    return np.exp(-rate * x**2)


@pytest.mark.slow
def test_quad_and_its_derivatives():
    expected = scipy.integrate.quad(bell, 0.2, 1.4, (0.7,))
    assert integrate.quad(bell, 0.2, 1.4, (0.7,)) == expected
    traced = fg.jit(lambda rate: integrate.quad(bell, 0.2, 1.4, rate))(0.7)
    np.testing.assert_allclose(traced, expected)
    check_grads(lambda a, b, rate: integrate.quad(bell, a, b, (rate,))[0], [0.2, 1.4, 0.7])

    def closed_over(p):
        return integrate.quad(lambda x: bell(x, p["rate"]) * np.cos(p["w"] @ p["w"] * x), 0, 1)[0]

    check_grads(closed_over, [{"rate": 0.7, "w": np.array([0.5, 1.0])}])


def test_errors_of_a_users_function_leave_without_fungrads_frames():
    assert integrate.quad.__code__ is integrate.solve_ivp.__code__  # that of `boundary`


def test_quad_to_infinity():
    def moment(rate):
        return integrate.quad(bell, -np.inf, np.inf, (rate,))[0]

    rates = np.array([0.5, 2.0])
    np.testing.assert_allclose(fg.vmap(moment)(rates), np.sqrt(np.pi / rates), rtol=1e-9)
    slopes = -0.5 * np.sqrt(np.pi) * rates**-1.5
    for g in (fg.grad(moment), fg.jit(fg.grad(moment)), fg.jacfwd(moment)):
        np.testing.assert_allclose(fg.vmap(g)(rates), slopes, rtol=1e-8)
    assert fg.grad(lambda b: integrate.quad(bell, 0.0, b, 1.0)[0])(np.inf) == 0.0


def test_quad_with_points():
    def kinked(at):
        return integrate.quad(lambda x: np.abs(x - at) ** 3, 0.0, 1.0, points=[0.3])[0]

    np.testing.assert_allclose(fg.grad(kinked)(0.3), 0.3**3 - 0.7**3, rtol=1e-7)


def test_quad_refuses_what_it_does_not_know():
    weighted = integrate.quad(np.exp, 0.0, 1.0, weight="cos", wvar=2.0)
    assert weighted == scipy.integrate.quad(np.exp, 0.0, 1.0, weight="cos", wvar=2.0)
    with pytest.raises(UnsupportedArgumentError, match="weight, wvar"):
        fg.grad(lambda b: integrate.quad(np.exp, 0.0, b, weight="cos", wvar=2.0)[0])(1.0)


def test_fixed_quad():
    expected = scipy.integrate.fixed_quad(bell, 0.2, 1.4, (0.7,), n=6)[0]
    assert integrate.fixed_quad(bell, 0.2, 1.4, (0.7,), n=6)[0] == pytest.approx(expected)
    check_grads(lambda a, b, rate: integrate.fixed_quad(bell, a, b, (rate,))[0], [0.2, 1.4, 0.7])
    with pytest.raises(ValueError, match="finite limits"):
        integrate.fixed_quad(np.exp, -np.inf, 0.0)


def test_the_namespace_is_scipys():
    assert integrate.dblquad is scipy.integrate.dblquad
    assert {"dblquad", "simpson", "solve_ivp"} <= set(dir(integrate))
    with pytest.raises(AttributeError):
        integrate.simpsons  # noqa: B018 - the access is what is tested


def test_an_integrand_that_branches_on_its_point():
    def f(p):
        def g(t):  # a check of its argument, as packages have it
            if np.any(np.atleast_1d(t) < 0):
                raise ValueError
            return np.exp(-p[0] * t) * p[1]

        return scipy.integrate.quad(g, 0.0, 2.0)[0] + scipy.integrate.quad(g, 0.0, np.inf)[0]

    p = np.array([1.2, 0.7])
    check_grads(f, [p])
    assert np.isclose(fg.value_and_grad(f)(p)[0], f(p), rtol=1e-14)
    compiled = fg.jit(fg.grad(f))
    for q in (p, p * 1.1):
        np.testing.assert_allclose(compiled(q), fg.grad(f)(q))


def test_an_integrand_with_several_paths_is_an_error():
    def f(p):
        return scipy.integrate.quad(lambda t: p * t if t < 1 else p * t**2, 0.0, 2.0)[0]

    with pytest.raises(fg.errors.AbstractBooleanError):
        fg.grad(f)(2.0)


def test_an_integrand_whose_traced_value_only_a_call_finds():
    class Model:
        pass

    def f(p):
        model = Model()
        model.inner = Model()
        model.inner.inner = Model()
        model.inner.inner.inner = {"p": p}
        Model.of = model
        return scipy.integrate.quad(lambda t: Model.of.inner.inner.inner["p"] ** 2 * t, 0, 1)[0]

    assert np.isclose(fg.grad(f)(3.0), 3.0) and np.isclose(fg.jit(fg.grad(f))(3.0), 3.0)
