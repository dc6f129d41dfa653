"""The notebooks, read: their code, and the functions that their cells tagged `model` define."""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import fungrad as fg

FOLDER = Path(__file__).parents[2] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
STOPS = "Gradients that stop"
"""The section of notebooks/README.md whose notebooks mark the code behind a stop."""
sys.path.insert(0, str(FOLDER))  # where the notebooks import from

from looking import held_bytes, marked, stopped  # noqa: E402
from outputs import PATHS as MACHINE_PATHS  # noqa: E402
from outputs import agree, texts  # noqa: E402

__all__ = [
    "FOLDER",
    "MACHINE_PATHS",
    "PATHS",
    "STOPS",
    "agree",
    "code_cells",
    "held_bytes",
    "listed",
    "marked",
    "model",
    "read",
    "stopped",
    "texts",
]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path):
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def listed():
    """The names in the tables of notebooks/README.md, by section."""
    sections = re.split(r"^## ", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.M)
    named = re.compile(r"^\| \[(\w+)\]\(\1\.ipynb\) \| \S", re.M)
    return {text.partition("\n")[0]: named.findall(text) for text in sections[1:]}


@functools.cache
def model(number):
    """The names that the cells tagged `model` of a notebook define."""
    (path,) = FOLDER.glob(f"{number:02d}_*.ipynb")
    cells = code_cells(path)
    names = {"np": np, "fg": fg}
    for statement in ast.parse("".join(cells[0]["source"])).body:
        if isinstance(statement, ast.ImportFrom) and statement.module in sys.stdlib_module_names:
            exec(ast.unparse(statement), names)
    tagged = [cell for cell in cells if "model" in cell["metadata"].get("tags", [])]
    assert tagged, path.name
    for cell in tagged:
        exec(compile("".join(cell["source"]), f"<{path.stem}>", "exec"), names)
    return SimpleNamespace(**names)
