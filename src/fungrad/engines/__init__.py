"""Functions on other engines, `fg.to_jax` and `fg.to_torch`, and JAX's in fungrad, `fg.from_jax`.

The engine is imported at the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fungrad.support.lazy import Module

if TYPE_CHECKING:
    from fungrad.engines import torch
    from fungrad.engines.jax import call
else:
    call = Module("fungrad.engines.jax.call")
    torch = Module("fungrad.engines.torch")


def to_jax(
    f: Callable[..., Any],
    *,
    derivatives: str | None = "fungrad",
    callbacks: bool = False,
    max_steps: int | None = None,
    precision: str = "require",
) -> Callable[..., Any]:
    """The function f, written with NumPy, as a function of JAX's arrays.

    >>> import jax, numpy as np  # doctest: +SKIP
    >>> g = to_jax(lambda x: np.sum(np.sin(x) ** 2))  # doctest: +SKIP
    >>> jax.jit(jax.grad(g))(np.ones(3))  # doctest: +SKIP
    Array([0.9092974, 0.9092974, 0.9092974], dtype=float64)

    fungrad traces it once for each combination of argument types. The result runs under jax.jit,
    jax.vmap, jax.grad, shardings and jax.export: on a CPU, a GPU, a TPU, or many of them.

    Args:
      f: a pure function of trees of arrays, also one made by `fg.grad`, `fg.vmap` or `fg.jit`.
      derivatives: "fungrad": jax.grad of the result is fungrad's derivative, with its custom rules,
        stops and values at kinks, at every order (reverse mode only; for forward mode use
        `to_jax(fg.jvp...)`, `to_jax(fg.hessian(f))`). "jax": JAX differentiates the translated
        operations by its own rules. None: jax.grad of it raises.
      callbacks: whether primitives without a JAX rule are computed by NumPy on the host.
      max_steps: the most steps of a `while_loop` differentiated in reverse; beyond them it is NaN.
      precision: "require": where JAX would make 64-bit numbers 32-bit (jax_enable_x64 is off),
        arguments, constants and results of float64 raise, and so do integers beyond 32 bits; under
        jax.jit, jax.grad and others, which convert first, a UserWarning names the setting;
        "convert": they become 32-bit.

    Raises:
      MissingExtraError: without JAX.
      ArgumentError: for 64-bit values without jax_enable_x64, and for a while loop differentiated
        without max_steps.
      UnsupportedFunctionError: for a primitive without a rule.

    Errors that depend on values, such as an index out of bounds or a matrix that is not positive
    definite, become NaN, since JAX cannot raise them.
    """
    return call.to_jax(
        f, derivatives=derivatives, callbacks=callbacks, max_steps=max_steps, precision=precision
    )


def from_jax(jax_f: Callable[..., Any], *, vectorized: bool = False) -> Callable[..., Any]:
    """A JAX function as a function of NumPy arrays, with JAX's derivatives.

    >>> import jax.numpy as jnp, numpy as np, fungrad as fg  # doctest: +SKIP
    >>> f = from_jax(lambda x: jnp.sum(jnp.sin(x)))  # doctest: +SKIP
    >>> fg.grad(f)(np.zeros(3))  # doctest: +SKIP
    array([1., 1., 1.])

    It is one opaque operation of fungrad. Its derivative, by jax.vjp, is another one, and so on for
    every order. jax.jit compiles each.

    Args:
      jax_f: a pure function of trees of JAX's arrays that JAX can differentiate.
      vectorized: whether it takes further leading axes, the same on all arguments: then `vmap`
        calls it once.

    Raises:
      MissingExtraError: without JAX.
    """
    return call.from_jax(jax_f, vectorized=vectorized)


def to_torch(f: Callable[..., Any], *, compiled: bool = True) -> Callable[..., Any]:
    """The function f, written with NumPy, as a function of PyTorch's tensors on the CPU.

    >>> import numpy as np, torch  # doctest: +SKIP
    >>> g = to_torch(lambda x: np.sum(np.sin(x) ** 2))  # doctest: +SKIP
    >>> x = torch.ones(2, requires_grad=True)  # doctest: +SKIP
    >>> g(x).backward()  # doctest: +SKIP
    >>> x.grad  # doctest: +SKIP
    tensor([0.9093, 0.9093])

    It is one operation of PyTorch, an autograd.Function. Its backward pass is fungrad's pullback,
    which is such an operation, too: so derivatives of every order, forward mode, torch.vmap and
    torch.func work. fungrad reads tensors where they are, and compiles for each combination of
    types.

    Args:
      f: a pure function of trees of arrays, also one made by `fg.grad` or `fg.vmap`. Tensors and
        arrays among its arguments are differentiable; all other arguments are constants.
      compiled: whether it is compiled (`fg.jit`), with branches on values followed.

    Returns:
      A function of tensors; its results are tensors in the structure that f returns.

    Raises:
      MissingExtraError: without PyTorch.
      ArgumentError: for a tensor that is not on the CPU, or of a dtype that NumPy lacks.
    """
    return torch.to_torch(f, compiled=compiled)


__all__ = ["from_jax", "to_jax", "to_torch"]
