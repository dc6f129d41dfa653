"""A program with its arguments: NumPy's results, and its differentiable inputs and outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import fungrad as fg
from fungrad.primitives.contraction.dot_general import dot_general

from .noise import Outcome, Spread
from .program import Program


class Case:
    """A program with its arguments and NumPy's results, shared by the oracles of one round."""

    def __init__(self, program: Program, seed: object) -> None:
        self.program = program
        self.args = program.args()
        self.rng = Random(f"{seed}")
        self.flags: dict[str, set[str]] = {}
        self._graph: Any = None
        self._expected: Any = None

    @property
    def expected(self) -> Any:
        """NumPy's results, or the exception that it raised."""
        if self._expected is None:
            try:
                self._expected = self.watched("plain", self.program.plain, *self.args)
            except Exception as error:
                self._expected = error
        return self._expected

    def watched(self, name: str, f: Callable[..., Any], *args: Any) -> Any:
        """f(*args), with the kinds of its floating-point warnings stored in `flags`."""
        seen = self.flags.setdefault(name, set())
        with (
            np.errstate(all="call", under="ignore", call=lambda kind, _: seen.add(kind)),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            return f(*args)

    @property
    def graph(self) -> Any:
        """The Graph of the program."""
        if self._graph is None:
            self._graph = fg.make_jaxpr(self.program.traced)(*self.args)
        return self._graph

    def contracts(self) -> bool:
        """Whether the program has products that are sums: the sign of a zero that one gives depends
        on where the sum starts, in NumPy's functions as well (einsum, outer and matmul differ).
        """
        return "einsum(" in self.program.source or _contracts(self.graph)

    def spread(
        self, f: Any = None, args: Sequence[Any] | None = None, loose: bool = False
    ) -> Callable[[int], list[list[Any]]]:
        """Noisy runs of a function (by default the program), traced at first use."""
        made: list[Spread] = []

        def results(count: int) -> list[list[Any]]:
            if not made:
                given = self.args if args is None else args
                graph = fg.make_jaxpr(f or self.program.traced)(*given)
                made.append(Spread(graph, given, loose))
            return made[0].results(count)

        return results

    # --- derivatives

    def floats(self) -> list[int]:
        """The positions of arguments that can be differentiated."""
        found = []
        for i, arg in enumerate(self.args):
            if np.asarray(arg).dtype.kind in "fc" and np.asarray(arg).dtype.isnative:
                found.append(i)
        if not found:
            raise Outcome("no argument has a derivative")
        return found

    def partial(self) -> tuple[Callable[..., Any], list[Any]]:
        """The inexact outputs as a function of the inexact arguments, and those arguments."""
        where = self.floats()
        traced, args = self.program.traced, self.args
        plain = self.expected
        if isinstance(plain, Exception):
            raise Outcome("NumPy raises")
        wanted = [i for i, o in enumerate(plain) if np.asarray(o).dtype.kind in "fc"]
        if not wanted:
            raise Outcome("no output has a derivative")

        def f(*given: Any) -> Any:
            full = list(args)
            for i, value in zip(where, given, strict=True):
                full[i] = value
            out = traced(*full)
            return tuple(out[i] for i in wanted)

        return f, [args[i] for i in where]

    def weights(self, like: Sequence[Any], salt: int) -> tuple[Any, ...]:
        """Cotangents or tangents for values, of their dtypes and shapes."""
        rng = np.random.default_rng(salt)

        def weight(value: Any) -> Any:
            value = np.asarray(value)
            real, imag = (rng.integers(0, 8, (2, *value.shape)) - 3.5) / 4.0  # none is zero
            return np.asarray(real + 1j * imag if value.dtype.kind == "c" else real, value.dtype)

        return tuple(weight(value) for value in like)

    def outputs(self) -> list[Any]:
        return [np.asarray(o) for o in self.expected if np.asarray(o).dtype.kind in "fc"]

    def gradient(self) -> tuple[Callable[..., Any], list[Any]]:
        """The pullback of fixed cotangents, as a function of the arguments."""
        f, given = self.partial()
        cotangents = self.weights(self.outputs(), 1)
        return (lambda *xs: fg.vjp(f, *xs)[1](cotangents)), given

    def tame(self) -> bool:
        """Whether all numbers are moderate, so that derivatives may be compared loosely."""
        for value in (*self.args, *self.outputs(), *(v.make() for _, v in self.program.captured)):
            value = np.asarray(value)
            if value.dtype.kind in "fc" and value.size:
                with np.errstate(all="ignore"):
                    largest, least = np.max(np.abs(value)), np.min(np.abs(value))
                if not (largest < 1e4 and (least == 0 or least > 1e-9)):
                    return False
        return True


__all__ = ["Case", "Outcome"]


def _contracts(graph: Any) -> bool:
    return any(e.primitive is dot_general for e in graph.equations) or any(
        map(_contracts, graph.subgraphs())
    )
