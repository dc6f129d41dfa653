"""Named scopes, which label equations, and the provenance of replayed equations."""

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


class Provenance(Record):
    """Where an equation comes from: the user's line, the scope, and the number of backward walks
    that made it (see `Equation`).
    """

    source: Source | None
    scope: str
    backward: int = 0


replayed: ContextVar[Provenance | None] = ContextVar("fungrad_replayed", default=None)
"""That of the present equation, while a Graph is retraced or a tape walked."""


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


_provenance = functools.lru_cache(maxsize=4096)(Provenance)


def provenance() -> Provenance:
    """That of the present operation: the user's line and scope, or the replayed equation's."""
    return replayed.get() or _provenance(user_source(), current_scope())


def backward_provenance() -> Provenance:
    """That of the backward equations of the present equation: the same line, `backward` plus
    one.
    """
    source, scope, backward = provenance()
    return Provenance(source, scope, backward + 1)
