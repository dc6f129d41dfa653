"""Traced values that are written into arrays that were there before the trace."""

from __future__ import annotations

import collections
import sys
import threading
import types
import typing

import numpy as np
import pytest
import scipy.linalg

import fungrad as fg
from fungrad.errors import ItemAssignmentError
from fungrad.tracing import bound_names, interception

GRID = np.linspace(1.0, 2.0, 3)
BUFFER = np.zeros(3)
HELD = {"array": np.ones(3), "list": [np.zeros(2), np.ones(3)], "pair": (np.ones(2), 1)}
MATRIX = np.eye(3)
CORNER = MATRIX[:2, 1:]
WORK = types.ModuleType("work_arrays")
WORK.array = np.ones(3)


class Filter:
    shared = np.ones(2)

    def __init__(self):
        self.state, self.covariance = np.zeros(2), np.eye(2)
        self.parts = [types.SimpleNamespace(weights=np.ones(2))]

    def __call__(self, x):
        self.state[:] = 1.0
        self.state[0] = x
        self.covariance += x * np.eye(2)
        self.shared[1] *= x
        return self.state @ self.covariance @ self.state + np.sum(self.shared)

    def of_parts(self, x):
        for part in self.parts:
            part.weights *= x
        return np.sum(self.parts[0].weights ** 2)


def _closure():
    buffer = np.ones(3)

    def f(x):
        buffer[1:] += x
        return np.sum(buffer**2)

    return f


def _global(x):
    BUFFER[:2] = 1.0
    BUFFER[1:] += x
    return np.sum(BUFFER**3)


def _items(x):
    HELD["array"][1] = x
    HELD["list"][0][:] = x
    HELD["pair"][0].fill(x)
    return HELD["array"][1] * np.sum(HELD["list"][0]) * HELD["pair"][0][1]


Pair = collections.namedtuple("Pair", "first second")
OTHERS = {
    "ordered": collections.OrderedDict(a=np.zeros(2)),
    "default": collections.defaultdict(list, a=np.zeros(2)),
    "queue": collections.deque([np.zeros(2)]),
    "named": Pair(np.zeros(2), 1),
}


def _other_containers(x):
    for held in (OTHERS["ordered"]["a"], OTHERS["default"]["a"], OTHERS["queue"][0]):
        held[0] = x
    OTHERS["named"].first[1] = x
    rest = OTHERS["named"].first[1] * OTHERS["queue"][0][0]
    return rest * OTHERS["ordered"]["a"][0] * OTHERS["default"]["a"][0]


def _views(x):
    CORNER[0] += x
    a = np.sum(MATRIX)
    MATRIX[1, 2] = x**2
    return a * CORNER[1, 1]


def _module(x):
    import work_arrays

    work_arrays.array[2] = x
    return np.prod(work_arrays.array * GRID)


def _default(x, out=np.zeros(3)):  # noqa: B008 - an array that each call writes into
    np.multiply(GRID, x, out=out)
    return np.sum(out**2)


def _made_by_operators(x):
    rows = GRID * 2.0
    np.multiply(rows, x * rows, out=rows)
    sums = np.cumsum(GRID)
    sums[1:] -= x
    inverse = np.linalg.inv(MATRIX + np.outer(GRID, GRID))
    inverse[0] *= x
    inverse += scipy.linalg.inv(MATRIX * 2.0)
    lower = scipy.linalg.cholesky(MATRIX * 2.0)
    lower[0] *= x
    inverse += lower
    copy = GRID[1:].copy()
    copy.flat[0] = x
    np.add.at(copy, [0, 0], x)
    product = np.einsum("ij,jk->ik", MATRIX, np.outer(GRID, GRID), out=None)
    turned = np.einsum("ij->ji", product)  # a view
    turned[0] *= x
    averages = np.convolve(GRID, GRID)
    averages[2] = x
    found = np.sum(rows) + np.sum(sums**2) + np.sum(inverse) + np.prod(copy)
    return found + np.sum(product[:, 0]) * np.sum(averages)


FUNCTIONS = {
    "closure": _closure(),
    "global": _global,
    "items": _items,
    "other containers": _other_containers,
    "views": _views,
    "module": _module,
    "default": _default,
    "made by operators": _made_by_operators,
    "instance": Filter(),
    "instances in a list": Filter().of_parts,
}
EXPECTED = {  # values and slopes at 1.5, worked out by hand
    "closure": (1 + 2 * 2.5**2, 10.0),
    "global": (1 + 2.5**3 + 1.5**3, 3 * 2.5**2 + 3 * 1.5**2),
    "items": (2 * 1.5**3, 6 * 1.5**2),
    "other containers": (1.5**4, 4 * 1.5**3),
    "views": ((3 + 2 * 1.5) * 1.5**2, 2 * 1.5**2 + 6 * 2 * 1.5),
    "module": (1.5 * 1.5 * 2, 3.0),
    "default": (1.5**2 * np.sum(GRID**2), 3 * np.sum(GRID**2)),
    "instance": (2.5 * 1.5**2 + 2.5 + 2.5, 3 * 1.5**2 + 2 * 1.5 + 2.0),
    "instances in a list": (2 * 1.5**2, 6.0),
}


def _arrays():
    f = FUNCTIONS["instance"]
    return [
        BUFFER, HELD["array"], *HELD["list"], HELD["pair"][0], MATRIX, CORNER, WORK.array, GRID,
        *_default.__defaults__, f.state, f.covariance, Filter.shared,
        FUNCTIONS["closure"].__closure__[0].cell_contents, OTHERS["ordered"]["a"],
        OTHERS["default"]["a"], OTHERS["queue"][0], OTHERS["named"].first,
    ]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transform_leaves_the_arrays_as_they_are(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "work_arrays", WORK)
    f, x = FUNCTIONS[name], 1.5
    arrays = _arrays()
    value, slope = fg.value_and_grad(f)(x)
    before = [a.copy() for a in arrays]  # plain numbers may be there from the trace that failed
    if name in EXPECTED:
        np.testing.assert_allclose([value, slope], EXPECTED[name])
    else:
        values = [f(t) for t in (x - 1e-6, x, x + 1e-6)]
        np.testing.assert_allclose([value, slope], [values[1], (values[2] - values[0]) / 2e-6])
    for found in (
        fg.value_and_grad(f)(x), fg.jvp(f, (x,), (1.0,)), fg.jit(fg.value_and_grad(f))(x),
        (fg.vmap(f)(np.array([x, x]))[1], fg.vmap(fg.grad(f))(np.array([2.0, x]))[1]),
        (f"{value}", fg.jacobian(f)(x)), (fg.jit(f)(x), fg.linearize(f, x)[1](1.0)),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(found, float), [value, slope], rtol=1e-13)
    curvature = fg.hessian(f)(x)
    np.testing.assert_allclose(fg.jit(fg.grad(fg.grad(f)))(x), curvature, rtol=1e-13)
    for array, same, old in zip(arrays, _arrays(), before, strict=True):
        assert array is same and type(array) is np.ndarray
        np.testing.assert_array_equal(array, old)


def test_arguments_that_are_not_differentiated():
    def f(x, out, held):
        twice = out * 2.0
        twice[1] = x
        out[0] = x
        held["a"][1][:] *= x
        return np.sum(out * twice) + np.sum(held["a"][1] ** 2)

    out, held = np.ones(2), {"a": (0, np.ones(2))}
    expected = 2 * 1.5 + 1.5 + 2 * 1.5**2
    for found in (
        fg.value_and_grad(f)(1.5, out, held), fg.value_and_grad(f)(1.5, out, held=held),
        (expected, fg.jacobian(f)(1.5, out, held)), fg.jit(fg.value_and_grad(f))(1.5, out, held),
        (fg.vmap(f, (0, None, None))(np.array([1.5]), out, held)[0], 3.0 + 6.0),
    ):  # fmt: skip
        np.testing.assert_allclose(np.asarray(found, float), [expected, 9.0])
    assert out.tolist() == held["a"][1].tolist() == [1.0, 1.0]


def test_a_change_that_a_second_trace_would_repeat_is_refused():
    count = np.zeros(2)

    def f(x):
        count[0] += 1.0
        count[1] = x
        return count[0] * count[1]

    with pytest.raises(ItemAssignmentError, match="before it the function has changed such an arr"):
        fg.grad(f)(2.0)
    assert count.tolist() == [1.0, 0.0]
    assert fg.grad(f)(2.0) == fg.grad(f)(2.0) == 2.0  # of the array as it is now
    assert count.tolist() == [1.0, 0.0]


def test_the_body_of_a_loop_does_not_write_into_what_was_there_before():
    total = np.zeros(1)

    def body(i, x):
        total[0] += x
        return x + total[0]

    with pytest.raises(ItemAssignmentError, match="made outside of the function that runs"):
        fg.grad(lambda x: fg.lax.fori_loop(0, 3, body, x))(1.0)
    assert total.tolist() == [0.0]


def test_an_array_that_compiled_code_makes_is_refused_with_the_rewrite():
    import io

    def f(x):
        rows = np.loadtxt(io.StringIO("1 2 3"))
        rows[0] = x
        return np.sum(rows**2)

    with pytest.raises(ItemAssignmentError, match=r"`rows = np\.array\(rows\)` before") as raised:
        fg.grad(f)(1.5)
    assert f"{__file__}:{f.__code__.co_firstlineno + 2}" in str(raised.value)

    def repaired(x):
        rows = np.loadtxt(io.StringIO("1 2 3"))
        rows = np.array(rows)
        rows[0] = x
        return np.sum(rows**2)

    assert fg.grad(repaired)(1.5) == 3.0


def test_the_value_is_checked_against_a_plain_call_that_writes_into_copies(monkeypatch):
    from fungrad.tracing import tracing_check

    seen = []
    plain = tracing_check.Watch._plain

    def spy(self, flat, leaves):
        seen.append(plain(self, flat, leaves))
        return seen[-1]

    monkeypatch.setattr(tracing_check.Watch, "_plain", spy)
    state = np.ones(2)

    def f(x):
        state[0] += x
        return np.sum(state**2)

    assert fg.value_and_grad(f)(2.0) == (10.0, 6.0)
    assert seen == [[10.0]] and state.tolist() == [1.0, 1.0]


def test_a_function_that_closes_over_replaced_functions():
    total, add, function = np.zeros(2), np.sum, scipy.linalg.norm

    def f(x):
        total[0] = x * 2.0
        return add(total**2) + function(total)

    assert fg.grad(f)(1.5) == fg.grad(f)(1.5) == fg.jit(fg.grad(f))(1.5) == 14.0
    assert not total.any()


SHARED = np.zeros(4)


def writes(x):
    SHARED[0] = x[0] * x[1]
    SHARED[1] = np.sin(x[1])
    return np.sum(SHARED * SHARED)


def writes_elsewhere(x):
    BUFFER[:2] = x
    return np.sum(BUFFER * SHARED[:3]) + np.sum(x**2)


def only_reads(x):
    return np.sum((SHARED[:2] + 1.0) * x**2)


def slopes(x):
    first = np.array([2 * x[0] * x[1] ** 2, 2 * x[0] ** 2 * x[1] + np.sin(2 * x[1])])
    return {writes: first, writes_elsewhere: 2 * x, only_reads: 2 * x}


def in_threads(work, count):
    """The errors of `work(i, done)` in several threads that begin at once; `done(f, slope, x)`
    compares.
    """
    errors, barrier = [], threading.Barrier(count)

    def done(f, found, x):
        if not np.allclose(found, slopes(x)[f]):
            errors.append((f.__name__, found, slopes(x)[f]))

    def run(i):
        barrier.wait()
        try:
            work(i, done)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    return errors


@pytest.mark.parametrize("count", [4, pytest.param(32, marks=pytest.mark.slow)])
def test_threads_that_trace_one_function_at_the_same_time(count):
    def work(i, done):
        for k in range(12):
            x = np.array([0.3 + i, 0.7 + k])
            f = (writes, writes_elsewhere, only_reads, writes)[(i + k // 3) % 4]
            transform = (fg.grad, lambda f: fg.jit(fg.grad(f)), fg.jacobian)[(i + k) % 3]
            done(f, transform(f)(x), x)

    assert in_threads(work, count) == []
    assert not SHARED.any() and type(SHARED) is np.ndarray


def test_a_trace_that_waits_for_another_thread_does_not_hang(monkeypatch):
    """A thread stops waiting for a trace that waits for what the thread will do."""
    monkeypatch.setattr(interception, "PATIENCE", 0.3)
    x = np.array([0.5, 2.0])
    fg.grad(writes)(x)

    def outer(x):
        found = []
        thread = threading.Thread(target=lambda: found.append(fg.grad(writes)(np.array([0.5, 2]))))
        thread.start()
        thread.join(60)
        assert len(found) == 1
        return np.sum(x * found[0])

    assert np.allclose(fg.grad(outer)(x), slopes(x)[writes])
    assert np.allclose(fg.grad(writes)(x), slopes(x)[writes])
    assert not interception.holders and not interception._alone
    assert not interception._asking and not interception._overdue


class Chain:
    """Finds its arrays by its class, its attributes, and globals that its methods name."""

    limits: typing.ClassVar = {"upper": np.ones(2)}

    def __init__(self):
        self.row = np.zeros(2)

    def __call__(self, x):
        self.row[0] = x
        LINKS[-1].weights[:] = x * self.row[0]
        self.limits["upper"][1] = TABLE[0](x)
        return self.row[0] + np.sum(LINKS[-1].weights) + self.limits["upper"][1]


def link():
    return types.SimpleNamespace(weights=np.ones(2))


def cubed(x):
    CUBES[0] = x**3
    return CUBES[0]


CUBES = np.zeros(1)
LINKS = [link()]
TABLE = [lambda x: 5.0 * x]


def test_what_globals_lead_to_is_read_again_only_where_it_has_changed(monkeypatch):
    read = []
    function = bound_names._Reader.visit_function
    monkeypatch.setattr(
        bound_names._Reader, "visit_function", lambda *args: read.append(args) or function(*args)
    )
    module = globals()

    def slope_of(chain):
        read.clear()
        return fg.grad(lambda x: chain(x))(2.0)

    at_two = 1.0 + 2 * 2 * 2.0 + 5.0
    assert [slope_of(Chain()) for _ in range(3)] == [at_two] * 3
    anew = len(read)  # the function itself, alone
    CUBES[0] = 1.0
    Chain.limits["upper"] = np.ones(2)  # another array: no other code
    assert slope_of(Chain()) == at_two
    assert len(read) == anew
    changes = {
        "a list has one more": lambda: LINKS.append(link()),
        "an item": lambda: TABLE.__setitem__(0, cubed),
        "a global": lambda: monkeypatch.setitem(module, "LINKS", [link()]),
        "a dict": lambda: monkeypatch.setattr(Chain, "limits", {"upper": np.ones(2)}),
        "an attribute": lambda: setattr(LINKS[0], "weights", np.ones(2)),
    }
    for name, change in changes.items():
        change()
        at_two = 1.0 + 2 * 2 * 2.0 + (12.0 if TABLE[0] is cubed else 5.0)
        for _ in range(2):
            assert slope_of(Chain()) == at_two, name
        assert len(read) == anew, name
    assert CUBES[0] == 1.0
    assert all(np.all(one.weights == 1.0) for one in LINKS)
    TABLE[0], LINKS[1:] = (lambda x: 5.0 * x), []
