"""A rest of Python's collector of garbage.

It walks all objects again and again while their number grows. A trace, and the build of its
program, make many objects that stay and hardly any garbage in cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """A block in which the collector does not run; garbage without cycles is freed as before."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
