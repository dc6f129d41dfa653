"""Functions of packages that know nothing of fungrad, each with an argument to differentiate at.

One generator for each package. It imports the package and yields (name, argument, function): the
function takes an array of the argument's shape, or a number, and gives an array. The functions are
the packages' own, as they are installed; only the data are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Row = tuple[str, Any, Callable[[Any], Any]]
Rows = Iterator[Row]

PACKAGES: dict[str, Callable[[], Rows]] = {}
"""The generator of each package, by the name under which it is imported."""


def package(generator: Callable[[], Rows]) -> Callable[[], Rows]:
    """Enters a generator under its own name, which is the package's."""
    PACKAGES[generator.__name__] = generator
    return generator


def points(*shape: int, seed: int = 0) -> Any:
    """Normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def covariance(n: int, seed: int = 0) -> Any:
    """A positive definite matrix."""
    a = points(n, n + 2, seed=seed)
    return a @ a.T / n + 0.5 * np.eye(n)


def row(*numbers: float) -> Any:
    """Numbers as an array."""
    return np.array(numbers, dtype=float)


# --- statistics and learning ----------------------------------------------------------------------


@package
def sklearn() -> Rows:
    """scikit-learn: predictions of fitted models, kernels, metrics."""
    from sklearn import cluster, decomposition, linear_model, metrics, mixture, neural_network
    from sklearn import preprocessing as pre
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.metrics import pairwise
    from sklearn.utils.extmath import softmax

    x, y = points(6, 3, seed=1), points(4, 3, seed=2)
    target = np.cos(x[:, 0]) + 0.3 * x[:, 1]
    label = (target > np.median(target)).astype(int)
    for name in ("rbf_kernel", "polynomial_kernel", "sigmoid_kernel", "laplacian_kernel"):
        kernel = getattr(pairwise, name)
        yield name, x, lambda a, kernel=kernel: kernel(a, y, gamma=0.4)
    yield "cosine_similarity", x, lambda a: pairwise.cosine_similarity(a, y)
    yield "euclidean_distances", x, lambda a: pairwise.euclidean_distances(a, y)
    yield "softmax", x, softmax
    yield "mean_squared_error", target, lambda p: metrics.mean_squared_error(np.zeros(6), p)
    yield "r2_score", 0.9 * target, lambda p: metrics.r2_score(target, p)
    yield "log_loss", row(0.3, 0.6, 0.8), lambda p: metrics.log_loss([0, 1, 1], p)
    for kernel in (
        kernels.RBF(1.3),
        kernels.Matern(0.9, nu=2.5),
        kernels.RationalQuadratic(1.1, 0.7),
        kernels.DotProduct(0.4) + kernels.WhiteKernel(0.2),
        kernels.ExpSineSquared(0.8, 2.0),
    ):
        yield str(kernel), x, lambda a, kernel=kernel: kernel(a, y)
    composed = kernels.ConstantKernel(2.0) * kernels.RationalQuadratic(0.6, 1.2)
    yield "kernel by theta", row(0.2, -0.3, 0.1), lambda t: composed.clone_with_theta(t)(x, y)
    process = GaussianProcessRegressor(kernels.RBF(1.2), alpha=0.05, optimizer=None)
    process.fit(x, target)
    yield "GaussianProcessRegressor.predict", y, process.predict
    yield (
        "GaussianProcessRegressor.log_marginal_likelihood",
        row(0.25),
        lambda t: process.log_marginal_likelihood(t, clone_kernel=True),
    )
    yield "Ridge.predict", y, linear_model.Ridge().fit(x, target).predict
    yield "BayesianRidge.predict", y, linear_model.BayesianRidge().fit(x, target).predict
    logistic = linear_model.LogisticRegression().fit(x, label)
    yield "LogisticRegression.decision_function", y, logistic.decision_function
    yield "LogisticRegression.predict_proba", y, logistic.predict_proba
    yield "LogisticRegression.predict_log_proba", y, logistic.predict_log_proba
    net = neural_network.MLPRegressor(
        hidden_layer_sizes=(5,), activation="logistic", max_iter=80, random_state=1
    )
    yield "MLPRegressor.predict", y, net.fit(x, target).predict
    blobs = np.concatenate([x, x + 2.5])
    for kind in ("full", "diag", "tied"):
        gaussians = mixture.GaussianMixture(2, covariance_type=kind, reg_covar=0.2, random_state=3)
        yield f"GaussianMixture.score_samples ({kind})", y, gaussians.fit(blobs).score_samples
    yield "GaussianMixture.predict_proba", y, gaussians.predict_proba
    yield "PCA.transform", y, decomposition.PCA(2).fit(x).transform
    yield "PCA.score_samples", y, decomposition.PCA(2).fit(x).score_samples
    yield "FactorAnalysis.transform", y, decomposition.FactorAnalysis(2).fit(x).transform
    yield "StandardScaler.transform", y, pre.StandardScaler().fit(x).transform
    yield "MinMaxScaler.transform", y, pre.MinMaxScaler().fit(x).transform
    yield "KMeans.transform", y, cluster.KMeans(2, n_init=1, random_state=0).fit(blobs).transform


@package
def scipy() -> Rows:
    """SciPy, by its own names."""
    import scipy.linalg as la
    from scipy import interpolate, optimize, signal, special, stats
    from scipy.spatial import distance

    x = row(0.7, 1.6, 2.4, 0.9)
    for name, shapes in (("norm", ()), ("gamma", (2.2,)), ("t", (4.0,)), ("beta", (2.0, 3.0))):
        law = getattr(stats, name)
        at = x / 3.0 if name == "beta" else x
        yield f"stats.{name}.logpdf", at, lambda v, law=law, s=shapes: law.logpdf(v, *s)
        yield f"stats.{name}.cdf", at, lambda v, law=law, s=shapes: law.cdf(v, *s)
    yield (
        "stats.multivariate_normal.logpdf",
        row(0.4, -0.2),
        lambda v: stats.multivariate_normal.logpdf(v, row(0.1, 0.3), covariance(2)),
    )
    yield "optimize.rosen", x, optimize.rosen
    yield "optimize.rosen_der", x, optimize.rosen_der
    yield "linalg.toeplitz", x, la.toeplitz
    yield "linalg.block_diag", x, lambda v: la.block_diag(v[:2], 1.0, v[2:])
    yield "linalg.expm", points(3, 3), la.expm
    yield "linalg.solve", covariance(3), lambda a: la.solve(a, row(1.0, -2.0, 0.5))
    yield "linalg.cho_solve", row(1.0, 0.3), lambda b: la.cho_solve((np.eye(2) * 1.5, True), b)
    yield "special.logsumexp", x, special.logsumexp
    yield "special.softmax", x, special.softmax
    yield "special.gammaln", x, special.gammaln
    yield "signal.convolve", x, lambda v: signal.convolve(v, row(1.0, -0.5))
    yield "signal.lfilter", x, lambda v: signal.lfilter([0.4], [1.0, -0.6], v)
    yield "spatial.distance.cdist", points(3, 2), lambda a: distance.cdist(a, points(2, 2, seed=4))
    spline = interpolate.CubicSpline(np.arange(5.0), np.sin(np.arange(5.0)))
    yield "interpolate.CubicSpline(...)(x)", x, spline


@package
def hmmlearn() -> Rows:
    """hmmlearn: densities of hidden Markov models."""
    from hmmlearn.stats import log_multivariate_normal_density as density

    seen, means = points(6, 2, seed=3), points(3, 2, seed=4)
    yield "density (diag)", means, lambda m: density(seen, m, 0.8 * np.ones((3, 2)), "diag")
    yield "density (spherical)", means, lambda m: density(seen, m, row(0.5, 1.0, 2.0), "spherical")
    full = np.stack([covariance(2, seed=k) for k in range(3)])
    yield "density (full)", means, lambda m: density(seen, m, full, "full")
    yield "density (tied)", means, lambda m: density(seen, m, covariance(2), "tied")


@package
def scoringrules() -> Rows:
    """scoringrules: scores of forecasts."""
    import scoringrules as rules

    seen, mean = row(0.2, -0.6), row(0.5, 0.1)
    yield "crps_normal", mean, lambda m: rules.crps_normal(seen, m, 0.9)
    yield "crps_logistic", mean, lambda m: rules.crps_logistic(seen, m, 0.9)
    yield "crps_exponential", mean, lambda r: rules.crps_exponential(np.abs(seen), r)
    yield "logs_normal", mean, lambda m: rules.logs_normal(seen, m, 0.9)
    yield "crps_ensemble", points(2, 6), lambda f: rules.crps_ensemble(seen, f, backend="numpy")
    yield (
        "energy_score",
        points(2, 5, 3),
        lambda f: rules.energy_score(points(2, 3, seed=9), f, backend="numpy"),
    )


@package
def ot() -> Rows:
    """POT: optimal transport."""
    import ot

    cost = np.abs(points(3, 4)) + 0.2
    one, two = np.ones(3) / 3, row(0.1, 0.2, 0.3, 0.4)
    yield "sinkhorn2", cost, lambda m: ot.sinkhorn2(one, two, m, 0.7)
    yield "sinkhorn", cost, lambda m: ot.sinkhorn(one, two, m, 0.7)
    yield (
        "unbalanced.sinkhorn_unbalanced2",
        cost,
        lambda m: ot.unbalanced.sinkhorn_unbalanced2(one, two, m, 0.7, 0.9),
    )
    yield "dist", points(3, 2), lambda a: ot.dist(a, points(4, 2, seed=1))
    yield (
        "gaussian.bures_wasserstein_distance",
        covariance(2),
        lambda c: ot.gaussian.bures_wasserstein_distance(
            np.zeros(2), np.ones(2), 0.5 * (c + c.T), covariance(2, seed=1)
        ),
    )
    yield "emd2", cost, lambda m: ot.emd2(one, two, m)


@package
def emcee() -> Rows:
    """emcee: autocorrelation of chains."""
    from emcee.autocorr import function_1d

    yield "autocorr.function_1d", points(8), function_1d


# --- arrays and tensors ---------------------------------------------------------------------------


@package
def einops() -> Rows:
    """einops: axes by name."""
    from einops import einsum, pack, rearrange, reduce, repeat

    x = points(6, 4)
    yield "rearrange", x, lambda a: rearrange(a**2, "(h k) w -> w (k h)", h=3)
    yield "reduce (mean)", x, lambda a: reduce(a**2, "(h k) w -> h w", "mean", k=2)
    yield "reduce (max)", x, lambda a: reduce(a, "h w -> w", "max")
    yield "repeat", x, lambda a: repeat(a**2, "h w -> h k w", k=2)
    yield "einsum", x, lambda a: einsum(a, points(4, 2, seed=2), "i j, j k -> k i")
    yield "pack", x, lambda a: pack([a, np.ones((6, 2))], "h *")[0] ** 2


@package
def tensorly() -> Rows:
    """TensorLy: products and decompositions of tensors."""
    import tensorly
    from tensorly import tenalg
    from tensorly.metrics.regression import MSE, RMSE

    factors = [points(4, 2, seed=k) for k in range(2)]
    yield (
        "cp_to_tensor",
        points(3, 2, seed=5),
        lambda a: tensorly.cp_to_tensor((None, [a, *factors])),
    )
    yield "tucker_to_tensor", points(2, 2), lambda c: tensorly.tucker_to_tensor((c, factors))
    yield "tenalg.mode_dot", points(2, 3, 2), lambda t: tenalg.mode_dot(t, points(4, 3), 1)
    yield "tenalg.khatri_rao", points(3, 2), lambda a: tenalg.khatri_rao([a, *factors])
    yield "tenalg.kronecker", points(2, 2), lambda a: tenalg.kronecker([a, factors[0]])
    yield "unfold", points(2, 3, 2), lambda t: tensorly.unfold(t**2, 1)
    yield "metrics.MSE", points(3, 2), lambda a: MSE(np.ones((3, 2)), a)
    yield "metrics.RMSE", points(3, 2), lambda a: RMSE(np.ones((3, 2)), a)


@package
def xarray() -> Rows:
    """xarray: arrays with labels."""
    import xarray

    x = row(0.5, 1.5, 4.0, 2.0)
    labelled = lambda v: xarray.DataArray(v, dims="t", coords={"t": [0.0, 1.0, 2.0, 4.0]})  # noqa: E731
    yield "mean of squares", x, lambda v: (labelled(v) ** 2).mean("t").data
    yield "differentiate", x, lambda v: labelled(v**2).differentiate("t").data
    yield "integrate", x, lambda v: labelled(v**2).integrate("t").data
    yield (
        "alignment",
        x,
        lambda v: (labelled(v) * labelled(v)[::-1].shift(t=1, fill_value=0.0)).data,
    )


@package
def pandas() -> Rows:
    """pandas: columns that hold traced values."""
    import pandas

    weights = pandas.Series([0.5, 2.0, 1.0], index=list("abc"))
    x = row(0.4, 1.2, 2.0)
    yield "product of a Series", x, lambda v: (weights * v).to_numpy()
    yield "std", x, lambda v: (weights * v).std()
    frame = pandas.DataFrame({"u": [1.0, 2.0, 4.0], "v": [0.5, 0.1, 0.9]})
    yield "frame @ x", x[:2], lambda v: (frame @ v).to_numpy()
    yield "np.where of a Series", x, lambda v: np.where(weights > 0.7, v**2, 0.0)


# --- signals, filters, control --------------------------------------------------------------------


@package
def filterpy() -> Rows:
    """filterpy: Kalman filters."""
    from filterpy.common import Q_continuous_white_noise, Q_discrete_white_noise
    from filterpy.kalman import KalmanFilter, MerweScaledSigmaPoints, predict, update
    from filterpy.stats import gaussian, multivariate_multiply

    moves = np.array([[1.0, 0.2], [0.0, 0.9]])

    def step(f: Any) -> Any:
        x, p = predict(row(0.5, 1.0), np.eye(2), f, 0.2 * np.eye(2))
        return update(x, p, row(0.8), np.array([[0.3]]), np.array([[1.0, 0.0]]))[0]

    def likelihood(f: Any) -> Any:
        k = KalmanFilter(dim_x=2, dim_z=1)
        k.F, k.H, k.R, k.Q = f, np.array([[1.0, 0.0]]), np.array([[0.4]]), 0.2 * np.eye(2)
        total = 0.0
        for seen in (0.3, 0.8, 0.5):
            k.predict()
            k.update(seen)
            total = total + k.log_likelihood
        return total

    sigma = MerweScaledSigmaPoints(2, alpha=0.2, beta=2.0, kappa=0.5)
    yield "predict and update", moves, step
    yield "KalmanFilter.log_likelihood", moves, likelihood
    yield "Q_discrete_white_noise", 0.4, lambda dt: Q_discrete_white_noise(3, dt, 0.8)
    yield "Q_continuous_white_noise", 0.4, lambda dt: Q_continuous_white_noise(2, dt, 0.8)
    yield (
        "MerweScaledSigmaPoints.sigma_points",
        row(0.3, -0.7),
        lambda x: sigma.sigma_points(x, covariance(2)),
    )
    yield (
        "stats.multivariate_multiply",
        covariance(2),
        lambda c: multivariate_multiply(row(0.2, 0.4), c, row(1.0, 0.3), np.eye(2))[0],
    )
    yield "stats.gaussian", 0.3, lambda x: gaussian(x, 0.1, 0.8)


@package
def quantecon() -> Rows:
    """QuantEcon: linear models of economics."""
    import quantecon

    a = np.array([[0.8, 0.1], [0.2, 0.6]])

    def filtered(a: Any) -> Any:
        model = quantecon.LinearStateSpace(
            a, 0.7 * np.eye(2), np.array([[1.0, 0.3]]), np.array([[0.5]])
        )
        kalman = quantecon.Kalman(model, np.zeros((2, 1)), np.eye(2))
        kalman.update(np.array([[0.9]]))
        return kalman.x_hat

    yield "solve_discrete_lyapunov", a, lambda a: quantecon.solve_discrete_lyapunov(a, np.eye(2))
    yield (
        "solve_discrete_riccati",
        a,
        lambda a: quantecon.solve_discrete_riccati(a, row(0.5, 1.0)[:, None], np.eye(2), np.eye(1)),
    )
    yield "Kalman.update", a, filtered
    yield (
        "ARMA.spectral_density",
        row(0.4, 0.3),
        lambda p: quantecon.ARMA([p[0]], [p[1]], 0.9).spectral_density(res=12)[1],
    )
    yield "lorenz_curve", row(0.5, 1.5, 2.5), lambda y: quantecon.lorenz_curve(y)[1]


@package
def skrf() -> Rows:
    """scikit-rf: lines and networks of microwaves."""
    from skrf import mathFunctions as functions
    from skrf import network
    from skrf import tlineFunctions as lines

    loads = row(20.0, 60.0)
    waves = 0.3 * points(1, 2, 2, seed=2)
    yield "network.s2z", waves, lambda s: np.real(network.s2z(s + 0.1j))
    yield "network.s2t", waves + np.eye(2), lambda s: np.abs(network.s2t(s + 0.1j))
    yield "zl_2_Gamma0", loads, lambda z: np.abs(lines.zl_2_Gamma0(50.0, z + 8j))
    yield "zl_2_zin", loads, lambda z: np.imag(lines.zl_2_zin(50.0, z + 8j, 0.2))
    yield "skin_depth", row(0.8, 1.7), lambda r: 1e6 * lines.skin_depth(2e9, 1e-8 * r, 1.0)
    yield "complex_2_db", loads, lambda z: functions.complex_2_db(z + 3j)
    yield "complex_2_degree", loads, lambda z: functions.complex_2_degree(z + 3j)


@package
def lmfit() -> Rows:
    """lmfit: shapes of lines."""
    from lmfit import lineshapes, models

    at = np.linspace(-1.5, 1.5, 6)
    for name, p in (
        ("gaussian", (1.2, 0.1, 0.6)),
        ("lorentzian", (1.2, 0.1, 0.6)),
        ("voigt", (1.2, 0.1, 0.6)),
        ("pvoigt", (1.2, 0.1, 0.6, 0.3)),
        ("split_lorentzian", (1.2, 0.1, 0.6, 0.8)),
        ("doniach", (1.2, 0.1, 0.6, 0.2)),
        ("exponential", (1.2, 0.9)),
        ("logistic", (1.2, 0.1, 0.6)),
    ):
        shape = getattr(lineshapes, name)
        yield f"lineshapes.{name}", row(*p), lambda p, shape=shape: shape(at, *p)
    model = models.GaussianModel()
    yield (
        "GaussianModel.eval",
        row(1.2, 0.1, 0.6),
        lambda p: model.eval(x=at, amplitude=p[0], center=p[1], sigma=p[2]),
    )


@package
def sympy() -> Rows:
    """SymPy: functions that lambdify writes."""
    import sympy as s

    x, y = s.symbols("x y")
    branches = s.Piecewise((x * y, x < y), (s.exp(y), True)) + s.Max(x, 2 * y)
    at = row(0.4, 0.9)
    for name, terms, modules in (
        ("lambdify", s.cos(x * y) + s.sqrt(x + y), "numpy"),
        ("lambdify, branches", branches, "numpy"),
        ("lambdify, a matrix", s.Matrix([[x, s.sin(y)], [2, x / y]]), "numpy"),
        ("lambdify, of SciPy", s.erf(x) * s.gamma(y), ["scipy", "numpy"]),
    ):
        f = s.lambdify((x, y), terms, modules, cse=True)
        yield name, at, lambda v, f=f: f(v[0], v[1])


# --- earth, sky and power -------------------------------------------------------------------------


@package
def pvlib() -> Rows:
    """pvlib: photovoltaics."""
    import pvlib
    from pvlib import atmosphere, iam, inverter, irradiance, pvsystem, singlediode, temperature

    angle, light = row(25.0, 55.0), row(250.0, 420.0)
    beam, zenith = row(650.0, 720.0), row(35.0, 48.0)
    sandia = {
        "Paco": 5000.0, "Pdco": 5200.0, "Vdco": 360.0, "Pso": 25.0,
        "C0": -4e-6, "C1": -3e-5, "C2": -2e-3, "C3": 1e-4, "Pnt": 0.4,
    }  # fmt: skip
    yield "irradiance.aoi", angle, lambda tilt: irradiance.aoi(tilt, 190.0, 40.0, 160.0)
    yield (
        "irradiance.perez",
        light,
        lambda d: irradiance.perez(25.0, 190.0, d, beam, 1350.0, zenith, 160.0, row(1.2, 1.5)),
    )
    yield (
        "irradiance.haydavies",
        light,
        lambda d: irradiance.haydavies(25.0, 190.0, d, beam, 1350.0, zenith, 160.0),
    )
    yield "irradiance.erbs", light, lambda g: irradiance.erbs(g, zenith, 150)["dni"]
    yield (
        "temperature.sapm_cell",
        beam,
        lambda g: temperature.sapm_cell(g, 15.0, 3.0, -3.5, -0.06, 3),
    )
    yield "temperature.faiman", beam, lambda g: temperature.faiman(g, 15.0, 3.0)
    yield "atmosphere.get_relative_airmass", zenith, atmosphere.get_relative_airmass
    yield "atmosphere.alt2pres", beam, atmosphere.alt2pres
    yield "iam.physical", angle, iam.physical
    yield "iam.ashrae", angle, iam.ashrae
    yield "iam.martin_ruiz", angle, iam.martin_ruiz
    yield (
        "inverter.sandia",
        row(2500.0, 3100.0),
        lambda p: inverter.sandia(row(330.0, 350.0), p, sandia),
    )
    yield (
        "clearsky.simplified_solis",
        row(20.0, 45.0),
        lambda z: pvlib.clearsky.simplified_solis(z)["dni"],
    )
    yield (
        "pvsystem.i_from_v",
        row(15.0, 22.0),
        lambda v: pvsystem.i_from_v(v, 6.5, 2e-9, 0.2, 250.0, 1.4),
    )
    yield (
        "singlediode.bishop88",
        row(15.0, 22.0),
        lambda v: singlediode.bishop88(v, 6.5, 2e-9, 0.2, 250.0, 1.4)[2],
    )


@package
def metpy() -> Rows:
    """MetPy: meteorology, with the units of pint."""
    import metpy.calc as calc
    from metpy.units import units

    kelvin = row(275.0, 295.0)
    yield (
        "saturation_vapor_pressure",
        kelvin,
        lambda t: calc.saturation_vapor_pressure(t * units.kelvin).m,
    )
    yield (
        "potential_temperature",
        kelvin,
        lambda t: calc.potential_temperature(900.0 * units.hPa, t * units.kelvin).m,
    )


@package
def seawater() -> Rows:
    """seawater: the equation of state of 1980."""
    import seawater

    salt, warmth, deep = row(33.0, 35.5), row(6.0, 14.0), row(50.0, 400.0)
    yield "dens", salt, lambda s: 1e-3 * seawater.dens(s, warmth, deep)
    yield "svel", warmth, lambda t: 1e-3 * seawater.svel(salt, t, deep)
    yield "ptmp", warmth, lambda t: seawater.ptmp(salt, t, deep, 0.0)
    yield "cp", warmth, lambda t: 1e-3 * seawater.cp(salt, t, deep)


@package
def gstools() -> Rows:
    """GSTools: models of covariance."""
    import gstools

    away = row(0.2, 0.9)
    yield "Gaussian.variogram", away, gstools.Gaussian(dim=2, var=1.5, len_scale=0.7).variogram
    yield "Exponential.covariance", away, gstools.Exponential(dim=2, var=1.5).covariance
    yield "Matern.correlation", away, gstools.Matern(dim=2, len_scale=0.7, nu=1.7).correlation


@package
def galpy() -> Rows:
    """galpy: potentials of galaxies."""
    from galpy import potential

    halo = potential.NFWPotential(a=1.6, normalize=0.8)
    disc = potential.MiyamotoNagaiPotential(a=0.4, b=0.2, normalize=0.7)
    logarithmic = potential.LogarithmicHaloPotential(normalize=0.9)
    yield "NFWPotential", 1.3, lambda r: halo(r, 0.1)
    yield "MiyamotoNagaiPotential", 1.3, lambda r: disc(r, 0.1)
    yield "LogarithmicHaloPotential.Rforce", 1.3, lambda r: logarithmic.Rforce(r, 0.1)


# --- geometry, colour, pictures -------------------------------------------------------------------


@package
def ahrs() -> Rows:
    """ahrs: attitude and its frames."""
    from ahrs.common import frames, orientation

    turn = row(0.7, 0.1, 0.5, 0.5) / 1.0
    yield "q2R", turn, orientation.q2R
    yield "q_prod", turn, lambda q: orientation.q_prod(q, turn[::-1].copy())
    yield "q_conj", turn, lambda q: orientation.q_conj(q) * q
    yield (
        "ecompass",
        row(0.1, 0.4, 9.5),
        lambda a: orientation.ecompass(a, row(25.0, 3.0, -35.0), frame="NED"),
    )
    yield (
        "geodetic2ecef",
        row(0.4, 0.2),
        lambda v: 1e-6 * np.stack(list(frames.geodetic2ecef(v[0], v[1], 50.0))),
    )


@package
def spatialmath() -> Rows:
    """Spatial Maths for Python: rotations and motions."""
    from spatialmath import base

    angles, turn = row(0.2, -0.1, 0.4), row(0.8, 0.3, 0.4, 0.3)
    yield "rotx", 0.5, base.rotx
    yield "rpy2r", angles, lambda v: base.rpy2r(v)
    yield "eul2r", angles, lambda v: base.eul2r(v)
    yield "trexp", row(0.2, 0.1, 0.4, 0.3, -0.2, 0.5), base.trexp
    yield "qqmul", turn, lambda q: base.qqmul(q, turn)
    yield "q2r", turn, base.q2r
    yield "skew", angles, base.skew


@package
def pymap3d() -> Rows:
    """pymap3d: coordinates on the earth."""
    import pymap3d

    place = row(35.0, 12.0, 120.0)
    yield "geodetic2ecef", place, lambda v: 1e-6 * np.stack(pymap3d.geodetic2ecef(*v))
    yield "ecef2geodetic", 1e6 * row(4.9, 1.1, 3.8), lambda v: np.stack(pymap3d.ecef2geodetic(*v))
    yield "enu2aer", row(80.0, 150.0, 60.0), lambda v: np.stack(pymap3d.enu2aer(*v))
    yield (
        "geodetic2enu",
        place,
        lambda v: 1e-3 * np.stack(pymap3d.geodetic2enu(*v, 35.05, 11.9, 80.0)),
    )


@package
def colour() -> Rows:
    """Colour: the science of it."""
    import colour

    seen, other = row(0.25, 0.18, 0.07), row(52.0, 3.0, -8.0)
    for name in ("XYZ_to_Lab", "XYZ_to_Luv", "XYZ_to_sRGB", "XYZ_to_Oklab"):
        yield name, seen, getattr(colour, name)
    yield "RGB_to_HSV", row(0.5, 0.1, 0.3), colour.RGB_to_HSV
    yield (
        "delta_E_CIE1976",
        row(49.0, 1.0, -9.0),
        lambda a: colour.difference.delta_E_CIE1976(a, other),
    )
    yield (
        "delta_E_CIE2000",
        row(49.0, 1.0, -9.0),
        lambda a: colour.difference.delta_E_CIE2000(a, other),
    )
    yield "eotf_ST2084", row(0.2, 0.4, 0.6), colour.models.eotf_ST2084


@package
def skimage() -> Rows:
    """scikit-image: colours and likeness of pictures."""
    from skimage import color, metrics

    rng = np.random.default_rng(6)
    picture, grey = rng.uniform(0.2, 0.8, (2, 3, 3)), rng.uniform(0.2, 0.8, (8, 8))
    other = rng.uniform(0.2, 0.8, (8, 8))
    yield "color.rgb2lab", picture, color.rgb2lab
    yield "color.rgb2hsv", picture, color.rgb2hsv
    yield "color.rgb2gray", picture, color.rgb2gray
    yield "color.rgb2ycbcr", picture, color.rgb2ycbcr
    yield "metrics.mean_squared_error", grey, lambda a: metrics.mean_squared_error(a, other)
    yield (
        "metrics.structural_similarity",
        grey,
        lambda a: metrics.structural_similarity(a, other, data_range=1.0, win_size=5),
    )


# --- chemistry, money, games ----------------------------------------------------------------------


@package
def fluids() -> Rows:
    """fluids: flow in pipes, tanks and the air."""
    from fluids import atmosphere, friction, geometry, numerics

    yield "friction.friction_factor", 2.5e5, lambda re: 1e2 * friction.friction_factor(re, 2e-4)
    yield "friction.Haaland", 2.5e5, lambda re: 1e2 * friction.Haaland(re, 2e-4)
    yield "numerics.horner", 0.6, lambda x: numerics.horner([2.0, -1.0, 3.0], x)
    yield "atmosphere.ATMOSPHERE_1976", 2500.0, lambda z: 1e-5 * atmosphere.ATMOSPHERE_1976(z).P
    yield (
        "geometry.V_horiz_conical",
        0.5,
        lambda h: geometry.V_horiz_conical(1.2, 3.0, 0.7, h),
    )


@package
def numpy_financial() -> Rows:
    """numpy-financial: interest."""
    import numpy_financial as money

    flows, rate = row(-120.0, 50.0, 40.0, 60.0), row(0.02, 0.015)
    yield "npv", flows, lambda v: money.npv(0.04, v)
    yield "pmt", rate, lambda r: 1e-2 * money.pmt(r, 36, 2000.0)
    yield "fv", rate, lambda r: 1e-2 * money.fv(r, 36, -20.0, -300.0)
    yield "pv", rate, lambda r: 1e-2 * money.pv(r, 36, -20.0, 300.0)
    yield "irr", flows, money.irr


@package
def nashpy() -> Rows:
    """Nashpy: games of two."""
    import nashpy

    game = nashpy.Game(np.array([[2.0, 0.0], [1.0, 3.0]]))
    yield "payoffs", row(0.6, 0.4), lambda s: game[s, row(0.3, 0.7)]
