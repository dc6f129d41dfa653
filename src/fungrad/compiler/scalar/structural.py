"""How primitives that hold Graphs (loops, branches, calls) are written.

Their rules walk the Graphs inside, by all that lowers Graphs. So the package installs them here,
and they are imported with the first such primitive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fungrad.support.hooks import Hooks

if TYPE_CHECKING:
    from fungrad.compiler.scalar.planning import Structural


class Installed(Hooks):
    """The rules by primitive."""

    rules: Mapping[Any, Structural]


installed = Installed()


def structural(primitive: Any) -> Structural | None:
    """How a primitive that holds Graphs is written; None for other primitives."""
    if not primitive.module.startswith("fungrad.control_flow."):
        return None
    rule: Structural | None = installed.rules.get(primitive)
    return rule
