"""Arguments that a transform cannot take are refused by name: structures, axes, choices, rules."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import HERE, X, raised

import fungrad as fg
import fungrad.testing
from fungrad import errors
from fungrad.primitives.primitive import general, primitives


@pytest.fixture
def clean():
    """Restores the registry of primitives after a test."""
    known = dict(primitives)
    yield
    primitives.clear()
    primitives.update(known)


# --- structures and axes --------------------------------------------------------------


def test_the_cotangent_of_a_pullback():
    _, pullback = fg.vjp(lambda x: {"a": x, "b": (x, x)}, 1.0)
    raised(
        errors.StructureMismatchError,
        lambda: pullback({"a": 1.0, "b": (1.0,)}),
        "cotangent",
        "['b']",
    )
    raised(
        errors.StructureMismatchError,
        lambda: pullback({"a": X, "b": (1.0, 1.0)}),
        "f64[]",
        "f64[3]",
    )


def test_the_tangents_of_jvp():
    raised(
        errors.StructureMismatchError,
        lambda: fg.jvp(np.sin, (1.0,), ()),
        "1 primals, but 0 tangents",
    )
    raised(
        errors.StructureMismatchError,
        lambda: fg.jvp(lambda t: t[0], ((1.0, 2.0),), (1.0,)),
        "tangent",
    )
    raised(
        errors.StructureMismatchError,
        lambda: fg.jvp(np.sin, (X,), (np.ones(4),)),
        "f64[3]",
        "f64[4]",
    )
    raised(errors.StructureMismatchError, lambda: fg.jvp(np.sin, (1.0,), (1j,)), "omplex")
    raised(errors.ArgumentError, lambda: fg.jvp(np.sin, X, X), "fg.jvp(f, (x,), (v,))", HERE)


def test_axes_of_vmap():
    raised(
        errors.BatchAxisError,
        lambda: fg.vmap(np.add)(np.ones(3), np.ones(4)),
        "different sizes",
        "3:",
        "4:",
    )
    raised(
        errors.BatchAxisError,
        lambda: fg.vmap(lambda x: x)(1.0),
        "axis 0",
        "shape ()",
        "None in in_axes",
    )
    raised(
        errors.BatchAxisError, lambda: fg.vmap(lambda x: x, in_axes=2)(X), "axis 2", "shape (3,)"
    )
    raised(
        errors.BatchAxisError,
        lambda: fg.vmap(lambda x: x, in_axes=None)(X),
        "no mapped argument",
        "axis_size",
    )
    raised(
        errors.BatchAxisError,
        lambda: fg.vmap(lambda x: x, out_axes=None)(X),
        "out_axes is None",
        "differs",
    )
    raised(errors.BatchAxisError, lambda: fg.vmap(lambda x: x, out_axes=3)(X), "out_axes=3")
    raised(errors.BatchAxisError, lambda: fg.vmap(lambda x: x, in_axes="0")(X), "integers or None")
    raised(errors.BatchAxisError, lambda: fg.vmap(np.sin, X), "fg.vmap(f)(x)", HERE)
    raised(
        errors.BatchAxisError,
        lambda: fg.vmap(lambda x: x, in_axes=(0, 0))(X),
        "in_axes=(0, 0) has 2 entries",
    )


def test_shapes_found_while_staging():
    raised(
        errors.ShapeError,
        lambda: fg.make_jaxpr(np.add)(np.ones(3), np.ones(4)),
        "`add`",
        "(3,)",
        "(4,)",
    )


# --- arguments ------------------------------------------------------------------------


def f_of_two(x, y):
    return x * y


@pytest.mark.parametrize("argnums", [2, -3, "z", (0, 0), (), (0, 5)])
def test_argnums(argnums):
    raised(errors.ArgumentError, lambda: fg.grad(f_of_two, argnums=argnums)(1.0, 2.0), "argnums")


def test_choices():
    raised(
        errors.ArgumentError,
        lambda: fg.grad(f_of_two, unconnected="maybe"),
        "'zero', 'none', 'error'",
    )
    raised(
        errors.ArgumentError, lambda: fg.grad(f_of_two, nondiff="maybe"), "'error', 'none', 'zero'"
    )


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f: fg.grad(f, has_aux=True)(1.0),
        lambda f: fg.vjp(f, 1.0, has_aux=True),
        lambda f: fg.jvp(f, (1.0,), (1.0,), has_aux=True),
        lambda f: fg.linearize(f, 1.0, has_aux=True),
        lambda f: fg.jacrev(f, has_aux=True)(1.0),
        lambda f: fg.jacfwd(f, has_aux=True)(1.0),
    ],
)
def test_has_aux_without_a_pair(differentiate):
    raised(errors.ArgumentError, lambda: differentiate(lambda x: x), "pair (output, aux)", "Tracer")


def test_holomorphic():
    raised(
        errors.ArgumentError,
        lambda: fg.grad(lambda z: z * z, holomorphic=True)(1.0),
        "complex inputs",
        "z",
    )
    raised(errors.ArgumentError, lambda: fg.grad(np.abs, holomorphic=True)(1j), "complex output")


def test_staging_something_that_is_no_array():
    raised(
        errors.ArgumentError,
        lambda: fg.make_jaxpr(lambda x, s: x)(1.0, "text"),
        "s is a str",
        "static_argnums",
    )
    raised(
        errors.ArgumentError,
        lambda: fg.make_jaxpr(lambda x: {"out": "text"})(1.0),
        "str at ['out']",
    )


# --- rules ----------------------------------------------------------------------------


def test_a_missing_rule(clean):
    bare = general("bare", eval=lambda x, y: x * y, type=lambda x, y: x)
    raised(
        errors.MissingRuleError,
        lambda: fg.grad(lambda y: bare(2.0, y))(3.0),
        "`bare`",
        "argument 1",
        "vjp=",
        "cuts=True",
    )
    raised(
        errors.MissingRuleError,
        lambda: fg.jvp(lambda y: bare(2.0, y), (3.0,), (1.0,)),
        "`bare`",
        HERE,
    )
    assert fungrad.testing.missing_rules(__name__) == [("bare", "batch"), ("bare", "derivative")]
    np.testing.assert_array_equal(fg.vmap(bare, in_axes=(0, None))(X, 2.0), 2.0 * X)


def test_a_primitive_declared_twice(clean):
    general("twice", eval=np.sin, type=lambda x: x)
    raised(
        errors.ArgumentError,
        lambda: general("twice", eval=np.sin, type=lambda x: x),
        "'twice'",
        __name__,
    )


def test_a_primitive_is_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        next(iter(primitives.values())).name = "other"


def test_arrays_with_an_arithmetic_of_their_own_are_refused():
    """Their products would be lost without a word."""
    x = np.eye(2).view(np.matrix)
    name = type(x).__name__
    for call in (
        lambda: fg.jit(np.sum)(x),
        lambda: fg.grad(np.sum)(x),
        lambda: fg.jvp(np.sin, (x,), (np.ones(x.shape),)),
        lambda: fg.vmap(np.sum)(x),
        lambda: fg.jacobian(lambda tree: np.sin(tree["x"]))({"x": x}),
        lambda: fg.make_jaxpr(np.sin)(x),
        lambda: fg.linearize(np.sin, x),
    ):
        with pytest.raises(errors.ArgumentError, match=f"A {name} was given"):
            call()
    for f in (lambda w: np.sum(w * x), lambda w: np.sum(np.add(w, x))):
        for run in (fg.grad(f), fg.jit(f)):
            with pytest.raises(
                errors.ArgumentError, match=rf"A {name} was given to fungrad at .*py:\d+"
            ):
                run(2.0)
