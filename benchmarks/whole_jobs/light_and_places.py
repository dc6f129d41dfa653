"""Films, spectra, distances on the Earth: tmm, pybaselines, geopy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row


def peaks(n=40):
    x = np.linspace(0, 10, n)
    return (
        x,
        np.exp(-((x - 4) ** 2))
        + 0.5 * np.exp(-((x - 7) ** 2) / 0.5)
        + 0.1 * x
        + 0.01 * np.random.default_rng(2).normal(size=n),
    )


@job("tmm", "reflectance by thickness", row(100.0, 80.0, 120.0))
def reflectance_by_thickness() -> Any:
    from tmm import coh_tmm

    return lambda d: coh_tmm(
        "s", [1.0, 2.2, 3.3 + 0.3j, 1.5, 1.0], [np.inf, d[0], d[1], d[2], np.inf], 0.3, 550.0
    )["R"]


@job("tmm", "spectrum of a coating by index", row(1.38, 2.1))
def spectrum_of_a_coating_by_index() -> Any:
    from tmm import unpolarized_RT

    return lambda n: np.array(
        [
            unpolarized_RT([1.0, n[0], n[1], 1.52], [np.inf, 100.0, 130.0, np.inf], 0.2, lam)["R"]
            for lam in (450.0, 550.0, 650.0)
        ]
    )


@job("tmm", "ellipsometry", row(150.0, 1.46))
def ellipsometry() -> Any:
    from tmm import ellips

    def f(p):
        e = ellips([1.0, p[1], 3.9 + 0.02j], [np.inf, p[0], np.inf], 1.2, 633.0)
        return e["psi"] + np.cos(e["Delta"])

    return f


@job("pybaselines", "asymmetric least squares by the data", peaks(24)[1])
def asymmetric_least_squares_by_the_data() -> Any:
    from pybaselines import Baseline

    x, _y = peaks(24)
    fit = Baseline(x_data=x)
    return lambda y: np.mean(fit.asls(y, lam=100.0, p=0.05)[0] ** 2)


@job("pybaselines", "modified polynomial", peaks()[1])
def modified_polynomial() -> Any:
    from pybaselines import Baseline

    x, _y = peaks()
    fit = Baseline(x_data=x)
    return lambda y: np.mean((y - fit.modpoly(y, poly_order=2)[0]) ** 2)


@job("pybaselines", "peak filling and smoothing by noise", peaks()[1])
def peak_filling_and_smoothing_by_noise() -> Any:
    from pybaselines import Baseline

    x, _y = peaks()
    fit = Baseline(x_data=x)
    return lambda y: np.sum(fit.noise_median(y, 7)[0] * x)


@job("geopy", "great circle distance", row(52.2, 0.13, 48.8, 2.35))
def great_circle_distance() -> Any:
    from geopy.distance import great_circle

    return lambda p: great_circle((p[0], p[1]), (p[2], p[3])).km


@job("geopy", "geodesic length of a route", row(52.2, 0.13, 48.8, 2.35))
def geodesic_length_of_a_route() -> Any:
    from geopy.distance import geodesic

    return lambda p: geodesic((p[0], p[1]), (p[2], p[3]), (45.0, 5.0)).km


@job("geopy", "destination by bearing", row(52.2, 0.13, 100.0, 35.0))
def destination_by_bearing() -> Any:
    from geopy.distance import great_circle

    def f(p):
        q = great_circle(kilometers=p[2]).destination((p[0], p[1]), bearing=p[3])
        return q.latitude + q.longitude

    return f
