"""Executes the notebooks: `python notebooks/run.py [NAME ...]` checks them, `--write` stores them.

A notebook passes where every cell runs, in 60 s in all, and prints what the committed one prints:
the same words, and numbers that agree within 5 % (or 0.02). As many run side by side as there are
cores. Needs the extra `notebooks`.
"""

from __future__ import annotations

import argparse
import base64
import copy
import io
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from outputs import PATHS, agree, texts
from PIL import Image

HERE = Path(__file__).parent
LIMIT = 60.0
CELL = re.compile(r"[^\s\"<>]*ipykernel_\d+[/\\]\d+\.py")  # the name of a cell's file in a kernel


# The notebooks' matrices are small: more threads only wait for each other where cores are busy.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")


def execute(notebook: nbformat.NotebookNode) -> float:
    """Runs all cells in a fresh kernel, in place; the seconds that it took."""
    start = time.perf_counter()
    NotebookClient(
        notebook,
        timeout=int(LIMIT),
        kernel_name="python3",
        resources={"metadata": {"path": str(HERE)}},
    ).execute()
    return time.perf_counter() - start


def smaller(picture: str) -> str:
    """A PNG in base64 with 256 colours instead of 16 million."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    small = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode() + "\n"


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Leaves what a reader needs: no times of execution, no versions, no big pictures."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in ("tags",) if key in cell.metadata}
        for output in cell.get("outputs", []):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
            data = output.get("data", {})
            if "image/png" in data:
                output.data = {"image/png": smaller(data["image/png"])}
            elif "image/svg+xml" in data:
                output.data = {"image/svg+xml": CELL.sub("cell", data["image/svg+xml"])}


def problems(path: Path, write: bool) -> list[str]:
    """Executes one notebook; what is wrong with it."""
    committed = nbformat.read(path, as_version=4)
    notebook = copy.deepcopy(committed)
    seconds = execute(notebook)
    normalise(notebook)
    found = []
    if seconds > LIMIT:
        found.append(f"took {seconds:.0f} s, more than {LIMIT:.0f}")
    drawings = [
        output.get("data", {}).get("image/svg+xml", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    if match := PATHS.search("".join(texts(notebook) + drawings)):
        found.append(f"prints a path of this machine: ...{match.group()}...")
    if write and not found:
        nbformat.write(notebook, path)
    elif not write:
        pairs = zip(texts(committed), texts(notebook), strict=True)
        found += [
            f"code cell {i} prints\n{new}\nand not as committed\n{old}"
            for i, (old, new) in enumerate(pairs, 1)
            if not agree(old, new)
        ]
    print(f"{path.name}: {seconds:.1f} s, {path.stat().st_size / 1000:.0f} kB", flush=True)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="parts of notebooks' names; all where none is given"
    )
    parser.add_argument("--write", action="store_true", help="store the outputs")
    arguments = parser.parse_args()
    paths = [
        path
        for path in sorted(HERE.glob("*.ipynb"))
        if not arguments.names or any(name in path.name for name in arguments.names)
    ]
    if not paths:
        parser.error(f"there is no notebook named {' or '.join(arguments.names)}")
    failed = False
    with ProcessPoolExecutor(min(len(paths), os.cpu_count() or 1)) as pool:
        found = pool.map(partial(problems, write=arguments.write), paths)
        for path, wrong in zip(paths, found, strict=True):
            for problem in wrong:
                failed = True
                print(f"FAILED: {path.name} {problem}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
