"""Transformed functions are pickled: as verb, function and options, or by name.

In this process, in spawned ones, and by joblib's.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pickled
import pytest
from pickled import X, plain, stays

import fungrad as fg
from fungrad.support import pytree

EYE = np.eye(3)

VERBS = {
    "grad": fg.grad(plain),
    "grad of options": fg.grad(plain, argnums=(0,), unconnected="none", nondiff="none"),
    "value_and_grad": fg.value_and_grad(plain),
    "vmap": fg.vmap(stays, in_axes=0, out_axes=0),
    "vmap of a number": fg.vmap(plain, axis_size=2, in_axes=None),
    "jacfwd": fg.jacfwd(stays),
    "jacrev": fg.jacrev(stays, argnums=(0,)),
    "jacobian": fg.jacobian(stays),
    "hessian": fg.hessian(plain),
    "elementwise_grad": fg.elementwise_grad(stays),
    "nth_derivative": fg.nth_derivative(stays, 3),
    "jit": fg.jit(plain, inline=True),
    "checkpoint": fg.grad(fg.checkpoint(plain, budget_bytes=100)),
    "no_gradient": fg.grad(fg.no_gradient("a", order=2)(plain)),
    "ablate_stops": fg.grad(fg.ablate_stops(plain)),
    "hvp": partial(fg.hvp, plain, (X,)),
    "jvp": partial(fg.jvp, plain, (X,)),
    "grad of jit": fg.grad(fg.jit(plain)),
    "jit of grad": fg.jit(fg.grad(plain)),
    "jit of grad of jit": fg.jit(fg.grad(fg.jit(plain))),
    "vmap of jit of hessian": fg.vmap(fg.jit(fg.hessian(plain)), in_axes=None, axis_size=2),
    "jacfwd of jacrev of jit": fg.jacfwd(fg.jacrev(fg.jit(stays))),
    "grad of a decorated function": fg.grad(pickled.jitted),
    "jit of a partial": fg.jit(partial(np.multiply, 3.0)),
    "vjp": fg.vjp(stays, X)[1],
    "linearize": fg.linearize(stays, X)[1],
    "linearize of jit": fg.linearize(fg.jit(stays), X)[1],
    "linear_transpose": fg.linear_transpose(partial(np.multiply, 3.0), X),
    **{f.__name__: f for f in pickled.DECORATED},
}  # fmt: skip


def numbers(f, name):
    given = ((X,),) if name in ("hvp", "jvp") else (X,)
    return pytree.leaves(f(*given))


def agree(loaded, f, name):
    for a, b in zip(numbers(loaded, name), numbers(f, name), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_pickles(name, pickler):
    f = VERBS[name]
    before = pickler.loads(pickler.dumps(f))
    numbers(f, name)  # which fills caches
    after = pickler.loads(pickler.dumps(f))
    for loaded in (before, after, pickle.loads(pickler.dumps(after)), copy.deepcopy(f)):
        agree(loaded, f, name)


@pytest.mark.parametrize("name", ["own", "clipped", "outside"])
def test_loaded_rules_are_the_ones_that_were_given(name):
    f = getattr(pickled, name)
    loaded = pickle.loads(pickle.dumps(f))
    expected = {"own": [3.0] * 3, "clipped": [1.0] * 3, "outside": [7.0] * 3}[name]
    np.testing.assert_array_equal(fg.grad(loaded)(X), expected)


def test_a_pickled_map_holds_no_function():
    local = lambda x: np.sort(x * x) * x[0]  # noqa: E731
    out, pullback = fg.vjp(local, X)
    _, pushforward = fg.linearize(local, X)
    for linear in (pullback, pushforward):
        loaded = pickle.loads(pickle.dumps(linear))
        np.testing.assert_array_equal(pytree.leaves(loaded(out)), pytree.leaves(linear(out)))


@pytest.mark.parametrize("unconnected", ["zero", "none"])
def test_a_pickled_pullback_knows_trees_and_what_is_not_reached(unconnected):
    def f(tree, n):
        return {"a": tree["x"] * n, "n": n}

    tree = {"x": X, "y": 2.0}
    out, pullback = fg.vjp(f, tree, 3, unconnected=unconnected)
    loaded = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(pullback))))
    ct = {"a": np.ones(3), "n": 0}
    assert pytree.structure(loaded(ct)) == pytree.structure(pullback(ct))
    for a, b in zip(pytree.leaves(loaded(ct)), pytree.leaves(pullback(ct)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert out["n"] == 3


def test_a_pickled_linear_map_refuses_what_it_refused():
    _, pushforward = fg.linearize(lambda x, n: x * n, X, 2)
    loaded = pickle.loads(pickle.dumps(pushforward))
    np.testing.assert_array_equal(loaded(X, None), 2 * X)
    with pytest.raises(fg.errors.NonDifferentiableInputError, match="with respect to n"):
        loaded(X, 1)


@pytest.mark.parametrize("make", [fg.grad, fg.jit, fg.value_and_grad, fg.hessian, fg.checkpoint])
def test_cloudpickle_takes_lambdas_and_closures(make):
    scale = 3.0
    f = make(lambda x: np.sum(scale * x**2))
    for nested in (f, fg.jit(f), fg.jit(fg.grad(lambda x: np.sum(pytree.leaves(f(x))[-1] ** 2)))):
        agree(pickle.loads(cloudpickle.dumps(nested)), nested, "")


def test_rules_of_session_functions_that_name_the_function_itself():
    @fg.custom_jvp
    def f(x):
        return np.sin(x)

    @f.defjvp
    def rule(primals, tangents):
        return f(*primals), 5.0 * tangents[0]

    for loaded in (pickle.loads(cloudpickle.dumps(f)), pickle.loads(cloudpickle.dumps(fg.jit(f)))):
        assert fg.grad(loaded)(1.0) == 5.0
        assert loaded(1.0) == np.sin(1.0)


def test_a_decorated_function_is_pickled_by_its_name():
    for f in pickled.DECORATED:
        data = pickle.dumps(f)
        assert len(data) < 200 and b"pickled" in data
    loaded = pickle.loads(pickle.dumps(pickled.jitted))
    loaded(X)
    misses = pickled.jitted.cache_info().misses
    pickle.loads(pickle.dumps(pickled.jitted))(X)
    assert pickled.jitted.cache_info().misses == misses  # the module's own cache
    loaded.cache_clear()
    assert pickled.jitted.cache_info().currsize == 0


def test_methods():
    loaded = pickle.loads(pickle.dumps(pickled.Model.method))
    assert loaded(2.0) == 10.0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pickled.Model.mapped))(X), X * X)


class Scaled:
    factor = 3.0

    @fg.jit(static_argnums=0)
    def times(self, x):
        return self.factor * x

    @fg.grad
    def power(self_x):
        return self_x**3

    @fg.elementwise_grad
    def slope(x):
        return x**2


def test_verbs_bind_as_methods():
    assert Scaled().times(2.0) == 6.0
    np.testing.assert_array_equal(Scaled.slope(X), 2 * X)


def test_attributes_and_names_of_the_function_remain():
    def f(x):
        """The docs."""
        return x

    f.tag = "mine"
    for verb in (fg.grad, fg.jit, fg.vmap, fg.checkpoint, fg.make_jaxpr, fg.custom_vjp):
        made = verb(f)
        assert (made.__name__, made.__doc__, made.tag) == ("f", "The docs.", "mine")
        assert made.__wrapped__ is f


def test_a_graph_maker_pickles():
    make = pickle.loads(pickle.dumps(fg.make_jaxpr(plain, static_argnums=())))
    assert make(X).show() == fg.make_jaxpr(plain)(X).show()


# --- other processes ---------------------------------------------------------------------------

SCRIPT = """
import multiprocessing, sys
import numpy as np
import fungrad as fg
import pickled

@fg.jit
def loss(x):
    return np.sum(x ** 2)

def linear(x):
    return np.sum(x * 3.0)

@fg.custom_jvp
def own(x):
    return np.sum(np.sin(x))

@own.defjvp
def rule(primals, tangents):
    return own(*primals), 4.0 * np.sum(tangents[0])

slope = fg.grad(loss)
work = [loss, slope, fg.jit(fg.value_and_grad(linear)), fg.hessian(loss), fg.jit(fg.grad(own)),
        fg.vmap(fg.jit(np.sin)), fg.vjp(np.sin, pickled.X)[1], fg.linearize(np.sin, pickled.X)[1],
        *pickled.DECORATED]

def call(f):
    return fg.trees.leaves(f(pickled.X))

if __name__ == "__main__":
    if sys.argv[1] == "joblib":
        from joblib import Parallel, delayed
        work.append(fg.jit(fg.grad(lambda x: np.sum(x ** 3))))
        found = Parallel(n_jobs=2)(delayed(fg.trees.leaves)(delayed_) for delayed_ in
                                   Parallel(n_jobs=2)(delayed(f)(pickled.X) for f in work))
    else:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.map(call, work)
    for f, leaves in zip(work, found, strict=True):
        for a, b in zip(leaves, call(f), strict=True):
            np.testing.assert_array_equal(a, b)
    print(len(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "joblib"])
def test_other_processes(how, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), how],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(16 + (how == "joblib"))
