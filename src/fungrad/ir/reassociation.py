"""Whether a program may regroup its sums and products: the setting, and a Graph's own
choice.

Rules that hold in exact arithmetic only are applied where this says so, and nowhere else.
"""

from __future__ import annotations

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Graph


class _State:
    reassociate = False


state = _State()
"""Its attribute is the setting; `fg.config.reassociate` sets it."""


def choose(value: bool) -> None:
    """Sets what holds for Graphs that have no choice of their own, from their next run on.

    Raises:
      ArgumentError: for anything but True and False.
    """
    state.reassociate = bool(checked(value, "fg.config.reassociate"))


def checked(value: bool | None, name: str) -> bool | None:
    """The value of a setting or an argument of this name.

    Raises:
      ArgumentError: for anything but a truth value, or None.
    """
    if value is None and name != "fg.config.reassociate":
        return None
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} has to be True or False, not {value!r}.")
    return value


def regrouping(graph: Graph) -> bool:
    """Whether what only holds in exact arithmetic may be done in a Graph: by its own choice, else
    by the setting. Passes get Graphs whose choice is made, and keep it (`Graph.replace`).
    """
    return state.reassociate if graph.reassociate is None else graph.reassociate


def chosen(graph: Graph, reassociate: bool | None) -> Graph:
    """The Graph with a choice of its own; made once for each, as programs are kept with it."""
    if graph.reassociate is reassociate:
        return graph
    key = ("reassociate", reassociate)
    if key not in graph.derived:
        graph.derived[key] = graph.replace(reassociate=reassociate)
    found: Graph = graph.derived[key]
    return found


__all__ = ["checked", "choose", "chosen", "regrouping", "state"]
