"""fungrad.interop.lmfit: exact Jacobians through lmfit's own parameters, models and methods."""

from __future__ import annotations

import doctest
import json

import nist
import numpy as np
import pytest
from scipy.stats import norm

from fungrad.errors import ArgumentError

lmfit = pytest.importorskip("lmfit")
exact = pytest.importorskip("fungrad.interop.lmfit")

X = np.linspace(0.1, 9.0, 60)
RNG = np.random.default_rng(3)


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(exact).attempted > 8
    assert doctest.testmod(exact).failed == 0


def differences(f, params, *args, **kws):
    """Central differences of f by the parameters that vary."""
    columns = []
    for name in [p.name for p in params.values() if p.vary]:
        step = 1e-6 * max(1.0, abs(params[name].value))
        ends = []
        for sign in (1.0, -1.0):
            moved = params.copy()
            moved[name].value = params[name].value + sign * step
            moved.update_constraints()
            ends.append(np.asarray(f(moved, *args, **kws)))
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return np.stack(columns, axis=-1)


BUILT_IN = sorted(
    {model.__name__ for model in lmfit.models.lmfit_models.values()}
    - {"ExpressionModel", "SplineModel", "PolynomialModel", "Gaussian2dModel"}
    - {"ComplexConstantModel"}
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_in_models(name):
    model = getattr(lmfit.models, name)()
    params = model.make_params()
    for i, par in enumerate([p for p in params.values() if p.expr is None]):
        par.set(value=0.6 + 0.1 * i)
    y = model.eval(params, x=X) + 0.01 * np.cos(7.0 * X)
    found = exact.jacobian(model)(params, y, None, x=X)
    expected = differences(lambda p: model._residual(p, y, None, x=X), params)
    np.testing.assert_allclose(found, expected, atol=3e-8 * np.max(np.abs(expected)))


FORMS = [("StepModel", form) for form in ("linear", "atan", "erf", "logistic")]
FORMS += [("RectangleModel", form) for form in ("linear", "atan", "erf", "logistic")]
FORMS += [("ThermalDistributionModel", form) for form in ("bose", "maxwell", "fermi")]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_forms(name, form):
    model = getattr(lmfit.models, name)(form=form)
    params = model.make_params()
    for i, par in enumerate([p for p in params.values() if p.expr is None]):
        par.set(value=0.8 + 0.13 * i)
    y = np.cos(X)
    found = exact.jacobian(model)(params, y, None, x=X)
    expected = differences(lambda p: model._residual(p, y, None, x=X), params)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.max(np.abs(expected)))


def test_models_of_polynomials_splines_expressions_and_the_plane():
    knots = np.linspace(0.1, 9.0, 6)
    cases = [
        (lmfit.models.PolynomialModel(degree=4), {}),
        (lmfit.models.ExpressionModel("a * exp(-b * x) + sqrt(c)"), {"a": 1.0, "b": 0.3, "c": 2.0}),
    ]
    for model, start in cases:
        params = model.make_params(**start)
        for par in params.values():
            if not np.isfinite(par.value):
                par.set(value=0.3)
        found = exact.jacobian(model)(params, np.zeros(60), None, x=X)
        expected = differences(lambda p, m=model: m._residual(p, np.zeros(60), None, x=X), params)
        np.testing.assert_allclose(found, expected, atol=1e-7 * np.max(np.abs(expected)))
    plane = lmfit.models.Gaussian2dModel()
    params = plane.make_params(amplitude=2.0, centerx=3.0, centery=1.0, sigmax=1.5, sigmay=2.0)
    found = exact.jacobian(plane)(params, np.zeros(60), None, x=X, y=X[::-1])
    expected = differences(lambda p: plane._residual(p, np.zeros(60), None, x=X, y=X[::-1]), params)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    spline = lmfit.models.SplineModel(xknots=knots)
    params = spline.guess(np.sin(X), x=X)
    found = exact.jacobian(spline)(params, np.sin(X), None, x=X)
    expected = differences(lambda p: spline._residual(p, np.sin(X), None, x=X), params)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def composite():
    """Two peaks on a background, with a bound, a fixed parameter and two expressions."""
    model = lmfit.models.GaussianModel(prefix="a_") + lmfit.models.VoigtModel(prefix="b_")
    model = model * lmfit.models.ExponentialModel(prefix="e_") + lmfit.models.LinearModel()
    params = model.make_params(
        a_amplitude=3.0, a_center=3.0, a_sigma=0.7, b_center=6.0, b_sigma=0.5, slope=0.1,
        intercept=0.4, e_decay=20.0,
    )  # fmt: skip
    params["e_amplitude"].set(value=1.0, vary=False)
    params["a_sigma"].set(min=0.1, max=2.0)
    params["b_amplitude"].set(expr="2 * a_amplitude / sqrt(a_sigma)")
    params.add("ratio", expr="b_amplitude / (1 + a_amplitude)")
    return model, params


def test_composite_models_with_bounds_fixed_parameters_and_expressions():
    model, params = composite()
    y = model.eval(params, x=X) + 0.02 * RNG.normal(size=60)
    weights = np.linspace(10.0, 50.0, 60)
    dfun = exact.jacobian(model)
    found = dfun(params, y, weights, x=X)
    expected = differences(lambda p: model._residual(p, y, weights, x=X), params)
    assert found.shape == (60, len([p for p in params.values() if p.vary])) == (60, 8)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.max(np.abs(expected)))
    tight = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
    given = model.fit(y, params, x=X, weights=weights, fit_kws={"Dfun": dfun, **tight})
    plain = model.fit(y, params, x=X, weights=weights, fit_kws=tight)
    assert given.success
    for name in params:
        assert given.params[name].value == pytest.approx(plain.params[name].value, rel=1e-5)
        assert given.params[name].stderr == pytest.approx(plain.params[name].stderr, rel=2e-3)
    assert given.nfev < plain.nfev / 4
    area = model.fit(
        y, params, x=X, weights=weights, method="least_squares", fit_kws={"jac": dfun, **tight}
    )
    assert area.chisqr == pytest.approx(given.chisqr, rel=1e-10)


@pytest.mark.parametrize("method", ["bfgs", "lbfgsb", "cg", "newton", "tnc", "slsqp"])
def test_gradients_for_scalar_methods(method):
    def wave(params, x, y):
        amplitude, rate = params["amplitude"], params["rate"]
        return amplitude * np.sin(x * rate) * np.exp(-x * x * 0.01) - y

    params = lmfit.create_params(amplitude={"value": 4.0, "min": 0.0}, rate=2.02)
    y = 5.0 * np.sin(2.0 * X) * np.exp(-X * X * 0.01)
    fit = lmfit.minimize(
        wave, params, method, args=(X, y), Dfun=exact.gradient(wave), calc_covar=False
    )
    assert fit.params["amplitude"].value == pytest.approx(5.0, rel=3e-4)
    assert fit.params["rate"].value == pytest.approx(2.0, rel=1e-4)
    robust = exact.gradient(wave, lambda r: np.sum(np.log1p(r * r)))
    expected = differences(lambda p: np.sum(np.log1p(wave(p, X, y) ** 2)), params)
    np.testing.assert_allclose(robust(params, X, y), expected, rtol=1e-7)


def test_complex_residuals_are_pairs_of_numbers():
    def resonance(params, f):
        return params["a"] / (f - params["f0"] - 1j * params["width"])

    params = lmfit.create_params(a=1.0, f0=4.0, width=0.7)
    found = exact.jacobian(resonance)(params, X)
    expected = differences(lambda p: resonance(p, X).view(float), params)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    constant = lmfit.models.ComplexConstantModel()
    found = exact.jacobian(constant)(constant.make_params(re=1.0, im=2.0), 1j * X, None, x=X)
    np.testing.assert_array_equal(found, np.tile([[-1.0, 0.0], [0.0, -1.0]], (60, 1)))


@pytest.mark.parametrize("name", nist.DATA)
def test_certified_values(name):
    data = nist.DATA[name]
    f, x, y = nist.problem(name)
    model = lmfit.Model(f)
    start = dict(zip(model.param_names, data["second_start"], strict=True))
    tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
    fit = model.fit(y, x=x, **start, fit_kws={"Dfun": exact.jacobian(model), **tight})
    found = [fit.params[parameter].value for parameter in model.param_names]
    np.testing.assert_allclose(found, data["certified"], rtol=1e-6)
    errors = [exact.standard_errors(fit)[parameter] for parameter in model.param_names]
    tolerance = 3e-3 if name == "Lanczos1" else 1e-6
    np.testing.assert_allclose(errors, data["deviations"], rtol=tolerance)


def test_the_example_of_lmfits_documentation():
    data = nist.DATA["Gauss2"]
    x, y = np.array(data["x"]), np.array(data["y"])
    model = lmfit.models.ExponentialModel(prefix="exp_")
    params = model.guess(y, x=x)
    for i, center in ((1, 105.0), (2, 155.0)):
        peak = lmfit.models.GaussianModel(prefix=f"g{i}_")
        params.update(peak.make_params(center=center, sigma=15.0, amplitude=2000.0))
        params[f"g{i}_sigma"].set(min=3.0)
        model = model + peak
    fit = model.fit(y, params, x=x, fit_kws={"Dfun": exact.jacobian(model)})
    assert fit.chisqr == pytest.approx(data["rss"], rel=1e-9)
    certified = data["certified"]
    found = [fit.params[name].value for name in ("exp_amplitude", "g1_center", "g2_center")]
    np.testing.assert_allclose(found, [certified[0], certified[3], certified[6]], rtol=1e-6)
    width = fit.params["g1_sigma"].value * np.sqrt(2.0)
    assert width == pytest.approx(certified[4], rel=1e-6)
    height = fit.params["g1_height"].value
    assert height == pytest.approx(certified[2], rel=1e-5)
    error = exact.standard_errors(fit)["g1_height"]
    assert error == pytest.approx(data["deviations"][2], rel=1e-4)


def test_errors_of_expressions_and_bands_are_lmfits_without_differences():
    model, params = composite()
    y = model.eval(params, x=X) + 0.02 * RNG.normal(size=60)
    fit = model.fit(y, params, x=X, fit_kws={"Dfun": exact.jacobian(model)})
    np.testing.assert_allclose(exact.covariance(fit), fit.covar, rtol=2e-3)
    for name, error in exact.standard_errors(fit).items():
        assert error == pytest.approx(fit.params[name].stderr or 0.0, rel=2e-3, abs=1e-15)
    np.testing.assert_allclose(
        exact.confidence_band(fit, sigma=2), fit.eval_uncertainty(sigma=2), rtol=5e-3
    )
    few = exact.confidence_band(fit, sigma=0.9, x=X[:5])
    np.testing.assert_allclose(few, fit.eval_uncertainty(sigma=0.9, x=X[:5]), rtol=5e-3)
    absolute = exact.covariance(fit, absolute_sigma=True)
    np.testing.assert_allclose(absolute * fit.redchi, exact.covariance(fit), rtol=1e-12)


def test_confidence_intervals_fix_parameters_without_compiling_again():
    model = lmfit.models.ExponentialModel() + lmfit.models.ConstantModel()
    y = 3.0 * np.exp(-X / 2.0) + 0.5 + 0.05 * RNG.normal(size=60)
    start = model.make_params(amplitude=2.0, decay=1.5, c=0.3)
    dfun = exact.jacobian(model)
    given = model.fit(y, start, x=X, fit_kws={"Dfun": dfun})
    plain = model.fit(y, start, x=X)
    ours, theirs = given.conf_interval(), plain.conf_interval()
    for name, interval in theirs.items():
        np.testing.assert_allclose(ours[name], interval, rtol=2e-3)
    assert len(dfun._functions) == 4  # all vary, and each of three is fixed


def test_one_jacobian_serves_many_data_sets():
    model = lmfit.models.LorentzianModel()
    dfun = exact.jacobian(model)
    for center in (2.0, 4.0, 6.0):
        y = model.eval(x=X, amplitude=2.0, center=center, sigma=0.8)
        fit = model.fit(
            y, x=X, amplitude=1.5, center=center + 0.3, sigma=1.0, fit_kws={"Dfun": dfun}
        )
        assert fit.params["center"].value == pytest.approx(center, rel=1e-7)
    assert len(dfun._functions) == 1


def test_arguments_that_are_no_arrays():
    def power(params, x, form, degree):
        assert form["kind"] == "odd"
        return params["a"] * sum(x**i for i in range(degree))

    params = lmfit.create_params(a=1.0)
    found = exact.jacobian(power)(params, X, {"kind": "odd"}, degree=3)
    np.testing.assert_allclose(found[:, 0], 1.0 + X + X**2, rtol=1e-14)
    again = exact.jacobian(power)(params, X, {"kind": "odd"}, degree=2)
    np.testing.assert_allclose(again[:, 0], 1.0 + X, rtol=1e-14)


def test_models_that_bind_functions_of_scipy():
    def peak(x, center, width):
        return norm.pdf(x, center, width)

    model = lmfit.Model(peak) * lmfit.Model(lambda x, height: height + 0.0 * x)
    params = model.make_params(center=4.0, width=1.5, height=2.0)
    found = exact.jacobian(model)(params, np.zeros(60), None, x=X)
    expected = differences(lambda p: model._residual(p, np.zeros(60), None, x=X), params)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_without_compilation():
    def odd(params, x):
        return params["a"] * x + json.loads(str(float(x[0])))

    params = lmfit.create_params(a=1.0)
    found = exact.jacobian(odd, compiled=False)(params, X)
    np.testing.assert_allclose(found[:, 0], X)


def test_a_minimizers_result_is_refused_with_what_to_write():
    params = lmfit.create_params(a=1.0)
    fit = lmfit.minimize(lambda p, x: p["a"] * x - 1.0, params, args=(X,))
    with pytest.raises(ArgumentError, match=r"ModelResult of Model\.fit"):
        exact.covariance(fit)
