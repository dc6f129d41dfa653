"""The choice whether what holds in exact arithmetic only may be done: the setting, and `jit`'s."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import ArgumentError, SavedFileError
from fungrad.ir.graph import Graph
from fungrad.ir.regrouping import regrouping
from fungrad.optimise.passes import optimised
from fungrad.saving_graphs import Reader, Writer
from fungrad.structural.retrace import batch, differentiate, push

X = np.linspace(0.5, 1.5, 5)


@pytest.fixture
def reassociate():
    """Sets what `fg.config.reassociate` says, for one test."""

    def choose(value):
        fg.config.reassociate = value

    yield choose
    fg.config.reassociate = False


def choice(f, *args):
    return regrouping(fg.jit(f).lower(*args).optimised)


def test_it_is_off_until_it_is_asked_for(reassociate):
    assert fg.config.reassociate is False
    f = fg.jit(np.sin)
    assert choice(f, X) is False
    reassociate(True)
    assert choice(f, X) is True
    assert regrouping(fg.jit(np.sin, reassociate=False).lower(X).optimised) is False
    reassociate(False)
    assert choice(f, X) is False
    assert regrouping(fg.jit(reassociate=True)(np.sin).lower(X).optimised) is True


@pytest.mark.parametrize("value", [1, "yes", np.True_])
def test_it_is_true_or_false(value):
    with pytest.raises(ArgumentError, match="True or False"):
        fg.jit(np.sin, reassociate=value)
    with pytest.raises(ArgumentError, match=r"fg.config.reassociate has to be True or False"):
        fg.config.reassociate = value
    with pytest.raises(ArgumentError):
        fg.config.reassociate = None


def graphs(graph):
    """What is run of a Graph, and of those in it."""
    graph = optimised(graph)
    yield graph
    for inner in graph.subgraphs():
        yield from graphs(inner)


def test_the_outermost_jit_decides_for_all_that_it_compiles():
    inner = fg.jit(np.sin, reassociate=True)

    def f(x):
        def step(c, x):
            return lax.cond(c > 0, lambda c: inner(c) * x, lambda c: c - x, c), inner(c)

        return lax.scan(step, inner(x[0]), x)

    for wanted in (True, False):
        g = fg.jit(f, reassociate=wanted)
        for h in (g, fg.jit(fg.grad(lambda x, g=g: g(x)[0]), reassociate=wanted)):
            found = list(graphs(h.lower(X).graph))
            assert len(found) > 3
            assert {regrouping(graph) for graph in found} == {wanted}
        np.testing.assert_allclose(g(X)[1], f(X)[1], rtol=1e-14)
    found = graphs(fg.jit(f).lower(X).graph)
    assert {regrouping(graph) for graph in found} == {False}


def test_what_is_made_of_a_graph_keeps_its_choice():
    graph = fg.jit(np.sin, reassociate=True).lower(X).graph
    halves = differentiate(graph, [True])
    for made in (*halves[:2], push(graph, [True]).graph, batch(graph, [True], 3).graph):
        assert made.reassociate is True
    assert pickle.loads(pickle.dumps(graph)).reassociate is True
    old = graph.__getstate__()
    del old["reassociate"]  # of a Graph that was pickled before there was a choice
    again = Graph.__new__(Graph)
    again.__setstate__(old)
    assert again.reassociate is None


def test_a_jitted_function_is_pickled_saved_and_exported_with_it(tmp_path):
    f = fg.jit(np.sin, reassociate=True)
    assert pickle.loads(pickle.dumps(f)).lower(X).graph.reassociate is True
    exported = fg.export(f)(X)
    assert exported.graph.reassociate is True
    fg.save(exported, tmp_path / "f.fungrad")
    assert fg.load(tmp_path / "f.fungrad").graph.reassociate is True
    plain = fg.export(np.sin)(X)
    fg.save(plain, tmp_path / "g.fungrad")
    assert fg.load(tmp_path / "g.fungrad").graph.reassociate is None
    writer = Writer(True)
    writer.graph(exported.graph)
    content = writer.graphs[0]
    with pytest.raises(SavedFileError, match="regroup"):
        Reader([], 0).graph({**content, "reassociate": 1})
