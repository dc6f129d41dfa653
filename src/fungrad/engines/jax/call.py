"""`to_jax`: a NumPy function as a function of JAX's arrays, derivatives included.

`from_jax`: a function of jax.numpy under fungrad's transforms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fungrad.engines.jax import determinants as determinants  # its rules
from fungrad.engines.jax import loops as loops  # its rules
from fungrad.engines.jax.elementwise import Options, jax, jnp
from fungrad.engines.jax.graphs import differentiable, opaque, run
from fungrad.errors import ArgumentError
from fungrad.host.external import External
from fungrad.ir.canonical import canonical
from fungrad.ir.graph import Graph, inner_graphs
from fungrad.ir.types import PYTHON_DTYPES, PYTHON_SCALARS, Type
from fungrad.retracing.staging import Staged, stage_tree
from fungrad.support import pytree
from fungrad.tracing.source_location import check_function, describe, user_line, warn_user
from fungrad.tracing.trace import typeof

PLANS = 128
"""The most Graphs, for arguments of different types, that one function keeps."""


def to_jax(
    f: Callable[..., Any],
    *,
    derivatives: str | None = "fungrad",
    callbacks: bool = False,
    max_steps: int | None = None,
    precision: str = "require",
) -> Callable[..., Any]:
    """See `fungrad.engines.to_jax`."""
    check_function(f, "to_jax")
    if derivatives not in ("fungrad", "jax", None):
        raise ArgumentError(f'derivatives={derivatives!r} is not "fungrad", "jax" or None.')
    if precision not in ("require", "convert"):
        raise ArgumentError(f'precision={precision!r} is not "require" or "convert".')
    options = Options(callbacks, max_steps)

    @functools.lru_cache(PLANS)
    def plan(treedef: pytree.TreeDef, types: tuple[Type, ...]) -> Staged:
        def apply(tree: Any) -> Any:
            args, kwargs = tree
            return f(*args, **kwargs)

        names = [""] * len(types)
        staged = stage_tree(f, apply, treedef, types, names, "a function for JAX")
        if precision == "require":
            _check_precision(f, staged.graph, types)
        return staged

    warned: list[bool] = []
    """Not empty once single precision was warned of."""

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        flat, treedef = pytree.flatten((args, kwargs))
        leaves = list(map(canonical, flat))  # JAX refuses the other byte order
        if precision == "require" and not jax.config.jax_enable_x64:
            for leaf in leaves:
                _check_range(f, leaf)
            if not warned and any(map(_narrowed, leaves)):
                warned.append(True)
                _warn_of_single(f)
        staged = plan(treedef, tuple(_type_of(f, leaf) for leaf in leaves))
        results = _function(staged.graph, options, derivatives)(*leaves)
        return pytree.unflatten(staged.out, results)

    function.__doc__ = f"{describe(f)} for JAX's arrays."
    return function


def _function(graph: Graph, options: Options, derivatives: str | None) -> Callable[..., Any]:
    if derivatives == "fungrad":
        return differentiable(graph, options)
    if derivatives == "jax":
        return lambda *args: run(graph, args, options)
    function = opaque(graph, options)

    def refuse(*args: Any) -> Any:
        raise ArgumentError(
            f"{graph.name} was given to fg.to_jax with derivatives=None, and is differentiated."
        )

    function.defvjp(refuse, refuse)
    return lambda *args: function(*map(jnp.asarray, args))


def _type_of(f: Callable[..., Any], leaf: Any) -> Type:
    """The Type of an argument; that of a Python number is weak."""
    if type(leaf) in PYTHON_SCALARS:
        return Type((), PYTHON_DTYPES[type(leaf)], True)
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape") or np.dtype(dtype).kind not in "biufc":
        raise ArgumentError(
            f"An argument of {describe(f)} is a {type(leaf).__name__}{user_line()}, not an array "
            "of numbers or a number. Close over it: fg.to_jax(lambda x: f(x, option))."
        )
    return Type(tuple(leaf.shape), np.dtype(dtype))


def _check_precision(f: Callable[..., Any], graph: Graph, types: Sequence[Type]) -> None:
    """Refuses 64-bit numbers that JAX would silently make 32-bit."""
    if jax.config.jax_enable_x64:
        return
    held = list(_types_in(graph))
    wide = [
        t
        for t in (*(t for t in types if not t.weak), *held)
        if t.dtype in (np.float64, np.complex128) and not t.weak
    ]
    if wide:
        raise ArgumentError(
            f"{describe(f)} computes with {wide[0]}{user_line()}, which JAX makes 32-bit: "
            'jax.config.update("jax_enable_x64", True) keeps double precision; '
            'fg.to_jax(f, precision="convert") takes single.'
        )


def _types_in(graph: Graph) -> Iterator[Type]:
    """The Types of the constants and the results of a Graph, bodies of loops included."""
    for variable, _ in graph.constants:
        yield variable.type
    for equation in graph.equations:
        yield from [variable.type for variable in equation.outputs]
        for inner in inner_graphs(equation):
            yield from _types_in(inner)


def _check_range(f: Callable[..., Any], leaf: Any) -> None:
    """Refuses 64-bit integers that do not fit into the 32 bits that JAX would make of them."""
    if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype not in (np.int64, np.uint64):
        return
    narrow = np.int32 if leaf.dtype == np.int64 else np.uint32
    if np.any(np.asarray(leaf) != np.asarray(leaf).astype(narrow)):
        raise ArgumentError(
            f"{describe(f)} got integers{user_line()} that 32 bits do not hold, and JAX makes them "
            '32-bit: jax.config.update("jax_enable_x64", True) keeps them.'
        )


def _narrowed(leaf: Any) -> bool:
    """Whether JAX traces with an argument of single precision, which may have been double."""
    return isinstance(leaf, jax.core.Tracer) and leaf.dtype in (np.float32, np.complex64)


def _warn_of_single(f: Callable[..., Any]) -> None:
    warn_user(
        f"{describe(f)} is computed in single precision under a transformation of JAX, which makes "
        'NumPy\'s float64 arrays float32: jax.config.update("jax_enable_x64", True) keeps double '
        'precision; fg.to_jax(f, precision="convert") says that single is wanted.',
        UserWarning,
    )


STRUCTURES = 32
"""The most structures of arguments for which one function keeps compiled functions."""


def from_jax(jax_f: Callable[..., Any], *, vectorized: bool = False) -> Callable[..., Any]:
    """See `fungrad.engines.from_jax`."""
    check_function(jax_f, "from_jax")
    name = getattr(jax_f, "__name__", type(jax_f).__name__)

    @functools.lru_cache(STRUCTURES)
    def flattened(treedef: pytree.TreeDef) -> tuple[_Flat, dict[Any, Any]]:
        """The function of flat arguments, and the structures of its results by shapes."""
        outs: dict[Any, Any] = {}

        def flat(*values: Any) -> Any:
            results, out = jax.tree_util.tree_flatten(jax_f(*pytree.unflatten(treedef, values)))
            outs[tuple(np.shape(x) for x in values)] = out
            return tuple(map(jax.numpy.asarray, results))

        flat.__name__ = name
        return _Flat(flat, vectorized), outs

    def function(*args: Any) -> Any:
        found, treedef = pytree.flatten(args)
        leaves = list(map(canonical, found))
        flat, outs = flattened(treedef)
        types = [typeof(x) for x in leaves]
        shapes = tuple(t.shape for t in types)
        if shapes not in outs:
            jax.eval_shape(
                flat.jax_function, *[jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types]
            )
        return jax.tree_util.tree_unflatten(outs[shapes], flat(*leaves))

    function.__name__ = name
    return function


class _Flat(External):
    """A JAX function of flat arguments and results. Its pullback is another one."""

    def __init__(self, f: Callable[..., Sequence[Any]], vectorized: bool) -> None:
        compiled = jax.jit(f)

        def plain(*args: Any) -> Any:
            return tuple(np.asarray(x) for x in compiled(*args))

        def shape(*types: Any) -> Any:
            shapes = jax.eval_shape(f, *[jax.ShapeDtypeStruct(t.shape, t.dtype) for t in types])
            return tuple(Type(tuple(s.shape), np.dtype(s.dtype)) for s in shapes)

        plain.__name__ = getattr(f, "__name__", "a function of JAX's")
        self.jax_function = f
        self._pulls: dict[Any, _Flat] = {}
        super().__init__(plain, self._pullback, None, shape, vectorized)

    def _pullback(self, cotangents: Sequence[Any], outputs: Any, *args: Any) -> Any:
        """Cotangents of the arguments, by another JAX function, so at every order."""
        moving = [i for i, x in enumerate(args) if typeof(x).inexact]
        counted = [i for i, c in enumerate(cotangents) if c is not None and typeof(c).inexact]

        key = (len(args), tuple(moving), tuple(counted))
        if key not in self._pulls:  # kept, so that JAX compiles it once
            self._pulls[key] = self._pull(*key)
        pulled = iter(self._pulls[key](*args, *[cotangents[i] for i in counted]))
        return tuple(next(pulled) if i in moving else None for i in range(len(args)))

    def _pull(self, count: int, moving: Sequence[int], counted: Sequence[int]) -> _Flat:
        """(arguments, cotangents of the counted results) -> cotangents of the moving arguments."""

        def pull(*values: Any) -> Any:
            given = iter(values[count:])
            primals, pullback = jax.vjp(self.jax_function, *values[:count])
            full = [next(given) if i in counted else _zero(y) for i, y in enumerate(primals)]
            pulled = pullback(tuple(full))
            return tuple(pulled[i] for i in moving)

        pull.__name__ = f"the vjp of {self.jax_function.__name__}"
        return _Flat(pull, self._vectorized)

    def _backward(self, saved: Any, cotangent: Any, wanted: Any) -> Any:
        args, output = saved
        return self._pullback(cotangent, output, *args)

    def _recipe(self) -> tuple[Any, ...]:
        return self.jax_function, self._vectorized


def _zero(x: Any) -> Any:
    """A zero cotangent of one of JAX's arrays."""
    exact = not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact)
    return np.zeros(x.shape, jax.dtypes.float0 if exact else x.dtype)
