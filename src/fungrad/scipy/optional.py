"""SciPy, imported at first use, and refusals common to the rules of its functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from fungrad.errors import MissingExtraError, MissingRuleError
from fungrad.primitives.elementwise.family import Partial, elementwise
from fungrad.primitives.primitive import Later, Primitive
from fungrad.support.lazy import find_spec, imported
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import EVAL, current, typeof

F = TypeVar("F", bound=Callable[..., Any])


def scipy_module(name: str) -> Any:
    """A module of SciPy.

    Raises:
      MissingExtraError: if SciPy is not installed.
    """
    try:
        return imported(name)
    except ImportError as error:
        raise MissingExtraError(
            f"fungrad.{name} needs SciPy ({error}). Install it with pip install 'fungrad[scipy]', "
            "or pip install scipy."
        ) from error


def rest_of_scipy(into: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module, whose other names are those of SciPy's module.

    Args:
      into: the module's globals; it is named as SciPy's, below `fungrad`.
    """
    name = into["__name__"]
    original = name.removeprefix("fungrad.")

    def find(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return getattr(scipy_module(original), attribute)

    def names() -> list[str]:
        return sorted({*into, *dir(scipy_module(original))})

    return find, names


def stands_for(module: str) -> Callable[[F], F]:
    """Makes a function that of traced values; outside of transforms SciPy's of its name is called.

    Args:
      module: the module of SciPy that has the function.
    """

    def of_traced(function: F) -> F:
        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            if current() is EVAL:
                return getattr(scipy_module(module), function.__name__)(*args, **kwargs)
            return function(*args, **kwargs)

        return cast(F, public)

    return of_traced


def scipy_before(version: str) -> bool:
    """Whether the installed SciPy is older than a version, where its results changed."""
    return bool(np.lib.NumpyVersion(scipy_module("scipy").__version__) < version)


class _Special:
    """scipy.special with its plain ufuncs, even if SCIPY_ARRAY_API=1 wraps them."""

    def __getattr__(self, name: str) -> Any:
        ufunc = getattr(scipy_module("scipy.special._ufuncs"), name, None)
        return ufunc if isinstance(ufunc, np.ufunc) else getattr(scipy_module(_SPECIAL), name)


class _Later:
    """scipy.special with each ufunc imported when it is applied to arrays."""

    def __getattr__(self, name: str) -> Later:
        later = Later(name, lambda: getattr(_Special(), name))
        vars(self)[name] = later
        return later


_SPECIAL = "scipy.special"


def scipy_special(later: bool = False) -> Any:
    """The functions of scipy.special, whose ufuncs take traced values.

    SciPy is imported at the first access, or with `later` when a ufunc is applied to arrays.

    Raises:
      MissingExtraError: if SciPy is not installed.
    """
    if find_spec("scipy") is None:
        scipy_module(_SPECIAL)
    return _Later() if later else _Special()


def special(
    name: str, *partials: Partial | str, functions: Any = None, **options: Any
) -> Primitive:
    """Declares a ufunc of scipy.special by its partials, one for each argument; a string is the
    name of an argument without a known derivative. `options` are those of `elementwise`;
    `functions` is scipy.special with another time of import.
    """
    rules = [unknown(name, p) if isinstance(p, str) else p for p in partials]
    ufunc = getattr(functions or scipy_special(), name)
    return elementwise(name, ufunc, partials=rules, **options)


def unknown(function: str, argument: str) -> Callable[..., Any]:
    """The partial of an argument without a known derivative: it raises."""

    def partial(*values: Any) -> Any:
        raise MissingRuleError(
            f"scipy.special.{function} was differentiated with respect to its {argument}"
            f"{user_line()}, for which fungrad has no formula. Pass "
            f"fg.stop_gradient({argument}) to hold it constant, or wrap the function by "
            "fg.external, which takes finite differences."
        )

    return partial


def real(function: str, x: Any) -> Any:
    """x, checked to be real.

    Raises:
      MissingRuleError: if it is complex.
    """
    if typeof(x).dtype.kind == "c":
        raise MissingRuleError(
            f"scipy.special.{function} was differentiated at complex numbers{user_line()}, for "
            "which fungrad has no rule. Give it real numbers."
        )
    return x
