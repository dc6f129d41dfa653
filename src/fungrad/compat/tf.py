"""TensorFlow's interface: `stop_gradient(input, name=None)`, and building a graph by hand.

In the graph-building form a `Scope` belongs to a graph under construction;
`StopGradient.create(scope, input)` adds the operation under the scope's name and returns it; its
`output()` is an input of the next operation. The finished Graph is fungrad's own: it prints,
checks, pickles, evaluates and differentiates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.ir.graph import Equation, Graph
from fungrad.ir.types import Type
from fungrad.ir.verifier import check_graph
from fungrad.primitives.stop_gradient import stop_gradient as _stop_gradient
from fungrad.tracing.graph_trace import GraphTrace
from fungrad.tracing.provenance import named_scope
from fungrad.tracing.trace import EVAL, Tracer


def stop_gradient(input: Any, name: str | None = None) -> Any:
    """`tf.stop_gradient`: returns a tree unchanged, a constant to every derivative.

    >>> import fungrad as fg
    >>> float(fg.grad(lambda x: x * stop_gradient(x, name="target"))(3.0))
    3.0
    """
    return _stop_gradient(input, name)


class Scope:
    """A place in a graph under construction, with a name that new operations carry.

    >>> import numpy as np
    >>> scope = Scope()
    >>> x = scope.placeholder("x", (3,), np.float64)
    >>> stopped = StopGradient.create(scope.child("target"), x)
    >>> y = scope.apply(np.multiply, x, stopped.output())
    >>> print(scope.graph(y))
    { lambda a:f64[3]. let
        b:f64[3] = stop_gradient[name=target/StopGradient] a    # in target
        c:f64[3] = mul a b
      in (c,) }
    """

    def __init__(self, _trace: GraphTrace | None = None, _name: str = "") -> None:
        self._trace = _trace or GraphTrace(EVAL, lambda: "a graph built by hand")
        self.name = _name

    def child(self, name: str) -> Scope:
        """A scope below this one (TensorFlow's withSubScope)."""
        return Scope(self._trace, f"{self.name}/{name}" if self.name else name)

    def placeholder(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Tracer:
        """Adds an input to the graph; returns the handle of its value."""
        return self._trace.input(Type(tuple(shape), dtype), name)

    def apply(self, f: Callable[..., Any], *inputs: Any) -> Any:
        """Adds the operations of a function of handles; returns the handles of its output."""

        def scoped() -> Any:
            if not self.name:
                return f(*inputs)
            with named_scope(self.name):
                return f(*inputs)

        return self._trace.run(scoped)

    def graph(self, *outputs: Any) -> Graph:
        """The finished, checked Graph with the given handles as outputs."""
        return check_graph(self._trace.graph(outputs))

    def last(self) -> Equation:
        """The last operation added."""
        return self._trace.equations[-1]


class StopGradient:
    """The operation StopGradient, as a node of a graph under construction (TensorFlow's Java
    form).
    """

    def __init__(self, operation: Equation, output: Tracer) -> None:
        self.op = operation
        self._output = output

    @classmethod
    def create(cls, scope: Scope, input: Any) -> StopGradient:
        """Adds the operation under the scope and returns it.

        Raises:
          ArgumentError: if the input is not a handle of a floating or complex value of this graph.
        """
        if not isinstance(input, Tracer) or not input.type.inexact:
            raise ArgumentError(
                f"StopGradient.create takes a handle of a floating value, not {input!r}."
            )
        output = scope.apply(lambda x: _stop_gradient(x, cls.__name__), input)
        return cls(scope.last(), output)

    def output(self) -> Tracer:
        """The handle of the output, an input for further operations."""
        return self._output

    as_output = output


__all__: Sequence[str] = ["Scope", "StopGradient", "stop_gradient"]
