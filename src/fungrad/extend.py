"""The interface for extensions: the families of primitives, and the types for their rules.

A declared primitive is a function that every transform understands:

>>> import numpy as np, fungrad as fg
>>> cube = elementwise("cube", lambda x: x**3, partials=[lambda y, x: 3 * x**2])
>>> float(fg.grad(fg.grad(cube))(2.0))
12.0
"""

from collections.abc import Callable
from typing import Any

from fungrad.control_flow.call import structural
from fungrad.errors import ArgumentError
from fungrad.ir.types import Type
from fungrad.primitives.contraction.dot_general import multilinear
from fungrad.primitives.elementwise.family import Masked, Over, elementwise
from fungrad.primitives.facts import Along, ScalarForm, Section
from fungrad.primitives.primitive import Primitive, general, linear
from fungrad.support.lazy import Module
from fungrad.tracing.source_location import user_line
from fungrad.tracing.trace import Trace, Tracer, typeof
from fungrad.tracing.trace import current as current_trace

kernels: Any = Module("fungrad.compiler.numpy_backend.kernels")
native_forms: Any = Module("fungrad.compiler.native.native_forms")
element_operations: Any = Module("fungrad.compiler.native.element_operations")
traced_forms: Any = Module("fungrad.compiler.native.traced_forms")
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


def kernel(
    primitive: Primitive,
    function: Callable[..., None],
    *,
    scratch: int = 0,
    single: bool = False,
) -> None:
    """Gives an elementwise primitive a kernel, which compiled programs call in place of `eval`.

    Those on NumPy do so for large arrays.

    Args:
      primitive: one of fungrad's, or declared with this module.
      function: `function(*arguments, out, *scratch)`, of arrays of float64 (an argument may be one
        number). It writes what `eval` gives into `out`, which is no argument.
      scratch: how many arrays of the shape of `out` it takes to work in.
      single: whether the arrays may be of float32, too.

    Raises:
      ArgumentError: where the primitive is not elementwise.

    >>> fourth = elementwise("fourth", lambda x: x**4, partials=[lambda y, x: 4 * x**3])
    >>> def by_squares(x, out):
    ...     np.multiply(x, x, out)
    ...     np.multiply(out, out, out)
    >>> kernel(fourth, by_squares)
    """
    if primitive.partials is None:
        raise ArgumentError(
            f"`{primitive.name}` is not elementwise{user_line()}: it has no kernel."
        )
    kernels.KERNELS[primitive] = kernels.NumpyKernel(function, scratch, single)


def native_form(primitive: Primitive, function: Callable[..., Any]) -> None:
    """Gives an elementwise primitive a form for native code, which runs it in the place of `eval`.

    A primitive without one leaves native code for a call of `eval`, unless `inline` says that
    `eval` itself is written with NumPy's functions. A form is for a primitive whose `eval` is not,
    as a function of SciPy. It computes real floats; other arguments go to `eval`.

    Args:
      primitive: declared with this module; before a function that uses it is compiled.
      function: `function(*numbers)`, written with NumPy's functions. It takes float64 or float32
        numbers, and returns one of the same dtype: what `eval` gives, within a few units in the
        last place.

    Raises:
      ArgumentError: where the primitive is not elementwise, or has a native form.

    >>> import math, numpy as np
    >>> cosine = elementwise("cosine", np.vectorize(math.cos), partials=[lambda y, x: -np.sin(x)])
    >>> native_form(cosine, np.cos)
    """
    if primitive.partials is None:
        raise ArgumentError(
            f"`{primitive.name}` is not elementwise{user_line()}: it has no native form."
        )
    if element_operations.known(primitive):
        raise ArgumentError(f"`{primitive.name}` has a native form{user_line()}.")
    count = len(primitive.partials)
    native_forms.FUNCTIONS[primitive] = native_forms.NativeForm(
        lambda: traced_forms.rules(primitive.name, function, count)
    )


__all__ = [
    "Along", "Masked", "Over", "Primitive", "ScalarForm", "Section", "Trace", "Tracer", "Type",
    "current_trace", "elementwise", "general", "jax_rule", "kernel", "linear", "multilinear",
    "native_form", "structural", "typeof",
]  # fmt: skip
