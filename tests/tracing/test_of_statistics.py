"""Functions of Python's module statistics of traced numbers."""

from __future__ import annotations

import fractions
import statistics
from statistics import stdev

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import FungradError, GradientCutError, UnsupportedArgumentError

CALLS = {
    "mean": statistics.mean,
    "fmean": statistics.fmean,
    "fmean with weights": lambda d: statistics.fmean(d, [2.0, 1.0, d[1], 0.5]),
    "geometric_mean": statistics.geometric_mean,
    "harmonic_mean": statistics.harmonic_mean,
    "harmonic_mean with weights": lambda d: statistics.harmonic_mean(d, weights=[1, 2, 3, 4]),
    "variance": statistics.variance,
    "pvariance": lambda d: statistics.pvariance(d, 0.5),
    "pstdev": statistics.pstdev,
    "stdev": lambda d: stdev(iter(d)),
    "median": statistics.median,
    "median_grouped": lambda d: statistics.median_grouped([*d, d[1]], 0.2),
    "mode": lambda d: statistics.mode([d[0], d[1], 2 * d[1] / 2]),
    "multimode": lambda d: statistics.multimode([d[0], d[1], 2 * d[1] / 2])[0],
    "quantiles": lambda d: statistics.quantiles(d)[2],
    "covariance": lambda d: statistics.covariance([1.0, 2.0, 4.0, 5.0], d),
    "correlation": lambda d: statistics.correlation(d, [1.0, 2.0, 4.0, 5.0]),
    "linear_regression": lambda d: sum(statistics.linear_regression([1.0, 2.0, 4.0, 5.0], d)),
}
DATA = [0.3, 1.7, 1.1, 2.4]


@pytest.mark.parametrize("name", CALLS)
def test_they_take_traced_numbers(name):
    f = CALLS[name]

    def of_list(x):
        return f([x[0], x[1] * 1.0, x[2], 2.4])

    x = np.array(DATA[:3])
    for g in (of_list, lambda x: f(np.append(x, 2.4)) if "stdev" not in name else of_list(x)):
        assert np.isclose(fg.value_and_grad(g)(x)[0], f(DATA), rtol=1e-14)
        assert np.isclose(fg.jit(g)(x), f(DATA), rtol=1e-14)
        assert np.allclose(fg.vmap(g)(np.stack([x, x])), f(DATA), rtol=1e-14)
        fg.testing.check_grads(of_list, (x,), order=2)


def test_errors_are_those_of_the_module():
    for f, x in ((statistics.variance, 1), (statistics.harmonic_mean, -2)):
        with pytest.raises(statistics.StatisticsError):
            fg.grad(lambda x, f=f: f([x]))(x * 1.0)
    with pytest.raises(statistics.StatisticsError):
        fg.grad(lambda x: statistics.covariance([x, x], [1.0]))(1.0)
    if "ranked" in str(statistics.correlation.__doc__):
        with pytest.raises(UnsupportedArgumentError, match="ranked"):
            fg.grad(lambda x: statistics.correlation([x, 1.0], [1.0, 2.0], method="ranked"))(0.5)


@pytest.mark.parametrize(
    "f",
    [
        fractions.Fraction,
        lambda x: x * fractions.Fraction(1, 3),
        lambda x: float.fromhex(x.hex()),
        lambda x: x.as_integer_ratio()[0],
        lambda x: statistics.NormalDist(x, 1.0).pdf(0.5),
    ],
)
def test_other_forms_of_a_number_are_errors(f):
    for transform in (fg.grad, fg.jit):
        with pytest.raises(GradientCutError, match=r"test_of_statistics\.py"):
            transform(f)(2.0)


def test_nditer_reads_the_elements_of_a_traced_array():
    x = np.arange(1.0, 7.0).reshape(2, 3)

    def f(x):
        return sum(v * v * (i + 1) for i, v in enumerate(np.nditer(x.T)))

    assert np.isclose(fg.value_and_grad(f)(x)[0], f(x))
    assert np.allclose(fg.jit(fg.grad(f))(x), 2 * x * np.arange(1, 7).reshape(2, 3))
    with pytest.raises(FungradError, match=r"np\.ndindex"):
        fg.grad(lambda x: sum(v * w for v, w in np.nditer([x, x])))(x)
    with pytest.raises(FungradError, match=r"np\.ndindex"):
        fg.grad(lambda x: sum(np.nditer(x, flags=["c_index"])))(x)


def _objects(x):
    found = np.empty((2, 2), dtype=object)
    found[0, 0], found[0, 1], found[1, 0], found[1, 1] = x[0], x[1] * 2, 3.0, x[0] * x[1]
    return found


def _squares_written(x):
    found = _objects(x)
    with np.nditer(found, flags=["refs_ok"], op_flags=["readwrite"]) as elements:
        for v in elements:
            v[...] = v.item() * v.item()
    return found.sum()


def _places(x):
    elements = np.nditer(_objects(x).T, flags=["refs_ok", "multi_index"], order="F")
    return sum(v.item() * (1 + 10 * elements.multi_index[1]) for v in elements)


def _with_plain(x):
    plain = np.arange(4.0).reshape(2, 2)
    return sum(v.item() * u.item() for v, u in np.nditer([_objects(x), plain], ["refs_ok"]))


def _arrays_in_objects(x):
    found = np.empty(2, dtype=object)
    found[0], found[1] = np.array([x[0], 1.0]), np.array([x[1]])
    return sum(np.sum(v.item() ** 2) for v in np.nditer(found, flags=["refs_ok"]))


def _of_plain_numbers(x):
    elements = np.nditer(np.arange(4.0), flags=["c_index"])
    total = 0.0
    while not elements.finished:
        total = total + x[0] * elements[0] * elements.index
        elements.iternext()
    with np.nditer([np.arange(4.0), None]) as pairs:
        for u, out in pairs:
            out[...] = u * u
        return total + np.sum(pairs.operands[1]) * x[1]


def _classes(x):
    assert isinstance(np.nditer(_objects(x), flags=["refs_ok"]), np.nditer)
    assert isinstance(np.nditer(np.ones(2)), np.nditer)
    assert not isinstance(x, np.nditer)
    with pytest.raises(TypeError, match="REFS_OK"):
        np.nditer(_objects(x))
    return x[0] * x[1]


@pytest.mark.parametrize(
    "f",
    [
        _squares_written, _places, _with_plain, _arrays_in_objects, _of_plain_numbers, _classes,
        lambda x: sum(np.sum(v * v) for v in np.nditer(_objects(x), ["refs_ok", "external_loop"])),
    ],
)  # fmt: skip
def test_nditer_of_objects_and_of_plain_arrays_is_numpys(f):
    x = np.array([1.5, 2.5])
    steps = 1e-4 * np.eye(2)
    differences = [(f(x + e) - f(x - e)) / 2e-4 for e in steps]
    assert fg.value_and_grad(f)(x)[0] == f(x)
    for gradient in (fg.grad(f), fg.jit(fg.grad(f)), fg.jacfwd(f)):
        assert np.allclose(gradient(x), differences, rtol=1e-7)
    assert np.allclose(fg.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])
    second = [(fg.grad(f)(x + e) - fg.grad(f)(x - e)) / 2e-4 for e in steps]
    assert np.allclose(fg.hessian(f)(x), second, rtol=1e-7)
