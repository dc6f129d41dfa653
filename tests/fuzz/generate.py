"""Makes random programs: step by step, each run on plain arrays as soon as it is written.

The seed determines the program. Steps that NumPy refuses are left out (rarely one is kept as the
end of a program that has to fail everywhere).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from . import plain
from .inputs import Input, in_a_way, random_input
from .program import Body, Program, Step

SMALL, LARGE = 300, 400_000  # elements of one value
Op = Callable[["Builder"], "str | None"]
FAMILIES: dict[str, tuple[float, list[Op]]] = {}
REFUSED = (
    ValueError,
    TypeError,
    IndexError,
    ZeroDivisionError,
    OverflowError,
    np.linalg.LinAlgError,
)


def family(name: str, weight: float) -> Callable[[Op], Op]:
    """Adds a function that makes expressions to a family; families are drawn by weight."""

    def add(op: Op) -> Op:
        FAMILIES.setdefault(name, (weight, []))[1].append(op)
        return op

    return add


class Builder:
    """A program under construction: its names so far, with their values."""

    def __init__(self, rng: Random, large: bool, smooth: bool, values: str) -> None:
        self.rng = rng
        self.large = large
        self.smooth = smooth
        self.values = values
        self.scope: dict[str, Any] = dict(plain.NAMES)
        self.names: list[str] = []
        self.steps: list[Step] = []
        self.inputs: list[tuple[str, Input]] = []
        self.captured: list[tuple[str, Input]] = []
        self.depth = 0
        self.count = 0
        self.bodies: list[Body] = []
        self.between: list[str] = []
        self.mix: dict[str, float] = {}

    # --- queries of ops

    def value(self, name: str) -> Any:
        return self.scope[name]

    def shape(self, name: str) -> tuple[int, ...]:
        return np.shape(self.scope[name])

    def kind(self, name: str) -> str:
        """The letter of the dtype: one of "bifc"; unsigned integers count as "i"."""
        value = self.scope[name]
        letter = value.dtype.kind if hasattr(value, "dtype") else np.asarray(value).dtype.kind
        return "i" if letter == "u" else letter

    def pick(self, kinds: str = "bifc", fits: Callable[[Any], bool] | None = None) -> str | None:
        """A name, most likely a late one, of a value of one of the kinds that fits."""
        good = [
            n for n in self.names
            if self.kind(n) in kinds and (fits is None or fits(self.scope[n]))
        ]  # fmt: skip
        if not good:
            return None
        return good[-1 - int(len(good) * self.rng.random() ** 2)]

    def array(self, kinds: str = "bifc", least: int = 1, empty: bool = True) -> str | None:
        """The name of an array with at least `least` axes."""
        return self.pick(kinds, lambda v: np.ndim(v) >= least and (empty or np.size(v) > 0))

    def like(self, name: str, kinds: str = "bifc") -> str | None:
        """A name that broadcasts with another one."""
        shape, limit = self.shape(name), self.limit()

        def fits(value: Any) -> bool:
            other = np.shape(value)
            if not broadcasts(shape, other):
                return False
            return math.prod(np.broadcast_shapes(shape, other)) <= limit

        return self.pick(kinds, fits)

    def axis(self, name: str) -> int:
        ndim = len(self.shape(name))
        return self.rng.randrange(-ndim, ndim)

    def number(self) -> str:
        """A literal."""
        if self.values in ("special", "wide", "huge") and self.rng.random() < 0.3:
            return self.rng.choice(("1e300", "1e-300", "0.0", "-0.0", "1e155", "-1e10", "1e-10"))
        return self.rng.choice(
            ("2.0", "0.5", "-1.0", "3.0", "1.5", "0.1", "-0.7", "1.0", "3", "2", "1e-3")
        )

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # --- actions of ops

    def limit(self) -> int:
        return LARGE if self.large else SMALL

    def emit(self, text: str, kind: str, results: int = 1) -> bool:
        """Runs `text`; if that succeeds, adds it as a step."""
        bodies, between = tuple(self.bodies), tuple(self.between)
        self.bodies, self.between = [], []
        targets = tuple(self.fresh("v") for _ in range(results))
        step = Step(targets, text, kind, bodies, between)
        try:
            if bodies or between:
                exec(compile("\n".join(step.lines()), "<step>", "exec"), self.scope)
            else:
                self.scope[targets[0]] = eval(text, self.scope)
        except REFUSED:
            return False
        for target in targets:
            value = self.scope.get(target)
            if not isinstance(value, np.ndarray | np.generic | float | int | complex):
                return False
            if np.size(value) > self.limit() or np.ndim(value) > 5:
                return False
            if type(value) is int and not -(2**63) <= value < 2**63:  # no type of a Graph's
                return False
            if np.asarray(value).dtype.kind not in "biufc" or np.asarray(value).dtype.itemsize > 16:
                return False
        self.names += targets
        self.steps.append(step)
        return True

    def step(self, families: Callable[[str], bool] | None = None) -> bool:
        """Adds a random step; False if the drawn one did not fit."""
        names = [n for n in FAMILIES if families is None or families(n)]
        weights = [FAMILIES[n][0] * self.mix.get(n, 1.0) for n in names]
        kind = self.rng.choices(names, weights)[0]
        op = self.rng.choice(FAMILIES[kind][1])
        text = op(self)
        if text is None:
            self.bodies, self.between = [], []
            return False
        text, _, results = text.partition("#")
        return self.emit(text, kind, int(results or 1))

    def body(
        self, params: tuple[Any, ...], result: Callable[[], str | None],
        families: Callable[[str], bool] | None = None, closed: bool = False,
    ) -> str | None:  # fmt: skip
        """The name of a new function of values like `params`, for the current step.

        It may close over existing values, unless it has to be `closed`.
        """
        outer = self.names, self.steps, self.bodies, self.between
        name, letters = self.fresh("body"), tuple(self.fresh("v") for _ in params)
        seen = [n for n in self.names if not closed and self.rng.random() < 0.5]
        self.names, self.steps, self.bodies, self.between = [*seen, *letters], [], [], []
        self.scope.update(zip(letters, params, strict=True))
        self.depth += 1
        for _ in range(self.rng.randint(1, 4)):
            self.step(families)
        text = result()
        body = Body(name, letters, tuple(self.steps), text or "")
        self.depth -= 1
        self.names, self.steps, self.bodies, self.between = outer
        if text is None:
            return None
        self.bodies.append(body)
        return name


def broadcasts(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether two shapes fit."""
    return all(n == m or 1 in (n, m) for n, m in zip(reversed(x), reversed(y), strict=False))


SIDES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7)
LARGE_SHAPES = (
    (200_000,), (300, 500), (2, 70_000), (70_000, 2), (40_000,), (100, 100), (9000,), (5, 8, 3000),
    (1000, 100),
    (33_000,), (8192,), (65_537,), (20_000, 5),
)  # fmt: skip


def random_shapes(rng: Random, count: int, large: bool) -> list[tuple[int, ...]]:
    """Related random shapes."""
    first: tuple[int, ...]
    if large:
        first = rng.choice(LARGE_SHAPES)
    else:
        first = tuple(rng.choice(SIDES) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 2, 3))))
    found = [first]
    while len(found) < count:
        shape = rng.choice(found)
        how = rng.randrange(6)
        if how == 0:
            shape = shape[1:]
        elif how == 1:
            shape = tuple(1 if rng.random() < 0.3 else n for n in shape)
        elif how == 2 and shape:
            shape = (shape[-1], rng.choice((1, 2, 3)))
        elif how == 3:
            shape = ()
        elif how == 4 and not large:
            shape = tuple(rng.choice(SIDES) for _ in range(rng.choice((1, 2))))
        if int(np.prod(shape)) <= LARGE:
            found.append(shape)
    return found


PROFILES = (
    ("tame", 5), ("smooth", 3), ("special", 3), ("mixed", 3), ("finite", 2), ("whole", 3),
    ("zeros", 2), ("huge", 1),
    ("tiny", 1), ("wide", 2), ("positive", 1),
)  # fmt: skip


FOR_COMPILER = "c"
"""The ending of seeds of programs for the compiler."""
MIX = {"loops": 3.0, "branches": 1.5, "rules": 0.5, "linalg": 0.3, "fourier": 0.3, "stops": 0.3}
"""The changed weights of families in such programs."""


ARRIVES = 0.2
"""The share of inputs that come pickled, mapped, of another class, from another process."""


def for_compiler(seed: object) -> bool:
    """Whether a seed stands for a program for the compiler."""
    return f"{seed}".endswith(FOR_COMPILER)


def generate(seed: object, large_share: float = 0.01) -> Program:
    """The program of a seed.

    One for the compiler has more loops, and is more often one of numbers alone or of large arrays.
    """
    rng = Random(f"{seed}")
    compiler = for_compiler(seed)
    large_share = 0.03 if compiler else large_share
    profile = rng.choices([p for p, _ in PROFILES], [w for _, w in PROFILES])[0]
    smooth = profile == "smooth"
    large = rng.random() < large_share
    values = "tame" if smooth else profile
    b = Builder(rng, large, smooth, values)
    b.mix = MIX if compiler else {}
    count = rng.randint(1, 3)
    shapes = random_shapes(rng, count + 1, large)
    if compiler and not large and rng.random() < 0.25:
        shapes = [()] * (count + 1)
    dtypes: dict[str, Any] = {"dtypes": ("float64",)} if smooth else {}
    for i, shape in enumerate(shapes[:count]):
        b.inputs.append((f"x{i}", random_input(rng, shape, values, **dtypes)))
    if rng.random() < 0.2:
        b.captured.append(("c0", random_input(rng, shapes[count], values, **dtypes)))
    for name, value in (*b.inputs, *b.captured):
        b.scope[name] = value.make()
        b.names.append(name)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps, tries = rng.randint(2, 6 if large else 10), 0
        while len(b.steps) < steps and tries < 4 * steps:
            tries += 1
            b.step()
    made = [n for n in b.names if n[0] == "v"]
    outputs = [*made[-1:], *(rng.choice(made) for _ in range(rng.choice((0, 0, 1, 2))) if made)]
    names, inputs = zip(*b.inputs, strict=True)
    arrive = Random(f"{seed} arrives")  # of its own: the steps of a seed stay
    inputs = tuple(in_a_way(arrive, x) if arrive.random() < ARRIVES else x for x in inputs)
    captured = [(n, in_a_way(arrive, x) if arrive.random() < ARRIVES else x) for n, x in b.captured]
    return Program(
        inputs, tuple(captured), tuple(b.steps),
        tuple(dict.fromkeys(outputs)) or names[:1],
        tuple(names), smooth, large,
    ).live()  # fmt: skip


from . import steps  # noqa: E402, F401  (fills FAMILIES)
