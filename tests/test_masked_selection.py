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


@pytest.mark.parametrize(
    "use",
    [
        lambda x, m: x[m],
        lambda x, m: np.sum(x[m]),
        lambda x, m: len(x[m]),
        lambda x, m: x[m].shape,
        lambda x, m: x[m] + x[~m],
        lambda x, m: x[m] + np.array([1.0, 2.0]),
        lambda x, m: np.asarray(x[m]),
        lambda x, m: np.add.reduce(x[m]),
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
        fg.jit(lambda x: use(x, x > 0))(X)
