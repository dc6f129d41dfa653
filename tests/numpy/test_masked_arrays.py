"""np.ma over traced values: NumPy's data and masks, gradients, batches, compiled, arguments."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.ma as ma
import pytest

import fungrad as fg
from fungrad.errors import ItemAssignmentError

X = np.array([0.7, -1.2, 2.3, 0.43, 3.1, 1.6])
W = np.arange(1.0, 7.0)
ALONG = np.array([0.9, -1.3, 0.6, 1.1, -0.8, 1.4])
"""The direction in which second derivatives are compared with differences."""
MASK = np.array([0, 1, 0, 0, 1, 0], bool)


def masked(x: Any) -> Any:
    return ma.array(x, mask=MASK.copy())


def table(x: Any) -> Any:
    return ma.array(x.reshape(2, 3), mask=MASK.reshape(2, 3).copy())


def other() -> Any:
    return ma.array(W.copy(), mask=[1, 0, 0, 0, 0, 0])


CASES: dict[str, Any] = {}
for name in ("sum", "mean", "var", "std", "min", "max", "prod", "ptp"):
    CASES[f".{name}"] = lambda x, n=name: getattr(masked(x), n)()
    CASES[f".{name} axis"] = lambda x, n=name: getattr(table(x), n)(axis=1)
    CASES[f"ma.{name}"] = lambda x, n=name: getattr(ma, n)(table(x), axis=0)
    CASES[f"np.{name}"] = lambda x, n=name: getattr(np, n)(table(x), axis=0)
for name in ("cumsum", "cumprod", "ravel", "copy", "flatten", "transpose", "anom", "compressed"):
    CASES[f".{name}"] = lambda x, n=name: getattr(table(x), n)()
for name in (
    "log", "sqrt", "log10", "arcsin", "arccosh", "arctanh", "tan", "exp", "sin", "arctan", "tanh",
    "absolute", "negative",
):  # fmt: skip
    CASES[f"ma.{name}"] = lambda x, n=name: getattr(ma, n)(masked(x))
    CASES[f"ma.{name} plain"] = lambda x, n=name: getattr(ma, n)(x)
for name in ("exp", "sqrt", "log", "negative"):
    CASES[f"np.{name}"] = lambda x, n=name: getattr(np, n)(masked(x))
for name in ("add", "subtract", "multiply", "divide", "arctan2", "hypot", "maximum", "minimum"):
    CASES[f"ma.{name}"] = lambda x, n=name: getattr(ma, n)(masked(x), W)
    CASES[f"ma.{name} reversed"] = lambda x, n=name: getattr(ma, n)(W, masked(x))
    CASES[f"ma.{name} both"] = lambda x, n=name: getattr(ma, n)(masked(x), other())
    CASES[f"ma.{name} plain"] = lambda x, n=name: getattr(ma, n)(other(), x)
for name in ("add", "sub", "mul", "truediv", "pow"):
    CASES[name] = lambda x, n=name: getattr(operator, n)(masked(x), W)
    CASES[f"{name} reversed"] = lambda x, n=name: getattr(operator, n)(W, masked(x))
    CASES[f"{name} plain"] = lambda x, n=name: getattr(operator, n)(x, other())
    CASES[f"{name} number"] = lambda x, n=name: getattr(operator, n)(2.0, masked(x))
    CASES[f"{name} masked"] = lambda x, n=name: getattr(operator, n)(x, ma.masked)


def in_place(x: Any) -> Any:
    y = masked(x.copy())
    y += W
    y *= x
    y /= 2.0
    return y


def plain_in_place(x: Any) -> Any:
    y = ma.array(W.copy(), mask=MASK.copy())
    y *= x
    return y


def items(x: Any) -> Any:
    y = masked(x.copy())
    y[0] = x[1] * 2
    y[1] = 3.0
    y[2] = ma.masked
    return y


def into_zeros(x: Any) -> Any:
    y = ma.zeros(4)
    y[0] = x[0]
    y[1] = ma.masked
    y[2:] = x[:2] * x[2]
    return y


def into_masked_all(x: Any) -> Any:
    y = ma.masked_all(4)
    y[2:] = x[:2] * x[2]
    return y


def into_hard_mask(x: Any) -> Any:
    y = ma.array(x, mask=MASK, hard_mask=True, copy=True)
    y[:] = 2 * x
    return y


def by_condition(x: Any) -> Any:
    y = masked(x.copy())
    y[y > 1] = ma.masked
    return y


def new_mask(x: Any) -> Any:
    y = masked(x.copy())
    y.mask = [1, 0, 0, 0, 0, 1]
    y.mask[2] = True
    return y


CASES |= {
    "in place": in_place, "plain in place": plain_in_place, "items": items, "zeros": into_zeros,
    "masked_all": into_masked_all, "hard mask": into_hard_mask, "by condition": by_condition,
    "new mask": new_mask,
    "masked_where": lambda x: ma.masked_where(x > 1, x),
    "masked_greater": lambda x: ma.masked_greater(x, 1.5),
    "masked_inside": lambda x: ma.masked_inside(x, 0, 1),
    "masked_invalid": lambda x: ma.masked_invalid(np.log(x)),
    "fix_invalid": lambda x: ma.fix_invalid(np.log(x), fill_value=0.0),
    "filled": lambda x: masked(x).filled(3.0),
    "filled with a traced number": lambda x: ma.filled(masked(x), x[0]),
    "data": lambda x: masked(x).data * x,
    "mask": lambda x: masked(x).mask * x,
    "item": lambda x: masked(x)[2],
    "masked item": lambda x: masked(x)[1],
    "slice": lambda x: masked(x)[1:4],
    "index": lambda x: masked(x)[[0, 1, 5]],
    "row": lambda x: table(x)[0],
    "new axis": lambda x: masked(x)[:, None] * masked(x),
    "median": lambda x: ma.median(masked(x)),
    "median axis": lambda x: ma.median(table(x), axis=0),
    "average": lambda x: ma.average(masked(x), weights=W),
    "average traced weights": lambda x: ma.average(masked(x), weights=x**2, returned=True),
    "np.average": lambda x: np.average(masked(x), weights=W),
    "np.median": lambda x: np.median(masked(x)),
    "var ddof": lambda x: table(x).var(axis=1, ddof=1),
    "ma.where": lambda x: ma.where(x > 1, masked(x), W),
    "ma.where masked": lambda x: ma.where(masked(x) > 1, masked(x), -x),
    "ma.concatenate": lambda x: ma.concatenate([masked(x), x]),
    "ma.stack": lambda x: ma.stack([masked(x), masked(x) * 2]),
    "ma.vstack": lambda x: ma.vstack([masked(x), x]),
    "ma.append": lambda x: ma.append(masked(x), x),
    "ma.dot": lambda x: ma.dot(table(x), table(x).T),
    "ma.inner": lambda x: ma.inner(masked(x), W),
    "ma.outer": lambda x: ma.outer(masked(x), x),
    "ma.diff": lambda x: ma.diff(masked(x)),
    "np.diff": lambda x: np.diff(masked(x)),
    "ma.sort": lambda x: ma.sort(masked(x)),
    "np.sort": lambda x: np.sort(masked(x)),
    "clip": lambda x: masked(x).clip(0, 2),
    "np.roll": lambda x: np.roll(masked(x), 1),
    "np.tile": lambda x: np.tile(masked(x), 2),
    "np.nansum": lambda x: np.nansum(masked(x)),
    "reshape": lambda x: masked(x).reshape(2, 3).swapaxes(0, 1),
    "take": lambda x: masked(x).take([0, 1]),
    "ma.repeat": lambda x: ma.repeat(masked(x), 2),
    "ma.diag": lambda x: ma.diag(masked(x)),
    "trace": lambda x: table(x).trace(),
    "count": lambda x: masked(x).count() * x[0],
    "ma.cov": lambda x: ma.cov(table(x)),
    "ma.polyfit": lambda x: ma.polyfit(W, masked(x), 1),
    "ma.mask_rows": lambda x: ma.mask_rows(table(x)),
    "ma.compress_rows": lambda x: ma.compress_rows(table(x)),
    "comparison": lambda x: (masked(x) > 1).any() * x[0],
    "argmax": lambda x: masked(x).argmax() * x[0],
    "ma.power": lambda x: ma.power(masked(x), 0.5),
    "asarray": lambda x: np.asarray(masked(x)) * x,
    "ma.asarray": lambda x: ma.asarray(x).mean(),
    "iteration": lambda x: sum(v for v in masked(x) if v is not ma.masked),
    "float": lambda x: float(masked(x)[0]),
    "plain beside traced": lambda x: np.add(x, ma.masked_less(W, 3)),
    "division by zero": lambda x: x / ma.array([0.0, 1, 2, 3, 4, 5]),
    "all masked": lambda x: ma.array(x, mask=True).sum(),
    "no mask": lambda x: ma.array(x, mask=False).sum(),
    "list": lambda x: ma.array([x[0], x[1] * 2], mask=[0, 1]),
    "ma.add.reduce": lambda x: ma.add.reduce(masked(x)),
    "ma.multiply.outer": lambda x: ma.multiply.outer(masked(x), W),
    "ma.maximum.reduce": lambda x: ma.maximum.reduce(masked(x)),
    "put": lambda x: (lambda y: (ma.put(y, [0, 1], [x[2], 5.0]), y)[1])(masked(x.copy())),
}  # fmt: skip


def known(found: Any) -> Any:
    """The numbers that are not masked, and the mask."""
    if isinstance(found, tuple):
        return [known(item) for item in found]
    if found is ma.masked:
        return "masked"
    if isinstance(found, ma.MaskedArray):
        return [np.asarray(found.filled(0.0)), ma.getmaskarray(found)]
    return np.asarray(found)


def number(found: Any) -> Any:
    """One number of what is not masked, whose second derivatives are not zero."""
    if isinstance(found, tuple):
        return sum(number(item) for item in found)
    if found is ma.masked:
        return 0.0
    if isinstance(found, ma.MaskedArray):
        found = found.filled(0.0)
    return np.sum(
        found * (np.cos(np.arange(float(np.size(found)))).reshape(np.shape(found)) + found)
    )


def equal(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            equal(f, e)
    elif isinstance(expected, str):
        assert found == expected
    else:
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, 1e-12, 1e-14)


def slope(f: Any, step: float = 1e-6) -> Any:
    moves = step * np.eye(6)
    return np.stack([(f(X + e) - f(X - e)) / (2 * step) for e in moves])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_np_ma(name: str) -> None:
    """The kind, numbers and mask of NumPy; gradients, second derivatives, jvp, vmap and jit."""
    f = CASES[name]
    seen = []

    def kept(x: Any) -> Any:
        seen.append(f(x))
        return number(seen[-1]) + 0.0 * x[0]

    expected = f(X)
    gradient = fg.grad(kept)(X)
    assert isinstance(seen[-1], ma.MaskedArray) == isinstance(expected, ma.MaskedArray)
    equal(known(fg.jvp(f, (X,), (np.ones(6),))[0]), known(expected))
    np.testing.assert_allclose(gradient, slope(lambda x: number(f(x))), 1e-5, 1e-5)
    compiled = fg.jit(fg.grad(kept))
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), gradient, 1e-12, 1e-13)
    second = fg.jacobian(fg.grad(kept))(X)
    ahead, behind = (fg.grad(kept)(X + h * ALONG) for h in (1e-5, -1e-5))
    np.testing.assert_allclose(second @ ALONG, (ahead - behind) / 2e-5, 1e-4, 1e-4)
    equal(known(fg.jit(f)(X)), known(expected))
    rows = np.stack([X, X + 0.01])
    if name != "median":  # asks whether one number is masked
        found = fg.vmap(kept)(rows)
        np.testing.assert_allclose(found, [number(f(x)) for x in rows], 1e-12)


def test_masked_arrays_are_arguments_and_results() -> None:
    M = masked(X)

    def f(m: Any) -> Any:
        return (m**2).sum()

    expected = np.where(MASK, 0.0, 2 * X)
    np.testing.assert_array_equal(fg.grad(f)(M), expected)
    compiled = fg.jit(fg.grad(f))
    np.testing.assert_array_equal(compiled(M), expected)
    M[0] = ma.masked  # another mask is another program
    np.testing.assert_array_equal(compiled(M), np.where(M.mask, 0.0, 2 * X))
    for g in (fg.jit(lambda m: m * 2), fg.vmap(lambda m: m * 2)):
        equal(known(g(M.reshape(2, 3))), known(M.reshape(2, 3) * 2))
    found = fg.vmap(lambda m: m.sum(), in_axes=1)(table(X).T)
    np.testing.assert_allclose(found, table(X).sum(1))
    found = fg.vmap(lambda x: ma.array(x, mask=[0, 1, 0]), out_axes=1)(X.reshape(2, 3))
    assert found.mask.tolist() == [[False, False], [True, True], [False, False]]
    assert fg.value_and_grad(lambda x: ma.array(x, mask=True).sum())(X)[0] is ma.masked


def test_vmap_takes_masks_of_each_example() -> None:
    rows = np.array([[1.0, 2.0, 3.0], [-1.0, 2.0, 4.0]])  # the first has no masked element

    def f(x: Any) -> Any:
        return ((2 * ma.log(x) + ma.log(x)) * ma.sqrt(x)).sum()

    np.testing.assert_allclose(fg.vmap(f)(rows), [f(x) for x in rows])
    compiled = fg.jit(fg.grad(f))
    for x in rows:
        np.testing.assert_allclose(compiled(x), fg.grad(f)(x))


OF_MASKED = {
    "less": lambda m: ma.masked_less(m, 0.5) * m,
    "log": lambda m: ma.log(m - 0.5),
    "filled": lambda m: ma.masked_invalid(np.sqrt(m - 0.5)).filled(0.0) * m,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", OF_MASKED)
def test_derivatives_by_masked_arrays_under_vmap_and_jit(name: str) -> None:
    f = OF_MASKED[name]
    rows = ma.array([[0.3, 0.7, 1.2], [1.3, 1.7, 2.2]], mask=[[0, 1, 0], [1, 0, 0]])

    def loss(m: Any) -> Any:
        return (f(m) ** 2).sum()

    def pushed(m: Any) -> Any:
        return fg.jvp(f, (m,), (m,))[1]

    for g in (fg.grad(loss), fg.jacobian(f), fg.jacfwd(f), fg.hessian(loss), pushed):
        expected = [known(g(row)) for row in rows]
        for row, one in zip(rows, expected, strict=True):
            equal(known(fg.jit(g)(row)), one)
        for mapped in (fg.vmap(g), fg.jit(fg.vmap(g)), fg.vmap(fg.jit(g))):
            for found, one in zip(mapped(rows), expected, strict=True):
                equal(known(found), one)
    equal(known(fg.jacobian(fg.jit(f))(rows[1])), known(fg.jacobian(f)(rows[1])))


def test_special_sizes() -> None:
    np.testing.assert_array_equal(fg.grad(lambda x: ma.array(x).filled(0.0).sum())(np.ones(0)), [])
    assert fg.grad(lambda x: ma.array(x, mask=False).sum())(np.array(2.0)) == 1.0
    assert fg.grad(lambda x: ma.array(x, mask=True).filled(3.0)[()])(np.array(2.0)) == 0.0


def test_masked_elements_have_no_gradient_though_their_numbers_are_not_finite() -> None:
    x = np.array([-1.0, 0.0, 4.0])
    for f in (lambda x: ma.log(x).sum(), lambda x: ma.masked_invalid(np.log(x)).sum()):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fg.grad(f)(x), [0.0, 0.0, 0.25])


def test_a_masked_array_of_plain_numbers_takes_no_traced_values() -> None:
    def f(x: Any) -> Any:
        y = ma.masked_less(W, 3)
        y[0] = x
        return y.sum()

    with pytest.raises(ItemAssignmentError):
        fg.grad(f)(1.0)


def test_numpys_own_class_is_as_before() -> None:
    make = vars(ma.MaskedArray)["__new__"]
    fg.grad(lambda x: masked(x).sum())(X)
    assert vars(ma.MaskedArray)["__new__"] is make
    assert "type" not in vars(ma.core)
    assert ma.zeros(2).__class__ is ma.MaskedArray and type(ma.zeros(2)) is ma.MaskedArray


BESIDE_NEW_ARRAYS = {
    "dot": np.dot,
    "inner": np.inner,
    "vdot": lambda a, m: np.vdot(a[0], m),
    "tensordot": lambda a, m: np.tensordot(a, m, 1),
    "outer": np.outer,
    "stack": lambda a, m: np.stack([a[0], m]),
    "concatenate": lambda a, m: np.concatenate([a[0], m]),
    "where": lambda a, m: np.where(a[0] > 0.0, a[0], m),
    "clip": lambda a, m: np.clip(m, a[0] - 5.0, a[0] + 5.0),
    "kron": np.kron,
    "append": lambda a, m: np.append(a[0], m),
    "copyto": lambda a, m: (np.copyto(a, m), a)[1],
    "fill_diagonal": lambda a, m: (np.fill_diagonal(a, m), a)[1],
}


@pytest.mark.parametrize("function", BESIDE_NEW_ARRAYS)
def test_arrays_that_the_program_makes_come_before_masked_ones(function):
    def f(x):
        return np.asarray(BESIDE_NEW_ARRAYS[function](np.ones((2, 2)), ma.asarray(x[:2]) * 2.0))

    step = 1e-6 * np.eye(6)
    expected = [(f(X + e) - f(X - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(fg.jacobian(f)(X), np.stack(expected, axis=-1), 1e-8, 1e-8)
    np.testing.assert_array_equal(fg.jit(f)(X), f(X))
