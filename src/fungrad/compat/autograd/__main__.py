"""`python -m fungrad.compat.autograd program.py`: runs a program with fungrad as autograd.

python -m fungrad.compat.autograd program.py arguments
python -m fungrad.compat.autograd -m module arguments
"""

from __future__ import annotations

import os
import runpy
import sys

from fungrad.compat.autograd.installing import install


def main(arguments: list[str]) -> None:
    """Runs a file, or a module after -m, under `install()`."""
    as_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if as_module else arguments
    if not rest or rest[0].startswith("-"):
        sys.exit("usage: python -m fungrad.compat.autograd [-m module | program.py] [arguments]")
    install()
    sys.argv = rest
    if as_module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
