"""Adds Pyodide, NumPy and fungrad to a built site, for the page "Try it in the browser".

python docs/browser.py build/docs --pyodide FOLDER

FOLDER has the files of a release of Pyodide, with the wheel of NumPy that its lock file names.
Needs no network.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
RUNTIME = ("pyodide.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
EITHER = ("pyodide.asm.js", "pyodide.asm.mjs")
"""Pyodide has the first one up to 0.29, the second one later."""


def needed(folder: Path) -> list[str]:
    """The names of the files that the page loads.

    Raises:
      FileNotFoundError: if one of them is not in the folder.
    """
    names = [*RUNTIME, *[name for name in EITHER if (folder / name).exists()]]
    if (folder / "pyodide-lock.json").exists():
        lock = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))
        names.append(lock["packages"]["numpy"]["file_name"])
    missing = [name for name in names if not (folder / name).exists()]
    if missing or len(names) < len(RUNTIME) + 2:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing) or EITHER[0]}")
    return names


def assemble(site: Path, pyodide: Path) -> Path:
    """Copies what the page loads into a site; the folder that holds it."""
    target = site / "_static" / "pyodide"
    target.mkdir(parents=True, exist_ok=True)
    for name in needed(pyodide):
        shutil.copyfile(pyodide / name, target / name)
    with zipfile.ZipFile(target / "fungrad.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((SOURCE / "fungrad").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(SOURCE).as_posix())
    return target


def main(arguments: list[str]) -> None:
    """Assembles the files, and prints how large they are."""
    parser = argparse.ArgumentParser(description="Adds Pyodide and fungrad to a built site.")
    parser.add_argument("site", type=Path)
    parser.add_argument("--pyodide", type=Path, required=True)
    options = parser.parse_args(arguments)
    made = assemble(options.site, options.pyodide)
    size = sum(path.stat().st_size for path in made.iterdir())
    print(f"{made}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
