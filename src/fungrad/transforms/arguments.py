"""Arguments and results of users' functions, for all public transforms.

Finds arguments by position or name, names their leaves for messages, selects the differentiated
leaves (`nondiff=`), handles inputs that no output depends on (`unconnected=`), checks the outputs
of grad, copies results, and compares static arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from numpy import float64, ndarray

from fungrad.errors import (
    ArgumentError,
    NonDifferentiableInputError,
    NonScalarOutputError,
    StructureMismatchError,
    UnconnectedError,
)
from fungrad.ir.canonical import DOUBLE, canonical
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.primitives.primitive import zeros
from fungrad.support import pytree
from fungrad.tracing.created_arrays import holds_traced
from fungrad.tracing.quantity_trees import derivative, is_quantity, of_numbers
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.trace import (
    EVAL,
    PLAIN,
    Tracer,
    arrived,
    constant_of_kept,
    current,
    outlived,
    reaches,
    registry,
    typeof,
)


def check_differentiated(f: Any, argnums: Any, verb: str) -> None:
    """Checks that `f` is callable and that `argnums` are positions or names.

    Raises:
      ArgumentError: if they are not, as when the arguments themselves were given.
    """
    if not callable(f):
        check_function(f, verb)
    for key in argnums if isinstance(argnums, (tuple, list)) else (argnums,):
        if not isinstance(key, (int, np.integer, str)):
            raise ArgumentError(
                f"argnums of {verb} takes positions and names of arguments, and was given a "
                f"{type(key).__name__}{user_line()}. Arguments go to the function that {verb} "
                f"returns: fg.{verb}(f)(x)."
            )


def parameter_names(f: Callable[..., Any]) -> list[str]:
    """The names of a function's positional parameters; none if it has no signature."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]


def argument_name(f: Callable[..., Any], key: int | str) -> str:
    """The name of an argument in messages."""
    if isinstance(key, str):
        return key
    names = parameter_names(f)
    return names[key] if key < len(names) else f"argument {key}"


def leaf_names(f: Callable[..., Any], keys: Sequence[int | str], parts: Sequence[Any]) -> list[str]:
    """A name for each leaf of the arguments: `params['w'][0]`."""
    return [
        argument_name(f, key) + path
        for key, part in zip(keys, parts, strict=True)
        for path in pytree.paths(pytree.structure(part))
    ]


def resolve(
    f: Callable[..., Any], argnums: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[int | str]:
    """Each of `argnums` as a position in args or a key of kwargs.

    Raises:
      ArgumentError: if the call has no such argument.
    """
    wanted = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    result: list[int | str] = []
    for key in wanted:
        found: int | str = key if isinstance(key, str) else int(key)
        if isinstance(key, str) and key not in kwargs:
            names = parameter_names(f)
            found = names.index(key) if key in names else len(args)
        if isinstance(found, int):
            position = found + len(args) if found < 0 else found
            if not 0 <= position < len(args):
                raise _no_such_argument(f, argnums, key, args, kwargs)
            found = position
        result.append(found)
    if not result or len(set(result)) != len(result):
        raise ArgumentError(f"argnums={argnums!r} has to name one or more different arguments.")
    return result


def with_parts(
    keys: Sequence[int | str], parts: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call with others at the positions and keys that `resolve` found."""
    positional, named = list(args), dict(kwargs)
    for key, part in zip(keys, parts, strict=True):
        if isinstance(key, int):
            positional[key] = part
        else:
            named[key] = part
    return positional, named


def _no_such_argument(
    f: Callable[..., Any], argnums: Any, key: int | str, args: Sequence[Any], kwargs: Any
) -> ArgumentError:
    """The error for `argnums` that name an argument which the call does not have."""
    names = parameter_names(f)
    given = [argument_name(f, i) for i in range(len(args))] + sorted(kwargs)
    wanted = f"the argument {key!r}" if isinstance(key, str) else f"position {key} (the first is 0)"
    if isinstance(key, int) and 0 <= key < len(names) and names[key] in kwargs:
        cure = f" {names[key]} was given by keyword: name it, argnums={names[key]!r}."
    elif names:
        cure = f" Its parameters are {', '.join(names)}."
    else:
        cure = ""
    return ArgumentError(
        f"argnums={argnums!r} asks for {wanted}, but {describe(f)} was called with "
        f"{', '.join(given) or 'no arguments'} only{user_line()}.{cure}"
    )


def leaf_type(value: Any) -> Type | None:
    """The Type of a leaf; None if it is no array and no number.

    Raises:
      ArgumentError: if it is an array whose class has its own arithmetic.
    """
    try:
        return typeof(value)
    except ArgumentError:
        raise
    except TypeError:
        if hasattr(type(value), "refuse"):  # x[mask] of an unknown mask
            value.refuse()
        return None


def differentiable(value: Any) -> bool:
    """Whether a leaf is a floating or complex array or number."""
    kind = type(value)
    if kind is float or kind is complex:
        return True
    if kind is Tracer or issubclass(kind, (ndarray, np.generic)):
        return value.dtype.kind in "fc"
    return False


def refuse_leaf(value: Any, path: str, transform: str) -> NonDifferentiableInputError:
    """The error for a leaf that cannot be differentiated."""
    type_ = leaf_type(value)
    what = f"of dtype {type_.dtype}" if type_ is not None else f"a {type(value).__name__}"
    if type_ is None and not isinstance(value, str) and not hasattr(value, "__array__"):
        make = "Take a dict, list or tuple of arrays, or register its class (fg.tree_util)"
    else:
        make = "Make it a float (np.asarray(x, float))"
    return NonDifferentiableInputError(
        f"{transform} was asked for a derivative with respect to {path}, which is {what}. {make}, "
        "choose other arguments with argnums=, or pass nondiff='none' to get None in its place."
    )


def flat_leaves(
    tree: Any, known: Callable[[Any], Any] = canonical
) -> tuple[list[Any], pytree.TreeDef]:
    """The leaves of a user's arguments or results, made canonical by `known`; object arrays of
    tracers are stacked.
    """
    if type(tree) in PLAIN or (type(tree) is np.ndarray and tree.dtype is DOUBLE):
        return [tree], pytree.LEAF
    leaves, treedef = pytree.flatten(tree)
    for i, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray:
            dtype = leaf.dtype
            if dtype is DOUBLE:  # the usual case
                continue
            traced = dtype.char == "O" and holds_traced(leaf)
            leaves[i] = registry.operand(leaf) if traced else known(leaf)
        elif type(leaf) not in PLAIN:
            leaves[i] = known(leaf)
    return leaves, treedef


def flat_results(out: Any) -> tuple[list[Any], pytree.TreeDef]:
    """The leaves of what a user's function has returned to the current trace, and their structure.

    Where no derivative is computed, values that were kept from an ended transform are plain.

    Raises:
      LeakedTracerError: if one was kept from a transform that has ended: its derivative is lost.
    """
    leaves, treedef = ([out], pytree.LEAF) if type(out) is Tracer else flat_leaves(out, arrived)
    trace = current()
    if trace is EVAL:
        return list(map(outlived, leaves)), treedef
    for i, leaf in enumerate(leaves):
        if type(leaf) is Tracer and leaf.owner is not trace and not reaches(trace, leaf):
            leaves[i] = constant_of_kept(leaf)
    return leaves, treedef


class Flat:
    """A function of flat values that returns the leaves of `f(values)`, of the structure `out`."""

    def __init__(self, f: Callable[[Sequence[Any]], Any]) -> None:
        self.f = f
        self.out: pytree.TreeDef = pytree.LEAF

    def __call__(self, *values: Any) -> list[Any]:
        leaves, self.out = flat_results(self.f(values))
        return leaves


def results_and_aux(
    f: Callable[..., Any], out: Any, has_aux: bool
) -> tuple[list[Any], int, pytree.TreeDef, pytree.TreeDef | None]:
    """The leaves of f's output, then of aux; the number of the output's; and both structures.

    Raises:
      ArgumentError: if `has_aux` and `out` is no pair (output, aux).
    """
    if not has_aux:
        leaves, treedef = flat_results(out)
        return leaves, len(leaves), treedef, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise ArgumentError(
            f"With has_aux=True, {describe(f)} has to return a pair (output, aux), not "
            f"{type(out).__name__}."
        )
    aux_leaves, aux_def = flat_leaves(out[1], arrived)
    leaves, treedef = flat_results(out[0])
    return [*leaves, *aux_leaves], len(leaves), treedef, aux_def


def to_one_number(treedef: pytree.TreeDef) -> str:
    """Advice about an output that is not one number."""
    if treedef == pytree.structure(None):
        return "A function without `return` returns None."
    if treedef.type is tuple and len(treedef.children) == 2 and treedef.children[0] is pytree.LEAF:
        return (
            "If that is a loss with other results, pass has_aux=True: it returns the gradient of "
            "the first, and the second unchanged. Otherwise use fg.jacobian or fg.vjp."
        )
    return "Sum it (np.sum), or use fg.jacobian, or fg.vjp with a weight for each output."


def plain(trees: Iterable[Any], leaves: list[Any], key: list[Any]) -> bool:
    """Appends the leaves of trees to `leaves`, their structures and types to `key`. Returns whether
    all are plain: numbers and arrays in lists, tuples and dicts.

    A key holds the identities of dtypes, so it is stored for canonical arrays alone.
    """
    for tree in trees:
        kind = type(tree)
        if kind is np.ndarray:
            leaves.append(tree)
            dtype = tree.dtype
            if dtype is not DOUBLE:
                key.append(id(dtype))
            key.append(tree.shape)
            continue
        key.append(kind)
        if kind in SCALARS:
            leaves.append(tree)
            continue
        if kind is dict:
            names = tuple(tree)
            of_texts = not names or type(names[0]) is str
            key.append(names if of_texts else Static(names))  # 1, 1.0 and True are equal
            parts = [tree[name] for name in pytree.ordered_keys(names)]
        elif kind is list or kind is tuple:
            key.append(len(tree))
            parts = tree
        else:
            return False
        if not plain(parts, leaves, key):
            return False
    return True


def owned(values: Sequence[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """The values as arrays that nothing else writes to: views and repeated arrays are copied."""
    result = list(values)
    seen: set[int] | None = None
    for i, value in enumerate(result):
        kind = type(value)
        if kind in PLAIN:
            continue
        if kind is np.ndarray:
            if seen is None:
                seen = set(map(id, foreign))
            if id(value) in seen or value.base is not None or not value.flags.writeable:
                result[i] = value = value.copy()
            seen.add(id(value))
        elif issubclass(kind, np.ndarray):  # such as np.memmap
            result[i] = np.array(value)
    return result


def has_type(value: Any) -> bool:
    """Whether a value is an array or a number, traced or not."""
    return type(value) is Tracer or leaf_type(value) is not None


def matching(value: Any, type_: Type | None, what: str) -> Any:
    """A tangent or cotangent as an array of the value's type; None if the value can have none."""
    if type_ is None or not type_.inexact or value is None:
        return None
    if type(value) is float and not type_.shape:  # the usual case
        return type_.dtype.type(value)
    value = canonical(value)
    own = leaf_type(value)
    if own is None or own.shape != type_.shape:
        raise StructureMismatchError(
            f"A {what} has to have the type of the value that it belongs to, {type_}, but "
            f"{own or value!r} was given."
        )
    if own.dtype.kind == "c" and type_.dtype.kind != "c":
        raise StructureMismatchError(
            f"A complex {what} ({own}) was given for a real value ({type_})."
        )
    if type(value) in PYTHON_SCALARS:
        return type_.dtype.type(value)
    if own.dtype == type_.dtype:
        return value
    if own.inexact or own.dtype.kind in "iub":
        return value.astype(type_.dtype)
    raise StructureMismatchError(
        f"A {what} of dtype {own.dtype} was given for a value of type {type_}."
    )


def input_type(leaf: Any, name: str) -> Type:
    """The Type of an argument, which may also be a Type or anything with a shape and a dtype."""
    if isinstance(leaf, Type):
        return leaf
    type_ = leaf_type(leaf)
    if type_ is None and hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        type_ = Type(tuple(leaf.shape), np.dtype(leaf.dtype))
    if type_ is None or type_.dtype.kind not in "fciub":
        raise ArgumentError(
            f"The argument {name} is a {type(leaf).__name__}, not an array or a number: close over "
            "it, or name its position in static_argnums."
        )
    return type_


UNCONNECTED = ("zero", "none", "error")
NONDIFF = ("error", "none", "zero")
SCALARS = frozenset((float, int, bool, complex, np.float64, np.float32, np.int64, np.bool_))
"""The classes of numbers that `plain` takes."""


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ArgumentError if an option is none of the allowed ones."""
    if value not in allowed:
        raise ArgumentError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}.")


class Names(tuple[str, ...]):
    """Known names, in place of the function that would find them."""

    __slots__ = ()

    def __call__(self) -> list[str]:
        return list(self)


def rebuilt(leaves: Sequence[Any], treedefs: Sequence[pytree.TreeDef]) -> list[Any]:
    """One tree for each structure, from the leaves of all."""
    if len(treedefs) == 1 and treedefs[0] is pytree.LEAF:
        return list(leaves)
    result = []
    start = 0
    for treedef in treedefs:
        if treedef is pytree.LEAF:
            result.append(leaves[start])
            start += 1
            continue
        stop = start + treedef.leaf_count
        result.append(pytree.unflatten(treedef, leaves[start:stop]))
        start = stop
    return result


class Inputs:
    """The leaves of some arguments, and which of them are differentiated."""

    def __init__(
        self, parts: Sequence[Any], names: Callable[[], list[str]], transform: str, nondiff: str
    ) -> None:
        self.names = functools.partial(of_numbers, names)
        self.nondiff = nondiff
        self.leaves: list[Any] = []
        self.treedefs = []
        for part in parts:
            if type(part) in PLAIN:
                self.leaves.append(part)
                self.treedefs.append(pytree.LEAF)
                continue
            if type(part) is ndarray:
                leaves, treedef = flat_leaves(part)
            else:
                leaves, treedef = of_numbers(flat_leaves, part)
            self.leaves += leaves
            self.treedefs.append(treedef)
        self.active: list[int] = []
        for i, leaf in enumerate(self.leaves):
            if differentiable(leaf):
                self.active.append(i)
            elif nondiff == "error":
                raise refuse_leaf(leaf, self.names()[i], transform)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "names": Names(self.names())}

    def differentiated(self) -> list[Any]:
        leaves = self.leaves
        return leaves if len(self.active) == len(leaves) else [leaves[i] for i in self.active]

    def with_active(self, values: Sequence[Any]) -> list[Any]:
        if len(values) == len(self.leaves):
            return rebuilt(values, self.treedefs)
        leaves = list(self.leaves)
        for i, value in zip(self.active, values, strict=True):
            leaves[i] = value
        return rebuilt(leaves, self.treedefs)

    def cotangents(
        self,
        found: Sequence[Any],
        unconnected: str,
        foreign: Sequence[Any] = (),
        output: pytree.TreeDef = pytree.LEAF,
    ) -> list[Any]:
        """One tree of cotangents for each argument; `output` is the structure of the result."""
        leaves: list[Any] = [None] * len(self.leaves)
        if self.nondiff == "zero":
            for i, leaf in enumerate(self.leaves):
                type_ = leaf_type(leaf)
                leaves[i] = None if type_ is None else zeros(type_)
        for i, value in zip(self.active, found, strict=True):
            if value is None and unconnected == "error":
                raise UnconnectedError(
                    f"The output does not depend differentiably on {self.names()[i]}: it is not "
                    "used, or only through stop_gradient, a comparison, a rounding or an index."
                )
            if value is None and unconnected == "zero":
                type_ = typeof(self.leaves[i])
                value = zeros(Type(type_.shape, type_.dtype))
                value = value[()] if type(value) is np.ndarray else value
            leaves[i] = value
        treedefs = self.treedefs
        if output is not pytree.LEAF or len(treedefs) > 1 or treedefs[0] is not pytree.LEAF:
            treedefs = [derivative(treedef, output) for treedef in treedefs]
        return rebuilt(owned(leaves, foreign) if current() is EVAL else leaves, treedefs)


_ONE = np.float64(1.0)


def require_complex(inputs: Inputs, what: str) -> None:
    """Raises ArgumentError if an input of holomorphic=True is real."""
    for i in inputs.active:
        if typeof(inputs.leaves[i]).dtype.kind != "c":
            raise ArgumentError(
                f"holomorphic=True needs complex inputs, but {inputs.names()[i]} is "
                f"{typeof(inputs.leaves[i])}. Leave holomorphic out for real functions."
            )


def seed_of(f: Any, values: Sequence[Any], treedef: pytree.TreeDef, holomorphic: bool) -> Any:
    """The cotangent 1 of the single output of a function that grad differentiates.

    Raises:
      NonScalarOutputError, ArgumentError: if it is not one number, or has no derivative.
    """
    if treedef is not pytree.LEAF and is_quantity(treedef):
        treedef = pytree.LEAF
    if treedef is pytree.LEAF and not holomorphic:
        kind = type(values[0])
        if kind is float64 or kind is float:
            return _ONE
    type_ = leaf_type(values[0]) if treedef is pytree.LEAF else None
    if type_ is None or type_.shape != ():
        seen: Any = type_.shape if type_ is not None else treedef
        if treedef is pytree.LEAF and type_ is None:
            seen = type(values[0]).__name__
        raise NonScalarOutputError(
            f"grad needs a function that returns one number (shape ()), but {describe(f)} returned "
            f"{seen}. {to_one_number(treedef)}"
        )
    if type_.dtype.kind == "c" and not holomorphic:
        raise NonScalarOutputError(
            f"grad needs a real output, but {describe(f)} returned a complex number ({type_}). "
            "Take its real part, or pass holomorphic=True, or use fg.vjp."
        )
    if not type_.inexact:
        raise ArgumentError(
            f"grad needs a floating output, but {describe(f)} returned {type_}: an index, a count "
            "or a comparison is constant nearly everywhere, and has no derivative. Return the "
            "value that it depends on, or return it as aux (has_aux=True) beside a loss."
        )
    if holomorphic and type_.dtype.kind != "c":
        raise ArgumentError(
            f"holomorphic=True needs a complex output, but {describe(f)} returned {type_}."
        )
    return type_.dtype.type(1)


class Static:
    """A static argument, or the structure of the others. Its comparison includes the type: 1, 1.0
    and True differ, in tuples, sets, dataclasses and data of nodes, too, and so do 0.0 and -0.0,
    and dicts in another order.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and same_static(self.value, other.value)

    def __repr__(self) -> str:
        return repr(self.value)


def same_static(x: Any, y: Any) -> bool:
    """Whether two static values lead to the same program."""
    if type(x) is not type(y):
        return False
    if isinstance(x, pytree.Keys):
        return same_static(x.inserted, y.inserted)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same_static, x, y))
    if isinstance(x, frozenset):
        return x == y and {(type(item), item) for item in x} == {(type(item), item) for item in y}
    if isinstance(x, pytree.TreeDef):
        return x == y and all(map(same_static, pytree.all_node_data(x), pytree.all_node_data(y)))
    if hasattr(x, "__dataclass_fields__"):
        names = [name for name, field in x.__dataclass_fields__.items() if field.compare]
        return bool(x == y) and all(same_static(getattr(x, n), getattr(y, n)) for n in names)
    if isinstance(x, (float, complex, np.inexact)):
        return repr(x) == repr(y)  # 0.0 differs from -0.0, and nan equals nan
    equal = x == y
    return equal if type(equal) is bool else bool(np.all(equal))


_EXACT = frozenset(
    (int, bool, str, bytes, type(None), type, np.ufunc, FunctionType, BuiltinFunctionType)
)
"""Types whose equal values are the same static argument."""


def static_key(value: Any) -> Hashable:
    """A key that is equal for static values that lead to the same program."""
    kind = type(value)
    if kind in _EXACT:
        return kind, value
    if kind is tuple and _EXACT.issuperset(kinds := tuple(map(type, value))):
        return kinds, value
    return Static(value)


def joined(static: Any, positional: Any, named: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the keywords of a call, with the static ones put back."""
    at = {key: item.value for key, item in static if isinstance(key, int)}
    rest = iter(positional)
    args = [at[i] if i in at else next(rest) for i in range(len(at) + len(positional))]
    return args, {
        **named,
        **{key: item.value for key, item in static if isinstance(key, str)},
    }


def check_static(f: Callable[..., Any], nums: Sequence[int], names: Sequence[str]) -> None:
    """Checks that f has the static arguments that were named.

    Raises:
      ArgumentError: naming the first unknown one, which would be traced otherwise.
    """
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return
    kinds = {p.kind for p in parameters.values()}
    count = len(parameter_names(f))
    unknown: list[Any] = []
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        unknown += [name for name in names if name not in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        unknown += [i for i in nums if not -count <= i < count]
    if unknown:
        raise ArgumentError(
            f"jit of {describe(f)} names {unknown[0]!r} as a static argument, but its parameters "
            f"are {', '.join(parameters)}."
        )
