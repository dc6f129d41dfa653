"""Inference and statistics: bilby, pingouin, chaospy, pygam, pymoo."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row

RANDOM = np.random.default_rng(0)

PLACES = np.sort(np.random.default_rng(4).uniform(0, 6, 30))


@job("bilby", "Gaussian likelihood of a line", row(2.0, 0.5, 0.8))
def gaussian_likelihood_of_a_line() -> Any:
    import bilby

    x = np.linspace(0, 3, 12)
    y = 2 * x + 0.4 + 0.1 * np.random.default_rng(1).normal(size=12)
    like = bilby.core.likelihood.GaussianLikelihood(x, y, lambda x, m, c: m * x + c)

    def f(p):
        like.parameters.update({"m": p[0], "c": p[1], "sigma": p[2]})
        try:
            return like.log_likelihood()
        except TypeError:
            return like.log_likelihood({"m": p[0], "c": p[1], "sigma": p[2]})

    return f


@job("bilby", "prior density", row(1.2, 0.4, 2.0))
def prior_density() -> Any:
    from bilby.core.prior import Gaussian, LogNormal, PowerLaw, PriorDict

    pr = PriorDict(
        {"a": Gaussian(0.0, 2.0), "b": LogNormal(0.0, 1.0), "c": PowerLaw(-2.0, 1.0, 5.0)}
    )
    return lambda p: pr.ln_prob({"a": p[0], "b": p[1], "c": p[2]})


@job("bilby", "prior transform of the unit cube", row(0.2, 0.6, 0.4))
def prior_transform_of_the_unit_cube() -> Any:
    from bilby.core.prior import Gaussian, PowerLaw, PriorDict, Uniform

    pr = PriorDict({"a": Gaussian(0.0, 2.0), "b": Uniform(1.0, 3.0), "c": PowerLaw(-2.0, 1.0, 5.0)})
    return lambda u: np.sum(np.array(list(pr.rescale(["a", "b", "c"], u))) ** 2)


@job("pingouin", "correlation", RANDOM.normal(size=12))
def correlation_of_pingouin() -> Any:
    import pingouin as pg

    y = np.random.default_rng(3).normal(size=12)
    return lambda x: pg.corr(x, y + 0.5 * x)["r"].iloc[0]


@job("pingouin", "effect size", RANDOM.normal(size=10))
def effect_size() -> Any:
    import pingouin as pg

    y = np.random.default_rng(3).normal(size=12) + 1
    return lambda x: pg.compute_effsize(x, y, eftype="hedges")


@job("pingouin", "coefficients of a regression", RANDOM.normal(size=12))
def coefficients_of_a_regression() -> Any:
    import pingouin as pg

    X = np.random.default_rng(3).normal(size=(12, 2))
    return lambda y: pg.linear_regression(X, y, as_dataframe=False)["coef"]


@job("chaospy", "density of a joint distribution", row(0.2, 1.1, 0.6))
def density_of_a_joint_distribution() -> Any:
    import chaospy as cp

    def f(p):
        d = cp.J(cp.Normal(p[0], p[1]), cp.Gamma(2.0 + p[2]))
        return np.log(d.pdf(np.array([[0.1, 0.5, 1.0], [0.7, 1.3, 2.0]])))

    return f


@job("chaospy", "expansion by quadrature", row(0.7, 1.2))
def expansion_by_quadrature() -> Any:
    import chaospy as cp

    d = cp.J(cp.Uniform(0, 1), cp.Normal(0, 1))
    e = cp.generate_expansion(2, d)
    nodes, weights = cp.generate_quadrature(3, d, rule="gaussian")

    def f(p):
        s = cp.fit_quadrature(e, nodes, weights, np.exp(-p[0] * nodes[0]) * np.cos(p[1] * nodes[1]))
        return cp.E(s, d) + cp.Var(s, d)

    return f


@job("chaospy", "inverse transform of samples", row(1.2, 0.7))
def inverse_transform_of_samples() -> Any:
    import chaospy as cp

    u = np.random.default_rng(0).uniform(size=(2, 5))
    return lambda p: np.sum(cp.J(cp.Normal(0.0, p[0]), cp.Exponential(p[1])).inv(u) ** 2)


@job("pygam", "prediction by the responses", np.sin(PLACES))
def prediction_by_the_responses() -> Any:
    from pygam import LinearGAM, s

    return lambda y: np.mean(
        LinearGAM(s(0, n_splines=8), lam=0.6)
        .fit(PLACES[:, None], y)
        .predict(row(1.0, 2.5, 4.0)[:, None])
        ** 2
    )


@job("pygam", "held-out error by the penalty", row(0.6))
def held_out_error_by_the_penalty() -> Any:
    from pygam import LinearGAM, s

    y = np.sin(PLACES) + 0.1 * np.random.default_rng(5).normal(size=30)
    return lambda lam: np.mean(
        (
            LinearGAM(s(0, n_splines=8), lam=lam[0])
            .fit(PLACES[::2, None], y[::2])
            .predict(PLACES[1::2, None])
            - y[1::2]
        )
        ** 2
    )


@job(
    "pygam",
    "log-likelihood of a Poisson GAM at new counts",
    np.round(2 + 2 * np.sin(PLACES) ** 2),
    first=0.001,
)
def log_likelihood_of_a_poisson_gam_at_new_counts() -> Any:
    from pygam import PoissonGAM, s

    g = PoissonGAM(s(0, n_splines=6)).fit(PLACES[:, None], np.round(2 + 2 * np.sin(PLACES) ** 2))
    return lambda w: np.sum(g.predict_mu(PLACES[:, None]) * w) + g.predict(w[:3, None])[0]


@job("pymoo", "ZDT1 by name", np.linspace(0.1, 0.9, 5))
def zdt1_by_name() -> Any:
    from pymoo.problems import get_problem

    pr = get_problem("zdt1", n_var=5)
    return lambda x: np.sum(pr.evaluate(x))


@job("pymoo", "DTLZ2 objectives", np.linspace(0.1, 0.9, 7))
def dtlz2_objectives() -> Any:
    from pymoo.problems import get_problem

    pr = get_problem("dtlz2", n_var=7, n_obj=3)
    return lambda x: pr.evaluate(x) @ np.array([1.0, 2.0, 3.0])


@job("pymoo", "welded beam with constraints", row(0.24, 6.2, 8.3, 0.24))
def welded_beam_with_constraints() -> Any:
    from pymoo.problems import get_problem

    pr = get_problem("welded_beam")

    def f(x):
        F, G = pr.evaluate(x, return_values_of=["F", "G"])
        return np.concatenate([F, G])

    return f
