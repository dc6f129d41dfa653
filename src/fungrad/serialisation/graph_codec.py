"""Graphs and their values as JSON data and a list of arrays, and back.

A primitive is written by its name; reading looks it up among the declared ones, and imports only
fungrad's own modules. Every kind of value has one entry in KINDS; none can name code to run.
"""

from __future__ import annotations

import math
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.errors import ArgumentError, SavedFileError
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Source, Variable
from fungrad.ir.types import Type, of_value
from fungrad.primitives.movement.gather import Index
from fungrad.primitives.primitive import Primitive, primitives
from fungrad.rematerialisation import policies
from fungrad.serialisation.declared_primitives import all_primitives
from fungrad.support import pytree
from fungrad.support.lazy import modules
from fungrad.tracing.trace import Tracer

DTYPES = "biufcO"
"""The kinds of dtypes of values in a Graph; O is a tape, which exists only inside a Graph."""
RENAMED = {"trailed": "taped"}
"""The present names of parameters that files may have under older ones."""
FACTORIES: dict[str, Any] = {"list": list, "dict": dict, "int": int, "float": float}
POLICIES: dict[str, Any] = {
    "save_nothing": policies.save_nothing,
    "save_everything": policies.save_everything,
    "save_dots": policies.save_dots,
}
CONTAINERS: dict[str, type] = {
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "none": type(None),
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
}
SUBCLASSED = (np.generic, np.ndarray, np.dtype, Graph)
"""The types whose subclasses are of the same kind."""


class Unsavable(ArgumentError):
    """A value that cannot be saved; callers add its position."""


class Kind(NamedTuple):
    """The functions that write and read values of some types; the coder handles values inside."""

    types: tuple[type, ...]
    write: Callable[[Any, Any], Any]
    read: Callable[[Any, Any], Any]


def _write_float(value: float, coder: Any) -> Any:
    return value if math.isfinite(value) else {"float": struct.pack("<d", value).hex()}


def _dtype(text: Any, coder: Any) -> np.dtype[Any]:
    if not isinstance(text, str):
        raise SavedFileError(f"a dtype is written as {text!r}.")
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise SavedFileError(f"this NumPy has no dtype {text!r}.") from error
    if dtype.kind not in DTYPES:
        raise SavedFileError(f"{text!r} is not a numeric dtype.")
    if dtype.char in "gG" and coder.longdouble != np.finfo(np.longdouble).nmant:
        raise SavedFileError(
            f"it holds {dtype.name}, whose format on the machine that wrote it "
            f"({coder.longdouble} bits) is not this machine's ({np.finfo(np.longdouble).nmant})."
        )
    return dtype


def _write_dtype(dtype: np.dtype[Any], coder: Any) -> str:
    if dtype.kind not in DTYPES:
        raise Unsavable(f"the dtype {dtype}, which is not one of numbers")
    return dtype.str


def _write_array(value: np.ndarray[Any, Any], coder: Any) -> int:
    if value.dtype.kind not in "biufc":
        raise Unsavable(f"an array of {value.dtype}, which is not one of numbers")
    coder.arrays.append(value)
    return len(coder.arrays) - 1


def _read_scalar(found: Any, coder: Any) -> Any:
    text, bits = found
    (value,) = np.frombuffer(bytes.fromhex(bits), _dtype(text, coder))
    return value


def _all(values: Any, coder: Any) -> list[Any]:
    return [coder.write(value) for value in values]


def _read_all(found: Any, coder: Any) -> tuple[Any, ...]:
    return tuple([coder.read(item) for item in found])


def _write_policy(policy: Any, coder: Any) -> str:
    for name, known in POLICIES.items():
        if policy is known:
            return name
    raise Unsavable(f"the Python function {getattr(policy, '__name__', policy)!r}")


def _write_ufunc(ufunc: np.ufunc, coder: Any) -> str:
    if getattr(np, ufunc.__name__, None) is not ufunc:
        raise Unsavable(f"the ufunc {ufunc.__name__!r}, which is not one of NumPy")
    name: str = ufunc.__name__
    return name


def _read_ufunc(name: Any, coder: Any) -> np.ufunc:
    ufunc = getattr(np, str(name), None)
    if not isinstance(ufunc, np.ufunc):
        raise SavedFileError(f"this NumPy has no ufunc {name!r}.")
    return ufunc


def _write_tree(tree: pytree.TreeDef, coder: Any) -> Any:
    if tree.type is None:
        return None
    names = [name for name, known in CONTAINERS.items() if known is tree.type]
    aux: Any = tree.aux
    if tree.type is defaultdict:
        factory = [name for name, known in FACTORIES.items() if known is aux[0]]
        if aux[0] is not None and not factory:
            raise Unsavable(f"a defaultdict that calls {aux[0]!r}")
        aux = (factory[0] if factory else None, aux[1])
    name = names[0] if names else f"{tree.type.__module__}:{tree.type.__qualname__}"
    return [name, coder.write(aux), [_write_tree(child, coder) for child in tree.children]]


def _read_tree(found: Any, coder: Any) -> pytree.TreeDef:
    if found is None:
        return pytree.LEAF
    name, aux, children = found
    aux = coder.read(aux)
    if name == "defaultdict":
        aux = (None if aux[0] is None else FACTORIES[aux[0]], aux[1])
    type_ = CONTAINERS.get(name) or _container(name)
    return pytree.TreeDef(type_, aux, tuple([_read_tree(child, coder) for child in children]))


def _container(name: str) -> type:
    """A container class of an imported module; nothing is imported for it."""
    module, _, path = name.partition(":")
    kind: Any = modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, part, None)
    if not (isinstance(kind, type) and pytree.is_container(kind)):
        raise SavedFileError(
            f"its arguments or results hold the container {path} of the module {module}, which is "
            "not known here: import that module first."
        )
    container: type = kind
    return container


KINDS: dict[str, Kind] = {
    "float": Kind((), lambda v, c: v, lambda v, c: struct.unpack("<d", bytes.fromhex(v))[0]),
    "scalar": Kind((np.generic,), lambda v, c: [v.dtype.str, v.tobytes().hex()], _read_scalar),
    "complex": Kind(
        (complex,),
        lambda v, c: [_write_float(v.real, c), _write_float(v.imag, c)],
        lambda v, c: complex(*[c.read(part) for part in v]),
    ),
    "array": Kind((np.ndarray,), _write_array, lambda v, c: c.arrays[c.index(v, c.arrays)]),
    "graph": Kind((Graph,), lambda v, c: c.graph(v), lambda v, c: c.graphs[c.index(v, c.graphs)]),
    "dtype": Kind((np.dtype,), _write_dtype, _dtype),
    "type": Kind(
        (Type,),
        lambda v, c: [_write_dtype(v.dtype, c), list(v.shape), v.weak],
        lambda v, c: read_type(v, c),
    ),
    "tuple": Kind((tuple,), _all, _read_all),
    "keys": Kind(
        (pytree.Keys,),
        lambda v, c: _all(v.inserted, c),
        lambda v, c: pytree.ordered_keys(_read_all(v, c)),
    ),
    "list": Kind((list,), _all, lambda v, c: list(_read_all(v, c))),
    "set": Kind((frozenset,), _all, lambda v, c: frozenset(_read_all(v, c))),
    "dict": Kind((dict,), lambda v, c: _all(v.items(), c), lambda v, c: dict(_read_all(v, c))),
    "slice": Kind(
        (slice,),
        lambda v, c: _all((v.start, v.stop, v.step), c),
        lambda v, c: slice(*_read_all(v, c)),
    ),
    "ellipsis": Kind((type(Ellipsis),), lambda v, c: 0, lambda v, c: Ellipsis),
    "index": Kind(
        (Index,),
        lambda v, c: [_all(v.entries, c), v.unique],
        lambda v, c: Index(_read_all(v[0], c), bool(v[1])),
    ),
    "names": Kind(
        (policies.save_names,),
        lambda v, c: list(v.names),
        lambda v, c: policies.save_names(*map(str, v)),
    ),
    "budget": Kind((policies.Budget,), lambda v, c: v.nbytes, lambda v, c: policies.Budget(int(v))),
    "policy": Kind((type(policies.save_nothing),), _write_policy, lambda v, c: POLICIES[v]),
    "ufunc": Kind((np.ufunc,), _write_ufunc, _read_ufunc),
    "tree": Kind((pytree.TreeDef,), _write_tree, _read_tree),
}
"""Every kind of value that JSON lacks, by its key in the file."""


def read_type(found: Any, coder: Any) -> Type:
    """A Type from its dtype, shape and weak bit."""
    dtype, shape, weak = found
    if any(type(length) is not int or length < 0 for length in shape):
        raise SavedFileError(f"a shape is written as {shape!r}.")
    return Type(tuple(shape), _dtype(dtype, coder), bool(weak))


def write_value(value: Any, coder: Any) -> Any:
    """A value as JSON; its arrays and Graphs go to the coder.

    Raises:
      Unsavable: if the value, or one inside, is of no known kind.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return _write_float(value, coder)
    for name, kind in KINDS.items():
        if type(value) in kind.types or (
            isinstance(value, SUBCLASSED) and isinstance(value, kind.types)
        ):
            return {name: kind.write(value, coder)}
    shown = getattr(value, "__name__", None) or repr(value)
    raise Unsavable(f"{shown[:60]}, a Python object of the class {type(value).__name__}")


def read_value(found: Any, coder: Any) -> Any:
    """Reads a value that `write_value` wrote."""
    if not isinstance(found, dict):
        if isinstance(found, list):
            raise SavedFileError("it has a list in the place of a value.")
        return found
    ((name, content),) = found.items()
    if name not in KINDS:
        raise SavedFileError(f"it holds a value of the kind {name!r}, which is not known here.")
    return KINDS[name].read(content, coder)


class GraphWriter:
    """Collects the arrays and the Graphs of a saved object, inner Graphs before outer ones."""

    def __init__(self, sources: bool) -> None:
        self.arrays: list[Any] = []
        self.graphs: list[Any] = []
        self._sources = sources
        self._numbers: dict[Graph, int] = {}

    def write(self, value: Any) -> Any:
        """A value as JSON."""
        return write_value(value, self)

    def graph(self, graph: Graph) -> int:
        """The number of a Graph, each written once."""
        if graph not in self._numbers:
            content = self._graph(graph)
            self._numbers[graph] = len(self.graphs)
            self.graphs.append(content)
        return self._numbers[graph]

    def _graph(self, graph: Graph) -> Any:
        numbers: dict[Atom, int] = {}
        types: list[Any] = []

        def define(variable: Variable) -> int:
            numbers[variable] = len(numbers)
            types.append(self.write(variable.type)["type"])
            return numbers[variable]

        def atom(found: Atom) -> Any:
            if isinstance(found, Literal):
                return {"literal": self.write(found.value)}
            return numbers[found]

        constants = [[define(v), self._constant(value)] for v, value in graph.constants]
        inputs = [define(v) for v in graph.inputs]
        equations = []
        for equation in graph.equations:
            reads = [atom(a) for a in equation.inputs]
            primitive: Any = equation.primitive
            source = equation.source if self._sources else None
            equations.append(
                {
                    "primitive": [primitive.module, primitive.name],
                    "inputs": reads,
                    "outputs": [define(v) for v in equation.outputs],
                    "params": {k: self._param(equation, k, v) for k, v in equation.params.items()},
                    "source": None if source is None else list(source),
                    "scope": equation.scope,
                    "backward": equation.backward,
                }
            )
        return {
            "name": graph.name,
            "reassociate": graph.reassociate,
            "types": types,
            "constants": constants,
            "inputs": inputs,
            "equations": equations,
            "outputs": [atom(a) for a in graph.outputs],
        }

    def _constant(self, value: Any) -> Any:
        if isinstance(value, Tracer):
            raise Unsavable(
                f"a traced value of type {value.type} that the Graph closes over; save it outside "
                "of the transform, or make the value an argument"
            )
        return self.write(value)

    def _param(self, equation: Equation, key: str, value: Any) -> Any:
        try:
            return self.write(value)
        except Unsavable as error:
            if "of the equation" in error.message:  # the message names an inner equation
                raise
            place = f" at {equation.source}" if equation.source else ""
            raise Unsavable(
                f"the parameter `{key}` of the equation `{equation.primitive.name}`{place}: "
                f"{error.message}"
            ) from None


class Reader:
    """Reads the Graphs of a file, in the order of writing."""

    def __init__(self, arrays: Sequence[Any], longdouble: int) -> None:
        self.arrays = arrays
        self.longdouble = longdouble
        self.graphs: list[Graph] = []

    def read(self, found: Any) -> Any:
        """A value from JSON."""
        return read_value(found, self)

    def index(self, number: Any, among: Sequence[Any]) -> int:
        """A number, checked to be an index of a list."""
        if type(number) is not int or not 0 <= number < len(among):
            raise SavedFileError(f"it names the item {number!r} of {len(among)}.")
        return number

    def graph(self, content: Any) -> None:
        """Reads one more Graph, which may hold those before it."""
        variables = [Variable(read_type(item, self)) for item in content["types"]]

        def variable(number: Any) -> Variable:
            return variables[self.index(number, variables)]

        def atom(found: Any) -> Atom:
            if isinstance(found, dict):
                value = self.read(found["literal"])
                if of_value(value).shape:
                    raise SavedFileError("a literal is not a scalar.")
                return Literal(value)
            return variable(found)

        equations = [
            Equation(
                _primitive(*item["primitive"]),
                tuple([atom(a) for a in item["inputs"]]),
                tuple([variable(v) for v in item["outputs"]]),
                {RENAMED.get(k, str(k)): self.read(value) for k, value in item["params"].items()},
                _source(item["source"]),
                str(item["scope"]),
                int(item["backward"]),
            )
            for item in content["equations"]
        ]
        self.graphs.append(
            Graph(
                tuple([variable(v) for v in content["inputs"]]),
                tuple([(variable(v), self._constant(value)) for v, value in content["constants"]]),
                tuple(equations),
                tuple([atom(a) for a in content["outputs"]]),
                str(content["name"]),
                _choice(content.get("reassociate")),
            )
        )

    def _constant(self, found: Any) -> Any:
        value = self.read(found)
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        return value


def _choice(found: Any) -> bool | None:
    if found is not None and type(found) is not bool:
        raise SavedFileError(f"its choice whether to reassociate is {found!r}.")
    return found


def _source(found: Any) -> Source | None:
    if found is None:
        return None
    file, line, function = found
    return Source(str(file), int(line), str(function))


def _primitive(module: str, name: str) -> Primitive:
    """A declared primitive.

    fungrad's own are found by name alone, which is unique: so files stay readable if a later
    version moves a primitive to another module.
    """
    primitive = primitives.get((module, name))
    if primitive is None and module.startswith("fungrad."):
        primitive = next(
            (p for p in all_primitives().values() if _is_ours(p) and p.name == name), None
        )
    if primitive is None:
        raise SavedFileError(
            f"it uses the primitive {name!r} of the module {module!r}, which is not declared here: "
            "import the module that declares it first, or install the fungrad that wrote the file."
        )
    return primitive


def _is_ours(primitive: Primitive) -> bool:
    return primitive.module.startswith("fungrad.")
