"""How primitives that hold Graphs (loops, branches, calls) are written.

Their rules walk the Graphs inside, by all that lowers Graphs. So the package installs them here,
and they are imported with the first such primitive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fungrad.compiler.lowering.scalar.planning import Structural


class Installed:
    """The module of the rules."""

    rules: Any = None


def structural(primitive: Any) -> Structural | None:
    """How a primitive that holds Graphs is written; None for other primitives."""
    if not primitive.module.startswith("fungrad.control_flow."):
        return None
    found: Structural | None = Installed.rules.RULES.get(primitive)
    return found
