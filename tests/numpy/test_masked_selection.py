"""`x[mask] += v` by a mask that is not known: np.where, where NumPy's meaning allows it."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import AbstractValueError

X = np.array([1.0, -2.0, 3.0, 0.25])


def _added(y, m, x):
    y[m] += 1.0


def _times_own(y, m, x):
    y[m] *= x[m]


def _composed(y, m, x):
    y[m] = np.sqrt(x[m]) - 2.0 * x[m] ** 2


def _traced_number(y, m, x):
    y[m] -= x[0] * x[m]
    y[~m] = 0.0


def _on_the_right(y, m, x):
    y[m] = 1.0 / (x[0] + x[m])


def _into_a_new_array(y, m, x):
    z = np.zeros(4)
    z[m] = x[m]
    z[m] /= 2
    y += z


def _mask_written_after(y, m, x):
    part = x[m]
    part += 1.0
    y[m] = part
    m[0] = False
    y[m] += 2.0


@pytest.mark.parametrize(
    "write",
    [
        _added, _times_own, _composed, _traced_number, _on_the_right, _into_a_new_array,
        _mask_written_after,
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_numbers_and_what_the_same_mask_picks(write):
    def f(x):
        y, m = x * 1.0, x > 0
        write(y, m, x)
        return y

    def loss(x):
        return np.sum(f(x) * np.arange(1.0, 5.0))

    expected = f(X)
    np.testing.assert_array_equal(fg.jit(f)(X), expected)
    np.testing.assert_array_equal(fg.vmap(f)(np.stack([X, -X])), [f(X), f(-X)])
    np.testing.assert_allclose(fg.jit(fg.grad(loss))(X), fg.grad(loss)(X), rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.hessian(loss))(X), fg.hessian(loss)(X), rtol=1e-12)


def test_masks_of_leading_axes_and_dtypes():
    def f(x):
        y = np.outer(x, np.arange(3.0))
        y[x > 0] *= 2.0
        z = y.astype(np.float32)
        z[x > 0] += 1
        return y, z

    for one, other in zip(fg.jit(f)(X), f(X), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_in_another_order_of_memory():
    def f(x):
        y = np.outer(x, x[:3]).T * 1.0
        m = y > 0
        y[m] += 1.0
        v = y.ravel()
        v[0] = 5.0
        return y, v

    for one, other in zip(fg.jit(f)(X), f(X), strict=True):
        np.testing.assert_array_equal(one, other)


W = np.array([0.5, 1.5, -1.0, 2.0])
TABLE = np.arange(12.0).reshape(4, 3) - 5.0

REDUCED = {
    "sum": lambda x, m: np.sum(x[m] ** 2),
    "method": lambda x, m: (x[m] * 2.0).sum() + x[m].mean() - x[m].max() + x[m].std(ddof=1),
    "mean": lambda x, m: np.mean(np.sqrt(x[m])),
    "mean in float32": lambda x, m: np.mean(x[m], dtype=np.float32),
    "var": lambda x, m: np.var(x[m], ddof=1) + np.std(x[m]),
    "max": lambda x, m: np.max(np.exp(x[m])) - np.amin(x[m]) + np.ptp(x[m]),
    "max of integers": lambda x, m: np.max((x[m] * 4).astype(np.int8)) * x[0],
    "prod": lambda x, m: np.prod(x[m] + 1.0),
    "reduce": lambda x, m: np.add.reduce(x[m]) + np.maximum.reduce(x[m]),
    "any": lambda x, m: np.any(x[m] > 2.0) * x[0] + np.all(x[m] > 0.0) * x[2],
    "count": lambda x, m: np.count_nonzero(x[m] > 0.5) * x[0] + np.sum(x[m]) / x[m].size,
    "median": lambda x, m: np.median(x[m]) + np.quantile(x[m], 0.3) - np.percentile(x[m], 80),
    "average": lambda x, m: np.average(x[m], weights=np.exp(x[m])) + np.average(x[m]),
    "norm": lambda x, m: np.linalg.norm(x[m]) + np.linalg.norm(x[m], 1),
    "dot": lambda x, m: x[m] @ (x[m] + 1.0) + np.dot(x[m], x[m]),
    "of two arrays": lambda x, m: np.sum(x[m] * W[m]) - np.sum(np.log(x[m])),
    "of itself": lambda x, m: np.sum((x[m] - np.mean(x[m])) ** 2),
    "keepdims": lambda x, m: np.sum(x[m] / np.sum(x[m], keepdims=True)) * x[0],
    "nested": lambda x, m: np.sum(x[m][x[m] > 0.5]),
    "where": lambda x, m: np.sum(np.where(x[m] > 0.5, x[m], 0.0) + np.clip(x[m], 0.0, 1.0)),
    "compress": lambda x, m: np.sum(np.compress(m, x) * x[m]) + np.extract(m, x).mean(),
    "nan": lambda x, m: np.nansum(np.where(x[m] > 0.5, x[m], np.nan)) + np.nanmean(x[m]),
    "dtype": lambda x, m: np.sum(x[m] > 0.5) * x[0] + x[m].astype(np.float32).sum(),
    "rows": lambda x, m: np.sum(np.outer(x, x)[m] @ x) + np.mean(np.outer(x, x)[m], axis=0)[1],
    "norms of rows": lambda x, m: np.sum(np.linalg.norm(np.outer(x, x)[m] + 1.0, axis=1)),
    "centred rows": lambda x, m: np.sum(
        (TABLE[m] * x[m, None] - np.mean(TABLE[m], axis=0, keepdims=True)) ** 2
    ) if x.ndim > 1 else np.sum((np.outer(x, x)[m] - np.outer(x, x)[m].mean(axis=0)) ** 2),
    "sums along rows": lambda x, m: np.sum(np.sum(np.outer(x, W)[m], axis=1) ** 2),
    "of a matrix": lambda x, m: np.sum(np.outer(x, W)[np.outer(x, x) > 0] ** 2),
    "row and mask": lambda x, m: np.sum(np.outer(x, W)[1, m]),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_what_does_not_depend_on_the_number_of_elements(name):
    def f(x):
        return REDUCED[name](x, x > 0)

    examples = np.stack([X, -X + 4.5, np.array([-1.0, 2.0, -0.5, 3.0])])
    expected = [f(x) for x in examples]
    for rows in (
        [fg.jit(f)(x) for x in examples],
        fg.vmap(f)(examples),
        fg.jit(fg.vmap(f))(examples),
    ):
        assert np.asarray(rows).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(rows, expected, rtol=2e-7 if "32" in name else 1e-14)
    slopes = [fg.grad(f)(x) for x in examples]
    np.testing.assert_allclose([fg.jit(fg.grad(f))(x) for x in examples], slopes, rtol=1e-12)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(examples), slopes, rtol=1e-12, atol=1e-15)
    curved = [fg.hessian(f)(x) for x in examples]
    np.testing.assert_allclose(fg.vmap(fg.hessian(f))(examples), curved, rtol=1e-11, atol=1e-14)
    pushed = fg.jit(lambda x: fg.jvp(f, (x,), (W,))[1])
    found = [pushed(x) for x in examples]
    np.testing.assert_allclose(found, slopes @ W, rtol=1e-7 if "32" in name else 1e-11, atol=1e-14)


def test_a_mask_that_holds_nowhere():
    def f(x):
        return np.sum(x[x > 9]), np.prod(x[x > 9]), np.any(x[x > 9] > 0), x[x > 9].size

    assert [float(v) for v in fg.jit(f)(X)] == [0.0, 1.0, 0.0, 0.0]
    with np.errstate(all="ignore"):
        assert np.isnan(fg.jit(lambda x: np.mean(x[x > 9]))(X))
    with pytest.raises(ValueError, match="zero-size array"):
        fg.jit(lambda x: np.max(x[x > 9]))(X)
    with pytest.raises(ValueError, match="zero-size array"):
        fg.vmap(lambda x: x[x > 9].min())(np.stack([X, X + 7]))


@pytest.mark.parametrize(
    "use",
    [
        lambda x, m: x[m],
        lambda x, m: np.sort(x[m]),
        lambda x, m: np.sum(x[m], axis=0, where=x[m] > 1),
        lambda x, m: np.cumsum(x[m]),
        lambda x, m: x[m][0],
        lambda x, m: np.sum(x[m] * x[~m]),
        lambda x, m: np.linalg.norm(x[m], -1),
        lambda x, m: len(x[m]),
        lambda x, m: x[m].shape,
        lambda x, m: x[m] + x[~m],
        lambda x, m: x[m] + np.array([1.0, 2.0]),
        lambda x, m: np.asarray(x[m]),
        lambda x, m: np.add.accumulate(x[m]),
        lambda x, m: list(x[m]),
        lambda x, m: float(x[m]),
        lambda x, m: x + x[m],
        lambda x, m: np.concatenate([x, x[m]]),
        lambda x, m: x.__setitem__(~m, x[m]),
        lambda x, m: x.__setitem__(slice(2), x[m]),
    ],
)
def test_what_asks_for_the_elements_raises_the_error_of_the_read(use):
    with pytest.raises(AbstractValueError, match=r"a boolean index .*test_masked_selection"):
        fg.jit(lambda x: use(x, x > 0), branches="error")(X)
