"""The calls of against_jax.py: those of the tables that tests/ measures the surface with, where JAX
has the function, and more of lax, nn and distributions by their parameters.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.scipy
import numpy as np
import scipy

import fungrad as fg
from fungrad.scipy import linalg, signal, special, stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import surface_linalg
import surface_scipy
import surface_table
from surface_table import Case, draw


class Comparison(NamedTuple):
    """A function of both libraries, and arguments."""

    group: str
    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    args: tuple[Any, ...]
    order: int = 2
    staged: bool = True


def put_into(call: Callable[..., Any] | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """The call as a function of arrays alone."""
    return function if call is None else lambda *args: call(function, *args)


def of_table(
    group: str, cases: dict[str, Case], here: Callable[[str], Any], there: Callable[[str], Any]
) -> Iterator[Comparison]:
    """The cases of a table whose functions JAX has."""
    for name, case in cases.items():
        theirs = there(name)
        if theirs is None or case.order < 1 or f"{group}.{name}" in WRITTEN:
            continue
        yield Comparison(
            group, f"{group}.{name}", put_into(case.call, here(name)),
            put_into(case.call, theirs), case.args, case.order, case.staged,
        )  # fmt: skip


V, M = draw(5), draw(3, 4)
MASK, INT = np.array([True, False, True]), np.array([2, 0, 1, 2, 0])
# What tests/ calls with NumPy's own functions or lists inside: by (library, *arguments)
WRITTEN: dict[str, tuple[Any, ...]] = {
    "numpy.apply_along_axis": (lambda m, x: m.apply_along_axis(lambda v: v * m.sum(v), 1, x), M),
    "numpy.apply_over_axes": (
        lambda m, x: m.apply_over_axes(m.sum, x * x, [0, 2]), draw(2, 3, 4),
    ),
    "numpy.bincount": (lambda m, w: m.bincount(INT, w), V),
    "numpy.choose": (lambda m, x: m.choose(INT % 2, [x, x * x], mode="clip"), V),
    "numpy.compress": (lambda m, x: m.compress(MASK, x, axis=0), M),
    "numpy.delete": (lambda m, x: m.delete(x, np.array([0, 2])), V),
    "numpy.extract": (lambda m, x: m.extract(INT > 0, x), V),
    "numpy.histogramdd": (
        lambda m, w: m.histogramdd(np.stack([V, V[::-1]], 1), 3, weights=w)[0], V,
    ),
    "numpy.insert": (lambda m, x, y: m.insert(x, np.array([1, 3]), y), V, draw(2)),
    "numpy.partition": (lambda m, x: m.partition(x, 2)[2], V),
    "numpy.permute_dims": (lambda m, x: m.permute_dims(x, (1, 0)), M),
    "numpy.piecewise": (lambda m, x: m.piecewise(x, [x > 0.5], [m.sin, m.exp]), V),
    "numpy.polydiv": (lambda m, x, y: m.polydiv(x, y)[0], V, draw(3)),
    "numpy.select": (lambda m, x: m.select([x > 0.7, x > 0.5], [m.sin(x), x * x], 1.0), V),
    "numpy.linalg.eig": (lambda m, a: m.abs(m.linalg.eig(a)[1]), surface_linalg.SQUARE),
    "numpy.linalg.eigvals": (lambda m, a: m.real(m.linalg.eigvals(a)), surface_linalg.SQUARE),
}  # fmt: skip

BY_VALUES = ("numpy.bincount", "numpy.compress", "numpy.extract")
"""Functions that JAX does not compile without more arguments."""

# --- distributions, by their parameters -----------------------------------------------------------

SHAPES: dict[str, tuple[Any, ...]] = {
    "beta": (0.5, 1.7, 0.9), "cauchy": (0.4,), "chi2": (1.3, 2.6), "expon": (0.7,),
    "gamma": (1.2, 2.3), "gennorm": (0.6, 1.7), "gumbel_l": (0.4,), "gumbel_r": (0.4,),
    "laplace": (0.6,), "logistic": (0.4,), "norm": (0.7,), "pareto": (1.7, 2.1), "t": (0.6, 3.4),
    "truncnorm": (0.4, -1.2, 1.9), "uniform": (0.4,), "vonmises": (0.6, 1.4),
    "wrapcauchy": (0.7, 0.4),
}  # fmt: skip
QUANTILES = ("ppf", "isf")
METHODS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", *QUANTILES)


def first_alone(case: Comparison) -> Comparison:
    """A call with all arguments but the first held."""
    first, *held = case.args
    return case._replace(
        name=f"{case.name} by x", args=(first,), ours=lambda x: case.ours(x, *held),
        theirs=lambda x: case.theirs(x, *held),
    )  # fmt: skip


def distributions() -> Iterator[Comparison]:
    """Each method that both have, by x, shapes, and where JAX has them loc and scale."""
    for name, (x, *shapes) in SHAPES.items():
        left, right = getattr(stats, name), getattr(jax.scipy.stats, name)
        for method in METHODS:
            theirs = getattr(right, method, None)
            if theirs is None or method not in left.methods:
                continue
            first = 0.4 if method in QUANTILES else x
            placed = "loc" in inspect.signature(theirs).parameters
            args = (first, *shapes, *((0.05, 1.1) if placed else ()))
            case = Comparison(
                "scipy.stats", f"scipy.stats.{name}.{method}", getattr(left, method), theirs,
                tuple(np.float64(a) for a in args),
            )  # fmt: skip
            yield case
            if name == "beta" and "pdf" not in method:  # of which JAX has no other derivatives
                yield first_alone(case)


# --- lax and nn -----------------------------------------------------------------------------------

IMAGE, FILTERS = draw(1, 2, 5, 5), draw(3, 2, 3, 3)
ONE = (
    "abs acos asin asinh atan atanh bessel_i0e bessel_i1e cbrt cos cosh digamma erf erf_inv erfc "
    "exp exp2 expm1 lgamma log log1p logistic neg reciprocal rsqrt sin sinh sqrt square tan tanh"
).split()
TWO = "add atan2 div dot igamma igammac max min mul pow rem sub".split()
ALONG = "cumlogsumexp cummax cummin cumprod cumsum".split()
LAX: dict[str, tuple[Any, ...]] = dict.fromkeys(ONE, (None, V))
LAX |= {name: (None, V, draw(5, seed=1)) for name in TWO}
LAX |= {name: (lambda f, x: f(x, axis=1), M) for name in ALONG}
LAX |= {
    name: (lambda f, x: f(x, (1,)), M)
    for name in "reduce_max reduce_min reduce_prod reduce_sum".split()
}
LAX |= {
    "acosh": (None, V + 1.2),
    "batch_matmul": (None, draw(2, 3, 4), draw(2, 4, 2)),
    "betainc by x": (lambda f, x: f(1.7, 0.9, x), V),
    "betainc": (None, V + 1.0, draw(5, seed=1) + 0.5, draw(5, seed=2)),
    "clamp": (lambda f, x: f(0.45, x, 0.75), V),
    "concatenate": (lambda f, x, y: f([x, y], 0), M, M * 0.9),
    "conv": (lambda f, x, w: f(x, w, (1, 1), "SAME"), IMAGE, FILTERS),
    "conv_general_dilated": (
        lambda f, x, w: f(x, w, (2, 1), [(1, 2), (0, 1)], (1, 2), (2, 1)), IMAGE, FILTERS,
    ),
    "conv_transpose": (
        lambda f, x, w: f(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
        IMAGE, draw(3, 2, 3, 3),
    ),
    "cond": (lambda f, x: f(x[0] > 0.5, lambda v: v * v, lambda v: v**3, x), V),
    "dot_general": (
        lambda f, x, y: f(x, y, (((2,), (1,)), ((0,), (0,)))), draw(2, 3, 4), draw(2, 4, 5),
    ),
    "dynamic_slice": (lambda f, x: f(x, (1, 1), (2, 2)), M),
    "dynamic_update_slice": (lambda f, x, y: f(x, y, (1, 1)), M, draw(2, 2)),
    "fori_loop": (lambda f, x: f(0, 4, lambda i, c: c * x + i, x), V),
    "integer_pow": (lambda f, x: f(x, 4), V),
    "map": (lambda f, x: f(lambda v: v * v[0], x), M),
    "pad": (lambda f, x, v: f(x, v, [(1, 2, 1), (0, -1, 0)]), M, np.float64(0.4)),
    "polygamma": (lambda f, x: f(2.0, x), V),
    "reduce_window": (None,),
    "rev": (lambda f, x: f(x, (0,)), M),
    "scan": (lambda f, c, x: f(lambda c, v: (c * v + v, c), c, x), np.float64(0.6), V),
    "select": (lambda f, x, y: f(V > 0.6, x, y), V, draw(5, seed=1)),
    "slice": (lambda f, x: f(x, (0, 1), (3, 4), (2, 1)), M),
    "sort": (lambda f, x: f(x, dimension=0), M),
    "top_k": (lambda f, x: f(x, 2)[0], V),
    "transpose": (lambda f, x: f(x, (1, 0)), M),
    "zeta": (lambda f, x: f(2.5, x), V),
    "associative_scan": (lambda f, x: f(lambda a, b: a * b + a, x), V),
    "linalg.triangular_solve": (
        lambda f, a, b: f(a, b, left_side=True, lower=True), draw(3, 3) + 2 * np.eye(3), draw(3, 2),
    ),
}  # fmt: skip
del LAX["reduce_window"]

SIGNED = np.array([-2.3, -0.7, 0.4, 1.3, 2.6])
SMOOTH = (
    "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid "
    "log_softmax logsumexp logmeanexp mish relu relu6 selu sigmoid silu soft_sign softmax "
    "softplus squareplus standardize swish"
).split()
NN: dict[str, tuple[Any, ...]] = dict.fromkeys(SMOOTH, (None, SIGNED))
NN |= {
    "gelu exactly": (lambda f, x: f(x, approximate=False), SIGNED),
    "glu": (None, draw(3, 4)),
    "dot_product_attention": (None, *(draw(1, 3, 2, 4, seed=i) for i in range(3))),
}


def by_hand(group: str, table: dict[str, tuple[Any, ...]], left: Any, right: Any) -> Any:
    """The calls of a table of (call or None, *arguments), by the functions' names."""
    for name, (call, *args) in table.items():
        found = []
        for module in (left, right):
            for part in name.split()[0].split("."):
                module = getattr(module, part)
            found.append(put_into(call, module))
        yield Comparison(group, f"{group}.{name}", *found, tuple(args))


def comparisons() -> Iterator[Comparison]:
    """Everything that is compared."""
    yield from of_table(
        "numpy", surface_table.CASES, lambda n: getattr(np, n),
        lambda n: getattr(jax.numpy, n, None),
    )  # fmt: skip
    for name, cases in surface_linalg.NAMESPACES.items():
        ours, theirs = getattr(np, name), getattr(jax.numpy, name)
        yield from of_table(
            f"numpy.{name}", cases, ours.__getattribute__, lambda n, m=theirs: getattr(m, n, None)
        )
    for name, (call, *args) in WRITTEN.items():
        yield Comparison(
            name.rpartition(".")[0], name, lambda *xs, call=call: call(np, *xs),
            lambda *xs, call=call: call(jax.numpy, *xs), tuple(args),
            order=1 if name.startswith("numpy.linalg.eig") else 2, staged=name not in BY_VALUES,
        )  # fmt: skip
    tables = surface_scipy.cases()
    for name, module in (("special", special), ("linalg", linalg), ("signal", signal)):
        own, theirs = getattr(scipy, name), getattr(jax.scipy, name)

        def here(n: str, own: Any = own, module: Any = module) -> Any:
            return getattr(own, n) if isinstance(getattr(own, n), np.ufunc) else getattr(module, n)

        yield from of_table(
            f"scipy.{name}", tables[name], here, lambda n, m=theirs: getattr(m, n, None)
        )
    yield from distributions()
    yield from by_hand("lax", LAX, fg.lax, jax.lax)
    yield from by_hand("nn", NN, fg.nn, jax.nn)
