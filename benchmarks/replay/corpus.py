"""The corpus as a file: a zip archive of saved Graphs, arrays, and one index in JSON.

An array is stored once, under the hash of its content. A primitive that has moved to another module
is found by its name; nothing else of fungrad's inside is known here.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import json
import pkgutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.errors import SavedFileError
from fungrad.testing.registry import all_primitives

INDEX, VERSION = "corpus.json", 1
NUMBERS = (bool, int, float, complex)
Values = list[Any]


class Unreadable(Exception):
    """A Graph that the fungrad at hand cannot load."""


@dataclass
class Observation:
    """What one way to run a Graph gave: its outputs or the error, warnings, sizes and times."""

    outputs: Values = field(default_factory=list)
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)


@dataclass
class Entry:
    """A Graph, its inputs (arrays and Python's numbers), and what each mode gave."""

    name: str
    graph: bytes
    inputs: Values
    observed: dict[str, Observation]


def path_of(where: str | Path) -> Path:
    """The file of a corpus: the one named, or corpus.zip in a folder."""
    where = Path(where)
    return where / "corpus.zip" if where.is_dir() or not where.suffix else where


class Writer:
    """Writes entries one by one, and the index at the end."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._known: set[str] = set()
        self.index: dict[str, Any] = {"version": VERSION, **about, "entries": []}

    def add(self, entry: Entry) -> None:
        """Writes an entry."""
        member = f"graphs/{len(self.index['entries'])}.fungrad"
        self._archive.writestr(zipfile.ZipInfo(member), entry.graph)  # is compressed already
        observed = {
            mode: {**asdict(seen), "outputs": self._values(seen.outputs)}
            for mode, seen in entry.observed.items()
        }
        self.index["entries"].append(
            {
                "name": entry.name,
                "graph": member,
                "inputs": self._values(entry.inputs),
                "observed": observed,
            }
        )

    def close(self) -> None:
        """Writes the index."""
        self._archive.writestr(INDEX, json.dumps(self.index, indent=1))
        self._archive.close()

    def _values(self, values: Sequence[Any]) -> list[Any]:
        return [self._value(value) for value in values]

    def _value(self, value: Any) -> Any:
        if type(value) is complex:
            return ["complex", [value.real.hex(), value.imag.hex()]]
        if type(value) in NUMBERS:
            return [type(value).__name__, value.hex() if type(value) is float else value]
        data = io.BytesIO()
        np.lib.format.write_array(data, np.asarray(value), allow_pickle=False)
        member = f"arrays/{hashlib.sha256(data.getvalue()).hexdigest()[:32]}.npy"
        if member not in self._known:
            self._known.add(member)
            self._archive.writestr(member, data.getvalue())
        return member


class Reader:
    """Reads the entries of a corpus, each when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)
        self.index: dict[str, Any] = json.loads(self._archive.read(INDEX))
        if self.index["version"] != VERSION:
            raise SystemExit(f"{path} is of version {self.index['version']}: record it again")
        self._items = {item["name"]: item for item in self.index["entries"]}

    @property
    def names(self) -> list[str]:
        """The names of the entries."""
        return list(self._items)

    def entry(self, name: str) -> Entry:
        """An entry by its name."""
        item = self._items[name]
        observed = {
            mode: Observation(**{**seen, "outputs": list(map(self._value, seen["outputs"]))})
            for mode, seen in item["observed"].items()
        }
        inputs = [self._value(value) for value in item["inputs"]]
        return Entry(name, self._archive.read(item["graph"]), inputs, observed)

    def __iter__(self) -> Iterator[Entry]:
        return (self.entry(name) for name in self._items)

    def _value(self, found: Any) -> Any:
        if isinstance(found, str):
            return np.lib.format.read_array(
                io.BytesIO(self._archive.read(found)), allow_pickle=False
            )
        kind, content = found
        if kind == "complex":
            return complex(*map(float.fromhex, content))
        return {"float": float.fromhex, "int": int, "bool": bool}[kind](content)


def saved(exported: Any) -> bytes:
    """An exported function as `fg.save` writes it, without names of files."""
    data = io.BytesIO()
    fg.save(exported, data, sources=False)
    return data.getvalue()


def loaded(content: bytes) -> Any:
    """The exported function, anew at each call: nothing is compiled yet.

    Raises:
      Unreadable: where it needs what this fungrad does not have.
    """
    try:
        return fg.load(io.BytesIO(_moved(content)), max_bytes=2**31)
    except SavedFileError as error:
        raise Unreadable(str(error)) from error


@functools.cache
def declared() -> dict[str, str]:
    """The modules of fungrad's primitives by their names: some are declared when it is used."""
    scipy = importlib.import_module("fungrad.scipy")
    for module in pkgutil.walk_packages(scipy.__path__, "fungrad.scipy."):
        importlib.import_module(module.name)
    return {name: module for module, name in all_primitives() if module.startswith("fungrad.")}


def _moved(content: bytes) -> bytes:
    """The file with each primitive of fungrad in the module that declares it today."""
    source = zipfile.ZipFile(io.BytesIO(content))
    index = json.loads(source.read("graph.json"))
    changed = False
    for graph in index["graphs"]:
        for equation in graph["equations"]:
            module, name = equation["primitive"]
            home = declared().get(name, module) if module.startswith("fungrad.") else module
            changed = changed or home != module
            equation["primitive"] = [home, name]
    if not changed:
        return content
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as target:
        for member in source.namelist():
            text = json.dumps(index).encode() if member == "graph.json" else source.read(member)
            target.writestr(member, text)
    return data.getvalue()
