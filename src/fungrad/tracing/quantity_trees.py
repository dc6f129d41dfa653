"""Arrays with units, and other subclasses of ndarray with their own arithmetic, as trees.

Such an array is a tree of one leaf, its numbers, and one for each attribute that is traced (a
mask); its class and other attributes are structure. So it may be an argument, a result or a carry.
A derivative of quantities is a quantity in the unit of the output over that of the input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from fungrad.ir.types import PYTHON_SCALARS
from fungrad.support import pytree
from fungrad.support.snapshots import snapshot
from fungrad.tracing.created_arrays import Writable, Written
from fungrad.tracing.subclass_arrays import OfTraced, has_arithmetic, is_subclass, value_of, viewed
from fungrad.tracing.trace import Tracer

T = TypeVar("T")


class Attributes:
    """The class and the attributes of an instance of a subclass of ndarray."""

    def __init__(self, array: Any) -> None:
        self.kind: Any = array.__class__
        own = snapshot(getattr(array, "__dict__", {}))
        self.traced = tuple([n for n, v in own.items() if _is_leaf(v, array)])
        self.named = {
            n: v.copy().view(np.ndarray) if type(v) in (np.ndarray, Writable) else v
            for n, v in own.items()
            if n not in self.traced
        }
        unit = getattr(array, "unit", None)
        self.unit = getattr(array, "units", None) if unit is None else unit

    def __hash__(self) -> int:
        return hash((self.kind, *sorted(self.named)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Attributes)
            and self.kind is other.kind
            and self.traced == other.traced
            and self.named.keys() == other.named.keys()
            and all(_same(value, other.named[name]) for name, value in self.named.items())
        )

    def around(self, leaves: Any) -> Any:
        """The instance with other numbers; a leaf that is no array itself."""
        leaf, *traced = leaves
        if not all(isinstance(value, (Tracer, np.ndarray, np.generic)) for value in traced):
            return tuple(leaves)  # no values, but names or axes of leaves
        if not isinstance(leaf, (Tracer, np.ndarray, np.generic, *PYTHON_SCALARS)):
            return leaf
        if self.kind.__name__ == "MaskedConstant":  # of which there is one
            return np.ma.masked
        made = viewed(self.kind, leaf if type(leaf) is Tracer else np.asarray(leaf), None)
        if self.named or traced:
            vars(made).update(self.named, **dict(zip(self.traced, traced, strict=True)))
        return made


_leaves = ContextVar("leaves", default="traced")
"""Which attributes are leaves: "all" that have an element for each of the instance's, or "none"."""


@contextlib.contextmanager
def by_example() -> Iterator[None]:
    """A context in which arrays that have one element for each of an instance's (its mask) are
    leaves, too: vmap takes them apart with it.
    """
    token = _leaves.set("all")
    try:
        yield
    finally:
        _leaves.reset(token)


def of_numbers(f: Callable[..., T], *args: Any) -> T:
    """`f(*args)`, where no attribute is a leaf: derivatives are by the numbers alone."""
    token = _leaves.set("none")
    try:
        return f(*args)
    finally:
        _leaves.reset(token)


def _is_leaf(attribute: Any, array: Any) -> bool:
    """Whether an attribute of an instance is a leaf of its tree."""
    kind, wanted = type(attribute), _leaves.get()
    if kind is Tracer or kind is Written:
        return wanted != "none"
    of_elements = kind in (np.ndarray, Writable) and attribute.shape == array.shape != ()
    return of_elements and wanted == "all"


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return np.array_equal(x, y)
    return x is y or bool(np.all(x == y))


class _InUnit:
    """The node type of a derivative: numbers times a unit."""


def _flatten(array: Any) -> tuple[Any, Any]:
    numbers = value_of(array) if isinstance(array, OfTraced) else array.view(np.ndarray)
    attributes = Attributes(array)
    return (numbers, *[vars(array)[n] for n in attributes.traced]), attributes


def _multiplied(unit: Any, children: Any) -> Any:
    (numbers,) = children
    if not isinstance(numbers, (Tracer, np.ndarray, np.generic, *PYTHON_SCALARS)):
        return numbers
    return numbers * unit


_NODE = pytree.NodeType(_flatten, Attributes.around, lambda _, n: [""] * n)
_IN_UNIT = pytree.NodeType(lambda t: ((), None), _multiplied, lambda _, n: [""] * n)
_kinds: set[type] = {_InUnit}
"""The classes of arrays that were met as trees."""


def _node_for(kind: Any) -> pytree.NodeType | None:
    if kind is _InUnit:
        return _IN_UNIT
    plain = getattr(kind, "_fungrad_plain", kind)
    if not is_subclass(plain) or not has_arithmetic(plain):
        return None
    _kinds.add(plain)
    return _NODE


pytree.node_makers.append(_node_for)


def is_quantity(treedef: pytree.TreeDef) -> bool:
    """Whether a structure is that of one array with its own arithmetic."""
    return treedef.type in _kinds


def _unit_of(treedef: pytree.TreeDef) -> Any:
    aux: Any = treedef.aux
    return aux.unit if isinstance(aux, Attributes) else aux if treedef.type is _InUnit else None


def derivative(inputs: pytree.TreeDef, output: pytree.TreeDef) -> pytree.TreeDef:
    """The structure of the derivative of one array by a tree: that of the tree, with units of the
    output over those of the inputs.
    """
    if len(_kinds) == 1:
        return inputs
    over = _unit_of(output)
    if inputs is not pytree.LEAF and not is_quantity(inputs):
        children = tuple([derivative(child, output) for child in inputs.children])
        return pytree.TreeDef(inputs.type, inputs.aux, children)
    under = _unit_of(inputs)
    if under is None and over is None:
        return pytree.LEAF
    unit = over if under is None else 1 / under if over is None else over / under
    return pytree.TreeDef(_InUnit, unit, (pytree.LEAF,))


def each_output(outputs: pytree.TreeDef) -> tuple[list[pytree.TreeDef], pytree.TreeDef]:
    """The structures of the arrays of a result, and the structure above them."""
    if outputs is pytree.LEAF or is_quantity(outputs):
        return [outputs], pytree.LEAF
    parts = [each_output(child) for child in outputs.children]
    above = pytree.TreeDef(outputs.type, outputs.aux, tuple([part[1] for part in parts]))
    return [leaf for part in parts for leaf in part[0]], above
