"""fg.why, which says for every input leaf why its gradient is zero, NaN, infinite or fine.

Runs the function once under WhyTrace, walks back once, and finds the causes (causes.py); the
savings of stops are counted in the staged Graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from fungrad.control_flow.unroll import array_of, holds_inf, holds_nan
from fungrad.inspect.outermost import check_outermost
from fungrad.inspect.why.ablate_stops import Stop, stops_of
from fungrad.inspect.why.causes import (
    Cause,
    Paths,
    born,
    kinks,
    not_connected,
    not_finite,
    zero,
)
from fungrad.inspect.why.recording_trace import WhyTrace, walked_back
from fungrad.ir.graph import Source
from fungrad.support import pytree
from fungrad.tracing.graph_trace import stage
from fungrad.tracing.source_location import describe, raised_at
from fungrad.tracing.trace import EVAL, Tracer, typeof, value_under
from fungrad.tracing.traced_again import traced
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.arguments import (
    differentiable,
    flat_results,
    leaf_names,
    leaf_type,
    resolve,
    with_parts,
)


class Finding(NamedTuple):
    """The finding about one input leaf's gradient (or about the output).

    `verdict` is "fine", "zero", "nan", "inf", "none" where there can be no gradient, or "error";
    `cause` is one word for the reason; `source` the user's line that causes it.
    """

    path: str
    verdict: str
    cause: str
    reason: str
    source: Source | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.verdict}, {self.reason}", *self.notes]
        return "\n    ".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The finding as plain data."""
        return {**self._asdict(), "source": _source_json(self.source), "notes": list(self.notes)}


class Why:
    """The result of `fg.why(f)(*args)`; it prints a line or two for each input leaf.

    Attributes:
      findings: one `Finding` for each input leaf.
      output: the `Finding` of the output's value.
      error: the error that f raised, or None.
      stops: each stop with the equations, and the bytes of their results, that it saves.
      remarks: facts that could not be found out, with the reason.
    """

    def __init__(
        self, name: str, findings: list[Finding], output: Finding, stops: list[Stop],
        remarks: list[str], error: Exception | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.findings = findings
        self.output = output
        self.stops = stops
        self.remarks = remarks
        self.error = error

    def __getitem__(self, path: str) -> Finding:
        """The finding of one leaf, by its path (`params['w']`)."""
        for finding in self.findings:
            if finding.path == path:
                return finding
        raise KeyError(path)

    def as_json(self) -> dict[str, Any]:
        """The findings as plain data."""
        return {
            "function": self.name,
            "output": self.output.as_json(),
            "findings": [finding.as_json() for finding in self.findings],
            "stops": [{**s._asdict(), "source": _source_json(s.source)} for s in self.stops],
            "remarks": list(self.remarks),
        }

    def __str__(self) -> str:
        lines = [f"why {self.name}"]
        if self.output.verdict != "fine":
            lines.append(f"  {self.output}")
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  {stop_text(stop)}" for stop in self.stops]
        lines += [f"  {remark}" for remark in self.remarks]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [
            f"<tr><td>{escape(f.path)}</td><td><b>{f.verdict}</b></td><td>{escape(f.reason)}</td></tr>"
            for f in (self.output, *self.findings)
        ]
        notes = [*map(stop_text, self.stops), *self.remarks]
        below = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<table>{''.join(cells)}</table>{below}"


def stop_text(stop: Stop) -> str:
    """One line on a stop and its savings."""
    label = f' "{stop.name}"' if stop.name is not None else ""
    where = "" if stop.source is None else f" at {stop.source}"
    count = "1 equation" if stop.equations == 1 else f"{stop.equations} equations"
    return f"stop_gradient{label}{where} saves {count} ({stop.nbytes:,} bytes of results)"


def _source_json(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else source._asdict()


def why(
    f: Callable[..., Any], argnums: int | str | Sequence[int | str] | None = None
) -> Callable[..., Why]:
    """A function that says why the gradient of f is zero, None, NaN, infinite or fine.

    >>> import numpy as np, fungrad as fg
    >>> def f(x, y):
    ...     return np.sum(x * fg.stop_gradient(y, "target"))
    >>> found = fg.why(f)(np.ones(2), np.ones(2))
    >>> [(finding.path, finding.verdict, finding.cause) for finding in found.findings]
    [('x', 'fine', 'connected'), ('y', 'zero', 'stopped')]

    Args:
      f: the function to differentiate; if it returns more than one number, their sum is explained.
        It may be jitted, vmapped, and use loops.
      argnums: which arguments, as in `fg.grad`; by default all.

    Returns:
      A function with f's arguments that returns a `Why`. An error of f, or of a derivative, is part
      of the explanation: the verdict of a leaf that it leaves unexplained is "error". It costs one
      evaluation of f and one backward walk, with all values kept; calls, branches and loops run
      equation by equation.

    Raises:
      ArgumentError: inside another transform, where there are no values to look at.
    """

    def run(*args: Any, **kwargs: Any) -> Why:
        check_outermost("why", "values")
        keys: list[int | str] = [*range(len(args)), *kwargs]
        if argnums is not None:
            keys = resolve(f, argnums, args, kwargs)
        parts = [args[k] if isinstance(k, int) else kwargs[k] for k in keys]
        names = leaf_names(f, keys, parts)
        leaves, treedef = pytree.flatten(parts)
        active = [differentiable(leaf) for leaf in leaves]

        def flat(*values: Any) -> list[Any]:
            given = iter(values)
            new = pytree.unflatten(
                treedef, [next(given) if a else x for x, a in zip(leaves, active, strict=True)]
            )
            positional, named = with_parts(keys, new, args, kwargs)
            return flat_results(f(*positional, **named))[0]

        chosen = [x for x, a in zip(leaves, active, strict=True) if a]
        with np.errstate(all="ignore"):
            return _explained(f, flat, leaves, names, active, chosen)

    return TransformedFunction(run, why, f, argnums)


def _explained(
    f: Any, flat: Any, leaves: list[Any], names: list[str], active: list[bool], chosen: list[Any]
) -> Why:
    def label() -> str:
        return f"why of {describe(f)}"

    def run() -> tuple[WhyTrace, list[Any], list[Any]]:
        trace = WhyTrace(EVAL, label)
        tracers = [trace.tracer(value) for value in chosen]
        return trace, tracers, trace.run(flat, *tracers)

    name = getattr(f, "__name__", type(f).__name__)
    try:
        trace, tracers, outputs = traced(run, label, flat)
    except Exception as error:
        return _raised(name, names, error)
    mine = [o for o in outputs if type(o) is Tracer and o.owner is trace]
    seeds = [(o.extra, _one(o.inner)) for o in mine]
    steps, total = walked_back(trace, seeds)
    slots = iter(tracers)
    findings = []
    for leaf, path, is_active in zip(leaves, names, active, strict=True):
        if not is_active:
            findings.append(_nothing(leaf, path))
            continue
        tracer = next(slots)
        paths = Paths(trace, steps, tracer.extra)
        try:
            finding = _finding(path, leaf, paths, total.get(tracer.extra), bool(mine))
        except Exception as error:  # unexpected values: report them
            reason = f"examining it raised {type(error).__name__}: {error}"
            finding = Finding(path, "error", "raised", reason, None, ())
        findings.append(finding)
    stops: list[Stop] = []
    remarks: list[str] = []
    if any(cut.stops for cut in trace.cuts):
        of_chosen = [name for name, a in zip(names, active, strict=True) if a]
        stops, remarks = _stops(f, flat, chosen, of_chosen)
    return Why(name, findings, _output(trace, outputs, mine), stops, remarks)


def _raised(name: str, paths: list[str], error: Exception) -> Why:
    """The explanation where f itself raises."""
    source = raised_at(error)
    said = f"f raised {type(error).__name__}{f' at {source}' if source else ''}: {error}"
    findings = [Finding(p, "error", "raised", "f raised, see output", source, ()) for p in paths]
    output = Finding(
        "output", "error", "raised", said, source, tuple(getattr(error, "__notes__", ()))
    )
    return Why(name, findings, output, [], [], error)


def _one(value: Any) -> Any:
    type_ = typeof(value)
    return np.ones(type_.shape, type_.dtype)[()]


def _nothing(leaf: Any, name: str) -> Finding:
    type_ = leaf_type(leaf)
    what = f"of dtype {type_.dtype}" if type_ is not None else f"a {type(leaf).__name__}"
    return Finding(name, "none", "no float", f"it is {what}, which has no derivative", None, ())


def _finding(name: str, leaf: Any, paths: Paths, gradient: Any, traced: bool) -> Finding:
    def of(verdict: str, cause: Cause) -> Finding:
        return Finding(name, verdict, cause.word, cause.reason, cause.source, cause.notes)

    if np.size(leaf) == 0:
        return of("fine", Cause("empty", "it has no entries"))
    if gradient is None:
        unused = "it is not used"
        if not traced and not paths.on and not paths.cuts:
            unused = "it is not used; the output depends on none of these arguments"
        cause = not_connected(paths, unused)
        note = 'not connected: None with unconnected="none"'
        return of("zero", cause._replace(notes=(*cause.notes, note)))
    if holds_nan(gradient):
        return of("nan", not_finite(paths, holds_nan, leaf))
    if holds_inf(gradient):
        return of("inf", not_finite(paths, holds_inf, leaf))
    if not np.any(gradient):
        return of("zero", zero(paths))
    zeros = int(np.sum(np.equal(gradient, 0)))
    largest = float(np.max(np.abs(gradient)))
    reason = f"it is finite, at most {largest:.3g} in size"
    if zeros:
        reason += f"; {zeros} of its {np.size(gradient)} entries are 0"
    at_kink = kinks(paths)
    return of("fine", Cause("kink" if at_kink else "connected", reason, None, at_kink))


def _output(trace: WhyTrace, outputs: list[Any], mine: list[Tracer]) -> Finding:
    for verdict, holds in (("nan", holds_nan), ("inf", holds_inf)):
        if any(map(holds, outputs)):
            cause = born(trace, [o.extra for o in mine if holds(o)], holds)
            if cause is None:
                what = "NaN" if holds is holds_nan else "an infinity"
                cause = Cause("constant", f"it holds {what}, and depends on no input")
            return Finding("output", verdict, cause.word, cause.reason, cause.source, cause.notes)
    if not any(array_of(o) is not None for o in outputs):
        described = ", ".join(str(leaf_type(value_under(o)) or type(o).__name__) for o in outputs)
        reason = f"it holds no float that could be differentiated ({described or 'nothing'})"
        return Finding("output", "none", "no float", reason, None, ())
    return Finding("output", "fine", "finite", "it is finite", None, ())


def _stops(f: Any, flat: Any, chosen: list[Any], names: list[str]) -> tuple[list[Stop], list[str]]:
    """The savings of the stops, from the staged Graph, where the function can be staged."""

    def outputs(*values: Any) -> list[Any]:
        return [o for o in flat(*values) if leaf_type(o) is not None]

    try:
        graph = stage(outputs, [typeof(x) for x in chosen], names, lambda: describe(f))
    except Exception as error:  # Python control flow, or other libraries' code
        first = str(error).split(". ")[0].split("\n")[0]
        return [], [f"the savings of the stops are not known, since f cannot be staged: {first}"]
    return stops_of(graph, [True] * len(chosen)), []
