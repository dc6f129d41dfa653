"""Replacements of functions of scipy.fft and scipy.fftpack while a transform traces.

Fourier transforms are those of NumPy. Cosine and sine transforms, and the real transforms of
fftpack, are products with a matrix, whose columns are SciPy's own transforms of unit vectors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from fungrad.numpy.protocol.implements import as_array
from fungrad.tracing import interception
from fungrad.tracing.created_arrays import holds_traced
from fungrad.tracing.trace import EVAL, current

FOURIER = "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
"""The names of transforms that NumPy has, too."""
ALONG_AN_AXIS = {"scipy.fft": "dct idct dst idst", "scipy.fftpack": "dct idct dst idst rfft irfft"}
"""Linear transforms along an axis."""
ALONG_AXES = {"dctn": "dct", "idctn": "idct", "dstn": "dst", "idstn": "idst"}
"""Transforms along several axes, by the transform along one."""
PERIODIC = "diff hilbert ihilbert tilbert itilbert shift"
"""Functions of fftpack that transform one period of a sequence."""
_LENGTHS = "n", "s", "shape"
_AXES = "axis", "axes"


def _arguments(original: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    bound = inspect.signature(original).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _one(found: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((found[name] for name in names if name in found), None)


def _fourier(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    def ours(*args: Any, **kwargs: Any) -> Any:
        found = _arguments(original, args, kwargs)
        lengths, axes = _one(found, _LENGTHS), _one(found, _AXES)
        return getattr(np.fft, name)(as_array(found["x"]), lengths, axes, found.get("norm"))

    return ours


def _along(original: Callable[..., Any]) -> Callable[..., Any]:
    def ours(*args: Any, **kwargs: Any) -> Any:
        found = _arguments(original, args, kwargs)
        axis = found["axis"]
        x = np.moveaxis(as_array(found["x"]), axis, -1)
        unit = np.eye(x.shape[-1], dtype=x.real.dtype)
        matrix = EVAL.run(lambda: original(**{**found, "x": unit, "axis": 0}))
        return np.moveaxis(x @ matrix.T, -1, axis)

    return ours


def _along_axes(original: Callable[..., Any], one: Callable[..., Any]) -> Callable[..., Any]:
    taken = inspect.signature(one).parameters

    def ours(*args: Any, **kwargs: Any) -> Any:
        found = _arguments(original, args, kwargs)
        x, axes, lengths = as_array(found["x"]), found["axes"], _one(found, _LENGTHS)
        if lengths is not None and np.ndim(lengths) == 0:
            lengths = (lengths,)
        if axes is None:
            axes = range(x.ndim) if lengths is None else range(x.ndim - len(lengths), x.ndim)
        axes = [axes] if np.ndim(axes) == 0 else list(axes)
        given = {k: v for k, v in found.items() if k in taken and k not in ("x", "axis")}
        for axis, n in zip(axes, lengths or [None] * len(axes), strict=True):
            x = one(x, **{**given, "axis": axis, "n": n})
        return x

    return ours


def _periodic(original: Callable[..., Any]) -> Callable[..., Any]:
    def ours(x: Any, *args: Any, **kwargs: Any) -> Any:
        x = as_array(x)
        units = np.eye(x.shape[0])
        rows = EVAL.run(lambda: [original(unit, *args, **kwargs) for unit in units])
        return x @ np.stack(rows)

    return ours


def _replacing(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and (args or kwargs):
            if holds_traced(args[0] if args else kwargs.get("x")):
                return ours(*args, **kwargs)
        return original(*args, **kwargs)

    return function


def _replacements(home: str) -> Callable[[ModuleType], Mapping[str, Any]]:
    def make(module: ModuleType) -> dict[str, Any]:
        names = vars(module)
        along = {name: _along(names[name]) for name in ALONG_AN_AXIS[home].split()}
        ours = {name: _fourier(names[name], name) for name in FOURIER if name in names} | along
        for name, one in ALONG_AXES.items():
            both = _replacing(names[one], along[one])
            ours[name] = _along_axes(names[name], both)
        for name in PERIODIC.split() if home == "scipy.fftpack" else ():
            ours[name] = _periodic(names[name])
        return {name: _replacing(names[name], function) for name, function in ours.items()}

    return make


for _home in ALONG_AN_AXIS:
    interception.register_later(_home, _replacements(_home))
