"""Fits: certified values of NIST's data sets, SciPy's interface, trees, bounds, errors."""

from __future__ import annotations

import nist
import numpy as np
import pytest
import scipy.optimize

import fungrad as fg
from fungrad.errors import ArgumentError


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("start", ["start", "second_start"])
@pytest.mark.parametrize("name", nist.DATA)
def test_certified_values_are_found_from_both_starts(name, start):
    data = nist.DATA[name]
    model, x, y = nist.problem(name)
    fit = fg.curve_fit(model, x, y, data[start])
    np.testing.assert_allclose(fit.parameters, data["certified"], rtol=5e-11)
    exact = name == "Lanczos1"  # the residuals are the last digits of its data
    np.testing.assert_allclose(
        fit.standard_errors, data["deviations"], rtol=3e-3 if exact else 1e-10
    )
    assert fit.sum_of_squares == pytest.approx(data["rss"], rel=3e-3 if exact else 1e-10)
    assert fit.degrees_of_freedom == y.size - len(data["start"])


def line(x, offset, slope):
    return offset + slope * x


X = np.linspace(-1.0, 2.0, 12)
Y = line(X, 0.5, -2.0) + 0.1 * np.cos(5.0 * np.arange(12.0))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sigma": np.linspace(0.1, 0.3, 12)},
        {"sigma": np.linspace(0.1, 0.3, 12), "absolute_sigma": True},
        {"sigma": 0.2, "absolute_sigma": True},
        {
            "sigma": 0.04 * np.eye(12) + 0.01 * np.ones((12, 12)),
            "absolute_sigma": True,
        },
    ],
)
def test_parameters_and_covariance_are_scipys(options):
    ours, covariance = fg.curve_fit(line, X, Y, **options)
    theirs, expected = scipy.optimize.curve_fit(line, X, Y, **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(covariance, expected, rtol=1e-5)


def test_a_line_has_the_textbooks_errors_and_band():
    fit = fg.curve_fit(line, X, Y)
    design = np.stack([np.ones(12), X], axis=1)
    solution, (squares,), _, _ = np.linalg.lstsq(design, Y, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * squares / 10
    np.testing.assert_allclose(fit.parameters, solution, rtol=1e-12)
    np.testing.assert_allclose(fit.covariance, covariance, rtol=1e-11)
    np.testing.assert_allclose(fit(X), design @ solution, rtol=1e-12)
    quantile = 2.2281388519649385  # of Student's t, 10 degrees of freedom, 0.975
    spread = quantile * np.sqrt(np.einsum("ij,jk,ik->i", design, covariance, design))
    low, high = fit.confidence_band(X)
    np.testing.assert_allclose(high - fit(X), spread, rtol=1e-9)
    np.testing.assert_allclose(fit(X) - low, spread, rtol=1e-9)
    low, high = fit.confidence_interval(0.95)
    np.testing.assert_allclose((high - low) / 2, quantile * fit.standard_errors, rtol=1e-9)
    assert repr(fit).splitlines()[1].split()[0] == "offset"
    assert "slope" in fit._repr_html_()


def test_parameters_may_be_a_tree():
    def model(x, p):
        return p["scale"] * np.tanh(x * p["rates"][0]) + p["rates"][1]

    y = model(X, {"scale": 2.0, "rates": np.array([0.7, 0.1])})
    fit = fg.curve_fit(model, X, y, {"scale": 1.0, "rates": np.ones(2)})
    assert fit.names == ("rates[0]", "rates[1]", "scale")
    np.testing.assert_allclose(fit.parameters["rates"], [0.7, 0.1], rtol=1e-9)
    assert fit.standard_errors["rates"].shape == (2,) and fit.covariance.shape == (3, 3)


def test_bounds_hold():
    fit = fg.curve_fit(line, X, Y, bounds=([-np.inf, -1.0], [np.inf, 0.0]))
    assert fit.parameters[1] == pytest.approx(-1.0, abs=1e-9)
    same = fg.curve_fit(line, X, Y, bounds=scipy.optimize.Bounds([-np.inf, -1.0], [9.0, np.inf]))
    assert same.parameters[1] == pytest.approx(-1.0, abs=1e-9)


def test_a_robust_loss_is_scipys():
    y = Y.copy()
    y[3] += 30.0
    ours = fg.curve_fit(line, X, y, loss="soft_l1").parameters
    theirs, _ = scipy.optimize.curve_fit(line, X, y, method="trf", loss="soft_l1")
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_parameters_that_the_data_do_not_tell_have_infinite_errors():
    fit = fg.curve_fit(lambda x, a, b: (a + b) * x, X, 3.0 * X, method="lm")
    assert np.all(np.isinf(fit.covariance))


def test_errors_of_data_and_models():
    with pytest.raises(ArgumentError, match="not finite at 1 places, first at 2"):
        fg.curve_fit(line, X[:4], [0.0, 1.0, np.nan, 2.0])
    with pytest.raises(ArgumentError, match=r"shape \(\), but ydata has shape \(12,\)"):
        fg.curve_fit(lambda x, a: np.sum(a * x), X, Y)
    with pytest.raises(ArgumentError, match="give p0"):
        fg.curve_fit(lambda x, *p: p[0] * x, X, Y)
    with pytest.raises(ArgumentError, match="sigma has shape"):
        fg.curve_fit(line, X, Y, sigma=np.ones(3))


def rosenbrock(p):
    return (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("method", [None, "L-BFGS-B", "trust-ncg", "Newton-CG", "trust-exact"])
def test_a_tree_is_minimised(method, compiled):
    found = fg.minimize(rosenbrock, {"x": -1.2, "y": 1.0}, method=method, compiled=compiled)
    assert found.success and found.fun < 1e-9
    assert found.x["x"] == pytest.approx(1.0, abs=1e-4)
    assert set(found.jac) == {"x", "y"}
    assert "value" in repr(found) and "<table>" in found._repr_html_()


def test_bounds_are_a_tree_or_scipys():
    start = {"x": -1.2, "y": 1.0}
    a = fg.minimize(rosenbrock, start, bounds={"x": (None, 0.5), "y": (0.0, 9.0)})
    b = fg.minimize(rosenbrock, start, bounds=scipy.optimize.Bounds([-np.inf, 0.0], [0.5, 9.0]))
    assert a.x["x"] == b.x["x"] == 0.5
    c = fg.minimize(lambda x: np.sum((x - 3.0) ** 2), np.zeros(2), bounds=[(0, 1), (None, None)])
    np.testing.assert_allclose(c.x, [1.0, 3.0], rtol=1e-6)
    with pytest.raises(ArgumentError, match="bounds must have a pair"):
        fg.minimize(rosenbrock, start, bounds={"x": (0.0, 1.0)})


def test_branches_on_values_are_followed():
    def hinge(x):
        if x < 2.0:
            return (x - 5.0) ** 2 + 1.0
        return (x - 3.0) ** 2

    assert fg.minimize(hinge, 0.0).x == pytest.approx(3.0, abs=1e-5)


def test_progress_prints_ever_fewer_iterations(capsys):
    lines = []
    fg.minimize(rosenbrock, {"x": -1.2, "y": 1.0}, progress=lines.append)
    counts = [int(line.split()[0]) for line in lines]
    assert counts[:11] == [*range(1, 11), 20] and all(n % 10 == 0 for n in counts[9:])
    values = [float(line.split()[1]) for line in lines]
    assert values[-1] < values[0]
    fg.minimize(rosenbrock, {"x": -1.2, "y": 1.0}, progress=True, options={"maxiter": 3})
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_other_arguments_and_callbacks():
    seen = []
    found = fg.minimize(
        lambda x, target: np.sum((x - target) ** 2), np.zeros(3), np.arange(3.0),
        callback=seen.append,
    )  # fmt: skip
    np.testing.assert_allclose(found.x, np.arange(3.0), atol=1e-6)
    assert len(seen) == found.iterations
