"""`check_grads`, the comparison of derivatives with finite differences.

Forward mode is compared with central differences along random directions, reverse mode by the
identity <J t, g> = <t, J' g>, and both again on the derivatives themselves, up to the given order.
The slopes by central differences, with bounds of their errors, also serve `fungrad check`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError, GradientCheckError
from fungrad.support import pytree
from fungrad.support.lazy import Record
from fungrad.tracing.source_location import describe
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.arguments import flat_results, leaf_names, leaf_type
from fungrad.transforms.grad import jvp, vjp

ROUNDINGS = 16
"""The assumed rounding error of a function, in units of the last place of its largest value."""
ROUGH = 1e-2
"""If two steps differ by more than this share of the slope, neither is trusted."""
CLOSE = 1e-4
"""The largest error of the slope allowed for the difference of two steps, relative to it."""


class Slope(Record):
    """A derivative by differences, with its size and the bounds of its errors.

    `doubt` is the disagreement of two steps, and `noise` the possible rounding error.
    """

    value: Any
    size: float
    doubt: float
    noise: float

    @property
    def slack(self) -> float:
        """The largest difference of a correct derivative from the value."""
        return self.noise + min(self.doubt, CLOSE * self.size)

    @property
    def trusted(self) -> bool:
        """Whether the value can judge a derivative."""
        return self.doubt <= ROUGH * self.size + self.noise and self.noise <= ROUGH * self.size


def slopes(at: Callable[[float], list[Any]], step: float, epsilon: float) -> list[Slope]:
    """The derivatives at 0 of a function from one number to arrays of floats.

    Args:
      at: the function.
      step: the larger of the two steps.
      epsilon: the relative rounding error of the function's arithmetic.

    Richardson's extrapolation (1911) of steps h and h/2, (4 D(h/2) - D(h)) / 3: error h**4.
    """
    values = [at(sign * step / part) for part in (1, 2) for sign in (1.0, -1.0)]
    return [_slope(row, step, epsilon) for row in zip(*values, strict=True)]


def _slope(values: tuple[Any, ...], step: float, epsilon: float) -> Slope:
    above, below, half_above, half_below = values
    coarse = (above - below) / (2 * step)
    fine = (half_above - half_below) / step
    value = (4 * fine - coarse) / 3
    return Slope(
        value,
        size=_largest(value),
        doubt=_largest(fine - coarse) / 3,
        noise=ROUNDINGS * epsilon * max(map(_largest, (above, below))) / step,
    )


def spreads(at: Callable[[float], list[Any]], step: float, value: Any, position: int) -> Any:
    """The largest distance of differences of one output, with several steps, from a slope.

    The steps have no simple ratio, so that values rounded to a coarse unit do not agree by chance.
    """
    spreads_of = []
    for share in (1.0, 0.73, 0.41, 0.29):
        above, below = (at(sign * share * step)[position] for sign in (1.0, -1.0))
        spreads_of.append(np.abs((above - below) / (2 * share * step) - value))
    return np.max(spreads_of, axis=0)


def _largest(values: Any) -> float:
    return float(np.max(np.abs(values), initial=0.0))


Flat = Callable[..., list[Any]]

# By bytes of a real number: the step of the differences, and the tolerance of the comparison.
_STEPS = {2: 2.0**-4, 4: 2.0**-9, 8: 1e-5}
_EPSILONS = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}
_TOLERANCES = {2: 0.15, 4: 1e-2, 8: 2e-6}


@boundary
def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: str | Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compares the derivatives of `f` at `args` with finite differences, up to an order.

    Args:
      f: a function of trees of arrays and numbers that returns a tree; smooth near args.
      args: its arguments, as a sequence. Integer, boolean and other leaves are fixed. Complex
        arguments are moved in both directions of the plane.
      order: the highest order of derivatives; every mixture of the modes is checked.
      modes: "fwd", "rev" or both.
      atol: absolute tolerance of each number; by default the estimated error of the differences
        and of rounding in the output and the arguments.
      rtol: relative tolerance; by default 2e-6 for doubles, 1e-2 for single and 0.15 for half
        precision. It is relative to the largest entry of an output's derivative, and with `atol` to
        each entry. Without `atol` forward mode at order 1 also refuses smaller entries that are
        wrong by a hundredth (or rtol, if larger), where differences with four steps agree.
      eps: the step of the differences; by default 1e-5 for doubles, 2**-9 for single precision. If
        the arguments are too small for it, it is relative to them.

    Raises:
      GradientCheckError: if a derivative is wrong; it names the mode, the order, the worst entry
        and the error there.
      ArgumentError: if no argument can be differentiated, or a mode is unknown.

    >>> import numpy as np
    >>> check_grads(lambda p: np.sum(np.sin(p["x"]) * p["y"]), [{"x": np.ones(3), "y": 2.0}])
    """
    wanted = (modes,) if isinstance(modes, str) else tuple(modes)
    if not wanted or set(wanted) - {"fwd", "rev"}:
        raise ArgumentError(f"modes={modes!r} has to hold 'fwd', 'rev' or both.")
    if type(order) is not int or order < 1:
        raise ArgumentError(f"order={order!r} has to be an integer of at least 1.")
    leaves, treedef = pytree.flatten(tuple(args))
    active = [i for i, leaf in enumerate(leaves) if _inexact(leaf)]
    if not active:
        raise ArgumentError(
            f"No argument of {describe(f)} is a floating or complex array or number."
        )
    names = leaf_names(f, range(len(args)), list(args))

    def flat(*values: Any) -> list[Any]:
        full = list(leaves)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        return [
            leaf for leaf in flat_results(f(*pytree.unflatten(treedef, full)))[0] if _inexact(leaf)
        ]

    start = [leaves[i] for i in active]
    outputs = flat(*start)
    if not outputs:
        raise ArgumentError(f"{describe(f)} returned no floating or complex number.")
    width = min(_real_bytes(value) for value in (*start, *outputs))
    tolerance = _TOLERANCES[width]
    _Check(
        describe(f),
        [names[i] for i in active],
        wanted,
        atol=atol,
        rtol=tolerance if rtol is None else rtol,
        eps=_STEPS[width] if eps is None else eps,
        epsilon=_EPSILONS[width],
    ).run(flat, start, order, ())


def _inexact(value: Any) -> bool:
    type_ = leaf_type(value)
    return type_ is not None and type_.inexact


def _real_bytes(value: Any) -> int:
    """The bytes of one real number of a value, at most 8."""
    type_ = leaf_type(value)
    assert type_ is not None
    bytes_ = type_.dtype.itemsize // (2 if type_.dtype.kind == "c" else 1)
    return min(bytes_, 8)


class _Check:
    """One run of check_grads: its tolerances, its random numbers, and the recursion over orders."""

    def __init__(
        self,
        what: str,
        names: list[str],
        modes: Sequence[str],
        *,
        atol: float | None,
        rtol: float,
        eps: float,
        epsilon: float,
    ) -> None:
        self.what = what
        self.names = names
        self.modes = modes
        self.atol = atol
        self.rtol = rtol
        self.eps = eps
        self.epsilon = epsilon
        self.random = np.random.default_rng(0)

    def run(self, f: Flat, args: Sequence[Any], order: int, path: tuple[str, ...]) -> None:
        """Checks f, the derivative of the user's function by the modes of `path` in turn."""
        directions = [self.direction(x) for x in args]
        numeric = self.differences(f, args, directions)
        if not all(slope.trusted for slope in numeric):
            own = [_scaled(x, t) for x, t in zip(args, directions, strict=True)]
            closer = self.differences(f, args, own)
            if all(slope.trusted for slope in closer):
                directions, numeric = own, closer
        if path:  # outputs of one derivative: a small one may be a difference of large terms
            size, noise = max(s.size for s in numeric), max(s.noise for s in numeric)
            numeric = [slope._replace(size=size, noise=noise) for slope in numeric]
        if "fwd" in self.modes:
            self.forward(f, args, order, path, directions, numeric)
        if "rev" in self.modes:
            self.reverse(f, args, order, path, directions, numeric)

    def forward(
        self, f: Flat, args: Any, order: int, path: tuple[str, ...], directions: Any, numeric: Any
    ) -> None:
        _, pushed = jvp(f, args, directions)

        def rounding(position: int) -> float:
            """The change of an output's tangent by rounding of the arguments."""
            here = _double(pushed[position])
            beside = [_double(jvp(f, xs, directions)[1][position]) for xs in self.nudged(args)]
            return min(float(np.max(np.abs(there - here), initial=0.0)) for there in beside)

        for position, (found, slope) in enumerate(zip(pushed, numeric, strict=True)):
            found = np.asarray(found)
            self.compare(found, slope, position, (*path, "fwd"), rounding)
            if not path and self.atol is None:
                at = self.moved(f, args, directions)
                self.compare_small(found, slope, position, at, rounding)
        if order > 1:
            count = len(args)

            def pushforward(*both: Any) -> list[Any]:
                tangents: list[Any] = jvp(f, both[:count], both[count:])[1]
                return tangents

            self.run(pushforward, [*args, *directions], order - 1, (*path, "fwd"))

    def reverse(
        self, f: Flat, args: Any, order: int, path: tuple[str, ...], directions: Any, numeric: Any
    ) -> None:
        outputs, pullback = vjp(f, *args)
        cotangents = [self.direction(x) for x in outputs]
        pulled = pullback(cotangents)
        left, left_size = _inner([slope.value for slope in numeric], cotangents)
        right, right_size = _inner(directions, pulled)
        error = abs(left - right)
        slack = self.atol
        limit = self.rtol * max(left_size, right_size)
        if slack is None:
            weights = [float(np.sum(np.abs(c))) for c in cotangents]
            slack = sum(s.slack * w for s, w in zip(numeric, weights, strict=True))
            if not error <= slack + limit:
                beside = [vjp(f, *xs)[1](cotangents) for xs in self.nudged(args)]
                there = [_inner(directions, pulled)[0] for pulled in beside]
                slack += ROUNDINGS * min(abs(number - right) for number in there)
        # NaN has to fail.
        if not error <= slack + limit:
            raise self.failure(
                (*path, "rev"),
                f"<J t, g> is {left:.9g} by central differences, but <t, J'g> is {right:.9g} by "
                f"the pullback: an error of {error:.3g}",
            )
        if order > 1:

            def pulled_back(*xs: Any) -> list[Any]:
                return list(vjp(f, *xs)[1](cotangents))

            self.run(pulled_back, args, order - 1, (*path, "rev"))

    def direction(self, x: Any) -> Any:
        """A random tangent or cotangent of the type of x."""
        type_ = leaf_type(x)
        assert type_ is not None
        value = self.random.uniform(0.5, 1.5, type_.shape) * self.random.choice(
            [-1.0, 1.0], type_.shape
        )
        if type_.dtype.kind == "c":
            value = value + 1j * self.random.uniform(-1.0, 1.0, type_.shape)
        result = np.asarray(value, type_.dtype)
        return result.item() if type_.weak else result

    def differences(self, f: Flat, args: Sequence[Any], directions: Sequence[Any]) -> list[Slope]:
        """The slopes of f along the directions by central differences, as doubles."""
        return slopes(self.moved(f, args, directions), self.eps, self.epsilon)

    def moved(
        self, f: Flat, args: Sequence[Any], directions: Sequence[Any]
    ) -> Callable[[float], list[Any]]:
        """The outputs of f, as doubles, as a function of a step along the directions."""

        def at(step: float) -> list[Any]:
            moved = [_kind_of(x, x + step * t) for x, t in zip(args, directions, strict=True)]
            return [_double(value) for value in f(*moved)]

        return at

    def nudged(self, args: Sequence[Any]) -> list[list[Any]]:
        """The arguments moved by a rounding error to either side. A jump lies on one side only, so
        one of them has a derivative like that here.
        """
        nudges = [_scaled(x, self.epsilon * self.direction(x)) for x in args]
        return [
            [_kind_of(x, x + sign * nudge) for x, nudge in zip(args, nudges, strict=True)]
            for sign in (1, -1)
        ]

    def compare(
        self, found: Any, slope: Slope, position: int, path: tuple[str, ...],
        rounding: Callable[[int], float],
    ) -> None:  # fmt: skip
        expected = slope.value
        if found.shape != expected.shape:
            raise self.failure(
                path,
                f"the tangent of output {position} has shape {found.shape}, not {expected.shape}",
            )
        error = np.abs(found - expected)
        if self.atol is None:
            limit = slope.slack + self.rtol * slope.size
            bad = ~(error <= limit)
            if bad.any():
                bad = ~(error <= limit + ROUNDINGS * rounding(position))
        else:
            bad = ~(error <= self.atol + self.rtol * np.abs(expected))
        if bad.any():
            raise self.wrong(np.where(np.isnan(error), np.inf, error), found, slope, position, path)

    def compare_small(
        self, found: Any, slope: Slope, position: int, at: Callable[[float], list[Any]],
        rounding: Callable[[int], float],
    ) -> None:  # fmt: skip
        """Finds wrong entries that are small relative to the largest one, where rounding elsewhere
        in f may dominate: only entries whose differences with several steps agree are judged.
        """
        expected = np.abs(slope.value)
        error = np.abs(found - slope.value)
        bad = (expected > 0) & (error > max(ROUGH, self.rtol) * expected)
        if bad.any():
            spread = spreads(at, self.eps, slope.value, position)
            bad &= (spread <= ROUGH * expected) & (error > 10 * spread)
            if bad.any():
                bad &= error > ROUNDINGS * rounding(position)
            if bad.any():
                raise self.wrong(np.where(bad, error, 0.0), found, slope, position, ("fwd",))

    def wrong(
        self, error: Any, found: Any, slope: Slope, position: int, path: tuple[str, ...]
    ) -> GradientCheckError:
        """The exception for the worst entry of an output."""
        place = tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))
        return self.failure(
            path,
            f"output {position}{list(place) if place else ''} has the tangent "
            f"{found[place]:.9g}, but {slope.value[place]:.9g} by central differences: an error "
            f"of {abs(found[place] - slope.value[place]):.3g}",
        )

    def failure(self, path: tuple[str, ...], text: str) -> GradientCheckError:
        mode = {"fwd": "Forward mode (jvp)", "rev": "Reverse mode (vjp)"}[path[-1]]
        verbs = {"fwd": "jvp", "rev": "vjp"}
        inner = "".join(f" of the {verbs[mode]}" for mode in reversed(path[:-1]))
        return GradientCheckError(
            f"{mode}{inner} of {self.what}, order {len(path)}, with respect to "
            f"{', '.join(self.names)}: {text} (atol={self.atol}, rtol={self.rtol:g}, "
            f"eps={self.eps:g})."
        )


def _scaled(x: Any, direction: Any) -> Any:
    """A direction times each number's size, or for 0 times the root mean square of all."""
    sizes = np.abs(x)
    usual = float(np.sqrt(np.mean(np.square(_double(sizes).real)))) if np.size(x) else 1.0
    return _kind_of(direction, np.where(sizes == 0, usual or 1.0, sizes) * direction)


def _kind_of(x: Any, moved: Any) -> Any:
    """The moved value in the dtype of x, or a Python number if x is one."""
    return np.asarray(moved, x.dtype)[()] if hasattr(x, "dtype") else moved


def _double(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _inner(xs: Sequence[Any], ys: Sequence[Any]) -> tuple[float, float]:
    """The real part of the bilinear product of two lists of arrays, and the size of its terms."""
    total = size = 0.0
    for x, y in zip(xs, ys, strict=True):
        terms = _double(x) * _double(y)
        total += float(np.sum(terms).real)
        size += float(np.sum(np.abs(terms)))
    return total, size
