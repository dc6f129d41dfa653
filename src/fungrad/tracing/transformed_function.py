"""Calls of public functions; transformed functions, and how they are pickled: as the verb, the
function and the options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from fungrad.support.forks import cached_property
from fungrad.support.lazy import modules
from fungrad.tracing.numpy_warnings import set_settings, settings
from fungrad.tracing.opaque_mode import opaque
from fungrad.tracing.source_location import (
    begin_reporting,
    end_reporting,
    reporting,
    shortened,
)
from fungrad.tracing.trace import EVAL, current

F = TypeVar("F", bound=Callable[..., Any])


def boundary(f: F) -> F:
    """Wraps a public function so that errors leave it without fungrad's own frames, and NumPy's
    warnings come from the user's line.
    """

    @functools.wraps(f)
    def public(*args: Any, **kwargs: Any) -> Any:
        before = settings()
        found = reporting.get(before)
        if found is None or current() is not EVAL:
            before, found = begin_reporting()
        try:
            set_settings(found)
            if opaque.attempt is not None:
                return opaque.attempt(f, args, kwargs)
            return f(*args, **kwargs)
        except Exception as error:
            raise shortened(error)  # noqa: B904 - the same error, without our frames
        finally:
            try:
                if settings() is found:
                    set_settings(before)
                else:  # the function has changed them
                    end_reporting((before, found))
            except BaseException:  # an interrupt has cut it short
                if settings() is found:
                    set_settings(before)
                raise

    return cast(F, public)


class OfFunction:
    """A function derived from a function, and pickled as the arguments that made it: its `_recipe`.

    Caches, locks and traces are not pickled. A decorated function of a module is pickled by its
    name, as a plain one is; cloudpickle takes the recipe where it takes a plain function by value.
    """

    __name__: str
    __qualname__: str

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self._dress(f)

    def _dress(self, f: Callable[..., Any]) -> None:
        """Takes over name, documentation, signature and public attributes of a function."""
        functools.update_wrapper(cast(Any, self), f, updated=())
        attributes = getattr(f, "__dict__", {}).copy()  # in one call: support.snapshots
        vars(self).update(
            (k, v) for k, v in attributes.items() if k[0] != "_" and not hasattr(type(self), k)
        )

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is the first argument."""
        return self if instance is None else MethodType(self, instance)  # type: ignore[arg-type]

    def _recipe(self) -> tuple[Any, ...]:
        """The arguments of `_remake` that make an equal function."""
        raise NotImplementedError

    def _remake(self, *recipe: Any) -> None:
        """Initialises this object from a recipe: by default the arguments of its class."""
        self.__init__(*recipe)  # type: ignore[misc]

    def __reduce__(self) -> tuple[Any, ...]:
        state: Any = self._recipe()
        if getattr(_found(self), "__dict__", None) is self.__dict__:
            self._holder.recipe = state
            state = self._holder
        return _blank, (type(self),), state

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, FunctionType):
            self._remake(*state)
        elif state.owner is self:  # type: ignore[attr-defined]
            self._remake(*state.recipe)  # type: ignore[attr-defined]
        else:  # loaded by name: shares all attributes
            self.__dict__ = state.owner.__dict__  # type: ignore[attr-defined]

    @cached_property
    def _holder(self) -> Any:
        """A plain function under this one's name, which refers to it.

        Picklers decide only for plain functions whether to pickle by name or by value: of the main
        module pickle takes the name, cloudpickle the value.
        """
        holder: Any = FunctionType(_blank.__code__, {}, self.__name__)
        holder.__module__, holder.__qualname__ = self.__module__, f"{self.__qualname__}._holder"
        holder.owner = self
        return holder


def _blank(type_: Any) -> Any:
    """An empty object of a class, to be filled later: its recipe may contain the object itself."""
    return type_.__new__(type_)


def _found(made: OfFunction) -> Any:
    """The object that a function's module has under its name; None if there is none."""
    try:
        found: Any = modules[made.__module__]
        for name in made.__qualname__.split("."):
            found = getattr(found, name)
    except (AttributeError, KeyError):  # nothing of that name, or no name at all
        return None
    return found


class TransformedFunction(OfFunction):
    """The result of `verb(f, *args, **kwargs)`: a function that calls `run`."""

    def __init__(
        self,
        run: Callable[..., Any],
        verb: Callable[..., Any],
        f: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(f)
        self._run = run
        self._verb = verb
        self._options = args, kwargs

    @boundary
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __repr__(self) -> str:
        of = getattr(self, "__qualname__", None) or repr(self._f)
        return f"<{self._verb.__name__} of {of}>"

    def _recipe(self) -> tuple[Any, ...]:
        return self._verb, self._f, *self._options

    def _remake(self, *recipe: Any) -> None:
        verb, f, args, kwargs = recipe
        self.__dict__ = verb(f, *args, **kwargs).__dict__
