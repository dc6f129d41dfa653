"""Every primitive at every sample: type, staging, derivatives of two orders, batching, cost."""

from __future__ import annotations

import numpy as np
import pytest
from checks import CHECKS, LOOPED, OURS, differentiable, inexact, outputs, samples_of
from samples import SAMPLES

import fungrad as fg
from fungrad.primitives.elementwise.ufuncs import real
from fungrad.primitives.movement.reshape_broadcast_cast import reduce_sum
from fungrad.testing import missing_rules


def test_the_table_and_the_registry_hold_the_same_names():
    assert sorted(SAMPLES) == sorted(OURS)


def test_no_rule_is_missing():
    assert set(missing_rules("fungrad.")) <= set(LOOPED)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(OURS) & set(SAMPLES)))
def test_primitive(name):
    samples = list(samples_of(OURS[name]))
    assert samples
    for check in CHECKS.values():
        if check is not CHECKS["rules_exist"]:  # which is test_no_rule_is_missing
            for sample in samples:
                check(OURS[name], sample)


def costs():
    """(sample, equations of f, equations of grad f) for f the sum of a primitive's outputs."""
    for name, primitive in sorted(OURS.items()):
        if name == "custom":
            continue  # the cost of a user's rule is the user's choice
        for sample in samples_of(primitive):
            if not differentiable(primitive, sample) or primitive.cuts is True:
                continue
            kinds = [np.asarray(a).dtype.kind for a in sample.args]
            where = tuple(i for i, kind in enumerate(kinds) if kind in "fc")

            def f(*args, primitive=primitive, sample=sample):
                results = outputs(primitive, primitive(*args, **sample.params))
                out = next(r for r in results if inexact(r))
                out = real(out) if out.dtype.kind == "c" else out
                return reduce_sum(out, axes=tuple(range(out.ndim)))

            plain = len(fg.make_jaxpr(f)(*sample.args).equations)
            both = len(fg.make_jaxpr(fg.grad(f, argnums=where))(*sample.args).equations)
            yield sample, plain, both


@pytest.mark.slow
def test_a_gradient_costs_at_most_five_times_the_function():
    rows = list(costs())
    assert len(rows) > 500
    core = [row for row in rows if not OURS[row[0].name].module.startswith("fungrad.scipy.")]
    assert sum(row[2] for row in core) <= 5 * sum(row[1] for row in core)
    # Alone, some functions cost more than five times themselves before the graph is optimised: both
    # partials look for the tie, or the limit; products of the others are taken without division.
    # A factorisation, or an integral over many points, is one equation, and dearer than all the
    # products of its rule together.
    factorisations = {
        "beta_slope", "cholesky", "cholesky_pullback", "cofactors_along", "eig", "eigenspaces",
        "eigh", "eigvals", "eigvalsh", "gamma_slope", "pinv", "qr", "slogdet", "svd", "svdvals",
    }  # fmt: skip
    # So is a special function of SciPy, next to which products and sums are cheap.
    dear = {
        sample.name: both / plain
        for sample, plain, both in rows
        if both > 5 * plain
        and sample.name not in factorisations
        and not OURS[sample.name].module.startswith("fungrad.scipy.")
    }
    assert set(dear) <= {
        "arctan2",
        "convolve_nd",
        "cummax",
        "cummin",
        "cumprod",
        "div",
        "fmax",
        "fmin",
        "fmod",
        "hypot",
        "i1",
        "index_max",
        "index_min",
        "index_multiply",
        "index_set",
        "linear_recurrence",
        "logaddexp",
        "logaddexp2",
        "maximum",
        "minimum",
        "normal_cdf",
        "phase",
        "polynomial_roots",
        "power",
        "product_of_others",
        "reduce_logaddexp",
        "reduce_logaddexp2",
    }
    assert max(dear.values()) <= 20
