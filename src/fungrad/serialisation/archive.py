"""Traced functions, Graphs and trees in files: `export`, `save`, `load`, `save_tree`, `load_tree`.

A file is a zip archive of graph.json and of arrays in NumPy's format. Reading it runs no code from
the file, unpacks members up to a limit, and allocates memory only for bytes that are present, never
for the claim of a header.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from _thread import get_ident
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from fungrad.compiler.jit import Jitted
from fungrad.control_flow.call import call
from fungrad.errors import ArgumentError, FungradError, SavedFileError
from fungrad.ir.canonical import canonical
from fungrad.ir.graph import Graph
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.ir.verifier import check_graph
from fungrad.retracing.staging import stage_tree
from fungrad.serialisation.graph_codec import GraphWriter, Reader, Unsavable
from fungrad.support import pytree
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, Tracer, current, typeof
from fungrad.tracing.transformed_function import TransformedFunction, boundary
from fungrad.transforms.arguments import input_type, leaf_names, owned

SPARE, RATIO = 2**26, 20
"""The default limit of unpacking: so many bytes plus so many times the size of the file."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class Members:
    """Reads the members of an archive up to a limit of their total size."""

    def __init__(self, file: IO[bytes], limit: int | None) -> None:
        size = file.seek(0, io.SEEK_END)
        self._limit = self._left = SPARE + RATIO * size if limit is None else limit
        self._archive = zipfile.ZipFile(file)
        self._infos = {info.filename: info for info in self._archive.infolist()}

    def read(self, name: str) -> bytes:
        """The bytes of one member.

        Raises:
          SavedFileError: if it is missing, damaged, or exceeds the limit.
        """
        info = self._infos.pop(name, None)
        if info is None:
            raise SavedFileError(
                f"it is not a file that fg.save wrote, or it is damaged: it has no member {name!r}."
            )
        if info.compress_type not in METHODS or info.flag_bits & 1:
            raise SavedFileError(f"its member {name!r} is encrypted, or packed in another way.")
        self._left -= info.file_size
        if self._left < 0:
            raise SavedFileError(
                f"it unpacks to more than {self._limit} bytes; where you trust it, raise the "
                "limit: fg.load(path, max_bytes=...)."
            )
        with self._archive.open(info) as member:
            content = member.read(info.file_size)  # unpacks at most this number of bytes
            if len(content) != info.file_size or member.read(1):
                raise SavedFileError(f"its member {name!r} has not the stated length.")
        return content

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The arrays 0.npy, 1.npy and so on."""
        count = sum(name.endswith(".npy") for name in self._infos)
        return [array_of(self.read(f"{number}.npy")) for number in range(count)]


def array_of(content: bytes) -> np.ndarray[Any, Any]:
    """The array in a file of NumPy's format: a view of its bytes, read-only.

    Raises:
      SavedFileError: if it is not numeric, or does not have the number of bytes of its shape.
      ValueError: if the header is invalid.
    """
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in READERS:
        raise SavedFileError(f"an array is in version {version} of NumPy's format.")
    shape, fortran, dtype = READERS[version](file)
    if dtype.kind not in "biufc":
        raise SavedFileError(f"an array is of {dtype}, not of numbers (allow_pickle=False).")
    nbytes = math.prod(shape) * dtype.itemsize
    start = file.tell()
    if min(shape, default=0) < 0 or nbytes != len(content) - start:
        raise SavedFileError(
            f"an array of {dtype} and shape {shape} takes {nbytes} bytes, but has "
            f"{len(content) - start}."
        )
    array = np.frombuffer(content, dtype, math.prod(shape), start) if nbytes else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")


READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


Target = str | PathLike[str] | IO[bytes]
FORMAT, VERSION, CONTENT = "fungrad", 1, "graph.json"
READERS_OF = {"graph": "load", "function": "load", "tree": "load_tree"}
"""The function that reads each kind of content."""
PICTURES = (".html", ".svg", ".dot", ".mmd")


class Exported:
    """A traced function without its Python source, to call, transform and save.

    Attributes:
      graph: its Graph; inputs and outputs are the leaves of the trees.
      names: the names of the leaves of the arguments.
    """

    def __init__(
        self, graph: Graph, inputs: pytree.TreeDef, outputs: pytree.TreeDef, names: Sequence[str]
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.outputs = outputs
        self.names = tuple(names)
        self.__name__ = graph.name

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.match(self.inputs, (args, kwargs), "argument")
        types = self.graph.input_types
        given = [
            self._fit(leaf, type_, name)
            for leaf, type_, name in zip(leaves, types, self.names, strict=True)
        ]
        if [typeof(x) for x in given] == types:
            results = call(*given, graph=self.graph)
        else:  # a scalar array for a traced Python number: it promotes as in the function
            results = evaluate(self.graph, given)
        return pytree.unflatten(
            self.outputs, owned(results, leaves) if current() is EVAL else list(results)
        )

    def _fit(self, value: Any, type_: Type, name: str) -> Any:
        """The value, checked to be of the type; a Python number is cast to it."""
        try:
            value = canonical(value)
            own = typeof(value)
        except TypeError:
            raise ArgumentError(
                f"The argument {name} of the exported {self.__name__!r} is a "
                f"{type(value).__name__}, not an array or a number."
            ) from None
        if (own.shape, own.dtype) == (type_.shape, type_.dtype):
            if not own.weak or type_.weak or type(value) is Tracer:
                return value
        elif (
            own.shape != type_.shape
            or type(value) not in PYTHON_SCALARS
            or ("biufc".index(own.dtype.kind) > "biufc".index(type_.dtype.kind))
        ):
            raise ArgumentError(
                f"The argument {name} of the exported {self.__name__!r} is of type {own}, but it "
                f"was traced for {type_}. Convert it, export the function for it, or use vmap for "
                "a batch."
            )
        strong = type_.dtype.type(value)
        return strong.item() if type_.weak else strong

    def save(self, path: Target) -> None:
        """Writes it to a file: `fg.save(self, path)`."""
        save(self, path)

    def __repr__(self) -> str:
        types = ", ".join(
            f"{name}: {type_}"
            for name, type_ in zip(self.names, self.graph.input_types, strict=True)
        )
        return f"<exported {self.__name__}({types}): {len(self.graph.equations)} equations>"


def export(f: Callable[..., Any]) -> Callable[..., Exported]:
    """A function that traces f at arguments of given types and returns it as an `Exported`.

    >>> import numpy as np, fungrad as fg
    >>> exported = export(np.sin)(np.zeros(3))
    >>> exported(np.array([0.0, 1.0, 2.0])) == np.sin([0.0, 1.0, 2.0])
    array([ True,  True,  True])
    >>> fg.vmap(exported)(np.zeros((2, 3))).shape
    (2, 3)

    Args:
      f: a pure function of trees of arrays and numbers.

    Returns:
      A function that takes f's arguments, and uses only their types.
    """

    def run(*args: Any, **kwargs: Any) -> Exported:
        leaves, treedef = pytree.flatten((args, kwargs))
        keys = sorted(kwargs)
        names = leaf_names(f, [*range(len(args)), *keys], [*args, *(kwargs[k] for k in keys)])
        types = [input_type(leaf, name) for leaf, name in zip(leaves, names, strict=True)]

        def apply(tree: Any) -> Any:
            positional, named = tree
            return f(*positional, **named)

        staged = stage_tree(f, apply, treedef, types, names, "an exported function")
        if staged.captured:
            raise ArgumentError(
                f"{describe(f)} closes over a traced value of type {typeof(staged.captured[0])}, "
                "which an exported function cannot hold. Make the value an argument, or export it "
                "outside of the transform."
            )
        graph = f.choose(staged.graph) if isinstance(f, Jitted) else staged.graph
        return Exported(graph, treedef, staged.out, names)

    return TransformedFunction(run, export, f)


@boundary
def save(what: Graph | Exported, path: Target, *, sources: bool = True) -> None:
    """Writes a traced function or a Graph to a file that `load` reads on any machine.

    >>> import numpy as np, fungrad as fg, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "f.fungrad")
    >>> save(export(lambda w, x: np.tanh(x @ w).sum())(np.zeros(2), np.zeros((3, 2))), path)
    >>> fg.grad(load(path))(np.zeros(2), np.ones((3, 2)))
    array([3., 3.])

    Args:
      what: the result of `fg.export(f)(*args)`, or a Graph.
      path: the file, by custom `x.fungrad`, or an open binary one.
      sources: whether the file keeps the names of your source files and lines, for messages.

    Raises:
      ArgumentError: if it holds Python objects (callbacks, rules of custom_vjp and custom_jvp,
        closures); the message names the equation.
      InvalidGraphError: if the Graph is not well formed.
    """
    if not isinstance(what, (Graph, Exported)):
        raise ArgumentError(
            f"fg.save takes a Graph or an exported function, not a {type(what).__name__}: write "
            "fg.save(fg.export(f)(*args), path)."
        )
    if isinstance(path, (str, PathLike)) and Path(path).suffix.lower() in PICTURES:
        raise ArgumentError(
            f"{Path(path).name!r} is the name of a picture: write graph.save(path) to draw one, or "
            "end the name in .fungrad."
        )
    writer = GraphWriter(sources)
    content: dict[str, Any] = {}
    check_graph(what if isinstance(what, Graph) else what.graph)
    try:
        if isinstance(what, Graph):
            writer.graph(what)
        else:
            writer.graph(what.graph)
            content |= {
                "names": list(what.names),
                "inputs": writer.write(what.inputs),
                "outputs": writer.write(what.outputs),
            }
    except Unsavable as error:
        raise ArgumentError(f"This cannot be saved, because it holds {error.message}.") from None
    _write(path, "graph" if isinstance(what, Graph) else "function", content, writer)


@boundary
def save_tree(tree: Any, path: Target) -> None:
    """Writes a tree of arrays and numbers to a file that `load_tree` reads on any machine.

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "parameters.fungrad")
    >>> save_tree({"w": np.ones((2, 3)), "layers": [1, 2.5]}, path)
    >>> load_tree(path)["layers"]
    [1, 2.5]

    For parameters, states of optimisers and checkpoints of a training run. The file is written
    under another name and renamed, so a reader never finds a part of it.

    Args:
      tree: arrays, NumPy's and Python's numbers, strings and None in lists, tuples, dicts, named
        tuples, dataclasses and registered containers.
      path: the file, by custom `x.fungrad`, or an open binary one.

    Raises:
      ArgumentError: if a leaf is something else; the message has its path in the tree.
    """
    leaves, treedef = pytree.flatten(tree)
    writer = GraphWriter(False)
    written = []
    for name, leaf in zip(pytree.paths(treedef), leaves, strict=True):
        try:
            written.append(writer.write(leaf))
        except Unsavable as error:
            raise ArgumentError(
                f"The leaf {name or 'of this tree'} cannot be saved: it is {error.message}. "
                "save_tree takes arrays, numbers and strings."
            ) from None
    _write(path, "tree", {"tree": writer.write(treedef), "leaves": written}, writer)


def _write(path: Target, kind: str, content: dict[str, Any], writer: GraphWriter) -> None:
    """Writes an archive; a named file is replaced at once."""
    head = {"format": FORMAT, "version": VERSION, "kind": kind}
    head |= {"longdouble": int(np.finfo(np.longdouble).nmant), "graphs": writer.graphs}
    text = json.dumps(head | content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if not isinstance(path, (str, PathLike)):
        _write_members(path, text, writer.arrays)
        return
    aside = Path(f"{os.fspath(path)}.{os.getpid()}.{get_ident()}.part")
    try:
        _write_members(aside, text, writer.arrays)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _write_members(file: Target, text: str, arrays: Sequence[Any]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _member(archive, CONTENT, text.encode("utf-8"))
        for number, array in enumerate(arrays):
            data = io.BytesIO()
            np.lib.format.write_array(data, np.asarray(array), allow_pickle=False)
            _member(archive, f"{number}.npy", data.getvalue())


def _member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # equal Graphs: equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


@boundary
def load(path: Target, *, max_bytes: int | None = None) -> Any:
    """Reads a file of `save`: an `Exported`, which is called like the function, or a Graph.

    >>> import io, numpy as np, fungrad as fg
    >>> file = io.BytesIO()
    >>> fg.save(fg.export(np.sin)(1.0), file)
    >>> float(load(file)(0.0))
    0.0

    Nothing in the file is run or unpickled; primitives are found by their names. Time and memory
    are linear in the unpacked size.

    Args:
      path: the file, or an open binary one.
      max_bytes: the limit of the unpacked size; by default 64 MiB plus 20 times the size of the
        file, which only compressed zeros exceed.

    Raises:
      SavedFileError: if the file is not one of `save`'s, is damaged, of another version, unpacks to
        more than `max_bytes`, or needs a primitive or a container that is not declared here.
      FileNotFoundError: if there is no such file.
    """

    def loaded(content: Any, reader: Reader) -> Any:
        for item in content["graphs"]:
            reader.graph(item)
        graph = check_graph(reader.graphs[-1])
        if content["kind"] == "graph":
            return graph
        inputs, outputs = reader.read(content["inputs"]), reader.read(content["outputs"])
        names = [str(name) for name in content["names"]]
        if (inputs.leaf_count, outputs.leaf_count, len(names)) != (
            len(graph.inputs), len(graph.outputs), len(graph.inputs),
        ):  # fmt: skip
            raise SavedFileError("its trees and its Graph have different numbers of leaves.")
        return Exported(graph, inputs, outputs, names)

    return _read(path, max_bytes, "load", loaded)


@boundary
def load_tree(path: Target, *, max_bytes: int | None = None) -> Any:
    """Reads the tree that `save_tree` wrote; its arrays are new and writeable.

    >>> import io, numpy as np, fungrad as fg
    >>> file = io.BytesIO()
    >>> fg.save_tree({"w": np.ones(2)}, file)
    >>> load_tree(file)
    {'w': array([1., 1.])}

    Args:
      path: the file, or an open binary one.
      max_bytes: the limit of the unpacked size, as for `load`.

    Raises:
      SavedFileError: if the file is not one of `save_tree`'s, is damaged, unpacks to more than
        `max_bytes`, or has a container that is not declared here.
      FileNotFoundError: if there is no such file.
    """

    def loaded(content: Any, reader: Reader) -> Any:
        treedef = reader.read(content["tree"])
        leaves = [reader.read(leaf) for leaf in content["leaves"]]
        if treedef.leaf_count != len(leaves):
            raise SavedFileError("its tree has another number of leaves.")
        owned = [np.array(x) if isinstance(x, np.ndarray) else x for x in leaves]
        return pytree.unflatten(treedef, owned)

    return _read(path, max_bytes, "load_tree", loaded)


def _read(
    path: Target,
    max_bytes: int | None,
    name: str,
    loaded: Callable[[Any, Reader], Any],
) -> Any:
    """The result of `loaded` for an archive of the kind that the function `name` reads."""
    try:
        with (
            nullcontext(path) if not isinstance(path, (str, PathLike)) else open(path, "rb") as file
        ):
            members = Members(file, max_bytes)
            content = json.loads(members.read(CONTENT))
            _check_head(content, name)
            return loaded(content, Reader(members.arrays(), content["longdouble"]))
    except FileNotFoundError:
        raise
    except FungradError as error:
        raise SavedFileError(f"{_shown(path)} cannot be loaded: {error.message}") from error
    except Exception as error:  # of zipfile, zlib, NumPy or the rules of types
        raise SavedFileError(
            f"{_shown(path)} cannot be loaded: it is not a file that fg.save wrote, or it is "
            f"damaged ({type(error).__name__}: {error})."
        ) from error


def _shown(path: Target) -> str:
    return repr(Path(path).name) if isinstance(path, (str, PathLike)) else "the file"


def _check_head(content: Any, name: str) -> None:
    if content["format"] != FORMAT:
        raise SavedFileError(f"its format is {content['format']!r}.")
    if content["version"] != VERSION:
        raise SavedFileError(
            f"its version is {content['version']!r}, and this fungrad reads version {VERSION}: "
            "install a newer fungrad, or save it again."
        )
    reader = READERS_OF.get(content["kind"])
    if reader is None:
        raise SavedFileError(f"it holds a {content['kind']!r}.")
    if reader != name:
        raise SavedFileError(f"it holds a {content['kind']}: read it by fg.{reader}.")
