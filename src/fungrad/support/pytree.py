"""Trees, the nested containers of arguments and results.

A tree is a leaf, or a registered container of trees: list, tuple, dict, OrderedDict, defaultdict,
None, named tuples and dataclasses out of the box (a dataclass field with `metadata={"static":
True}` is structure, not a child). `flatten` returns the leaves and a hashable `TreeDef`;
`unflatten` is its inverse.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.support.lazy import Record

Tree = Any


class NodeType(Record):
    """How one type of container is flattened and rebuilt.

    `flatten(tree)` returns (children, aux); `unflatten(aux, children)` rebuilds; `keys(aux, n)`
    names the children in leaf paths.
    """

    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]]
    unflatten: Callable[[Any, Sequence[Any]], Any]
    keys: Callable[[Any, int], Iterable[str]]


class TreeDef:
    """The structure of a tree without its leaves: hashable, comparable, picklable."""

    __slots__ = ("_hash", "aux", "children", "is_flat", "leaf_count", "type")

    def __init__(self, type_: type | None, aux: Hashable, children: tuple[TreeDef, ...]) -> None:
        self.leaf_count: int
        self.type = type_
        self.aux = aux
        self.children = children
        self.leaf_count = 1 if type_ is None else sum(child.leaf_count for child in children)
        self.is_flat = all(child.type is None for child in children)
        self._hash = hash((type_, _frozen(aux), children))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TreeDef)
            and self._hash == other._hash
            and self.type is other.type
            and self.aux == other.aux
            and self.children == other.children
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_load_treedef, (self.type, self.aux, self.children))

    def __repr__(self) -> str:
        return str(unflatten(self, [_Star()] * self.leaf_count))

    def unflatten(self, leaves: Iterable[Any]) -> Tree:
        """The tree of this structure with the given leaves."""
        return unflatten(self, leaves)

    num_leaves = property(lambda self: self.leaf_count, doc="How many leaves it has.")

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves of the structure."""
        return 1 + sum(child.num_nodes for child in self.children)

    def node_data(self) -> tuple[type, Hashable] | None:
        """The type of the outermost container and its auxiliary data (keys); None of a leaf."""
        return None if self.type is None else (self.type, self.aux)

    def flatten_up_to(self, tree: Tree) -> list[Tree]:
        """The parts of a tree at the places of this structure's leaves.

        Raises:
          StructureMismatchError: if the tree has other containers.
        """
        if self.type is None:
            return [tree]
        children, top = flatten(tree, lambda x: x is not tree)
        alike = top.type is self.type and top.aux == self.aux
        if not alike or len(top.children) != len(self.children):
            raise StructureMismatchError(
                f"A tree has another structure than the first one: {top} where that has {self}."
            )
        parts = zip(self.children, children, strict=True)
        return [found for child, part in parts for found in child.flatten_up_to(part)]

    def compose(self, inner: TreeDef) -> TreeDef:
        """The structure with each leaf replaced by another structure."""
        if self.type is None:
            return inner
        return TreeDef(self.type, self.aux, tuple([c.compose(inner) for c in self.children]))

    def walk(
        self, f_node: Callable[..., Any], f_leaf: Callable[[Any], Any] | None, leaves: Iterable[Any]
    ) -> Any:
        """Evaluates from the leaves up: `f_node(values of the children, node_data)` of each
        container, and `f_leaf(leaf)` of each leaf, or the leaf itself if `f_leaf` is None.
        """
        rest = iter(leaves)
        if self.type is None:
            leaf = next(rest)
            return leaf if f_leaf is None else f_leaf(leaf)
        values = tuple([child.walk(f_node, f_leaf, rest) for child in self.children])
        return f_node(values, self.node_data())


class _Star:
    def __repr__(self) -> str:
        return "*"


def _frozen(aux: Hashable) -> Hashable:
    try:
        hash(aux)
    except TypeError:
        return repr(aux)
    return aux


LEAF = TreeDef(None, None, ())


def all_node_data(treedef: TreeDef) -> list[Any]:
    """The auxiliary data of all containers of a structure."""
    own = [] if treedef.type is None else [treedef.aux]
    return own + [data for child in treedef.children for data in all_node_data(child)]


def _load_treedef(type_: type | None, aux: Hashable, children: tuple[TreeDef, ...]) -> TreeDef:
    return LEAF if type_ is None else TreeDef(type_, aux, children)


def _index_keys(aux: Any, count: int) -> Iterable[str]:
    return (f"[{i}]" for i in range(count))


class Keys(tuple[Any, ...]):
    """The keys of a dict in the order of its leaves, where the dict has them in another order.

    Attributes:
      inserted: the keys in the dict's own order, which comparisons do not regard.
    """

    inserted: tuple[Any, ...]


def ordered_keys(inserted: tuple[Any, ...]) -> tuple[Any, ...]:
    """The keys of a dict in the order of its leaves: sorted, if they can be compared.

    >>> keys = ordered_keys(("b", "a"))
    >>> keys, keys.inserted, ordered_keys(("a", "b")), ordered_keys(("a", 1))
    (('a', 'b'), ('b', 'a'), ('a', 'b'), ('a', 1))
    """
    try:
        keys = tuple(sorted(inserted))
    except TypeError:  # keys of mixed types have no order: keep that of insertion
        return inserted
    if keys == inserted:
        return inserted
    keys = Keys(keys)
    keys.inserted = inserted
    return keys


def _items(keys: tuple[Any, ...], children: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """The items of a dict in its own order."""
    items = zip(keys, children, strict=True)
    if type(keys) is not Keys:
        return items
    values = dict(items)
    return [(key, values[key]) for key in keys.inserted]


def _dict_keys(aux: Any, count: int) -> Iterable[str]:
    return (f"[{key!r}]" for key in aux)


def _flatten_dict(tree: dict[Any, Any]) -> tuple[Sequence[Any], Hashable]:
    keys = ordered_keys(tuple(tree))
    return [tree[key] for key in keys], keys


def _flatten_defaultdict(tree: defaultdict[Any, Any]) -> tuple[Sequence[Any], Hashable]:
    keys = ordered_keys(tuple(tree))
    return [tree[key] for key in keys], (tree.default_factory, keys)


_registry: dict[type, NodeType] = {
    list: NodeType(lambda t: (t, None), lambda _, c: list(c), _index_keys),
    tuple: NodeType(lambda t: (t, None), lambda _, c: tuple(c), _index_keys),
    type(None): NodeType(lambda t: ((), None), lambda _, c: None, _index_keys),
    dict: NodeType(_flatten_dict, lambda keys, c: dict(_items(keys, c)), _dict_keys),
    OrderedDict: NodeType(
        lambda t: (list(t.values()), tuple(t)),
        lambda keys, c: OrderedDict(zip(keys, c, strict=True)),
        _dict_keys,
    ),
    defaultdict: NodeType(
        _flatten_defaultdict,
        lambda aux, c: defaultdict(aux[0], _items(aux[1], c)),
        lambda aux, n: _dict_keys(aux[1], n),
    ),
}


def register(
    type_: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Hashable]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
    keys: Callable[[Any, int], Iterable[str]] = _index_keys,
) -> None:
    """Makes instances of `type_` trees (JAX: `register_pytree_node`).

    `flatten(x)` returns (children, aux) with a hashable aux; `unflatten(aux, children)` rebuilds x.

    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    >>> flatten(Pair(1.0, 2.0))[0]
    [1.0, 2.0]
    """
    if type_ in _registry:
        raise ArgumentError(f"{type_.__name__} is already a registered tree type.")
    _registry[type_] = NodeType(flatten, unflatten, keys)
    _LEAF_TYPES.pop(type_, None)


node_makers: list[Callable[[type], NodeType | None]] = []
"""Functions of folders above that return the Node of a type which is not registered, or None."""


def is_container(type_: type) -> bool:
    """Whether instances of a type are trees, and not leaves.

    >>> is_container(dict), is_container(float)
    (True, False)
    """
    return _node_of(type_) is not None


def _node_of(type_: type) -> NodeType | None:
    """The Node of a type; None for leaves. Registers named tuples and dataclasses once met."""
    node = _registry.get(type_)
    if node is not None:
        return node
    if issubclass(type_, tuple) and hasattr(type_, "_fields"):
        names = tuple(type_._fields)
        node = NodeType(
            lambda t: (t, None),
            lambda _, children: type_(*children),
            lambda _, n: (f".{name}" for name in names),
        )
    elif hasattr(type_, "__dataclass_fields__"):
        node = _dataclass_node(type_)
    else:
        node = next((made for make in node_makers if (made := make(type_)) is not None), None)
    if node is not None:
        _registry[type_] = node
    return node


def _dataclass_node(type_: type) -> NodeType:
    fields = [f for f in type_.__dataclass_fields__.values() if f._field_type.name == "_FIELD"]  # type: ignore[attr-defined]
    names = tuple(f.name for f in fields if not f.metadata.get("static", False))
    static = tuple(f.name for f in fields if f.metadata.get("static", False))

    return attribute_node(type_, names, static)


def attribute_node(type_: type, names: Sequence[str], static: Sequence[str]) -> NodeType:
    """The Node of instances whose children are attributes; the `static` ones are structure."""

    def flatten_attributes(tree: Any) -> tuple[Sequence[Any], Hashable]:
        return [getattr(tree, n) for n in names], tuple(getattr(tree, n) for n in static)

    def unflatten_attributes(aux: Any, children: Sequence[Any]) -> Any:
        # Not by __init__: its checks and conversions are for users' values, not for traced ones.
        new: Any = object.__new__(type_)
        for name, value in zip((*names, *static), (*children, *aux), strict=True):
            object.__setattr__(new, name, value)
        return new

    return NodeType(
        flatten_attributes, unflatten_attributes, lambda _, n: (f".{name}" for name in names)
    )


_LEAF_TYPES: dict[type, Any] = dict.fromkeys((float, int, bool, complex, str, bytes))


def mark_leaf(type_: type, stand_in: Callable[[Any], Any] | None = None) -> None:
    """Makes a type a leaf for `flatten`, which replaces it by `stand_in(leaf)` if that is given."""
    _LEAF_TYPES[type_] = stand_in


def flatten(tree: Tree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, left to right, and its structure.

    >>> flatten({"b": (1, None), "a": [2.0]})
    ([2.0, 1], {'b': (*, None), 'a': [*]})
    """
    if _LEAF_TYPES.get(type(tree), flatten) is None:
        return [tree], LEAF
    leaves: list[Any] = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree: Tree, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeDef:
    type_ = type(tree)
    if type_ in _LEAF_TYPES or (is_leaf is not None and is_leaf(tree)):
        stand_in = _LEAF_TYPES.get(type_)
        leaves.append(tree if stand_in is None else stand_in(tree))
        return LEAF
    node = _node_of(type_)
    if node is None:
        mark_leaf(type_)
        leaves.append(tree)
        return LEAF
    children, aux = node.flatten(tree)
    type_ = getattr(type_, "_fungrad_plain", type_)  # of an instance over traced values
    return TreeDef(type_, aux, tuple([_flatten_into(c, leaves, is_leaf) for c in children]))


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Tree:
    """The tree with the given structure and leaves."""
    if treedef.type is None:
        (leaf,) = leaves
        return leaf
    items = list(leaves)
    if len(items) != treedef.leaf_count:
        raise StructureMismatchError(
            f"The structure {treedef} has {treedef.leaf_count} leaves, but {len(items)} were given."
        )
    if treedef.is_flat and (node := _registry.get(treedef.type)) is not None:
        return node.unflatten(treedef.aux, items)
    return _unflatten_from(treedef, iter(items))


def _unflatten_from(treedef: TreeDef, leaves: Any) -> Tree:
    children = [
        next(leaves) if child.type is None else _unflatten_from(child, leaves)
        for child in treedef.children
    ]
    assert treedef.type is not None
    node = _node_of(treedef.type)
    assert node is not None
    return node.unflatten(treedef.aux, children)


def structure(tree: Tree, is_leaf: Callable[[Any], bool] | None = None) -> TreeDef:
    """The structure of a tree."""
    return flatten(tree, is_leaf)[1]


def leaves(tree: Tree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, left to right."""
    return flatten(tree, is_leaf)[0]


def map(f: Callable[..., Any], tree: Tree, *rest: Tree) -> Tree:
    """Applies f to the corresponding leaves of trees of one structure.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    first, treedef = flatten(tree)
    others = [match(treedef, other, "tree") for other in rest]
    return unflatten(treedef, [f(*xs) for xs in zip(first, *others, strict=True)])


def paths(treedef: TreeDef) -> list[str]:
    """A readable path of each leaf, such as `['layers'][0].bias`.

    >>> paths(structure({"w": [1.0, 2.0]}))
    ["['w'][0]", "['w'][1]"]
    """
    if treedef.type is None:
        return [""]
    node = _node_of(treedef.type)
    assert node is not None
    keys = node.keys(treedef.aux, len(treedef.children))
    return [
        key + rest
        for key, child in zip(keys, treedef.children, strict=True)
        for rest in paths(child)
    ]


def match(treedef: TreeDef, tree: Tree, what: str) -> list[Any]:
    """The leaves of a tree that must have the given structure.

    Raises:
      StructureMismatchError: naming the first place where they differ.
    """
    leaves, other = flatten(tree)
    if other != treedef:
        raise StructureMismatchError(
            f"The {what} has another structure than expected, first at "
            f"{difference(treedef, other)}.\n  expected: {treedef}\n  got:      {other}"
        )
    return leaves


def difference(expected: TreeDef, got: TreeDef, path: str = "") -> str:
    """Where two structures first differ, in words."""
    place = path or "the root"
    if expected.type is not got.type:
        names = [t.type.__name__ if t.type else "a leaf" for t in (expected, got)]
        return f"{place} ({names[0]} expected, {names[1]} found)"
    if expected.aux != got.aux or len(expected.children) != len(got.children):
        return f"{place} (its keys, length or static fields)"
    node = _node_of(expected.type) if expected.type else None
    if node is not None:
        keys = node.keys(expected.aux, len(expected.children))
        for key, left, right in zip(keys, expected.children, got.children, strict=True):
            if left != right:
                return difference(left, right, path + key)
    return place


def broadcast_prefix(prefix: Tree, treedef: TreeDef, what: str) -> list[Any]:
    """The leaves of a prefix tree (None is one), each repeated for all leaves of its part."""
    result: list[Any] = []
    _spread(prefix, treedef, "", what, result)
    return result


def _spread(part: Tree, full: TreeDef, path: str, what: str, result: list[Any]) -> None:
    # Not a closure: a recursive one is a reference cycle, and would wait for the collector.
    node = None if part is None else _node_of(type(part))
    if node is None:
        result.extend([part] * full.leaf_count)
        return
    children, aux = node.flatten(part)
    if type(part) is not full.type or aux != full.aux or len(children) != len(full.children):
        raise StructureMismatchError(
            f"{what} has to be a prefix of the tree that it is for, but at {path or 'the root'} it "
            f"holds {part!r} where the tree has {full}."
        )
    keys = node.keys(aux, len(children))
    for key, child, rest in zip(keys, children, full.children, strict=True):
        _spread(child, rest, path + key, what, result)
