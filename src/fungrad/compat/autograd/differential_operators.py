"""Autograd's operators on functions, composed of fungrad's.

All except make_jvp and deriv work in reverse mode, as in autograd, since clients define reverse
rules for their primitives.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from fungrad.compat.autograd.boxes import show_boxes
from fungrad.compat.autograd.vspaces import vspace
from fungrad.compat.autograd.wrap_util import Argnum, chosen, floats, unary_of
from fungrad.compat.autograd.wrap_util import unary_to_nary as unary_to_nary
from fungrad.rematerialisation.checkpoint import checkpoint as checkpoint
from fungrad.support import pytree
from fungrad.tracing.source_location import warn_user
from fungrad.tracing.trace import EVAL, Tracer, current
from fungrad.tracing.tracing_check import OBSERVED
from fungrad.transforms import grad as gradients
from fungrad.transforms import jacobian as jacobians
from fungrad.transforms.arguments import flat_results

Function = Callable[..., Any]


def _number(out: Any) -> Any:
    """An array of one number as that number; other values unchanged."""
    if (type(out) is Tracer or type(out) is np.ndarray) and out.ndim and out.size == 1:
        return np.reshape(out, ())
    return out


def _warn_if_independent(out: Any) -> None:
    """Warns, as autograd does, if the current transform traces no part of an output."""
    trace = current()
    leaves, _ = flat_results(out)
    if trace is not EVAL and not any(type(x) is Tracer and x.owner is trace for x in leaves):
        warn_user("Output seems independent of input.", UserWarning)


def _boxing(fun: Function, finish: Function | None = None) -> Function:
    """`fun` with arguments that show the class ArrayBox, followed by `finish`."""

    def shown(*args: Any, **kwargs: Any) -> Any:
        show_boxes()
        out = fun(*args, **kwargs)
        if type(out) is not Tracer or out.owner is not current():
            _warn_if_independent(out)
        return out if finish is None else finish(out)

    # a plain call would be another one: clients ask whether a value is a box
    OBSERVED.add(shown.__code__)
    return _dressed(shown, fun)


def _dressed(run: Function, fun: Function) -> Function:
    """`run` with the name and signature of `fun`."""
    return functools.update_wrapper(run, fun, updated=())


def _named(run: Function, fun: Function) -> Function:
    """`run` with the name of `fun`; it takes a further argument."""
    run.__name__ = getattr(fun, "__name__", type(fun).__name__)
    return run


def value_and_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """A function that returns the value of `fun` and its gradient.

    Args:
      fun: a function that returns one real number, or an array with one.
      argnum: the position of the argument to differentiate by, or a sequence of positions. It may
        be a list, tuple or dict of arrays. Integers in it are taken as floats.

    Returns:
      A function with fun's arguments that returns (value, gradient). The gradient has the form of
      the argument; it is a tuple for a sequence of positions. It is zero where the value does not
      depend on the argument; for complex x = a + ib it is df/da - i df/db.

    Raises:
      TypeError: if fun returns something else, or the argument holds other things than numbers.

    >>> value, slope = value_and_grad(lambda x, y: x * y**2, 1)(2.0, 3.0)
    >>> float(value), float(slope)
    (18.0, 12.0)
    """
    both = gradients.value_and_grad(
        _boxing(fun, _number),
        argnum if isinstance(argnum, int) else tuple(argnum),
    )
    return _dressed(lambda *args, **kwargs: both(*floats(args, argnum), **kwargs), fun)


def grad(fun: Function, argnum: Argnum = 0) -> Function:
    """The gradient of a function of one real output, as a function: see `value_and_grad`.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    both = value_and_grad(fun, argnum)
    return _dressed(lambda *args, **kwargs: both(*args, **kwargs)[1], fun)


def elementwise_grad(fun: Function, argnum: Argnum = 0, initial_grad: Any = None) -> Function:
    """The gradient of the sum of `fun`'s outputs: the derivatives of an elementwise function.

    Args:
      fun: a function that returns a real array, or a tree of them.
      argnum: as in `value_and_grad`.
      initial_grad: weights of the outputs in the sum; 1 by default.

    >>> elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """

    def total(*args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        if initial_grad is not None:
            out = pytree.map(lambda x, w: x * w, out, initial_grad)
        parts = [np.sum(leaf) for leaf in pytree.leaves(out)]
        return parts[0] if len(parts) == 1 else sum(parts)

    return grad(_dressed(total, fun), argnum)


egrad = elementwise_grad


def holomorphic_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """The derivative of a holomorphic function of complex arguments with one complex output.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> complex(holomorphic_grad(lambda z: z**2)(1.0 + 2.0j))
    (2+4j)
    """
    return grad(_dressed(lambda *args, **kwargs: np.real(fun(*args, **kwargs)), fun), argnum)


def grad_and_aux(fun: Function, argnum: Argnum = 0) -> Function:
    """The gradient of the first of a function's two outputs, and the second output.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> slope, aux = grad_and_aux(lambda x: (x**2, "square"))(3.0)
    >>> float(slope), aux
    (6.0, 'square')
    """

    def first(pair: Any) -> Any:
        out, aux = pair
        return _number(out), aux

    both = gradients.grad(
        _boxing(fun, first), argnum if isinstance(argnum, int) else tuple(argnum), has_aux=True
    )
    return _dressed(lambda *args, **kwargs: both(*floats(args, argnum), **kwargs), fun)


def grad_named(fun: Function, argname: str) -> Function:
    """The gradient with respect to the argument with the given name.

    Args:
      fun: a function written with NumPy. argname: the name of the argument.

    >>> float(grad_named(lambda x, y: x * y, "y")(2.0, 3.0))
    2.0
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def multigrad_dict(fun: Function) -> Function:
    """The gradients with respect to all arguments, by name, in an OrderedDict.

    Args:
      fun: a function written with NumPy.

    >>> {name: float(g) for name, g in multigrad_dict(lambda x, y: x * y)(2.0, 3.0).items()}
    {'x': 3.0, 'y': 2.0}
    """
    signature = inspect.signature(fun)

    def gradients_of(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_names(values: Any) -> Any:
            bound.arguments.update(values)
            return fun(*bound.args, **bound.kwargs)

        names = OrderedDict(bound.arguments)
        return OrderedDict(grad(_named(of_names, fun))(names))

    return _dressed(gradients_of, fun)


def jacobian(fun: Function, argnum: Argnum = 0) -> Function:
    """The Jacobian of a function of arrays, by reverse mode.

    Args:
      fun: a function that returns an array, or a tree of arrays.
      argnum: as in `value_and_grad`.

    Returns:
      A function with fun's arguments. It returns an array of shape (*output.shape, *input.shape).

    >>> jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    matrix = jacobians.jacrev(_boxing(fun), argnum if isinstance(argnum, int) else tuple(argnum))
    return _dressed(lambda *args, **kwargs: matrix(*floats(args, argnum), **kwargs), fun)


def hessian(fun: Function, argnum: Argnum = 0) -> Function:
    """The Hessian of a function: the Jacobian of the Jacobian.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 2.0]))
    array([[0., 4.],
           [4., 2.]])
    """
    return jacobian(jacobian(fun, argnum), argnum)


def hessian_tensor_product(fun: Function, argnum: Argnum = 0) -> Function:
    """The product of the Hessian with a tensor, without the Hessian.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    Returns:
      A function with fun's arguments, and after them a tensor of the shape of the argument.

    >>> hessian_tensor_product(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([ 6., 12.])
    """
    first = grad(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return np.tensordot(first(*rest, **kwargs), tensor, np.ndim(tensor))

    return grad(_named(product, fun), argnum)


hessian_vector_product = hvp = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: Argnum = 0) -> Function:
    """The product of a tensor with the Jacobian: the tensor's axes are the first of the output.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    Returns:
      A function with fun's arguments, and after them the tensor.

    >>> tensor_jacobian_product(lambda x: x**2)(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([2., 4.])
    """

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return np.tensordot(tensor, fun(*rest, **kwargs), axes=np.ndim(tensor))

    return jacobian(_named(product, fun), argnum)


vector_jacobian_product = tensor_jacobian_product


def make_vjp(fun: Function, argnum: Argnum = 0) -> Function:
    """Reverse mode: a function with fun's arguments that returns (pullback, value).

    The pullback takes a cotangent like the value, and returns one like the argument.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> pullback, value = make_vjp(lambda x: x**2)(3.0)
    >>> float(pullback(1.0)), float(value)
    (6.0, 9.0)
    """

    def pair(*args: Any, **kwargs: Any) -> Any:
        f, x = unary_of(fun, argnum, args, kwargs)
        value, pullback = gradients.vjp(_boxing(f), x)
        return lambda cotangent: pullback(cotangent)[0], value

    return _dressed(pair, fun)


def _make_vjp(fun: Function, x: Any) -> Any:
    """The pullback of a function at x, and its value, under the name that autograd's own operators
    call, and clients with operators of their own.
    """
    return make_vjp(fun)(x)


def make_jvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Forward mode: a function with fun's arguments that returns `jvp`.

    `jvp(tangent)`, of a tangent like the argument, returns (value, tangent of the value).

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> value, tangent = make_jvp(lambda x: x**2)(3.0)(1.0)
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """

    def of_tangent(*args: Any, **kwargs: Any) -> Any:
        f, x = unary_of(fun, argnum, args, kwargs)
        return lambda tangent: gradients.jvp(_boxing(f), (x,), (tangent,))

    return _dressed(of_tangent, fun)


def make_jvp_reversemode(fun: Function, argnum: Argnum = 0) -> Function:
    """Forward products by reverse mode only: the pullback of the pullback.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    Returns:
      A function with fun's arguments that returns `jvp`, from a tangent like the argument to that
      of the value.

    >>> float(make_jvp_reversemode(lambda x: x**2)(3.0)(1.0))
    6.0
    """

    def of_tangent(*args: Any, **kwargs: Any) -> Any:
        pullback, value = make_vjp(fun, argnum)(*args, **kwargs)
        return make_vjp(pullback)(vspace(value).zeros())[0]

    return _dressed(of_tangent, fun)


def deriv(fun: Function, argnum: Argnum = 0) -> Function:
    """The derivative of all outputs with respect to one number, in forward mode.

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> deriv(lambda x: np.array([1.0, 2.0]) * x**2)(3.0)
    array([ 6., 12.])
    """

    def derivative(*args: Any, **kwargs: Any) -> Any:
        x = chosen(floats(args, argnum), argnum)
        return make_jvp(fun, argnum)(*args, **kwargs)(pytree.map(np.ones_like, x))[1]

    return _dressed(derivative, fun)


def make_hvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Products with the Hessian: a function with fun's arguments that returns (product, gradient).

    Args:
      fun: a function written with NumPy. argnum: the position of the argument, or a sequence of
        them.

    >>> product, gradient = make_hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    >>> product(np.array([1.0, 1.0])), gradient
    (array([ 6., 12.]), array([ 3., 12.]))
    """
    return make_vjp(grad(fun, argnum), argnum)


def _half_square(x: Any) -> Any:
    return 0.5 * np.sum(x**2)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: Argnum = 0) -> Function:
    """Products with the generalised Gauss-Newton matrix J' H J of the function g(f(x)).

    Args:
      f: a function of arrays; J is its Jacobian.
      g: a function of f's output with one number; H is its Hessian. By default half the square.
      f_argnum: the argument of f, as in `value_and_grad`.

    Returns:
      A function with f's arguments that returns the product with a vector (Schraudolph, Neural
      Computation 14, 2002).

    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> make_ggnvp(lambda x: a @ x)(np.zeros(2))(np.array([1.0, 0.0]))
    array([10., 14.])
    """

    def product_at(*args: Any, **kwargs: Any) -> Any:
        pullback, value = make_vjp(f, f_argnum)(*args, **kwargs)
        curved = make_vjp(grad(g))(value)[0]
        push = make_vjp(pullback)(vspace(value).zeros())[0]
        return lambda vector: pullback(curved(push(vector)))

    return _dressed(product_at, f)


__all__ = [
    "checkpoint", "deriv", "egrad", "elementwise_grad", "grad", "grad_and_aux", "grad_named",
    "hessian", "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "hvp",
    "jacobian", "make_ggnvp", "make_hvp", "make_jvp", "make_jvp_reversemode", "make_vjp",
    "multigrad_dict", "tensor_jacobian_product", "unary_to_nary", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip
