"""Trees for users: JAX's names for the functions of `fungrad.support.pytree`, and more.

Also `Partial`, a function with arguments as a tree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.support import pytree
from fungrad.support.pytree import TreeDef

Predicate = Callable[[Any], bool]


def tree_flatten(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, left to right, and its structure.

    >>> tree_flatten({"a": [1.0, (2.0, None)]})
    ([1.0, 2.0], {'a': [*, (*, None)]})

    Args:
      tree: nested tuples, lists, dicts and registered classes.
      is_leaf: as for `tree_leaves`.
    """
    return pytree.flatten(tree, is_leaf)


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with the given structure and leaves.

    >>> leaves, treedef = tree_flatten((1, [2]))
    >>> tree_unflatten(treedef, [10, 20])
    (10, [20])

    Args:
      treedef: a structure, from `tree_flatten` or `tree_structure`.
      leaves: as many leaves as it has, left to right.
    """
    return pytree.unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: Predicate | None = None) -> list[Any]:
    """The leaves of a tree, left to right.

    >>> tree_leaves({"b": 2, "a": (1, None)})
    [1, 2]

    Args:
      tree: nested tuples, lists, dicts and registered classes; None has no leaf.
      is_leaf: `is_leaf(node)`, whether a container counts as a leaf.
    """
    return pytree.leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: Predicate | None = None) -> TreeDef:
    """The structure of a tree: hashable, comparable, picklable.

    >>> tree_structure((1, 2)) == tree_structure((3, 4))
    True

    Args:
      tree: nested tuples, lists, dicts and registered classes.
      is_leaf: as for `tree_leaves`.
    """
    return pytree.structure(tree, is_leaf)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Predicate | None = None) -> Any:
    """Applies f to the leaves of a tree and the corresponding parts of further trees.

    >>> tree_map(lambda x, y: x + sum(y), {"a": 1, "b": 2}, {"a": [1, 2], "b": [3]})
    {'a': 4, 'b': 5}

    Args:
      f: a function of one leaf of `tree` and one part of each of `rest`.
      tree: a tree.
      *rest: trees with the structure of `tree`, or with trees in the place of its leaves.
      is_leaf: makes more nodes of `tree` leaves.

    Raises:
      StructureMismatchError.
    """
    leaves, treedef = pytree.flatten(tree, is_leaf)
    others = [treedef.flatten_up_to(other) for other in rest]
    return pytree.unflatten(treedef, [f(*xs) for xs in zip(leaves, *others, strict=True)])


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

    Args:
      f: a function of what is combined so far, and of a leaf.
      tree: a tree.
      initializer: the first argument of the first call; by default the first leaf.
      is_leaf: as for `tree_leaves`.
    """
    leaves = pytree.leaves(tree, is_leaf)
    if initializer is _MISSING:
        return functools.reduce(f, leaves)
    return functools.reduce(f, leaves, initializer)


def tree_all(tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all([True, {"a": 1}]), tree_all((True, 0))
    (True, False)

    Args:
      tree: nested tuples, lists, dicts and registered classes.
      is_leaf: as for `tree_leaves`.
    """
    return all(pytree.leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: Predicate | None = None) -> bool:
    """Whether all items are leaves, and none is a container.

    Args:
      iterable: the items. is_leaf: as for `tree_leaves`.

    >>> all_leaves([1.0, 2.0]), all_leaves([1.0, (2.0,)])
    (True, False)
    """
    return all(pytree.structure(item, is_leaf) is pytree.LEAF for item in iterable)


def tree_transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, tree: Any) -> Any:
    """Exchanges the two levels of a tree of trees: returns an inner tree of outer trees.

    >>> pairs = {"a": (1, 2), "b": (3, 4)}
    >>> tree_transpose(tree_structure({"a": 0, "b": 0}), tree_structure((0, 0)), pairs)
    ({'a': 1, 'b': 3}, {'a': 2, 'b': 4})

    Args:
      outer_treedef: the structure of the outer tree.
      inner_treedef: that of the inner trees; None for that of the first one.
      tree: the tree of trees.
    """
    parts = outer_treedef.flatten_up_to(tree)
    if inner_treedef is None:
        if not parts:
            raise StructureMismatchError(
                f"The outer tree {outer_treedef} has no inner one: give inner_treedef."
            )
        inner_treedef = pytree.structure(parts[0])
    rows = [pytree.match(inner_treedef, part, "inner tree") for part in parts]
    columns = [[row[i] for row in rows] for i in range(inner_treedef.leaf_count)]
    return pytree.unflatten(
        inner_treedef, [pytree.unflatten(outer_treedef, column) for column in columns]
    )


def tree_flatten_with_path(
    tree: Any, is_leaf: Predicate | None = None
) -> tuple[list[tuple[str, Any]], TreeDef]:
    """The leaves of a tree with readable paths, and its structure.

    >>> tree_flatten_with_path({"w": [1.0, 2.0]})[0]
    [("['w'][0]", 1.0), ("['w'][1]", 2.0)]

    Args:
      tree: nested tuples, lists, dicts and registered classes.
      is_leaf: as for `tree_leaves`.
    """
    leaves, treedef = pytree.flatten(tree, is_leaf)
    return list(zip(pytree.paths(treedef), leaves, strict=True)), treedef


def tree_map_with_path(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Predicate | None = None
) -> Any:
    """As `tree_map`; f gets the path of the leaf as its first argument.

    >>> tree_map_with_path(lambda path, x: f"{path}={x}", (1, [2]))
    ('[0]=1', ['[1][0]=2'])

    Args:
      f: a function of a path, a leaf of `tree`, and one part of each of `rest`.
      tree: a tree. rest: trees that have the structure of `tree`, or a deeper one.
      is_leaf: as for `tree_leaves`.
    """
    paths = iter(pytree.paths(pytree.structure(tree, is_leaf)))
    return tree_map(lambda *xs: f(next(paths), *xs), tree, *rest, is_leaf=is_leaf)


# --- registration ---


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten_func: Callable[[Any, Sequence[Any]], Any],
) -> None:
    """Makes instances of a class trees.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xs: Pair(*xs))
    >>> tree_leaves(Pair(1, [2]))
    [1, 2]

    Args:
      nodetype: the class.
      flatten_func: takes an instance; returns (children, aux), aux hashable.
      unflatten_func: takes aux and children; returns an instance. The children may be any objects.
    """
    pytree.register(nodetype, flatten_func, unflatten_func)


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

    Args:
      cls: the class. `tree_flatten(self)` returns (children, aux), where aux is compared by ==; the
        classmethod `tree_unflatten(aux, children)` makes an object of them.
    """
    pytree.register(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Sequence[Any]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Makes instances of a class trees, with names of the children for paths.

    Args:
      nodetype: the class.
      flatten_with_keys: takes an instance; returns (pairs of key and child, aux), aux hashable. A
        key that is text beginning with "." or "[" is used in paths unchanged, another as `[key]`.
      unflatten_func: takes aux and children; returns an instance.
      flatten_func: accepted as in JAX; not needed here.

    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_pytree_with_keys(
    ...     Point, lambda p: (((".x", p.x), (".y", p.y)), None), lambda _, xs: Point(*xs)
    ... )
    >>> tree_flatten_with_path([Point(1, 2)])[0]
    [('[0].x', 1), ('[0].y', 2)]
    """

    def flatten(x: Any) -> tuple[Sequence[Any], Any]:
        pairs, aux = flatten_with_keys(x)
        children_with_keys = list(pairs)
        return [child for _, child in children_with_keys], (
            aux,
            tuple(_key(key) for key, _ in children_with_keys),
        )

    pytree.register(
        nodetype,
        flatten,
        lambda aux, children: unflatten_func(aux[0], children),
        lambda aux, count: aux[1],
    )


def _key(key: Any) -> str:
    return key if isinstance(key, str) and key[:1] in (".", "[") else f"[{key!r}]"


def register_pytree_with_keys_class(cls: Any) -> Any:
    """A class decorator: registers a class by `tree_flatten_with_keys` and `tree_unflatten`.

    Args:
      cls: the class. `tree_flatten_with_keys(self)` returns pairs of a name and a child, and aux;
        `tree_unflatten(aux, children)` is a classmethod.

    >>> @register_pytree_with_keys_class
    ... class Layer:
    ...     def __init__(self, w):
    ...         self.w = w
    ...     def tree_flatten_with_keys(self):
    ...         return [("w", self.w)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux, children):
    ...         return cls(*children)
    >>> tree_flatten_with_path(Layer(3.0))[0]
    [("['w']", 3.0)]
    """
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten)
    return cls


def register_static(cls: Any) -> Any:
    """A class decorator: instances are trees without leaves, all of them structure.

    `jit` traces once for each value of them, as for a static argument; they have to be hashable.

    Args:
      cls: the class.

    >>> @register_static
    ... class Kind(str):
    ...     pass
    >>> tree_leaves((1.0, Kind("sum")))
    [1.0]
    """
    pytree.register(cls, lambda x: ((), x), lambda x, _: x)
    return cls


def register_dataclass(
    cls: Any, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] = ()
) -> Any:
    """Makes a dataclass a tree some fields of which are structure; by default all are children.

    >>> import dataclasses
    >>> @functools.partial(register_dataclass, meta_fields=["name"])
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str
    >>> tree_leaves(Layer(2.0, "first"))
    [2.0]

    Args:
      cls: the dataclass. Fields with `metadata={"static": True}` are structure without being named.
      data_fields: the names of the children; by default all but `meta_fields`.
      meta_fields: the names of the fields that are structure: compared, hashable, never traced.

    Raises:
      ArgumentError: if the names are not those of the fields, or cls is registered already.
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

    pytree.register(cls, *pytree.attribute_node(cls, names, static))
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


pytree.register(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, parts: Partial(func, *parts[0], **parts[1]),
    lambda _, n: (".args", ".keywords"),
)


__all__ = [
    "Partial",
    "all_leaves",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
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
