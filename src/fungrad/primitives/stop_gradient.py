"""stop_gradient: the primitives, the function over trees, the block and the decorator.

The value passes unchanged; every derivative of order >= `order` is zero, in both modes. No other
file has a special case for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.primitives.primitive import Primitive
from fungrad.support import pytree
from fungrad.tracing.captured_arrays import own
from fungrad.tracing.provenance import named_scope
from fungrad.tracing.trace import Trace, Tracer, current, enter, leave, registry
from fungrad.tracing.transformed_function import TransformedFunction

F = TypeVar("F", bound=Callable[..., Any])

stop: Primitive = Primitive(
    "stop_gradient",
    order=lambda equation, given: given[0],
    cost=0,
    eval=lambda x, *, name: own(x),
    type=lambda x, *, name: x,
    batch=lambda args, batched, size, *, name: stop(args[0], name=name),
    cuts=True,
    scalar="{0}",
)
"""Identity on the value; zero derivative of every order. A differentiating trace records nothing
for it.
"""


def _below(x: Any, name: str | None, order: int) -> Any:
    """The value for the outer transforms, if derivatives of order >= `order` are stopped.

    The current transform differentiates once, so that one order less is left for them.
    """
    return stop(x, name=name) if order == 2 else stop_order(x, name=name, order=order - 1)


stop_order: Primitive = Primitive(
    "stop_gradient_order",
    cost=0,
    eval=lambda x, *, name, order: own(x),
    type=lambda x, *, name, order: x,
    jvp=lambda primals, tangents, *, name, order: (_below(primals[0], name, order), tangents[0]),
    vjp=lambda ct, output, args, wanted, *, name, order: [ct],
    forward=lambda args, wanted, *, name, order: (_below(args[0], name, order), None, args),
    batch=lambda args, batched, size, *, name, order: stop_order(args[0], name=name, order=order),
)
"""Identity on the value and on derivatives of order < `order` (at least 2); zero from there on."""


def _apply(x: Any, name: str | None, order: int) -> Any:
    return stop(x, name=name) if order == 1 else stop_order(x, name=name, order=order)


def _check_order(order: int) -> None:
    if type(order) is not int or order < 1:
        raise ArgumentError(
            f"stop_gradient(order=...) takes an integer of at least 1, not {order!r}."
        )


def stop_gradient(tree: Any, name: str | None = None, *, order: int = 1) -> Any:
    """Returns a tree unchanged, while derivatives treat it as a constant.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda x: x * fg.stop_gradient(x))(3.0))
    3.0

    Args:
      tree: an array or number, or a tree of them; integers, booleans, strings and None pass
        through.
      name: a label, shown in the IR.
      order: stops only derivatives of this order and above; `order=2` keeps the gradient and stops
        the Hessian of values computed from the result (see docs/sharp-bits.md).

    Returns:
      The same tree, of the same values and dtypes. While a transform runs, its arrays are the
      caller's own: small ones are copies, large ones are read-only views (nothing is copied).

    Raises:
      ArgumentError: if `order` is not an integer of at least 1.
    """
    _check_order(order)

    def leaf(x: Any) -> Any:
        if type(x) is np.ndarray and x.dtype.char == "O":
            x = registry.operand(x)
        if type(x) is not Tracer or x.dtype.kind not in "fc":
            return x
        return _apply(x, name, order)

    return pytree.map(leaf, tree)


class NoGradientTrace(Trace):
    """Stops every value that enters a block, and so all values computed in it."""

    __slots__ = ("entered", "made", "name", "order")
    block = True

    def __init__(self, parent: Trace, name: str | None, order: int) -> None:
        super().__init__(parent, lambda: f"the block no_gradient({name!r})")
        self.name = name
        self.order = order
        self.entered: dict[int, tuple[Tracer, Any]] = {}
        self.made: dict[int, weakref.ref[Tracer]] = {}

    def process(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        parent: Trace = self.parent  # type: ignore[assignment]
        values = [self._stopped(arg) if type(arg) is Tracer else arg for arg in args]
        output = parent.process(primitive, values, params)
        for value in output if primitive.multiple else (output,):
            if type(value) is Tracer:
                self.made[id(value)] = weakref.ref(value)
        return output

    def _stopped(self, value: Tracer) -> Any:
        made = self.made.get(id(value))
        if (made is not None and made() is value) or value.dtype.kind not in "fc":
            return value
        if id(value) not in self.entered:
            parent: Trace = self.parent  # type: ignore[assignment]
            self.entered[id(value)] = (value, parent.run(_apply, value, self.name, self.order))
        return self.entered[id(value)][1]


# Not on the block itself: one block may be entered in many threads, and again inside itself.
_open: ContextVar[tuple[tuple[Token[Trace], Any], ...]] = ContextVar("fungrad_open", default=())


class no_gradient:
    """A block, or a decorator of a function, whose results derivatives treat as constants.

    In a block, values *computed* inside are stopped; all results of a decorated function are
    stopped. The block is also a named scope of the IR.

    Args:
      name: a label, shown in the IR.
      order: as in `stop_gradient`.

    >>> import numpy as np, fungrad as fg
    >>> def f(x):
    ...     with fg.no_gradient("weights"):
    ...         weight = np.exp(x)
    ...     return weight * x
    >>> bool(fg.grad(f)(1.0) == np.exp(1.0))
    True
    """

    if not TYPE_CHECKING:  # type checkers accept a decorator without arguments, too

        def __new__(cls, name: Any = None, *, order: int = 1) -> Any:
            block = super().__new__(cls)
            if not callable(name):
                return block
            block.__init__(order=order)
            return block(name)

    def __init__(self, name: str | None = None, *, order: int = 1) -> None:
        _check_order(order)
        self.name = name
        self.order = order

    def __enter__(self) -> None:
        scope = named_scope(self.name or "no_gradient")
        scope.__enter__()
        token = enter(NoGradientTrace(current(), self.name, self.order))
        _open.set((*_open.get(), (token, scope)))

    def __exit__(self, *exc: Any) -> None:
        *outer, (token, scope) = _open.get()
        _open.set(tuple(outer))
        leave(token)
        scope.__exit__(None, None, None)

    def __call__(self, f: F) -> F:
        return _decorated(f, self.name, self.order)  # type: ignore[return-value]


def _decorated(f: Callable[..., Any], name: str | None, order: int) -> TransformedFunction:
    """A function whose results are stopped."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with no_gradient(name, order=order):
            result = f(*args, **kwargs)
        return stop_gradient(result, name, order=order)

    return TransformedFunction(run, _decorated, f, name, order)
