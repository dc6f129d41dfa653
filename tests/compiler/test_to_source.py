"""fg.to_source: its module has the Graph's results, to the kind of every value."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import re
import subprocess
import sys
import textwrap
from typing import NamedTuple

import numpy as np
import pytest
from checks import OURS, assert_same, call
from hypothesis import given, settings
from samples import SAMPLES

import fungrad as fg
from fungrad import extend
from fungrad.compiler.passes.pipeline import optimised
from fungrad.errors import ArgumentError
from fungrad.source_export.module_writer import ExportedModule
from fungrad.testing import programs

REFUSED = {
    "debug_callback": "to run for its effect",
    "external": "the Python function `sin`, which is not traced",
    "hermitian_function": "of fungrad at run time",  # derivatives of the user's function
    "sparse_eigsh": "needs a Structure",
    "sparse_solve": "needs a (Method|Structure)",
}


def run(text, name="f", arrays=None):
    """The function of a module's text; large arrays are read from a dict."""
    assert "import fungrad" not in text and "from fungrad" not in text
    space = {"__file__": "made.py", "stored": arrays}
    text = text.replace("with np.load(", "with (lambda path: contextlib.nullcontext(stored))(")
    exec(compile("import contextlib\n" + text, "<made>", "exec"), space)
    return space[name]


def same(found, expected, what, rtol=1e-12):
    """Equal in value, dtype, shape, and in being an array, a NumPy scalar or a Python number."""
    if np.asarray(expected).dtype.kind == "O":  # a tape, whose inside is its own business
        return
    assert type(found) is type(expected), f"{what}: {type(found)} for {type(expected)}"
    width = np.asarray(expected).dtype.itemsize
    assert_same(found, expected, what, rtol=1e-6 if width < 8 else rtol)


def written(f, *args, **options):
    """The function that to_source writes, checked against the Graph on the same arguments."""
    made = run(fg.to_source(f, *args, name="f", **options))
    found = fg.tree_util.tree_leaves(made(*args))
    expected = fg.evaluate(optimised(fg.make_jaxpr(f)(*args)), *fg.tree_util.tree_leaves(args))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        same(a, b, made.__name__)
    return made


# --- every primitive ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_sample(name):
    """One module has a function for each sample, so that what they share is copied once."""
    samples, arrays = SAMPLES[name], {}
    graphs = [fg.make_jaxpr(call(OURS[name], sample))(*sample.args) for sample in samples]
    if name in REFUSED:
        for graph in graphs:
            with pytest.raises(ArgumentError, match=REFUSED[name]):
                ExportedModule({}).function(graph, "f")
        return
    module = ExportedModule(arrays)
    names = [module.function(graph, f"f{n}") for n, graph in enumerate(graphs)]
    text = module.text("", "made.npz")
    assert "fungrad" not in text
    code = [line for line in text.split("\n") if not {*line} & {*"\"'"}]  # no messages
    assert max(map(len, code)) <= 100
    made = run(text, names[0], arrays).__globals__
    for sample, graph, function in zip(samples, graphs, names, strict=True):
        with np.errstate(all="ignore"):
            found = made[function](*sample.args)
            expected = fg.evaluate(optimised(graph), *sample.args)
        for a, b in zip(found, expected, strict=True):
            same(a, b, f"{name} {sample}")


def test_what_is_refused_is_sampled():
    assert set(SAMPLES) >= set(REFUSED)


# --- whole programs -------------------------------------------------------------------------------

W = np.array([[0.3, -0.2, 0.5], [0.1, 0.7, -0.4], [-0.6, 0.2, 0.1]])
XS = np.linspace(-1.0, 1.0, 15).reshape(5, 3)
X = np.array([0.5, -0.3, 0.8])


def recurrent(w):
    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, h.sum()

    return fg.lax.scan(step, np.zeros(3), XS)[1].sum()


def checkpointed_scan(w):
    def step(h, x):
        return np.tanh(w @ h + x), None

    return fg.lax.scan(step, np.ones(3), XS, checkpoint="binomial")[0].sum()


def newton(w):
    a = np.sum(w * w)
    return fg.lax.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)


def checkpointed_while(w):
    a = np.sum(w * w)
    return fg.lax.while_loop(
        lambda s: s[0] < 6, lambda s: (s[0] + 1, np.sin(s[1]) + a), (0, a), checkpoint="binomial"
    )[1]


def branches(w):
    big = fg.lax.cond(w.sum() > 0.5, lambda v: np.sin(v), lambda v: v * v, w)
    return np.sum(fg.lax.switch(2, [np.exp, np.cos, np.tanh], big))


def branch_in_loop(w):
    def step(i, v):
        return fg.lax.cond(i % 2 == 0, lambda u: np.sin(u @ w), lambda u: u * 1.1, v)

    return np.sum(fg.lax.fori_loop(0, 5, step, X))


def loop_in_loop(w):
    def outer(h, x):
        inner = fg.lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1])), (0, h + x)
        )
        return inner[1], None

    return np.sum(fg.lax.scan(outer, w[0], XS)[0] * w)


@fg.custom_vjp
def clipped(x):
    return np.sin(x)


clipped.defvjp(lambda x: (np.sin(x), x), lambda x, g: (np.clip(g * np.cos(x), -0.3, 0.3),))


def custom(w):
    return np.sum(clipped(w) * fg.stop_gradient(w))


def remembered(w):
    return np.sum(fg.checkpoint(lambda v: np.exp(np.sin(v @ w)))(X))


def contraction(w):
    return np.sum(fg.fixed_point(lambda x, w: np.cos(0.3 * w @ x), X, w, tol=1e-13))


def indexed(w):
    order = np.argsort(w[0])
    y = fg.lax.dynamic_slice(w, (1, 0), (2, 2)).sum() + np.sum(np.where(w > 0, w, 0.0)[[0, 0, 2]])
    return y + w[0][order][0] * np.linalg.det(w) + np.sum(np.linalg.solve(w, X) ** 2)


def squares(w):
    return np.mean((np.log1p(np.exp(XS @ w)) - 1.0) ** 2) + np.max(w) + np.linalg.norm(w)


PROGRAMS = (
    recurrent, checkpointed_scan, newton, checkpointed_while, branches, branch_in_loop,
    loop_in_loop, custom, remembered, contraction, indexed, squares,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_program_and_its_derivatives(f):
    written(f, W)
    written(fg.grad(f), W)
    written(fg.value_and_grad(f), W)
    written(fg.vmap(fg.grad(f)), np.stack([W, 1.2 * W, W.T]))
    written(lambda w, t: fg.jvp(f, (w,), (t,)), W, W.T)


@pytest.mark.parametrize(
    "f", [newton, recurrent, branch_in_loop, squares], ids=lambda f: f.__name__
)
def test_second_derivatives(f):
    written(fg.hessian(f), W)
    written(fg.grad(lambda w: np.sum(fg.grad(f)(w) ** 2)), W)


@pytest.mark.slow
@given(programs())
@settings(max_examples=25)
def test_random_programs(program):
    with np.errstate(all="ignore"):
        written(program, *program.args)
        written(fg.grad(program, argnums=tuple(range(len(program.args)))), *program.args)


def test_it_computes_what_other_arguments_ask_for():
    made = written(fg.grad(newton), W)
    np.testing.assert_allclose(made(3.0 * W), fg.grad(newton)(3.0 * W), rtol=1e-12)


def test_kinds_of_numbers():
    written(lambda x, n: (x * 2, n // 2, x > n, x**n, -x, x / 3, 1j * x), 2.5, 7)
    written(fg.grad(lambda x: x * x / np.cos(x)), 2.0)
    written(lambda x: (x + np.float32(0.1), x.sum(), x.astype(np.float64)), np.ones(3, np.float32))
    written(lambda x: (np.float64(1.5) * x, x + np.float64(0.5) * x[0]), np.ones(3, np.float32))
    written(lambda x: x @ x.T + np.array([[0.1]], np.float32), np.ones((2, 3), np.float32))
    for product in (
        lambda x, y: (x > 0) @ y,
        lambda x, y: (x > 0) @ (y > 0),
        lambda x, y: x.T @ (y > 0)[:3],
        lambda x, y: (y > 0) @ y.astype(np.int8),
    ):
        written(product, np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.arange(4.0))
    written(lambda z: np.abs(z.conj() @ z), np.array([1 + 2j, -0.5j]))


def test_regular_arrays_are_written_as_what_they_are():
    def f(x):
        halves = np.full((20, 20), 0.5)
        return x + np.eye(20) - np.arange(400.0).reshape(20, 20), halves

    written(f, np.float64(1.0))
    text = fg.to_source(f, np.float64(1.0))
    for part in ("np.eye(20)", "np.full((20, 20), 0.5)", "np.arange(400.0).reshape((20, 20))"):
        assert part in text
    written(fg.jacobian(np.sin), np.ones((4, 4)))


def test_constants_come_back_as_the_callers_own():
    table = np.array([1.0, 2.0, -0.0, np.inf])
    made = written(lambda x: (table, x), 1.0)
    made(1.0)[0][:] = 9.0
    np.testing.assert_array_equal(made(1.0)[0], table)
    assert np.signbit(made(1.0)[0][2])


def test_scipys_functions_are_scipys():
    special = pytest.importorskip("scipy.special")
    text = fg.to_source(fg.grad(lambda x: special.gammaln(x)), 2.0, name="f")
    assert "import scipy.special\n" in text
    assert "scipy.special.psi(x)" in text


# --- functions that are copied --------------------------------------------------------------------

SCALE, COUNTS = 3.0, {"a": 1.0, "b": [2, 3]}
ROWS = np.linspace(0.0, 1.0, 500)


@functools.cache
def _factorial(n: int) -> int:
    return math.factorial(n)


def _scaled(v, k=SCALE, *, m=ROWS[7]):
    return v * k + m


def _closing_over(c):
    def scopes(v):
        """Shadows, defaults, annotations, and texts.

        Of which this line is not copied.
        """
        rows = [W * W for W in range(3)]
        more = (lambda np_=SCALE: np_ + 1)()

        def inner(z: float = SCALE) -> float:
            u: float
            u = z
            return u + W[0, 0] + len(f"it's {SCALE!r} '{c:>5}' {{}}")

        most = max(i for i, _ in enumerate(rows))
        return (
            _scaled(v) + sum(rows) + more + inner() + _factorial(3) + ROWS[3] + COUNTS["a"] + most
        )

    return scopes


first, second = (lambda v: v + SCALE), (lambda v: v * SCALE + W[0])


@pytest.mark.parametrize("f", [_closing_over(2.5), first, second, _scaled], ids=range(4))
def test_functions_are_copied_with_what_they_need(f, request):
    primitive = extend.general(request.node.name, eval=f, type=lambda v: v)
    text = fg.to_source(lambda v: primitive(v) + 1.0, X, name="f")
    np.testing.assert_array_equal(run(text)(X), f(X) + 1.0)
    assert "float" not in text.split("def f(")[0] and "not copied" not in text


# --- trees ----------------------------------------------------------------------------------------


class Layer(NamedTuple):
    w: np.ndarray
    b: np.ndarray


@dataclasses.dataclass
class Net:
    first: Layer
    scale: float
    kind: str = dataclasses.field(default="tanh", metadata={"static": True})


def test_trees_of_arguments_and_results():
    def f(params, batch, *rest, factor, **named):
        x = np.tanh(batch @ params["net"].first.w + params["net"].first.b) * params["net"].scale
        extra = rest[0] + named["shift"]
        grown = Net(Layer(x, extra), params["unused"][0] * 2.0, params["net"].kind)
        counts = collections.OrderedDict([("z", x.sum()), ("a", extra)])
        return {"net": grown, "none": None, "list": [x, (factor * extra,)], "counts": counts}

    params = {"net": Net(Layer(W, X), 2.0), "unused": [1.5, None]}
    made = run(fg.to_source(f, params, XS, 3.0, name="f", factor=4.0, shift=1.0))
    found = made(params, XS, 3.0, factor=4.0, shift=1.0)
    expected = f(params, XS, 3.0, factor=4.0, shift=1.0)
    assert type(found["counts"]) is collections.OrderedDict and list(found["counts"]) == ["z", "a"]
    assert found["none"] is None and found["net"].kind == "tanh"
    np.testing.assert_allclose(found["net"].first.w, expected["net"].first.w, rtol=1e-15)
    assert found["net"].first._fields == ("w", "b") and found["net"].scale == 3.0
    assert found["list"][1] == (16.0,) and found["counts"]["a"] == 4.0


def test_parameters_keep_their_names_and_kinds():
    def f(w, /, x, *, y):
        return w * x + y

    text = fg.to_source(f, 1.0, np.ones(2), y=2.0)
    assert "def f(w, /, x, *, y):" in text
    assert "w: a Python float\n" in text and "x: float64 array of shape (2,)\n" in text
    np.testing.assert_array_equal(run(text)(2.0, np.ones(2), y=1.0), [3.0, 3.0])


def test_names_of_parameters_are_not_those_of_values():
    def f(a, np_, b, _eval_attains):
        c = np.sin(a) + np_
        return np.sum(c * np.cos(b) * _eval_attains) + np.max(np.stack([a, b]))

    written(fg.grad(f), X, X + 1.0, 2 * X, X)
    with pytest.raises(ArgumentError, match="parameter 'np', which the source needs"):
        fg.to_source(lambda np: np + 1.0, 1.0)


def test_static_arguments():
    def f(x, mode, count=2):
        return sum(np.sin(x) for _ in range(count)) if mode == "sin" else x

    text = fg.to_source(f, X, "sin", 3, static_argnames="count")
    assert "mode: not read; it was 'sin'" in text
    np.testing.assert_allclose(run(text)(X, "sin", 3), 3 * np.sin(X))
    with pytest.raises(ArgumentError, match="static_argnames names"):
        fg.to_source(f, X, "sin", static_argnames="wrong")


def test_types_may_stand_for_arguments():
    text = fg.to_source(np.sin, fg.Type((3,), np.float32))
    name = re.search(r"def sin\((\w+), /\):", text)[1]
    assert f"return np.sin({name})" in text and f"{name}: float32 array of shape (3,)" in text


# --- files, and a machine without fungrad ---------------------------------------------------------


def test_large_arrays_lie_beside(tmp_path):
    large = np.random.default_rng(0).normal(size=(30, 10))
    with pytest.raises(ArgumentError, match=r"holds an array of 300 elements .* path="):
        fg.to_source(lambda x: large @ x, np.zeros(10))
    text = fg.to_source(lambda x: large @ x, np.zeros(10), name="f", path=tmp_path / "made.py")
    assert (tmp_path / "made.py").read_text(encoding="utf-8") == text
    with np.load(tmp_path / "made.npz") as stored:
        assert list(stored) == ["constant"]
    space = {"__file__": str(tmp_path / "made.py")}
    exec(text, space)
    np.testing.assert_array_equal(space["f"](np.ones(10)), large @ np.ones(10))


def test_no_file_beside_where_no_array_is_large(tmp_path):
    fg.to_source(np.sin, 1.0, path=tmp_path / "made.py")
    assert [path.name for path in tmp_path.iterdir()] == ["made.py"]


@pytest.mark.slow
def test_it_runs_where_there_is_no_fungrad(tmp_path):
    table = np.linspace(0.0, 1.0, 700)
    fs = [
        fg.grad(recurrent),
        fg.hessian(squares),
        fg.grad(checkpointed_while),
        lambda w: fg.random.gamma(fg.random.key(1), np.abs(w)),
        lambda w: np.interp(w, table, table),
    ]
    expected = {}
    for i, f in enumerate(fs):
        fg.to_source(f, W, name="f", path=tmp_path / f"made{i}.py")
        expected[f"y{i}"] = fg.jit(f)(W)
    np.savez(tmp_path / "expected.npz", W=W, **expected)
    (tmp_path / "main.py").write_text(
        textwrap.dedent(f"""
        import importlib, sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("fungrad", "scipy"):
                    raise ImportError(name)
        sys.meta_path.insert(0, Refuse())
        sys.path.insert(0, {str(tmp_path)!r})
        import numpy as np
        data = np.load({str(tmp_path / "expected.npz")!r})
        for i in range({len(fs)}):
            found = importlib.import_module(f"made{{i}}").f(data["W"])
            np.testing.assert_allclose(found, data[f"y{{i}}"], rtol=1e-12)
        assert not any(name.startswith("fungrad") for name in sys.modules)
        print("done")
        """)
    )
    command = [sys.executable, "-I", str(tmp_path / "main.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr


# --- refusals -------------------------------------------------------------------------------------


def test_effects_and_callbacks_are_refused_with_their_line():
    def shows(x):
        fg.debug.print("x = {}", x)
        return x * x

    with pytest.raises(
        ArgumentError, match=r"debug_callback` at .*test_to_source.py:\d+ \(shows\)"
    ):
        fg.to_source(shows, 1.0)

    def calls(x):
        return fg.pure_callback(lambda v: np.asarray(v) * 2, fg.Type((), np.float64), x)

    with pytest.raises(ArgumentError, match=r"test_to_source.py:\d+ \(calls\).*fg.export"):
        fg.to_source(calls, 1.0)


def test_a_traced_value_of_another_transform_is_refused():
    def f(x):
        fg.to_source(lambda y: x * y, 1.0)
        return x

    with pytest.raises(ArgumentError, match="closes over a traced value"):
        fg.make_jaxpr(f)(1.0)


def test_containers_that_plain_python_does_not_have_are_refused():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    fg.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    with pytest.raises(ArgumentError, match="hold a container whose leaf"):
        fg.to_source(lambda p: p.a * p.b, Pair(1.0, 2.0))
    with pytest.raises(ArgumentError, match="result is a Pair"):
        fg.to_source(lambda x: Pair(x, x), 1.0)


# --- how it reads ---------------------------------------------------------------------------------


def test_the_gradient_of_a_loss_reads_as_written_by_hand():
    def loss(w, b, x, y):
        return np.mean((np.tanh(x @ w + b) - y) ** 2)

    gradient = fg.grad(loss, argnums=(0, 1))
    args = (np.zeros(3), 0.5, np.zeros((5, 3)), np.zeros(5))
    assert fg.to_source(gradient, *args, name="gradient") == GRADIENT


GRADIENT = '''\
"""Plain NumPy, written by fungrad.to_source."""

import numpy as np


def gradient(w, b, x, y):
    """gradient, for arguments of these types.

    Args:
        w: float64 array of shape (3,)
        b: a Python float
        x: float64 array of shape (5, 3)
        y: float64 array of shape (5,)

    Returns:
        result[0]: float64 array of shape (3,)
        result[1]: float64 scalar
    """
    a = x @ w
    c = a + b
    d = np.tanh(c)
    e = d - y
    f = 0.4 * e
    g = d * d
    h = 1.0 - g
    i = f * h
    j = np.sum(i)
    k = i @ x
    return (k, j)
'''


def test_a_keyword_behind_a_default_keeps_its_name():
    def f(x, a=1.0, b=2.0):
        return x + 10.0 * a + 100.0 * b

    made = run(fg.to_source(f, 1.0, b=3.0))
    assert made(1.0, 3.0) == f(1.0, b=3.0) == 311.0
    assert run(fg.to_source(f, 1.0, b=3.0, static_argnames="b"))(1.0, 3.0) == 311.0


def test_a_loop_reads_as_one():
    def decay(rate, xs):
        return fg.lax.scan(lambda s, x: (rate * s + x, None), 0.0, xs)[0]

    assert fg.to_source(fg.grad(decay), 0.5, np.zeros(4), name="slope") == SLOPE


SLOPE = '''\
"""Plain NumPy, written by fungrad.to_source."""

import numpy as np


def slope(rate, xs):
    """slope, for arguments of these types.

    Args:
        rate: a Python float
        xs: float64 array of shape (4,)

    Returns:
        float64 scalar
    """
    a = np.float64(0.0)
    b = np.empty(4)
    for c, step in zip(xs, range(4)):
        d = rate * a
        e = d + c
        b[step] = a
        a = e
    f = np.zeros(())
    g = np.float64(1.0)
    for h in b[::-1]:
        i = g * h
        g = g * rate
        f = f + i
    return f
'''
