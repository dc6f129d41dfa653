"""fungrad.interop.astropy: exact Jacobians of models of astropy.modeling."""

from __future__ import annotations

import copy
import doctest
import inspect
import pickle

import numpy as np
import pytest

pytest.importorskip("astropy.modeling")

import astropy.units as u
from astropy.modeling import FittableModel, custom_model, fitting, models

import fungrad as fg
from fungrad.interop import astropy as exact
from fungrad.interop.astropy import exact_derivatives

X = np.linspace(0.3, 3.0, 40)
Y = np.linspace(0.2, 2.0, 40)
RNG = np.random.default_rng(0)
ABSTRACT = ("FittableModel", "PolynomialModel", "OrthoPolynomialBase")
QUANTITIES = ("NFW", "BlackBody")
"""Models that compute with quantities inside; they raise an error."""


def test_the_examples_in_the_docstrings():
    found = doctest.testmod(exact)
    assert found.attempted > 4 and found.failed == 0


def built_in():
    found = {kind.__name__: kind for kind in vars(models).values() if inspect.isclass(kind)}
    for name, kind in found.items():
        if not issubclass(kind, FittableModel) or name in ABSTRACT or name in QUANTITIES:
            continue
        if name in ("Mapping", "Identity", "Spline1D"):
            continue  # without parameters
        needs = list(inspect.signature(kind).parameters)
        yield name, kind(2, 2) if "y_degree" in needs else kind(2) if "degree" in needs else kind()


@pytest.mark.slow
def test_all_built_in_models_of_numbers(monkeypatch):
    monkeypatch.setattr(fg.config, "backend", "numpy")  # whose programs are made sooner
    count = 0
    for name, model in built_in():
        if not model.param_names or model.n_inputs > 2:
            continue
        x = X / 4.0 if name.startswith("Arc") else X  # their domain is [-1, 1]
        inputs = (x, Y)[: model.n_inputs]
        p = model.parameters + 0.1 * RNG.random(len(model.parameters))
        found = np.array(exact_derivatives(model).fit_deriv(*inputs, *p))
        for i, row in enumerate(found):
            step = 1e-6 * np.eye(len(p))[i]
            up, down = model.evaluate(*inputs, *(p + step)), model.evaluate(*inputs, *(p - step))
            np.testing.assert_allclose(row, (up - down) / 2e-6, 1e-4, 1e-6, err_msg=name)
        count += 1
    assert count >= 45


def line_data():
    """Three emission lines, as in astropy's example of tied parameters."""
    x = np.linspace(4800.0, 5100.0, 300)
    truth = models.Gaussian1D(1.0, 4861.3, 5.0) + models.Gaussian1D(0.9, 4958.9, 4.0)
    truth = truth + models.Gaussian1D(2.6, 5006.8, 4.0) + models.Const1D(0.4)
    return x, truth(x) + 0.02 * np.random.default_rng(1).normal(size=x.size)


def three_lines():
    hb = models.Gaussian1D(1.2, 4862.0, 4.5, name="Hb")
    o3 = models.Gaussian1D(1.0, 4959.5, 5.0, name="O1") + models.Gaussian1D(2.0, 5006.0, 4.5)
    return hb + o3 + models.Const1D(0.5)


@pytest.mark.parametrize("fitter", [fitting.LevMarLSQFitter, fitting.TRFLSQFitter])
def test_a_compound_model(fitter):
    x, y = line_data()
    run = fitter(calc_uncertainties=True)
    found = run(exact_derivatives(three_lines()), x, y)
    theirs = fitter(calc_uncertainties=True)(three_lines(), x, y)
    np.testing.assert_allclose(found.parameters, theirs.parameters, rtol=1e-4)
    np.testing.assert_allclose(found.stds.stds, theirs.stds.stds, rtol=1e-3)
    assert type(found).__name__ == "CompoundModel" and found[0].name == "Hb"


def test_fixed_and_tied_parameters():
    x, y = line_data()
    model = three_lines()
    model.amplitude_1.tied = lambda m: m.amplitude_2 / 2.98
    model.mean_1.tied = lambda m: m[2].mean.value - 47.9
    model.stddev_1.tied = lambda m: m.stddev_2
    model.amplitude_3.fixed = True
    run = fitting.LevMarLSQFitter(calc_uncertainties=True)
    found = run(exact_derivatives(model), x, y)
    theirs = fitting.TRFLSQFitter()(model, x, y, estimate_jacobian=True)
    np.testing.assert_allclose(found.parameters, theirs.parameters, rtol=1e-4)
    assert found.amplitude_1.value == pytest.approx(found.amplitude_2.value / 2.98)
    assert found.amplitude_3.value == 0.5


def test_the_derivatives_include_those_of_the_ties():
    model = models.Gaussian1D(1.0, 0.5, 0.3) + models.Gaussian1D(0.5, 1.5, 0.3)
    model.amplitude_1.tied = lambda m: np.sqrt(m.amplitude_0) * 0.5
    rows = exact_derivatives(model).fit_deriv(X, *model.parameters)

    def amplitude(a):
        return model.left.evaluate(X, a, 0.5, 0.3) + model.right.evaluate(
            X, 0.5 * np.sqrt(a), 1.5, 0.3
        )

    np.testing.assert_allclose(rows[0], fg.jacfwd(amplitude)(1.0), rtol=1e-12)
    assert not np.any(rows[3])


def test_a_value_beyond_its_limits_has_no_slope():
    model = models.Linear1D(1.0, 2.0, bounds={"slope": (0.0, 3.0)})
    rows = exact_derivatives(model).fit_deriv(X, 4.0, 2.0)
    assert not np.any(rows[0]) and np.all(rows[1] == 1.0)
    inside = exact_derivatives(model).fit_deriv(X, 2.0, 2.0)
    np.testing.assert_allclose(inside[0], X)


def test_a_custom_model_with_weights_in_two_dimensions():
    @custom_model
    def surface(x, y, height=1.0, width=1.0, tilt=0.0):
        return height * np.exp(-(x**2 + y**2) / width) + tilt * np.hypot(x, y)

    x, y = np.mgrid[-2:2:20j, -2:2:15j]
    z = surface(2.0, 1.5, 0.1)(x, y) + 0.01 * RNG.normal(size=x.shape)
    weights = 1.0 + RNG.random(x.shape)
    fitter = fitting.TRFLSQFitter
    found = fitter()(exact_derivatives(surface()), x, y, z, weights=weights)
    theirs = fitter()(surface(), x, y, z, weights=weights)
    np.testing.assert_allclose(found.parameters, theirs.parameters, rtol=1e-5)


def test_units():
    x, y = X * u.um, models.Gaussian1D(2.0, 1.5, 0.4)(X) * u.Jy
    start = models.Gaussian1D(1.5 * u.Jy, 1400 * u.nm, 0.5 * u.um)
    found = fitting.TRFLSQFitter()(exact_derivatives(start), x, y)
    assert found.mean.quantity.to_value(u.um) == pytest.approx(1.5)
    assert found.amplitude.unit == u.Jy and found.amplitude.value == pytest.approx(2.0)


def test_copies_share_what_is_compiled_and_pickles_compile_again():
    model = exact_derivatives(models.Lorentz1D(1.0, 1.0, 0.5))
    rows = model.fit_deriv(X, 1.0, 1.0, 0.5)
    again = copy.deepcopy(model)
    assert again._exact_compiled is model._exact_compiled and len(model._exact_compiled) == 1
    sent = pickle.loads(pickle.dumps(model))
    assert not sent._exact_compiled
    np.testing.assert_allclose(sent.fit_deriv(X, 1.0, 1.0, 0.5), rows)
    assert exact_derivatives(model).fit_deriv is not None


def test_parameters_that_are_arrays_are_refused():
    with pytest.raises(fg.errors.ArgumentError, match=r"amplitude is an array of shape \(2,\)"):
        exact_derivatives(models.Gaussian1D([1.0, 2.0], [0.0, 0.0], [1.0, 1.0], n_models=1))


def test_the_derivatives_are_those_of_differences():
    model = models.Voigt1D(x_0=1.0, amplitude_L=2.0, fwhm_L=0.4, fwhm_G=0.3)
    p = model.parameters
    rows = exact_derivatives(model).fit_deriv(X, *p)
    for row, direction in zip(rows, 1e-6 * np.eye(4), strict=True):
        slope = (model.evaluate(X, *(p + direction)) - model.evaluate(X, *(p - direction))) / 2e-6
        np.testing.assert_allclose(row, slope, rtol=1e-6, atol=1e-6)
