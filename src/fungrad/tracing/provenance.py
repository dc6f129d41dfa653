"""Named scopes, which label equations, and the places that replayed equations come from."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fungrad.ir.graph import Source
from fungrad.support.lazy import Record
from fungrad.tracing.source_location import user_source

_scope: ContextVar[str] = ContextVar("fungrad_scope", default="")
current_scope = _scope.get


class Place(Record):
    """Where an equation comes from: the user's line, the scope, and the number of backward walks
    that made it (see `Equation`).
    """

    source: Source | None
    scope: str
    backward: int = 0


replayed: ContextVar[Place | None] = ContextVar("fungrad_replayed", default=None)
"""The place of the present equation, while a Graph is retraced or a tape walked."""


@contextmanager
def named_scope(name: str) -> Iterator[str]:
    """Labels the equations recorded inside the block with a name; scopes nest as `outer/inner`.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     with fg.named_scope("encoder"):
    ...         return np.sin(x)
    >>> fg.make_jaxpr(f)(1.0).equations[0].scope
    'encoder'

    Args:
      name: the label.
    """
    outer = _scope.get()
    token = _scope.set(f"{outer}/{name}" if outer else name)
    try:
        yield _scope.get()
    finally:
        _scope.reset(token)


_place = functools.lru_cache(maxsize=4096)(Place)


def place() -> Place:
    """The place of the present operation: the user's line and scope, or the replayed equation's."""
    return replayed.get() or _place(user_source(), current_scope())


def backward_place() -> Place:
    """The place of the backward equations of the present equation: the same line, `backward` plus
    one.
    """
    source, scope, backward = place()
    return Place(source, scope, backward + 1)
