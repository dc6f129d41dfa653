"""The interface for extensions: the families of primitives, and the types for their rules.

A declared primitive is a function that every transform understands:

>>> import fungrad as fg
>>> cube = elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3 * x**2])
>>> float(fg.grad(fg.grad(cube))(2.0))
12.0
"""

from collections.abc import Callable
from typing import Any

from fungrad.control_flow.call import structural as structural
from fungrad.ir.types import Type as Type
from fungrad.primitives.contraction.dot_general import multilinear as multilinear
from fungrad.primitives.elementwise.family import Masked as Masked
from fungrad.primitives.elementwise.family import Over as Over
from fungrad.primitives.elementwise.family import elementwise as elementwise
from fungrad.primitives.facts import ScalarForm as ScalarForm
from fungrad.primitives.primitive import Primitive as Primitive
from fungrad.primitives.primitive import general as general
from fungrad.primitives.primitive import linear as linear
from fungrad.tracing.trace import Trace as Trace
from fungrad.tracing.trace import Tracer as Tracer
from fungrad.tracing.trace import current
from fungrad.tracing.trace import typeof as typeof

current_trace = current
jax_rules: dict[Primitive, Callable[..., Any]] = {}
"""By primitive: the equivalent function of jax.numpy (see `jax_rule`)."""


def jax_rule(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Sets the function that computes a primitive in `fg.to_jax`.

    Args:
      primitive: declared with this module.
      function: `function(*arrays, **params)`, of arrays and functions of jax.numpy. Its result is
        cast to the type of the primitive's type rule; a tuple for several outputs.

    >>> triple = elementwise("triple", lambda x: 3.0 * x, partials=[3.0])
    >>> jax_rule(triple, lambda x: 3.0 * x)
    """
    jax_rules[primitive] = function
