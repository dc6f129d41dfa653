"""Primitive, and the families `linear` and `general`.

A primitive is declared once, with all its rules. Inside rules zero is None, the batch axis is axis
0,
and broadcasting is left alone: the transforms' walks undo it. A rule calls primitives, never NumPy,
so that it can itself be traced. (`elementwise` and `multilinear` need arithmetic in their rules;
they live beside their primitives in elementwise.py and dot_general.py.)
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.ir.types import Type, alone
from fungrad.primitives.facts import DEFAULTS, Cost, Facts, ScalarForm
from fungrad.tracing.trace import EVAL, Tracer, current, leaked, typeof

Rule = Callable[..., Any]


class Later:
    """A ufunc that is imported when it is applied to arrays, or asked for one of its attributes.

    Traced values reach its primitive without it.
    """

    def __init__(self, name: str, find: Callable[[], np.ufunc]) -> None:
        self.__name__ = name
        self._find = find

    @functools.cached_property
    def ufunc(self) -> np.ufunc:
        """The ufunc itself."""
        return self._find()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        traced = [arg for arg in args if type(arg) is Tracer]
        if traced:
            this: Any = self
            return traced[0].__array_ufunc__(this, "__call__", *args, **kwargs)
        return self.ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.ufunc, name)

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"


class Primitive:
    """An operation that every transform understands. Immutable; called like a function.

    Attributes:
      name: printed in the IR; unique in its module.
      eval: `eval(*arrays, **params)`, on NumPy values alone.
      type: `type(*types, **params)`, the Type of the output, or a tuple of Types.
      jvp: `jvp(primals, tangents, **params) -> (output, tangent)`; a tangent may be None (zero).
      vjp: `vjp(cotangent, output, args, wanted, **params)`: one cotangent or None for each
        argument; those with a false entry in `wanted` (a slot, 0 where unwanted) are not looked at.
      batch: `batch(args, batched, size, **params)`: the output with the batch axis first.
      keep: `keep(args)`, what reverse mode holds on to of the arguments, where that is not all: an
        entry may be a Type where vjp does not need the value. The output is then not kept.
      reads: the positions of arguments whose values the reverse rule reads, out of what `keep`
        leaves; None for all. Arrays of the program among them are kept as they were.
      collect: `collect(total, cotangent, args, **params)`, where the cotangent of the first
        argument is that of the output at some places: adds it there in place to a `Collected`.
        No other argument then has a cotangent, and what vjp gives is a new array.
      undo: `undo(total, args, wanted, **params)`, where the output is the first argument changed at
        some places: makes the `Collected` cotangent of the output that of the first argument, in
        place, and gives that of the second, or None.
      forward: `forward(args, wanted, **params) -> (output, saved, kept)`, what reverse mode does in
        place of calling the primitive; `saved` and `kept` then reach vjp as `output` and `args`.
      cuts: the positions of arguments whose derivative is zero on purpose; True for all.
      partials: of an elementwise primitive, in place of vjp: for each argument a function
        `(cotangent, output, args) -> cotangent`, or None (see elementwise.py).
      degree: "linear" where it is linear in the arguments that are not cut, taken together;
        "multilinear" where it is linear in each alone; else "".
      ufunc: the NumPy ufunc that eval applies, where it is one: a backend may call it with `out=`.
      moves: whether its vjp only moves elements, so that a mask goes through it as a cotangent
        does.
      multiple: whether the output is a tuple.
      effect: whether it is run for what it does (a print, a draw from a generator with a state):
        no pass drops it, merges two of it, or runs it at another time.
      pure: whether its outputs depend on its arguments alone, and it keeps none of them: passes may
        then run it once for many steps, or when a function is compiled. True without an effect. One
        that runs a Graph is as pure as that (`is_pure`).
      simple: whether it has one output, and neither cuts nor a `forward`: reverse mode calls it.
      plain: whether it is simple and elementwise.

    These are facts, which every family takes, and law-tested against `eval`:

      cost: its operations: a number of them for each element of the output, or a `Work`, or a
        function of the equation that counts all of them. 0 says that it makes, moves or converts
        elements and computes nothing. An elementwise primitive that says nothing evaluates one
        transcendental function for each element; None: nobody counts them.
      view: whether its outputs lie in the memory of its first argument where NumPy can have them
        there; an index made of arrays copies.
      commutative: whether two real arguments may change places, to the bit (a product of complex
        numbers rounds by their order).
      scalar: what it does to numbers, a `ScalarForm` or the name of its operation, where it is
        elementwise and a program of numbers can have it.
      reduces: the ufunc by which it reduces `axes` of its only argument, as `ufunc.reduce` does.
      inline: whether `eval` is written with functions of NumPy's that a trace can record: compiled
        programs run those in its place, and so fuse, count, write and export what it does.
      fresh: whether its outputs lie in memory of their own, not in that of an argument. What
        `reduces`, and what applies a ufunc to arrays, need not say it.
      order: in which order the axes of its outputs lie in memory: "rows", C order in any case;
        "first", that of the first argument; "example", what `eval` gives of small arrays that lie
        alike; "view", the strides that NumPy computes without reading an element; or a function
        `order(equation, strides of the inputs)`, None if they are unknown. Those with `view`,
        `partials` or `reduces` need not say it; None for all others: nobody knows.
      kink: `kink(*args, **params)`, where values sit at which it has no one derivative (see
        docs/kinks.md): booleans, one for each such place.
    """

    __slots__ = (
        "_ufunc", "batch", "collect", "commutative", "cost", "cuts", "degree", "effect",
        "eval", "forward", "fresh", "inline", "jvp", "keep", "kink", "module", "moves", "multiple",
        "name", "order", "partials", "plain", "pure", "reads", "reduces", "scalar", "simple",
        "type", "undo", "view", "vjp",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        eval: Rule,
        type: Rule,
        jvp: Rule | None = None,
        vjp: Rule | None = None,
        batch: Rule | None = None,
        keep: Rule | None = None,
        reads: Sequence[int] | None = None,
        collect: Rule | None = None,
        undo: Rule | None = None,
        forward: Rule | None = None,
        cuts: bool | Sequence[int] = (),
        partials: tuple[Any, ...] | None = None,
        ufunc: np.ufunc | Later | None = None,
        degree: str = "",
        moves: bool = False,
        multiple: bool = False,
        effect: bool = False,
        pure: bool | None = None,
        module: str | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        write = object.__setattr__
        if unknown := facts.keys() - DEFAULTS.keys():
            known = ", ".join(DEFAULTS)
            raise TypeError(f"{name!r} declares {', '.join(sorted(unknown))}; facts are {known}.")
        for fact, default in DEFAULTS.items():
            write(self, fact, facts.get(fact, default))
        if facts.get("order") is None:
            like = partials is not None or facts.get("reduces") is not None
            write(self, "order", "view" if facts.get("view") else "example" if like else None)
        scalar = facts.get("scalar")
        write(self, "scalar", ScalarForm(scalar) if isinstance(scalar, str) else scalar)
        write(self, "name", name)
        write(self, "eval", eval)
        write(self, "type", type)
        write(self, "jvp", jvp)
        write(self, "vjp", vjp)
        write(self, "batch", batch)
        write(self, "keep", keep)
        write(self, "collect", collect)
        write(self, "undo", undo)
        if reads is None and partials is not None:
            reads = range(len(partials))
        write(self, "reads", None if reads is None else frozenset(reads))
        write(self, "forward", forward)
        write(self, "cuts", cuts if isinstance(cuts, bool) else frozenset(cuts))
        write(self, "partials", partials)
        write(self, "_ufunc", ufunc)
        write(self, "degree", degree)
        write(self, "moves", moves)
        write(self, "multiple", multiple)
        write(self, "effect", effect)
        write(self, "pure", not effect if pure is None else pure and not effect)
        simple = not (cuts or forward or multiple)
        write(self, "simple", simple)
        write(self, "plain", simple and partials is not None and not keep)
        write(self, "module", module or _declaring_module())
        key = (self.module, name)
        if key in primitives:
            raise ArgumentError(f"The primitive {name!r} is declared twice in {self.module}.")
        primitives[key] = self

    name: str
    eval: Rule
    type: Rule
    jvp: Rule | None
    vjp: Rule | None
    batch: Rule | None
    keep: Rule | None
    collect: Rule | None
    undo: Rule | None
    reads: frozenset[int] | None
    forward: Rule | None
    cuts: bool | frozenset[int]
    partials: tuple[Any, ...] | None
    _ufunc: np.ufunc | Later | None
    degree: str
    moves: bool
    multiple: bool
    effect: bool
    pure: bool
    simple: bool
    module: str
    plain: bool
    cost: Cost | None
    view: bool
    commutative: bool
    scalar: ScalarForm | None
    reduces: np.ufunc | None
    inline: bool
    kink: Rule | None
    order: str | Rule | None
    fresh: bool

    def __call__(self, *args: Any, **params: Any) -> Any:
        trace = current()
        if trace is EVAL:
            for arg in args:
                if type(arg) is Tracer:
                    raise leaked(arg)
            return self.eval(*args, **params)
        return trace.process(self, args, params)

    @property
    def ufunc(self) -> np.ufunc | None:
        """The ufunc that eval applies, imported now where it was not so far."""
        found = self._ufunc
        return found.ufunc if isinstance(found, Later) else found

    def infer(self, types: Sequence[Type], params: dict[str, Any]) -> tuple[Type, ...]:
        """The types of the outputs for the types of the inputs, always as a tuple."""
        result = self.type(*types, **params)
        return tuple(result) if self.multiple else (result,)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A primitive is immutable; {name} cannot be set.")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_load, (self.module, self.name))

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


primitives: dict[tuple[str, str], Primitive] = {}
"""Every declared primitive, by its module and name."""


def _declaring_module() -> str:
    """The module that the declaration stands in: the first outside the families' own code."""
    frame = sys._getframe(1)
    while frame.f_code.co_name in (
        "__init__",
        "linear",
        "general",
        "elementwise",
        "multilinear",
        "structural",
    ):
        assert frame.f_back is not None
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "__main__")
    return name


def _load(module: str, name: str) -> Primitive:
    if (module, name) not in primitives:
        importlib.import_module(module)
    return primitives[module, name]


def linear(
    name: str,
    *,
    eval: Rule,
    type: Rule,
    transpose: Rule,
    batch: Rule | None = None,
    arguments: Sequence[int] | None = None,
    moves: bool = False,
    collect: Rule | None = None,
    **facts: Unpack[Facts],
) -> Primitive:
    """Declares a primitive that is linear in its arguments taken together (reshape, sum, indexing).

    Args:
      name: its name in the IR.
      eval: the function on NumPy values.
      type: the type rule.
      transpose: `transpose(cotangent, *args, **params)`, where the linear arguments are given as
        Types
        and the others as values: the cotangent of the linear argument, or a tuple, one for each.
      batch: the batch rule; a loop over the axis where it is missing.
      moves: whether the transpose only moves elements (no sum, no product).
      arguments: positions of the linear arguments where not all are (an index is not).
      collect: see `Primitive`.
      facts: see `Primitive`.
    """

    def is_linear(position: int) -> bool:
        return arguments is None or position in arguments

    def keep(args: Sequence[Any]) -> Sequence[Any]:
        if arguments is None:
            return types_of(args)
        return [typeof(a) if i in arguments else a for i, a in enumerate(args)]

    def vjp(cotangent: Any, output: Any, args: Sequence[Any], wanted: Any, **params: Any) -> Any:
        result = transpose(cotangent, *args, **params)
        if not isinstance(result, tuple):
            result = (result,)
        if arguments is None:
            return list(result)
        cotangents = iter(result)
        return [next(cotangents) if is_linear(i) else None for i in range(len(args))]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        moved = [
            p if not is_linear(i) else or_zero(t, p)
            for i, (p, t) in enumerate(zip(primals, tangents, strict=True))
        ]
        return primitive(*primals, **params), primitive(*moved, **params)

    passive = _passive(arguments) if arguments is not None else ()
    primitive = Primitive(
        name, eval=eval, type=type, jvp=jvp, vjp=vjp, batch=batch, keep=keep, cuts=passive,
        degree="linear",
        moves=moves,
        collect=collect,
        **facts,
    )  # fmt: skip
    return primitive


def types_of(args: Sequence[Any]) -> Sequence[Type]:
    """The Types of values, traced or not."""
    if len(args) == 1 and type(args[0]) is not Tracer:
        return alone(args[0])
    return [typeof(a) for a in args]


def _passive(arguments: Sequence[int]) -> Sequence[int]:
    """The positions that are not among the linear ones, for primitives of any number of
    arguments.
    """
    return tuple(i for i in range(64) if i not in arguments)


def general(
    name: str,
    *,
    eval: Rule,
    type: Rule,
    vjp: Rule | None = None,
    jvp: Rule | None = None,
    batch: Rule | None = None,
    cuts: bool | Sequence[int] = (),
    multiple: bool = False,
    effect: bool = False,
    **facts: Unpack[Facts],
) -> Primitive:
    """Declares a primitive by its rules (sort, solve, eigh): see `Primitive` for their signatures.

    Where `jvp` is missing, forward mode takes the pullback of the pullback. `cuts=True` says that
    its derivative is zero on purpose. `effect=True` says that its `eval` does more than compute (it
    prints, counts, or draws from a generator with a state): compiled functions run it as often as
    the program says, in its order. Without it they may run it fewer times, as in JAX.
    """
    return Primitive(
        name, eval=eval, type=type, vjp=vjp, jvp=jvp, batch=batch, cuts=cuts, multiple=multiple,
        effect=effect, **facts,
    )  # fmt: skip


def _eval_full(*, shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    return np.full(shape, value, dtype)


full = general(
    "full",
    order="rows",
    cost=0,
    eval=_eval_full,
    type=lambda *, shape, value, dtype: Type(shape, dtype),
    cuts=True,
)
"""An array of one value: `full(shape=, value=, dtype=)`. Takes no arguments, so it is never
batched.
"""


def zeros(type_: Type) -> Any:
    """A zero of the given Type."""
    return full(shape=type_.shape, value=0, dtype=type_.dtype)


def or_zero(value: Any, like: Any) -> Any:
    """The value, or where it is None a zero of the Type of `like` (a value, or the Type itself)."""
    if value is not None:
        return value
    return zeros(like if isinstance(like, Type) else typeof(like))
