"""`to_source`: a function, traced and optimised, as a module of plain NumPy."""

from __future__ import annotations

import collections
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fungrad.compiler.jit import Jitted
from fungrad.errors import ArgumentError
from fungrad.ir.types import Type
from fungrad.retracing.staging import Staged, stage_tree
from fungrad.source_export.expressions import NotWritable, Values, described
from fungrad.source_export.module_writer import ExportedModule
from fungrad.support import pytree
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.arguments import has_type, input_type

HEAD = "Plain NumPy, written by fungrad.to_source."
_SPOKEN = {"bool", "complex", "int", "object", "range", "reversed", "slice"}
_PYTHON = {"f": "float", "i": "int", "b": "bool", "c": "complex"}


class Parameter(NamedTuple):
    """A parameter of the user's function, its argument, and whether the argument is traced."""

    name: str
    value: Any
    kind: Any
    traced: bool


@boundary
def to_source(
    f: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    path: str | PathLike[str] | None = None,
    static_argnames: str | Iterable[str] = (),
    **kwargs: Any,
) -> str:
    """The text of a Python module that computes f with NumPy, without fungrad.

    >>> import numpy as np, fungrad as fg
    >>> def loss(w, x):
    ...     return np.sum(np.tanh(x @ w) ** 2)
    >>> text = to_source(fg.grad(loss), np.zeros(2), np.zeros((3, 2)), name="gradient")
    >>> print(text[text.index("    a =") :].rstrip())
        a = x @ w
        b = np.tanh(a)
        c = 2.0 * b
        d = b * b
        e = 1.0 - d
        f = c * e
        return f @ x

    f is traced at arguments of these types and optimised, as `jit` does; a gradient becomes the
    NumPy code that one would write by hand. SciPy is imported if f needs its functions.

    Args:
      f: a pure function of trees of arrays and numbers, also one made by `grad`, `vmap` or `jit`.
      args: its arguments, of which only the types matter.
      name: the name of the function in the module; by default that of f.
      path: a file, `f.py`, to write the module to. Arrays of more than 200 elements that f closes
        over are then written to `f.npz` in the same folder; without a path they are an error.
      static_argnames: the names of arguments that are not traced; the module is for their values.
      kwargs: keyword arguments of f.

    Returns:
      The text. Its function has the parameters of f that were given, and takes and returns the same
      trees, with classes of the module for returned named tuples and dataclasses.

    Raises:
      ArgumentError: if f calls back to Python or prints, naming the equation; or if it closes over
        a large array and no path was given.
    """
    arrays: dict[str, Any] | None = None if path is None else {}
    signature, parameters = _parameters(f, args, kwargs, static_argnames)
    module = _module(f, signature, parameters, name, arrays)
    if path is None:
        return module.text(HEAD, "")
    target = Path(path)
    beside = target.with_suffix(".npz")
    text = module.text(HEAD, beside.name)
    target.write_text(text, encoding="utf-8")
    if arrays:
        np.savez(beside, **arrays)
    return text


def _module(
    f: Callable[..., Any],
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    name: str | None,
    arrays: dict[str, Any] | None,
) -> ExportedModule:
    """The module with the function f; its large arrays are stored in `arrays`."""
    staged, names = _staged(f, signature, parameters)
    given = inspect.Signature([inspect.Parameter(p.name, p.kind) for p in parameters])
    module = ExportedModule(arrays)
    module.values.taken.update(p.name for p in parameters)
    wished = name or str(getattr(f, "__name__", type(f).__name__))
    wished = wished if wished.isidentifier() else "function"
    inputs = [(n, "") if n.isidentifier() else (_local(n), n) for n in names]
    module.function(
        staged.graph,
        wished,
        parameters=[text for text in str(given)[1:-1].split(", ") if text],
        inputs=inputs,
        doc=_doc(wished, names, staged, [p for p in parameters if not p.traced]),
        returned=lambda texts: _built(staged.out, iter(texts), module.values),
    )
    imported = {line.split()[-1].split(".")[0] for line in module.values.imports.values()}
    clash = (imported | _SPOKEN) & {p.name for p in parameters}
    if clash:
        raise ArgumentError(
            f"{describe(f)} has a parameter {min(clash)!r}, which the source needs as the "
            "name of a module or built-in. Give it another name."
        )
    return module


# --- arguments ------------------------------------------------------------------------------------


def _parameters(
    f: Callable[..., Any], args: Any, kwargs: Any, static: str | Iterable[str]
) -> tuple[inspect.Signature, list[Parameter]]:
    """The signature of f, and the parameters that are given."""
    static = {static} if isinstance(static, str) else set(static)
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # a ufunc
        kind = inspect.Parameter.POSITIONAL_ONLY
        signature = inspect.Signature([inspect.Parameter(f"x{i}", kind) for i in range(len(args))])
    bound = signature.bind(*args, **kwargs)
    unknown = static - set(bound.arguments)
    if unknown:
        raise ArgumentError(
            f"static_argnames names {sorted(unknown)}, but {describe(f)} was given "
            f"{list(bound.arguments)}."
        )
    parameters = []
    for name, value in bound.arguments.items():
        whole = pytree.structure(value) is pytree.LEAF
        typed = not whole or has_type(value) or isinstance(value, Type) or hasattr(value, "dtype")
        parameters.append(Parameter(name, value, signature.parameters[name].kind,
                               typed and name not in static))  # fmt: skip
    return signature, parameters


def _staged(
    f: Callable[..., Any], signature: inspect.Signature, parameters: Sequence[Parameter]
) -> tuple[Staged, list[str]]:
    """The staged f, and for each leaf of the arguments the expression that reads it."""
    traced = [p for p in parameters if p.traced]
    leaves, treedef = pytree.flatten([p.value for p in traced])
    names = [p.name + path for p in traced for path in pytree.paths(pytree.structure(p.value))]
    for path, leaf in zip(pytree.paths(treedef), leaves, strict=True):
        _check_access(f, path, leaf, [p.value for p in traced])
    types = [input_type(leaf, name) for leaf, name in zip(leaves, names, strict=True)]

    def apply(values: Any) -> Any:
        given = iter(values)
        arguments = [(p.name, next(given) if p.traced else p.value) for p in parameters]
        bound = inspect.BoundArguments(signature, collections.OrderedDict(arguments))
        return f(*bound.args, **bound.kwargs)

    staged = stage_tree(f, apply, treedef, types, names, "a function written as source")
    if staged.captured:
        raise ArgumentError(
            f"{describe(f)} closes over a traced value of type {typeof(staged.captured[0])}: "
            "source stands alone. Make the value an argument, or call fg.to_source outside of the "
            "transform."
        )
    if isinstance(f, Jitted):
        staged = staged._replace(graph=f.choose(staged.graph))
    return staged, [_quoted(name) for name in names]


def _check_access(f: Callable[..., Any], path: str, leaf: Any, root: Any) -> None:
    """Raises ArgumentError if a leaf is not read by the keys or attributes of its container."""
    try:
        reads = eval(f"root{path}", {"root": root}) is leaf
    except Exception:  # a user's container may raise any exception
        reads = False
    if not reads:
        raise ArgumentError(
            f"The arguments of {describe(f)} hold a container whose leaf {path[3:]} cannot be read "
            "by a key, an index or an attribute. Pass its leaves in a dict or a named tuple."
        )


def _local(access: str) -> str:
    """The name of a local value from its access: `params_w_0` from `params["w"][0]`."""
    return re.sub(r"\W+", "_", access).strip("_")


# --- results --------------------------------------------------------------------------------------


def _built(tree: pytree.TreeDef, texts: Any, values: Values) -> str:
    """The expression of a tree of results."""
    if tree.type is None:
        return str(next(texts))
    if tree.type is dict:
        made = pytree.unflatten(_flat(tree), [_built(c, texts, values) for c in tree.children])
        pairs = [f"{values.value('key', key)}: {text}" for key, text in made.items()]
        return f"{{{', '.join(pairs)}}}"
    children = [_built(child, texts, values) for child in tree.children]
    if tree.type is type(None):
        return "None"
    if tree.type is list:
        return f"[{', '.join(children)}]"
    if tree.type is tuple:
        return f"({', '.join(children)}{',' * (len(children) == 1)})"
    if tree.type is collections.OrderedDict:
        keys: Any = tree.aux
        pairs = [f"({values.value('key', k)}, {c})" for k, c in zip(keys, children, strict=True)]
        values.imports["collections"] = "import collections"
        return f"collections.OrderedDict([{', '.join(pairs)}])"
    return f"{_class(tree, values)}({', '.join([*children, *_static(tree, values)])})"


def _class(tree: pytree.TreeDef, values: Values) -> str:
    """The name of a class with the fields of a result's class, defined in the module."""
    type_: Any = tree.type
    fields = list(getattr(type_, "_fields", getattr(type_, "__dataclass_fields__", ())))
    is_tuple = issubclass(type_, tuple)
    if not fields or not (is_tuple or hasattr(type_, "__dataclass_fields__")):
        raise ArgumentError(
            f"A result is a {type_.__name__}, a container that plain Python does not have: return "
            "its leaves in a dict or a named tuple."
        )
    if not is_tuple:
        node = [p[1:] for p in pytree.paths(_flat(tree))]
        fields = [*node, *[name for name in fields if name not in node]]
    name, new = values.once(("result", type_), type_.__name__)
    if new:
        made = "collections.namedtuple" if is_tuple else "dataclasses.make_dataclass"
        home = made.split(".")[0]
        values.imports[home] = f"import {home}"
        listed = ", ".join(f'"{field}"' for field in fields)
        values.define(name, f'{name} = {made}("{type_.__name__}", [{listed}])')
    return name


def _flat(tree: pytree.TreeDef) -> pytree.TreeDef:
    """The container with leaves in place of its children."""
    return pytree.TreeDef(tree.type, tree.aux, (pytree.LEAF,) * len(tree.children))


def _static(tree: pytree.TreeDef, values: Values) -> list[str]:
    """The expressions of a dataclass's static fields."""
    type_: Any = tree.type
    aux: Any = tree.aux
    if issubclass(type_, tuple):
        return []
    try:
        return [values.value("static", value) for value in aux]
    except NotWritable as reason:
        raise ArgumentError(
            f"The result, a {type_.__name__}, holds {reason}: return arrays and numbers."
        ) from None


# --- the docstring --------------------------------------------------------------------------------


def _doc(name: str, names: Sequence[str], staged: Staged, fixed: Sequence[Parameter]) -> list[str]:
    """The lines of the function's docstring: its arguments and results."""
    taken = [f"{n}: {_said(t)}" for n, t in zip(names, staged.graph.input_types, strict=True)]
    taken += [f"{p.name}: not read; it was {_shown(p.value)}" for p in fixed]
    places = [_quoted(path) for path in pytree.paths(staged.out)]
    given = [f"result{place}: {_said(type_)}" if place else _said(type_)
             for place, type_ in zip(places, staged.types, strict=True)]  # fmt: skip
    lines = [f"{name}, for arguments of these types."]
    for title, items in (("Args", taken), ("Returns", given)):
        if items:
            lines += ["", f"{title}:", *[f"    {item}" for item in items]]
    return lines


def _shown(value: Any) -> str:
    return repr(value) if type(value) in (str, int, float, bool) else described(value)


def _quoted(path: str) -> str:
    return re.sub(r"\['([\w ]+)'\]", r'["\1"]', path)


def _said(type_: Type) -> str:
    """A Type in words."""
    if type_.weak:
        return f"a Python {_PYTHON[type_.dtype.kind]}"
    if not type_.shape:
        return f"{type_.dtype} scalar"
    return f"{type_.dtype} array of shape {type_.shape}"


__all__ = ["to_source"]
