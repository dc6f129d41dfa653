"""The command line's derivatives of any order of a Call, their check by differences, and `explain`.

Orders above 1, and checks, run on one flat float64 vector z of all differentiated numbers.
"""

from __future__ import annotations

import difflib
import inspect
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, permutations
from typing import Any, TextIO

import numpy as np

import fungrad as fg
from fungrad import errors
from fungrad.cli.parse_values import InputError
from fungrad.cli.report import PASSED, Report, write_json
from fungrad.cli.user_function import UserCall, check_finite, quiet, user_code
from fungrad.support import pytree
from fungrad.support.snapshots import snapshot
from fungrad.testing.gradients import ROUGH, slopes

Array = np.ndarray[Any, np.dtype[np.float64]]

MOST_ENTRIES = 1_000_000
MOST_COORDINATES = 8
CHUNK = 16  # rows of a batched pullback at once: each needs the memory of one backward pass
EPSILON = float(np.finfo(np.float64).eps)
STEP = EPSILON ** (1 / 5)  # balances rounding against the error h**4 of the extrapolated difference


def gradient(call: UserCall, names: Sequence[str]) -> dict[str, Any]:
    """The gradient with respect to each named argument, in its own structure and dtype."""
    selected = {name: call.values[name] for name in names}
    with quiet(call.notes), user_code(call, "was being differentiated"):
        result: dict[str, Any] = fg.grad(call)(selected)
    for name in names:
        mend = "`fungrad why` with the same arguments names the line; move away from it"
        check_finite(result[name], f"the gradient with respect to {name}", call.allow_nan, mend)
    return result


class Flat:
    """A Call as a function of one float64 vector z: the leaves, one after another."""

    def __init__(self, call: UserCall, names: Sequence[str]) -> None:
        self.call = call
        self.__name__ = call.name
        self.names = list(names)
        self.leaves, self.structure = pytree.flatten({name: call.values[name] for name in names})
        self.shapes = [np.shape(leaf) for leaf in self.leaves]
        ends = np.cumsum([0, *(np.size(leaf) for leaf in self.leaves)])
        self.parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.labels = leaf_labels(self.structure)
        self.base = np.concatenate([np.ravel(np.float64(leaf)) for leaf in self.leaves])
        self.gradient = fg.grad(self)

    def __call__(self, z: Any) -> Any:
        """The function's value at z, traced or not."""
        leaves = [
            np.reshape(z[part], shape) if shape else z[part.start]
            for part, shape in zip(self.parts, self.shapes, strict=True)
        ]
        return self.call(pytree.unflatten(self.structure, leaves))

    def label(self, index: int) -> str:
        """The name of one entry of z, such as `means[1]`."""
        for part, shape, label in zip(self.parts, self.shapes, self.labels, strict=True):
            if part.start <= index < part.stop:
                place = np.unravel_index(index - part.start, shape)
                return label + (f"[{', '.join(str(int(i)) for i in place)}]" if shape else "")
        raise IndexError(index)


def leaf_labels(structure: pytree.TreeDef) -> list[str]:
    """The readable names of the leaves of a dict of arguments.

    >>> leaf_labels(pytree.structure({"w": [1.0, {"a": 2.0}]}))
    ['w[0]', "w[1]['a']"]
    """
    return [path[2:].replace("']", "", 1) for path in pytree.paths(structure)]


def derivatives(call: UserCall, names: Sequence[str], order: int) -> dict[tuple[str, ...], Array]:
    """The derivative of an order of 2 or more, as one array for each combination of leaves.

    The array of the leaves (a, b, ...) has the shape a.shape + b.shape + ...; by symmetry other
    orders of these leaves are its transposes.
    """
    flat = Flat(call, names)
    size = flat.base.size
    if size**order > MOST_ENTRIES:
        raise InputError(
            f"the derivative of order {order} has {size}**{order} = {size**order:,} entries, and "
            f"the limit is {MOST_ENTRIES:,}; choose fewer arguments with --wrt, or a lower --order."
        )
    with quiet(call.notes), user_code(call, f"was being differentiated {order} times"):
        tensor = tensor_at(flat, flat.base, order)
    blocks = {}
    for chosen in combinations_with_replacement(range(len(flat.parts)), order):
        block = tensor[tuple(flat.parts[i] for i in chosen)]
        shape = tuple(length for i in chosen for length in flat.shapes[i])
        blocks[tuple(flat.labels[i] for i in chosen)] = block.reshape(shape)
    for labels, block in blocks.items():
        what = f"the derivative with respect to {', '.join(labels)}"
        check_finite(block, what, call.allow_nan, f"take an --order below {order}")
    return blocks


def tensor_at(flat: Flat, z: Array, order: int) -> Array:
    """All partial derivatives of one order at z, an array with `order` axes of z's length.

    The last two axes come from a Jacobian of the gradient, by a batched pullback; the axes before
    them from forward mode, once for each set of coordinates.
    """
    if order == 1:
        return np.asarray(flat.gradient(z))
    size = z.size
    basis = np.eye(size)
    tensor = np.empty((size,) * order)
    for outer in combinations_with_replacement(range(size), order - 2):
        function: Callable[[Any], Any] = flat.gradient
        for index in outer:
            function = _along(function, basis[index])
        jacobian = _jacobian(function, z, basis)
        for places in set(permutations(outer)):
            tensor[places] = jacobian
    return tensor


def _along(function: Callable[[Any], Any], direction: Array) -> Callable[[Any], Any]:
    return lambda z: fg.jvp(function, (z,), (direction,))[1]


def _jacobian(function: Callable[[Any], Any], z: Array, basis: Array) -> Array:
    _, pullback = fg.vjp(function, z)
    rows = fg.vmap(lambda cotangent: pullback(cotangent)[0])
    return np.vstack([rows(basis[i : i + CHUNK]) for i in range(0, len(basis), CHUNK)])


@dataclass
class Finding:
    """The worst disagreement of one kind of comparison."""

    what: str
    tolerance: float
    error: float = 0.0
    place: str = ""
    found: float = 0.0
    expected: float = 0.0
    comparisons: int = 0
    rough: int = 0

    @property
    def passed(self) -> bool:
        """Whether all comparisons agreed, and at least one of them could be judged."""
        return self.error <= self.tolerance and self.comparisons > self.rough

    def add(self, found: Any, expected: Any, floor: float, place: str, unit: float) -> None:
        """Compares numbers or arrays, relative to the largest entry or to the floor.

        `unit` is the length of the direction of these derivatives.
        """
        self.comparisons += 1
        gap = np.abs(np.asarray(found) - expected)
        worst = np.unravel_index(np.argmax(gap), gap.shape)
        largest = max(float(np.max(np.abs(found))), float(np.max(np.abs(expected))), floor)
        error = float(gap[worst]) / largest if largest else 0.0
        if error > self.error or not self.place:
            self.error, self.place = error, place
            self.found = float(np.asarray(found)[worst]) / unit
            self.expected = float(np.asarray(expected)[worst]) / unit


def check(
    call: UserCall,
    names: Sequence[str],
    order: int = 1,
    samples: int = 0,
    seed: int = 0,
    spread: float = 0.01,
    tolerance: float = 1e-5,
    advance: Callable[[], None] = lambda: None,
) -> list[Finding]:
    """Compares the derivative with central differences, and forward with reverse mode.

    Checks at the given arguments and at `samples` points near them: each number is moved by
    `spread` times its size times a standard normal. Runs in float64. Points where two step sizes
    disagree (a kink between them) count as rough, not as errors. `advance` is called at each point.
    """
    flat = Flat(call, names)
    generator = np.random.default_rng(seed)
    which = "gradient" if order == 1 else f"derivative of order {order}"
    difference = Finding(f"{which} against central differences", tolerance)
    modes = Finding("forward against reverse mode", 1e-9)
    for sample in range(samples + 1):
        noise = generator.standard_normal(flat.base.size) if sample else 0.0
        z = flat.base + spread * noise * _scales(flat)
        where = f"sample {sample}" if sample else "the given point"
        with quiet(call.notes), user_code(call, f"was being checked at {where}"):
            _check_at(flat, z, order, where, generator, difference, modes)
        advance()
    return [difference, modes]


def _scales(flat: Flat) -> Array:
    """The size of each number; for 0 the root mean square of the same argument, or 1."""
    scales: Array = np.abs(flat.base)
    for part in flat.parts:
        size = float(np.sqrt(np.mean(scales[part] ** 2))) if part.stop > part.start else 1.0
        scales[part] = np.where(scales[part] == 0.0, size or 1.0, scales[part])
    return scales


def _check_at(
    flat: Flat,
    z: Array,
    order: int,
    where: str,
    generator: np.random.Generator,
    difference: Finding,
    modes: Finding,
) -> None:
    lower = flat if order == 1 else lambda z: tensor_at(flat, z, order - 1)
    derivative = tensor_at(flat, z, order)
    if not np.isfinite(derivative).all():
        raise InputError(
            f"{flat.call.name}'s derivative is NaN or infinite at {where} of the check; move the "
            "arguments away from the edge of its domain, or lower --spread."
        )
    gradient = derivative if order == 1 else flat.gradient(z)
    for label, direction, unit in _directions(flat, generator):
        place = f"{label} at {where}"
        reverse = derivative @ direction

        def at(step: float, direction: Array = direction) -> list[Array]:
            return [np.asarray(lower(z + step * direction))]

        (slope,) = slopes(at, STEP, EPSILON)
        finite = slope.value
        size = max(float(np.max(np.abs(reverse))), slope.size)
        small = ROUGH * size + slope.noise
        floor = (slope.noise + slope.doubt) / difference.tolerance
        agree = float(np.max(np.abs(reverse - finite))) <= difference.tolerance * max(size, floor)
        if not (slope.doubt <= small and (agree or _bend(at) <= small)):  # also where one is NaN
            difference.comparisons += 1
            difference.rough += 1
        else:
            difference.add(reverse, finite, floor, place, unit)
        forward = fg.jvp(flat, (z,), (direction,))[1]
        floor = float(np.abs(gradient) @ np.abs(direction))  # the terms may cancel in the sum
        modes.add(forward, gradient @ direction, floor, place, unit)


def _bend(at: Callable[[float], list[Array]]) -> float:
    """The difference of the one-sided slopes if it does not shrink with the step, as at a kink."""
    (centre,) = at(0.0)

    def change(step: float) -> float:
        (above,), (below,) = at(step), at(-step)
        return float(np.max(np.abs(above - 2 * centre + below), initial=0.0)) / step

    narrow = change(STEP / 2)
    return narrow if narrow > 0.75 * change(STEP) else 0.0


def _directions(flat: Flat, generator: np.random.Generator) -> Iterator[tuple[str, Array, float]]:
    """Each coordinate of a small leaf, a few random directions of a large one, with their lengths.

    Each direction is scaled by the numbers' sizes, so that one step fits all units.
    """
    scales = _scales(flat)
    for part, label in zip(flat.parts, flat.labels, strict=True):
        size = part.stop - part.start
        for index in range(min(size, MOST_COORDINATES)):
            direction = np.zeros_like(scales)
            if size <= MOST_COORDINATES:
                direction[part.start + index] = scales[part.start + index]
                yield flat.label(part.start + index), direction, float(direction.sum())
            else:
                direction[part] = generator.choice([-1.0, 1.0], size) * scales[part]
                yield f"{label} along a random direction", direction, 1.0


CLASSES: dict[str, type[Exception]] = {
    name: value
    for name, value in snapshot(vars(errors)).items()
    if inspect.isclass(value) and issubclass(value, (errors.FungradError, UserWarning))
}


def explain_command(options: Namespace, output: TextIO) -> int:
    """`fungrad explain`: the docstring of an error, or the first line of each."""
    names = [_name(options.name)] if options.name else list(CLASSES)
    texts = {name: inspect.getdoc(CLASSES[name]) or "" for name in names}
    if options.json:
        write_json(texts, output)
        return PASSED
    report = Report()
    for name, text in texts.items():
        report.heading(name)
        paragraph, _, rest = text.partition("\n\n")
        report.line("  " + " ".join(paragraph.split()))
        for line in ["", *rest.splitlines()] if options.name else ():
            report.line(f"  {line}".rstrip().replace("::", ":"))
    report.write(output)
    return PASSED


def _name(given: str) -> str:
    """The name of an error class, for a name in any case."""
    known = {name.lower(): name for name in CLASSES}
    if given.lower() in known:
        return known[given.lower()]
    near = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {known[near[0]]}?" if near else ""
    raise InputError(f"{given} is not an error of fungrad.{hint} `fungrad explain` lists them.")
