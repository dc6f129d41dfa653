"""Primitive, and the families `linear` and `general`.

A primitive is declared once, with all its rules. Inside rules zero is None, the batch axis is axis
0, and a rule does not undo broadcasting: the transforms do. A rule calls primitives, never NumPy,
so that it can itself be traced. (`elementwise` and `multilinear` need arithmetic in their rules;
they are beside their primitives in elementwise/family.py and dot_general.py.)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.ir.canonical import DOUBLE
from fungrad.ir.types import Type, of_doubles
from fungrad.primitives.facts import DEFAULTS, Cost, Facts, Rounding, ScalarForm, Sections
from fungrad.support.forks import cached_property
from fungrad.support.lazy import imported
from fungrad.tracing.code_origin import is_ours
from fungrad.tracing.effects import logged
from fungrad.tracing.trace import EVAL, Tracer, current, has_type_alone, outlived, typeof

Rule = Callable[..., Any]


class Later:
    """A ufunc that is imported when it is applied to arrays, or one of its attributes is read.

    Traced values call its primitive without the import.
    """

    def __init__(self, name: str, find: Callable[[], np.ufunc]) -> None:
        self.__name__ = name
        self._find = find

    @cached_property
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
        argument; those with a false entry in `wanted` (a slot, 0 if unwanted) are ignored.
      batch: `batch(args, batched, size, **params)`: the output with the batch axis first.
      keep: `keep(args)`, the residuals of reverse mode, if not all arguments: an entry may be a
        Type if vjp does not need the value. The output is then not kept.
      reads: the positions, among the residuals, of arguments whose values vjp reads; None for all.
        If they are arrays of the program, their present contents are kept.
      collect: `collect(total, cotangent, args, **params)`, if the cotangent of the first argument
        is that of the output at some places: adds it there in place to a `Collected`. No other
        argument then has a cotangent, and vjp returns a new array.
      undo: `undo(total, args, wanted, **params)`, if the output is the first argument changed at
        some places: turns the `Collected` cotangent of the output into that of the first argument,
        in place, and returns that of the second, or None.
      forward: `forward(args, wanted, **params) -> (output, saved, kept)`, called by reverse mode in
        place of the primitive; vjp then gets `saved` and `kept` as `output` and `args`.
      cuts: the positions of arguments whose derivative is zero on purpose; True for all.
      partials: of an elementwise primitive, in place of vjp: for each argument a function
        `(cotangent, output, args) -> cotangent`, or None (see elementwise/family.py).
      direct: the partials in the form for one or two arrays that the eager backward walk calls
        (see elementwise/family.py).
      slopes: the partials as they were declared there, by themselves.
      degree: "linear" if it is linear in the arguments that are not cut, taken together;
        "multilinear" if it is linear in each alone; else "".
      ufunc: the NumPy ufunc that eval applies, if any: a backend may call it with `out=`.
      moves: whether its vjp only moves elements, so that it also maps the mask of a cotangent.
      multiple: whether the output is a tuple.
      effect: whether it has a side effect (prints, draws from a generator with a state): no pass
        drops it, merges two of it, or runs it at another time.
      pure: whether its outputs depend on its arguments alone, and it keeps none of them: passes may
        then run it once for many steps, or when a function is compiled. True without an effect. One
        that runs a Graph is as pure as that (`is_pure`).
      simple: whether it has one output, and neither cuts nor a `forward`: reverse mode calls it.
      plain: whether it is simple and elementwise.

    The rest are facts, which every family takes, and which tests check against `eval`:

      cost: its operations: the number for each element of the output, or a `Work`, or a function of
        the equation that counts all of them. 0: it makes, moves or converts elements and computes
        nothing. By default an elementwise primitive evaluates one transcendental function for each
        element; of others the cost is None, unknown.
      view: whether its outputs are views of its first argument wherever NumPy can make views; with
        index arrays it copies.
      commutative: whether two real arguments may be exchanged, to the bit (a product of complex
        numbers rounds by their order).
      scalar: an elementwise primitive on Python's numbers, for programs on a few numbers: a
        `ScalarForm`, or its function or expression (`math.sin`, "{0} * {1}").
      reduces: the ufunc by which it reduces `axes` of its only argument, as `ufunc.reduce` does.
      inline: whether `eval` calls only NumPy functions that a trace can record: compiled programs
        run those in its place, and so can fuse, count and export them.
      fresh: whether its outputs have new memory, not that of an argument. Primitives with
        `reduces`, or that apply a ufunc to arrays, need not state it.
      order: the order of its outputs' axes in memory: "rows", always C order; "first", that of the
        first argument; "example", that of `eval` for small arrays with the same order; "view", the
        strides that NumPy computes without reading an element; or a function `order(equation,
        strides of the inputs)`, which returns None for unknown strides. Primitives with `view`,
        `partials` or `reduces` need not state it; for others None is an unknown order.
      sections: `sections(equation)`, if it moves elements: the `Section`s of its output, or None.
      rounding: how far an evaluation may be from the exact result: a number of units in the last
        place (0: it moves or selects numbers), or "terms", "factors", "operands"
        (`facts.rounding_of`). What is not stated follows from the other facts.
      kink: `kink(*args, **params)`: booleans, true at values where it has no unique derivative (see
        docs/kinks.md).
      masks: whether its pullback may mask a cotangent, which then is exactly zero in elements even
        times infinity; or `masks(equation)`. Primitives with a `kink` need not state it.
    """

    __slots__ = (
        "_ufunc", "batch", "collect", "commutative", "cost", "cuts", "degree", "direct", "effect",
        "eval", "forward", "fresh", "inline", "jvp", "keep", "kink", "masks", "module", "moves",
        "multiple", "name", "order", "partials", "plain", "pure", "reads", "reduces", "rounding",
        "scalar", "sections", "simple", "slopes", "type", "undo", "view", "vjp",
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
        direct: tuple[Any, ...] | None = None,
        slopes: tuple[Any, ...] | None = None,
        ufunc: np.ufunc | Later | None = None,
        degree: str = "",
        moves: bool = False,
        multiple: bool = False,
        effect: bool = False,
        pure: bool | None = None,
        module: str | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        if unknown := facts.keys() - DEFAULTS.keys():
            known = ", ".join(DEFAULTS)
            raise TypeError(f"{name!r} declares {', '.join(sorted(unknown))}; facts are {known}.")
        stated: dict[str, Any] = {**DEFAULTS, **facts}
        if stated["order"] is None:
            stated["order"] = _order_of(facts, partials is not None)
        if stated["scalar"] is not None and not isinstance(stated["scalar"], ScalarForm):
            stated["scalar"] = ScalarForm(stated["scalar"])
        if reads is None and partials is not None:
            reads = range(len(partials))
        simple = not (cuts or forward or multiple)
        stated |= {
            "name": name, "eval": logged(eval) if effect else eval, "type": type, "jvp": jvp,
            "vjp": vjp, "batch": batch, "keep": keep, "collect": collect, "undo": undo,
            "reads": None if reads is None else frozenset(reads), "forward": forward,
            "cuts": cuts if isinstance(cuts, bool) else frozenset(cuts), "partials": partials,
            "direct": direct, "slopes": slopes, "_ufunc": ufunc, "degree": degree, "moves": moves,
            "multiple": multiple, "effect": effect, "simple": simple,
            "pure": not effect if pure is None else pure and not effect,
            "plain": simple and partials is not None and not keep,
            "module": module or _declaring_module(),
        }  # fmt: skip
        for attribute, value in stated.items():
            object.__setattr__(self, attribute, value)
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
    direct: tuple[Any, ...] | None
    slopes: Any
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
    masks: Any
    order: str | Rule | None
    fresh: bool
    sections: Sections | None
    rounding: Rounding | None

    def __call__(self, *args: Any, **params: Any) -> Any:
        trace = current()
        if trace is EVAL:
            for arg in args:
                if type(arg) is Tracer:
                    if has_type_alone(arg):
                        return arg.owner.again(self, *args, **params)
                    return self.eval(*map(outlived, args), **params)
            return self.eval(*args, **params)
        if len(args) == 1 and type(args[0]) is Tracer:
            return trace.one(self, args[0], params)
        return trace.process(self, args, params)

    @property
    def ready(self) -> bool:
        """Whether `eval` needs no further import."""
        return not isinstance(self._ufunc, Later) or "ufunc" in vars(self._ufunc)

    @property
    def ufunc(self) -> np.ufunc | None:
        """The ufunc that eval applies, imported if it was not."""
        ufunc = self._ufunc
        return ufunc.ufunc if isinstance(ufunc, Later) else ufunc

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


def _order_of(facts: Facts, has_partials: bool) -> str | None:
    """The fact `order`, from the others."""
    if facts.get("view"):
        return "view"
    return "example" if has_partials or facts.get("reduces") is not None else None


def _declaring_module() -> str:
    """The module of the declaration: the first whose frame is no function of fungrad's."""
    frame = sys._getframe(1)
    while is_ours((code := frame.f_code).co_filename) and code.co_name != "<module>":
        assert frame.f_back is not None
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "__main__")
    return name


def _load(module: str, name: str) -> Primitive:
    if (module, name) not in primitives:
        imported(module)
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
      transpose: `transpose(cotangent, *args, **params)`, with Types for the linear arguments and
        values for the others: the cotangent of the linear argument, or a tuple, one for each.
      batch: the batch rule; by default a loop over the axis.
      moves: whether the transpose only moves elements (no sum, no product).
      arguments: positions of the linear arguments, if not all are linear (an index is not).
      collect: see `Primitive`.
      facts: see `Primitive`.

    >>> import fungrad as fg
    >>> double = linear(
    ...     "double", eval=lambda x: 2 * x, type=lambda x: x, transpose=lambda c, x: 2 * c
    ... )
    >>> float(fg.grad(double)(3.0))
    2.0
    """

    def is_linear(position: int) -> bool:
        return arguments is None or position in arguments

    def keep(args: Sequence[Any]) -> Sequence[Any]:
        return [typeof(a) if is_linear(i) else a for i, a in enumerate(args)]

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
        name, eval=eval, type=type, jvp=jvp, vjp=vjp, batch=batch,
        keep=types_of if arguments is None else keep, reads=passive, cuts=passive, degree="linear",
        moves=moves,
        collect=collect,
        **facts,
    )  # fmt: skip
    return primitive


def types_of(args: Sequence[Any]) -> Sequence[Type]:
    """The Types of values, traced or not."""
    if len(args) == 1:
        arg = args[0]
        if type(arg) is np.ndarray and arg.dtype is DOUBLE:  # the usual case
            return of_doubles(arg.shape)
        return (typeof(arg),)
    return [
        of_doubles(a.shape)[0] if type(a) is np.ndarray and a.dtype is DOUBLE else typeof(a)
        for a in args
    ]


def _passive(arguments: Sequence[int]) -> Sequence[int]:
    """The positions of the other arguments, for any number of arguments up to 64."""
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

    Args:
      name: its name in the IR.
      eval, type: the function on NumPy values, and the type rule.
      vjp, jvp: the derivative rules. Without `jvp`, forward mode uses the pullback of the pullback.
      batch: the batch rule; by default a loop over the axis.
      cuts: True where the derivative is zero on purpose; or the positions of such arguments.
      multiple: whether it returns a tuple.
      effect: whether `eval` has a side effect (it prints, counts, or draws from a generator with a
        state): compiled functions run it as often as the program, and in its order. Otherwise they
        may run it fewer times, as in JAX.
      facts: see `Primitive`.

    >>> import fungrad as fg
    >>> cube = general(
    ...     "cube",
    ...     eval=lambda x: x**3,
    ...     type=lambda x: x,
    ...     vjp=lambda c, y, args, wanted: [3 * c * args[0] ** 2],
    ... )
    >>> float(fg.grad(cube)(2.0))
    12.0
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
"""`full(shape=, value=, dtype=)`: an array of one value. Without arguments it is never batched."""


def zeros(type_: Type) -> Any:
    """A zero of the given Type."""
    return full(shape=type_.shape, value=0, dtype=type_.dtype)


def or_zero(value: Any, like: Any) -> Any:
    """The value, or if it is None a zero of the Type of `like` (a value, or the Type itself)."""
    if value is not None:
        return value
    return zeros(like if isinstance(like, Type) else typeof(like))
