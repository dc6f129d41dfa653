"""Runs the jobs: a table by package; exit status 1 if a derivative is wrong."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings

import numpy as np

import fungrad as fg
from benchmarks import third_party
from benchmarks.whole_jobs import JOBS

FIELDS = (
    "astronomy", "engineering", "light_and_places", "matter", "rotations_and_robots", "statistics"
)  # fmt: skip
ASPECTS = tuple(aspect for aspect in third_party.ASPECTS if aspect != "guard")


def main() -> int:
    """Measures the packages that are named, or all that are installed."""
    for field in FIELDS:
        importlib.import_module(f"benchmarks.whole_jobs.{field}")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole_jobs")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    parser.add_argument("--opaque", default="error", help='"differences" for compiled code')
    parser.add_argument("-v", "--verbose", action="store_true", help="what is not right, and why")
    given = parser.parse_args()
    fg.config.opaque = given.opaque
    warnings.simplefilter("ignore")
    rows = []
    for package, name, x, make, first in JOBS:
        if given.packages and package not in given.packages:
            continue
        try:
            f = make()
        except ImportError:
            continue
        with np.errstate(all="ignore"):
            found = third_party.measured(f, x, first)
        rows.append({"package": package, "function": name, **found})
        for aspect in ASPECTS if given.verbose else ():
            if found[aspect]["is"] != "right":
                why = f"{found[aspect]['is']}: {found[aspect]['why']}"
                print(f"{package}, {name}, {aspect}: {why}", flush=True)
    print("\n".join(third_party.table(rows, ASPECTS)))
    return int(any(row[aspect]["is"] == "wrong" for row in rows for aspect in ASPECTS))


if __name__ == "__main__":
    sys.exit(main())
