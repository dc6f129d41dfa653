"""Adaptations to numba, to pandas and to array_api_compat.

While numba compiles, all functions are the originals, since numba identifies them by identity. A
function that numba has compiled runs its Python source where a traced value is among its arguments.

pandas makes a Python float of each number beside a column; a traced number stays.

`array_namespace(x, y)` of array_api_compat, which SciPy and scikit-learn have copies of, finds
fungrad.numpy for a traced array and NumPy for a plain one, and raises for both together. Its
replacement accepts plain arrays and numbers beside traced ones, and returns fungrad.numpy. If SciPy
takes NumPy's namespace for all arrays, its `clip`, which writes by masks, is replaced by NumPy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from fungrad.tracing import interception
from fungrad.tracing.created_arrays import Written, holds_traced
from fungrad.tracing.trace import EVAL, Tracer, current


def _listen(event: ModuleType) -> Mapping[str, Any]:
    """Pauses interception between the events of numba's compiler lock; replaces nothing."""

    class Pause(event.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, _: Any) -> None:
            interception.pause()

        def on_end(self, _: Any) -> None:
            interception.resume()

    event.register("numba:compiler_lock", Pause())
    return {}


interception.register_later("numba.core.event", _listen)


def _by_source(module: ModuleType) -> Mapping[str, Any]:
    """Lets functions that numba compiled take traced values: they run their Python source."""
    kind = module.Dispatcher
    compiled = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is not EVAL and any(map(holds_traced, (*args, *kwargs.values()))):
            return self.py_func(*args, **kwargs)
        return compiled(self, *args, **kwargs)

    interception.register_special_method(kind, "__call__", call)
    return {}


interception.register_later("numba.core.dispatcher", _by_source)


def _kept_beside_columns(module: ModuleType) -> Mapping[str, Any]:
    original = module.maybe_prepare_scalar_for_op

    @functools.wraps(original)
    def maybe_prepare_scalar_for_op(obj: Any, *args: Any, **kwargs: Any) -> Any:
        return obj if type(obj) is Tracer else original(obj, *args, **kwargs)

    return {"maybe_prepare_scalar_for_op": maybe_prepare_scalar_for_op}


interception.register_later("pandas.core.ops", _kept_beside_columns)


HOMES = ("array_api_compat", "scipy._lib.array_api_compat", "sklearn.externals.array_api_compat")
"""array_api_compat and its copies."""
_BESIDE = (np.ndarray, np.generic, bool, int, float, complex, type(None))
"""The classes of values that are accepted beside traced arrays."""


def _replacing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def array_namespace(*xs: Any, **options: Any) -> Any:
        if current() is not EVAL:
            traced = [x for x in xs if type(x) is Tracer or type(x) is Written]
            kinds = [type(x) for x in xs if type(x) is not Tracer]
            if traced and all(issubclass(kind, _BESIDE) for kind in kinds):
                return traced[0].__array_namespace__()
        return original(*xs, **options)

    return array_namespace


def _replacements(module: ModuleType) -> Mapping[str, Any]:
    own = module.array_namespace
    ours = _replacing(own)
    return {name: ours for name in ("array_namespace", "get_namespace")
            if vars(module).get(name) is own}  # fmt: skip


def _clipping(module: ModuleType) -> Mapping[str, Any]:
    original = module.clip

    @functools.wraps(original)
    def clip(*args: Any, **kwargs: Any) -> Any:
        traced = current() is not EVAL and any(map(holds_traced, (*args, *kwargs.values())))
        return (np.clip if traced else original)(*args, **kwargs)

    return {"clip": clip}


for _home in HOMES:
    interception.register_later(f"{_home}.numpy", _clipping)
    interception.register_later(f"{_home}.common._helpers", _replacements)
