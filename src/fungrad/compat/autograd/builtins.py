"""Autograd's replacements of Python's containers, isinstance and type.

Containers of traced values are Python's own here, so list, tuple and dict are Python's.
"""

from __future__ import annotations

import builtins
from builtins import dict as dict
from builtins import list as list
from builtins import tuple as tuple
from typing import Any

from fungrad.compat.autograd.boxes import Box as Box
from fungrad.compat.autograd.boxes import getval
from fungrad.support import pytree
from fungrad.tracing.trace import Tracer


def isinstance(x: Any, kind: Any) -> bool:
    """Whether a value, or the value of a traced one, is of a class.

    Args:
      x: a value. kind: a class, or a tuple of them.

    >>> isinstance(1.0, float)
    True
    """
    return builtins.isinstance(x, kind) or builtins.isinstance(getval(x), kind)


def type(x: Any) -> builtins.type:
    """The class of a value; for a traced one that of its value.

    Args:
      x: a value.

    >>> type(1.0)
    <class 'float'>
    """
    return builtins.type(getval(x))


class _OfTraced(builtins.type):
    """The metaclass of classes whose instances are Python's containers of traced values."""

    container: Any = ()

    def __instancecheck__(cls, x: Any) -> bool:
        return builtins.isinstance(x, cls.container) and any(
            builtins.type(leaf) is Tracer for leaf in pytree.leaves(x)
        )


class SequenceBox(metaclass=_OfTraced):
    """The class of lists and tuples with traced values in them."""

    container = (builtins.list, builtins.tuple)


class DictBox(metaclass=_OfTraced):
    """The class of dicts with traced values in them."""

    container = builtins.dict


__all__ = ["Box", "DictBox", "SequenceBox", "dict", "isinstance", "list", "tuple", "type"]
