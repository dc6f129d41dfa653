"""Arrays of objects with traced items: made, filled, computed with, cast; np.frompyfunc."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import fungrad as fg

OBJECTS = {
    "sum": lambda x: np.sum(x.astype(object) ** 2),
    "items": lambda x: filled(x)[1] * filled(x)[2],
    "dot": lambda x: np.dot(filled(x), [1.0, 2.0, 3.0]),
    "matrix": lambda x: np.sum(
        np.array([[x[0], 1], [x[1] * x[2], x[0]]], dtype=object) @ filled(x)[:2]
    ),
    "astype": lambda x: np.sum(np.sin((filled(x) * x).astype(float))),
    "mean": lambda x: filled(x).mean() * filled(x).var(ddof=1) + filled(x).std(),
    "axis": lambda x: np.sum(np.array([filled(x), x * x], dtype=object).mean(axis=0)),
    "full": lambda x: np.sum(np.full(3, x[0], dtype=object) ** 2),
    "full_like": lambda x: np.sum(np.full_like(x, x[0] * x[1], dtype=object).astype(float)),
    "in place": lambda x: np.sum(in_place(filled(x), x)),
    "strings": lambda x: np.array(["a", x[0], None], dtype=object)[1] ** 2,
    "vectorize": lambda x: np.sum(np.vectorize(lambda a: a**3 if a > 1 else a)(x)),
    "frompyfunc": lambda x: np.sum(CUBE(x)),
    "frompyfunc.astype": lambda x: np.sum(np.sin(CUBE(x).astype(float))),
    "frompyfunc of a number": lambda x: CUBE(x[0]),
    "frompyfunc of objects": lambda x: np.sum(CUBE(filled(x))),
    "frompyfunc of math": lambda x: np.sum(np.frompyfunc(math.erf, 1, 1)(x)),
    "frompyfunc of plain numbers": lambda x: np.sum(
        np.frompyfunc(lambda a: a * x[0], 1, 1)(np.arange(3.0)).astype(float)
    ),
    "two arguments": lambda x: np.sum(TIMES(x, x[::-1])) + np.sum(TIMES.outer(x, x)),
    "reduce": lambda x: TIMES.reduce(x) + TIMES.accumulate(x)[1],
    "two results": lambda x: np.sum(np.frompyfunc(lambda a: (a, a * a), 1, 2)(x)[1]),
    "fromiter": lambda x: np.sum(np.fromiter((a * a for a in x), float)),
    "fromiter count": lambda x: np.sum(np.fromiter((a * a for a in x), float, 2)),
}  # fmt: skip
CUBE = np.frompyfunc(lambda a: a**3, 1, 1)
TIMES = np.frompyfunc(lambda a, b: a * b + 1, 2, 1)


def filled(x: Any) -> Any:
    found = np.empty(3, dtype=object)
    for i in range(3):
        found[i] = x[i] ** 2
    return found


def in_place(found: Any, x: Any) -> Any:
    found += x
    found *= 2.0
    return found * x


@pytest.mark.parametrize("name", OBJECTS)
def test_arrays_of_objects_with_traced_items(name: str) -> None:
    f, x = OBJECTS[name], np.array([0.7, 1.2, 2.3])

    def slope(g: Any) -> Any:
        return np.stack([(g(x + e) - g(x - e)) / 2e-5 for e in 1e-5 * np.eye(3)])

    value, gradient = fg.value_and_grad(f)(x)
    np.testing.assert_allclose(float(value), float(f(x)), 1e-14)
    np.testing.assert_allclose(gradient, slope(f).astype(float), 1e-7, 1e-8)
    np.testing.assert_allclose(fg.jvp(f, (x,), (np.ones(3),))[1], np.sum(gradient), 1e-12)
    np.testing.assert_allclose(fg.hessian(f)(x), slope(fg.grad(f)), 1e-6, 1e-6)
    compiled = fg.jit(fg.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), gradient, 1e-12, 1e-14)
    rows = np.stack([x, x + 0.01])
    np.testing.assert_allclose(fg.vmap(f)(rows), [float(f(row)) for row in rows], 1e-12)


def test_an_array_of_objects_is_an_ndarray_of_its_own() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        made = np.empty(2, dtype=object)
        made[0] = x
        assert made.__class__ is np.ndarray and isinstance(made, np.ndarray)
        made.resize(3, refcheck=False)  # as compiled code of pandas
        kept.append(made)
        return (made[0] * np.array([x, 2 * x], dtype=object)).sum()

    assert fg.grad(f)(2.0) == 12.0
    assert kept[0][0] * 2 == 4.0 and pickle.loads(pickle.dumps(kept[0][1:])).shape == (2,)

    def empty(x: Any) -> Any:
        return np.sum(np.frompyfunc(lambda a: a, 1, 1)(x[:0])) + np.sum(x)

    np.testing.assert_array_equal(fg.grad(empty)(np.ones(2)), [1.0, 1.0])
