"""The libraries that are compared, each as a namespace of arrays and one of derivatives.

The derivatives have JAX's names. Peers are imported when they are asked for; what is installed
is found out before.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks import REASSOCIATE
from benchmarks.cases.case import Case

FUNGRAD, EAGER, HAND = "fungrad jit", "fungrad eager", "by hand"
JAX, JAX_EAGER = "JAX jit", "JAX eager"
ON_JAX = "fungrad on JAX"
AUTOGRAD, TORCH, TORCH_COMPILED = "autograd", "PyTorch", "PyTorch compiled"
MODULES = {
    JAX: "jax",
    JAX_EAGER: "jax",
    ON_JAX: "jax",
    AUTOGRAD: "autograd",
    TORCH: "torch",
    TORCH_COMPILED: "torch",
}
MOST_STEPS = 256
"""Of a while loop in reverse mode on XLA."""


@dataclass(frozen=True)
class Library:
    """How a library runs a case: arrays in, arrays out."""

    np: Any
    ad: Any
    prepare: Callable[[Callable[..., Any]], Callable[..., Any]]
    """Makes a function for repeated calls from a derivative."""


def installed(name: str) -> bool:
    """Whether a library of this name is there."""
    return name not in MODULES or importable(MODULES[name])


def importable(module: str) -> bool:
    """Whether there is such a module."""
    return importlib.util.find_spec(module) is not None


def prepared(name: str, case: Case) -> Callable[..., Any]:
    """The derivative of a case in a library, as a function of ndarrays that returns ndarrays."""
    if name == HAND:
        return case.by_hand
    library = LIBRARIES[name]()
    return library.prepare(case.derivative(library.np, library.ad))


class _FungradTerms:
    """fungrad, and its erf, loaded where a case asks for it."""

    def __init__(self, fungrad: Any) -> None:
        self._fungrad = fungrad

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fungrad, name)

    def erf(self, x: Any) -> Any:
        """The error function."""
        return self._fungrad.scipy.special.erf(x)


def _fungrad(staged: bool) -> Library:
    import fungrad as fg

    if os.environ.get(REASSOCIATE):
        fg.config.reassociate = True
    return Library(np, _FungradTerms(fg), fg.jit if staged else lambda f: f)


def _jax_terms() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def hvp(f: Any, primals: Any, tangents: Any) -> tuple[Any]:
        return (jax.jvp(jax.grad(f), primals, tangents)[1],)

    def nth_derivative(f: Any, n: int) -> Callable[[Any], Any]:
        from jax.experimental import jet

        def wrapper(x: Any) -> Any:
            series = [jnp.ones_like(x)] + [jnp.zeros_like(x)] * (n - 1)
            return jet.jet(f, (x,), (series,))[1][-1]

        return wrapper

    terms = SimpleNamespace(
        **{name: getattr(jax, name) for name in ("grad", "value_and_grad", "jvp", "hessian")},
        hvp=hvp,
        nth_derivative=nth_derivative,
        stop_gradient=jax.lax.stop_gradient,
        lax=jax.lax,
        erf=jax.scipy.special.erf,
    )
    return jnp, terms


def _jax(staged: bool) -> Library:
    jnp, terms = _jax_terms()
    import jax

    def prepare(f: Callable[..., Any]) -> Callable[..., Any]:
        run = jax.jit(f) if staged else f
        return lambda *args: jax.tree_util.tree_map(np.asarray, run(*args))

    return Library(jnp, terms, prepare)


def _on_jax() -> Library:
    """fungrad's derivatives of NumPy's functions, run by XLA."""
    fungrad, compiled = _fungrad(False).ad, _jax(True)
    return Library(np, fungrad, lambda f: compiled.prepare(fungrad.to_jax(f, max_steps=MOST_STEPS)))


def _autograd() -> Library:
    import autograd
    import autograd.numpy as anp

    from benchmarks.gradbench import autograd_terms

    def hvp(f: Any, primals: Any, tangents: Any) -> tuple[Any]:
        return (autograd.hessian_vector_product(f)(*primals, *tangents),)

    def erf(x: Any) -> Any:
        from autograd.scipy import special

        return special.erf(x)

    def nth_derivative(f: Any, n: int) -> Any:
        for _ in range(n):
            f = autograd.elementwise_grad(f)
        return f

    terms = SimpleNamespace(
        grad=autograd.grad,
        value_and_grad=autograd.value_and_grad,
        hessian=autograd.hessian,
        hvp=hvp,
        nth_derivative=nth_derivative,
        stop_gradient=autograd_terms.lax.stop_gradient,
        lax=autograd_terms.lax,
        erf=erf,
    )
    return Library(anp, terms, lambda f: f)


class _TorchNamespace:
    """torch by NumPy's names, where they differ."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.max, self.min = torch.amax, torch.amin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def logaddexp(self, a: Any, b: Any) -> Any:
        """Numbers are arguments, too."""
        return self._torch.logaddexp(self._torch.as_tensor(a, dtype=b.dtype), b)

    def cross(self, a: Any, b: Any) -> Any:
        """Along the last axis."""
        return self._torch.linalg.cross(a, b)


def _torch(compiled: bool) -> Library:
    import torch

    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_default_dtype(torch.float64)

    def gradients(f: Any, argnums: Any, with_value: bool) -> Any:
        places = (argnums,) if isinstance(argnums, int) else argnums

        def run(*args: Any) -> Any:
            watched = [_leaves(args[i]) for i in places]
            for leaf in (leaf for leaves in watched for leaf in leaves):
                leaf.requires_grad_()
            value = f(*args)
            flat = iter(torch.autograd.grad(value, [leaf for ls in watched for leaf in ls]))
            found = tuple(
                tuple([next(flat) for _ in args[i]]) if isinstance(args[i], tuple) else next(flat)
                for i in places
            )
            slopes = found[0] if isinstance(argnums, int) else found
            return (value.detach(), slopes) if with_value else slopes

        return run

    terms = SimpleNamespace(
        grad=lambda f, argnums=0: gradients(f, argnums, False),
        value_and_grad=lambda f, argnums=0: gradients(f, argnums, True),
        stop_gradient=lambda x: x.detach(),
        erf=torch.erf,
    )

    def prepare(f: Callable[..., Any]) -> Callable[..., Any]:
        run = torch.compile(f) if compiled else f
        return lambda *args: _mapped(
            lambda t: t.detach().numpy(), run(*_mapped(torch.as_tensor, args))
        )

    return Library(_TorchNamespace(torch), terms, prepare)


def _leaves(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, tuple) else [tree]


def _mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    return tuple([_mapped(f, part) for part in tree]) if isinstance(tree, tuple) else f(tree)


LIBRARIES: dict[str, Callable[[], Library]] = {
    FUNGRAD: lambda: _fungrad(True),
    EAGER: lambda: _fungrad(False),
    AUTOGRAD: _autograd,
    JAX: lambda: _jax(True),
    JAX_EAGER: lambda: _jax(False),
    ON_JAX: _on_jax,
    TORCH: lambda: _torch(False),
    TORCH_COMPILED: lambda: _torch(True),
}
