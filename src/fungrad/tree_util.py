"""Floor 8: trees for users: JAX's names for what `fungrad.trees` does, and what stands on it.

Also `Partial`, a function with arguments as a tree. Knows trees; knows nothing of arrays or traces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fungrad import trees
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.trees import TreeDef

Predicate = Callable[[Any], bool]


def tree_flatten(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, left to right, and its structure; `is_leaf` makes more of it leaves.

    >>> tree_flatten({"a": [1.0, (2.0, None)]})
    ([1.0, 2.0], {'a': [*, (*, None)]})
    """
    return trees.flatten(tree, is_leaf)


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with the given structure and leaves.

    >>> leaves, treedef = tree_flatten((1, [2]))
    >>> tree_unflatten(treedef, [10, 20])
    (10, [20])
    """
    return trees.unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: Predicate | None = None) -> list[Any]:
    """The leaves of a tree, left to right.

    >>> tree_leaves({"b": 2, "a": (1, None)})
    [1, 2]
    """
    return trees.leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: Predicate | None = None) -> TreeDef:
    """The structure of a tree: hashable, comparable, picklable.

    >>> tree_structure((1, 2)) == tree_structure((3, 4))
    True
    """
    return trees.structure(tree, is_leaf)


def _up_to(treedef: TreeDef, tree: Any) -> list[Any]:
    """The parts of a tree that stand where the leaves of a structure are."""
    if treedef.type is None:
        return [tree]
    parts: list[Any] = []
    top = trees.structure(tree, is_leaf=lambda x: x is not tree)
    if (
        top.type is not treedef.type
        or top.aux != treedef.aux
        or len(top.children) != len(treedef.children)
    ):
        raise StructureMismatchError(
            f"A tree has another structure than the first one: {top} where that has {treedef}."
        )
    children = trees.leaves(tree, is_leaf=lambda x: x is not tree)
    for child, part in zip(treedef.children, children, strict=True):
        parts += _up_to(child, part)
    return parts


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Predicate | None = None) -> Any:
    """Applies f to the leaves of a tree, and to what stands in their places in further trees.

    Args:
      f: a function of one leaf of `tree` and one part of each of `rest`.
      tree: a tree.
      *rest: trees that have the structure of `tree`, or have trees where it has leaves.
      is_leaf: makes more of `tree` leaves.

    Raises:
      StructureMismatchError.

    >>> tree_map(lambda x, y: x + sum(y), {"a": 1, "b": 2}, {"a": [1, 2], "b": [3]})
    {'a': 4, 'b': 5}
    """
    leaves, treedef = trees.flatten(tree, is_leaf)
    others = [_up_to(treedef, other) for other in rest]
    return trees.unflatten(treedef, [f(*xs) for xs in zip(leaves, *others, strict=True)])


_MISSING: Any = object()


def tree_reduce(
    f: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: Predicate | None = None,
) -> Any:
    """The leaves of a tree, combined from left to right by f.

    >>> tree_reduce(lambda x, y: x + y, {"a": 1, "b": (2, 3)})
    6
    """
    leaves = trees.leaves(tree, is_leaf)
    if initializer is _MISSING:
        return functools.reduce(f, leaves)
    return functools.reduce(f, leaves, initializer)


def tree_all(tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all([True, {"a": 1}]), tree_all((True, 0))
    (True, False)
    """
    return all(trees.leaves(tree, is_leaf))


def tree_transpose(outer_treedef: TreeDef, inner_treedef: TreeDef, tree: Any) -> Any:
    """A tree of trees turned inside out: outer structure of inner ones to inner of outer.

    >>> pairs = {"a": (1, 2), "b": (3, 4)}
    >>> tree_transpose(tree_structure({"a": 0, "b": 0}), tree_structure((0, 0)), pairs)
    ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})
    """
    rows = [trees.match(inner_treedef, part, "inner tree") for part in _up_to(outer_treedef, tree)]
    columns = [[row[i] for row in rows] for i in range(inner_treedef.leaf_count)]
    return trees.unflatten(
        inner_treedef, [trees.unflatten(outer_treedef, column) for column in columns]
    )


def tree_flatten_with_path(
    tree: Any, is_leaf: Predicate | None = None
) -> tuple[list[tuple[str, Any]], TreeDef]:
    """The leaves of a tree with readable paths, and its structure.

    >>> tree_flatten_with_path({"w": [1.0, 2.0]})[0]
    [("['w'][0]", 1.0), ("['w'][1]", 2.0)]
    """
    leaves, treedef = trees.flatten(tree, is_leaf)
    return list(zip(trees.paths(treedef), leaves, strict=True)), treedef


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Predicate | None = None
) -> Any:
    """As `tree_map`, where f is given the path of the leaf first.

    >>> tree_map_with_path(lambda path, x: f"{path}={x}", (1, [2]))
    ('[0]=1', ['[1][0]=2'])
    """
    paths = iter(trees.paths(trees.structure(tree, is_leaf)))
    return tree_map(lambda *xs: f(next(paths), *xs), tree, *rest, is_leaf=is_leaf)


# --- registration ---


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten_func: Callable[[Any, Sequence[Any]], Any],
) -> None:
    """Makes instances of a class trees.

    Args:
      nodetype: the class.
      flatten_func: takes an instance; returns (children, aux), aux hashable.
      unflatten_func: takes aux and children; returns an instance. The children may be any objects.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xs: Pair(*xs))
    >>> tree_leaves(Pair(1, [2]))
    [1, 2]
    """
    trees.register(nodetype, flatten_func, unflatten_func)


def register_pytree_node_class(cls: Any) -> Any:
    """A class decorator: registers a class by its methods `tree_flatten` and `tree_unflatten`.

    >>> @register_pytree_node_class
    ... class Scaled:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten(self):
    ...         return (self.x,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> tree_leaves(Scaled(3.0))
    [3.0]
    """
    trees.register(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_dataclass(
    cls: Any, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] = ()
) -> Any:
    """Makes a dataclass a tree of which some fields are structure; without it all are children.

    Args:
      cls: the dataclass. Fields with `metadata={"static": True}` are structure without being named.
      data_fields: the names of the children; by default all but `meta_fields`.
      meta_fields: the names of the fields that are structure: compared, hashable, never traced.

    Raises:
      ArgumentError: where the names are not those of the fields, or cls is registered already.

    >>> import dataclasses
    >>> @functools.partial(register_dataclass, meta_fields=["name"])
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str
    >>> tree_leaves(Layer(2.0, "first"))
    [2.0]
    """
    fields = [f.name for f in cls.__dataclass_fields__.values() if f.init]
    marked = [f.name for f in cls.__dataclass_fields__.values() if f.metadata.get("static", False)]
    static = tuple(dict.fromkeys([*meta_fields, *marked]))
    names = (
        tuple(data_fields)
        if data_fields is not None
        else tuple(n for n in fields if n not in static)
    )
    if set(names) & set(static) or set(names) | set(static) != set(fields):
        raise ArgumentError(
            f"The fields of {cls.__name__} are {fields}, but data_fields and meta_fields are "
            f"{names} and {static}."
        )

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        return [getattr(x, n) for n in names], tuple(getattr(x, n) for n in static)

    def unflatten(aux: Any, children: Sequence[Any]) -> Any:
        # Not by __init__: its checks and conversions are for users' values, not for traced ones.
        new = object.__new__(cls)
        for name, value in zip((*names, *static), (*children, *aux), strict=True):
            object.__setattr__(new, name, value)
        return new

    trees.register(cls, flatten, unflatten, lambda _, n: (f".{name}" for name in names))
    return cls


class Partial(functools.partial[Any]):
    """A `functools.partial` that is a tree: the arguments are children, the function structure.

    So a function may be passed through `jit`, `grad` and `vmap` as an argument, and its parameters
    with it.

    >>> import numpy as np, fungrad as fg
    >>> scale = Partial(np.multiply, 3.0)
    >>> fg.grad(lambda f, x: f(x))(scale, 2.0).args
    (np.float64(2.0),)
    """


trees.register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, parts: Partial(func, *parts[0], **parts[1]),
    lambda _, n: (".args", ".keywords"),
)


__all__ = [
    "Partial",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "tree_all",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
]
