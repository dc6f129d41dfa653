"""Arguments and results of users' functions, for all public transforms.

Which arguments are meant (by position or name), what their leaves are called in messages, which
leaves can be differentiated, and the making of results that are the user's own. Knows trees, types
and traces.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, NonDifferentiableInputError, StructureMismatchError
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.support import pytree
from fungrad.tracing.source_location import check_function, describe, user_line
from fungrad.tracing.trace import Tracer, registry, typeof


def check_differentiated(f: Any, argnums: Any, verb: str) -> None:
    """Refuses what is not a function, and `argnums` that are no positions or names.

    Raises:
      ArgumentError: where the arguments themselves were given, too.
    """
    check_function(f, verb)
    for key in argnums if isinstance(argnums, (tuple, list)) else (argnums,):
        if not isinstance(key, (int, np.integer, str)):
            raise ArgumentError(
                f"argnums of {verb} takes positions and names of arguments, and was given a "
                f"{type(key).__name__}{user_line()}. Arguments go to the function that {verb} "
                f"returns: fg.{verb}(f)(x)."
            )


def parameter_names(f: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters of a function, as far as they can be known."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # builtins without a signature
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]


def argument_name(f: Callable[..., Any], key: int | str) -> str:
    """How an argument is called in messages."""
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
      ArgumentError: where the call has no such argument.
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


def _no_such_argument(
    f: Callable[..., Any], argnums: Any, key: int | str, args: Sequence[Any], kwargs: Any
) -> ArgumentError:
    """The error for an argument to differentiate by that a call does not have."""
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
    """The Type of a leaf; None where it is no array and no number.

    Raises:
      ArgumentError: where it is an array with an arithmetic of its own.
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
    if type(value) in (float, complex):
        return True
    if isinstance(value, (np.ndarray, np.generic, Tracer)):
        return value.dtype.kind in "fc"
    return False


def refuse_leaf(value: Any, path: str, transform: str) -> NonDifferentiableInputError:
    """The error for a leaf that cannot be differentiated."""
    type_ = leaf_type(value)
    what = f"of dtype {type_.dtype}" if type_ is not None else f"a {type(value).__name__}"
    return NonDifferentiableInputError(
        f"{transform} was asked for a derivative with respect to {path}, which is {what}. Make it "
        "a float (np.asarray(x, float)), choose other arguments with argnums=, or pass "
        "nondiff='none' to get None in its place."
    )


def flat_leaves(tree: Any) -> tuple[list[Any], pytree.TreeDef]:
    """The leaves of a user's arguments or results; object arrays of tracers are stacked."""
    leaves, treedef = pytree.flatten(tree)
    for i, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray and leaf.dtype.char == "O":
            leaves[i] = registry.operand(leaf)
    return leaves, treedef


def results_and_aux(
    f: Callable[..., Any], out: Any, has_aux: bool
) -> tuple[list[Any], int, pytree.TreeDef, pytree.TreeDef | None]:
    """The results of f: its leaves, then those of aux; how many come first; and the structures.

    Raises:
      ArgumentError: where it should be a pair (output, aux), and is none.
    """
    if not has_aux:
        leaves, treedef = flat_leaves(out)
        return leaves, len(leaves), treedef, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise ArgumentError(
            f"With has_aux=True, {describe(f)} has to return a pair (output, aux), not "
            f"{type(out).__name__}."
        )
    aux_leaves, aux_def = flat_leaves(out[1])
    leaves, treedef = flat_leaves(out[0])
    return [*leaves, *aux_leaves], len(leaves), treedef, aux_def


def to_one_number(treedef: pytree.TreeDef) -> str:
    """Advice about an output that is not one number."""
    if treedef == pytree.structure(None):
        return "A function without `return` returns None."
    if treedef.type is tuple and len(treedef.children) == 2 and treedef.children[0] is pytree.LEAF:
        return (
            "If that is a loss with other results, pass has_aux=True: it returns the gradient of "
            "the first, and the second as it is. Otherwise use fg.jacobian or fg.vjp."
        )
    return "Sum it (np.sum), or use fg.jacobian, or fg.vjp with a weight for each output."


def owned(values: Sequence[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """The values as arrays that nothing else writes to: views and repeated arrays are copied."""
    result = list(values)
    seen: set[int] | None = None
    for i, value in enumerate(result):
        kind = type(value)
        if kind is np.ndarray:
            if seen is None:
                seen = set(map(id, foreign))
            if id(value) in seen or value.base is not None or not value.flags.writeable:
                result[i] = value = value.copy()
            seen.add(id(value))
        elif issubclass(kind, np.ndarray):  # of a subclass, as a file mapped to memory
            result[i] = np.array(value)
    return result


def has_type(value: Any) -> bool:
    """Whether a value is an array or a number, traced or not."""
    return type(value) is Tracer or leaf_type(value) is not None


def matching(value: Any, type_: Type | None, what: str) -> Any:
    """A tangent or cotangent as an array of its type; None where there can be none."""
    if type_ is None or not type_.inexact or value is None:
        return None
    found = leaf_type(value)
    if found is None or found.shape != type_.shape:
        raise StructureMismatchError(
            f"A {what} has to have the type of the value that it belongs to, {type_}, but "
            f"{found or value!r} was given."
        )
    if found.dtype.kind == "c" and type_.dtype.kind != "c":
        raise StructureMismatchError(
            f"A complex {what} ({found}) was given for a real value ({type_})."
        )
    if type(value) in PYTHON_SCALARS:
        return type_.dtype.type(value)
    if found.dtype == type_.dtype:
        return value
    if found.inexact or found.dtype.kind in "iub":
        return value.astype(type_.dtype)
    raise StructureMismatchError(
        f"A {what} of dtype {found.dtype} was given for a value of type {type_}."
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
    if not type_.dtype.isnative:
        return Type(type_.shape, type_.dtype.newbyteorder("="))
    return type_
