"""Conversions between functions of one argument, for autograd's operators, and of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.compat.autograd.boxes import boxed
from fungrad.support import pytree
from fungrad.transforms.arguments import leaf_type

Argnum = int | Sequence[int]


def subval(values: Sequence[Any], index: int, value: Any) -> tuple[Any, ...]:
    """The values with that at an index replaced."""
    return subvals(values, [(index, value)])


def subvals(values: Sequence[Any], pairs: Sequence[tuple[int, Any]]) -> tuple[Any, ...]:
    """The values with those of (index, value) pairs replaced."""
    new = list(values)
    for index, value in pairs:
        new[index] = value
    return tuple(new)


def floats(args: Sequence[Any], argnum: Argnum) -> list[Any]:
    """The arguments, with integers in the differentiated ones converted to floats."""
    new = list(args)
    for i in (argnum,) if isinstance(argnum, int) else argnum:
        new[i] = boxed(new[i])
        kind = type(new[i])
        if kind is np.ndarray or pytree.is_container(kind):
            new[i] = pytree.map(floating, new[i])
        else:
            new[i] = floating(new[i])
    return new


def floating(leaf: Any) -> Any:
    """A leaf with integers converted to floats."""
    type_ = leaf_type(leaf)
    if type_ is None or type_.dtype.kind not in "biu":
        return leaf
    return np.asarray(leaf, np.float64)[()] if type(leaf) is not np.ndarray else leaf.astype(float)


def chosen(args: Sequence[Any], argnum: Argnum) -> Any:
    """The argument at a position, or the tuple of those at several."""
    return args[argnum] if isinstance(argnum, int) else tuple([args[i] for i in argnum])


def unary_of(
    fun: Callable[..., Any], argnum: Argnum, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callable[[Any], Any], Any]:
    """fun as a function of the argument (or tuple of arguments) at argnum, and its value."""
    args = floats(args, argnum)

    def unary(x: Any) -> Any:
        if isinstance(argnum, int):
            return fun(*subval(args, argnum, x), **kwargs)
        return fun(*subvals(args, list(zip(argnum, x, strict=True))), **kwargs)

    return functools.update_wrapper(unary, fun, updated=()), chosen(args, argnum)


def unary_to_nary(unary_operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on functions of many arguments, from one on functions of one.

    Args:
      unary_operator: `unary_operator(f, x, *options)`, with a function f of one argument.

    Returns:
      `operator(fun, argnum=0, *options)`, which returns a function with fun's arguments. It calls
      the unary operator with the argument at `argnum`, or with the tuple of those at a sequence.

    >>> from fungrad.compat.autograd import grad
    >>> slope = unary_to_nary(lambda f, x: grad(f)(x))
    >>> float(slope(lambda x, y: x * y, 1)(2.0, 3.0))
    2.0
    """

    @functools.wraps(unary_operator)
    def operator(
        fun: Callable[..., Any], argnum: Argnum = 0, *options: Any, **named: Any
    ) -> Callable[..., Any]:
        @functools.wraps(fun, updated=())
        def nary(*args: Any, **kwargs: Any) -> Any:
            f, x = unary_of(fun, argnum, args, kwargs)
            return unary_operator(f, x, *options, **named)

        return nary

    return operator


__all__ = ["subval", "subvals", "unary_to_nary"]
