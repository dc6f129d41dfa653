"""All benchmarks, against hand-written NumPy and the installed peers: `python -m benchmarks`.

All settings are those that users have by default: the BLAS has as many threads as it likes, and
nothing is reassociated. The BLAS reads its number of threads when NumPy is imported, so options are
read before.
"""

from __future__ import annotations

import argparse
import importlib
import os

from benchmarks import DEFAULT_THREADS, LIMITED, REASSOCIATE, THREADS

SECTIONS = ("gradients", "first", "imports", "staging", "memory")


def options(given: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all without any")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a section; repeat it")
    parser.add_argument(
        "--library", action="append", dest="libraries", help="a peer, as 'JAX jit'; repeat it"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--large", action="store_true", help="also cases that take gigabytes")
    parser.add_argument("--torch-compile", action="store_true", help="also torch.compile")
    parser.add_argument("--rounds", type=int, default=21, help="turns of each library (21)")
    parser.add_argument("--blas-threads", type=int, help="for all libraries (NumPy's own number)")
    parser.add_argument(
        "--reassociate", action="store_true", help="fungrad with fg.config.reassociate = True"
    )
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="figures as JSON")
    parser.add_argument("--picture", metavar="FILE", help="a chart, SVG or PNG (matplotlib)")
    parser.add_argument("--list", action="store_true", help="names of cases, and no more")
    return parser.parse_args(given)


def main() -> None:
    """Runs the chosen benchmarks."""
    chosen = options()
    if chosen.blas_threads is None:
        os.environ[DEFAULT_THREADS] = "1"
        for name in LIMITED:
            os.environ.pop(name, None)
    else:
        os.environ.update(dict.fromkeys(THREADS, str(chosen.blas_threads)))
    if chosen.reassociate:
        os.environ[REASSOCIATE] = "1"
    if chosen.list:
        print("\n".join(case.name for case in importlib.import_module("benchmarks.cases").ALL))
        return
    importlib.import_module("benchmarks.suite").main(chosen)


if __name__ == "__main__":
    main()
