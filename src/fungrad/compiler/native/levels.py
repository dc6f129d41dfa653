"""Levels of values: equations of one odd level may run together."""

from __future__ import annotations

from collections.abc import Sequence

from fungrad.ir.graph import Atom


class Levels(dict[Atom, int]):
    """ASAP levels: odd for equations of clusters, even for others, each as low as its operands
    allow, so that the graph of clusters is acyclic. They are kept for values: the
    result of a whole reduction has the level after that of its cluster.
    """

    def odd(self, atoms: Sequence[Atom], later: bool = False) -> int:
        """The level of a fusable equation; with `later` it is in no cluster of its operands."""
        found = [self.get(atom, 0) for atom in atoms]
        return max([1, *(x + (2 * later if x % 2 else 1) for x in found)])

    def even(self, atoms: Sequence[Atom]) -> int:
        """The level of another equation."""
        found = [self.get(atom, 0) for atom in atoms]
        return max([0, *(x + x % 2 for x in found)])
