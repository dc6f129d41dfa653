"""fg.profile: whose time it counts, how often, and under which name. No test asserts a time."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from single import graphs

import fungrad as fg
from fungrad import lax
from fungrad.compiler.passes.pipeline import optimised
from fungrad.control_flow.call import run
from fungrad.errors import ArgumentError
from fungrad.inspect.profile import Watch
from fungrad.ir.graph import Graph


def counts(found):
    return {share.what: share.runs for share in found.by_primitive}


def profile(f, *args, **options):
    return fg.profile(f, repetitions=2, **options)(*args)


def loss(w, x):
    with fg.named_scope("layer"):
        h = np.tanh(x @ w)
    return np.sum(h)


W, X = np.ones(3), np.ones((4, 3))


@pytest.mark.parametrize("of", [lambda f: f, fg.jit], ids=["plain", "jitted"])
def test_a_function_plain_or_jitted(of):
    found = profile(of(loss), W, X)
    assert found.name == "loss" and found.repetitions == 2
    assert counts(found) == {"dot_general": 1, "tanh": 1, "reduce_sum": 1}
    first = loss.__code__.co_firstlineno
    lines = {share.what.rsplit(":", 1)[1]: share.runs for share in found.by_line}
    assert lines == {f"{first + 2} (loss)": 2, f"{first + 3} (loss)": 1}
    assert {share.what: share.runs for share in found.by_scope} == {"layer": 2, "(no scope)": 1}
    assert [share.what for share in found.by_pass] == ["forward"]


@pytest.mark.parametrize(
    "of", [fg.grad, lambda f: fg.jit(fg.grad(f)), lambda f: fg.grad(fg.jit(f))],
    ids=["grad", "jit of grad", "grad of jit"],
)  # fmt: skip
def test_a_gradient_is_split_into_its_passes(of):
    found = profile(of(loss), W, X)
    passes = {share.what: share for share in found.by_pass}
    assert set(passes) == {"forward", "backward"}
    assert passes["forward"].runs == 2  # the product and its tanh; the sum is not needed
    assert counts(found)["dot_general"] == 2


def test_the_gradient_of_a_gradient_is_a_pass_of_its_own():
    second = fg.grad(lambda x: np.sum(fg.grad(lambda y: np.sum(np.sin(y) ** 3))(x)))
    passes = {share.what for share in profile(second, np.ones(3)).by_pass}
    assert "backward, order 2" in passes


def test_shares_are_of_the_sum_and_sorted():
    found = profile(fg.grad(loss), W, X)
    for shares in (found.by_line, found.by_scope, found.by_primitive, found.by_pass):
        assert math.isclose(sum(share.share for share in shares), 1.0)
        assert math.isclose(sum(share.seconds for share in shares), found.seconds)
        assert [s.seconds for s in shares] == sorted((s.seconds for s in shares), reverse=True)
    assert found.compiled > 0


def test_a_scan_runs_its_body_as_often_as_it_has_steps():
    def f(x):
        return lax.scan(lambda c, a: (c * np.sin(a), None), 1.0, x)[0]

    assert counts(profile(f, np.ones(7))) == {"scan": 1, "sin": 7, "mul": 7}
    back = profile(fg.grad(f), np.ones(7))
    assert counts(back)["cos"] == 7 and counts(back)["scan"] == 2
    assert {e.depth for e in back.equations} == {0, 1}


def test_loops_in_loops():
    def add(c, a):
        return c + a, None

    def f(x):
        return lax.scan(lambda c, row: (lax.scan(add, c, row)[0], None), 0.0, x)[0]

    found = profile(f, np.ones((3, 5)))
    assert counts(found) == {"scan": 1 + 3, "add": 15}
    assert sorted({e.depth for e in found.equations}) == [0, 1, 2]


def test_a_while_runs_as_often_as_its_values_say():
    def f(x):
        return lax.while_loop(lambda c: c < 100.0, lambda c: c * x, x)

    assert counts(profile(f, np.float64(2.0))) == {"while_loop": 1, "lt": 7, "mul": 6}
    back = counts(profile(fg.grad(f), 2.0))
    assert back["while_loop_record"] == back["while_loop_pullback"] == 1
    assert back["lt"] == 7 and back["mul"] == 3 * 6  # forward, and two cotangents a step


def test_of_branches_the_one_that_is_taken():
    def f(x):
        return lax.cond(x > 0, np.sin, np.exp, x)

    assert set(counts(profile(f, 1.0))) == {"gt", "switch", "sin"}
    assert set(counts(profile(f, -1.0))) == {"gt", "switch", "exp"}
    assert counts(profile(fg.grad(f), 1.0))["cos"] == 1


def test_a_checkpoint_is_looked_into():
    f = fg.checkpoint(lambda x: np.sum(np.exp(np.sin(x))))
    found = counts(profile(fg.value_and_grad(f), np.ones(3)))
    assert found["sin"] == 2 and found["checkpoint"] == 2


def test_as_traced_or_as_optimised():
    def f(x):
        return np.sin(x) * np.sin(x) + fg.stop_gradient(x)

    assert counts(profile(f, np.ones(3)))["sin"] == 1
    traced = counts(profile(fg.jit(f), np.ones(3), optimise=False))
    assert traced["sin"] == 2 and traced["stop_gradient"] == 1


def test_static_arguments_and_keywords():
    f = fg.jit(lambda x, kind="sin": getattr(np, kind)(x), static_argnames="kind")
    assert counts(fg.profile(f, repetitions=1)(np.ones(2), kind="cos")) == {"cos": 1}
    assert counts(fg.profile(f)(1.0))["sin"] == 1


def test_a_function_that_computes_nothing():
    found = profile(lambda x: x, 1.0)
    assert found.equations == () and found.seconds == 0 and "profile of" in repr(found)


def test_rewritten_equations_keep_their_pass():
    # The quotients of a sum become a broadcast of a constant, written by the optimiser.
    lowered = fg.jit(fg.grad(lambda x: np.sum(x / 2.0 / 3.0))).lower(np.ones(4000))
    assert [e.primitive.name for e in lowered.optimised.equations] == ["broadcast_to"]
    assert {e.backward for e in lowered.optimised.equations} == {1}


def test_watched_results_are_the_functions_own():
    def f(x):
        done = lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c * np.exp(x), x)
        rows = lax.map(lambda row: np.sin(row) * done[0], np.outer(x, x))
        return np.sum(rows) + lax.cond(x[0] > 0, np.sum, np.prod, done)

    x = np.linspace(0.5, 1.0, 4)
    lowered = fg.jit(fg.value_and_grad(f)).lower(x)
    value, gradient = Watch(lowered.optimised).run([x])
    np.testing.assert_allclose(value, f(x), rtol=1e-13)
    np.testing.assert_allclose(gradient, fg.grad(f)(x), rtol=1e-13)


def test_watched_results_of_every_structural_sample():
    tested = set()
    for name, graph, sample in graphs():
        if not list(graph.subgraphs()) or len(sample.args) != len(graph.inputs):
            continue
        with np.errstate(all="ignore"):
            expected = run(graph, sample.args)
            found = Watch(optimised(graph)).run(sample.args)
        for x, y in zip(found, expected, strict=True):
            if np.asarray(x).dtype != object:  # the residuals of a loop, another program's
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12, err_msg=name)
        tested.add(graph.equations[0].primitive.name)
    assert {"scan", "while_loop", "while_loop_pullback", "switch_record", "checkpoint"} <= tested


def test_a_body_is_not_counted_for_its_loop():
    def f(x):
        return lax.scan(lambda c, a: (c + a, None), 0.0, x)[0]

    ticks = itertools.count()  # each look at the clock is one tick later
    graph = fg.jit(f).lower(np.ones(5)).optimised
    watch = Watch(graph, clock=lambda: next(ticks))
    watch.run([np.ones(5)])
    (scan, _), (add, _) = watch.equations
    assert watch.spent[add] == 5  # one tick each
    assert watch.spent[scan] == 1 + 5 * 4 - 5 * 3  # all ticks, less those of the bodies


def test_what_was_made_of_the_function_is_left_alone():
    def f(x):
        return lax.scan(lambda c, a: (c * a, None), 1.0, x)[0]

    jitted = fg.jit(f)
    (equation,) = jitted.lower(np.ones(3)).optimised.equations
    before = jitted(np.ones(3))
    profile(jitted, np.ones(3))
    body = equation.params["body"]
    assert isinstance(body, Graph) and all(v is not None for v in body.derived.values())
    assert jitted(np.ones(3)) == before


def test_shown_as_text_as_data_and_by_rich():
    found = profile(fg.grad(loss), W, X)
    text = repr(found)
    assert text.startswith("profile of loss") and "h = np.tanh(x @ w)" in text
    assert "test_profile.py:" in text and "backward" in text and "compiled" in text
    data = json.loads(json.dumps(found.to_dict()))
    assert data["seconds"] == found.seconds and data["compiled_seconds"] == found.compiled
    assert data["by_line"][0]["what"] == found.by_line[0].what
    assert {e["backward"] for e in data["equations"]} == {0, 1}
    console = pytest.importorskip("rich.console").Console(width=150)
    with console.capture() as capture:
        console.print(found)
    assert "dot_general" in capture.get() and "h = np.tanh(x @ w)" in capture.get()


def test_long_programs_are_cut_in_print_only():
    functions = "sin cos tan exp expm1 log1p sinh cosh tanh arctan arcsinh sqrt cbrt square".split()

    def f(x):
        return sum(getattr(np, name)(x) for name in functions)

    found = profile(f, np.ones(3))
    assert len(found.by_primitive) >= 14
    assert " more " in repr(found)
    assert len(found.to_dict()["by_primitive"]) == len(found.by_primitive)


def test_bad_input():
    with pytest.raises(ArgumentError, match="repetitions has to be 1 or more"):
        fg.profile(np.sin, repetitions=0)
    with pytest.raises(ArgumentError, match="outside"):
        fg.vmap(lambda x: fg.profile(np.sin)(x) and x)(np.ones(3))
    with pytest.raises(ArgumentError, match="static_argnames"):
        fg.profile(lambda x, name: x)(1.0, "a")


def test_products_behind_a_scan_have_the_line_that_asked_for_them():
    def recurrent(w, xs):
        def step(h, x):
            h = np.tanh(h @ w + x)
            return h, h

        return np.sum(fg.lax.scan(step, np.zeros((2, 3)), xs)[1] ** 2)

    graph = fg.jit(fg.grad(recurrent)).lower(np.eye(3), np.ones((9, 2, 3))).optimised
    behind = [e for e in graph.equations if e.primitive.name in ("dot_general", "add")]
    assert behind and {e.source.line for e in behind} == {recurrent.__code__.co_firstlineno + 2}
    assert {e.backward for e in behind} == {1}

    def total(xs):
        def step(c, x):
            y = np.cos(x)
            return c + y * y, y

        return fg.lax.scan(step, np.zeros(3), xs)

    graph = fg.jit(total).lower(np.ones((90, 3))).optimised
    lines = {e.source.line - total.__code__.co_firstlineno for e in graph.equations}
    assert lines <= {2, 3, 5}, graph.show(source=True)
