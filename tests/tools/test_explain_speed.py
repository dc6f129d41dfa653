"""Where operations run, their measured times, and why they are not native."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fungrad as fg
from fungrad.control_flow.call import built
from fungrad.inspect.speed.timed_program import TimedProgram, counts_steps

pytest.importorskip("llvmlite", reason="the reasons are those of native code")
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def automatic() -> Any:
    before = fg.config.backend
    fg.config.backend = "auto"
    yield
    fg.config.backend = before


def places(f: Callable[..., Any], *args: Any) -> dict[str, str]:
    found = fg.explain_speed(f, repetitions=3)(*args)
    return {one.primitive: one.where for one in found.operations if one.source}


def reasons(f: Callable[..., Any], *args: Any) -> dict[str, tuple[str, str]]:
    found = fg.jit(f).lower(*args).refused
    return {r.equation.primitive.name: (r.code, r.reason) for r in found}


def test_an_array_that_is_too_small_says_so() -> None:
    a = rng.normal(size=(50, 50))
    assert places(lambda a: np.exp(a @ a), a) == {"dot_general": "BLAS", "exp": "NumPy"}
    found = fg.jit(lambda a: np.exp(a @ a)).lower(a).refused
    product, exp = found
    assert (product.code, product.reason) == ("form", "BLAS computes it")
    assert (exp.code, exp.reason) == ("small", "2,500 elements: below the 4,096 of a kernel")
    assert exp.sizes == {"elements": 2500, "least": 4096}
    assert "test_explain_speed.py" in str(exp)
    large = rng.normal(size=(100, 100))
    assert places(lambda a: np.exp(a @ a), large) == {"dot_general": "BLAS", "exp": "kernel 1"}


def test_a_native_program_refuses_nothing() -> None:
    for f, x in ((lambda x: x**5, np.arange(100_000)), (np.sin, 0.5), (np.exp, np.ones(5))):
        lowered = fg.jit(f).lower(x)
        assert lowered.refused == () and len(lowered.kernels) == 1


def test_dtypes_functions_and_neighbours_are_reasons() -> None:
    halves = np.arange(100_000).astype(np.int8)
    found = reasons(lambda x: x // np.int8(3), halves)
    assert found == {"floor_divide": ("dtype", "int8 floor_divide")}
    found = reasons(lambda x: np.sin(x) * np.partition(x, 1), np.ones(3))
    assert found["partition"] == ("form", "kernels have no partition")
    code, reason = found["sin"]
    assert code == "form" and reason.startswith("beside partition (line ")


def test_a_reshape_of_a_transposed_array_says_so() -> None:
    x = rng.normal(size=(400, 300))
    found = reasons(lambda x: np.sum(np.exp(x.T.reshape(-1)) * x.reshape(-1)), x)
    assert found["reshape"] == ("layout", "a reshape that joins or splits axes")


def test_code_that_costs_more_to_build_than_it_saves_says_so() -> None:
    def waves(x: Any) -> Any:
        y = np.sin(x) * np.tan(x) + np.arctan(x) * np.log1p(x) - np.cosh(x) / np.cbrt(x)
        return np.arcsinh(y) * np.arctan2(y, x) + np.expm1(y * y) ** x

    code, reason = reasons(waves, 0.5)["tan"]
    assert code == "time" and "ms to build and save" in reason
    found = fg.jit(waves).lower(0.5).explain(1).operations[0]
    assert found.where == "Python" and "fg.config.backend" in found.advice


def test_python_functions_and_effects_are_reasons() -> None:
    def called(x: Any) -> Any:
        return fg.pure_callback(np.cbrt, x, x) * 2.0

    assert reasons(called, np.ones(10_000)) == {
        "external": ("host", "a call of a Python function"),
        "mul": ("moves", "one call of NumPy: a kernel gains nothing"),
    }

    def steps(x: Any) -> Any:
        return fg.lax.scan(lambda c, x: (c * 0.5 + fg.pure_callback(np.cbrt, x, x), None), 0.0, x)

    found = reasons(steps, np.ones(1_000))
    assert found["external"][0] == "host"
    assert found["mul"][1].startswith("beside external (line ")


def test_the_other_backend_is_a_reason() -> None:
    fg.config.backend = "numpy"
    found = fg.explain_speed(np.sin, repetitions=1)(np.ones(3)).operations[-1]
    assert found.refusal.code == "backend" and found.advice == 'fg.config.backend = "auto"'
    assert fg.jit(np.sin).lower(np.ones(3)).refused == ()


def mixed(x: Any) -> Any:
    y = np.exp(x) * np.sin(x)
    z = np.sort(y)
    return np.sum(z * np.cos(z))


def test_a_mixed_program_shows_its_kernels() -> None:
    lowered = fg.jit(mixed).lower(rng.normal(size=20_000))
    assert [r.equation.primitive.name for r in lowered.refused] == ["sort"]
    first, second = lowered.kernels
    assert first.loops == "for 20000 elements in 5 units: exp, sin, mul"
    assert [e.primitive.name for e in second.equations] == ["cos", "mul", "reduce_sum"]
    assert "define" in first.llvm and "ret" in first.assembly
    assert first.loops in lowered.source and "kernel 2 is machine code" in lowered.source
    assert "machine code; on NumPy" in lowered.source


def test_clusters_that_numpy_runs_are_explained() -> None:
    f = fg.grad(lambda a: np.sum(np.abs(np.linalg.eigvals(a))))
    assert reasons(f, rng.normal(size=(20, 20)))["eig"][1] == "LAPACK computes it"


def step_by_step(w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + np.sort(x))
        return h, np.sum(h)

    return fg.lax.scan(step, np.zeros(w.shape[0]), xs)


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_steps_of_loops_have_counters(backend: str) -> None:
    fg.config.backend = backend
    args = rng.normal(size=(40, 40)), rng.normal(size=(7, 40))
    found = fg.explain_speed(step_by_step, repetitions=3)(*args)
    inside = [one for one in found.operations if one.depth == 1]
    assert {"dot_general", "tanh"} <= {one.primitive for one in inside}
    assert all(one.runs == 7 for one in inside)
    assert {line.source.line for line in found.lines if line.source} >= {
        step_by_step.__code__.co_firstlineno + 2
    }


def test_a_program_with_counters_computes_the_same() -> None:
    fg.config.backend = "numpy"
    args = rng.normal(size=(30, 30)), rng.normal(size=(9, 30))
    for f in (step_by_step, fg.grad(lambda w, xs: np.sum(step_by_step(w, xs)[1]))):
        lowered = fg.jit(f).lower(*args)
        program = built(lowered.graph)
        assert counts_steps(program)
        timed = TimedProgram(program)
        for a, b in zip(timed.run(*args), program(*args), strict=True):
            np.testing.assert_array_equal(a, b)
        assert all(step.runs for step in timed.steps())
        timed.reset()
        assert not any(step.runs for step in timed.steps())


def test_times_are_divided_among_the_equations_of_a_kernel() -> None:
    found = fg.explain_speed(mixed, repetitions=3)(rng.normal(size=20_000))
    assert sum(line.share for line in found.lines) == pytest.approx(1.0)
    one = next(o for o in found.operations if o.primitive == "exp")
    assert one.estimated and one.native
    assert 0.0 < one.seconds < sum(other.seconds for other in found.operations)
    assert 0.0 < found.native < 1.0
    text = repr(found)
    assert "kernel 1" in text and "kernels have no sort" in text and "z = np.sort(y)" in text
    assert found.to_dict()["lines"][0]["where"]


def test_paths_of_a_guarded_function_are_explained() -> None:
    f = fg.jit(lambda x: np.sin(x) if x > 0 else np.cos(x), branches="guard")
    found = f.lower(0.5).explain(1)
    assert "sin" in {one.primitive for one in found.operations}


def test_what_explain_speed_refuses() -> None:
    with pytest.raises(fg.errors.ArgumentError, match="repetitions"):
        fg.explain_speed(np.sin, repetitions=0)
    with pytest.raises(fg.errors.ArgumentError, match="call it outside"):
        fg.vmap(lambda x: fg.explain_speed(np.sin)(x).seconds)(np.ones(3))
