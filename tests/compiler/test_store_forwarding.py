"""Chains of writes at known places: compiled programs have none, and give the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.passes.pipeline import optimised
from fungrad.compiler.passes.store_forwarding import forward_stores


def _names(f, *args):
    graph = optimised(fg.jit(f).lower(*args).graph)
    return [equation.primitive.name for equation in graph.equations]


def writes(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = np.sin(x[i]) * x[i]
    return np.sum(out**2)


def stacked(x):
    return np.sum(np.stack([np.sin(x[i]) * x[i] for i in range(len(x))]) ** 2)


def recurrence(x):
    out = np.zeros(len(x))
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = np.sin(out[i - 1]) * x[i]
    return np.sum(out**2)


def counts(x):
    out = np.zeros(3)
    for i in range(len(x)):
        out[i % 3] += np.sin(x[i])
    return np.sum(out**2)


def rows(x):
    out = np.zeros((len(x), 2))
    for i in range(len(x)):
        out[i] = x[i] * x[:2]
    return np.sum(out**2)


def elements(x):
    out = np.zeros((2, len(x)))
    for i in range(2):
        for j in range(len(x)):
            out[i, j] = np.sin(x[j]) * (i + 1)
    return np.sum(out**2)


def columns(x):
    out = np.ones((2, len(x)))
    for j in range(len(x)):
        out[:, j] = x[j] * x[:2]
    return np.sum(out**2)


LOOPS = [writes, recurrence, counts, rows, elements, columns]


@pytest.mark.parametrize("loop", LOOPS)
def test_no_write_of_a_loop_is_left(loop):
    x = np.linspace(0.1, 1.0, 7)
    for f in (loop, fg.grad(loop)):
        assert not {"index_set", "select", "indexed"} & set(_names(f, x))
        np.testing.assert_allclose(fg.jit(f)(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(fg.jit(fg.hessian(loop))(x), fg.hessian(loop)(x), rtol=1e-10)
    xs = np.stack([x, x * 0.5])
    np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(loop)))(xs), fg.vmap(fg.grad(loop))(xs))
    assert "index_set" not in _names(fg.vmap(loop), xs)


@pytest.mark.slow
def test_as_many_equations_as_with_a_stack():
    for n in (20, 200):
        x = np.linspace(0.1, 1.0, n)
        for transform in (lambda f: f, fg.grad):
            found, wanted = (_names(transform(f), x) for f in (writes, stacked))
            assert len(found) <= len(wanted)


def test_what_is_left_of_few_writes():
    def some(x, y):
        out = y * 1.0
        out[3] = x[0]
        out[7] = x[1]
        out[3] = x[1] * 2.0  # the last one counts
        out[1] = 2
        out[5] = x[2]
        return out

    x, y = np.array([1.0, 2.0, 3.0]), np.arange(10.0)
    assert _names(some, x, y).count("index_set") == 1
    np.testing.assert_array_equal(fg.jit(some)(x, y), some(x, y))
    np.testing.assert_array_equal(
        fg.jit(fg.jacobian(some, (0, 1)))(x, y)[1], fg.jacobian(some, (0, 1))(x, y)[1]
    )

    def beside(x, y):
        out = y * 1.0
        for i in range(3):
            out[i + 2] = x[i]
        return out

    assert _names(beside, x, y).count("index_set") == 1
    np.testing.assert_array_equal(fg.jit(beside)(x, y), beside(x, y))


@pytest.mark.parametrize("part", [slice(2, 5), slice(1, 6, 2), slice(4, 1, -1)])
def test_slices_among_writes_of_items(part):
    def f(x):
        out = np.zeros(6)
        out[0] = x[3]
        out[part] = x[:3] * 2.0
        out[3] = x[4]
        return np.array([out[2], out[4], out[1]]) * np.sum(out * np.arange(6.0))

    x = np.linspace(0.5, 2.0, 5)
    np.testing.assert_array_equal(fg.jit(f)(x), f(x))
    np.testing.assert_allclose(fg.jit(fg.jacobian(f))(x), fg.jacobian(f)(x), rtol=1e-14)


def test_dtypes_are_those_of_the_array():
    def f(x):
        out = np.zeros(3, np.float32)
        out[0] = x[0]
        out[1] = 2.5
        out[2] = 1
        whole = np.zeros(2, int)
        whole[0] = 3
        whole[1] = fg.stop_gradient(x[0]).astype(int)
        z = np.zeros(2, complex)
        z[0] = x[0]
        z[1] = 2.0
        return out, whole, z

    x = np.array([1.7, 2.0])
    for one, other in zip(fg.jit(f)(x), f(x), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_signs_of_zeros_and_nan_stay():
    def f(x):
        out = np.full(4, -0.0) * np.ones(4)
        out[0] = x[0]
        out[1] = x[1]
        out[0] += -0.0
        out[1] *= 1.0
        return out, 1.0 / out[1], out[2]

    x = np.array([-0.0, np.nan])
    for one, other in zip(fg.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))
        np.testing.assert_array_equal(one, other)


def test_in_the_body_of_a_scan():
    def body(carry, x):
        out = np.zeros(3)
        for i in range(3):
            out[i] = np.sin(carry[i]) + x
        out[1] += out[0]
        return out, out[2]

    def f(x):
        carry, ys = fg.lax.scan(body, x[:3], x)
        return np.sum(carry) + np.sum(ys)

    x = np.linspace(0.1, 1.0, 7)
    for g in (f, fg.grad(f)):
        np.testing.assert_allclose(fg.jit(g)(x), g(x), rtol=1e-13)


SHAPES = [(5,), (3, 4), (2, 3, 2)]


def _program(random, shape):
    """A program of writes and reads of an array at known places, as a function of two arrays."""
    steps = []
    for _ in range(int(random.integers(2, 14))):
        kind = random.choice(
            ["set", "set", "set", "add", "clear", "copy", "scale", "number", "sum"]
        )
        entries = []
        for n in shape[: int(random.integers(1, len(shape) + 1))]:
            roll = random.random()
            if roll < 0.7:
                entries.append(int(random.integers(-n, n)))
            elif roll < 0.85:
                start, stop = sorted(random.integers(0, n + 1, 2).tolist())
                entries.append(slice(start, stop))
            else:
                entries.append(slice(None))
        index = tuple(entries)
        place = tuple(int(random.integers(n)) for n in shape)
        steps.append((kind, index, place))

    def program(x, y):
        out, kept = y * 1.0, []
        for kind, index, place in steps:
            if kind == "set":
                out[index] = np.sin(out[place]) * x[index]
            elif kind == "add":
                out[index] += x[place]
            elif kind == "clear":
                out[index] = 0.0
            elif kind == "copy":
                out[index] = out[place]
            elif kind == "scale":
                out[index] *= x[place]
            elif kind == "number":
                out[index] = 2
            else:
                kept.append(np.sum(out * x))
        return out, np.sum(out * x) + sum(kept) * x[(0,) * x.ndim]

    return program


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_random_programs(shape):
    random = np.random.default_rng(len(shape))
    for _ in range(25):
        program = _program(random, shape)
        x, y = random.standard_normal(shape), random.standard_normal(shape)
        for one, other in zip(fg.jit(program)(x, y), program(x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        gradient = fg.grad(lambda x, y, f=program: f(x, y)[1], argnums=(0, 1))
        for one, other in zip(fg.jit(gradient)(x, y), gradient(x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    xs, ys = random.standard_normal((2, 3, *shape))
    batched = fg.vmap(lambda x, y: program(x, y)[0])
    np.testing.assert_allclose(fg.jit(batched)(xs, ys), batched(xs, ys), rtol=1e-12)


def test_bodies_have_no_writes_by_arrays():
    def f(x):
        out = x * 1.0
        for i in (0, 3, 5, 9):
            out[i] = x[i] * 2.0
        return out

    graph = fg.jit(f).lower(np.ones(10)).graph
    for arrays in (True, False):
        found = forward_stores(graph, arrays=arrays)
        reads = [e for e in found.equations if e.primitive.name == "index_set"]
        assert [len(e.inputs) for e in reads] == ([3] if arrays else [2] * 4)
