"""Trees are taken apart and put together again; structures compare, hash, pickle and name
their leaves.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fungrad as fg
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.support import pytree

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object


nested = st.recursive(
    st.one_of(st.floats(allow_nan=False), st.integers(), st.text(max_size=2), st.none()),
    lambda children: st.one_of(
        st.lists(children, max_size=3),
        st.tuples(children, children),
        st.dictionaries(st.text(max_size=2), children, max_size=3),
        st.builds(Point, children, children),
        st.builds(Layer, children, children),
        st.builds(Frozen, children),
        st.dictionaries(st.integers(), children, max_size=2).map(OrderedDict),
    ),
    max_leaves=12,
)


@given(nested)
def test_a_tree_is_rebuilt_from_its_leaves(tree):
    leaves, treedef = pytree.flatten(tree)
    again = pytree.unflatten(treedef, leaves)
    assert again == tree and type(again) is type(tree)
    assert pytree.flatten(again) == (leaves, treedef)
    assert len(leaves) == treedef.leaf_count == len(pytree.paths(treedef))
    assert len(set(pytree.paths(treedef))) == len(leaves)


@pytest.mark.slow
@given(nested)
def test_structures_hash_and_pickle(tree):
    treedef = pytree.structure(tree)
    again = pickle.loads(pickle.dumps(treedef))
    assert again == treedef and hash(again) == hash(treedef)


@pytest.mark.slow
@given(nested, nested)
def test_trees_of_one_structure_can_change_leaves(left, right):
    same = pytree.structure(left) == pytree.structure(right)
    if same:
        assert pytree.unflatten(pytree.structure(left), pytree.leaves(right)) == right
    else:
        with pytest.raises(StructureMismatchError):
            pytree.match(pytree.structure(left), right, "tree")


class Both:
    """A leaf that holds two."""

    def __init__(self, a, b):
        self.pair = (a, b)


@given(nested)
def test_map_keeps_the_structure(tree):
    assert pytree.map(lambda leaf: leaf, tree) == tree
    both = pytree.map(Both, tree, tree)
    assert pytree.structure(both) == pytree.structure(tree)
    assert [leaf.pair for leaf in pytree.leaves(both)] == [(x, x) for x in pytree.leaves(tree)]


def test_none_is_a_tree_without_leaves():
    assert pytree.flatten({"a": None, "b": [None, 1]})[0] == [1]


def test_dictionaries_of_one_content_have_one_structure():
    assert pytree.structure({"a": 1, "b": 2}) == pytree.structure({"b": 3, "a": 4})
    assert pytree.leaves({"b": 2, "a": 1}) == [1, 2]
    assert pytree.structure(OrderedDict(a=1, b=2)) != pytree.structure(OrderedDict(b=1, a=2))
    assert pytree.leaves({1: "one", "a": "mixed keys"}) == ["one", "mixed keys"]


def test_a_defaultdict_keeps_its_factory():
    tree = defaultdict(list, a=1)
    again = pytree.map(lambda leaf: leaf + 1, tree)
    assert again == {"a": 2} and again.default_factory is list


def test_the_paths_of_leaves():
    tree = {"layers": [Layer(1.0, (2.0, Point(3.0, 4.0)))], "scale": Frozen(5.0)}
    assert pytree.paths(pytree.structure(tree)) == [
        "['layers'][0].weight",
        "['layers'][0].bias[0]",
        "['layers'][0].bias[1].x",
        "['layers'][0].bias[1].y",
        "['scale'].value",
    ]
    assert pytree.paths(pytree.LEAF) == [""]


def test_a_static_field_is_structure():
    assert pytree.leaves(Layer(1, 2, "a")) == [1, 2]
    assert pytree.structure(Layer(1, 2, "a")) != pytree.structure(Layer(1, 2, "b"))
    assert pytree.map(lambda leaf: -leaf, Layer(1, 2, "a")) == Layer(-1, -2, "a")


def test_registered_types():
    class Pair:
        def __init__(self, a, b, note):
            self.a, self.b, self.note = a, b, note

    pytree.register(
        Pair,
        lambda p: ((p.a, p.b), p.note),
        lambda note, children: Pair(*children, note),
        lambda note, count: (".a", ".b"),
    )
    doubled = pytree.map(lambda leaf: 2 * leaf, Pair(1, [2, 3], "note"))
    assert (doubled.a, doubled.b, doubled.note) == (2, [4, 6], "note")
    assert pytree.paths(pytree.structure(doubled)) == [".a", ".b[0]", ".b[1]"]
    with pytest.raises(ArgumentError, match="Pair is already"):
        pytree.register(Pair, lambda p: ((), None), lambda a, c: None)
    gradient = fg.grad(lambda p: p.a * p.b[0] * p.b[1])(Pair(1.0, [2.0, 3.0], "n"))
    assert (gradient.a, gradient.b, gradient.note) == (6.0, [3.0, 2.0], "n")


def test_differences_are_named():
    expected = pytree.structure({"a": [1, 2], "b": 3})
    for other, place in (
        ({"a": [1, (2,)], "b": 3}, r"\['a'\]\[1\] \(a leaf expected, tuple found\)"),
        ({"a": [1], "b": 3}, r"\['a'\] \(its keys, length"),
        ([1, 2, 3], "the root"),
        ({"a": [1, 2], "c": 3}, "the root .its keys"),
    ):
        with pytest.raises(StructureMismatchError, match=place):
            pytree.match(expected, other, "tree")
    assert pytree.match(expected, {"a": [5, 6], "b": 7}, "tree") == [5, 6, 7]


def test_the_wrong_number_of_leaves_is_refused():
    with pytest.raises(StructureMismatchError, match="has 2 leaves, but 1 were given"):
        pytree.unflatten(pytree.structure((1, 2)), [1])


def test_prefixes_are_spread_over_the_tree():
    treedef = pytree.structure(((1, {"a": 2, "b": 3}), 4))
    assert pytree.broadcast_prefix(0, treedef, "in_axes") == [0, 0, 0, 0]
    assert pytree.broadcast_prefix((None, 1), treedef, "in_axes") == [None, None, None, 1]
    assert pytree.broadcast_prefix(((0, {"a": 1, "b": None}), 2), treedef, "in_axes") == [
        0,
        1,
        None,
        2,
    ]
    with pytest.raises(StructureMismatchError, match=r"in_axes has to be a prefix.*\[0\]"):
        pytree.broadcast_prefix(((0,), 1), treedef, "in_axes")


def test_every_container_differentiates():
    for tree in (
        [2.0, 3.0],
        (2.0, 3.0),
        {"a": 2.0, "b": 3.0},
        OrderedDict(b=2.0, a=3.0),
        Point(2.0, 3.0),
        Layer(2.0, 3.0),
        Layer(Frozen(2.0), [None, 3.0]),
        defaultdict(float, a=2.0, b=3.0),
    ):
        gradient = fg.grad(lambda t: np.multiply(*pytree.leaves(t)) ** 2)(tree)
        assert pytree.structure(gradient) == pytree.structure(tree)
        assert pytree.leaves(gradient) == [36.0, 24.0]


def test_deep_trees_of_many_leaves():
    tree = 1.0
    for _ in range(200):
        tree = [tree, 1.0]
    assert len(pytree.leaves(fg.grad(lambda t: sum(pytree.leaves(t)))(tree))) == 201


def test_a_type_that_was_a_leaf_may_be_registered():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pair = Pair(1.0, 2.0)
    assert pytree.flatten([pair])[0] == [pair]
    pytree.register(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    assert pytree.flatten([pair])[0] == [1.0, 2.0]


SWAPPED = {"b": 2.0, "a": 1.0}
"""A dict whose keys are not sorted."""
ORDERED = {"a": 1.0, "b": 2.0}


def test_leaves_of_dicts_are_in_the_order_of_keys_and_dicts_keep_theirs():
    leaves, treedef = pytree.flatten([SWAPPED, defaultdict(float, SWAPPED)])
    assert leaves == [1.0, 2.0, 1.0, 2.0]
    assert treedef == pytree.structure([ORDERED, defaultdict(float, ORDERED)])
    for known in (treedef, pickle.loads(pickle.dumps(treedef))):
        rebuilt = known.unflatten(leaves)
        assert [list(d.items()) for d in rebuilt] == [[("b", 2.0), ("a", 1.0)]] * 2
    assert fg.tree_util.tree_map(lambda x, y: x + y, SWAPPED, ORDERED) == {"a": 2.0, "b": 4.0}


def test_functions_read_dicts_in_their_order_under_every_transform(tmp_path):
    def f(d):
        first, second = d.values()
        return 10.0 * first + second

    def result(x):
        return {"z": x, "y": 2.0 * x}

    value, slope = fg.value_and_grad(f)(SWAPPED)
    assert value == f(SWAPPED) == 21.0
    assert list(slope.items()) == [("b", 10.0), ("a", 1.0)]
    compiled = fg.jit(f)
    nested = fg.jit(lambda pair: f(pair[0]) + f(pair[1]))
    for _ in range(2):
        assert [compiled(SWAPPED), compiled(ORDERED)] == [21.0, 12.0]
        assert [nested((SWAPPED, ORDERED)), nested((ORDERED, SWAPPED))] == [33.0, 33.0]
    assert fg.vmap(f)({"b": np.arange(2.0), "a": np.ones(2)}).tolist() == [1.0, 11.0]
    assert list(fg.jit(result)(1.0)) == list(fg.jvp(result, (1.0,), (1.0,))[1]) == ["z", "y"]

    path = tmp_path / "f.fungrad"
    fg.export(result)(1.0).save(path)
    assert list(fg.load(path)(3.0).items()) == [("z", 3.0), ("y", 6.0)]
    space = {}
    exec(fg.to_source(result, 1.0), space)
    assert list(space["result"](3.0).items()) == [("z", 3.0), ("y", 6.0)]
