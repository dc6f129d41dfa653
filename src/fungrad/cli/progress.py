"""The command line's progress: how far long work has come, on stderr and only on a terminal.

Knows rich where it is installed (extra `cli`); knows nothing of the work.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """A function to be called after each of `total` pieces of work; None where that is not known.

    Nothing stays on the terminal, and nothing is written where stderr is none.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:  # the extra `cli` is not installed
        yield from _plain(what, total)
        return
    # No thread of its own draws it: that would be in the times of `bench` and `profile`.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(what, total=total)
        bar.refresh()

        def advance() -> None:
            bar.advance(task)
            bar.refresh()

        yield advance


def _plain(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    done = 0

    def show(text: str) -> None:
        print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    def advance() -> None:
        nonlocal done
        done += 1
        show(f"{what} {done}" + ("" if total is None else f" of {total}"))

    show(what)
    try:
        yield advance
    finally:
        show("")
