"""The compiler checks itself: programs that are wrong, and right ones that must raise no alarm."""

from __future__ import annotations

import math
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.compiler.passes import pipeline
from fungrad.compiler.self_check import checked_program, comparison
from fungrad.errors import (
    ArgumentError,
    CompilerWarning,
    MiscompiledError,
    MiscompiledWarning,
)
from fungrad.ir.graph import Graph
from fungrad.primitives.elementwise import ufuncs
from fungrad.retracing.inlining import placed
from fungrad.rounding import evaluation_time, perturbed_evaluation

lax = fg.lax


@pytest.fixture(params=["numpy", "native"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both backends, each on its own programs."""
    before = fg.config.backend
    fg.config.backend = request.param
    yield request.param
    fg.config.backend = before


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check may take its time: a busy machine compares no twins, and gives up none."""
    monkeypatch.setattr(checked_program, "LEAST_SECONDS", 60.0)


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Defects are warnings, as for users; the folder of the reports."""
    monkeypatch.delenv("FUNGRAD_STRICT")
    monkeypatch.setenv("FUNGRAD_REPORTS", str(tmp_path))
    return tmp_path


def cosines(graph: Graph) -> Graph:
    """A pass with a defect: sines become cosines."""
    if graph.name.startswith("right"):
        return graph
    equations = [
        placed(e, ufuncs.cos, e.inputs, e.outputs, {}) if e.primitive is ufuncs.sin else e
        for e in graph.equations
    ]
    return graph.replace(equations=tuple(equations))


def failing(graph: Graph) -> Graph:
    """A pass with another defect."""
    raise AttributeError("'Stack' object has no attribute 'shape'")


def add_pass(monkeypatch: pytest.MonkeyPatch, defect: Callable[[Graph], Graph]) -> None:
    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES, defect))


X = np.linspace(0.1, 1.0, 7)


# --- wrong programs -------------------------------------------------------------------------------


def test_the_evaluators_numbers_are_returned(
    backend: str, lenient: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_pass(monkeypatch, cosines)
    f = fg.jit(lambda x: np.sin(x) * 2.0)
    with pytest.warns(MiscompiledWarning, match=r"output 0\[0\] is 1\.99.* for 0\.19.*6 more") as w:
        np.testing.assert_array_equal(f(X), np.sin(X) * 2.0)
    assert w[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            np.testing.assert_array_equal(f(X), np.sin(X) * 2.0)
    assert f.lower(X).checked.startswith("evaluated: output 0[0]")


def test_the_report_holds_the_program_and_small_arguments(
    backend: str, lenient: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_pass(monkeypatch, cosines)
    with pytest.warns(MiscompiledWarning, match=r"with the arguments is in .*\.fungrad"):
        fg.jit(np.sin)(X)
    (path,) = lenient.iterdir()
    graph = fg.load(path)
    assert [e.primitive.name for e in graph.equations] == ["sin"]
    (found,) = fg.evaluate(graph)
    np.testing.assert_array_equal(found, np.sin(X))


def test_large_arguments_are_not_written(lenient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pass(monkeypatch, cosines)
    with pytest.warns(MiscompiledWarning, match=r"Its Graph is in"):
        fg.jit(np.sin)(np.zeros(200_000))
    (path,) = lenient.iterdir()
    assert len(fg.load(path).inputs) == 1 and path.stat().st_size < 10_000


def test_strictly_it_is_an_error(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pass(monkeypatch, cosines)
    with pytest.raises(MiscompiledError, match="disagrees with the evaluator"):
        fg.jit(np.sin)(X)


def test_gradients_loops_and_paths(
    backend: str, lenient: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (np.sin(c) + 0.1, c), x, None, length=5)

    def branching(x: Any) -> Any:
        return np.sin(x) if x[0] > 0 else x

    expected = loop(X), fg.grad(lambda x: np.sum(np.sin(x) * x))(X), np.sin(X)
    fg.clear_caches()  # the program of the loop
    add_pass(monkeypatch, cosines)
    with pytest.warns(MiscompiledWarning):
        np.testing.assert_allclose(fg.jit(loop)(X)[1], expected[0][1])
    with pytest.warns(MiscompiledWarning):
        found = fg.jit(fg.grad(lambda x: np.sum(np.sin(x) * x)))(X)
        np.testing.assert_allclose(found, expected[1])
    guarded = fg.jit(branching, branches="guard")
    with pytest.warns(MiscompiledWarning):
        np.testing.assert_allclose(guarded(X), expected[2])
    np.testing.assert_allclose(guarded(X), expected[2])


def test_loops_without_jit_are_checked(
    lenient: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    add_pass(monkeypatch, cosines)
    with pytest.warns(MiscompiledWarning):
        found = lax.scan(lambda c, _: (np.sin(c), None), 1.0, None, length=3)[0]
    assert found == np.sin(np.sin(np.sin(1.0)))


def test_a_wrong_kernel_of_the_user(lenient: Path) -> None:
    cube = fg.extend.elementwise("cube", lambda x: x * x * x, partials=[lambda y, x: 3.0 * x * x])

    def squares(x: Any, out: Any) -> None:
        np.multiply(x, x, out)

    fg.extend.kernel(cube, squares)
    x = np.full(50_000, 2.0)
    before = fg.config.backend
    fg.config.backend = "numpy"
    try:
        with pytest.warns(MiscompiledWarning):
            assert fg.jit(lambda x: cube(x) + 1.0)(x)[-1] == 9.0
    finally:
        fg.config.backend = before


# --- parts that fail ------------------------------------------------------------------------------


def test_a_pass_that_fails_is_named(
    backend: str, lenient: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_pass(monkeypatch, failing)
    f = fg.jit(fg.grad(lambda x: np.sum(np.sin(x))))
    with pytest.warns(CompilerWarning, match=r"`make` \(passes\.pipeline\).*'Stack'") as found:
        np.testing.assert_array_equal(f(X), np.cos(X))
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(f(X), np.cos(X))


def test_a_generator_that_fails(lenient: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fungrad.compiler.native import backend as of_llvm
    from fungrad.compiler.native.generators import Generator

    def generator(graph: Graph) -> Any:
        raise KeyError("sin")

    before = fg.config.backend
    fg.config.backend = "native"
    monkeypatch.setattr(of_llvm, "GENERATORS", [Generator(generator)])
    try:
        with pytest.warns(CompilerWarning, match="attempted"):
            np.testing.assert_array_equal(fg.jit(np.sin)(X), np.sin(X))
    finally:
        fg.config.backend = before


def test_strictly_the_error_is_raised(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pass(monkeypatch, failing)
    with pytest.raises(AttributeError, match="'Stack'"):
        fg.jit(np.sin)(X)


def test_a_program_that_raises_where_the_evaluator_does_not(
    backend: str, lenient: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undefined(graph: Graph) -> Graph:
        _, *rest = graph.equations
        if not rest:
            return graph
        return graph.replace(equations=tuple(rest))  # reads what is not made

    add_pass(monkeypatch, undefined)
    with pytest.warns(CompilerWarning):
        np.testing.assert_array_equal(fg.jit(lambda x: np.sin(np.tan(x)))(X), np.sin(np.tan(X)))


def test_the_users_errors_are_raised_as_before(backend: str, lenient: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.linalg.LinAlgError):
            fg.jit(np.linalg.inv)(np.zeros((2, 2)))
        with pytest.raises(IndexError):
            fg.jit(lambda x, i: x[i])(X, 9)
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            fg.jit(lambda x: np.exp(x) * 2.0)(np.full(5, 1e4))


# --- the setting ----------------------------------------------------------------------------------


def test_never(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_pass(monkeypatch, cosines)
    f = fg.jit(np.sin, verify="never")
    np.testing.assert_allclose(f(X), np.cos(X), rtol=1e-15)
    assert f.lower(X).checked == 'not compared: verify="never"'


def test_always(backend: str) -> None:
    ran: list[int] = []

    def count(x: Any) -> Any:
        ran.append(1)
        return x

    def f(x: Any) -> Any:
        return fg.pure_callback(count, fg.Type((), float), x * 2.0) + 1.0

    for verify, later in (("first", 1), ("always", 1), ("never", 1)):
        g = fg.jit(f, verify=verify)
        g(1.0)
        ran.clear()
        g(2.0)
        assert len(ran) == later  # the evaluator gets what it returned


def test_it_is_inherited_and_set_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    add_pass(monkeypatch, cosines)
    inner = fg.jit(np.sin, verify="never")
    np.testing.assert_allclose(fg.vmap(inner)(X), np.cos(X), rtol=1e-15)
    fg.config.verify = "never"
    try:
        np.testing.assert_allclose(fg.jit(np.sin)(X), np.cos(X), rtol=1e-15)
    finally:
        fg.config.verify = "first"
    with pytest.raises(ArgumentError, match="verify"):
        fg.jit(np.sin, verify="sometimes")
    with pytest.raises(ArgumentError, match=r"fg\.config\.verify"):
        fg.config.verify = None  # type: ignore[assignment]


# --- effects happen once --------------------------------------------------------------------------


def test_prints_and_callbacks(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[float] = []

    def host(x: Any) -> Any:
        called.append(float(x))
        return np.asarray(x) ** 2

    def f(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            fg.debug.print("step {i}", i=i)
            return c + fg.pure_callback(host, fg.Type((), float), c), c

        return lax.scan(step, x, np.arange(3))[0]

    assert fg.jit(f)(1.0) == 42.0
    assert capsys.readouterr().out.count("step") == 3 and len(called) == 3


def test_a_generator_with_a_state(backend: str) -> None:
    generator = np.random.default_rng(0)
    draw = fg.extend.general(
        f"draw_with_{backend}",
        eval=lambda x: x + generator.normal(),
        type=lambda x: fg.Type(x.shape, x.dtype),
        effect=True,
    )
    expected = np.random.default_rng(0).normal(size=4)
    f = fg.jit(lambda x: draw(x) * 1.0)
    np.testing.assert_array_equal([f(0.0) for _ in range(4)], expected)


# --- no alarm -------------------------------------------------------------------------------------


def _chaos(x: Any) -> Any:
    return lax.fori_loop(0, 300, lambda i, x: 3.99 * x * (1.0 - np.sin(x) / x), x)


def _regrouped(x: Any) -> Any:
    return np.sum(np.cos(x) * 1e8, axis=0) - 1e8 * np.sum(x, axis=0)


def _ties(x: Any) -> Any:
    y = np.exp(np.log(x))
    return np.floor(y * 3.0) + (y > x), np.argmax(y)


def _overflow(x: Any) -> Any:
    return np.sum(x * 1e308) - np.sum(x * 1e308), np.exp(x * 1e3) / np.exp(x * 1e3)


def _cancelled(x: Any) -> Any:
    return (np.exp(x) - 1.0 - x - x * x / 2.0) / x**3


@pytest.mark.parametrize("f", [_chaos, _regrouped, _ties, _overflow, _cancelled])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_raises_no_alarm(backend: str, f: Callable[..., Any], dtype: Any) -> None:
    x = np.linspace(0.1, 0.9, 40).astype(dtype)
    with np.errstate(all="ignore"):
        compiled = fg.jit(f)
        compiled(x)
        assert compiled.lower(x).checked == "the first run was compared with the evaluator's"

        def total(x: Any) -> Any:
            found = f(x)
            return np.sum(found[0] if isinstance(found, tuple) else found)

        fg.jit(fg.grad(total))(x)


def test_complex_numbers_of_python_are_perturbed() -> None:
    # Python multiplies its own complex numbers by a float64, which is one of its floats
    graph = fg.make_jaxpr(lambda v, x: (1j * v) * x)(np.float64(0.7), np.ones(3))
    args = [np.float64(0.7), np.ones(3)]
    for seed in range(3):
        found = evaluation_time.evaluated(
            graph, args, perturbed_evaluation.PerturbedTrace(seed, True)
        )
        np.testing.assert_allclose(found[0], 0.7j * np.ones(3), rtol=1e-14)


def test_ill_conditioned_systems_raise_no_alarm(backend: str) -> None:
    n = 10
    hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1.0)
    fg.jit(fg.grad(lambda a: np.sum(np.linalg.solve(a, np.ones(n)))))(hilbert)
    fg.jit(fg.grad(lambda a: np.sum(np.linalg.inv(a))))(hilbert)
    fg.jit(fg.grad(lambda a: np.sum(np.linalg.eigh(a)[1] ** 3)))(hilbert)


def test_zeros_of_jacobians_beside_infinities(backend: str) -> None:
    x = np.linspace(1.0, 2.0, 60)
    x[7] = np.inf
    np.testing.assert_array_equal(fg.jit(fg.jacfwd(lambda x: x * x))(x), np.diag(2.0 * x))


# --- shorter twins --------------------------------------------------------------------------------


def _walk(x: Any) -> Any:
    return lax.scan(lambda c, _: (np.sin(c) * 1.01, c), x, None, length=20_000)


def _rows(x: Any) -> Any:
    return np.sum(np.sin(x[1:]) * x[:-1]), np.cumsum(np.sin(x))


def _until(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 2e4, lambda c: (c[0] + 1.0, np.sin(c[1])), (0.0, x))


@pytest.mark.parametrize(
    ("f", "x", "changes"),
    [
        (_walk, 1.0, "steps|for 20000"),
        (_rows, np.linspace(0.0, 1.0, 1_000_000), "for 1000000"),
        (_until, 1.0, "at most 20 steps"),
    ],
)
def test_a_shorter_twin_is_checked(
    backend: str, f: Callable[..., Any], x: Any, changes: str,
    lenient: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(checked_program, "LEAST_SECONDS", 0.005)
    right = fg.jit(f)
    right(x)
    if "the first run" in right.lower(x).checked:
        pytest.skip("the evaluator is faster here than the build")
    assert "a shorter twin was compared" in right.lower(x).checked
    assert re.search(changes, right.lower(x).checked)
    add_pass(monkeypatch, cosines)
    with pytest.warns(MiscompiledWarning):
        fg.jit(lambda x: f(x))(x)


def test_shared_graphs_are_not_unfolded(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_program, "LEAST_SECONDS", 0.005)

    def doubled(f: Any) -> Any:
        g = fg.jit(f)
        return fg.jit(lambda x: g(x) + g(x) * 0.5)

    f: Any = np.sin
    for _ in range(20):  # each is traced within the next, some 30 frames deeper
        f = doubled(f)
    assert math.isfinite(f(0.5))


# --- residuals, threads ---------------------------------------------------------------------------


def test_halves_of_reverse_mode_with_tapes(backend: str) -> None:
    @fg.jit
    def f(x: Any) -> Any:
        y = lax.while_loop(lambda c: c[0] < 5.0, lambda c: (c[0] + 1.0, np.sin(c[1])), (0.0, x))
        return lax.cond(x > 0, lambda y: y * 2.0, lambda y: y, y[1])

    expected = fg.grad(lambda x: 2.0 * np.sin(np.sin(np.sin(np.sin(np.sin(x))))))(0.3)
    assert fg.grad(f)(0.3) == pytest.approx(expected, rel=1e-14)
    assert fg.jit(fg.grad(f))(0.3) == pytest.approx(expected, rel=1e-14)


def test_threads_whose_first_runs_meet(backend: str) -> None:
    f = fg.jit(fg.grad(lambda x: np.sum(np.sin(x) * x)))
    expected = np.cos(X) * X + np.sin(X)
    f(X[:2])
    found: list[Any] = []

    def call() -> None:
        found.extend(f(X) for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for one in found:
        np.testing.assert_allclose(one, expected, rtol=1e-14)


def test_a_run_whose_bits_agree_enters_neither_roundings_nor_effects(monkeypatch):
    def entered(*args):
        raise AssertionError

    monkeypatch.setattr(perturbed_evaluation, "accumulated_ulp", entered)
    monkeypatch.setattr(perturbed_evaluation, "PerturbedRuns", entered)
    monkeypatch.setattr(checked_program, "EffectLog", entered)
    monkeypatch.setenv("FUNGRAD_STRICT", "1")
    assert fg.jit(lambda x: x * 2.0 + 1.0)(1.5) == 4.0
    with pytest.raises(AssertionError):
        fg.jit(lambda x: fg.debug.callback(len, [x]) or x)(1.5)


def test_the_sign_of_a_zero_that_decides_is_compared():
    """Of sums of two numbers in the user's function. A gradient may add zeros in another order."""

    def f(x):
        return np.copysign(1.0, (x + x) * 1.0)

    x = np.array([-0.0, 0.0, 2.0])
    graph = fg.make_jaxpr(f)(x)
    right, wrong = np.array([-1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])
    for found in (right, wrong):
        disagrees = comparison.compared(graph, [x], [found], nullcontext, 60.0)[1] is not None
        assert disagrees == (found is wrong)
    backward = fg.make_jaxpr(lambda x: np.copysign(1.0, fg.grad(lambda x: np.sum(x * x))(x)))(x)
    assert comparison.compared(backward, [x], [wrong], nullcontext, 60.0)[1] is None
