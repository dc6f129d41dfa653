"""custom_root, custom_linear_solve, fixed_point: solvers, and how they are differentiated.

By the implicit function theorem, f(x(p), p) = 0 implies dx = -(df/dx)^-1 (df/dp) dp, independent of
how x was found. The solver is never differentiated; in eager mode it is called on arrays, so that
it may be any code. `iterate`, the search of fixed_point, has no derivative itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad.control_flow.call import run
from fungrad.custom_rules.closures_and_arguments import captured, valueless
from fungrad.custom_rules.custom_vjp_jvp import Custom
from fungrad.errors import ArgumentError, MissingRuleError, StructureMismatchError
from fungrad.ir.graph import Graph
from fungrad.primitives.elementwise.family import add, neg, sub
from fungrad.primitives.movement.reshape_broadcast_cast import with_batch
from fungrad.primitives.primitive import Primitive
from fungrad.retracing.graph_transforms import batch
from fungrad.support import pytree
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe
from fungrad.tracing.trace import EVAL, Tracer, current, typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.arguments import Flat, flat_results
from fungrad.transforms.grad import jvp, vjp


def iterate(step: Callable[[Any], Any], start: Any, tol: float, maxiter: int) -> Any:
    """The fixed point of a function of a tree: run on arrays, otherwise one equation."""
    leaves, treedef = pytree.flatten(start)

    def flat(*values: Any) -> list[Any]:
        return pytree.leaves(step(pytree.unflatten(treedef, values)))

    if current() is EVAL:
        solution = _search(lambda xs: flat(*xs), leaves, tol, maxiter)
    else:
        graph, closure = captured(flat, leaves, step)
        constants = len(closure)
        solution = list(
            iteration(*closure, *leaves, graph=graph, constants=constants, tol=tol, maxiter=maxiter)
        )
    return pytree.unflatten(treedef, solution)


def _search(
    f: Callable[[Sequence[Any]], Sequence[Any]], x: Sequence[Any], tol: float, maxiter: int
) -> list[Any]:
    for _ in range(maxiter):
        new = list(f(x))
        done = all(
            np.all(np.abs(np.subtract(b, a)) <= tol * (1.0 + np.abs(a)))
            for a, b in zip(x, new, strict=True)
        )
        x = new
        if done:
            return new
        if not all(np.all(np.isfinite(v)) for v in new):
            break
    raise ArgumentError(
        f"The iteration of a fixed point has not converged within maxiter={maxiter} steps and the "
        f"tolerance {tol}, or met NaN or infinity. The function has to be a contraction near the "
        "solution: damp it, begin nearer, or raise maxiter or tol."
    )


def _eval(*args: Any, graph: Graph, constants: int, tol: float, maxiter: int) -> tuple[Any, ...]:
    fixed, start = args[:constants], args[constants:]
    return tuple(_search(lambda xs: list(run(graph, [*fixed, *xs])), start, tol, maxiter))


def _batch(
    args: Sequence[Any], batched: Sequence[bool], size: int,
    *, graph: Graph, constants: int, tol: float, maxiter: int,
) -> Any:  # fmt: skip
    flags = [*batched[:constants], *([True] * (len(args) - constants))]
    values = [
        x if b == flag else with_batch(x, b, size)
        for x, b, flag in zip(args, batched, flags, strict=True)
    ]
    inner = batch(graph, flags, size, all_outputs=True).graph
    return iteration(*values, graph=inner, constants=constants, tol=tol, maxiter=maxiter)


iteration: Primitive = Primitive(
    "fixed_point",
    eval=_eval,
    type=lambda *types, graph, constants, tol, maxiter: tuple(graph.output_types),
    batch=_batch,
    cuts=True,
    multiple=True,
)
"""`fixed_point(*constants, *start, graph=, constants=, tol=, maxiter=)`: the Graph, applied to its
own outputs until they no longer change."""


Solve = Callable[..., Any]


class _Closed:
    """A function of one tree that takes the traced values it closes over as an argument."""

    def __init__(self, f: Callable[[Any], Any], example: Any, what: str) -> None:
        leaves, treedef = pytree.flatten(example)
        flat = Flat(lambda values: f(pytree.unflatten(treedef, values)))
        graph: Graph
        graph, self.closure = captured(flat, leaves, f)
        _require_same(what, f, treedef, leaves, flat.out, graph)
        self._graph = graph
        self._treedef = flat.out

    def __call__(self, closure: Sequence[Any], x: Any) -> Any:
        return pytree.unflatten(self._treedef, evaluate(self._graph, [*closure, *pytree.leaves(x)]))


def _require_same(
    what: str, f: Any, treedef: pytree.TreeDef, leaves: Any, out: pytree.TreeDef, graph: Graph
) -> None:
    expected = [(typeof(x).shape, typeof(x).dtype) for x in leaves]
    if out != treedef or [(t.shape, t.dtype) for t in graph.output_types] != expected:
        raise StructureMismatchError(
            f"{what} {describe(f)} has to return a tree of the types of its argument.\n  argument: "
            f"{pytree.unflatten(treedef, [typeof(x) for x in leaves])}\n  result:   "
            f"{pytree.unflatten(out, graph.output_types)}"
        )


def _held(solve: Solve, b: Any) -> list[Tracer]:
    """The traced values that a solver closes over. If values are unknown, they are found by a call
    with the identity; otherwise when the solver runs.
    """
    if not valueless():
        return []
    leaves, treedef = pytree.flatten(b)

    def flat(*values: Any) -> list[Any]:
        return flat_results(solve(lambda x: x, pytree.unflatten(treedef, values)))[0]

    return captured(flat, leaves, solve)[1]


def _pushed(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return jvp(f, primals, tangents)[1]


def _moved(closure: Sequence[Any], tangents: Sequence[Any]) -> bool:
    return any(t is not None for t in pytree.leaves(list(tangents)))


@boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Solve,
    tangent_solve: Solve,
    has_aux: bool = False,
) -> Any:
    """The solution x of f(x) = 0, differentiated with respect to the values that f closes over.

    >>> import numpy as np, fungrad as fg
    >>> def newton(f, x):
    ...     for _ in range(50):
    ...         x = x - f(x) / fg.grad(f)(x)
    ...     return x
    >>> def square_root(a):
    ...     return fg.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> round(float(fg.grad(square_root)(4.0)), 12)
    0.25

    Args:
      f: a function from a tree to a tree of the same types; written so that it can be traced.
      initial_guess: the start of `solve`; the solution does not depend on it.
      solve: `solve(f, initial_guess)` -> x. Any code: in eager mode it gets arrays. Values that it
        closes over are constants for it: the derivative is that of the equation f(x) = 0.
      tangent_solve: `tangent_solve(g, y)` -> the solution of g(x) = y for a linear g; traced, as
        `lambda g, y: y / g(1.0)` for numbers, or `np.linalg.solve(fg.jacobian(g)(y), y)` for
        vectors.
      has_aux: whether solve returns (x, aux); aux is not differentiated.

    Raises:
      StructureMismatchError: if f returns other types than those of its argument.

    Implicit function theorem; Blondel et al., Efficient and Modular Implicit Differentiation
    (2022), eq. 2.
    """
    if current() is EVAL:
        return solve(f, initial_guess)
    closed = _Closed(f, initial_guess, "custom_root: the function")

    def find(closure: Sequence[Any], guess: Any) -> Any:
        solution = solve(lambda x: closed(closure, x), guess)
        return solution if has_aux else (solution, None)

    def rule(primals: Any, tangents: Any) -> Any:
        closure, guess = primals
        x, aux = solution(closure, guess)
        if not _moved(closure, tangents[0]):
            return (x, aux), (None, None)
        residual = _pushed(lambda c: closed(c, x), [closure], [tangents[0]])
        dx = tangent_solve(lambda v: _pushed(lambda z: closed(closure, z), [x], [v]), residual)
        return (x, aux), (pytree.map(neg, dx), None)

    solution = Custom(find, ())
    solution.defjvp(rule, symbolic_zeros=True)
    solution.held = _held(tangent_solve, initial_guess)
    x, aux = solution(closed.closure, initial_guess)
    return (x, aux) if has_aux else x


@boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solve,
    transpose_solve: Solve | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of matvec(x) = b, differentiable in b and in what matvec closes over.

    >>> import numpy as np, fungrad as fg
    >>> def solve(matvec, b):   # by SciPy's conjugate gradients, for example
    ...     return b / matvec(np.ones(2))
    >>> def f(scale):
    ...     matvec = lambda x: scale * x
    ...     return np.sum(fg.custom_linear_solve(matvec, np.ones(2), solve, symmetric=True))
    >>> float(fg.grad(f)(2.0))
    -0.5

    Args:
      matvec: a linear function from a tree to a tree of the types of b; traced.
      b: the right-hand side.
      solve: `solve(matvec, b)` -> x. Any code: in eager mode it gets arrays. Values that it
        closes over, such as a factorisation, are constants for it: the derivative is that of the
        equation.
      transpose_solve: the same for the transposed matvec; needed in reverse mode.
      symmetric: whether matvec is its own transpose, so that `solve` solves both equations.
      has_aux: whether the solvers return (x, aux); aux is not differentiated.

    Raises:
      MissingRuleError: in reverse mode, if neither transpose_solve nor symmetric is given.
      StructureMismatchError: if matvec returns other types than those of b.
    """
    if current() is EVAL:
        return solve(matvec, b)
    closed = _Closed(matvec, b, "custom_linear_solve: the function")
    backwards = solve if symmetric else transpose_solve
    both = () if backwards is None or backwards is solve else (solve, backwards)
    held = [tracer for solver in both for tracer in _held(solver, b)]
    solution = _linear_solution(closed, solve, backwards, symmetric, has_aux, held)
    x, aux = solution(closed.closure, b)
    return (x, aux) if has_aux else x


def _linear_solution(
    matvec: Callable[..., Any],
    solve: Solve,
    backwards: Solve | None,
    symmetric: bool,
    has_aux: bool,
    held: Sequence[Tracer],
) -> Custom:
    """The function (closure, b) -> (x, aux) with the rules of a linear equation in both modes."""

    def find(closure: Sequence[Any], b: Any) -> Any:
        solution = solve(lambda x: matvec(closure, x), b)
        return solution if has_aux else (solution, None)

    def transposed(closure: Sequence[Any], y: Any) -> Any:
        if symmetric:
            return matvec(closure, y)
        return vjp(lambda x: matvec(closure, x), pytree.map(lambda v: v * 0, y))[1](y)[0]

    def push(primals: Any, tangents: Any) -> Any:
        closure, b = primals
        x, aux = solution(closure, b)
        right = pytree.map(_zero_like, b) if tangents[1] is None else _filled(tangents[1], b)
        if _moved(closure, tangents[0]):
            right = pytree.map(
                sub, right, _pushed(lambda c: matvec(c, x), [closure], [tangents[0]])
            )
        return (x, aux), (solution(closure, right)[0], None)

    def forward(closure: Sequence[Any], b: Any, wanted: Any) -> Any:
        x, aux = solution(closure, b)
        return (x, aux), (closure, x)

    def backward(saved: Any, cotangent: Any, wanted: Any) -> Any:
        closure, x = saved
        if backwards is None:
            raise MissingRuleError(
                "custom_linear_solve is differentiated in reverse mode, which has to solve the "
                "transposed equation: give transpose_solve, or symmetric=True."
            )
        back = _linear_solution(transposed, backwards, solve, symmetric, has_aux, held)
        y = back(closure, cotangent[0])[0]
        if not any(pytree.leaves(wanted[0])):
            return None, y
        pulled = vjp(lambda c: matvec(c, x), closure)[1](pytree.map(neg, y))[0]
        return pulled, y

    solution = Custom(find, ())
    solution.defjvp(push, symbolic_zeros=True)
    solution.defvjp(forward, backward, wanted=True)
    solution.held = held
    return solution


def _zero_like(x: Any) -> Any:
    return x * 0


def _filled(tangent: Any, like: Any) -> Any:
    """A tangent with zeros for None."""
    leaves, treedef = pytree.flatten(like)
    given = pytree.broadcast_prefix(tangent, treedef, "the tangent")
    return pytree.unflatten(
        treedef, [_zero_like(x) if t is None else t for x, t in zip(leaves, given, strict=True)]
    )


@boundary
def fixed_point(
    f: Callable[..., Any], x0: Any, *params: Any, tol: float = 1e-10, maxiter: int = 1000
) -> Any:
    """The fixed point x = f(x, *params), found by iterating f and differentiated implicitly.

    >>> import numpy as np, fungrad as fg
    >>> def square_root(a):                      # Heron's method
    ...     return fg.fixed_point(lambda x, a: 0.5 * (x + a / x), 1.0, a)
    >>> round(float(fg.grad(square_root)(4.0)), 9)
    0.25

    Args:
      f: a contraction near the solution: from a tree x and parameters to a tree of the types of x.
      x0: the start of the iteration; the solution does not depend on it.
      *params: trees; f may also close over traced values.
      tol: the iteration ends when no element of x changes by more than this, relative to 1 + |x|.
      maxiter: the most steps.

    Returns:
      x. Both modes and any order; the derivative solves its linear equation by the same kind of
      iteration.

    Raises:
      StructureMismatchError: if f returns other types than those of x0.
      ArgumentError: if the iteration has not ended after maxiter steps, or met NaN.

    Christianson, Reverse accumulation and attractive fixed points (1994).
    """
    if not tol > 0.0 or maxiter < 1:
        raise ArgumentError(
            f"fixed_point takes a positive tol and maxiter, not {tol!r} and {maxiter!r}."
        )

    def step(x: Any) -> Any:
        return f(x, *params)

    if current() is EVAL:
        return iterate(step, x0, tol, maxiter)
    closed = _Closed(step, x0, "fixed_point: the function")

    def find(closure: Sequence[Any], start: Any) -> Any:
        return iterate(lambda x: closed(closure, x), start, tol, maxiter)

    def solve(matvec: Callable[..., Any], b: Any) -> Any:
        """Solves v - J v = b by v <- b + J v, which contracts as f does."""
        return iterate(lambda v: pytree.map(add, v, pytree.map(sub, b, matvec(v))), b, tol, maxiter)

    def push(primals: Any, tangents: Any) -> Any:
        closure, start = primals
        x = solution(closure, start)
        if not _moved(closure, tangents[0]):
            return x, None
        right = _pushed(lambda c: closed(c, x), [closure], [tangents[0]])

        def matvec(v: Any) -> Any:
            return pytree.map(sub, v, _pushed(lambda z: closed(closure, z), [x], [v]))

        return x, custom_linear_solve(matvec, right, solve, solve)

    solution = Custom(find, ())
    solution.defjvp(push, symbolic_zeros=True)
    return solution(closed.closure, x0)


__all__ = ["iterate", "iteration"]
