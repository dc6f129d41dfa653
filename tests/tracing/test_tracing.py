"""Traces and tracers: running functions under them, their values, and NumPy's protocols."""

from __future__ import annotations

import copy
import enum
import os
import threading

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ItemAssignmentError, LeakedTracerError
from fungrad.ir.types import Type
from fungrad.tracing import source_location
from fungrad.tracing.code_origin import origin
from fungrad.tracing.provenance import current_scope
from fungrad.tracing.trace import EVAL, Tracer, current, shape_of, typeof

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def test_outside_of_transforms_numpy_is_untouched():
    assert current() is EVAL
    assert type(np.sin(X)) is np.ndarray
    assert type(fg.grad(np.sin)(1.0)) is np.float64
    assert current() is EVAL


def test_the_current_trace_is_of_the_thread():
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert current() is not EVAL
        return x

    fg.grad(f)(1.0)
    assert seen == [EVAL]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: fg.grad(lambda x: np.sum(f(x)))(X),
        lambda f: fg.vmap(f)(X[None])[0],
        lambda f: fg.make_jaxpr(f)(X),
        lambda f: fg.jvp(f, (X,), (X,)),
    ],
)
def test_the_attributes_of_a_tracer_are_those_of_the_array(transform):
    def f(x):
        assert isinstance(x, Tracer)
        assert x.shape == (2, 3) and x.ndim == 2 and x.size == 6 and len(x) == 2
        assert x.dtype == np.float64 and x.itemsize == 8 and x.nbytes == 48
        assert x.type == typeof(x) == Type((2, 3), np.float64) and shape_of(x) == (2, 3)
        assert np.shape(x) == (2, 3) and np.ndim(x) == 2 and np.size(x) == 6
        assert "f64[2,3]" in f"{x!r}."
        rows = list(x)
        assert len(rows) == 2 and rows[0].shape == (3,)
        first, second = x
        assert first.shape == second.shape == (3,)
        assert x.T.shape == (3, 2)
        return x

    transform(f)


def test_the_length_of_a_tracer_without_axes():
    def f(x):
        with pytest.raises(TypeError, match="len"):
            len(x)
        with pytest.raises(TypeError):
            iter(x)
        return x

    fg.grad(f)(1.0)


def test_keys_are_tracers_by_identity_which_compare_by_value():
    def f(x):
        y = x + 0.0
        assert hash(x) == hash(y) == hash(3.0) and len({x: 1, y: 2}) == 2
        assert x == y and not x != y and x <= y
        assert x in [1.0, y]
        return x * y

    assert fg.grad(f)(3.0) == 6.0


def test_comparisons_are_no_tracers_under_grad():
    def f(x):
        assert not isinstance(x > 0, Tracer) and not isinstance(np.floor(x), Tracer)
        assert not isinstance(np.isnan(x), Tracer) and not isinstance(fg.stop_gradient(x), Tracer)
        assert sorted([3.0, x, 1.0])[1] is x
        assert max(x, 1.0) is x and min(x, 1.0) == 1.0
        return x

    assert fg.grad(f)(2.0) == 1.0
    assert fg.jvp(f, (2.0,), (1.0,))[1] == 1.0


def test_recursion_on_values():
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    def newton(x, guess=1.0):
        return guess if abs(guess * guess - x) < 1e-14 else newton(x, 0.5 * (guess + x / guess))

    assert fg.grad(power)(2.0, 5) == 80.0
    np.testing.assert_allclose(fg.grad(newton)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-12)


BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "@": lambda a, b: a @ b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "divmod": lambda a, b: divmod(a, b)[1],
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("kind", ["tracer", "array", "scalar", "numpy scalar", "list"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_operators(name, kind, side):
    if name == "@" and "scalar" in kind:
        with pytest.raises((TypeError, ValueError)):
            fg.make_jaxpr(lambda x: x @ 2.0)(np.ones(3))
        return
    x, other = np.array([0.5, 2.0, 1.5]), np.array([1.5, 0.75, 2.0])
    values = {
        "tracer": other,
        "array": other,
        "scalar": 2.0,
        "numpy scalar": np.float64(2.0),
        "list": list(other),
    }
    value = values[kind]
    op = BINARY[name] if side == "left" else lambda a, b: BINARY[name](b, a)
    expected = op(x, value)
    if kind == "tracer":
        graph = fg.make_jaxpr(op)(x, value)
        found = fg.evaluate(graph, x, value)[0]
    else:
        graph = fg.make_jaxpr(lambda x: op(x, value))(x)
        found = fg.evaluate(graph, x)[0]
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


INTEGER = {
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "~": lambda a, b: ~a,
    "%": lambda a, b: a % b,
    "//": lambda a, b: a // b,
}


@pytest.mark.parametrize("name", INTEGER)
def test_integer_operators(name):
    a, b = np.array([6, 3, 8]), np.array([1, 2, 1])
    for op in (INTEGER[name], lambda a, b: INTEGER[name](b, a)):
        for found in (fg.vmap(op)(a, b), fg.evaluate(fg.make_jaxpr(op)(a, b), a, b)[0]):
            np.testing.assert_array_equal(found, op(a, b))
            assert found.dtype == op(a, b).dtype


@pytest.mark.parametrize(
    "f",
    [
        lambda x: -x,
        lambda x: +x,
        abs,
        lambda x: x.copy(),
        lambda x: x.astype(np.float32),
        lambda x: x.T,
        lambda x: x.mT,
        lambda x: x.sum(),
        lambda x: x.mean(axis=0),
        lambda x: x.max(1),
        lambda x: x.min(),
        lambda x: x.std(),
        lambda x: x.var(axis=1, ddof=1),
        lambda x: x.prod(),
        lambda x: x.reshape(3, 2),
        lambda x: x.reshape(-1),
        lambda x: x.ravel(),
        lambda x: x.flatten(),
        lambda x: x.transpose(1, 0),
        lambda x: x.swapaxes(0, 1),
        lambda x: x[None].squeeze(),
        lambda x: x.dot(x.T),
        lambda x: x.cumsum(axis=1),
        lambda x: x.clip(0.0, 1.0),
        lambda x: x.argmax(),
        lambda x: x.argmin(axis=0),
        lambda x: x.any(),
        lambda x: x.all(1),
        lambda x: x.cumprod(0),
        lambda x: x.trace(),
        lambda x: x.diagonal(),
        lambda x: x.repeat(2, axis=0),
        lambda x: x.take([0, 1], axis=1),
        lambda x: x.conj(),
        lambda x: x.real,
        lambda x: x.imag,
        lambda x: x.round(1),
        lambda x: np.stack([x, x]),
        lambda x: x[:, 1],
        lambda x: x[..., ::-1],
        lambda x: x[X > 0] if type(x) is Tracer else x[x > 0],
        lambda x: x.at[0].set(1.0) if isinstance(x, Tracer) else np.stack([np.ones(3), x[1]]),
    ],
)
def test_methods_and_attributes_are_those_of_the_array(f):
    expected = f(X)
    graph = fg.make_jaxpr(f)(X)
    found = fg.evaluate(graph, X)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert np.asarray(found).dtype == np.asarray(expected).dtype
    assert np.shape(found) == np.shape(expected)


def test_object_arrays_of_tracers_are_stacked():
    def f(x):
        a, b = x[0], x[1]
        right = np.array([a * b, b - 1.0, 2.0 * a], dtype=object)
        assert right.dtype == object
        return np.sin(right) @ np.asarray([a, b, a], dtype=object)

    def plain(x):
        return np.sin(np.stack([x[0] * x[1], x[1] - 1.0, 2.0 * x[0]])) @ np.stack(
            [x[0], x[1], x[0]]
        )

    x = np.array([0.5, 1.5])
    for transform in (fg.grad, lambda f: lambda x: fg.vmap(fg.grad(f))(x[None])[0]):
        np.testing.assert_allclose(transform(f)(x), transform(plain)(x), rtol=1e-14)
    matrix = fg.vjp(lambda x: np.array([[x[0], 1.0], [x[1], x[0]]]), x)
    np.testing.assert_array_equal(matrix[0], [[0.5, 1.0], [1.5, 0.5]])
    np.testing.assert_array_equal(matrix[1](np.ones((2, 2)))[0], [2.0, 1.0])


def test_a_foreign_array_type_answers_itself():
    class Foreign:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "mine"

        __rmul__ = __radd__

    def f(x):
        assert x + Foreign() == "mine" and x * Foreign() == "mine"
        return x

    assert fg.grad(f)(1.0) == 1.0


def test_numpy_scalars_on_the_left_do_not_swallow_tracers():
    for value in (np.float64(2.0), np.float32(2.0), np.int64(2), np.array(2.0), np.bool_(True)):
        assert fg.grad(lambda x, v=value: v * x)(3.0) == float(value)


def test_scopes_end_with_their_block_also_after_errors():
    with pytest.raises(KeyError), fg.named_scope("a"), fg.named_scope("b"):
        assert current_scope() == "a/b"
        raise KeyError
    assert current_scope() == ""


def test_the_users_line_is_the_innermost_one_outside_fungrad_and_numpy():
    def helper():
        return source_location.user_source()

    found = helper()
    assert found.file == __file__ and found.function == "helper"
    assert found.line == helper.__code__.co_firstlineno + 1
    graph = fg.make_jaxpr(lambda x: np.mean(x, axis=0))(X)
    assert {e.source.file for e in graph.equations} == {__file__}


@pytest.mark.parametrize(
    "file, expected",
    [
        (fg.jit.__code__.co_filename, "fungrad"),
        (np.lib.__file__, "numpy"),
        ("<graph f>", "numpy"),
        ("/lib/python3/site-packages/llvmlite/ir/values.py", "numpy"),
        ("/lib/python3/site-packages/scipy/optimize/_root.py", "scipy"),
        ("/lib/python3/dist-packages/pandas/core/frame.py", "package"),
        (copy.__file__, "python"),
        ("<frozen importlib._bootstrap>", "python"),
        (os.path.join(os.path.dirname(fg.__file__), "demo", "page.py"), "user"),
        (__file__, "user"),
        ("<string>", "user"),
    ],
    ids=lambda value: os.path.basename(value),
)
def test_whose_code_a_file_holds(file, expected):
    assert origin(file) == expected


def test_a_tracer_cannot_be_copied_out_of_its_transform():
    kept = []
    fg.jit(fg.grad(lambda x: (kept.append(copy.copy(x)), x)[1]))(1.0)
    with pytest.raises(LeakedTracerError):
        kept[0] + 1.0


def test_equations_of_a_gradient_say_by_how_many_backward_walks_they_were_made():
    def f(x):
        return np.sum(np.sin(x) * fg.stop_gradient(x))

    def marks(g, *args):
        return [(e.primitive.name, e.backward) for e in fg.make_jaxpr(g)(*args).equations]

    x = np.arange(3.0)
    assert {m for _, m in marks(f, x)} == {0}
    assert [m for _, m in marks(fg.grad(f), x)] == sorted(m for _, m in marks(fg.grad(f), x))
    assert ("cos", 1) in marks(fg.grad(f), x) and ("sin", 0) in marks(fg.grad(f), x)
    twice = marks(fg.grad(lambda x: np.sum(fg.grad(f)(x))), x)
    assert ("cos", 1) in twice and ("sin", 2) in twice
    step = marks(lambda x: x - 0.1 * fg.grad(f)(x), x)
    assert step[-1] == ("sub", 0)
    # a replayed Graph keeps the marks of its equations, also inside of a call
    graph = fg.make_jaxpr(fg.grad(f))(x)
    again = fg.make_jaxpr(lambda x: fg.evaluate(graph, x)[0])(x)
    assert [e.backward for e in again.equations] == [e.backward for e in graph.equations]
    (forward, backward) = fg.make_jaxpr(fg.grad(fg.jit(f)))(x).equations
    assert (forward.backward, backward.backward) == (0, 1)
    inner = [(e.primitive.name, e.backward) for e in forward.params["graph"].equations]
    assert ("sin", 0) in inner and ("cos", 1) in inner  # a residual that the walk computes ahead
    assert {e.backward for e in backward.params["graph"].equations} == {1}


@pytest.mark.parametrize(
    "inner",
    [
        lambda x: fg.jit(lambda y: np.sum(y**3))(x),
        lambda x: np.sum(fg.vmap(lambda y: y**3)(x)),
        lambda x: np.sum(fg.grad(lambda y: np.sum(y**4) / 4)(x)),
        lambda x: np.sum(fg.jvp(lambda y: y**4 / 4, (x,), (np.ones(2),))[1]),
        lambda x: np.sum(fg.linearize(lambda y: y**4 / 4, x)[1](np.ones(2))),
        lambda x: np.trace(fg.jacobian(lambda y: y**4 / 4)(x)),
        lambda x: np.sum(fg.hessian(lambda y: np.sum(y**5) / 20)(x)),
        lambda x: np.sum(fg.jet(lambda y: y**4 / 4, (x,), ([np.ones(2)],))[1][0]),
        lambda x: np.sum(fg.checkpoint(lambda y: y**3)(x)),
    ],
)
@pytest.mark.parametrize("outer", [lambda f: f, fg.jit])
def test_transforms_inside_take_arrays_of_traced_numbers(inner, outer):
    f = lambda x: inner(np.array([2.0 * x[0], x[1]]))  # noqa: E731
    np.testing.assert_allclose(
        outer(fg.grad(f))(np.array([1.0, 2.0])), np.array([24.0, 12.0]), rtol=1e-12
    )
    assert outer(f)(np.array([1.0, 2.0])) == pytest.approx(16.0)


def test_members_of_enums_are_numbers_beside_traced_values():
    class Count(enum.IntEnum):
        THREE = 3

    x = np.array([1.0, 2.0], np.float32)
    for f in (
        lambda x: x * Count.THREE,
        lambda x: Count.THREE - x,
        lambda x: np.add(x, Count.THREE),
    ):
        assert fg.jit(f)(x).dtype == f(x).dtype
        np.testing.assert_array_equal(fg.jit(f)(x), f(x))


TARGETS = [int, np.int8, bool, float, np.float32, complex]
EVERYWHERE = {
    "grad": fg.grad,
    "vjp": lambda f: lambda x: fg.vjp(f, x),
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "hvp": lambda f: lambda x: fg.hvp(f, (x,), (x,)),
    "jit": fg.jit,
    "vmap": lambda f: lambda x: fg.vmap(f)(np.stack([x, x])),
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "linearize": lambda f: lambda x: fg.linearize(f, x),
}


def _whole(k, x):
    k[:] = x


def _element(k, x):
    k[1] = x[0]


def _some(k, x):
    k[0:2] = [x[0], 2]


def _added(k, x):
    k[0] += x[1]


@pytest.mark.parametrize("transform", EVERYWHERE.values(), ids=EVERYWHERE)
@pytest.mark.parametrize("write", [_whole, _element, _some, _added])
@pytest.mark.parametrize("dtype", TARGETS)
def test_traced_values_are_not_written_into_arrays_of_compiled_code(transform, write, dtype):
    def f(x):
        k = np.loadtxt(["0 0 0"]).astype(dtype)
        write(k, x)
        return np.sum(x) + np.sum(k.real * 1.0)

    with pytest.raises(
        ItemAssignmentError, match=rf"ndarray at .*test_tracing.py:\d+ \({write.__name__}\)"
    ):
        transform(f)(np.array([1.5, 2.5, -3.5]))


def test_numbers_may_still_be_asked_for_beside_an_assignment():
    def f(x):
        found, values = {}, [0, 0, 0]
        found[int(x[1])] = x[0]
        values[int(x[0])] = x
        counts = np.zeros(3, int)
        counts[int(x[0])] = int(x[1])
        counts[2] = fg.stop_gradient(x)[2]
        flags = np.zeros(3, bool)
        flags[x > 1.5] = True
        return found[2] * values[1][1] + counts.sum() * x[2] + (flags.sum() if x[0] > 0 else 0.0)

    np.testing.assert_array_equal(fg.grad(f)(np.array([1.0, 2.0, 3.0])), [2.0, 1.0, 5.0])
