"""The process that `benchmarks.first` starts: one gradient, as a program of a user's takes it.

NumPy comes first, since every library here brings it along. What belongs to the measuring alone is
timed, to be left out, for all libraries alike: the import of the cases, and the arguments.
"""

from __future__ import annotations

import resource
import time

import numpy as np


def main(name: str, label: str) -> None:
    """Prints when the result was there, the seconds to leave out, and the peak of memory in KiB."""
    start = time.monotonic()
    # Not at the top, where they would count.
    from benchmarks import cases, libraries

    case = next(case for case in cases.ALL if case.name == label)
    arguments = case.arguments()
    making = time.monotonic() - start
    result = libraries.prepared(name, case)(*arguments)
    ready = time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert _arrays(result), "no ndarrays: the result may not be there yet"
    print(ready, making, peak)


def _arrays(tree: object) -> bool:
    if isinstance(tree, (tuple, list)):
        return all(_arrays(part) for part in tree)
    return isinstance(tree, (np.ndarray, np.generic, float))
