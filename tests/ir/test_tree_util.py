"""Trees for users: JAX's names, vectors of trees, trees in two parts, functions as trees."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fungrad as fg
from fungrad import tree_util
from fungrad.errors import ArgumentError, StructureMismatchError

TREES = st.recursive(
    st.integers() | st.floats(-1e6, 1e6) | st.none() | st.text(max_size=3),
    lambda t: (
        st.lists(t, max_size=3)
        | st.tuples(t, t)
        | st.dictionaries(st.text(max_size=2), t, max_size=3)
    ),
    max_leaves=8,
)


class Point(NamedTuple):
    x: Any
    y: Any


@pytest.mark.slow
@given(TREES)
def test_flatten_and_unflatten(tree):
    leaves, treedef = fg.tree_flatten(tree)
    assert fg.tree_unflatten(treedef, leaves) == tree
    assert fg.tree_leaves(tree) == leaves and fg.tree_structure(tree) == treedef
    assert fg.tree_map(lambda x: x, tree) == tree
    with_paths, _ = fg.tree_flatten_with_path(tree)
    assert [leaf for _, leaf in with_paths] == leaves
    assert len({path for path, _ in with_paths}) == len(leaves)
    assert pickle.loads(pickle.dumps(treedef)) == treedef


@pytest.mark.slow
@given(TREES)
def test_partition_and_combine(tree):
    for predicate in (lambda x: isinstance(x, float), lambda x: True, lambda x: False):
        selected, rest = fg.partition(tree, predicate)
        assert fg.combine(selected, rest) == tree
        assert all(predicate(x) for x in fg.tree_leaves(selected))
        assert not any(predicate(x) for x in fg.tree_leaves(rest))


def test_map_over_several_trees():
    tree = {"a": 1, "b": (2, None)}
    assert fg.tree_map(lambda x, y: x + y, tree, tree) == {"a": 2, "b": (4, None)}
    found = fg.tree_map(lambda x, y: (x, y), tree, {"a": [1, 2], "b": ({"c": 3}, None)})
    assert found == {"a": (1, [1, 2]), "b": ((2, {"c": 3}), None)}
    pairs = fg.tree_map(len, {"a": (1, 2), "b": (3,)}, is_leaf=lambda x: isinstance(x, tuple))
    assert pairs == {"a": 2, "b": 1}
    assert fg.tree_map(str, None, is_leaf=lambda x: x is None) == "None"
    assert fg.tree_map(lambda x, y: x + y, Point(1, 2), Point(3, 4)) == Point(4, 6)
    for other in ({"a": 1}, {"a": 1, "b": (2,)}, {"a": 1, "b": [2, None]}, 3):
        with pytest.raises(StructureMismatchError):
            fg.tree_map(lambda x, y: x, tree, other)


def test_reduce_all_transpose_and_paths():
    assert fg.tree_reduce(lambda x, y: x + y, {"a": 1, "b": (2, 3)}) == 6
    assert fg.tree_reduce(lambda x, y: x + y, (), 5) == 5
    assert fg.tree_all({"a": True, "b": [1]}) and not fg.tree_all((1, 0)) and fg.tree_all(())
    inner, outer = fg.tree_structure({"u": 0, "v": 0}), fg.tree_structure([0, 0, 0])
    turned = fg.tree_transpose(outer, inner, [{"u": i, "v": -i} for i in range(3)])
    assert turned == {"u": [0, 1, 2], "v": [0, -1, -2]}
    assert fg.tree_map_with_path(lambda p, x: p, {"a": [1, Point(2, 3)]}) == {
        "a": ["['a'][0]", Point("['a'][1].x", "['a'][1].y")]
    }


def test_registration_by_functions_and_by_methods():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    fg.register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xs: Pair(*xs))
    slope = fg.grad(lambda p: p.x * p.y)(Pair(2.0, 3.0))
    assert (slope.x, slope.y) == (3.0, 2.0)
    with pytest.raises(ArgumentError, match="already"):
        fg.register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xs: Pair(*xs))

    @fg.register_pytree_node_class
    class Scaled:
        def __init__(self, x, scale):
            self.x, self.scale = x, scale

        def tree_flatten(self):
            return (self.x,), self.scale

        @classmethod
        def tree_unflatten(cls, scale, children):
            return cls(*children, scale)

    found = fg.tree_map(lambda x: 2 * x, Scaled(3.0, "double"))
    assert (found.x, found.scale) == (6.0, "double")


def test_dataclasses():
    @functools.partial(fg.register_dataclass, meta_fields=["name"])
    @dataclasses.dataclass(frozen=True)
    class Layer:
        weight: Any
        name: str
        size: int = dataclasses.field(default=3, metadata={"static": True})

    layer = Layer(np.ones(2), "first")
    ((path, leaf),) = fg.tree_flatten_with_path(layer)[0]
    assert path == ".weight" and leaf is layer.weight
    slope = fg.grad(lambda m: np.sum(m.weight**2))(layer)
    assert isinstance(slope, Layer) and slope.name == "first" and slope.size == 3
    np.testing.assert_array_equal(slope.weight, [2.0, 2.0])
    assert fg.tree_structure(layer) != fg.tree_structure(Layer(np.ones(2), "second"))
    with pytest.raises(ArgumentError, match="fields"):

        @functools.partial(fg.register_dataclass, data_fields=["x"])
        @dataclasses.dataclass
        class Wrong:
            x: float
            y: float


# --- vectors


def test_ravel_and_unravel():
    tree = {"w": np.arange(4.0).reshape(2, 2), "b": np.float32(7), "n": 3, "s": 2.0}
    vector, unravel = fg.ravel_pytree(tree)
    np.testing.assert_array_equal(vector, [7, 3, 2, 0, 1, 2, 3])
    back = unravel(vector)
    for x, y in zip(fg.tree_leaves(back), fg.tree_leaves(tree), strict=True):
        assert np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(x, y)
    single, _ = fg.ravel_pytree([np.ones(2, np.float32), np.zeros((0, 3), np.float32)])
    assert single.dtype == np.float32 and single.shape == (2,)
    mixed, unravel = fg.ravel_pytree((1.0, 2j))
    assert mixed.dtype == np.complex128 and unravel(mixed) == (1.0, 2j)
    empty, unravel = fg.ravel_pytree({"a": None})
    assert empty.shape == (0,) and unravel(empty) == {"a": None}
    with pytest.raises(StructureMismatchError, match="length 7"):
        fg.ravel_pytree(tree)[1](np.zeros(3))
    with pytest.raises(ArgumentError, match="partition"):
        fg.ravel_pytree({"name": "net"})


def test_vectors_can_be_differentiated_batched_and_staged():
    tree = {"w": np.arange(4.0).reshape(2, 2), "b": 2.0}
    vector, unravel = fg.ravel_pytree(tree)

    def loss(v):
        p = unravel(v)
        return np.sum(np.sin(p["w"])) * p["b"]

    expected, _ = fg.ravel_pytree(fg.grad(lambda p: np.sum(np.sin(p["w"])) * p["b"])(tree))
    for f in (fg.grad(loss), fg.jit(fg.grad(loss)), fg.jacfwd(loss)):
        np.testing.assert_allclose(f(vector), expected)
    through = fg.grad(lambda p: np.sum(fg.ravel_pytree(p)[0] ** 2))(tree)
    np.testing.assert_allclose(through["w"], 2 * tree["w"])
    batch = fg.vmap(unravel)(np.stack([vector, vector]))
    assert batch["w"].shape == (2, 2, 2) and batch["b"].shape == (2,)
    assert fg.hessian(loss)(vector).shape == (5, 5)


# --- models of all kinds of leaves

MODEL = {
    "layers": [
        {"w": np.ones((2, 2)), "act": np.tanh, "units": 2},
        {"w": 2.0, "act": np.sin, "units": 1},
    ],
    "name": "net",
    "steps": 3,
    "mask": np.array([True, False]),
    "counts": np.array([1, 2]),
    "none": None,
}


def apply(model, x):
    for layer in model["layers"]:
        x = layer["act"](layer["w"] * x) * layer["units"]
    return np.sum(x * model["counts"] * model["mask"]) / model["steps"]


def test_models_with_other_leaves_are_differentiated_without_ceremony():
    x = np.array([0.3, 0.4])
    slope = fg.grad(apply, nondiff="none")(MODEL, x)
    assert slope["name"] is None and slope["counts"] is None and slope["layers"][0]["act"] is None
    params, static = fg.partition(MODEL)
    assert fg.tree_flatten_with_path(params)[0][0][0] == "['layers'][0]['w']"
    loss = lambda p: apply(fg.combine(p, static), x)  # noqa: E731
    parted = fg.grad(loss)(params)
    assert fg.tree_structure(parted) == fg.tree_structure(slope)
    for found, expected in zip(fg.tree_leaves(slope), fg.tree_leaves(parted), strict=True):
        np.testing.assert_array_equal(found, expected)
    step = fg.tree_map(lambda p, g: p - 0.1 * g, params, parted)
    assert apply(fg.combine(step, static), x) < apply(MODEL, x)
    np.testing.assert_allclose(fg.jit(loss)(params), apply(MODEL, x))
    value, slope = fg.value_and_grad(apply, nondiff="none")(MODEL, x)
    assert value == apply(MODEL, x)


def test_partition_by_a_tree_of_booleans():
    tree = {"a": (1.0, 2.0), "b": {"c": 3.0}}
    assert fg.partition(tree, {"a": True, "b": False}) == (
        {"a": (1.0, 2.0), "b": {"c": None}},
        {"a": (None, None), "b": {"c": 3.0}},
    )
    with pytest.raises(StructureMismatchError, match="different shapes"):
        fg.combine((1, None), (None, 2, 3))
    with pytest.raises(ArgumentError):
        fg.combine()


def test_partial_is_a_tree():
    f = fg.Partial(lambda w, x, b=0.0: np.sum(w * x + b), np.ones(2), b=3.0)
    assert f(2.0) == 10.0
    assert len(fg.tree_leaves(f)) == 2
    slope = fg.grad(lambda f, x: f(x))(f, 2.0)
    assert isinstance(slope, fg.Partial)
    np.testing.assert_array_equal(slope.args[0], [2.0, 2.0])
    assert slope.keywords["b"] == 2.0
    assert fg.jit(lambda f, x: f(x))(f, 2.0) == 10.0
    assert [path for path, _ in fg.tree_flatten_with_path(f)[0]] == [".args[0]", ".keywords['b']"]


def test_what_a_structure_says_of_itself():
    tree = {"a": (1.0, 2.0), "b": None, "c": [3.0]}
    treedef = fg.tree_structure(tree)
    assert (treedef.num_leaves, treedef.num_nodes) == (3, 7)
    assert treedef.node_data() == (dict, ("a", "b", "c"))
    assert fg.tree_structure(1.0).node_data() is None
    parts = treedef.flatten_up_to({"a": ([1], {"x": 2}), "b": None, "c": [None]})
    assert parts == [[1], {"x": 2}, None]
    with pytest.raises(StructureMismatchError, match="another structure"):
        treedef.flatten_up_to({"a": [1, 2], "b": None, "c": [3]})
    inner = fg.tree_structure((0, 0))
    composed = treedef.compose(inner)
    assert composed == fg.tree_structure(fg.tree_map(lambda x: (x, x), tree))
    assert fg.tree_structure(0).compose(inner) == inner == inner.compose(fg.tree_structure(0))


def test_a_structure_is_walked_from_the_leaves_up():
    tree = {"a": (1, 2), "b": [3], "c": None}
    leaves, treedef = fg.tree_flatten(tree)
    seen = []

    def node(values, data):
        seen.append(data[0])
        return sum(values)

    assert treedef.walk(node, lambda x: 10 * x, leaves) == 60
    assert treedef.walk(node, None, leaves) == 6
    assert seen[:4] == [tuple, list, type(None), dict]


def test_transpose_finds_the_inner_structure():
    outer = fg.tree_structure([0, 0])
    tree = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert fg.tree_transpose(outer, None, tree) == {"a": [1, 3], "b": [2, 4]}
    with pytest.raises(StructureMismatchError, match="give inner_treedef"):
        fg.tree_transpose(fg.tree_structure([]), None, [])


def test_all_leaves():
    assert tree_util.all_leaves([1.0, "text", np.ones(2)]) and tree_util.all_leaves([])
    assert not tree_util.all_leaves([1.0, None])
    assert tree_util.all_leaves([1.0, (2.0,)], is_leaf=lambda x: isinstance(x, tuple))


def test_children_with_keys():
    class Model:
        def __init__(self, weight, name, order):
            self.weight, self.name, self.order = weight, name, order

    tree_util.register_pytree_with_keys(
        Model,
        lambda m: (((".weight", m.weight), (m.order, m.weight)), m.name),
        lambda name, children: Model(children[0], name, 0),
    )
    model = Model({"w": 2.0}, "first", 7)
    paths = [path for path, _ in fg.tree_flatten_with_path(model)[0]]
    assert paths == [".weight['w']", "[7]['w']"]
    gradient = fg.grad(lambda m, x: m.weight["w"] * x)(model, 5.0)
    assert gradient.weight["w"] == 5.0 and gradient.name == "first"
    assert fg.jit(lambda m, x: m.weight["w"] * x)(model, 5.0) == 10.0
    with pytest.raises(fg.errors.NonDifferentiableInputError, match=r"m\.weight\['w'\]"):
        fg.grad(lambda m: 1.0)(Model({"w": 2}, "first", 7))


def test_static_trees():
    @tree_util.register_static
    class Kind(str):
        pass

    traced = []

    @fg.jit
    def f(x, y, kind):
        traced.append(kind)
        return x + y if kind == "add" else x - y

    assert f(1.0, 2.0, Kind("add")) == 3.0 == f(5.0, -2.0, Kind("add"))
    assert f(1.0, 2.0, Kind("sub")) == -1.0 and traced == ["add", "sub"]
    assert fg.grad(f)(1.0, 2.0, Kind("sub")) == 1.0
