"""Code that nobody here wrote, run unchanged on traced values: SciPy, xarray, pandas, scikit-learn.

Gradients are compared with finite differences, in reverse and forward mode.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import (
    AbstractBooleanError,
    FungradError,
    NonDifferentiableInputError,
)

X = np.array([1.3, 0.7, 0.8, 1.9, 1.2])
A = np.arange(6.0).reshape(2, 3) + np.array([[1.0, 1.4, 0.7], [1.1, 0.2, 1.9]])

# --- SciPy ----------------------------------------------------------------------------------------


def test_rosen_has_the_derivatives_that_scipy_gives():
    optimize = pytest.importorskip("scipy.optimize")
    rosen, slope, curvature = optimize.rosen, optimize.rosen_der, optimize.rosen_hess
    np.testing.assert_allclose(fg.grad(rosen)(X), slope(X), rtol=1e-12)
    np.testing.assert_allclose(fg.jit(fg.grad(rosen))(X), slope(X), rtol=1e-12)
    np.testing.assert_allclose(fg.hessian(rosen)(X), curvature(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fg.jacobian(slope)(X), curvature(X), rtol=1e-12, atol=1e-12)
    direction = np.linspace(-1.0, 1.0, 5)
    np.testing.assert_allclose(
        fg.hvp(rosen, (X,), (direction,))[0], optimize.rosen_hess_prod(X, direction), rtol=1e-12
    )
    batch = np.stack([X, 2.0 * X])
    np.testing.assert_allclose(fg.vmap(fg.grad(rosen))(batch), [slope(x) for x in batch])


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "SLSQP", "trust-constr"])
def test_plain_minimize_takes_a_gradient(method):
    optimize = pytest.importorskip("scipy.optimize")
    found = optimize.minimize(optimize.rosen, X, jac=fg.grad(optimize.rosen), method=method,
                              options={"maxiter": 500})  # fmt: skip
    assert found.njev > 0
    np.testing.assert_allclose(found.x, 1.0, atol=1e-3)


SCIPY = {
    "integrate.trapezoid": lambda s, x: s.trapezoid(x, dx=0.5),
    "integrate.simpson": lambda s, x: s.simpson(x, dx=0.5),
    "linalg.norm": lambda s, x: s.norm(x),
    "linalg.toeplitz": lambda s, x: np.sum(s.toeplitz(x) ** 2),
    "signal.convolve": lambda s, x: np.sum(s.convolve(x, [1.0, 2.0]) ** 2),
    "spatial.distance.euclidean": lambda s, x: s.euclidean(x, np.ones(5)),
    "special.softmax": lambda s, x: s.softmax(x)[0],
}


@pytest.mark.parametrize("name", SCIPY)
def test_python_code_of_scipy(name):
    part, _, _ = name.rpartition(".")
    module = pytest.importorskip(f"scipy.{part}")
    fg.testing.check_grads(lambda x: SCIPY[name](module, x), [X], modes=["rev"])


@pytest.mark.parametrize("basis", ["polynomial", "chebyshev", "legendre", "hermite", "laguerre"])
def test_the_series_of_numpy_polynomial(basis):
    module = getattr(np.polynomial, basis)
    value = next(getattr(module, n) for n in dir(module) if n.endswith("val") and len(n) <= 7)
    fg.testing.check_grads(lambda x: np.sum(value(x, [1.0, 2.0, 3.0, 0.5])), [X])
    coefficients = np.array([1.0, 2.0, 3.0, 0.5])
    fg.testing.check_grads(lambda c: np.sum(value(X, c)), [coefficients], modes=["rev"])


def test_objects_that_numpy_and_scipy_made():
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation.from_rotvec([0.1, 0.2, 0.3])
    for f in (
        np.poly1d([1.0, 2.0, 3.0]),
        np.polynomial.Polynomial([1.0, 2.0, 3.0]),
        np.polynomial.Chebyshev([1.0, 2.0, 3.0]),
        lambda x: rotation.as_matrix() @ x[:3] ** 2,
    ):
        fg.testing.check_grads(f, [X])
        np.testing.assert_allclose(fg.jit(f)(X), f(X), rtol=1e-13)
        np.testing.assert_allclose(fg.vmap(f)(np.stack([X, 2 * X]))[1], f(2 * X), rtol=1e-13)


def test_a_likelihood_of_scipy_s_distributions_is_fitted():
    pytest.importorskip("scipy")
    data = fg.scipy.stats.gamma.rvs(2.5, scale=1.7, size=60, random_state=0)

    def loss(p):
        shape, scale = np.exp(p)
        return -np.mean(fg.scipy.stats.gamma.logpdf(data, shape, scale=scale))

    found = fg.scipy.optimize.minimize(fg.jit(loss), np.zeros(2), method="trust-ncg")
    shape, _, scale = fg.scipy.stats.gamma.fit(data, floc=0)
    np.testing.assert_allclose(np.exp(found.x), [shape, scale], rtol=1e-4)


# --- xarray ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def xarray():
    return pytest.importorskip("xarray")


XARRAY = {
    "arithmetic": lambda xr, a: (a * 2.0 - a**2).sum(),
    "alignment": lambda xr, a: (
        a * xr.DataArray([1.0, 2.0, 5.0], dims="lon", coords={"lon": [30.0, 20.0, 10.0]})
    ).sum(),
    "broadcasting": lambda xr, a: (a * xr.DataArray([1.0, 2.0], dims="new")).sum(),
    "anomaly": lambda xr, a: ((a - a.mean("time")) ** 2).sum(),
    "ufunc": lambda xr, a: np.exp(-a).sum(),
    "std": lambda xr, a: a.std("lon").sum(),
    "max": lambda xr, a: a.max("time").sum(),
    "median": lambda xr, a: a.median("lon").sum(),
    "quantile": lambda xr, a: a.quantile(0.3, "lon").sum(),
    "sel": lambda xr, a: (a.sel(lon=20.0) ** 2).sum(),
    "isel": lambda xr, a: (a.isel(time=1, lon=slice(1, None)) ** 2).sum(),
    "where": lambda xr, a: (a.where(a > 2.0, 0.0) ** 2).sum(),
    "where and skipna": lambda xr, a: (a.where(a > 2.0) ** 2).sum(),
    "diff": lambda xr, a: (a.diff("lon") ** 2).sum(),
    "cumsum": lambda xr, a: (a.cumsum("lon") ** 2).sum(),
    "shift": lambda xr, a: (a.shift(lon=1, fill_value=0.0) * a).sum(),
    "roll": lambda xr, a: (a.roll(lon=1) * a).sum(),
    "integrate": lambda xr, a: (a.integrate("lon") ** 2).sum(),
    "differentiate": lambda xr, a: (a.differentiate("lon") ** 2).sum(),
    "rolling": lambda xr, a: (a.rolling(lon=2).mean().isel(lon=slice(1, None)) ** 2).sum(),
    "coarsen": lambda xr, a: (a.coarsen(time=2).mean() ** 2).sum(),
    "groupby": lambda xr, a: (
        a.assign_coords(side=("lon", [0, 0, 1])).groupby("side").mean() ** 2
    ).sum(),
    "weighted": lambda xr, a: (
        a.weighted(xr.DataArray([1.0, 2.0, 5.0], dims="lon")).mean("lon") ** 2
    ).sum(),
    "concat": lambda xr, a: (xr.concat([a, 2.0 * a], "time") ** 2).sum(),
    "stack": lambda xr, a: (a.stack(place=("time", "lon")) ** 2).sum(),
    "transpose": lambda xr, a: (a.transpose("lon", "time")[0] ** 2).sum(),
    "dot": lambda xr, a: xr.dot(a, a),
    "apply_ufunc": lambda xr, a: xr.apply_ufunc(np.tanh, a).sum(),
    "polyfit": lambda xr, a: (a.polyfit("lon", 1).polyfit_coefficients ** 2).sum(),
    "Dataset": lambda xr, a: (xr.Dataset({"a": a, "b": a * a}).sum())["b"],
}


@pytest.mark.parametrize("name", XARRAY)
def test_a_dataarray_holds_traced_values(xarray, name):
    def f(values):
        coords = {"time": [0, 1], "lon": [10.0, 20.0, 30.0]}
        array = xarray.DataArray(values, dims=("time", "lon"), coords=coords)
        return XARRAY[name](xarray, array).data

    plain = f(A)
    assert isinstance(fg.grad(f)(A), np.ndarray)
    np.testing.assert_allclose(fg.vjp(f, A)[0], plain, rtol=1e-13)
    fg.testing.check_grads(f, [A], order=1)
    if name == "polyfit":  # looks at values to find NaN
        with pytest.raises(AbstractBooleanError):
            fg.jit(f, branches="error")(A)
    np.testing.assert_allclose(fg.jit(f)(A), plain, rtol=1e-13)


def test_xarray_under_vmap_and_hessian(xarray):
    f = lambda v: (xarray.DataArray(v, dims=("x",)) ** 3).sum().data  # noqa: E731
    np.testing.assert_allclose(fg.hessian(f)(X), np.diag(6.0 * X))
    np.testing.assert_allclose(fg.vmap(f)(A), np.sum(A**3, axis=1))


def test_what_xarray_gives_to_compiled_code_is_refused(xarray):
    def f(v):
        array = xarray.DataArray(v, dims=("x",), coords={"x": np.arange(5.0)})
        return array.interp(x=1.5).data

    with pytest.raises(ValueError, match="not producing an array") as found:
        fg.grad(f)(X)
    assert "needs a plain ndarray" in found.value.__notes__[0]


# --- pandas ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [2.0, 3.0, 5.0, 8.0]})


def test_a_frame_times_traced_parameters(frame):
    w = np.array([1.0, 0.5])
    fg.testing.check_grads(lambda w: np.sum((frame @ w) ** 2), [w])
    expected = fg.grad(lambda w: np.sum((frame.to_numpy() @ w) ** 2))(w)
    np.testing.assert_array_equal(fg.grad(lambda w: np.sum((frame @ w) ** 2))(w), expected)


PANDAS = {
    "product": lambda pd, s, x: s * x,
    "product, reflected": lambda pd, s, x: x * s,
    "with a number": lambda pd, s, x: s / x[0] - x[1] ** s,
    "ufuncs": lambda pd, s, x: np.logaddexp(np.multiply(s, x), np.exp(x[0]) * s),
    "sum": lambda pd, s, x: (s * x).sum(),
    "mean": lambda pd, s, x: (s * x).mean(),
    "std, with ddof=1": lambda pd, s, x: (s * x).std(),
    "max": lambda pd, s, x: (s * x).max(),
    "median": lambda pd, s, x: (s * x).median(),
    "cumsum": lambda pd, s, x: (s * x).cumsum(),
    "clip": lambda pd, s, x: (s * x).clip(0.0, 3.0),
    "by a mask": lambda pd, s, x: (s * x)[s > 1.5],
    "by a label": lambda pd, s, x: (s * x).loc["b"] ** 2,
    "where": lambda pd, s, x: (s * x).where(s > 1.5, -1.0),
    "sorted": lambda pd, s, x: (s * x).sort_values(),
    "concat": lambda pd, s, x: pd.concat([s * x, s]),
    "a column of traced values": lambda pd, s, x: pd.Series(x**2).mean(),
    "a frame of traced values": lambda pd, s, x: pd.DataFrame({"u": x, "v": x**2}).sum(),
    "rows of a frame": lambda pd, s, x: pd.DataFrame(np.outer(x, x)).mean(axis=1),
    "frame times a row": lambda pd, s, x: pd.DataFrame({"u": s, "v": 2 * s}) * x[:2],
    "frame @ parameters": lambda pd, s, x: pd.DataFrame({"u": s, "v": s**2}) @ x[:2],
    "assigned": lambda pd, s, x: pd.DataFrame({"u": s}).assign(v=x).sum(axis=1),
    "apply": lambda pd, s, x: (s * x).apply(np.sin),
}


@pytest.mark.parametrize("name", PANDAS)
def test_columns_hold_traced_values_and_compute_as_pandas_does(name):
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([3.0, 1.0, 2.0], index=list("abc"), name="s")

    def f(x):
        found = PANDAS[name](pandas, column, x)
        return found.to_numpy() if hasattr(found, "to_numpy") else found

    x = np.array([1.5, 0.4, 2.5])
    np.testing.assert_allclose(fg.vjp(f, x)[0], f(x), rtol=1e-15)
    fg.testing.check_grads(f, [x], order=2)
    for transform in (fg.jit, lambda f: fg.jit(f, branches="guard")):
        try:
            found = transform(f)(x)
        except (FungradError, IndexError, TypeError) as error:  # pandas looks for NaN, or sorts
            if type(error) is TypeError:  # of pandas' C code
                assert any("A traced value" in note for note in error.__notes__)
            assert name not in {"product", "with a number", "ufuncs", "frame @ parameters"}
        else:
            np.testing.assert_allclose(found, f(x), rtol=1e-14)


@pytest.mark.parametrize(
    "use",
    [
        lambda column, w: (column - w).rolling(2).median().iloc[-1],
        lambda column, w: (column * w).groupby([0, 1, 0, 1]).prod().sum(),
        lambda column, w: (column * w).rank().sum(),
        lambda column, w: (column * w).diff().sum(),
    ],
)
def test_what_pandas_computes_in_c_says_to_numpy(frame, use):
    with pytest.raises(TypeError) as caught:
        fg.grad(lambda w: use(frame["x"], w))(1.0)
    (note,) = caught.value.__notes__
    assert note.startswith("A traced value") and "to_numpy()" in note and "test_interop.py" in note


def test_a_column_is_no_argument_and_says_so(frame):
    with pytest.raises(NonDifferentiableInputError, match="Series"):
        fg.grad(lambda s: np.sum(s**2))(frame["x"])
    np.testing.assert_array_equal(
        fg.grad(lambda s: np.sum(s**2))(frame["x"].to_numpy()), 2.0 * frame["x"]
    )


# --- scikit-learn ---------------------------------------------------------------------------------

FEATURES = np.random.default_rng(0).normal(size=(6, 2))


def test_predictions_of_fitted_models():
    linear_model = pytest.importorskip("sklearn.linear_model")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    model = linear_model.Ridge().fit(FEATURES, np.arange(6.0))
    scaler = preprocessing.StandardScaler().fit(FEATURES)
    fg.testing.check_grads(lambda x: np.sum(model.predict(x) ** 2), [FEATURES], modes=["rev"])
    fg.testing.check_grads(lambda x: np.sum(scaler.transform(x) ** 3), [FEATURES], modes=["rev"])
    classes = linear_model.LogisticRegression().fit(FEATURES, np.arange(6) % 2)
    fg.testing.check_grads(lambda x: np.tanh(classes.decision_function(x)), [FEATURES])
    components = pytest.importorskip("sklearn.decomposition").PCA(1).fit(FEATURES)
    fg.testing.check_grads(lambda x: np.tanh(components.transform(x)), [FEATURES])


def test_kernels_of_gaussian_processes_by_their_parameters():
    kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
    fg.testing.check_grads(lambda s: np.sum(kernels.DotProduct(s)(FEATURES)), [1.3], modes=["rev"])
    fg.testing.check_grads(
        lambda p: np.sum(kernels.ExpSineSquared(periodicity=p)(FEATURES)), [1.3], modes=["rev"]
    )


def test_metrics_end_in_float_and_have_a_derivative():
    metrics = pytest.importorskip("sklearn.metrics")
    found = fg.grad(lambda p: metrics.mean_squared_error(X, p))(2 * X)
    assert np.allclose(found, 2 * X / X.size)


# --- einops ---------------------------------------------------------------------------------------

EINOPS = {
    "rearrange": lambda e, x: e.rearrange(x**2, "(h k) w -> w (k h)", h=2),
    "rearrange a list": lambda e, x: e.rearrange([x, x**2, x], "n h w -> h (n w)"),
    "mean": lambda e, x: e.reduce(x**2, "(h k) w -> h w", "mean", k=2),
    "max": lambda e, x: e.reduce(x, "h w -> w", "max"),
    "prod": lambda e, x: e.reduce(x, "h w -> h", "prod"),
    "repeat": lambda e, x: e.repeat(x**2, "h w -> h (w k)", k=3),
    "einsum": lambda e, x: e.einsum(x, np.arange(6.0).reshape(3, 2), "h w, w c -> c h"),
    "pack": lambda e, x: e.pack([x**2, np.ones((4, 2, 2))], "h *")[0],
    "unpack": lambda e, x: e.unpack(x**2, [(1,), (2,)], "h *")[1],
}


@pytest.mark.parametrize("name", EINOPS)
def test_einops_takes_traced_arrays_for_numpy_s(name):
    einops = pytest.importorskip("einops")
    f = lambda x: EINOPS[name](einops, x)  # noqa: E731
    x = np.random.default_rng(2).normal(size=(4, 3))
    fg.testing.check_grads(f, [x], order=2)
    np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-14)
    batch = np.stack([x, 1.1 * x])
    np.testing.assert_allclose(fg.vmap(f)(batch), [f(x) for x in batch], rtol=1e-14)


# --- pickles --------------------------------------------------------------------------------------


def test_jitted_functions_and_graphs_go_through_pickle():
    rosen = pytest.importorskip("scipy.optimize").rosen
    jitted = pickle.loads(pickle.dumps(fg.jit(rosen)))
    assert jitted(X) == rosen(X)
    graph = fg.make_jaxpr(fg.grad(rosen))(X)
    copy = pickle.loads(pickle.dumps(graph))
    np.testing.assert_array_equal(fg.evaluate(copy, X)[0], fg.grad(rosen)(X))


@pytest.mark.parametrize("f", [lambda x: x.__array__(), lambda x: (x * 1.0).__array__()])
def test_a_package_may_ask_a_value_for_its_array(f):
    x = np.array([0.3, 0.7])
    for verb in (fg.grad, lambda g: fg.jit(fg.grad(g)), lambda g: lambda x: fg.hessian(g)(x) @ x):
        np.testing.assert_array_equal(verb(lambda x: np.sum(f(x) ** 2))(x), 2 * x)
    np.testing.assert_array_equal(fg.vmap(lambda x: f(x) * 2.0)(np.stack([x, x])), [2 * x, 2 * x])
