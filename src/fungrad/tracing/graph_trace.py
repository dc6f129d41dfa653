"""GraphTrace, which records every primitive as an equation; `stage` turns a function into a Graph.

Values of other traces become constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import instead_of
from fungrad.ir.canonical import canonical
from fungrad.ir.graph import Atom, Equation, Graph, Literal, Variable, effectful
from fungrad.ir.type_inference import Inference
from fungrad.ir.types import PYTHON_SCALARS, Type
from fungrad.tracing.captured_arrays import same_bits
from fungrad.tracing.concrete_answers import T
from fungrad.tracing.created_arrays import Writable, unwrapped
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.memory_order import MemoryLayout, dense, follow, memory_layout, one_order
from fungrad.tracing.provenance import provenance
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import (
    Trace,
    Tracer,
    all_kept,
    constant_of_kept,
    current,
    enter,
    leave,
    put,
    reaches,
    typeof,
)
from fungrad.tracing.traced_again import traced

LARGE = 8_192
"""The fewest elements of an array that is examined for holding one number alone."""

MOST_ALIKE = 256
"""The most pairs of variables that `alike` compares."""


class GraphTrace(Trace):
    """Records a Graph. Its tracers are variables: they have a Type and no value."""

    __slots__ = (
        "_held", "_indexed", "_inference", "_layouts", "_made_by", "_walked", "constants",
        "equations", "given", "input_names", "inputs", "kept", "rows",
    )  # fmt: skip
    closed = True
    takes_kept: bool | None = None
    remedy = ""
    """Another remedy for the message of `concrete`."""

    def __init__(self, parent: Trace, label: Callable[[], str]) -> None:
        super().__init__(parent, label)
        self.records = True
        self.inputs: list[Variable] = []
        self.input_names: list[str] = []
        self.given: Sequence[Any] = ()
        """The values of the inputs, if the Graph is run for these alone."""
        self.equations: list[Equation] = []
        self._inference = Inference()
        self.constants: dict[int, tuple[Variable, Any]] = {}
        """By identity of a constant, which does not change any more: its variable and itself."""
        self._held: dict[int, tuple[Any, Any]] = {}
        """By identity of an array: the array, and a copy of its contents at the last read."""
        self.kept: Tracer | None = None
        """A value kept from an ended transform that is a constant here."""
        self.rows: set[int] | None = None
        """The numbers of the inputs that have to be in C order; None if any order is allowed."""
        self._layouts: dict[Atom, MemoryLayout] = {}
        """The memory layouts of values."""
        self._walked = 0
        """The number of equations whose outputs are in `_layouts`."""

        self._made_by: dict[Atom, Equation] = {}
        """By identity of a variable: the equation that it is an output of."""
        self._indexed = 0
        """The number of equations whose outputs are in `_made_by`."""

    @property
    def keeper(self) -> Any:
        """This trace itself: a property, not an attribute, since a reference cycle would keep its
        constants alive.
        """
        return self

    @keeper.setter
    def keeper(self, value: Any) -> None:
        """Ignores the parent's keeper: this trace keeps all arrays itself."""

    def input(self, type_: Type, name: str) -> Tracer:
        """A new input variable; the name is for messages."""
        variable = Variable(self._inference.shared(type_))
        self.inputs.append(variable)
        self.input_names.append(name)
        return Tracer(self, None, variable)

    def atom(self, value: Any) -> Atom:
        """The variable or literal of a value in this Graph."""
        if type(value) is Tracer:
            if value.owner is self:
                variable: Variable = value.extra
                return variable
            if not reaches(self.parent, value):
                return self.atom(constant_of_kept(value))
        elif type(value) in PYTHON_SCALARS or isinstance(value, np.generic):
            return Literal(canonical(value))
        elif isinstance(value, np.ndarray):
            array = unwrapped(value)
            value = self.keep(array)
            if array.ndim > 1 and id(value) not in self.constants:
                variable = Variable(self._inference.shared(typeof(value)))
                self.constants[id(value)] = (variable, value)
                strides = tuple([n // array.itemsize for n in array.strides])
                self._layouts[variable] = MemoryLayout(strides)
        known = self.constants.get(id(value))
        if known is None:
            variable = Variable(self._inference.shared(typeof(value)))
            known = self.constants[id(value)] = (variable, value)
        return known[0]

    def keep(self, value: np.ndarray) -> np.ndarray:
        """A read-only array of the present contents of `value`, with a canonical dtype: the same
        one until they change.
        """
        key: Any = value.base if type(value.base) is Writable else value
        value = canonical(value)
        known = self._held.get(id(key))
        if known is None or (known[1] is not value and not same_bits(value, known[1])):
            held = _held(value)
            self._held[id(held)] = (held, held)
            known = self._held[id(key)] = (key, held)
        held = known[1]
        return held

    def note_kept(self, tracer: Tracer) -> None:
        self.kept = tracer

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is Tracer and arg.owner.is_over and all_kept(args, self):
                return arg.owner.of_kept(primitive, args, params)
        atoms = tuple([
            arg.extra if type(arg) is Tracer and arg.owner is self else self.atom(arg)
            for arg in args
        ])  # fmt: skip
        types = self._inference.outputs(primitive, atoms, params)
        source, scope, backward = provenance()
        outputs = tuple([Variable(type_) for type_ in types])
        equation = Equation(primitive, atoms, outputs, params, source, scope, backward)
        self.equations.append(equation)
        if primitive.multiple:
            return tuple([Tracer(self, None, variable) for variable in outputs])
        return Tracer(self, None, outputs[0])

    def typeof(self, tracer: Tracer) -> Type:
        type_: Type = tracer.extra.type
        return type_

    def shape(self, tracer: Tracer) -> tuple[int, ...]:
        return self.typeof(tracer).shape

    def dtype(self, tracer: Tracer) -> np.dtype[Any]:
        return self.typeof(tracer).dtype

    def layout(self, tracer: Tracer) -> MemoryLayout:
        if not one_order(tracer.extra.type.shape):
            for equation in self.equations[self._walked :]:
                found = follow(equation, [self._layout(atom) for atom in equation.inputs])
                self._layouts.update(zip(equation.outputs, found, strict=True))
            self._walked = len(self.equations)
        return self._layout(tracer.extra)

    def _layout(self, atom: Atom) -> MemoryLayout:
        """The memory layout of an input, a constant, or an output of a walked equation."""
        shape = atom.type.shape
        if one_order(shape):
            return MemoryLayout(dense(shape))
        if atom not in self._layouts:
            for variable, value in self.constants.values():
                if type(value) is Tracer and variable not in self._layouts:
                    self._layouts[variable] = memory_layout(value)
        if atom not in self._layouts:  # an input
            known = (
                MemoryLayout(None)
                if self.rows is None
                else MemoryLayout(dense(shape), frozenset([atom]))
            )
            self._layouts[atom] = known
        return self._layouts[atom]

    def is_cut(self, tracer: Tracer) -> bool:
        made_by = next((e for e in reversed(self.equations) if tracer.extra in e.outputs), None)
        return made_by is not None and made_by.primitive.cuts is True

    def count_on(self, rows: frozenset[Any]) -> None:
        """Adds the numbers of those of its inputs that have to be in C order to `rows`."""
        if self.rows is not None:
            self.rows.update([n for n, variable in enumerate(self.inputs) if variable in rows])

    def alike(self, x: Tracer, y: Tracer) -> bool:
        """Whether two tracers are computed from the same values by the same equations."""
        for equation in self.equations[self._indexed :]:
            self._made_by.update((output, equation) for output in equation.outputs)
        self._indexed = len(self.equations)
        waiting: list[tuple[Atom, Atom]] = [(x.extra, y.extra)]
        for one, other in waiting:
            if len(waiting) > MOST_ALIKE:
                return False
            if one is other or _equal_literals(one, other):
                continue
            made, like = self._made_by.get(one), self._made_by.get(other)
            if made is None or like is None or not _same_step(made, like):
                return False
            same = [i for i, output in enumerate(made.outputs) if output is one]
            if like.outputs[same[0]] is not other:
                return False
            waiting += zip(made.inputs, like.inputs, strict=True)
        return True

    def concrete(
        self, tracer: Tracer, error: type[Exception], asked: str, read: Callable[[Any], T]
    ) -> T:
        needed = self._outside(tracer.extra) if asked else None
        if needed is not None:
            token = enter(self.parent)  # type: ignore[arg-type]
            try:
                constants = tuple(self.constants.values())
                inputs = tuple(self.inputs) if self.given else ()
                part = Graph(inputs, constants, tuple(needed), (tracer.extra,))
                (value,) = evaluate(part, self.given)
            finally:
                leave(token)
            return put(value, error, asked, read)
        raise error(
            f"{asked} needs a known value{user_line()}, but while {self.label()} is traced only "
            f"the type {tracer.extra.type} of this one is known{self._provenance(tracer.extra)}. "
            f"{instead_of(asked)}; or {self.remedy}make the number an argument that is not traced "
            "(static_argnums of jit and make_jaxpr), return it as an output, or call the function "
            "without tracing it."
        )

    def _outside(self, variable: Variable) -> list[Equation] | None:
        """The equations that a variable depends on; None if it depends on an effect, or on inputs
        without values.
        """
        wanted: set[Atom] = {variable}
        needed = []
        for equation in reversed(self.equations):
            if not wanted.isdisjoint(equation.outputs):
                if effectful(equation):
                    return None
                wanted.update(equation.inputs)
                needed.append(equation)
        known = self.given or wanted.isdisjoint(self.inputs)
        return needed[::-1] if known else None

    def origin(self, tracer: Tracer) -> str:
        for equation in self.equations:
            if tracer.extra in equation.outputs:
                where = f" at {equation.source}" if equation.source else ""
                return f", made by `{equation.primitive.name}`{where},"
        return self._provenance(tracer.extra)

    def _provenance(self, variable: Variable) -> str:
        """The arguments that a variable was computed from, as text for messages."""
        wanted: set[Atom] = {variable}
        for equation in reversed(self.equations):
            if not wanted.isdisjoint(equation.outputs):
                wanted.update(equation.inputs)
        names = [n for v, n in zip(self.inputs, self.input_names, strict=True) if v in wanted]
        if not names:
            return ""
        return f" (it was computed from the argument{'s' * (len(names) > 1)} {', '.join(names)})"

    def graph(self, outputs: Sequence[Any], name: str = "") -> Graph:
        """The finished Graph with the given output values."""
        atoms = tuple([self.atom(value) for value in outputs])
        return Graph(
            tuple(self.inputs), tuple(self.constants.values()), tuple(self.equations), atoms, name
        )


def _equal_literals(one: Atom, other: Atom) -> bool:
    if type(one) is not Literal or type(other) is not Literal:
        return False
    return one.type == other.type and same_bits(np.asarray(one.value), np.asarray(other.value))


def _same_step(one: Equation, other: Equation) -> bool:
    """Whether two equations have equal outputs for equal inputs."""
    if one.primitive is not other.primitive or len(one.inputs) != len(other.inputs):
        return False
    try:
        return one is other or (one.params == other.params and not effectful(one))
    except ValueError:  # of arrays among the parameters
        return False


def _held(value: np.ndarray) -> np.ndarray:
    """A read-only copy of an array; if it is large and holds one number alone, that number
    broadcast.
    """
    if value.size >= LARGE and value.dtype.kind in "biuf" and value.itemsize <= 8:
        bits = value.view(f"u{value.itemsize}")  # -0.0 is not 0.0
        if bits.flat[-1] == bits.flat[0] and bool(np.all(bits == bits.flat[0])):
            return np.broadcast_to(value.flat[:1], value.shape)
    held = value.copy()
    held.flags.writeable = False
    return held


def stage(
    f: Callable[..., Sequence[Any]],
    types: Sequence[Type],
    names: Sequence[str],
    label: Callable[[], str],
    name: str = "",
    make: Callable[[Trace, Callable[[], str]], GraphTrace] = GraphTrace,
    given: Sequence[Any] = (),
    rows: set[int] | None = None,
) -> Graph:
    """The Graph of a function of flat arguments that returns a flat sequence of outputs.

    `make` makes the trace that records, from a parent and a label; `given` are the values of the
    inputs, if the Graph is for these alone. If `rows` is a set, inputs are taken to be in C order,
    and the numbers of those for which the order matters are added to it.
    """

    def run() -> Graph:
        trace = make(current(), label)
        trace.given, trace.rows = given, rows
        tracers = [trace.input(type_, n) for type_, n in zip(types, names, strict=True)]
        graph = trace.graph(trace.run(f, *tracers), name)
        trace.given = ()
        return graph

    return traced(run, label, f)
