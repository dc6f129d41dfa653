"""debug.print and debug.callback, which look at values under every transform; and
debug.trap.

Eagerly and under `grad` they run once, in the forward pass; under `vmap` once for each example;
under `jit` whenever the compiled function runs. Knows `Host`; no pass drops them, since they are
effects.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from fungrad.control_flow.scan_reverse import muted
from fungrad.custom_rules.closures_and_arguments import Arguments
from fungrad.debugging.nan_trap import trap
from fungrad.host.host_function import Host
from fungrad.primitives.primitive import Primitive


def _eval(*args: Any, host: Host) -> tuple[Any, ...]:
    if not muted.get():
        host.run(args)
    return ()


debug_callback: Primitive = Primitive(
    "debug_callback",
    eval=_eval,
    type=lambda *types, host: (),
    batch=lambda args, batched, size, *, host: debug_callback(
        *args, host=host.batched(batched, size)
    ),
    cuts=True,
    multiple=True,
    effect=True,
)
"""`debug_callback(*args, host=)`: runs a Python function for what it does; has no result."""


def callback(f: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Calls a Python function with the values of traced arguments.

    Args:
      f: a function of arrays; what it returns is dropped.
      *args: trees of arrays, and of anything else, which is passed as it is.
      ordered: accepted as in JAX; the calls always happen in the order of the program.
      **kwargs: as args.

    >>> import fungrad as fg
    >>> seen = []
    >>> def f(x):
    ...     fg.debug.callback(lambda v: seen.append(float(v)), x)
    ...     return x * x
    >>> float(fg.grad(f)(3.0)), seen
    (6.0, [3.0])
    """

    def quiet(*values: Any, **named: Any) -> tuple[()]:
        f(*values, **named)
        return ()

    arguments = Arguments(f, args, kwargs)
    host = Host(quiet, arguments, ())
    debug_callback(*arguments.take(), host=host)


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Prints the values of traced arguments, formatted by `str.format`.

    Args:
      fmt: the format, as `"x = {}"` or `"loss {loss:.3f}"`.
      *args: trees of arrays and of anything else.
      ordered: accepted as in JAX; the lines always come in the order of the program.
      **kwargs: as args, by name.

    >>> import fungrad as fg
    >>> def f(x):
    ...     fg.debug.print("x is {}", x)
    ...     return x * x
    >>> float(fg.grad(fg.jit(f))(3.0))
    x is 3.0
    6.0
    """

    def show(*values: Any, **named: Any) -> None:
        builtins.print(fmt.format(*values, **named))

    callback(show, *args, ordered=ordered, **kwargs)


__all__: Sequence[str] = ["callback", "print", "trap"]
