"""One sweep of reverse mode that collects what each rounding error adds to a result.

`observe` is the identity. Its rule reads the cotangent of a value, the derivative of the result
with respect to it, and returns sums of squares of cotangents times errors as the "cotangent" of an
accumulator. Reverse mode adds cotangents of one value over all its uses, so that an accumulator
collects the errors of all steps of a loop, without storing them by step, in programs, branches and
loops alike. `ObservingTrace` puts an `observe` after each operation that rounds; in loops and
branches it does so in their Graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fungrad.control_flow.scan import scan
from fungrad.control_flow.switch import switch
from fungrad.control_flow.unroll import unfold, unfolds
from fungrad.control_flow.while_loop import while_loop
from fungrad.custom_rules.custom_vjp_jvp import custom
from fungrad.inspect.digits.opened_loops import opened, opens
from fungrad.inspect.why.ablate_stops import is_stop
from fungrad.ir.graph import Graph, Source, Variable, graphs_of
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import mul, select
from fungrad.primitives.elementwise.ufuncs import abs as absolute
from fungrad.primitives.elementwise.ufuncs import isnan, log10, maximum
from fungrad.primitives.movement.reshape_broadcast_cast import cast, reduce_sum, stack_first
from fungrad.primitives.primitive import Primitive
from fungrad.primitives.reduction.reduce import reduce_any
from fungrad.retracing.graph_transforms import memoised
from fungrad.rounding.expected_rounding import (
    FEW,
    NEAREST,
    LocalError,
    is_backward_stable,
    is_exact,
    local_error,
    machine_epsilon,
    operand_error,
)
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.provenance import Provenance, provenance
from fungrad.tracing.trace import Trace, Tracer, current, enter, leave, shape_of, typeof
from fungrad.transforms.engine.batching import Unbatched

VARIANCE, DRIFT, WEIGHT, INHERITED, LOST = range(5)
"""The entries of an accumulator. For cotangents c of values y, with expected errors s, exact errors
d and inherited ones m: the sums of (c s)^2, of c d, of (c y)^2, of (c m)^2, and of the digits by
which errors of the operands count more in the result than those of y."""
ENTRIES = Type((5,), np.dtype(np.float64))


def _total(x: Any, y: Any) -> Any:
    """The sum of the squares of the products of two arrays, as a double; the second may have to be
    broadcast.
    """
    if type(x) is np.ndarray and type(y) is np.ndarray and _in_blocks(x, y):
        return _by_blocks(x.ravel("K"), y.ravel("K"))
    if _is_repeated(x, y):
        names = "abcdefghijkl"[: x.ndim]
        kept = "".join([n for n, size in zip(names, y.shape, strict=True) if size > 1])
        squares = np.einsum(f"{names},{names}->{kept}", x, x)
        return np.dot(squares.ravel().astype(_DOUBLE), np.square(y.ravel().astype(_DOUBLE)))
    product = mul(x, y)
    if typeof(product).dtype.kind == "c":
        product = absolute(product)
    product = cast(product, _DOUBLE)
    if type(product) is not Tracer:
        flat = np.ravel(product)
        return np.dot(flat, flat)
    return reduce_sum(mul(product, product), axes=tuple(range(len(shape_of(product)))))


_DOUBLE = np.dtype(np.float64)
BLOCK = 8_192
"""The elements of large arrays that are multiplied at once: 0.4 to 0.5 of the time of whole arrays,
which need new memory."""


def _in_blocks(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two large arrays of real numbers lie in one order in memory."""
    return (
        x.size > BLOCK
        and x.shape == y.shape
        and x.strides == y.strides
        and (x.flags.forc)
        and x.dtype.kind == y.dtype.kind == "f"
    )


def _is_repeated(x: Any, y: Any) -> bool:
    """Whether the second of two arrays of real numbers is repeated along axes of the first."""
    if type(x) is not np.ndarray or type(y) is not np.ndarray or x.shape == y.shape:
        return False
    return x.ndim == y.ndim and x.size > BLOCK and x.dtype.kind == y.dtype.kind == "f"


def _by_blocks(x: np.ndarray, y: np.ndarray) -> Any:
    buffer = np.empty(BLOCK)
    total = 0.0
    for start in range(0, x.size, BLOCK):
        part = x[start : start + BLOCK]
        product = np.multiply(
            part, y[start : start + BLOCK], out=buffer[: part.size], dtype=_DOUBLE
        )
        total += float(np.dot(product, product))
    return np.float64(total)


def _digits(weight: Any) -> Any:
    """The digits that errors of this relative weight (squared) cost."""
    return mul(log10(maximum(weight, 1.0)), 0.5)


class ErrorsOf:
    """Computes the errors of one operation when the sweep reaches it, from its operands.

    Args:
      kind: "operation"; "operand" or "result" of a backward stable algorithm, "matrix" for its
        first operand; "given", if the only operand is the expected error itself; or "rounding" of
        a number.
      primitive, params: the operation.
      inexact: for each operand whether it has errors.
    """

    __slots__ = ("inexact", "kind", "params", "primitive")

    def __init__(
        self, kind: str, primitive: Any = None, params: Any = None, inexact: Sequence[bool] = ()
    ) -> None:
        self.kind = kind
        self.primitive = primitive
        self.params = params
        self.inexact = inexact

    def __call__(self, y: Any, operands: Sequence[Any]) -> LocalError:
        if self.kind == "operation":
            return local_error(self.primitive, operands, self.params, y, self.inexact)
        if self.kind == "given":
            return LocalError(0.0, operands[0])
        if self.kind in ("operand", "matrix"):
            return LocalError(0.0, operand_error(self.primitive, y))
        return LocalError(NEAREST * machine_epsilon(typeof(y).dtype))


def _collect(ct: Any, saved: Any, args: Any, wanted: Any, *, errors: ErrorsOf) -> Any:
    y, _, *operands = args
    if current().records:
        y, *operands = _late(ct, [y, *operands])
    with np.errstate(all="ignore"):
        relative, spread, found, inherited = errors(y, operands)
    weight: Any = _total(ct, y)
    variance = mul(weight, relative * relative) if spread is None else _total(ct, spread)
    drift: Any = 0.0
    if found is not None:
        parts = mul(cast(ct, _DOUBLE), cast(found, _DOUBLE))
        drift = reduce_sum(parts, axes=tuple(range(len(shape_of(parts)))))
    reached: Any = 0.0
    lost: Any = 0.0
    if errors.kind == "matrix":
        reached, lost, weight = weight, _digits(weight), 0.0
    elif errors.kind == "result":
        lost = mul(_digits(weight), -1.0)
    elif inherited:
        for part in inherited:
            reached = reached + _total(ct, part)
        lost = _digits(reached) - _digits(weight)
    total = stack_first([variance, drift, weight, reached, lost])
    return [ct, total, *[None] * len(operands)]


def _late(ct: Any, values: Sequence[Any]) -> list[Any]:
    """The values, as results of equations that depend on a cotangent.

    Reverse mode of a Graph computes in its forward half what does not depend on cotangents, and
    keeps it for each step of a loop. Errors of a step are computed in the backward half. (Passes
    remove a choice between equal values.)
    """
    mask = reduce_any(isnan(ct), axes=tuple(range(len(shape_of(ct)))))
    return [select(mask, x, x) if type(x) is Tracer and typeof(x).inexact else x for x in values]


def _forward(args: Any, wanted: Any, *, errors: ErrorsOf) -> Any:
    return args[0], None, args


def _batch(args: Any, batched: Any, size: int, *, errors: ErrorsOf) -> Any:
    return args[0] if batched[0] else Unbatched(args[0])


observe = Primitive(
    "observe",
    eval=lambda y, *rest, errors: y,
    type=lambda y, *rest, errors: y,
    vjp=_collect,
    forward=_forward,
    batch=_batch,
    reads=(),
    cuts=range(2, 64),
    cost=0,
)
"""`observe(y, accumulator, *operands, errors=)`: y; `errors` computes its errors from the operands
of the operation that made it."""


class Site(NamedTuple):
    """The place of operations whose errors are summed."""

    source: Source | None
    primitive: str
    backward: int = 0


class ObservingTrace(Trace):
    """Passes all to the trace below, and observes each result with a rounding error.

    Args:
      parent: the reverse mode that differentiates with respect to the accumulators, or a
        recording of a Graph that it will differentiate.
      below: the trace that computes expected errors.
      accumulator: makes or finds the accumulator of a site.
      constants: whether constants that are no binary fractions have errors.
    """

    __slots__ = ("_accumulator", "below", "constants", "inexact", "unseen")

    def __init__(
        self,
        parent: Trace,
        below: Trace,
        label: Callable[[], str],
        accumulator: Callable[[Site], Any],
        constants: bool,
    ) -> None:
        super().__init__(parent, label)
        self.records = True
        self.below = below
        self.constants = constants
        self._accumulator = accumulator
        self.inexact: set[Any] = set()
        """The slots, or variables, of values with errors."""
        self.unseen: dict[Site, None] = {}
        """The sites of operations whose inner roundings are not observed."""

    def observed(
        self, value: Any, site: Site, errors: ErrorsOf, operands: Sequence[Any] = ()
    ) -> Any:
        """The value, with errors of a site."""
        parent: Trace = self.parent  # type: ignore[assignment]
        if self.below is not parent:  # the program may write into its arrays
            keep = parent.keeper.keep
            operands = [keep(x) if type(x) is np.ndarray else x for x in operands]
        args = [value, self._accumulator(site), *operands]
        result = parent.process(observe, args, {"errors": errors})
        self.inexact.add(result.extra)
        return result

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        if is_stop(primitive):
            return args[0]
        where = provenance()
        if self.constants:
            args = [self._constant(arg, where) for arg in args]
        mine = [type(arg) is Tracer and arg.owner is parent for arg in args]
        if not any(mine):
            return parent.process(primitive, args, params)
        if primitive is scan or primitive is while_loop:
            return self._loop(primitive, args, params, where)
        if primitive is switch:
            return self._branches(args, params, where)
        if unfolds(primitive):
            return self.run(unfold, primitive, args, params)
        if opens(primitive, params) and (primitive is custom or self.below is not parent):
            return self.run(opened, primitive, args, params)
        return self._operation(primitive, args, params, where, mine)

    def _operation(
        self, primitive: Any, args: Any, params: dict[str, Any], where: Provenance, mine: list[bool]
    ) -> Any:
        """The results of an operation, observed where it errs."""
        parent: Trace = self.parent  # type: ignore[assignment]
        site = Site(where.source, primitive.name, where.backward)
        runs = any(graphs_of(params)) or "host" in params or primitive is custom
        if runs:
            self.unseen[site] = None
        elif is_backward_stable(primitive):
            args = [self._operand(primitive, arg, site, i) for i, arg in enumerate(args)]
            return self._results(primitive, parent.process(primitive, args, params), site, True)
        output = parent.process(primitive, args, params)
        if primitive.multiple:
            return self._results(primitive, output, site, False)
        if not self._has_errors(output):
            return output
        has = [own and arg.extra in self.inexact for arg, own in zip(args, mine, strict=True)]
        errors = ErrorsOf("operation", primitive, params, has)
        if not is_exact(primitive, args, output) and (any(has) or self._errs(errors, args, output)):
            return self.observed(output, site, errors, args)
        if any(has):
            self.inexact.add(output.extra)
        return output

    def _has_errors(self, value: Any) -> bool:
        """Whether a result is a number of this program's that may be rounded."""
        return type(value) is Tracer and value.owner is self.parent and typeof(value).inexact

    def _errs(self, errors: ErrorsOf, args: Sequence[Any], output: Any) -> bool:
        """Whether an operation on exact operands has an error; True if that is not known."""
        if self.below is self.parent or typeof(output).size > FEW:
            return True
        token = enter(self.below)
        try:
            with np.errstate(all="ignore"):
                error = errors(self._raw(output), list(map(self._raw, args)))
        finally:
            leave(token)
        return bool(error.relative or (error.spread is not None and np.any(error.spread)))

    def _raw(self, value: Any) -> Any:
        """The value below that of reverse mode."""
        if type(value) is Tracer and value.owner is self.parent and self.below is not self.parent:
            return value.inner
        return value

    def _constant(self, value: Any, where: Provenance) -> Any:
        if type(value) is Tracer or not typeof(value).inexact or _is_short(value):
            return value
        site = Site(where.source, "constant", where.backward)
        return self.observed(value, site, ErrorsOf("rounding"))

    def _operand(self, primitive: Any, value: Any, site: Site, position: int) -> Any:
        if type(value) is not Tracer or not typeof(value).inexact:
            return value
        kind = "operand" if position else "matrix"
        return self.observed(value, site, ErrorsOf(kind, primitive))

    def _results(self, primitive: Any, output: Any, site: Site, stable: bool) -> Any:
        """The results of an operation; those of a backward stable one are observed."""
        if primitive.multiple:
            return tuple([self._result(o, site, stable) for o in output])
        return self._result(output, site, stable)

    def _result(self, value: Any, site: Site, stable: bool) -> Any:
        if not self._has_errors(value):
            return value
        if stable:
            return self.observed(value, site, ErrorsOf("result"))
        self.inexact.add(value.extra)
        return value

    # Loops and branches.

    def _loop(self, primitive: Any, args: Any, params: dict[str, Any], where: Provenance) -> Any:
        body, sites = observing(params["body"], self.constants)
        accumulators = [self._accumulator(_placed(site, where)) for site in sites]
        counts = params["counts"]
        if primitive is scan:
            new = [*accumulators, *args]
            counts = (len(accumulators) + counts[0], counts[1])
        else:
            new = [*args[: counts[0]], *accumulators, *args[counts[0] :]]
            counts = (counts[0], len(accumulators) + counts[1])
        return self._inexact(primitive, new, {**params, "body": body, "counts": counts})

    def _branches(self, args: Any, params: dict[str, Any], where: Provenance) -> Any:
        found = [observing(branch, self.constants) for branch in params["branches"]]
        accumulators = [self._accumulator(_placed(s, where)) for _, sites in found for s in sites]
        branches = []
        before, count = 0, len(accumulators)
        for branch, (graph, sites) in zip(params["branches"], found, strict=True):
            branches.append(_padded(branch, graph, before, len(sites), count))
            before += len(sites)
        return self._inexact(
            switch, [args[0], *accumulators, *args[1:]], {"branches": tuple(branches)}
        )

    def _inexact(self, primitive: Any, args: Any, params: Any) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        outputs = parent.process(primitive, args, params)
        for graph in (params.get("body"), *params.get("branches", ())):
            self.unseen.update(graph.derived["unseen"] if graph is not None else {})
        for output in outputs:
            if type(output) is Tracer and output.owner is parent:
                self.inexact.add(output.extra)
        return outputs


def _placed(site: Site, where: Provenance) -> Site:
    return site if site.source is not None else site._replace(source=where.source)


def _is_short(value: Any) -> bool:
    """Whether all numbers of a constant are binary fractions of a few digits."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return _is_short(array.real) and _is_short(array.imag)
    single = array.astype(np.float16 if array.dtype.itemsize <= 4 else np.float32)
    return bool(np.all((single == array) | ~np.isfinite(array)))


def observing(graph: Graph, constants: bool) -> tuple[Graph, tuple[Site, ...]]:
    """A Graph whose first inputs are accumulators, which it observes; and their sites."""
    key: Hashable = ("observing", constants)
    graph_and_sites: tuple[Graph, tuple[Site, ...]] = memoised(
        graph, key, lambda: _observing(graph, constants)
    )
    return graph_and_sites


def _observing(graph: Graph, constants: bool) -> tuple[Graph, tuple[Site, ...]]:
    unseen: dict[Site, None] = {}
    most = _count(graph)
    numbers: dict[Site, int] = {}

    def f(*values: Any) -> list[Any]:

        recording = current()

        def accumulator(site: Site) -> Any:
            return values[numbers.setdefault(site, len(numbers))]

        trace = ObservingTrace(recording, recording, lambda: "digits", accumulator, constants)
        trace.inexact.update(value.extra for value in values[most:])
        trace.unseen = unseen
        token = enter(trace)
        try:
            return evaluate(graph, values[most:])
        finally:
            leave(token)

    types = [ENTRIES] * most + graph.input_types
    names = [f"input {i}" for i in range(len(types))]
    whole = stage(f, types, names, lambda: f"digits of {graph.name}", graph.name)
    inputs = (*whole.inputs[: len(numbers)], *whole.inputs[most:])
    made = whole.replace(inputs=inputs, verify="never")
    made.derived["sites"] = tuple(numbers)
    made.derived["unseen"] = unseen
    return made, tuple(numbers)


def _count(graph: Graph) -> int:
    """The most sites of a Graph."""
    return sum(2 + len(e.inputs) for e in graph.equations) + sum(map(_count, graph.subgraphs()))


def _padded(branch: Graph, graph: Graph, before: int, own: int, count: int) -> Graph:
    """A branch that takes the accumulators of all branches, and reads its own."""
    others = memoised(branch, ("accumulators", count), lambda: _unused(count))
    inputs = (*others[:before], *graph.inputs[:own], *others[before + own :])
    made: Graph = memoised(
        branch,
        ("observing branch", graph, before, count),
        lambda: _widened(graph, (*inputs, *graph.inputs[own:])),
    )
    return made


def _widened(graph: Graph, inputs: tuple[Any, ...]) -> Graph:
    made = graph.replace(inputs=inputs)
    made.derived["unseen"] = graph.derived["unseen"]
    return made


def _unused(count: int) -> Sequence[Any]:

    return [Variable(ENTRIES) for _ in range(count)]
