"""a[i] of a plain ndarray by a traced index, where a function finds the array."""

from __future__ import annotations

import dataclasses
import pickle
import threading

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import AbstractValueError

TABLE = np.arange(12.0).reshape(6, 2)
ROW = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
HELD = {"row": ROW, "list": [ROW, ROW * 2], "pair": (ROW, 3)}
PLACES = np.array([0, 3, 1])


@dataclasses.dataclass(frozen=True)
class Model:
    table: np.ndarray

    def __call__(self, i):
        return self.table[i]


class Shared:
    row = ROW


def _closure():
    row = ROW.copy()
    return lambda i: row[i] * 2.0


def _calls(i):
    return _called(i) + 1.0


def _called(i, row=ROW):
    return row[i]


def _of_a_local(i):
    own = HELD["list"][1]
    return own[i]


def _changed(i):
    return (ROW * 2.0)[i] + ROW[::-1][i] + TABLE.T[0][i]


FUNCTIONS = {
    "global": lambda i: ROW[i],
    "closure": _closure(),
    "default": lambda i, row=ROW: row[i],
    "called": _calls,
    "instance": Model(ROW),
    "class": lambda i: Shared.row[i],
    "dict": lambda i: HELD["row"][i],
    "list": lambda i: HELD["list"][1][i],
    "tuple": lambda i: HELD["pair"][0][i],
    "local": _of_a_local,
    "made of it": _changed,
    "row": lambda i: TABLE[i],
    "column": lambda i: TABLE[1:, i % 2],
    "two": lambda i: TABLE[i, i % 2],
    "new axis": lambda i: TABLE[i, None],
    "array": lambda i: ROW[i + np.arange(2)],
    "mask": lambda i: np.sum(ROW[ROW > i]),
    "integers": lambda i: np.array([4, 2, 1, 0])[i] + PLACES[i % 3],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transform_without_known_values(name):
    f = FUNCTIONS[name]
    expected = [f(i) for i in PLACES]
    found = [fg.jit(f)(i) for i in PLACES]
    for rows in (found, fg.vmap(f)(PLACES), fg.jit(fg.vmap(f))(PLACES), lax.map(f, PLACES)):
        assert np.asarray(rows).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_beside_an_array_that_is_read_by_the_step(name):
    f = FUNCTIONS[name]

    def loss(w):
        return lax.fori_loop(0, 3, lambda i, total: total + np.sum(f(i) * w**2), 0.0)

    expected = sum(np.sum(f(i)) for i in range(3))
    for order, factor in ((1, 2.0 * 1.5), (2, 2.0)):
        g = fg.grad(loss) if order == 1 else fg.grad(fg.grad(loss))
        np.testing.assert_allclose([g(1.5), fg.jit(g)(1.5)], factor * expected)


def test_an_argument_that_is_not_mapped():
    found = fg.vmap(lambda row, i: row[i], (None, 0))(ROW, PLACES)
    np.testing.assert_array_equal(found, ROW[PLACES])


def test_the_places_hold_the_arrays_again():
    before = ROW, HELD["row"], HELD["pair"], HELD["list"][0], Shared.row, _called.__defaults__
    model = Model(ROW.copy())
    table = model.table
    fg.jit(lambda i: ROW[i] + HELD["row"][i] + HELD["pair"][0][i] + Shared.row[i] + _called(i))(1)
    fg.vmap(model)(PLACES)
    after = ROW, HELD["row"], HELD["pair"], HELD["list"][0], Shared.row, _called.__defaults__
    assert all(x is y for x, y in zip(before, after, strict=True)) and model.table is table

    def fails(i):
        raise KeyError(ROW[i])

    with pytest.raises(KeyError):
        fg.jit(fails)(1)
    assert ROW is before[0] and type(ROW) is np.ndarray


def test_an_array_is_one_constant():
    graph = fg.make_jaxpr(lambda i: ROW[i] + ROW[i + 1])(1)
    assert len(graph.constants) == 1


def test_what_the_function_may_do_with_an_array_besides():
    def f(i):
        assert isinstance(ROW, np.ndarray) and ROW.shape == (5,) and len(ROW) == 5
        assert pickle.loads(pickle.dumps(ROW)).tolist() == ROW.tolist()
        assert repr(ROW) == repr(np.array(ROW.tolist()))
        return ROW[i] + ROW[0] + float(ROW[1]) + np.sum(ROW @ ROW) + sum(ROW.tolist())

    assert fg.jit(f)(2) == f(2)
    np.testing.assert_array_equal(fg.vmap(f)(PLACES), [f(i) for i in PLACES])


def test_an_index_out_of_range_raises_as_numpy():
    for index in (5, -6):
        with pytest.raises(IndexError, match="out of bounds"):
            fg.jit(lambda i: ROW[i])(index)


def test_threads_read_while_another_traces():
    seen, done = [], threading.Event()

    def reads():
        while not done.is_set():
            seen.append(ROW[2] == 4.0 and isinstance(ROW, np.ndarray) and ROW.sum() == 14.0)

    reader = threading.Thread(target=reads)
    reader.start()
    for k in range(30):
        assert fg.jit(lambda i, k=k: ROW[i] + k)(3) == 1.0 + k
    done.set()
    reader.join()
    assert seen and all(seen) and type(ROW) is np.ndarray


def made_elsewhere():
    return [np.frombuffer(bytes(ROW), np.float64)]


@pytest.mark.parametrize("transform", [fg.jit, fg.vmap])
def test_an_array_that_cannot_be_found_is_refused_with_the_rewrite(transform):
    with pytest.raises(AbstractValueError, match=r"np\.take\(a, i.*np\.array\(a\)\[i") as error:
        transform(lambda i: made_elsewhere()[0][i])(PLACES)
    assert "test_indexable_arrays.py" in str(error.value)
    for f in (lambda a, i: np.take(a, i, axis=0), lambda a, i: np.array(a)[i]):
        found = transform(lambda i, f=f: f(made_elsewhere()[0], i))(PLACES)
        np.testing.assert_array_equal(found, ROW[PLACES])


def test_a_float_is_no_index():
    for transform in (fg.jit, fg.grad):
        with pytest.raises(IndexError, match="valid indices"):
            transform(lambda x: ROW[x])(1.0)


def test_interception_can_be_switched_off():
    fg.config.intercept = False
    try:
        with pytest.raises(AbstractValueError, match="indexed by a traced value"):
            fg.jit(lambda i: ROW[i], branches="error")(1)
    finally:
        fg.config.intercept = True
