"""Executes the notebooks: `python notebooks/run.py [NAME ...]` checks them, `--write` stores them.

A notebook passes where every cell runs, in 60 s of CPU time in all, and prints what the committed
one prints: the same words, and numbers that agree within 5 % (or 0.02). Each runs in a new IPython
shell, in a process of its own that is forked when the packages are imported, and as many side by
side as there are cores. Needs the extra `notebooks`, and forks.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import io
import os
import re
import sys
import time
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

# The notebooks' matrices are small: more threads only wait for each other where cores are busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import nbformat
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot
from matplotlib_inline.backend_inline import configure_inline_support
from nbformat.v4 import new_output
from outputs import PATHS, agree, texts
from PIL import Image
from traitlets.config import Config

import fungrad  # noqa: F401  # for the forks

HERE = Path(__file__).parent
LIMIT = 60.0
CELL = re.compile(r"(?:<|&lt;)ipython-input-[-\w]+(?:>|&gt;)")  # the name of a cell's file
INLINE = "module://matplotlib_inline.backend_inline"


class Publisher(DisplayPublisher):
    """What the present cell has printed and displayed, as a notebook stores it."""

    outputs: list[nbformat.NotebookNode]

    def publish(self, data: dict[str, Any], metadata: Any = None, **_: Any) -> None:
        self.add("display_data", data)

    def add(self, kind: str, data: dict[str, Any], **more: Any) -> None:
        self.outputs.append(new_output(kind, data=data, **more))


class Hook(DisplayHook):
    """Stores the value of a cell's last expression."""

    def write_output_prompt(self) -> None: ...

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shell.display_pub.add("execute_result", format_dict, execution_count=self.prompt_count)

    def finish_displayhook(self) -> None: ...


class Stream(io.TextIOBase):
    """A stream whose text goes to a cell's outputs."""

    def __init__(self, name: str, publisher: Publisher) -> None:
        self.name, self.publisher = name, publisher

    def write(self, text: str) -> int:
        outputs = self.publisher.outputs
        if not (outputs and outputs[-1].get("name") == self.name):
            outputs.append(new_output("stream", name=self.name, text=""))
        outputs[-1].text += text
        return len(text)


def execute(notebook: nbformat.NotebookNode) -> float:
    """Runs all cells in a new shell, in place; the seconds of CPU time that it took."""
    start = time.process_time()
    os.chdir(HERE)
    quiet = Config(HistoryManager={"enabled": False})
    shell = InteractiveShell.instance(
        config=quiet, display_pub_class=Publisher, displayhook_class=Hook, colors="nocolor"
    )
    sys.modules["__main__"] = shell.user_module
    pyplot.switch_backend(INLINE)
    configure_inline_support(shell, INLINE)
    publisher = shell.display_pub
    out, err = Stream("stdout", publisher), Stream("stderr", publisher)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = publisher.outputs = []
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                result = shell.run_cell(cell.source, store_history=True)
            cell.execution_count = result.execution_count
            result.raise_error()
    return time.process_time() - start


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
        found.append(f"took {seconds:.0f} s of CPU time, more than {LIMIT:.0f}")
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


def check(path: Path, write: bool) -> None:
    """Executes one notebook; ends its process with status 1 if anything is wrong."""
    found = problems(path, write)
    for problem in found:
        print(f"FAILED: {path.name} {problem}", file=sys.stderr)
    sys.exit(bool(found))


def all_pass(processes: list[ForkProcess]) -> bool:
    """Runs processes, as many at a time as there are cores. The only thread forks them: a fork
    beside other threads may wait for a lock that one of them holds.
    """
    waiting, running, failed = processes[::-1], {}, False
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            process = waiting.pop()
            process.start()
            running[process.sentinel] = process
        for sentinel in wait(running):
            process = running.pop(sentinel)
            process.join()
            failed |= process.exitcode != 0
    return not failed


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
    return int(not all_pass([ForkProcess(target=check, args=(p, arguments.write)) for p in paths]))


if __name__ == "__main__":
    raise SystemExit(main())
