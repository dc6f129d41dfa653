"""External and pure_callback: opaque code (compiled, a simulator) inside traced programs.

The code is one equation of the IR, run on arrays. The user gives its derivative, or it is computed
from further runs of the code (numeric_derivatives.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.custom_rules.closures_and_arguments import Arguments
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.errors import ArgumentError, MissingRuleError, StructureMismatchError
from fungrad.host.checked_differences import Differences
from fungrad.host.host_function import Host, Sparsity, declared_type
from fungrad.host.numeric_derivatives import StepCheck, _moving, contracted, differences, imaginary
from fungrad.ir.types import Type
from fungrad.primitives.elementwise.family import mul, sub
from fungrad.primitives.elementwise.ufuncs import real
from fungrad.primitives.facts import EXACT
from fungrad.primitives.movement.reshape_broadcast_cast import (
    cast,
    concatenate,
    reduce_sum,
    reshape,
    slice_axis,
)
from fungrad.primitives.primitive import Primitive
from fungrad.retracing.graph_transforms import strong_type
from fungrad.support import pytree
from fungrad.tracing.effects import called
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, Tracer, current, typeof
from fungrad.tracing.transformed_function import OfFunction, boundary
from fungrad.transforms.arguments import leaf_type

NOISE = 1e-12
"""The relative error of derivatives by checked differences, of which further ones are taken."""
NUMERIC = ("finite_differences", "complex_step", "differences")


def _missing(host: Host) -> MissingRuleError:
    return MissingRuleError(
        f"The opaque function {describe(host.f)} is differentiated{user_line()}, but has no rule. "
        "Declare it by fg.external(f, vjp=...), with a function or with 'finite_differences' or "
        "'complex_step', or pass it fg.stop_gradient(x)."
    )


def _no_vjp(cotangent: Any, output: Any, args: Any, wanted: Any, *, host: Host) -> Any:
    raise _missing(host)


def _no_jvp(primals: Any, tangents: Any, *, host: Host) -> Any:
    raise _missing(host)


opaque: Primitive = Primitive(
    "external",
    rounding=EXACT,  # unknown, and the same in each run
    eval=lambda *args, host: called(host, args, lambda: tuple(host.run(args))),
    type=lambda *types, host: tuple(host.types()),
    vjp=_no_vjp,
    jvp=_no_jvp,
    batch=lambda args, batched, size, *, host: opaque(*args, host=host.batched(batched, size)),
    multiple=True,
    pure=False,  # it may keep its arguments
)
"""`external(*args, host=)`: the results of an opaque Python function."""


def _call(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    result: Any,
    vectorized: bool = False,
    sparsity: Sparsity | None = None,
) -> Any:
    arguments = Arguments(f, args, kwargs)
    host = Host(f, arguments, result, vectorized, sparsity)
    leaves = opaque(*arguments.take(), host=host)
    assert host.out is not None
    return pytree.unflatten(host.out, leaves)


class External(OfFunction):
    """An opaque function with, or without, a derivative: see `external`."""

    def __init__(
        self,
        f: Callable[..., Any],
        vjp: Any,
        jvp: Any,
        shape: Any,
        vectorized: bool,
        sparsity: Any = None,
    ) -> None:
        super().__init__(f)
        self._sparsity = sparsity
        self._vjp = vjp
        self._jvp = jvp
        self._shape = shape
        self._vectorized = vectorized
        self._run = StepCheck(f) if vjp == "complex_step" else f

        def plain(*args: Any) -> Any:
            return self._plain(*args)

        plain.__name__ = getattr(f, "__name__", type(f).__name__)
        self._custom = Custom(plain, ())
        self._custom.closes = False
        if vjp is not None:
            self._custom.defvjp(self._forward, self._backward, wanted=True)
        if jvp is not None:
            self._custom.defjvp(self._push)
        elif vjp == "differences":
            self._custom.defjvp(self._push_checked)
        elif isinstance(vjp, str):
            self._custom.defjvp(self._push_numeric)

    def _recipe(self) -> tuple[Any, ...]:
        return self._f, self._vjp, self._jvp, self._shape, self._vectorized, self._sparsity

    def __call__(self, *args: Any, **named: Any) -> Any:
        others = {i: arg for i, arg in enumerate(args) if not _is_numbers(arg)}
        if named or (others and not self._has_own_rule()):
            return self._with(others, named)(*[a for i, a in enumerate(args) if i not in others])
        if current() is EVAL:
            arguments = Arguments(self._f, args, {})
            host = Host(self._f, arguments, self._result(args), self._vectorized)
            leaves = host.run(())
            assert host.out is not None
            return pytree.unflatten(host.out, leaves)
        if self._custom.bwd is None and self._custom.jvp is None:
            return self._plain(*args)
        return self._custom(*args)

    def _has_own_rule(self) -> bool:
        """Whether a rule of the user's, or another external, gives the derivative."""
        return self._jvp is not None or not (self._vjp is None or isinstance(self._vjp, str))

    def _with(self, others: dict[int, Any], named: dict[str, Any]) -> External:
        """This function with constants: arguments by position that are no numbers, and by name."""
        if self._has_own_rule() or any(type(x) is Tracer for x in pytree.leaves(named)):
            raise ArgumentError(
                f"{describe(self._f)} is external, and was given arguments by name{user_line()}: "
                "it takes constants so, without a rule of yours. Give them by position."
            )
        f = self._f

        def constant(*args: Any) -> Any:
            given = list(args)
            for i, value in others.items():
                given.insert(i, value)
            return f(*given, **named)

        constant.__name__ = getattr(f, "__name__", type(f).__name__)
        made = External(constant, self._vjp, None, self._shape, self._vectorized, self._sparsity)
        made.report = self.report  # type: ignore[method-assign]
        return made

    def _plain(self, *args: Any) -> Any:
        known = self._known("value", args)
        return _call(self._run, args, {}, self._result(args), self._vectorized, known)

    def _known(self, of: str, args: Sequence[Any], indices: Any = ()) -> Sparsity | None:
        if self._sparsity is None:
            return None
        types = [pytree.map(lambda x: leaf_type(x) or x, arg) for arg in args]
        return Sparsity(of, self._sparsity, types, indices)

    def _result(self, args: Sequence[Any]) -> Any:
        """The declared tree of types; with complex types if a real argument was made complex."""
        if self._shape is None:
            return None
        leaves, _ = pytree.flatten(args)
        if callable(self._shape) and not isinstance(self._shape, Type):
            return self._shape(*pytree.map(lambda x: leaf_type(x) or x, tuple(args)))
        if not any(typeof(x).dtype.kind == "c" for x in leaves if leaf_type(x) is not None):
            return self._shape
        return pytree.map(lambda t: _complex(declared_type(self._f, t)), self._shape)

    def _forward(self, *args: Any, wanted: Any) -> tuple[Any, Any]:
        output = self(*args)
        return output, (args, output)

    def _backward(self, saved: Any, cotangent: Any, wanted: Any) -> Any:
        args, output = saved
        if self._vjp == "differences":
            return _pulled(self._matrices(args, output, wanted), args, output, cotangent, wanted)
        if isinstance(self._vjp, str):
            return contracted(self._pushed(), args, cotangent, wanted)
        if isinstance(self._vjp, External):
            return _as_tuple(self._vjp(cotangent, output, *args), len(args))
        types = pytree.map(lambda x: _gradient_type(x), tuple(args))

        def filled(*values: Any) -> Any:
            return self._filled(*values)

        filled.__name__ = f"the vjp of {getattr(self._f, '__name__', type(self._f).__name__)}"
        sizes = [typeof(y).size for y in pytree.leaves(output)]
        complete = len(sizes) == len(pytree.leaves(cotangent))
        known = self._known("vjp", args, sizes if complete else None)
        return _call(filled, [cotangent, output, *args], {}, types, sparsity=known)

    def _filled(self, cotangent: Any, output: Any, *args: Any) -> Any:
        """The results of the user's vjp, with zeros for None and for inputs without a
        derivative.
        """
        found = _as_tuple(self._vjp(cotangent, output, *args), len(args))
        result = []
        for arg, part in zip(args, found, strict=True):
            leaves, treedef = pytree.flatten(arg)
            given = pytree.broadcast_prefix(part, treedef, "the cotangent")
            full = [
                _gradient_type(x).zeros() if g is None or not typeof(x).inexact else g
                for x, g in zip(leaves, given, strict=True)
            ]
            for x, g in zip(leaves, full, strict=True):
                if np.shape(g) != np.shape(x):
                    raise StructureMismatchError(
                        f"The vjp of {describe(self._f)} returned a cotangent of another shape "
                        f"than its argument's.\n  argument:  {typeof(x)}\n  cotangent: "
                        f"{leaf_type(g) or g}"
                    )
            result.append(pytree.unflatten(treedef, full))
        return tuple(result)

    def _push(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        output = self(*primals)
        types = pytree.map(lambda x: _gradient_type(x), output)
        if isinstance(self._jvp, External):
            return output, self._jvp(primals, tangents)
        indices = [i for i, _, _ in _moving(primals, tangents)]
        known = self._known("jvp", primals, indices)
        return output, _call(self._jvp, [primals, tangents], {}, types, sparsity=known)

    def _push_numeric(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        return self(*primals), self._pushed()(primals, tangents)

    def _push_checked(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        output = self(*primals)
        moving = _moving(primals, tangents)
        if not moving:
            return output, None
        treedef = pytree.structure(tuple(primals))
        indices = [i for i, _, _ in moving]

        def along(leaves: Any, directions: Any) -> list[Any]:
            given: list[Any] = [None] * len(leaves)
            for i, direction in zip(indices, directions, strict=True):
                given[i] = direction
            at = self._differences(treedef, leaves)
            found = [y for y in at.derivative(given) if y is not None]
            self.report(at.error)
            return found

        outputs, out = pytree.flatten(output)
        types = [_gradient_type(y) for y in outputs if typeof(y).inexact]
        push = self._derived(along, types, "derivative")
        found = iter(push(pytree.leaves(tuple(primals)), [t for _, _, t in moving]))
        return output, pytree.unflatten(
            out, [next(found) if typeof(y).inexact else None for y in outputs]
        )

    def _matrices(self, args: Any, output: Any, wanted: Any) -> list[Any]:
        """The Jacobian for each argument that is wanted: see `Differences.jacobian`."""
        leaves, treedef = pytree.flatten(tuple(args))
        flags = pytree.leaves(tuple(wanted))
        indices = [i for i, want in enumerate(flags) if want]

        def jacobian(*leaves: Any) -> list[Any]:
            at = self._differences(treedef, leaves)
            found = at.jacobian(indices)
            self.report(at.error)
            return [m.astype(t.dtype) for m, t in zip(found, types, strict=True)]

        outputs = [typeof(y) for y in pytree.leaves(output) if typeof(y).inexact]
        rows, types = sum([t.size for t in outputs]), []
        dtype = np.result_type(*[t.dtype for t in outputs]) if outputs else np.dtype(float)
        for i in indices:
            of = typeof(leaves[i])
            columns = of.size * (2 if of.dtype.kind == "c" else 1)
            types.append(Type((rows, columns), np.result_type(dtype, np.zeros(0, of.dtype).real)))
        found: list[Any] = self._derived(jacobian, types, "Jacobian")(*leaves)
        return found

    def _derived(self, f: Callable[..., Any], types: Any, what: str) -> External:
        """An opaque function that computes a derivative of this one, by differences, too."""
        f.__name__ = f"the {what} of {getattr(self._f, '__name__', type(self._f).__name__)}"
        made = External(f, "differences", None, types, False)
        made.report = self.report  # type: ignore[method-assign]
        made.noise = NOISE if self.noise == 0.0 else NOISE**0.75
        return made

    def _differences(self, treedef: Any, leaves: Sequence[Any]) -> Differences:
        def run(values: Sequence[Any]) -> list[Any]:
            found = self._f(*pytree.unflatten(treedef, list(values)))
            return [np.asarray(y) for y in pytree.leaves(found)]

        return Differences(run, leaves, describe(self._f), self.noise)

    noise = 0.0
    """The relative error of the results, if it is larger than that of rounding."""

    def report(self, error: float) -> None:
        """Called with the estimated relative error of each derivative by differences."""

    def _pushed(self) -> Callable[[Any, Any], Any]:
        """The directional derivative, from runs of the function."""
        method = imaginary if self._vjp == "complex_step" else differences
        return lambda primals, tangents: method(self, primals, tangents)


def _is_numbers(value: Any) -> bool:
    return all(leaf_type(x) is not None for x in pytree.leaves(value))


External.__call__ = boundary(External.__call__)  # type: ignore[method-assign]


def _complex(type_: Type) -> Type:
    return Type(type_.shape, np.result_type(type_.dtype, np.complex64)) if type_.inexact else type_


def _pulled(
    matrices: Sequence[Any], args: Any, output: Any, cotangent: Any, wanted: Any
) -> tuple[Any, ...]:
    """The cotangents of the wanted arguments, by the Jacobian of each."""
    leaves, treedef = pytree.flatten(tuple(args))
    flags = pytree.leaves(tuple(wanted))
    seeds = pytree.flatten(cotangent, is_leaf=lambda t: t is None)[0]
    types = [typeof(y) for y in pytree.leaves(output)]
    dtype = np.result_type(*[t.dtype for t in types if t.inexact])
    given = [
        np.zeros(t.size, dtype) if g is None else cast(reshape(g, shape=(t.size,)), dtype)
        for g, t in zip(seeds, types, strict=True)
        if t.inexact
    ]
    joined = concatenate(*given, axis=0) if len(given) > 1 else given[0]
    column = reshape(joined, shape=(typeof(joined).size, 1))
    result: list[Any] = [None] * len(leaves)
    found = iter(matrices)
    for i, (x, want) in enumerate(zip(leaves, flags, strict=True)):
        if not want:
            continue
        type_ = typeof(x)
        row = reduce_sum(mul(next(found), column), axes=(0,))
        row = real(row) if typeof(row).dtype.kind == "c" else row
        if type_.dtype.kind == "c":  # the gradient of a + ib is df/da - i df/db
            n = type_.size
            by_real, by_imaginary = (
                slice_axis(row, axis=0, start=start, stop=start + n) for start in (0, n)
            )
            row = sub(by_real, mul(by_imaginary, 1j))
        result[i] = reshape(cast(row, type_.dtype), shape=type_.shape)
    return tuple(pytree.unflatten(treedef, result))


def _gradient_type(x: Any) -> Type:
    return strong_type(typeof(x))


def _as_tuple(found: Any, count: int) -> tuple[Any, ...]:
    if isinstance(found, tuple) and len(found) == count:
        return found
    if count == 1:
        return (found,)
    raise StructureMismatchError(
        f"The vjp of an external function of {count} arguments has to return a tuple with {count} "
        f"cotangents, not {type(found).__name__}."
    )


def external(
    f: Callable[..., Any] | None = None,
    *,
    vjp: Callable[..., Any] | str | None = None,
    jvp: Callable[..., Any] | None = None,
    shape: Any = None,
    vectorized: bool = False,
    sparsity: Any = None,
) -> Any:
    """Turns opaque code (compiled, a simulator) into a function that every transform accepts.

    >>> import math, numpy as np, fungrad as fg
    >>> gamma = fg.external(math.gamma, vjp="finite_differences", shape=fg.Type((), float))
    >>> round(float(fg.grad(lambda x: gamma(x) ** 2)(3.0)), 6)
    7.382275

    Args:
      f: a function of arrays, or trees of them, that returns arrays. It always gets NumPy's. If it
        has no rule of yours, other objects, and arguments by name, are constants.
      vjp: `vjp(cotangent, output, *args)` -> a cotangent for each argument (None for zero), opaque
        too; or "finite_differences" (central, one pair of runs for each element of an argument) or
        "complex_step" (for code that computes with complex numbers as with real ones: exact to
        rounding) or "differences" (the complex step where differences along one direction confirm
        it, else differences of fourth order whose step an estimate of the error chooses: four runs
        for each element); or another `external`, for higher orders.
      jvp: `jvp(primals, tangents)` -> the tangent of the output, opaque too.
      shape: the types of the result, if f is recorded without being run (jit, make_jaxpr): a
        `fg.Type`, a tree of them, or a function of the arguments' Types that returns one.
      vectorized: whether f takes further leading axes, the same on all arguments. Then `vmap` calls
        it once; otherwise once for each example.
      sparsity: which entries of its Jacobian may differ from zero, for `fg.sparse`: a sparse or
        dense matrix (elements of the result, elements of the argument), a tuple with one for each
        argument (None: all entries), or a function of the arguments' Types that returns one. It is
        not checked (but see `check=` of `fg.sparse.jacobian`).

    Raises:
      MissingRuleError: if it is differentiated without a rule.
      StructureMismatchError: if the result differs from the declared one.
      GradientCheckError: if the complex step is no derivative of f, as differences along one
        direction show at its first use; or if two steps of "differences" disagree.

    Steps: Press et al., Numerical Recipes 5.7 (cube root of the precision); complex step: Squire
    and Trapp, SIAM Review 40 (1998) 110.
    """
    if isinstance(vjp, str) and vjp not in NUMERIC:
        raise ArgumentError(
            f"vjp={vjp!r} is neither a function nor one of {', '.join(map(repr, NUMERIC))}."
        )
    if f is None:
        return lambda g: External(g, vjp, jvp, shape, vectorized, sparsity)
    return External(f, vjp, jvp, shape, vectorized, sparsity)


@boundary
def pure_callback(
    f: Callable[..., Any],
    result_types: Any,
    *args: Any,
    vectorized: bool = False,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function of arrays from traced code.

    >>> import numpy as np, fungrad as fg
    >>> sort = fg.jit(lambda x: fg.pure_callback(np.sort, fg.Type((3,), float), x))
    >>> sort(np.array([3.0, 1.0, 2.0]))
    array([1., 2., 3.])

    Args:
      f: the function; pure, since it may be called any number of times.
      result_types: a tree of `fg.Type`, or of anything with a shape and a dtype.
      *args, **kwargs: trees of arrays.
      vectorized: as in `external`.
      vmap_method: JAX's spelling: "sequential", or "expand_dims" or "broadcast_all" for vectorized.

    Raises:
      MissingRuleError: if it is differentiated; use `external` to give a rule.
    """
    if vmap_method not in (
        None,
        "sequential",
        "sequential_unrolled",
        "expand_dims",
        "broadcast_all",
    ):
        raise ArgumentError(f"vmap_method={vmap_method!r} is not known.")
    wide = vectorized or vmap_method in ("expand_dims", "broadcast_all")
    return _call(f, args, kwargs, result_types, wide)
