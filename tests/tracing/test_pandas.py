"""Columns of pandas with traced numbers: arithmetic, rolling windows, groups."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg

pandas = pytest.importorskip("pandas")
X = np.array([1.0, 2.0, 3.0, 5.0])
FRAME = pandas.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "g": ["u", "v", "u", "v"]})


def with_column(x):
    frame = FRAME.copy()
    frame["z"] = x
    return (frame["z"] * frame["x"]).sum()


OPERATIONS = {
    "arithmetic": lambda x: (pandas.Series(x) * 2.0 + 1.0).sum(),
    "values": lambda x: np.sum(pandas.Series(x).values ** 2),
    "to_numpy": lambda x: np.sum(pandas.Series(x).to_numpy() ** 2),
    "assign": lambda x: (FRAME.assign(y=x)["y"] * FRAME["x"]).sum(),
    "a new column": with_column,
    "exp": lambda x: np.sum(np.exp(pandas.Series(x))),
    "shift": lambda x: pandas.Series(x).shift(1).fillna(0.0).sum(),
    "rolling mean": lambda x: np.sum(pandas.Series(x).rolling(2).mean().dropna() ** 2),
    "rolling sum": lambda x: np.sum(pandas.Series(x).rolling(3, min_periods=1).sum() ** 2),
    "expanding mean": lambda x: np.sum(pandas.Series(x).expanding().mean() ** 2),
    "group sum": lambda x: np.sum(FRAME.assign(y=x).groupby("g")["y"].sum().to_numpy() ** 2),
    "group mean": lambda x: np.sum(FRAME.assign(y=x).groupby("g")["y"].mean().to_numpy() ** 2),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_columns_of_traced_numbers(name):
    f = OPERATIONS[name]
    value, slope = fg.value_and_grad(f)(X)
    wanted = [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(4)]
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), slope, rtol=1e-12)


def test_nan_is_left_out_of_windows_and_groups():
    x = np.array([1.0, np.nan, 3.0, 5.0])
    for f in (
        lambda x: pandas.Series(x).rolling(2, min_periods=1).mean().to_numpy(),
        lambda x: FRAME.assign(y=x).groupby("g")["y"].sum().to_numpy(),
        lambda x: FRAME.assign(y=x).groupby("g")["y"].mean().to_numpy(),
    ):
        np.testing.assert_allclose(fg.vjp(f, x)[0], f(x))


def test_other_windows_name_the_rewrite():
    with pytest.raises(TypeError) as caught:
        fg.grad(lambda x: pandas.Series(x).rolling(2).median().sum())(X)
    assert "to_numpy()" in str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
