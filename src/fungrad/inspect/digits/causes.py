"""Why a line loses digits, and what to write instead.

A cause is a pattern of operations around the one that loses digits: which operations made its
operands. The operations are those of the tape, and of the Graphs of loops and branches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fungrad.control_flow.scan import scan
from fungrad.control_flow.while_loop import while_loop
from fungrad.inspect.digits.error_sweep import (
    DRIFT,
    INHERITED,
    LOST,
    VARIANCE,
    Site,
    observe,
)
from fungrad.inspect.source_lines import text_of
from fungrad.ir.graph import Atom, Graph, Literal, Source, graphs_of, inner_graphs
from fungrad.primitives.movement.reshape_broadcast_cast import broadcast_to, convert, reshape

REWRITES: dict[str, str] = {
    "cosine": "1 - cos(x) is 2 sin(x/2)^2: `2 * np.sin(x / 2)**2`.",
    "exp": "exp(x) - 1 for small x is `np.expm1(x)`.",
    "log": "log(1 + x) for small x is `np.log1p(x)`.",
    "variance": "The mean of squares minus the square of the mean cancels: `np.var(x)`, or "
    "subtract the mean (or a number near it) first.",
    "quadratic": "One root cancels. Compute q = -(b + sign(b) sqrt(d)) / 2; the roots are q / a "
    "and c / q.",
    "roots": "Multiply by the conjugate: sqrt(a) - sqrt(b) is (a - b) / (sqrt(a) + sqrt(b)).",
    "step": "The step of this difference quotient is too small. Use `fg.grad`; or a step near the "
    "root (third root, for a central difference) of the machine epsilon.",
    "tail": "One minus a probability near one: take the survival function (`norm.sf`, `erfc`, "
    "`log_ndtr`) in place of the cdf.",
    "difference": "Nearly equal numbers are subtracted. Rewrite the difference (factor it, use a "
    "series, subtract before rounding), or compute the operands in a higher precision.",
    "products": "A difference of nearly equal products. Factor it, as x^2 - y^2 = (x - y)(x + y), "
    "or subtract a common point first; math.fma and double-double arithmetic are the last resort.",
    "series": "A sum with terms of both signs, larger than the result: sum it for |x| and take the "
    "reciprocal, reduce the argument, or use the function itself.",
    "recurrence": "Each step of this recurrence makes earlier errors larger. Run it in the other "
    "direction from a far start (Miller's algorithm), or use a closed form.",
    "angle": "The angle is so large that its rounding is a part of a turn. Reduce it before: "
    "subtract whole turns in exact arithmetic, or keep the phase modulo one.",
    "arc": "The inverse function is ill-conditioned here. Take `np.arctan2` of sine and cosine.",
    "normal": "Normal equations square the condition number: `np.linalg.lstsq(x, y)`, or a QR "
    "factorisation of x.",
    "inverse": "An explicit inverse of an ill-conditioned matrix: `np.linalg.solve(a, b)` in place "
    "of `inv(a) @ b`.",
    "determinant": "The determinant of an ill-conditioned matrix: `np.linalg.slogdet`, a "
    "factorisation, or a formula without it.",
    "matrix": "The matrix is ill-conditioned: scale its columns, take an orthogonal basis, or add "
    "a larger ridge. More precision in the solver does not help if its entries are rounded.",
    "sum": "A long running sum: `np.sum` of an array (it adds pairwise), `math.fsum`, or a "
    "compensated sum.",
    "accumulator": "Many numbers of single precision are added in single precision: "
    "`np.sum(x, dtype=np.float64)`, or a float64 accumulator.",
    "product": "A long product: every factor adds a rounding error. Take `x**n`, or "
    "exp(n log1p(r)), or double precision.",
    "logsumexp": "exp overflows: `np.logaddexp.reduce(z)`, or subtract the maximum of z first.",
    "softmax": "exp overflows: subtract the maximum of z first, exp(z - max(z)) / sum(...).",
    "hypot": "A square overflows: `np.hypot(x, y)`, or `np.linalg.norm` of scaled numbers.",
    "overflow": "A number is beyond the largest one: scale, or compute with logarithms.",
}
"""By the name of a cause: the advice. docs/digits.md works one example of each."""


class Advice(NamedTuple):
    """What to write instead of a line.

    Attributes:
      cause: the name of the cause, a key of `REWRITES`.
      file, line, text: the line.
    """

    cause: str
    file: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """The name of the file and the number of the line."""
        return f"{Path(self.file).name}:{self.line}" if self.file else "(no line)"

    def __str__(self) -> str:
        return f"{self.cause}: {REWRITES[self.cause]}"


class Operation(NamedTuple):
    """One operation: its operands are others, numbers, or None for what is not known."""

    primitive: str
    operands: tuple[Any, ...]
    params: Mapping[str, Any]
    site: Site | None
    single: bool
    size: int
    in_loop: bool


_PASSED = {observe.name, reshape.name, broadcast_to.name, convert.name, "transpose", "neg"}


class Operations:
    """The operations of a program, each with the operations that made its operands."""

    def __init__(self) -> None:
        self.all: list[Operation] = []
        self._made: dict[Any, Any] = {}

    def add(
        self, primitive: Any, inputs: Sequence[Any], output: Any, params: Any, site: Any,
        value: Any, in_loop: bool,
    ) -> None:  # fmt: skip
        """Adds an operation; `inputs` and `output` are keys of values, or numbers."""
        operands = tuple([self._made.get(x, x) if not _is_number(x) else x for x in inputs])
        if primitive.name in _PASSED and operands and type(operands[0]) is Operation:
            if site is not None and operands[0].site is None:
                made = operands[0]._replace(site=site, single=_is_single(value))
                self.all.append(made)
                self._made[output] = made
            else:
                self._made[output] = operands[0]
            return
        self._made[output] = Operation(
            primitive.name, operands, params, site,
            _is_single(value),
            int(np.prod(getattr(value, "shape", ()), dtype=int)), in_loop,
        )  # fmt: skip


def _is_single(value: Any) -> bool:
    """Whether a value is of fewer digits than a double."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.kind in "fc" and bool(np.finfo(dtype).eps > 1e-10)


def _is_number(x: Any) -> bool:
    return isinstance(x, Literal)


def operations_of(reverse: Any, sites: Mapping[int, Site]) -> list[Operation]:
    """The observed operations of a program.

    Args:
      reverse: the reverse mode that has recorded it.
      sites: by slot of an accumulator: its site.
    """
    operations = Operations()
    for primitive, params, slots, args, output, out, _ in reverse.tape.records():
        given: Any = (slots,) if type(slots) is int else slots
        inputs = [
            slot if slot else Literal(arg) if isinstance(arg, int | float) else None
            for slot, arg in zip(given, args, strict=False)
        ]
        if primitive is observe:
            value = args[0]
            operations.add(primitive, inputs[:1], out, {}, sites.get(given[1]), value, False)
            continue
        for graph in graphs_of(params):
            _inside(operations, graph, primitive is scan or primitive is while_loop)
        if type(out) is int:
            operations.add(primitive, inputs, out, params, None, output, False)
        else:
            for slot in out:
                operations.add(primitive, inputs, slot, params, None, None, False)
    return operations.all


def first_overflow(reverse: Any, sites: Mapping[int, Site]) -> Site | None:
    """The site of the first observed value that is not finite, if its operands are finite."""
    for primitive, _, slots, args, _, _, _ in reverse.tape.records():
        if primitive is observe and not np.all(np.isfinite(args[0])):
            return sites.get(slots[1])
    return None


def _inside(found: Operations, graph: Graph, in_loop: bool) -> None:
    """Adds the operations of the Graph of a loop or branch, if it was observed."""
    sites: dict[Atom, Site] = dict(zip(graph.inputs, graph.derived.get("sites", ()), strict=False))
    for equation in graph.equations:
        value = equation.outputs[0].type if equation.outputs else None
        if equation.primitive is observe:
            site = sites.get(equation.inputs[1])
            found.add(
                equation.primitive,
                equation.inputs[:1],
                equation.outputs[0],
                {},
                site,
                value,
                in_loop,
            )
            continue
        for inner in inner_graphs(equation):
            _inside(found, inner, in_loop or "body" in equation.params)
        for output in equation.outputs:
            found.add(
                equation.primitive, equation.inputs, output, equation.params, None, value, in_loop
            )


# --- patterns -------------------------------------------------------------------------------------


def _through(x: Any, *names: str) -> Any:
    """The operation before products and quotients with constants, or others of these names."""
    for _ in range(20):
        if type(x) is not Operation or x.primitive not in names:
            return x
        inner = [o for o in x.operands if type(o) is Operation]
        if len(inner) != 1:
            return x
        x = inner[0]
    return x


def _scaled(x: Any) -> Any:
    return _through(x, "mul", "div", "select")


def _is(x: Any, *names: str) -> bool:
    return type(x) is Operation and x.primitive in names


def _is_square(x: Any) -> bool:
    if _is(x, "mul"):
        return len(x.operands) == 2 and x.operands[0] is not None and (
            x.operands[0] is x.operands[1] or x.operands[0] == x.operands[1]
        )  # fmt: skip
    return _is(x, "square", "power")


def _reaches(x: Any, test: Callable[[Any], bool], depth: int = 6) -> bool:
    """Whether one of the last operations that made a value fulfils a test."""
    if type(x) is not Operation or depth == 0:
        return False
    return test(x) or any(_reaches(o, test, depth - 1) for o in x.operands)


def _is_probability(x: Any) -> bool:
    return _is(x, "normal_cdf", "ndtr", "erf", "expit", "tanh", "betainc", "gammainc", "stdtr")


class _Pair(NamedTuple):
    """A sum or difference that cancels, its operands, and what these multiply or divide."""

    op: Operation
    operands: Sequence[Any]
    scaled: Sequence[Any]
    consumers: Sequence[Operation]


def _with_number(pair: _Pair) -> bool:
    return any(isinstance(x, Literal) for x in pair.operands)


def _is_step(pair: _Pair) -> bool:
    """Whether it is a difference quotient: f(x + h) - f(x), divided by a small number."""
    divided = any(
        _is(c, "div") and _op_is(c.operands[0], pair.op) and _small(c.operands[1])
        for c in pair.consumers
    )
    return divided and all(_reaches(x, lambda o: o.primitive in _FUNCTIONS) for x in pair.operands)


def _is_quadratic(pair: _Pair) -> bool:
    """Whether an operand is the root of a sum with a square."""
    roots = [x for x in pair.scaled if _is(x, "sqrt")]
    return bool(roots) and _reaches(
        roots[0], lambda o: _is(o, "sub", "add") and any(map(_is_square, o.operands))
    )


def _is_variance(pair: _Pair) -> bool:
    """Whether it is the mean of squares, less the square of the mean."""
    squares = [_is_square(x) for x in pair.scaled]
    if not any(squares):
        return False
    mean, other = pair.operands[squares.index(True)], pair.operands[1 - squares.index(True)]
    return (
        _reaches(other, _is_square)
        and _reaches(other, lambda o: _is(o, "reduce_sum", "add"))
        and _reaches(mean, lambda o: _is(o, "reduce_sum", "add"))
    )


_FUNCTIONS = ("sin", "cos", "exp", "log", "tan", "power", "sqrt", "mul", "div", "tanh")

_DIFFERENCES: tuple[tuple[str, Callable[[_Pair], bool]], ...] = (
    ("cosine", lambda p: _with_number(p) and any(_is(x, "cos") for x in p.scaled)),
    ("exp", lambda p: _with_number(p) and any(_is(x, "exp") for x in p.scaled)),
    ("tail", lambda p: _with_number(p) and any(map(_is_probability, p.scaled))),
    ("step", _is_step),
    ("roots", lambda p: all(_is(x, "sqrt") for x in p.scaled)),
    ("quadratic", _is_quadratic),
    ("variance", _is_variance),
    ("recurrence", lambda p: p.op.in_loop),
    ("products", lambda p: all(_is(x, "mul", "power", "square") for x in p.operands)),
)
"""Causes of a sum or difference that cancels, and their tests; the first that holds counts."""


def _difference(op: Operation, consumers: Sequence[Operation]) -> str:
    """The cause of a sum or difference that cancels."""
    operands = op.operands[:2]
    if len(operands) == 2:
        pair = _Pair(op, operands, list(map(_scaled, operands)), consumers)
        for cause, test in _DIFFERENCES:
            if test(pair):
                return cause
    return "difference"


def _op_is(x: Any, op: Operation) -> bool:
    """Whether an operand is an operation."""
    return type(x) is Operation and x.primitive == op.primitive and bool(x.site == op.site)


def _small(x: Any) -> bool:
    return isinstance(x, Literal) and bool(0 < abs(x.value) < 1e-3)


def _of_matrix(op: Operation) -> str:
    if op.primitive == "inv":
        return "inverse"
    if op.primitive in ("det", "slogdet", "cofactors"):
        return "determinant"
    if _reaches(op, lambda o: o.primitive == "dot_general" and len(o.operands) == 2
                and o.operands[0] is not None and o.operands[0] == o.operands[1], 3):  # fmt: skip
        return "normal"
    return "matrix"


_MATRIX = ("solve", "inv", "det", "slogdet", "cholesky", "qr", "lu", "pinv", "svd", "eigh")


def _of_sum(ops: Sequence[Operation], every: Sequence[Operation], count: int) -> str:
    """The cause of the digits lost by a sum or difference."""
    consumers = [o for o in every if any(_op_is(x, ops[0]) for x in o.operands)]
    words = [_difference(o, consumers) for o in ops]
    known = [w for w in words if w not in ("difference", "recurrence", "products")]
    if known or count <= 5:
        return (known or words)[0]
    terms = any(_is(_scaled(x), "div", "mul", "neg") for o in ops for x in o.operands)
    return "series" if terms and all(_op_is(o.operands[0], o) for o in ops[1:]) else "recurrence"


def _cause(site: Site, ops: Sequence[Operation], every: Sequence[Operation], count: int) -> str:
    """The cause of the digits lost at a site."""
    name, op = site.primitive, ops[0]
    if name in ("add", "sub"):
        return _of_sum(ops, every, count)
    if name in _MATRIX:
        return _of_matrix(op)
    if name in ("log", "log2", "log10"):
        return "log" if op.operands and _is(_scaled(op.operands[0]), "add", "sub") else ""
    if name == "dot_general" and any(_is(x, "inv") for o in ops for x in o.operands):
        return "inverse"
    return _CAUSES.get(name, "")


_CAUSES = {
    "sin": "angle", "cos": "angle", "tan": "angle", "arccos": "arc", "arcsin": "arc",
    "reduce_sum": "difference", "dot_general": "difference",
}  # fmt: skip
"""The causes that are known by the operation alone."""


def advice_of(
    operations: Sequence[Operation],
    sites: Mapping[Site, Any],
    loss: float,
    overflow: Site | None,
) -> tuple[Advice, ...]:
    """What to write instead of the lines that lose most.

    Args:
      operations: of the program.
      sites: the sums of each site (see error_sweep).
      loss: the digits that the result has lost.
      overflow: the site of the first overflow; None if the results are finite.
    """
    advice: dict[tuple[str, Any], Advice] = {}

    def add(cause: str, source: Source | None) -> None:
        if not cause:
            return
        file, line = ("", 0) if source is None else (source.file, source.line)
        advice.setdefault((cause, line), Advice(cause, file, line, text_of(source)))

    if overflow is not None:
        add(_of_overflow(overflow.primitive, operations), overflow.source)
        return tuple(advice.values())
    if loss < 1 or not sites:
        return ()
    total = sum(max(s[VARIANCE], s[DRIFT]) for s in sites.values()) or 1.0
    worst = sorted(sites, key=lambda s: -min(sites[s][LOST], sites[s][INHERITED] + 1e-300))
    losing = [s for s in worst if min(sites[s][LOST], 20.0) >= max(1.0, 0.3 * loss)]
    by_site: dict[Site, list[Operation]] = {}
    for operation in operations:
        if operation.site is not None:
            by_site.setdefault(operation.site, []).append(operation)
    for site in losing:
        ops = by_site.get(site)
        if ops:
            add(_cause(site, ops, operations, len(ops)), site.source)
    if not losing:
        site = max(sites, key=lambda s: max(sites[s][VARIANCE], sites[s][DRIFT]))
        sums = sites[site]
        ops = by_site.get(site, [])
        if max(sums[VARIANCE], sums[DRIFT]) > 0.3 * total and ops:
            add(_of_long_run(site, ops), site.source)
    return tuple(advice.values())


def _of_long_run(site: Site, ops: Sequence[Operation]) -> str:
    """The cause of an error that many roundings of one line make."""
    op = ops[0]
    many = op.in_loop or len(ops) > 20
    if site.primitive in ("add", "sub", "reduce_sum", "cumsum", "dot_general"):
        if site.primitive not in ("add", "sub") or many:
            return "accumulator" if op.single else "sum"
    if site.primitive in ("mul", "reduce_prod", "cumprod", "power") and (many or op.size > 1):
        return "product"
    if site.primitive in _MATRIX:
        return _of_matrix(op)
    return ""


def _of_overflow(primitive: str, operations: Sequence[Operation]) -> str:
    if primitive in ("exp", "exp2"):
        for op in operations:
            if _is(op, "div") and _reaches(op.operands[0], lambda o: _is(o, "exp"), 1):
                return "softmax"
        return "logsumexp"
    if primitive in ("mul", "square", "power", "dot_general", "reduce_sum"):
        if any(_is(op, "sqrt") for op in operations):
            return "hypot"
    return "overflow"
