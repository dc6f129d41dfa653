"""What a fit computes from its result: profiles, bands, comparisons, errors of other quantities;
several data sets, errors in x, fixed and tied parameters, robust losses.
"""

from __future__ import annotations

import nist
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import fungrad as fg
from fungrad.errors import ArgumentError

RNG = np.random.default_rng(7)
T = np.linspace(0.0, 4.0, 25)


def decay(t, amplitude, rate, offset):
    return amplitude * np.exp(-rate * t) + offset


Y = decay(T, 2.5, 1.3, 0.5) + 0.05 * RNG.normal(size=25)


# --- correlations, bands, derived quantities ------------------------------------------------------


def test_correlations_are_printed_the_largest_first():
    fit = fg.curve_fit(decay, T, Y)
    errors = np.sqrt(np.diag(fit.covariance))
    np.testing.assert_allclose(fit.correlation, fit.covariance / np.outer(errors, errors))
    lines = [line for line in repr(fit).splitlines() if "correlation" in line]
    shown = [abs(float(line.split()[-1])) for line in lines]
    assert len(shown) == 3 and shown == sorted(shown, reverse=True)
    assert "rate, offset" in lines[0] and "correlation" in fit._repr_html_()


def test_prediction_bands_hold_new_measurements():
    fit = fg.curve_fit(decay, T, Y)
    variance = fit.sum_of_squares / fit.degrees_of_freedom
    low, high = fit.confidence_band(T)
    below, above = fit.prediction_band(T)
    spread = scipy.stats.t.ppf(0.975, fit.degrees_of_freedom)
    np.testing.assert_allclose(
        (above - below) ** 2, (high - low) ** 2 + 4 * spread**2 * variance, rtol=1e-12
    )
    known = fg.curve_fit(decay, T, Y, sigma=0.05, absolute_sigma=True)
    low, high = known.prediction_band(T)
    np.testing.assert_allclose(high - low, known.prediction_band(T, sigma=0.05)[1] - low)
    new = decay(T[:, None], 2.5, 1.3, 0.5) + 0.05 * RNG.normal(size=(25, 4000))
    share = np.mean((low[:, None] < new) & (new < high[:, None]))
    assert 0.93 < share < 0.98
    each = fg.curve_fit(decay, T, Y, sigma=np.full(25, 0.05))
    with pytest.raises(ArgumentError, match="prediction_band needs sigma="):
        each.prediction_band(T)


def test_errors_of_derived_quantities():
    fit = fg.curve_fit(decay, T, Y)
    half = fit.propagate(lambda p: np.log(2.0) / p[1])
    slope = -np.log(2.0) / fit.parameters[1] ** 2
    assert half.standard_error == pytest.approx(abs(slope) * fit.standard_errors[1], rel=1e-12)
    both = fit.propagate(lambda p: np.stack([p[0] + p[2], p[0] - p[2]]))
    a, c = fit.covariance[0, 0], fit.covariance[2, 2]
    assert both.covariance[0, 1] == pytest.approx(a - c, rel=1e-10)
    tree = fg.curve_fit(lambda t, p: decay(t, p["a"], p["b"], 0.5), T, Y, {"a": 1.0, "b": 1.0})
    assert tree.propagate(lambda p: p["a"] / p["b"]).value == pytest.approx(
        tree.parameters["a"] / tree.parameters["b"]
    )


# --- profiles -------------------------------------------------------------------------------------


def test_the_profile_of_a_line_is_the_textbooks_interval():
    fit = fg.curve_fit(lambda x, a, b: a + b * x, T, Y)
    low, high = fit.confidence_interval(0.9)
    for i, name in enumerate(fit.names):
        found = fit.profile(name, 0.9)
        assert found.low == pytest.approx(low[i], rel=1e-7)
        assert found.high == pytest.approx(high[i], rel=1e-7)
        slope = np.diff(found.roots) / np.diff(found.values)
        np.testing.assert_allclose(slope, 1.0 / fit.standard_errors[i], rtol=1e-4)


def test_profiles_are_asymmetric_where_the_sum_of_squares_is():
    # the ends are where the sum of squares, minimised over the others, has grown by one variance
    fit = fg.curve_fit(decay, T, Y, sigma=0.05, absolute_sigma=True)
    found = fit.profile("rate", 0.6827)
    quantile = scipy.stats.norm.ppf(0.5 + 0.6827 / 2)
    for end in (found.low, found.high):
        held = fg.curve_fit(decay, T, Y, fit.parameters, 0.05, True, fixed={"rate": end})
        assert held.sum_of_squares - fit.sum_of_squares == pytest.approx(quantile**2, rel=1e-6)
    assert found.errors[1] > 1.01 * found.errors[0]
    assert (
        repr(found).startswith("Profile of rate at level 0.6827")
        and "<table>" in found._repr_html_()
    )


def test_profiles_end_at_bounds_and_where_nothing_is_known():
    fit = fg.curve_fit(decay, T, Y, bounds={"offset": (0.49, 0.9)}, p0=[2.0, 1.0, 0.6])
    assert fit.profile("offset").low == 0.49
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    y = np.array([0.0, 0.9, 1.1, 1.0, 1.05])  # a rise that may be arbitrarily steep
    steep = fg.curve_fit(lambda x, height, rate: height * (1 - np.exp(-rate * x)), x, y)
    assert steep.profile("rate", 0.99).high == np.inf
    assert np.isfinite(steep.profile("rate", 0.99).low)


def test_profiles_of_what_has_none():
    fit = fg.curve_fit(decay, T, Y, fixed={"offset": 0.5})
    with pytest.raises(ArgumentError, match="fixed or tied"):
        fit.profile("offset")
    with pytest.raises(ArgumentError, match="none of the parameters"):
        fit.profile("width")
    robust = fg.curve_fit(decay, T, Y, loss="huber", f_scale=0.05)
    with pytest.raises(ArgumentError, match="least squares"):
        robust.profile("rate")


def test_lmfits_confidence_intervals_agree():
    lmfit = pytest.importorskip("lmfit")
    model = lmfit.Model(decay, independent_vars=["t"])
    theirs = model.fit(Y, t=T, amplitude=2.0, rate=1.0, offset=0.4).conf_interval(sigmas=[0.95])
    fit = fg.curve_fit(decay, T, Y)
    for name in fit.names:
        found = fit.profile(name, 0.95)
        (_, low), _, (_, high) = theirs[name]
        assert (found.low, found.high) == pytest.approx((low, high), rel=2e-3)


# --- comparisons ----------------------------------------------------------------------------------


def test_nested_models_are_compared_by_the_f_test():
    full = fg.curve_fit(decay, T, Y)
    small = fg.curve_fit(decay, T, Y, fixed={"offset": 0.0})
    found = small.compare(full)
    f = (small.sum_of_squares - full.sum_of_squares) / (full.sum_of_squares / 22)
    assert found.f == pytest.approx(f, rel=1e-12)
    assert found.p == pytest.approx(scipy.stats.f.sf(f, 1, 22), rel=1e-9)
    n, k = 25, 4  # three parameters and the variance
    assert full.aic == pytest.approx(n * np.log(full.sum_of_squares / n) + 2 * k)
    assert full.bic == pytest.approx(n * np.log(full.sum_of_squares / n) + k * np.log(n))
    assert found.aic == (small.aic, full.aic) and found.weight < 1e-6
    assert full.compare(small).f == found.f
    assert "BIC" in repr(found) and "<table>" in found._repr_html_()
    assert full.compare(full).f is None
    known = fg.curve_fit(decay, T, Y, sigma=0.05, absolute_sigma=True)
    assert known.aic == pytest.approx(known.sum_of_squares + 6)


def test_fits_of_other_data_are_not_compared():
    fit = fg.curve_fit(decay, T, Y)
    with pytest.raises(ArgumentError, match="same data"):
        fit.compare(fg.curve_fit(decay, T[1:], Y[1:]))
    with pytest.raises(ArgumentError, match="both with absolute_sigma"):
        fit.compare(fg.curve_fit(decay, T, Y, sigma=0.05, absolute_sigma=True))


# --- fixed, tied, bounded -------------------------------------------------------------------------


def test_fixed_parameters_are_constants():
    fit = fg.curve_fit(decay, T, Y, [2.0, 1.0, 0.5], fixed=["offset"])
    two = fg.curve_fit(lambda t, a, b: decay(t, a, b, 0.5), T, Y, [2.0, 1.0])
    np.testing.assert_allclose(fit.parameters[:2], two.parameters, rtol=1e-12)
    np.testing.assert_allclose(fit.covariance[:2, :2], two.covariance, rtol=1e-9)
    assert fit.parameters[2] == 0.5 and not np.any(fit.covariance[2])
    assert fit.degrees_of_freedom == 23 and "offset              0.5 (fixed)" in repr(fit)
    np.testing.assert_allclose(fit.confidence_band(T), two.confidence_band(T), rtol=1e-9)


def test_tied_parameters_follow_others():
    fit = fg.curve_fit(decay, T, Y, tied={"offset": lambda p: p["amplitude"] / 5.0})
    two = fg.curve_fit(lambda t, a, b: decay(t, a, b, a / 5.0), T, Y)
    np.testing.assert_allclose(fit.parameters[:2], two.parameters, rtol=1e-12)
    assert fit.parameters[2] == pytest.approx(fit.parameters[0] / 5.0)
    assert fit.standard_errors[2] == pytest.approx(two.standard_errors[0] / 5.0, rel=1e-9)
    assert fit.correlation[0, 2] == pytest.approx(1.0) and "(tied)" in repr(fit)


def test_arrays_in_trees_are_fixed_as_a_whole_or_one_by_one():
    def model(t, p):
        return p["w"][0] + p["w"][1] * t + p["w"][2] * t**2

    start = {"w": np.zeros(3)}
    fit = fg.curve_fit(model, T, Y, start, fixed={"w[2]": 0.1}, bounds={"w": (-1.0, 2.0)})
    assert fit.parameters["w"][2] == 0.1 and np.all(np.abs(fit.parameters["w"]) <= 2.0)
    with pytest.raises(ArgumentError, match="nothing to fit"):
        fg.curve_fit(model, T, Y, start, fixed=["w"])
    with pytest.raises(ArgumentError, match=r"bounds= names 'v', but the parameters are w\[0\]"):
        fg.curve_fit(model, T, Y, start, bounds={"v": (0.0, 1.0)})


# --- several data sets ----------------------------------------------------------------------------


def two_sets(t, p):
    return {
        "slow": p["size"] * np.exp(-t["slow"] / p["tau"]),
        "fast": 2.0 * p["size"] * np.exp(-2.0 * t["fast"] / p["tau"]) + p["floor"],
    }


TIMES = {"slow": np.linspace(0.0, 5.0, 12), "fast": np.linspace(0.0, 2.0, 30)}
TRUE = {"size": 3.0, "tau": 1.7, "floor": 0.4}


def test_data_sets_share_parameters():
    noise = {"slow": 0.1, "fast": 0.02}
    clean = two_sets(TIMES, TRUE)
    y = {name: v + noise[name] * RNG.normal(size=v.size) for name, v in clean.items()}
    start = {"size": 1.0, "tau": 1.0, "floor": 0.0}
    fit = fg.curve_fit(two_sets, TIMES, y, start, sigma=noise, absolute_sigma=True)
    for name, value in TRUE.items():
        assert abs(fit.parameters[name] - value) < 4 * fit.standard_errors[name]

    def together(t, floor, size, tau):
        values = two_sets(TIMES, {"floor": floor, "size": size, "tau": tau})
        return np.concatenate([values["fast"], values["slow"]])

    one = fg.curve_fit(
        together, None, np.concatenate([y["fast"], y["slow"]]),
        sigma=np.repeat([0.02, 0.1], [30, 12]), absolute_sigma=True,
    )  # fmt: skip
    np.testing.assert_allclose(fit.covariance, one.covariance, rtol=1e-9)
    assert fit.residuals["slow"].shape == (12,) and set(fit.pulls) == {"slow", "fast"}
    low, high = fit.confidence_band(TIMES)
    assert np.all(low["fast"] < high["fast"]) and low["slow"].shape == (12,)
    correlated = 0.1**2 * (0.5 * np.eye(12) + 0.5)
    whitened = fg.curve_fit(
        two_sets, TIMES, y, start, sigma={"slow": correlated, "fast": np.full(30, 0.02)},
        absolute_sigma=True,
    )  # fmt: skip
    rest = np.concatenate([whitened.residuals["fast"], whitened.residuals["slow"]])
    assert whitened.sum_of_squares == pytest.approx(rest @ rest)
    assert whitened.sum_of_squares != pytest.approx(fit.sum_of_squares, rel=1e-3)


def test_models_and_sigmas_that_do_not_fit_the_data_sets():
    y = two_sets(TIMES, TRUE)
    start = {"size": 1.0, "tau": 1.0, "floor": 0.0}
    with pytest.raises(ArgumentError, match="must return a tree as ydata"):
        fg.curve_fit(lambda t, p: two_sets(t, p)["slow"], TIMES, y, start)
    with pytest.raises(ArgumentError, match="sigma must have an entry where ydata has"):
        fg.curve_fit(two_sets, TIMES, y, start, sigma={"slow": 0.1})
    broken = {**y, "slow": np.where(TIMES["slow"] > 4.0, np.nan, y["slow"])}
    with pytest.raises(ArgumentError, match=r"ydata\['slow'\] is not finite"):
        fg.curve_fit(two_sets, TIMES, broken, start)


# --- errors in x ----------------------------------------------------------------------------------


def test_a_line_with_errors_in_both_variables_has_deming_s_solution():
    x_true = np.linspace(0.0, 10.0, 40)
    x, y = x_true + 0.4 * RNG.normal(size=40), 1.5 * x_true - 2.0 + 0.4 * RNG.normal(size=40)
    fit = fg.curve_fit(lambda x, a, b: a + b * x, x, y, sigma=0.4, sigma_x=0.4)
    sxx, syy = np.var(x), np.var(y)
    sxy = np.mean((x - x.mean()) * (y - y.mean()))
    slope = (syy - sxx + np.sqrt((syy - sxx) ** 2 + 4 * sxy**2)) / (2 * sxy)
    np.testing.assert_allclose(fit.parameters, [y.mean() - slope * x.mean(), slope], rtol=1e-9)
    assert fit.degrees_of_freedom == 38 and fit.residuals.shape == (40,)
    # the fitted points lie on the line, at the foot of the perpendicular
    foot = (x + slope * (y - fit.parameters[0])) / (1 + slope**2)
    np.testing.assert_allclose(fit.x, foot, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_errors_in_x_are_those_of_odrpack():
    odr = pytest.importorskip("scipy.odr")
    x = T + 0.05 * RNG.normal(size=25)
    sx = np.full(25, 0.05)
    data = odr.RealData(x, Y, sx=sx, sy=0.05)
    theirs = odr.ODR(data, odr.Model(lambda p, x: decay(x, *p)), beta0=[2.0, 1.0, 0.4]).run()
    fit = fg.curve_fit(decay, x, Y, [2.0, 1.0, 0.4], 0.05, True, sigma_x=sx)
    np.testing.assert_allclose(fit.parameters, theirs.beta, rtol=1e-5)
    np.testing.assert_allclose(fit.sum_of_squares, theirs.sum_square, rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors, np.sqrt(np.diag(theirs.cov_beta)), rtol=1e-3)
    assert fit.profile("rate").low < fit.parameters[1]


# --- robust losses --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan"])
def test_robust_losses_ignore_outliers_and_have_errors(loss):
    truth = np.array([2.5, 1.3, 0.5])
    away = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = decay(T, *truth) + 0.05 * rng.normal(size=25)
        y[rng.integers(0, 25, 2)] += 1.5
        fit = fg.curve_fit(decay, T, y, truth, loss=loss, f_scale=0.1)
        away.append((fit.parameters - truth) / fit.standard_errors)
    assert 0.6 < np.std(away) < 2.0
    assert np.all(np.abs(np.median(away, axis=0)) < 0.7)


def test_a_wide_loss_is_least_squares():
    plain = fg.curve_fit(decay, T, Y)
    for loss in ("soft_l1", "huber", "cauchy"):
        fit = fg.curve_fit(decay, T, Y, loss=loss, f_scale=1e4)
        np.testing.assert_allclose(fit.parameters, plain.parameters, rtol=1e-6)
        np.testing.assert_allclose(fit.covariance, plain.covariance, rtol=1e-5)
    with pytest.raises(ArgumentError, match="loss of your own"):
        fg.curve_fit(decay, T, Y, loss=lambda z: np.stack([z, np.ones_like(z), 0.0 * z]))


# --- plots ----------------------------------------------------------------------------------------


def test_plots(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "svg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    fit = fg.curve_fit(decay, T, Y)
    assert len(fit.plot_residuals().lines[0].get_xdata()) == 25
    np.testing.assert_allclose(fit.plot_residuals().lines[0].get_ydata(), fit.pulls)
    axes = pyplot.subplots()[1]
    assert fit.plot_pulls(axes) is axes and len(axes.patches) > 2
    found = fit.profile("rate")
    assert len(found.plot().lines) == 3
    y = two_sets(TIMES, TRUE)
    both = fg.curve_fit(two_sets, TIMES, {n: v + 0.1 for n, v in y.items()}, TRUE)
    assert {text.get_text() for text in both.plot_residuals().get_legend().get_texts()} == set(y)
    pyplot.close("all")


def test_profiles_of_nists_regressions_hold_the_certified_values():
    for name in ("Misra1a", "Rat42", "MGH09", "DanWood"):
        model, x, y = nist.problem(name)
        data = nist.DATA[name]
        fit = fg.curve_fit(model, x, y, data["second_start"])
        for parameter, certified in zip(fit.names, data["certified"], strict=True):
            found = fit.profile(parameter, 0.6827)
            assert found.low < certified < found.high
            assert np.sum(found.errors) == pytest.approx(
                2 * data["deviations"][fit.names.index(parameter)], rel=0.25
            )
