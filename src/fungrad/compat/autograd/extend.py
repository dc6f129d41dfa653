"""Autograd's `primitive`, and the functions that define its rules: defvjp, defjvp."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fungrad.compat.autograd.boxes import Box as Box
from fungrad.compat.autograd.boxes import notrace_primitive as notrace_primitive
from fungrad.compat.autograd.functions import Function, RecordedCall, missing_rule
from fungrad.compat.autograd.vspaces import VSpace as VSpace
from fungrad.compat.autograd.vspaces import vspace as vspace
from fungrad.primitives.primitive import or_zero
from fungrad.support import pytree
from fungrad.tracing.trace import typeof


def primitive(f: Callable[..., Any]) -> Function:
    """Makes a function opaque to transforms; rules define its derivative.

    Args:
      f: a function from arrays, or trees of them, to the same. It is called with plain arrays.

    Returns:
      The function, for which `defvjp` and `defjvp` define rules. Keyword arguments have no
      derivative.

    >>> import numpy as np
    >>> from fungrad.compat.autograd import grad
    >>> @primitive
    ... def log1p_exp(x):
    ...     return np.log1p(np.exp(x))
    >>> defvjp(log1p_exp, lambda ans, x: lambda g: g / (1.0 + np.exp(-x)))
    >>> float(grad(log1p_exp)(0.0))
    0.5
    """
    return f if isinstance(f, Function) else Function(f)


def _owned(f: Any) -> Function | None:
    """The primitive f; None, with a warning, if fungrad has its own rule for f."""
    if isinstance(f, Function):
        return f
    warnings.warn(
        f"A rule was given for {getattr(f, '__name__', f)}, which fungrad differentiates itself: "
        "its own rule stays. Make your own function by primitive(f), and give it the rule.",
        stacklevel=3,
    )
    return None


def defvjp(f: Any, *vjpmakers: Any, argnums: Sequence[int] | None = None) -> None:
    """Defines the reverse rules of a primitive, one for each argument.

    Args:
      f: the result of `primitive`. For a function that fungrad differentiates itself its own rule
        stays, with a warning.
      *vjpmakers: `vjpmaker(ans, *args, **kwargs)` returns the function from the cotangent of the
        output to that of the argument; None means a derivative of zero.
      argnums: the positions of the arguments; by default 0, 1, ...
    """
    function = _owned(f)
    if function is None:
        return
    makers = dict(zip(count() if argnums is None else argnums, vjpmakers, strict=False))

    def vjps(positions: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Callable[..., Any]:
        missing = [i for i in positions if i not in makers]
        if missing:
            raise missing_rule(RecordedCall(function, None, (), kwargs), "VJP", missing)
        pullbacks = [
            None if maker is None else maker(ans, *args, **kwargs)
            for maker in map(makers.__getitem__, positions)
        ]
        return lambda g: [None if pull is None else pull(g) for pull in pullbacks]

    function.vjps = vjps


def defvjp_argnum(f: Any, vjpmaker: Callable[..., Any]) -> None:
    """Defines one reverse rule of a primitive for all positions.

    Args:
      f: the result of `primitive`.
      vjpmaker: `vjpmaker(argnum, ans, args, kwargs)` returns the function from the cotangent of the
        output to that of the argument.
    """
    function = _owned(f)
    if function is not None:

        def vjps(positions: Sequence[int], ans: Any, args: Any, kwargs: Any) -> Callable[..., Any]:
            pullbacks = [vjpmaker(i, ans, args, kwargs) for i in positions]
            return lambda g: [pull(g) for pull in pullbacks]

        function.vjps = vjps


def defvjp_argnums(f: Any, vjpmaker: Callable[..., Any]) -> None:
    """Defines one reverse rule of a primitive for several positions at once.

    Args:
      f: the result of `primitive`.
      vjpmaker: `vjpmaker(argnums, ans, args, kwargs)` returns the function from the cotangent of
        the output to the sequence of those of the arguments.
    """
    function = _owned(f)
    if function is not None:
        function.vjps = lambda positions, ans, args, kwargs: vjpmaker(
            tuple(positions), ans, args, kwargs
        )


def _put(args: Sequence[Any], position: int, value: Any) -> list[Any]:
    return [value if i == position else arg for i, arg in enumerate(args)]


def _sum(terms: Sequence[Any], ans: Any) -> Any:
    """The sum of trees like the output; zeros if there are none."""
    total = None
    for term in terms:
        total = term if total is None else pytree.map(lambda x, y: x + y, total, term)
    return pytree.map(lambda x: or_zero(None, typeof(x)), ans) if total is None else total


def defjvp(f: Any, *jvpfuns: Any, argnums: Sequence[int] | None = None) -> None:
    """Defines the forward rules of a primitive, one for each argument.

    Args:
      f: the result of `primitive`.
      *jvpfuns: `jvpfun(tangent, ans, *args, **kwargs)` returns the tangent of the output; "same"
        says that f is linear in the argument, None that the derivative is zero.
      argnums: the positions of the arguments; by default 0, 1, ...
    """
    function = _owned(f)
    if function is None:
        return
    rules: dict[int, Any] = dict(
        zip(count() if argnums is None else argnums, jvpfuns, strict=False)
    )

    def jvps(
        positions: Sequence[int], tangents: Sequence[Any], ans: Any, args: Any, kwargs: Any
    ) -> Any:
        missing = [i for i in positions if i not in rules]
        if missing:
            raise missing_rule(RecordedCall(function, None, (), kwargs), "JVP", missing)
        terms = []
        for i, tangent in zip(positions, tangents, strict=True):
            rule = rules[i]
            if rule == "same":
                terms.append(function(*_put(args, i, tangent), **kwargs))
            elif rule is not None:
                terms.append(rule(tangent, ans, *args, **kwargs))
        return _sum(terms, ans)

    function.jvps = jvps


def defjvp_argnum(f: Any, jvpmaker: Callable[..., Any]) -> None:
    """Defines one forward rule of a primitive for all positions.

    Args:
      f: the result of `primitive`.
      jvpmaker: `jvpmaker(argnum, tangent, ans, args, kwargs)` returns the tangent of the output.
    """
    function = _owned(f)
    if function is not None:
        function.jvps = lambda positions, tangents, ans, args, kwargs: _sum(
            [jvpmaker(i, t, ans, args, kwargs) for i, t in zip(positions, tangents, strict=True)],
            ans,
        )


def defjvp_argnums(f: Any, jvpmaker: Callable[..., Any]) -> None:
    """Defines one forward rule of a primitive for several positions at once.

    Args:
      f: the result of `primitive`.
      jvpmaker: `jvpmaker(argnums, tangents, ans, args, kwargs)` returns the tangent of the output.
    """
    function = _owned(f)
    if function is not None:
        function.jvps = lambda positions, tangents, ans, args, kwargs: jvpmaker(
            tuple(positions), tangents, ans, args, kwargs
        )


def def_linear(f: Any) -> None:
    """Declares a primitive linear in each argument: its forward rule is itself."""
    function = _owned(f)
    if function is not None:
        defjvp_argnum(
            function,
            lambda i, tangent, ans, args, kwargs: function(*_put(args, i, tangent), **kwargs),
        )


__all__ = [
    "Box",
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
    "vspace",
]
