"""The programs that a corpus is recorded from, each with a name that says where it comes from.

Their arguments are the same at every call, so that a program can be staged again by its name.
"""

from __future__ import annotations

import importlib
import io
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fungrad as fg
from benchmarks import branches, cases, everyday, libraries
from benchmarks.replay import functions, harvest

ROOT = Path(__file__).parents[2]
for folder in (ROOT / "tests" / "support", ROOT):  # neither is part of the package
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

Function = Callable[..., Any]


class Program(NamedTuple):
    """A function of trees of arrays and numbers, and its arguments; where there is none, the
    reason.

    What is not `quick` is found by running other code, so that it is held as a Graph alone.
    """

    name: str
    function: Function | None
    args: tuple[Any, ...] = ()
    error: str = ""
    quick: bool = True


# --- transforms


def inexact(tree: Any) -> bool:
    """Whether all leaves have derivatives."""
    return all(np.asarray(x).dtype.kind in "fc" for x in fg.tree_leaves(tree))


def total(found: Any) -> Any:
    """Squares of all outputs that have derivatives, as one number."""
    leaves = [x for x in fg.tree_leaves(found) if fg.extend.typeof(x).inexact]
    return sum(np.sum(np.real(x * np.conj(x))) for x in leaves)


def gradient(f: Function, args: Sequence[Any]) -> Function:
    """The gradient of `total` by all arguments that have one."""
    where = tuple(i for i, x in enumerate(args) if inexact(x))
    return fg.grad(lambda *xs: total(f(*xs)), argnums=where)


def forward(f: Function, args: Sequence[Any]) -> Function:
    """The tangents along the arguments themselves."""
    where = [i for i, x in enumerate(args) if inexact(x)]

    def run(*xs: Any) -> Any:
        def moved(*ys: Any) -> Any:
            full = list(xs)
            for i, y in zip(where, ys, strict=True):
                full[i] = y
            return f(*full)

        given = tuple(xs[i] for i in where)
        return fg.jvp(moved, given, fg.tree_map(lambda x: x * 0.5, given))

    return run


def stacked(args: Sequence[Any]) -> tuple[Any, ...]:
    """Three arguments in one: these, and somewhat smaller ones where that leaves their dtype."""

    def three(x: Any) -> Any:
        x = np.asarray(x)
        scales = [1.0, 0.75, 0.875] if x.dtype.kind in "fc" else [1, 1, 1]
        return np.stack([x * scale for scale in scales]).astype(x.dtype)

    return tuple(fg.tree_map(three, list(args)))


def transformed(name: str, f: Function, args: Sequence[Any], which: str) -> Iterator[Program]:
    """A function under the transforms that letters stand for (see functions.py)."""
    args = tuple(args)
    slope = gradient(f, args)
    found: dict[str, Callable[[], tuple[str, Function, tuple[Any, ...]]]] = {
        "v": lambda: ("value", f, args),
        "g": lambda: ("gradient", slope, args),
        "h": lambda: ("hessian product", forward(slope, args), args),
        "j": lambda: ("tangents", forward(f, args), args),
        "b": lambda: ("batch", fg.vmap(f), stacked(args)),
        "B": lambda: ("batch of gradients", fg.vmap(slope), stacked(args)),
    }
    for letter in which:
        what, function, given = found[letter]()
        yield Program(f"{name}, {what}", function, given)


# --- where programs come from


def _size(args: Any) -> int:
    return sum(np.size(x) for x in fg.tree_leaves(args))


class _Values:
    """Derivatives that are none: the functions of the benchmark's cases themselves."""

    def __init__(self, terms: Any) -> None:
        self._terms = terms

    def __getattr__(self, name: str) -> Any:
        if name in ("grad", "value_and_grad", "hessian"):
            return lambda f, argnums=0: f
        return getattr(self._terms, name)


def of_cases() -> Iterator[Program]:
    """The cases of `python -m benchmarks`, small and in the sizes that are timed."""
    library = libraries.LIBRARIES[libraries.EAGER]()
    for case in cases.ALL:
        derivative = case.derivative(library.np, library.ad)
        tiny = case.tiny()
        yield from transformed(f"{case.name} tiny", derivative, tiny, "vgb")
        if not case.name.startswith("MLP step"):  # its program takes the gradient apart
            yield Program(f"{case.name}, value", case.derivative(np, _Values(library.ad)), tiny)
        if not case.large and "1e+05" not in case.name.replace("100000", "1e+05"):
            args = case.arguments()
            if _size(args) <= 250_000:
                yield Program(case.name, derivative, args)


def of_everyday() -> Iterator[Program]:
    """Losses, activations and the like, small and large, in both precisions."""
    for f, shapes in everyday.FUNCTIONS:
        name, function = f.__name__, lambda *xs, f=f: f(np, *xs)
        small = [tuple(max(n // 64, 3) // 2 * 2 for n in shape) for shape in shapes]
        for dtype in (np.float64, np.float32):
            args = everyday.arguments(small, dtype)
            yield from transformed(f"{name} {np.dtype(dtype)}", function, args, "vg")
        yield from transformed(f"{name} second", function, args, "hB")
        yield Program(
            f"{name} large",
            fg.value_and_grad(function),
            tuple(everyday.arguments(shapes, np.float64)),
        )
    for title, _, plain, arguments in branches.CASES:
        for size in (10, 1_000):
            yield from transformed(f"{title} {size}", plain, arguments(size), "vg")


def of_functions() -> Iterator[Program]:
    """What is written for this: functions.py."""
    for name, f, args, which in functions.ROWS:
        yield from transformed(name, f, args, which)


def of_samples(most: int = 6) -> Iterator[Program]:
    """Each primitive at some of its samples; the pullback, a batch, and second derivatives of
    one.
    """
    checks, table = importlib.import_module("checks"), importlib.import_module("samples").SAMPLES
    for name, primitive in sorted(checks.OURS.items()):
        samples = table.get(name, [])
        spread = max(len(samples) / most, 1.0)
        some = [samples[int(i * spread)] for i in range(min(most, len(samples)))]
        some = [sample for sample in some if _savable(checks.call(primitive, sample), sample.args)]
        if not some:
            yield Program(name, None, (), "no sample of the primitive can be saved")
            continue

        def values(*args: Any, primitive: Any = primitive, some: Any = tuple(some)) -> Any:
            return [
                checks.outputs(primitive, primitive(*given, **sample.params))
                for sample, given in zip(some, args, strict=True)
            ]

        yield Program(name, values, tuple(sample.args for sample in some))
        smooth = [s for s in some if s.order > 0 and checks.differentiable(primitive, s)]
        if smooth:
            sample = smooth[0]
            f = checks.call(primitive, sample)
            others = "hjB" if sample.order > 1 else "jB"
            which = "g" + others[_turn(name, 6) :][:1]
            yield from transformed(name, f, sample.args, which)
        elif _turn(name, 2):
            yield from transformed(name, checks.call(primitive, some[0]), some[0].args, "b")


def _turn(name: str, count: int) -> int:
    return zlib.crc32(name.encode()) % count


def _savable(f: Function, args: Any) -> bool:
    if not args or any(np.asarray(x).dtype.kind not in "biufc" for x in args):
        return False
    try:
        fg.save(fg.export(f)(*args), io.BytesIO())
    except fg.errors.ArgumentError:
        return False
    return True


def of_fuzz(small: int = 170, large: int = 30, derived: int = 90) -> Iterator[Program]:
    """Random programs, and pullbacks of some."""
    case, generate = (importlib.import_module(f"tests.fuzz.{n}") for n in ("case", "generate"))
    for i in range(small + large):
        share = float(i >= small)
        program = generate.generate(f"replay-{i}", share)
        yield Program(f"{i}", program.traced, tuple(program.args()))
        if i < derived or i >= small:
            try:
                f, args = case.Case(program, f"replay-{i}").gradient()
            except case.Outcome:
                continue  # nothing in it has a derivative
            yield Program(f"{i}, pullback", f, tuple(args))


def _harvest(found: Iterator[tuple[str, Callable[[], Any]]]) -> Iterator[Program]:
    for name, run in found:
        try:
            graphs = harvest.harvested(run)
        except ModuleNotFoundError as error:
            yield Program(name, None, (), f"it needs {error.name}")
            continue
        for i, (graph, args) in enumerate(graphs):
            f = lambda *xs, graph=graph: fg.evaluate(graph, *xs)  # noqa: E731
            yield Program(f"{name}, {i}", f, args, quick=False)


GROUPS: dict[str, Callable[[], Iterator[Program]]] = {
    "functions": of_functions,
    "cases": of_cases,
    "everyday": of_everyday,
    "samples": of_samples,
    "fuzz": of_fuzz,
    "gradbench": lambda: _harvest(harvest.gradbench()),
    "sessions": lambda: _harvest(harvest.sessions()),
}
"""The makers of programs, by the first word of their names."""


def programs(groups: Collection[str] = GROUPS) -> Iterator[Program]:
    """All programs, or those of some groups."""
    for group, make in GROUPS.items():
        if group in groups:
            yield from (p._replace(name=f"{group}/{p.name}") for p in make())
