"""Derivatives of opaque code from runs of it: the complex step, where differences along one
direction confirm it, else differences of fourth order, with a step chosen by an estimate of the
error.

A function here takes a list of arrays and returns one. Steps are relative to the size of each
argument. Two step lengths give two derivatives; their distance estimates the error, whether it is
of truncation (the step is too long) or of rounding (too short).

References: Press et al., Numerical Recipes 5.7; Squire and Trapp, SIAM Review 40 (1998) 110.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from fungrad.errors import GradientCheckError
from fungrad.support import forks

Arrays = list[Any]
Run = Callable[[Arrays], Arrays]
FACTOR = 4.0
"""The ratio of two step lengths that follow each other."""
LADDER = (2, 3, 4, -1, -2, -3, -4, 5, 6)
"""The further step lengths, as powers of 1 / FACTOR, that are tried where two do not agree."""
LEAST = 1e-2
"""The estimated relative error above which differences are no derivative."""
SMALL = 1e-4
"""The derivative with respect to the logarithm of the arguments, as a part of the results, below
which the error is taken as a part of the results, too: a derivative may be zero.
"""
IMAGINARY = 1e-20
"""The complex step: its square is below the last place of 1."""
_filters = forks.lock()
"""Held where the filters of warnings are changed: they are those of all threads."""


class Found:
    """A derivative, with the estimate of its relative error."""

    __slots__ = ("error", "step", "value")

    def __init__(self, value: ndarray, error: float, step: float) -> None:
        self.value = value
        self.error = error
        self.step = step


def digits(error: float) -> int:
    """The number of decimal digits that a relative error leaves."""
    return max(0, min(15, math.floor(-math.log10(max(error, 1e-15)))))


def _size(values: Any) -> float:
    finite = np.abs(values[np.isfinite(values)]) if len(values) else values
    return float(np.max(finite, initial=0.0))


def _scale(x: Any) -> ndarray:
    """For each element of an array a length over which a function of it varies little."""
    sizes = np.abs(np.asarray(x)).astype(float)
    typical = math.sqrt(float(np.mean(sizes**2))) if sizes.size else 0.0
    least = 1e-2 * typical if typical > 0 else 1.0
    found: ndarray = np.maximum(sizes, least)
    return found


class Differences:
    """The derivatives of a function at one point.

    Args:
      run: the function.
      at: its arguments; those of other dtypes than floats and complex numbers stay as they are.
      name: the name of the function, for messages.
      noise: the relative error of its results; at least that of rounding.
    """

    def __init__(self, run: Run, at: Sequence[Any], name: str, noise: float = 0.0) -> None:
        self._run = run
        self._at = [np.asarray(x) for x in at]
        self._name = name
        self.shapes: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        """Shape and dtype of each result."""
        self.error = 0.0
        """The largest estimated relative error so far."""
        kinds = [x.dtype for x in self._at if x.dtype.kind in "fc"]
        self._eps = max([float(np.finfo(d).eps) for d in kinds], default=2.3e-16)
        self._noise = max(self._eps, noise)
        self._real = all(d.kind == "f" for d in kinds)
        self._scales = [_scale(x) for x in self._at]
        self._center = self._flat(run(self._copies()), note=True)

    def _copies(self) -> Arrays:
        return [x.copy()[()] if x.ndim == 0 else x.copy() for x in self._at]

    def _flat(self, results: Arrays, note: bool = False) -> ndarray:
        arrays = [np.asarray(y) for y in results]
        if note:
            self.shapes = [(y.shape, y.dtype) for y in arrays]
        parts = [
            y.ravel()
            for y, (_, dtype) in zip(arrays, self.shapes, strict=True)
            if dtype.kind in "fc"
        ]
        found: ndarray = np.concatenate(parts) if parts else np.zeros(0)
        return found

    def _values(self, along: Arrays, step: complex) -> ndarray:
        moved = []
        for x, v in zip(self._at, along, strict=True):
            if v is None:
                moved.append(x.copy()[()] if x.ndim == 0 else x.copy())
                continue
            y = x + step * v
            keep = y if isinstance(step, complex) else y.astype(x.dtype)
            moved.append(keep[()] if x.ndim == 0 else keep)
        found = self._flat(self._run(moved))
        if found.shape != self._center.shape:
            raise GradientCheckError(
                f"The results of {self._name} change their shape with its arguments: it has no "
                "derivative by differences there."
            )
        return found

    def _fourth(self, along: Arrays, step: float) -> tuple[ndarray, ndarray]:
        """The differences of fourth and of second order along a direction."""
        with np.errstate(all="ignore"):
            near = (self._values(along, step) - self._values(along, -step)) / (2 * step)
            far = (self._values(along, 2 * step) - self._values(along, -2 * step)) / (4 * step)
            return near + (near - far) / 3, near

    def _ladder(self, along: Arrays) -> Found:
        """The derivative along a direction of relative length 1, by the step whose derivative is
        nearest to that of the next shorter one.

        Raises:
          GradientCheckError: if no two steps agree to two digits.
          Exception: that of the function, if it raises for each step.
        """
        first = FACTOR * self._noise**0.2
        enough = self._noise**0.55
        least = SMALL * _size(self._center)
        tried: dict[int, ndarray] = {}
        best: Found | None = None
        failed: Exception | None = None
        for k in (0, 1, *LADDER):
            step = first * FACTOR**-k
            try:
                tried[k] = self._fourth(along, step)[0]
            except GradientCheckError:
                raise
            except Exception as error:  # outside of the function's domain
                failed = error
                continue
            if not np.all(np.isfinite(tried[k]) | ~np.isfinite(self._center)):
                del tried[k]
                continue
            for long in (k - 1, k):
                if long in tried and long + 1 in tried:
                    size = max(_size(tried[long + 1]), least)
                    apart = _size(tried[long] - tried[long + 1])
                    error_ = apart / size if size else apart
                    if best is None or error_ < best.error:
                        best = Found(tried[long + 1], error_, first * FACTOR ** -(long + 1))
            if best is not None and best.error <= enough:
                return best
        if best is None and failed is not None:
            raise failed
        if best is None or best.error > LEAST:
            shown = "no finite value" if best is None else f"about {digits(best.error)} digits"
            raise GradientCheckError(
                f"Differences of {self._name} give no derivative: two step lengths agree to "
                f"{shown}. Its results have a kink or a jump there, or noise, as from a random "
                "generator or a tolerance of an iteration that is too large."
            )
        return best

    def _imaginary(self, along: Arrays) -> ndarray | None:
        """The complex step; None where the function takes no complex numbers."""
        if not self._real or any(dtype.kind == "c" for _, dtype in self.shapes):
            return None
        try:
            with _filters, np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                found = self._values(along, IMAGINARY * 1j)
        except Exception:  # whatever code for real numbers says to complex ones
            return None
        return np.imag(found) / IMAGINARY if found.dtype.kind == "c" else None

    def _confirmed(self, along: Arrays, found: Found) -> ndarray | None:
        """The complex step along a direction, if differences confirm it."""
        exact = self._imaginary(along)
        if exact is None:
            return None
        apart = _size(exact - found.value)
        allowed = (10 * found.error + 1e-7) * _size(found.value)
        return exact if np.all(np.isfinite(exact)) and apart <= allowed else None

    def _note(self, error: float) -> None:
        self.error = max(self.error, error)

    def derivative(self, along: Sequence[Any]) -> list[Any]:
        """The derivative along a direction, for each result; None for integers.

        Args:
          along: for each argument an array of its shape, or None.
        """
        given = [None if v is None else np.asarray(v) for v in along]
        length = 0.0
        for v, scale in zip(given, self._scales, strict=True):
            if v is not None and v.size:
                length = max(length, float(np.max(np.abs(v) / scale)))
        if length == 0.0:
            return self.parts(np.zeros_like(self._center))
        unit: Arrays = [None if v is None else v / length for v in given]
        found = self._ladder(unit)
        exact = self._confirmed(unit, found)
        self._note(found.error if exact is None else self._eps)
        self._run(self._copies())  # code that keeps its last results keeps those of this point
        return self.parts((found.value if exact is None else exact) * length)

    def parts(self, flat: ndarray) -> list[Any]:
        """A vector of all results as one array for each; None for integers."""
        found: list[Any] = []
        start = 0
        for shape, dtype in self.shapes:
            if dtype.kind not in "fc":
                found.append(None)
                continue
            size = math.prod(shape)
            part = flat[start : start + size].reshape(shape)
            found.append((part.real if dtype.kind == "f" else part).astype(dtype))
            start += size
        return found

    def _unit(self, argument: int, element: int, turn: complex = 1.0) -> tuple[Arrays, float]:
        """The direction of one element, of relative length 1, and its length."""
        x, length = self._at[argument], float(self._scales[argument].ravel()[element])
        unit = np.zeros(x.size, complex if turn != 1.0 else float)
        unit[element] = length * turn
        along: Arrays = [None] * len(self._at)
        along[argument] = unit.reshape(x.shape)
        return along, length

    def jacobian(self, arguments: Sequence[int]) -> list[ndarray]:
        """For each of some arguments the matrix (all results as one vector, elements of the
        argument). A complex argument has twice the columns: by real parts, then by imaginary ones.
        """
        random = np.random.default_rng(0)
        probe: Arrays = [None] * len(self._at)
        for i in arguments:
            signs = random.choice([-1.0, 1.0], size=self._at[i].shape)
            probe[i] = signs * self._scales[i]
        if not any(v is not None and v.size for v in probe):
            return [np.zeros((len(self._center), self._at[i].size)) for i in arguments]
        found = self._ladder(probe)
        exact = self._confirmed(probe, found) is not None
        self._note(self._eps if exact else found.error)
        columns: dict[int, list[ndarray]] = {i: [] for i in arguments}
        for i in arguments:
            turns = (1.0, 1j) if self._at[i].dtype.kind == "c" else (1.0,)
            for turn in turns:
                for element in range(self._at[i].size):
                    along, length = self._unit(i, element, turn)
                    column = self._column(along, found.step, exact, _size(found.value))
                    columns[i].append(column / length)
        self._run(self._copies())
        empty = np.zeros((len(self._center), 0))
        return [np.stack(columns[i], 1) if columns[i] else empty for i in arguments]

    def _column(self, along: Arrays, step: float, exact: bool, size: float) -> ndarray:
        if exact:
            found = self._imaginary(along)
            if found is not None and np.all(np.isfinite(found)):
                return found
        try:
            fourth, second = self._fourth(along, step)
        except GradientCheckError:
            raise
        except Exception:  # outside of the function's domain
            best = self._ladder(along)
        else:
            known = np.isfinite(fourth) | ~np.isfinite(self._center)
            if np.all(known) and _size(fourth - second) <= 1e-4 * max(_size(fourth), 1e-3 * size):
                return fourth
            best = self._ladder_or_small(along, size)
        self._note(best.error)
        return best.value

    def _ladder_or_small(self, along: Arrays, size: float) -> Found:
        """As `_ladder`; a column that is small beside the others needs fewer digits."""
        try:
            return self._ladder(along)
        except GradientCheckError:
            fourth, second = self._fourth(along, FACTOR * self._noise**0.2)
            error = _size(fourth - second) / size if size else 0.0
            if np.all(np.isfinite(fourth)) and error < 1e-6:
                return Found(fourth, error, 0.0)
            raise
