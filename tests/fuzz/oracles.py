"""What has to agree: each oracle computes something in two ways, and says how they differ."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import fungrad as fg

from .compare import difference
from .noise import Spread
from .program import Program

FLAGLESS = re.compile("@|dot|einsum|matmul|inner|linalg|conv|corr|kron|outer|fft")
"""BLAS and LAPACK give warnings or do not, as their loops happen to run."""


class Outcome(Exception):
    """Leaves an oracle early: nothing to compare."""


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
        """f(*args), with the kinds of floating-point warnings that it gives kept in `flags`."""
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

    def spread(self) -> Callable[[int], list[list[Any]]]:
        """Noisy runs of the program, traced again when the first one is asked for."""
        made: list[Spread] = []

        def results(count: int) -> list[list[Any]]:
            if not made:
                graph = fg.make_jaxpr(self.program.traced)(*self.args)
                made.append(Spread(graph, self.args))
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
        """The inexact outputs as a function of the inexact arguments, and these."""
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
            real = rng.integers(-4, 5, value.shape) / 4.0
            imag = rng.integers(-4, 5, value.shape) / 4.0 if value.dtype.kind == "c" else 0.0
            return np.asarray(real + (1j * imag if value.dtype.kind == "c" else 0.0), value.dtype)

        return tuple(weight(value) for value in like)

    def outputs(self) -> list[Any]:
        return [np.asarray(o) for o in self.expected if np.asarray(o).dtype.kind in "fc"]

    def gradient(self) -> tuple[Callable[..., Any], list[Any]]:
        """The pullback of fixed cotangents, as a function of the arguments."""
        f, given = self.partial()
        cotangents = self.weights(self.outputs(), 1)
        return (lambda *xs: fg.vjp(f, *xs)[1](cotangents)), given


ORACLES: dict[str, tuple[float, Callable[[Case], str]]] = {}


def oracle(name: str, weight: float) -> Callable[[Callable[[Case], str]], Callable[[Case], str]]:
    def add(f: Callable[[Case], str]) -> Callable[[Case], str]:
        ORACLES[name] = (weight, f)
        return f

    return add


def _against_plain(case: Case, name: str, run: Callable[..., Any], factor: float = 16.0) -> str:
    expected = case.expected
    try:
        found = list(case.watched(name, run, *case.args))
    except Exception as error:
        if isinstance(expected, Exception):
            return ""
        return _raised(error)
    if isinstance(expected, Exception):
        return f"no error, where NumPy raises {type(expected).__name__}: {expected}"
    wrong = difference(expected, found, case.spread(), factor)
    return wrong or _warned(
        case, name, lambda: run(*case.args), "plain", lambda: case.program.plain(*case.args)
    )


def _warned(case: Case, name: str, f: Any, other: str, g: Any) -> str:
    """A warning that f gives and g does not, each time (NumPy's depend on what lies in memory)."""
    extra = case.flags[name] - case.flags[other]
    if not extra or FLAGLESS.search(case.program.source):
        return ""
    for _ in range(3):
        case.flags[name] = set()
        case.watched(name, f)
        case.watched(other, g)
        extra &= case.flags[name]
        extra -= case.flags[other]
    return f"a warning that {other} does not give: {', '.join(sorted(extra))}" if extra else ""


def _raised(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"raises {type(error).__name__}: {text[0][:300] if text else ''}"


def _two(
    case: Case,
    name: str,
    first: Callable[[], Any],
    second: Callable[[], Any],
    graph: Callable[[], Any],
) -> str:
    """Two ways through fungrad; `graph` gives a Graph and arguments for the noise."""
    try:
        expected = list(case.watched("eager", first))
    except Exception as error:
        try:
            case.watched(name, second)
        except Exception:
            return "" if _expected_error(error) else _raised(error)
        return f"no error, where the other way {_raised(error)}"
    try:
        found = list(case.watched(name, second))
    except Exception as error:
        return _raised(error)
    spread: Any = None

    def noisy(count: int) -> list[list[Any]]:
        nonlocal spread
        spread = spread or Spread(*graph())
        return spread.results(count)

    wrong = difference(expected, found, noisy)
    return wrong or _warned(case, name, second, "eager", first)


def _expected_error(error: Exception) -> bool:
    return isinstance(error, np.linalg.LinAlgError | fg.errors.FungradError)


@oracle("eager", 20)
def eager(case: Case) -> str:
    """Tracing changes nothing: the Graph, walked."""
    return _against_plain(case, "eager", lambda *args: fg.evaluate(case.graph, *args))


@oracle("jit", 60)
def jitted(case: Case) -> str:
    return _against_plain(case, "jit", fg.jit(case.program.traced))


@oracle("fungrad", 8)
def untraced(case: Case) -> str:
    """The program with fungrad's names and no transform."""
    return _against_plain(case, "fungrad", case.program.traced)


@oracle("source", 6)
def source(case: Case) -> str:
    """The text that to_source writes, run."""
    try:
        text = fg.to_source(case.program.traced, *case.args, name="written")
    except fg.errors.FungradError as error:
        if isinstance(case.expected, Exception):
            return ""
        raise Outcome("to_source refuses") from error

    def run(*args: Any) -> Any:
        scope: dict[str, Any] = {}
        exec(compile(text, "<written>", "exec"), scope)
        return scope["written"](*args)

    return _against_plain(case, "source", run)


@oracle("saved", 4)
def saved(case: Case) -> str:
    if isinstance(case.expected, Exception) or "custom_" in case.program.source:
        raise Outcome("NumPy raises, or a rule that is Python")

    def run(*args: Any) -> Any:
        file = io.BytesIO()
        fg.save(fg.export(case.program.traced)(*args), file)
        file.seek(0)
        return fg.load(file)(*args)

    return _against_plain(case, "saved", run)


@oracle("vmap", 14)
def vmapped(case: Case) -> str:
    """vmap against a loop, with and without jit."""
    program, rng = case.program, case.rng
    size = rng.choice((1, 2, 3))
    axes: list[Any] = []
    for value in program.inputs:
        native = np.asarray(value.make()).dtype.isnative
        axes.append(None if value.kind == "python" or not native or rng.random() < 0.2 else 0)
    if all(axis is None for axis in axes):
        raise Outcome("nothing to map")
    described = list(zip(case.args, program.inputs, axes, strict=True))
    rows = [[a if axis is None else v.make(i * 5) for a, v, axis in described] for i in range(size)]
    if rng.random() < 0.3:
        axes = [-1 if axis == 0 else axis for axis in axes]
    batches = [
        rows[0][k] if axis is None else np.stack([row[k] for row in rows], axis=axis)
        for k, axis in enumerate(axes)
    ]  # fmt: skip
    try:
        results = [case.watched("plain", program.plain, *row) for row in rows]
        expected = [np.stack([np.asarray(r[i]) for r in results]) for i in range(len(results[0]))]
    except Exception as error:
        raise Outcome("NumPy raises") from error
    mapped = fg.vmap(program.traced, in_axes=tuple(axes))
    run = fg.jit(mapped) if rng.random() < 0.4 else mapped
    try:
        found = list(case.watched("vmap", run, *batches))
    except Exception as error:
        return _raised(error)

    def noisy(count: int) -> list[list[Any]]:
        each = []
        for row in rows:
            graph = fg.make_jaxpr(program.traced)(*row)
            each.append(Spread(graph, row).results(count))
        return [
            [np.stack([e[k][i] for e in each]) for i in range(len(expected))] for k in range(count)
        ]

    return difference(expected, found, noisy)


@oracle("jit of grad", 30)
def jit_of_grad(case: Case) -> str:
    gradient, given = case.gradient()
    return _two(
        case, "jit", lambda: gradient(*given), lambda: fg.jit(gradient)(*given),
        lambda: (fg.make_jaxpr(gradient)(*given), given),
    )  # fmt: skip


@oracle("grad of jit", 6)
def grad_of_jit(case: Case) -> str:
    f, given = case.partial()
    cotangents = case.weights(case.outputs(), 1)
    gradient, _ = case.gradient()
    return _two(
        case, "jit", lambda: gradient(*given), lambda: fg.vjp(fg.jit(f), *given)[1](cotangents),
        lambda: (fg.make_jaxpr(gradient)(*given), given),
    )  # fmt: skip


@oracle("jit of jvp", 8)
def jit_of_jvp(case: Case) -> str:
    f, given = case.partial()
    tangents = case.weights(given, 2)
    push = lambda *xs: fg.jvp(f, xs, tangents)[1]  # noqa: E731
    given = [np.asarray(x) for x in given]
    return _two(
        case, "jit", lambda: push(*given), lambda: fg.jit(push)(*given),
        lambda: (fg.make_jaxpr(push)(*given), given),
    )  # fmt: skip


@oracle("vmap of grad", 5)
def vmap_of_grad(case: Case) -> str:
    f, given = case.partial()
    cotangents = case.weights(case.outputs(), 1)
    gradient = lambda *xs: fg.vjp(f, *xs)[1](cotangents)  # noqa: E731
    if any(value.kind == "python" for value in case.program.inputs):
        raise Outcome("a number of Python's")
    batches = [np.stack([x, x]) for x in given]

    def looped() -> Any:
        return [np.stack([g, g]) for g in gradient(*given)]

    def graph() -> Any:
        def both(*xs: Any) -> Any:
            return [np.stack([g, g]) for g in gradient(*xs)]

        return fg.make_jaxpr(both)(*given), given

    return _two(case, "vmap", looped, lambda: fg.vmap(gradient)(*batches), graph)


@oracle("order 2", 4)
def second(case: Case) -> str:
    """The gradient of a gradient: eager and compiled."""
    gradient, given = case.gradient()
    if case.program.large:
        raise Outcome("large")
    weights = case.weights(given, 3)

    def twice(*xs: Any) -> Any:
        return fg.vjp(gradient, *xs)[1](tuple(weights))

    return _two(
        case, "jit", lambda: twice(*given), lambda: fg.jit(twice)(*given),
        lambda: (fg.make_jaxpr(twice)(*given), given),
    )  # fmt: skip


@oracle("transposes", 10)
def transposes(case: Case) -> str:
    """<cotangents, J tangents> is <J^T cotangents, tangents>."""
    f, given = case.partial()
    if not _tame(case) or "custom" in case.program.source:
        raise Outcome("values are not moderate")
    given = [np.asarray(x) for x in given]
    tangents, cotangents = case.weights(given, 2), case.weights(case.outputs(), 1)

    def forward(*xs: Any) -> Any:
        return _inner(cotangents, fg.jvp(f, xs, tangents)[1])

    def backward(*xs: Any) -> Any:
        return _inner(fg.vjp(f, *xs)[1](cotangents), tangents)

    try:
        with np.errstate(all="ignore"):
            a, b = forward(*given), backward(*given)
    except Exception as error:
        return _raised(error)
    if not (np.isfinite(a) and np.isfinite(b)):
        return (
            ""
            if not np.isfinite(a) and not np.isfinite(b)
            else _kink(case, f"{b!r} backward, {a!r} forward")
        )
    scale = 0.0
    for graph_of in (forward, backward):
        runs = Spread(fg.make_jaxpr(graph_of)(*given), given).results(4)
        scale = max(scale, *(abs(float(r[0]) - float(runs[0][0])) for r in runs))
    terms = _size(cotangents, fg.jvp(f, tuple(given), tangents)[1]) + _size(
        fg.vjp(f, *given)[1](cotangents), tangents
    )
    eps = max(float(np.finfo(np.asarray(x).dtype).eps) for x in (*given, *case.outputs()))
    if abs(a - b) <= 64 * scale + 1e4 * eps * (terms + abs(a)) or np.isnan(scale):
        return ""
    return f"backward mode gives {b!r}, forward mode {a!r}"


def _kink(case: Case, text: str) -> str:
    raise Outcome("infinite derivatives")


def _inner(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum(np.sum(np.real(w * t)) for w, t in zip(left, right, strict=True))


def _size(left: Sequence[Any], right: Sequence[Any]) -> float:
    return float(sum(np.sum(np.abs(w) * np.abs(t)) for w, t in zip(left, right, strict=True)))


def _tame(case: Case) -> bool:
    for value in (*case.args, *case.outputs()):
        value = np.asarray(value)
        if value.dtype.kind in "fc" and value.size:
            with np.errstate(all="ignore"):
                largest = np.max(np.abs(value))
            if not largest < 1e4:
                return False
    return True


@oracle("differences", 12)
def differences(case: Case) -> str:
    """Derivatives along a direction against central differences, of smooth programs."""
    if not case.program.smooth or not _tame(case):
        raise Outcome("not smooth")
    f, given = case.partial()
    given = [np.asarray(x) for x in given]
    if any(x.dtype != np.float64 for x in given):
        raise Outcome("not of doubles")
    tangents = case.weights(given, 2)
    plain = case.program.plain
    where = case.floats()

    def at(step: float) -> list[Any]:
        full = list(case.args)
        for i, x, t in zip(where, given, tangents, strict=True):
            full[i] = x + step * t
        return [np.asarray(o) for o in plain(*full) if np.asarray(o).dtype.kind in "fc"]

    try:
        pushed = fg.jvp(f, tuple(given), tangents)[1]
    except Exception as error:
        return _raised(error)
    coarse, fine = (
        [(p - m) / (2 * h) for p, m in zip(at(h), at(-h), strict=True)] for h in (1e-4, 5e-5)
    )
    for i, (c, d, found) in enumerate(zip(coarse, fine, pushed, strict=True)):
        error = (
            4 * np.abs(c - d)
            + 1e-6 * (1 + np.abs(d))
            + 1e-7 * float(np.max(np.abs(case.outputs()[i]), initial=0.0))
        )
        bad = ~(np.abs(found - d) <= error)
        if bad.any():
            k = np.argmax(bad)
            return f"output {i}: derivative {np.ravel(found)[k]!r}, differences {np.ravel(d)[k]!r}"
    return ""


def drawn(program: Program, rng: Random, count: int) -> list[str]:
    """Oracles for one program."""
    names = [n for n in ORACLES if n != "differences" or program.smooth]
    weights = [ORACLES[n][0] for n in names]
    return list(dict.fromkeys(rng.choices(names, weights, k=count)))


def judge(name: str, case: Case) -> str:
    """What an oracle says of a case: nothing, or what is wrong; Outcome where it does not apply."""
    try:
        return ORACLES[name][1](case)
    except Outcome:
        raise
    except Exception as error:  # whatever is raised where nothing should be is a disagreement
        return _raised(error)
