"""The IR: its grammar is checked, it prints, pickles, and its evaluator lets go of values."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import ArgumentError, InvalidGraphError, StructureMismatchError
from fungrad.ir.graph import Equation, Graph, Literal, Variable
from fungrad.ir.printer import name_of
from fungrad.ir.type_inference import Inference
from fungrad.ir.types import Type, of_value
from fungrad.primitives.elementwise.family import add, mul
from fungrad.primitives.elementwise.ufuncs import sin
from fungrad.primitives.movement.reshape_broadcast_cast import reshape
from fungrad.retracing.inlining import key_of

F64 = Type((), np.float64)
VECTOR = Type((3,), np.float64)


# --- types ----------------------------------------------------------------------------


def test_types_are_values():
    assert Type((3,), "float64") == VECTOR and hash(Type((3,), np.float64)) == hash(VECTOR)
    assert Type((3,), np.float64, weak=True) != VECTOR != Type((3, 1), np.float64)
    assert VECTOR != Type((3,), np.float32) and VECTOR != "f64[3]"
    assert pickle.loads(pickle.dumps(VECTOR)) == VECTOR
    with pytest.raises(AttributeError, match="immutable"):
        VECTOR.shape = (4,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "f64[] (weak)"),
        (1, "i64[] (weak)"),
        (True, "bool[] (weak)"),
        (1j, "c128[] (weak)"),
        (np.float32(1), "f32[]"),
        (np.zeros((2, 3), np.int8), "i8[2,3]"),
        (np.zeros(0, np.complex64), "c64[0]"),
        (np.zeros((), np.uint16), "u16[]"),
        (np.zeros(1, np.float16), "f16[1]"),
    ],
)
def test_the_type_of_a_value(value, text):
    assert repr(of_value(value)) == text


@pytest.mark.parametrize("value", ["text", None, [1.0], object()])
def test_what_is_no_number_has_no_type(value):
    with pytest.raises(TypeError, match="not an array or a number"):
        of_value(value)


# --- the grammar ----------------------------------------------------------------------


def equation(primitive, inputs, outputs, **params):
    return Equation(primitive, tuple(inputs), tuple(outputs), params)


def refused(graph, text):
    with pytest.raises(InvalidGraphError, match=text):
        fg.check_graph(graph)


def test_a_well_formed_graph_passes():
    x, y = Variable(VECTOR), Variable(VECTOR)
    graph = Graph((x,), (), (equation(sin, [x], [y]),), (y, x, Literal(1.0)))
    assert fg.check_graph(graph) is graph


def test_types_are_inferred_anew_for_equal_parameters_of_another_type():
    class KindOf:
        def infer(self, types, params):
            return (Type((), np.dtype(type(params["by"]))),)

    inference, kind_of = Inference(), KindOf()
    for by in (1, 1.0, True, 1):
        assert inference.outputs(kind_of, (Variable(F64),), {"by": by})[0].dtype == type(by)


def test_an_undefined_variable():
    x, y, stray = Variable(VECTOR), Variable(VECTOR), Variable(VECTOR)
    refused(
        Graph((x,), (), (equation(sin, [stray], [y]),), (y,)), r"equation 0 \(sin\) reads .* before"
    )
    refused(Graph((x,), (), (), (stray,)), "the list of outputs reads")


def test_a_use_before_the_definition():
    x, y, z = Variable(VECTOR), Variable(VECTOR), Variable(VECTOR)
    refused(Graph((x,), (), (equation(sin, [y], [z]), equation(sin, [x], [y])), (z,)), "equation 0")


def test_a_double_assignment():
    x, y = Variable(VECTOR), Variable(VECTOR)
    twice = (equation(sin, [x], [y]), equation(sin, [x], [y]))
    refused(Graph((x,), (), twice, (y,)), r"equation 1 \(sin\) assigns .* twice")
    refused(Graph((x,), (), (equation(sin, [x], [x]),), (x,)), "equation 0 .* twice")
    refused(Graph((x, x), (), (), (x,)), "the list of inputs assigns")
    refused(Graph((x,), ((x, np.ones(3)),), (), (x,)), "the list of inputs assigns")


def test_a_literal_cannot_be_assigned():
    x = Variable(F64)
    refused(
        Graph((x,), (), (equation(sin, [x], [Literal(np.float64(1.0))]),), (x,)), "not a Variable"
    )


@pytest.mark.parametrize(
    "wrong", [Type((4,), np.float64), Type((3,), np.float32), Type((3,), np.float64, True)]
)
def test_a_wrong_type(wrong):
    x, y = Variable(VECTOR), Variable(wrong)
    refused(
        Graph((x,), (), (equation(sin, [x], [y]),), (y,)),
        r"declares its outputs as .* but they are",
    )


def test_arguments_that_do_not_fit():
    x, y, z = Variable(VECTOR), Variable(Type((4,), np.float64)), Variable(VECTOR)
    refused(
        Graph((x, y), (), (equation(add, [x, y], [z]),), (z,)), r"equation 0 \(add\) is ill-typed"
    )
    refused(
        Graph((x,), (), (equation(reshape, [x], [y], shape=(4,)),), (y,)),
        r"equation 0 \(reshape\) is ill-typed.*cannot be reshaped",
    )


def test_the_wrong_number_of_outputs():
    x, y, z = Variable(F64), Variable(F64), Variable(F64)
    refused(Graph((x,), (), (equation(sin, [x], [y, z]),), (y,)), "declares its outputs")


def test_a_constant_of_another_type():
    c = Variable(VECTOR)
    refused(
        Graph((), ((c, np.ones(4)),), (), (c,)),
        r"constant of type f64\[4\] is declared as f64\[3\]",
    )
    refused(Graph((), ((c, np.ones(3, np.float32)),), (), (c,)), r"f32\[3\]")


def test_a_type_rule_is_asked_once_for_the_same_types():
    asked = []

    def rule(*types, scale=None):
        asked.append(types)
        return Type(types[0].shape, np.float64)

    rows = fg.extend.general("rows", eval=lambda x: x, type=rule)

    def f(x, y):
        for _ in range(5):
            x = rows(x)
        return x, rows(y), rows(x, y), rows(y, x), rows(x, scale=2.0)

    graph = fg.make_jaxpr(f)(np.ones(3), np.ones(4, np.float32))
    single, double = Type((4,), np.float32), Type((4,), np.float64)
    assert asked == [(VECTOR,), (single,), (VECTOR, single), (single, VECTOR), (VECTOR,)]
    assert graph.output_types == [VECTOR, double, VECTOR, double, VECTOR]
    assert len({id(t) for t in graph.output_types}) == 2
    fg.check_graph(graph)
    wrong = Graph(graph.inputs, (), graph.equations[1:], graph.outputs)
    refused(wrong, r"equation 0 \(rows\) reads")


def test_every_traced_graph_is_well_formed():
    def f(x, y):
        return np.sin(x) * y + np.where(x > 0, x, 2.0)

    for g in (f, fg.grad(lambda x, y: fg.jvp(lambda v: f(v, y), (x,), (1.0,))[1])):
        fg.check_graph(fg.make_jaxpr(g)(1.0, 2.0))
        fg.check_graph(fg.make_jaxpr(fg.vmap(g))(np.ones(3), np.ones(3)))


# --- print ----------------------------------------------------------------------------

GOLDEN = {
    "one equation": (np.sin, (VECTOR,), "{ lambda a:f64[3]. let b:f64[3] = sin a in (b,) }"),
    "nothing": (lambda x: x, (F64,), "{ lambda a:f64[]. let in (a,) }"),
    "no inputs": (lambda: 2.0, (), "{ lambda. let in (2.0,) }"),
    "no outputs": (lambda x: (), (F64,), "{ lambda a:f64[]. let in () }"),
    "two outputs": (
        lambda x, y: (y, x * y),
        (F64, VECTOR),
        "{ lambda a:f64[] b:f64[3]. let c:f64[3] = mul a b in (b, c) }",
    ),
    "weak": (lambda x: x * 2.0, (1.5,), "{ lambda a:f64[]. let b:f64[] = mul a 2.0 in (b,) }"),
    "promotion": (
        lambda x, y: x * 2.0 + y,
        (Type((2,), np.float32), F64),
        """{ lambda a:f32[2] b:f64[]. let
    c:f32[2] = mul a 2.0
    d:f64[2] = add c b
  in (d,) }""",
    ),
    "a constant": (
        lambda x: x + np.arange(3.0),
        (F64,),
        "{ lambda a:f64[3]; b:f64[]. let c:f64[3] = add b a in (c,) }",
    ),
    "params": (
        lambda x: reshape(x, shape=(3, 1)),
        (VECTOR,),
        "{ lambda a:f64[3]. let b:f64[3,1] = reshape[shape=(3,1)] a in (b,) }",
    ),
    "a name": (
        lambda x: fg.stop_gradient(x, "frozen"),
        (F64,),
        "{ lambda a:f64[]. let b:f64[] = stop_gradient[name=frozen] a in (b,) }",
    ),
    "an unnamed stop": (
        fg.stop_gradient,
        (F64,),
        "{ lambda a:f64[]. let b:f64[] = stop_gradient a in (b,) }",
    ),
    "a dtype": (
        lambda x: reshape(x, shape=(1,)) > 0,
        (F64,),
        """{ lambda a:f64[]. let
    b:f64[1] = reshape[shape=(1,)] a
    c:bool[1] = gt b 0
  in (c,) }""",
    ),
    "a gradient": (
        fg.grad(lambda x: np.sin(x) * x),
        (F64,),
        """{ lambda a:f64[]. let
    b:f64[] = sin a
    c:f64[] = mul b a
    d:f64[] = mul 1.0 a
    e:f64[] = mul 1.0 b
    f:f64[] = cos a
    g:f64[] = mul d f
    h:f64[] = add e g
  in (h,) }""",
    ),
    "a pushforward": (
        lambda x, t: fg.jvp(np.tanh, (x,), (t,)),
        (F64, F64),
        """{ lambda a:f64[] b:f64[]. let
    c:f64[] = tanh a
    d:f64[] = mul c c
    e:f64[] = sub 1.0 d
    f:f64[] = mul b e
  in (c, f) }""",
    ),
    "a batch": (
        fg.vmap(lambda x, y: x * y, in_axes=(0, None)),
        (Type((2, 3), np.float64), VECTOR),
        "{ lambda a:f64[2,3] b:f64[3]. let c:f64[2,3] = mul a b in (c,) }",
    ),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_prints(case):
    f, args, text = GOLDEN[case]
    graph = fg.make_jaxpr(f)(*args)
    assert str(graph) == repr(graph) == text


def test_source_lines_and_scopes():
    def model(x):
        with fg.named_scope("outer"):
            y = np.sin(x)
            with fg.named_scope("inner"):
                y = y * x
        return y + 1.0

    first = inspect.getsourcelines(model)[1]
    graph = fg.make_jaxpr(model)(F64)
    assert (
        graph.show(source=True)
        == f"""{{ lambda a:f64[]. let
    b:f64[] = sin a    # in outer, {__file__}:{first + 2} (model)
    c:f64[] = mul b a    # in outer/inner, {__file__}:{first + 4} (model)
    d:f64[] = add c 1.0    # {__file__}:{first + 5} (model)
  in (d,) }}"""
    )
    assert [e.source.line for e in graph.equations] == [first + 2, first + 4, first + 5]
    assert {e.source.file for e in graph.equations} == {__file__}
    assert {e.source.function for e in graph.equations} == {"model"}


def test_a_line_and_a_scope_are_one_object_however_often_they_are_run():
    def f(x):
        for _ in range(3):
            with fg.named_scope("loop"):
                x = np.sin(x)
        return x + 1.0

    *sines, last = [e.source for e in fg.make_jaxpr(f)(1.0).equations]
    assert sines[0] is sines[1] is sines[2] and last.line == sines[0].line + 1


def test_names_of_many_variables():
    assert [name_of(i) for i in (0, 25, 26, 51, 52, 26 * 26)] == ["a", "z", "ba", "bz", "ca", "baa"]
    assert len({name_of(i) for i in range(5000)}) == 5000


# --- pickle ---------------------------------------------------------------------------


def program(x, y):
    with fg.named_scope("scope"):
        z = np.sin(x) * y + fg.stop_gradient(x, "label")
    return {"out": np.where(z > 0, z, 2.0 * z), "pair": (x * np.arange(3.0), z)}


def test_a_graph_pickles():
    for f in (program, lambda x, y: fg.vjp(program, x, y)[1]({"out": x, "pair": (x, y)})):
        graph = fg.make_jaxpr(f)(np.ones(3), np.ones(3))
        graph.last_uses  # noqa: B018 - cached values are not part of it
        again = pickle.loads(pickle.dumps(graph))
        assert again.show(source=True) == graph.show(source=True)
        fg.check_graph(again)
        x, y = np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, 3.0])
        for found, expected in zip(fg.evaluate(again, x, y), fg.evaluate(graph, x, y), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_pickled_graph_gives_the_same_numbers_in_a_new_process(tmp_path):
    def gradient(x, y):
        return fg.grad(lambda x: np.sum(program(x, y)["out"]))(x)

    x, y = np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, 3.0])
    graph = fg.make_jaxpr(gradient)(x, y)
    (tmp_path / "graph.pickle").write_bytes(pickle.dumps((graph, x, y)))
    script = (
        "import pickle, sys, numpy as np\n"
        "graph, x, y = pickle.load(open('graph.pickle', 'rb'))\n"
        "import fungrad as fg\n"
        "fg.check_graph(graph)\n"
        "np.save('out.npy', fg.evaluate(graph, x, y)[0])\n"
        "np.save('slope.npy', fg.grad(lambda x: np.add.reduce(fg.evaluate(graph, x, y)[0]))(x))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(fg.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), gradient(x, y))
    second = fg.grad(lambda x: np.sum(gradient(x, y)))(x)
    np.testing.assert_array_equal(np.load(tmp_path / "slope.npy"), second)


def test_primitives_pickle_by_name():
    assert pickle.loads(pickle.dumps(mul)) is mul


# --- evaluation -----------------------------------------------------------------------


def test_values_are_freed_after_their_last_use():
    size = 1_000_000

    def f(x):
        for _ in range(30):
            x = np.sin(x)
        return x

    x = np.ones(size // 8)
    graph = fg.make_jaxpr(f)(x)
    fg.evaluate(graph, x)
    tracemalloc.start()
    fg.evaluate(graph, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * size  # one value and the next; all thirty would be 30 times the size


def test_the_last_uses():
    x, y, z, unused = (Variable(F64) for _ in range(4))
    graph = Graph(
        (x,),
        (),
        (equation(sin, [x], [y]), equation(sin, [y], [unused]), equation(add, [y, x], [z])),
        (y, z),
    )
    assert [set(dead) for dead in graph.last_uses] == [set(), {unused}, {x}]


def test_evaluation_retraces():
    graph = fg.make_jaxpr(lambda x: np.sin(x) * x)(F64)

    def f(x):
        return fg.evaluate(graph, x)[0]

    assert fg.grad(f)(2.0) == np.cos(2.0) * 2.0 + np.sin(2.0)
    np.testing.assert_allclose(fg.vmap(fg.grad(f))(np.array([2.0, 3.0]))[0], fg.grad(f)(2.0))
    assert str(fg.make_jaxpr(f)(F64)) == str(graph)


def test_results_of_evaluate_are_new_arrays():
    x, c = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    graph = fg.make_jaxpr(lambda x: (x, x, x[::-1], np.exp(x), c, c))(x)
    results = fg.evaluate(graph, x)
    for i, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in [x, c, *results[:i]])
        result[:] = 0.0
    np.testing.assert_array_equal(fg.evaluate(graph, x)[-1], [3.0, 4.0])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(fg.evaluate(graph, x)[0]))(x), [1, 1])


class Foreign:
    """An array of another library."""

    shape = (2,)
    dtype = np.dtype(float)

    def __array__(self, dtype=None, copy=None):
        return np.ones(2)

    def __mul__(self, other):
        return "not NumPy's"


@pytest.mark.parametrize("value", [Foreign(), [1.0, 2.0], "text", None])
def test_evaluate_takes_arrays_and_numbers_only(value):
    graph = fg.make_jaxpr(lambda x, y: x * y)(np.ones(2), 1.0)
    with pytest.raises(ArgumentError, match=r"Argument 0 of fg.evaluate is a"):
        fg.evaluate(graph, value, 2.0)


def test_the_number_of_arguments_is_checked():
    graph = fg.make_jaxpr(np.sin)(F64)
    with pytest.raises(StructureMismatchError, match="takes 1 values, 2 were given"):
        fg.evaluate(graph, 1.0, 2.0)


# --- staging --------------------------------------------------------------------------


def test_constants_are_kept_as_they_were_when_they_were_read():
    c = np.ones(3)

    def f(x):
        first = x + c
        c[:] = 5.0
        return first, x + c

    graph = fg.make_jaxpr(f)(F64)
    c[:] = -1.0
    first, second = fg.evaluate(graph, 0.0)
    np.testing.assert_array_equal(first, np.ones(3))
    np.testing.assert_array_equal(second, np.full(3, 5.0))


@pytest.mark.parametrize(
    ("first", "last", "dtype", "one"),
    [
        (True, True, bool, True),
        (7, 7, np.int16, True),
        (7, 8, np.int16, False),
        (1.5, 1.5, np.float16, True),
        (1.5, 1.5, np.float32, True),
        (1.5, 1.5, ">f8", True),
        (7, 7, ">i4", True),
        (0.0, -0.0, np.float64, False),
        (np.nan, np.nan, np.float64, True),
        (1.5, 1.5, np.complex128, False),
    ],
)
def test_a_large_constant_of_one_number_takes_the_memory_of_one(first, last, dtype, one):
    constant = np.full((100, 100), first, dtype)
    constant[-1, 50:] = last
    before = constant.copy()

    def f(x):
        return x * constant, constant, np.sum(constant * x, 0)

    graph = fg.make_jaxpr(f)(2.0)
    compiled = fg.jit(f, verify="never")  # which goes on with what it has captured
    found = compiled(2.0)
    for got, want in zip(found, f(2.0), strict=True):
        assert got.dtype == want.dtype.newbyteorder("=")
        np.testing.assert_allclose(got, want, rtol=1e-6)
    found[1][0] = 0
    constant[3, 4] = 0
    ((_, held),) = graph.constants
    assert (held.strides == (0, 0)) is one and not held.flags.writeable
    assert held.tobytes() == before.astype(held.dtype).tobytes()
    np.testing.assert_array_equal(compiled(2.0)[1], before)


def test_one_constant_is_held_once():
    c = np.ones(3)
    graph = fg.make_jaxpr(lambda x: (x + c) * c)(F64)
    assert len(graph.constants) == 1


def test_arguments_may_be_given_as_types_or_specimens():
    class Specimen:
        shape, dtype = (3,), np.dtype(np.float64)

    for arg in (VECTOR, np.zeros(3), Specimen()):
        assert str(fg.make_jaxpr(np.sin)(arg)) == GOLDEN["one equation"][2]
    assert fg.eval_shape(lambda x: {"y": np.sin(x)}, VECTOR) == {"y": VECTOR}


def test_static_arguments_are_handed_on():
    graph = fg.make_jaxpr(lambda x, n: x * n if n == 2 else x, static_argnums=1)(1.0, 2)
    assert len(graph.equations) == 1 and len(graph.inputs) == 1


def test_a_named_scope_is_printed():
    def f(x):
        with fg.named_scope("encoder"):
            y = np.sin(x)
        return y * x

    text = str(fg.make_jaxpr(f)(1.0))
    assert "b:f64[] = sin a    # in encoder\n" in text and text.count("encoder") == 1


def test_a_type_by_the_name_of_jax():
    struct = fg.ShapeDtypeStruct([3, np.int64(2)], "float32")
    assert struct == fg.Type((3, 2), np.dtype("float32")) and not struct.weak_type
    assert hash(struct) == hash(fg.Type((3, 2), np.dtype("float32")))
    assert fg.eval_shape(lambda x: x @ x.T, struct) == fg.Type((3, 3), np.dtype("float32"))
    assert isinstance(fg.eval_shape(np.sin, 1.0), fg.ShapeDtypeStruct)
    assert not isinstance(np.ones(2), fg.ShapeDtypeStruct)
    assert fg.make_jaxpr(np.sin)(struct).inputs[0].type == struct
    assert fg.ShapeDtypeStruct((), float, weak_type=True).weak
    with pytest.raises(TypeError, match="one machine"):
        fg.ShapeDtypeStruct((), float, sharding=object())


def test_keys_of_equations_cost_the_garbage_collector_nothing():
    graph = fg.make_jaxpr(lambda x: np.sin(x) * x + 2.0)(np.ones(3))
    keys = [key_of(equation) for equation in graph.equations]
    for _ in range(3):  # a tuple is let go after those inside
        gc.collect()
    assert keys and not any(map(gc.is_tracked, keys))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork")
def test_a_forked_child_reads_what_another_thread_computes(monkeypatch):
    begun, done = threading.Event(), threading.Event()

    def last_uses(*_):
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            done.wait()
        return []

    monkeypatch.setattr("fungrad.ir.graph.last_uses", last_uses)
    one, other = Graph((), (), (), ()), Graph((), (), (), ())
    thread = threading.Thread(target=lambda: one.last_uses)
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # ends a child that waits
        os._exit(len(other.last_uses))
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0 and one.last_uses == []
