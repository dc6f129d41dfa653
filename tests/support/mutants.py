"""What a mutant of the compiler is: see mutation_compiler.py."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One change of the source.

    name: the module and what is broken.
    file: below src/fungrad.
    old, new: what stands there exactly once, and what stands there instead.
    tests: files or tests of theirs, below tests/, some of which have to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def of(file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """The mutants of a file that the same tests have to kill: what is broken, old, new of each."""
    part = "/".join(file.removesuffix(".py").split("/")[-2:])
    return tuple([Mutant(f"{part}: {n}", file, old, new, tests)
                  for n, old, new in changes])  # fmt: skip
