"""Floor 2: named scopes, the labels that equations carry, and where a replayed equation came
from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fungrad.ir.graph import Source
from fungrad.tracing.source import user_source

_scope: ContextVar[str] = ContextVar("fungrad_scope", default="")
current_scope = _scope.get
replayed: ContextVar[tuple[Source | None, str] | None] = ContextVar(
    "fungrad_replayed", default=None
)
"""The source and scope of the equation that is evaluated now, while a Graph is retraced."""


@contextmanager
def named_scope(name: str) -> Iterator[str]:
    """Labels the equations recorded inside the block with a name; scopes nest as `outer/inner`.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     with fg.named_scope("encoder"):
    ...         return np.sin(x)
    >>> fg.make_jaxpr(f)(1.0).equations[0].scope
    'encoder'
    """
    outer = _scope.get()
    token = _scope.set(f"{outer}/{name}" if outer else name)
    try:
        yield _scope.get()
    finally:
        _scope.reset(token)


def place() -> tuple[Source | None, str]:
    """The source and scope of what is done now: the user's line, or that of a replayed equation."""
    return replayed.get() or (user_source(), current_scope())
