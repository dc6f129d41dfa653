"""Calls of every function of fungrad.random, for test_random.py.

`python tests/support/random_cases.py` prints their values under KEY for
data/random_values.json. They may change only in a release that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad import random

COV = np.array([[2.0, 0.5], [0.5, 1.0]])
FLOATS: dict[str, Callable[..., Any]] = {
    "ball": lambda key, **dtype: random.ball(key, 3, 1.5, (2,), **dtype),
    "beta": lambda key, **dtype: random.beta(key, np.array([0.3, 2.0]), 3.0, (2, 2), **dtype),
    "cauchy": lambda key, **dtype: random.cauchy(key, (4,), **dtype),
    "chisquare": lambda key, **dtype: random.chisquare(key, 3.0, (4,), **dtype),
    "dirichlet": lambda key, **dtype: random.dirichlet(key, np.array([0.2, 1, 4]), (2,), **dtype),
    "double_sided_maxwell": lambda key, **dtype: random.double_sided_maxwell(
        key, 1.0, np.array([1.0, 2.0]), (2, 2), **dtype
    ),
    "exponential": lambda key, **dtype: random.exponential(key, (4,), **dtype),
    "f": lambda key, **dtype: random.f(key, 3.0, 5.0, (4,), **dtype),
    "gamma": lambda key, **dtype: random.gamma(key, np.array([0.2, 1.0, 30.0]), **dtype),
    "generalized_normal": lambda key, **dtype: random.generalized_normal(key, 3.0, (4,), **dtype),
    "gumbel": lambda key, **dtype: random.gumbel(key, (4,), **dtype),
    "laplace": lambda key, **dtype: random.laplace(key, (4,), **dtype),
    "loggamma": lambda key, **dtype: random.loggamma(key, np.array([1e-3, 0.5, 7.0]), **dtype),
    "logistic": lambda key, **dtype: random.logistic(key, (4,), **dtype),
    "lognormal": lambda key, **dtype: random.lognormal(key, np.array([0.5, 2.0]), **dtype),
    "maxwell": lambda key, **dtype: random.maxwell(key, (3,), **dtype),
    "multivariate_normal": lambda key, **dtype: random.multivariate_normal(
        key, np.array([1.0, -1.0]), COV, (2,), **dtype
    ),
    "normal": lambda key, **dtype: random.normal(key, (5,), **dtype),
    "orthogonal": lambda key, **dtype: random.orthogonal(key, 2, **dtype),
    "pareto": lambda key, **dtype: random.pareto(key, 3.0, (4,), **dtype),
    "rayleigh": lambda key, **dtype: random.rayleigh(key, np.array([1.0, 3.0]), **dtype),
    "t": lambda key, **dtype: random.t(key, np.array([1.0, 5.0]), (2, 2), **dtype),
    "triangular": lambda key, **dtype: random.triangular(key, 0.0, 1.0, 4.0, (4,), **dtype),
    "truncated_normal": lambda key, **dtype: random.truncated_normal(
        key, np.array([-1.0, 5.0, -np.inf]), np.array([2.0, 6.0, -3.0]), **dtype
    ),
    "uniform": lambda key, **dtype: random.uniform(key, (3,), minval=-1.0, maxval=3.0, **dtype),
    "wald": lambda key, **dtype: random.wald(key, np.array([0.5, 2.0]), (2, 2), **dtype),
    "weibull_min": lambda key, **dtype: random.weibull_min(key, 2.0, 0.7, (4,), **dtype),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "bernoulli": lambda key: random.bernoulli(key, np.array([0.1, 0.5, 0.9])),
    "binomial": lambda key: random.binomial(key, np.array([10, 10**6]), 0.3, (2, 2)),
    "bits": lambda key: random.bits(key, (3,)),
    "bits_of_16": lambda key: random.bits(key, (5,), np.uint16),
    "categorical": lambda key: random.categorical(
        key, np.log(np.array([0.2, 0.3, 0.5])), shape=(6,)
    ),
    "categorical_different": lambda key: random.categorical(
        key, np.zeros((2, 5)), shape=(3, 2), replace=False
    ),
    "choice": lambda key: random.choice(key, np.arange(10.0), (2, 3)),
    "choice_different": lambda key: random.choice(key, 10, (4,), replace=False),
    "choice_weighted": lambda key: random.choice(key, 4, (6,), p=np.array([0.1, 0.2, 0, 0.7])),
    "choice_weighted_different": lambda key: random.choice(
        key, 4, (3,), False, p=np.array([0.1, 0.2, 0, 0.7])
    ),
    "clone": random.clone,
    "fold_in": lambda key: random.fold_in(key, -3),
    "geometric": lambda key: random.geometric(key, np.array([0.01, 0.5, 1.0])),
    "multinomial": lambda key: random.multinomial(key, 50, np.array([0.2, 0.3, 0.5]), shape=(2, 3)),
    "normal_complex": lambda key: random.normal(key, (2,), np.complex128),
    "permutation": lambda key: random.permutation(key, 6),
    "permutation_independent": lambda key: random.permutation(
        key, np.arange(8).reshape(2, 4), axis=1, independent=True
    ),
    "poisson": lambda key: random.poisson(key, np.array([0.5, 9.0, 12.0, 1e6])),
    "rademacher": lambda key: random.rademacher(key, (5,)),
    "randint": lambda key: random.randint(key, (5,), -3, np.array(1000)),
    "split": lambda key: random.split(key, 3),
}
CASES: dict[str, Callable[..., Any]] = {**FLOATS, **OTHERS}
EXACT = {
    "bernoulli", "bits", "bits_of_16", "clone", "fold_in", "normal", "normal_complex",
    "permutation", "permutation_independent", "rademacher", "randint", "split", "uniform",
}  # fmt: skip
"""Made by operations that are exact to the last bit everywhere; logarithms are not."""
KEY = random.key(2026)


def plain(value: Any) -> Any:
    """An array as nested lists that JSON keeps without loss."""
    value = np.asarray(value)
    parts = [value.real, value.imag] if value.dtype.kind == "c" else value
    return np.asarray(parts).tolist()


if __name__ == "__main__":
    rows = [f"{json.dumps(name)}: {json.dumps(plain(f(KEY)))}" for name, f in sorted(CASES.items())]
    print("{\n" + ",\n".join(rows) + "\n}")
