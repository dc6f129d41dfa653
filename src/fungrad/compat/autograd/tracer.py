"""The names of autograd's module `tracer`."""

from __future__ import annotations

from typing import Any, NoReturn

from fungrad.compat.autograd.boxes import ArrayBox, Box, getval, isbox, notrace_primitive
from fungrad.compat.autograd.extend import primitive
from fungrad.errors import UnsupportedFunctionError
from fungrad.tracing.source_location import user_line


def _refused(name: str) -> NoReturn:
    raise UnsupportedFunctionError(
        f"autograd's {name}, a part of its own tracing, was used{user_line()}. fungrad traces in "
        "another way: use make_vjp, or primitive with defvjp."
    )


class VJPNode:
    """The name of autograd's nodes, for clients that import it."""

    @classmethod
    def new_root(cls) -> NoReturn:
        """Refused: there are no nodes to begin from."""
        _refused("VJPNode")


class _Stack:
    """The name of autograd's stack of traces."""

    def new_trace(self) -> NoReturn:
        """Refused: a transform begins and ends its trace."""
        _refused("trace_stack")


trace_stack = _Stack()


def new_box(value: Any, trace: Any, node: Any) -> NoReturn:
    """Refused: transforms box values."""
    _refused("new_box")


__all__ = [
    "ArrayBox", "Box", "VJPNode", "getval", "isbox", "new_box", "notrace_primitive", "primitive",
    "trace_stack",
]  # fmt: skip
