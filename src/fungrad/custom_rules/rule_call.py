"""Custom rules on flat values.

A `CustomRule` belongs to one call: it has the user's functions and the structures of the
arguments; a `BatchedRule` maps another rule over an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fungrad.custom_rules.closures_and_arguments import (
    Arguments,
    captured,
    closed_over,
    outputs_of,
    substituted,
    user,
)
from fungrad.errors import StructureMismatchError
from fungrad.ir.canonical import canonical
from fungrad.ir.graph import Graph
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import mul
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, cast, reduce_sum
from fungrad.primitives.primitive import zeros
from fungrad.retracing.graph_transforms import strong_type
from fungrad.support import pytree
from fungrad.tracing.aliasing import private
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import Tracer, shape_of, typeof
from fungrad.transforms.arguments import argument_name, flat_results, has_type, leaf_type
from fungrad.transforms.engine.batching import batched_call


class Functions(Protocol):
    """The attributes of the user's declaration that a rule reads."""

    f: Callable[..., Any]
    fwd: Callable[..., Any] | None
    bwd: Callable[..., Any] | None
    tell_wanted: bool
    jvp: Callable[..., Any] | None
    symbolic_zeros: bool
    closes: bool
    held: Sequence[Tracer] | None


class CustomRule:
    """The function and the rules of one call; its values are those closed over, then the inputs."""

    def __init__(self, functions: Functions, arguments: Arguments) -> None:
        self.functions = functions
        self.arguments = arguments
        self.closure: list[Tracer] = []
        self.out: pytree.TreeDef | None = None
        self.reverse = functions.bwd is not None
        self.tangents = functions.jvp is not None

    def __repr__(self) -> str:
        return str(getattr(self.functions.f, "__name__", type(self.functions.f).__name__))

    @property
    def f(self) -> Callable[..., Any]:
        """The user's function."""
        return self.functions.f

    def check_wanted(self, wanted: Sequence[Any]) -> None:
        """Raises if a derivative is wanted that the rule does not define."""
        count = len(self.closure)
        if self.functions.held is None and any(wanted[:count]):
            wanted_types = ", ".join(
                str(t.type) for t, w in zip(self.closure, wanted, strict=False) if w
            )
            raise closed_over(
                "The rule", self.f, f"it is differentiated with respect to {wanted_types}."
            )
        self.arguments.refuse_passive(wanted[count:])

    def _within(
        self, values: Sequence[Any], what: str, f: Callable[[Any, Any], Any]
    ) -> Sequence[Any]:
        """f(args, kwargs), run with the given values of the closure."""
        count = len(self.closure)
        args, kwargs = self.arguments.rebuild(values[count:])
        return self._user(what, values[:count], lambda: f(args, kwargs))

    def _user(
        self, what: str, closure: Sequence[Any], f: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        held = self.functions.held is not None
        flat: Sequence[Any] = user(
            what, self.f, lambda: substituted(self.closure, closure, f, held)
        )
        return flat

    def run(self, *values: Any) -> Sequence[Any]:
        """The outputs of the function."""

        def f(args: Any, kwargs: Any) -> Any:
            leaves, self.out = outputs_of(self.f, self.f(*args, **kwargs))
            return leaves

        return self._within(values, "The function", f)

    def captured(self, inputs: Sequence[Any]) -> tuple[Graph, list[Any]]:
        """The Graph of the function, and the traced values that it and its rules close over."""
        held = self.functions.held
        if not held:
            return captured(self.run, inputs, self.f, once=True)
        run = lambda *xs: [*self.run(*xs), *held]  # noqa: E731
        graph, closure = captured(run, inputs, self.f, once=True)
        return graph.replace(outputs=graph.outputs[: -len(held)]), closure

    def forward(self, values: Sequence[Any], wanted: Sequence[bool]) -> tuple[Any, Any, Any]:
        """The outputs, the leaves of the residuals, and their structures and types."""
        count = len(self.closure)
        made: list[Any] = []

        def f(args: Any, kwargs: Any) -> Any:
            fwd: Any = self.functions.fwd
            result = fwd(*args, **kwargs, **self._told(wanted[count:]))
            if not (isinstance(result, tuple) and len(result) == 2):
                raise StructureMismatchError(
                    f"The forward rule of {describe(self.f)} has to return a pair (output, "
                    f"residuals), not {_shown(result)}."
                )
            leaves, self.out = outputs_of(self.f, result[0])
            nondiff = [args[i] for i in sorted(self.arguments.passive)]
            saved, treedef = flat_results((list(values[:count]), nondiff, result[1]))
            made.extend((len(leaves), treedef))
            return [*leaves, *saved]

        flat = list(self._within(values, "The forward rule", f))
        split, treedef = made
        outputs = flat[:split]
        return outputs, flat[split:], (treedef, self.out, [typeof(o) for o in outputs])

    def _told(self, wanted: Sequence[bool]) -> dict[str, Any]:
        if not self.functions.tell_wanted:
            return {}
        return {"wanted": self.arguments.parts([bool(w) for w in wanted], lambda type_: False)}

    def backward(
        self, saved: Sequence[Any], meta: Any, cotangents: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        """A cotangent, or None, for each value."""
        treedef, out, types = meta
        closure, nondiff, residuals = pytree.unflatten(treedef, list(map(private, saved)))
        given = [_private(_materialised(c, t)) for c, t in zip(cotangents, types, strict=True)]
        told = self._told(wanted[len(closure) :])
        bwd: Any = self.functions.bwd

        def f() -> Any:
            cotangents = bwd(*nondiff, residuals, pytree.unflatten(out, given), **told)
            return self._inputs_of(cotangents)

        flat = self._user("The backward rule", closure, f)
        return [*([None] * len(closure)), *flat]

    def _inputs_of(self, found: Any) -> list[Any]:
        """The cotangents of the inputs, from bwd's result."""
        arguments = self.arguments
        active = arguments.active
        if not isinstance(found, (tuple, list)) or len(found) != len(active):
            raise self._misfit(
                found, f"a tuple with {len(active)} entries, one for each argument, is expected"
            )
        result: list[Any] = [None] * sum(slot is not None for slot in arguments.slots)
        for position, part in zip(active, found, strict=True):
            treedef = arguments.treedefs[position]
            if treedef is pytree.LEAF and type(part) is np.ndarray and part.dtype.char != "O":
                self._place(result, position, [part], found)
                continue
            cotangents = _returned(part, treedef, f"cotangent {active.index(position)}")
            missing = sum(c is None for c in cotangents)
            whole = part is None or pytree.structure(part) == treedef
            if not whole and (not missing or len(cotangents) - missing != len(pytree.leaves(part))):
                name = argument_name(self.f, position)
                raise self._misfit(found, f"the cotangent of {name} has another structure")
            self._place(result, position, cotangents, found)
        return result

    def _place(
        self, result: list[Any], position: int, cotangents: Sequence[Any], found: Any
    ) -> None:
        """Puts the cotangents of one argument at the positions of its inputs, if they fit."""
        arguments = self.arguments
        span = arguments.spans[position]
        for i, cotangent in zip(span, cotangents, strict=True):
            slot, type_ = arguments.slots[i], arguments.types[i]
            if slot is None or cotangent is None or type_ is None or not type_.inexact:
                continue
            if not _fits(cotangent, type_):
                path = pytree.paths(arguments.treedefs[position])[i - span.start]
                name = argument_name(self.f, position)
                raise self._misfit(found, f"first at {name}{path}")
            result[slot] = cast(canonical(cotangent), type_.dtype)

    def _misfit(self, found: Any, where: str) -> StructureMismatchError:
        arguments = self.arguments
        expected = []
        for position in arguments.active:
            types = [arguments.types[i] for i in arguments.spans[position]]
            expected.append(pytree.unflatten(arguments.treedefs[position], types))
        return StructureMismatchError(
            f"The backward rule of {describe(self.f)} returned cotangents that do not fit its "
            f"arguments, {where}.\n  arguments:  {tuple(expected)}\n  cotangents: {_shown(found)}"
        )

    def push(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The outputs and their tangents (None is zero)."""
        count = len(self.closure)
        made: list[int] = []
        moved = [
            t if t is not None or self.functions.symbolic_zeros else _materialised(t, typeof(p))
            for p, t in zip(primals[count:], tangents[count:], strict=True)
        ]

        def missing(type_: Type | None) -> Any:
            return (
                None
                if type_ is None or self.functions.symbolic_zeros
                else _materialised(None, type_)
            )

        def f(args: Any, kwargs: Any) -> Any:
            jvp: Any = self.functions.jvp
            nondiff = [args[i] for i in sorted(self.arguments.passive)]
            active = tuple([args[i] for i in self.arguments.active])
            result = jvp(*nondiff, active, self.arguments.parts(moved, missing), **kwargs)
            if not (isinstance(result, tuple) and len(result) == 2):
                raise StructureMismatchError(
                    f"The forward rule of {describe(self.f)} has to return a pair (output, "
                    f"tangent), not {_shown(result)}."
                )
            leaves, self.out = outputs_of(self.f, result[0])
            pushed = _returned(result[1], self.out, "The tangent")
            for leaf, tangent in zip(leaves, pushed, strict=True):
                if (
                    tangent is not None
                    and typeof(leaf).inexact
                    and not _fits(tangent, typeof(leaf))
                ):
                    raise StructureMismatchError(
                        f"The rule of {describe(self.f)} returned a tangent that does not fit the "
                        f"output.\n  output:  {_shown(result[0])}\n  tangent: {_shown(result[1])}"
                    )
            made.append(len(leaves))
            cast_ = [
                None if t is None or not typeof(o).inexact else cast(t, typeof(o).dtype)
                for o, t in zip(leaves, pushed, strict=True)
            ]
            return [*leaves, *cast_]

        flat = list(self._within(primals, "The rule", f))
        return flat[: made[0]], flat[made[0] :]


class BatchedRule(CustomRule):
    """Another rule, mapped over an axis of some of its values."""

    def __init__(self, inner: CustomRule, flags: Sequence[bool], size: int) -> None:
        super().__init__(inner.functions, inner.arguments)
        self.inner = inner
        self.flags = list(flags)
        self.size = size

    def check_wanted(self, wanted: Sequence[Any]) -> None:
        self.inner.check_wanted(wanted)

    def _batched(
        self, f: Callable[..., Sequence[Any]], args: Sequence[Any], flags: Sequence[bool]
    ) -> tuple[list[Any], list[bool]]:
        return batched_call(f, args, flags, self.size, lambda: f"vmap of {describe(self.f)}")

    def _spread(self, values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
        """The values, each with the batch axis."""
        return [
            x if b or x is None else broadcast_to(x, shape=(self.size, *shape_of(x)))
            for x, b in zip(values, flags, strict=True)
        ]

    def run(self, *values: Any) -> Sequence[Any]:
        return self._spread(*self._batched(self.inner.run, values, self.flags))

    def forward(self, values: Sequence[Any], wanted: Sequence[bool]) -> tuple[Any, Any, Any]:
        made: list[Any] = []

        def f(*xs: Any) -> list[Any]:
            outputs, saved, meta = self.inner.forward(xs, wanted)
            made.extend((len(outputs), meta))
            return [*outputs, *saved]

        flat, flags = self._batched(f, values, self.flags)
        count, meta = made
        return self._spread(flat[:count], flags[:count]), flat[count:], (flags[count:], meta)

    def backward(
        self, saved: Sequence[Any], meta: Any, cotangents: Sequence[Any], wanted: Sequence[bool]
    ) -> list[Any]:
        flags, inner_meta = meta

        def f(*xs: Any) -> list[Any]:
            return self.inner.backward(xs[: len(flags)], inner_meta, xs[len(flags) :], wanted)

        given = [c is not None for c in cotangents]
        cotangents_of_inputs, mapped = self._batched(f, [*saved, *cotangents], [*flags, *given])
        result: list[Any] = []
        for cotangent, is_mapped, batched in zip(
            cotangents_of_inputs, mapped, self.flags, strict=True
        ):
            if cotangent is None or is_mapped == batched:
                # An input that is the same for all examples collects the cotangents of all.
                many = cotangent is not None and not batched
                result.append(mul(cotangent, self.size) if many else cotangent)
            elif batched:
                result.append(broadcast_to(cotangent, shape=(self.size, *shape_of(cotangent))))
            else:
                result.append(reduce_sum(cotangent, axes=(0,)))
        return result

    def push(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        made: list[int] = []
        count = len(primals)

        def f(*xs: Any) -> list[Any]:
            outputs, pushed = self.inner.push(xs[:count], xs[count:])
            made.append(len(outputs))
            return [*outputs, *pushed]

        moved = [b and t is not None for b, t in zip(self.flags, tangents, strict=True)]
        flat = self._spread(*self._batched(f, [*primals, *tangents], [*self.flags, *moved]))
        return flat[: made[0]], flat[made[0] :]


def _materialised(value: Any, type_: Type) -> Any:
    """A cotangent or tangent, with zeros for None; None if the type can have none."""
    if not type_.inexact:
        return None
    return zeros(strong_type(type_)) if value is None else value


def _private(cotangent: Any) -> Any:
    """A copy of a cotangent for the user's rule, which may write into it: others read it, too."""
    return cotangent.copy("K") if type(cotangent) is np.ndarray else cotangent


def _returned(part: Any, treedef: pytree.TreeDef, name: str) -> list[Any]:
    """What a rule returned for the leaves of a tree; None where it has none."""
    full = pytree.broadcast_prefix(part, treedef, name)
    leaves = iter(flat_results(full)[0])
    return [None if leaf is None else next(leaves) for leaf in full]


def _fits(value: Any, type_: Type) -> bool:
    own = leaf_type(value)
    if own is None or own.shape != type_.shape:
        return False
    return own.dtype.kind != "c" or type_.dtype.kind == "c"


def _shown(tree: Any) -> Any:
    """A tree with its leaves replaced by their types, for messages."""
    return pytree.map(lambda x: typeof(x) if has_type(x) else x, tree)
