"""Derivatives in other packages, exact over differences: `python -m benchmarks.adapters [NAME...]`.

Each case has about ten parameters. Both ways run in turns, after one run of each, which compiles;
the figures are the least CPU times of a whole fit (sampling run, solution), in milliseconds. First
the results are compared. What is not installed is left out.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import optimize, stats

import fungrad as fg

Case = tuple[str, dict[str, Callable[[], Any]], float]
"""A name; for each way a function that returns what is found; a relative tolerance of that."""

RNG = np.random.default_rng(0)
PEAKS = np.array([3.0, -5.0, 0.8, 2.0, 0.5, 0.6, 4.0, 5.0, 1.0, 0.3])
"""Height, centre and width of three peaks, and the background."""
START = PEAKS * [0.8, 0.95, 1.2, 0.8, 0.6, 1.2, 0.8, 1.08, 0.8, 0.5]


def three_peaks(x, a, b, c, d, e, f, g, h, i, j):
    """The sum of three Gaussian peaks and a constant."""
    return (
        a * np.exp(-0.5 * ((x - b) / c) ** 2)
        + d * np.exp(-0.5 * ((x - e) / f) ** 2)
        + g * np.exp(-0.5 * ((x - h) / i) ** 2)
        + j
    )


def data(points: int) -> tuple[Any, Any]:
    """Places and noisy values of three peaks."""
    x = np.linspace(-10.0, 10.0, points)
    return x, three_peaks(x, *PEAKS) + 0.1 * np.random.default_rng(1).normal(size=points)


def probit() -> tuple[Any, Any]:
    """2,000 observations of ten regressors, and a binary outcome."""
    exog = np.column_stack([np.ones(2000), RNG.normal(size=(2000, 9))])
    return exog, (exog @ np.linspace(-0.5, 0.5, 10) + RNG.normal(size=2000) > 0).astype(float)


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function of a vector."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def of_scipy() -> Iterator[Case]:
    x, y = data(300)

    def residuals(p: Any) -> Any:
        return three_peaks(x, *p) - y

    jacobian = fg.jit(fg.jacfwd(residuals))
    yield (
        "SciPy least_squares, 300 points",
        {
            "differences": lambda: optimize.least_squares(residuals, START).x,
            "exact": lambda: optimize.least_squares(residuals, START, jac=jacobian).x,
        },
        1e-5,
    )
    start, both = np.full(10, -0.5), fg.jit(fg.value_and_grad(rosenbrock))
    yield (
        "SciPy minimize, BFGS, Rosenbrock",
        {
            "differences": lambda: optimize.minimize(rosenbrock, start).fun + 1.0,
            "exact": lambda: optimize.minimize(both, start, jac=True).fun + 1.0,
        },
        1e-4,
    )


def of_lmfit() -> Iterator[Case]:
    import lmfit

    from fungrad.interop import lmfit as exact

    models = {"a function": (lmfit.Model(three_peaks), dict(zip("abcdefghij", START, strict=True)))}
    for kind in ("Gaussian", "Voigt"):
        model, start = lmfit.models.ConstantModel(), {"c": START[9]}
        for i, part in enumerate("pqr"):
            model += getattr(lmfit.models, f"{kind}Model")(prefix=part)
            height, center, sigma = START[3 * i : 3 * i + 3]
            amplitude = height * sigma * np.sqrt(2.0 * np.pi)
            start |= {f"{part}amplitude": amplitude, f"{part}center": center}
            start[f"{part}sigma"] = sigma if kind == "Gaussian" else 0.6 * sigma
        models[f"three {kind}Models"] = (model, start)
    for name, (model, start) in models.items():
        width = "c" if name == "a function" else "psigma"
        for points in (300, 20000):
            x, y = data(points)
            params = model.make_params(**start)
            params[width].set(min=0.1, max=5.0)
            dfun = exact.jacobian(model)

            def fit(model=model, x=x, y=y, params=params, **options):
                found = model.fit(y, params, x=x, fit_kws=options)
                return np.array(list(found.best_values.values()))

            yield (
                f"lmfit, {name}, {points} points",
                {"differences": fit, "exact": lambda fit=fit, dfun=dfun: fit(Dfun=dfun)},
                1e-4,
            )


def of_iminuit() -> Iterator[Case]:
    import iminuit
    from iminuit import cost

    from fungrad.interop import iminuit as exact

    for points in (300, 20000):
        x, y = data(points)
        c = cost.LeastSquares(x, y, 0.1, three_peaks)
        minuit = exact.minuit(c, *START)
        yield (
            f"iminuit LeastSquares, {points} points",
            {
                "differences": lambda c=c: np.array(iminuit.Minuit(c, *START).migrad().values),
                "exact": lambda minuit=minuit: _again(minuit),
            },
            1e-2,
        )
    sample = np.concatenate([RNG.normal(m, 0.5, 200) for m in (-3.0, 0.0, 3.0)])

    def mixture(x, m, n, o, s, t, u, p, q):
        parts = [p, q, 1.0 - p - q]
        peaks = zip(parts, (m, n, o), (s, t, u), strict=True)
        return sum(w * stats.norm.pdf(x, mu, sigma) for w, mu, sigma in peaks)

    start = [-2.5, 0.3, 2.7, 0.7, 0.7, 0.7, 0.3, 0.3]
    c = cost.UnbinnedNLL(sample, mixture)
    minuit = exact.minuit(c, *start)
    yield (
        "iminuit UnbinnedNLL, 600 data, 8 parameters",
        {
            "differences": lambda: np.array(iminuit.Minuit(c, *start).migrad().values),
            "exact": lambda: _again(minuit),
        },
        2e-2,
    )


def _again(minuit: Any) -> Any:
    """The minimum, from the start, with the functions that are compiled."""
    minuit.reset()
    return np.array(minuit.migrad().values)


def of_astropy() -> Iterator[Case]:
    from astropy.modeling import custom_model, fitting, models

    from fungrad.interop.astropy import exact_derivatives

    @custom_model
    def custom(x, a=1.0, b=0.0, c=1.0, d=1.0, e=0.0, f=1.0, g=1.0, h=0.0, i=1.0, j=0.0):
        return a / np.cosh((x - b) / c) + d / np.cosh((x - e) / f) + g / np.cosh((x - h) / i) + j

    gaussians = [models.Gaussian1D(*START[i : i + 3]) for i in (0, 3, 6)]
    built_in = gaussians[0] + gaussians[1] + gaussians[2] + models.Const1D(START[9])
    for name, start in (("Gaussians", built_in), ("custom", custom(*START))):
        exact = exact_derivatives(start)
        for points in (300, 20000):
            x, y = data(points)
            for fitter in ("TRFLSQFitter", "LevMarLSQFitter"):
                fit = getattr(fitting, fitter)
                yield (
                    f"astropy {fitter}, {name}, {points} points",
                    {
                        "differences": lambda fit=fit, start=start, x=x, y=y: (
                            fit()(start, x, y, estimate_jacobian=True).parameters
                        ),
                        "exact": lambda fit=fit, exact=exact, x=x, y=y: (
                            fit()(exact, x, y).parameters
                        ),
                    },
                    1e-3,
                )


def of_statsmodels() -> Iterator[Case]:
    from statsmodels.base.model import GenericLikelihoodModel

    from fungrad.interop.statsmodels import ExactDerivatives

    class Differences(GenericLikelihoodModel):
        def loglikeobs(self, params: Any) -> Any:
            return stats.norm.logcdf((2 * self.endog - 1) * (self.exog @ params))

    class Exact(ExactDerivatives, Differences):
        pass

    exog, endog = probit()
    found = {"differences": Differences(endog, exog), "exact": Exact(endog, exog)}
    for method in ("newton", "bfgs"):
        yield (
            f"statsmodels probit, {method}",
            {
                way: lambda model=model, method=method: (
                    model.fit(np.zeros(10), method=method, disp=False).params
                )
                for way, model in found.items()
            },
            1e-3,
        )


def of_scikit_learn() -> Iterator[Case]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    x = RNG.normal(size=(60, 9))
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * RNG.normal(size=60)
    kernel = RBF(np.ones(9)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, optimizer=None).fit(x, y)

    def loss(theta: Any) -> Any:
        return -process.log_marginal_likelihood(theta)

    def own(theta: Any) -> Any:
        value, slope = process.log_marginal_likelihood(theta, eval_gradient=True)
        return -value, -slope

    both, bounds = fg.jit(fg.value_and_grad(loss)), kernel.bounds
    options = {"method": "L-BFGS-B", "bounds": bounds}
    yield (
        "scikit-learn, Gaussian process",
        {
            "differences": lambda: optimize.minimize(loss, kernel.theta, **options).fun,
            "scikit-learn": lambda: optimize.minimize(own, kernel.theta, jac=True, **options).fun,
            "exact": lambda: optimize.minimize(both, kernel.theta, jac=True, **options).fun,
        },
        1e-2,
    )


def of_openmdao() -> Iterator[Case]:
    import openmdao.api as om

    from fungrad.interop.openmdao import ExplicitComponent

    class Differences(om.ExplicitComponent):
        def setup(self) -> None:
            self.add_input("x", np.full(10, -0.5))
            self.add_output("f")
            self.declare_partials("f", "x", method="fd")

        def compute(self, inputs: Any, outputs: Any) -> None:
            outputs["f"] = rosenbrock(inputs["x"])

    def problem(component: Any) -> Any:
        made = om.Problem(reports=False)
        made.model.add_subsystem("part", component, promotes=["*"])
        made.driver = om.ScipyOptimizeDriver(optimizer="SLSQP", tol=1e-9, maxiter=400, disp=False)
        made.model.add_design_var("x", lower=-5, upper=5)
        made.model.add_objective("f")
        made.setup()

        def run() -> Any:
            made.set_val("x", np.full(10, -0.5))
            made.run_driver()
            return made.get_val("f") + 1.0

        return run

    exact = ExplicitComponent(rosenbrock, {"x": np.full(10, -0.5)}, ["f"])
    yield (
        "OpenMDAO, SLSQP, Rosenbrock",
        {"differences": problem(Differences()), "exact": problem(exact)},
        1e-2,
    )


def of_casadi() -> Iterator[Case]:
    import casadi

    from fungrad.interop.casadi import Callback

    class Differences(casadi.Callback):
        def __init__(self) -> None:
            casadi.Callback.__init__(self)
            self.construct("f", {"enable_fd": True})

        def get_sparsity_in(self, i: int) -> Any:
            return casadi.Sparsity.dense(10, 1)

        def eval(self, arguments: Any) -> Any:
            return [rosenbrock(np.array(arguments[0]).ravel())]

    def solver(f: Any, **options: Any) -> Any:
        x = casadi.MX.sym("x", 10)
        quiet = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", **options}}
        made = casadi.nlpsol("solver", "ipopt", {"x": x, "f": f(x)}, quiet)
        return lambda f=f: float(made(x0=np.full(10, -0.5))["f"]) + 1.0

    yield (
        "CasADi, IPOPT, Rosenbrock",
        {
            "differences": solver(Differences(), hessian_approximation="limited-memory"),
            "exact": solver(Callback(rosenbrock, [10])),
        },
        1e-2,
    )


def of_cyipopt() -> Iterator[Case]:
    import cyipopt

    start = np.full(10, -0.5)
    jac, hess = fg.jit(fg.grad(rosenbrock)), fg.jit(fg.hessian(rosenbrock))

    def by_differences(x: Any) -> Any:
        return optimize.approx_fprime(x, rosenbrock)

    def fit(jac: Any, **options: Any) -> Any:
        quiet = {"print_level": 0, "sb": "yes"}  # a new dict: cyipopt writes into it
        found = cyipopt.minimize_ipopt(
            rosenbrock, start, jac=jac, tol=1e-4, options=quiet, **options
        )
        return found.fun + 1.0

    yield (
        "cyipopt, Rosenbrock, tolerance 1e-4",
        {"differences": lambda: fit(by_differences), "exact": lambda: fit(jac, hess=hess)},
        1e-2,
    )


def of_pytensor() -> Iterator[Case]:
    import pytensor
    import pytensor.tensor as pt

    from fungrad.interop.pytensor import as_op

    exog, endog = probit()

    def log_likelihood(p: Any) -> Any:
        return np.sum(stats.norm.logcdf((2 * endog - 1) * (exog @ p)))

    p = pt.dvector("p")
    density = as_op(log_likelihood)(p)
    both = pytensor.function([p], [-density, -pytensor.grad(density, p)])
    plain = pytensor.function([p], -density)
    yield (
        "PyTensor, probit by BFGS",
        {
            "differences": lambda: optimize.minimize(lambda q: float(plain(q)), np.zeros(10)).x,
            "exact": lambda: optimize.minimize(both, np.zeros(10), jac=True).x,
        },
        1e-2,
    )


def of_samplers() -> Iterator[Case]:
    from fungrad.interop.samplers import LogDensity

    exog, endog = probit()

    def log_density(p: Any) -> Any:
        return np.sum(stats.norm.logcdf((2 * endog - 1) * (exog @ p)))

    compiled = LogDensity(log_density)

    def leapfrog(gradient: Callable[[Any], Any]) -> Any:
        position, momentum = np.zeros(10), np.full(10, 0.1)
        for _ in range(50):
            momentum = momentum + 0.005 * gradient(position)
            position = position + 0.01 * momentum
            momentum = momentum + 0.005 * gradient(position)
        return position

    yield (
        "LogDensity, 50 steps of HMC",
        {
            "differences": lambda: leapfrog(lambda p: optimize.approx_fprime(p, log_density)),
            "exact": lambda: leapfrog(lambda p: compiled.value_and_gradient(p)[1]),
        },
        1e-3,
    )


def of_pytorch() -> Iterator[Case]:
    import torch

    x, y = (torch.tensor(part) for part in data(300))
    layer = fg.to_torch(lambda p, x: three_peaks(x, *p))

    def fit(value: Callable[[Any], Any], gradient: Callable[[Any], Any]) -> Any:
        p = torch.tensor(START, requires_grad=True)
        by = torch.optim.LBFGS([p], max_iter=100, line_search_fn="strong_wolfe")

        def closure() -> Any:
            loss = value(p)
            p.grad = gradient(p) if gradient is not torch.autograd.grad else None
            if p.grad is None:
                loss.backward()
            return loss

        by.step(closure)
        return p.detach().numpy()

    def loss(p: Any) -> Any:
        return torch.mean((layer(p, x) - y) ** 2)

    def differences(p: Any) -> Any:
        numbers = p.detach().numpy()
        plain = [part.numpy() for part in (x, y)]

        def f(q: Any) -> Any:
            return np.mean((three_peaks(plain[0], *q) - plain[1]) ** 2)

        return torch.tensor(optimize.approx_fprime(numbers, f))

    yield (
        "PyTorch, LBFGS, 300 points",
        {
            "differences": lambda: fit(lambda p: loss(p.detach()), differences),
            "exact": lambda: fit(loss, torch.autograd.grad),
        },
        1e-2,
    )


CASES: dict[str, Callable[[], Iterator[Case]]] = {
    name.removeprefix("of_"): f for name, f in list(globals().items()) if name.startswith("of_")
}


def least(ways: dict[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """The least CPU time of each way in milliseconds, in turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], 1e3 * (time.process_time() - start))
    return best


def main(names: list[str]) -> None:
    """Prints a line for each case."""
    warnings.simplefilter("ignore")
    print(f"{'case':50}{'differences':>12}{'exact':>10}{'ratio':>8}  others")
    for name in names or CASES:
        try:
            cases = list(CASES[name]())
        except ImportError as error:
            print(f"{name:50} left out: {error}")
            continue
        for title, ways, tolerance in cases:
            results = {way: np.asarray(run()) for way, run in ways.items()}
            for way, result in results.items():
                if not np.allclose(result, results["exact"], rtol=tolerance, atol=tolerance):
                    print(f"  {title}: {way} found {result}, exact {results['exact']}")
            times = least(ways)
            others = {w: round(t, 2) for w, t in times.items() if w not in ("differences", "exact")}
            ratio = times["exact"] / times["differences"]
            print(
                f"{title:50}{times['differences']:12.2f}{times['exact']:10.2f}{ratio:8.2f}  "
                + ", ".join(f"{way} {t}" for way, t in others.items()),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
