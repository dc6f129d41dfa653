"""Sparse Jacobians and Hessians of plain NumPy functions as SciPy's sparse arrays, and problems in
the form of cyipopt.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Any

import numpy as np

from fungrad.compiler.captured_state import CapturedState, warn_of_changes
from fungrad.compiler.jit import jit
from fungrad.errors import AbstractValueError, ArgumentError
from fungrad.ir.types import Type
from fungrad.sparse.compressed import (
    Compressed,
    found_pattern,
    hessian_plan,
    jacobian_plan,
    rows_of,
)
from fungrad.sparse.derivative import Arguments, Derivative, forward, second
from fungrad.sparse.patterns import scipy_sparse
from fungrad.support import pytree
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import EVAL, Tracer, current
from fungrad.tracing.transformed_function import TransformedFunction
from fungrad.transforms.arguments import check_differentiated, plain
from fungrad.transforms.grad import grad

PLANS = 32
"""The most plans, for arguments of different types, that a function keeps."""

Planner = Callable[[Arguments], Compressed]


class Plans:
    """The most recently used plans of one function."""

    def __init__(self, make: Planner, f: Callable[..., Any], verb: str) -> None:
        self._make = make
        self._f = f
        self._verb = verb
        self._plans: OrderedDict[Any, Compressed] = OrderedDict()
        self._direct: dict[Any, Compressed] = {}
        """Plans by the keys of plain arguments, all of which are floating."""
        self._state = CapturedState(f, None)
        self._calls = 0

    def found(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Compressed, list[Any]]:
        """The plan for some arguments, and their floating leaves."""
        self._calls += 1
        if self._calls > self._state.due and current() is EVAL:
            self._renew(args, kwargs)
        leaves: list[Any] = []
        key: list[Any] = []
        short = not kwargs and current() is EVAL and plain(args, leaves, key)
        plan = self._direct.get(tuple(key)) if short else None
        if plan is not None:
            return plan, leaves
        plan, given = self.of(args, kwargs)
        same = len(leaves) == len(given.values) and not any(map(is_not, leaves, given.values))
        if short and same:  # otherwise there are other dtypes, or constants
            if len(self._direct) >= PLANS:
                self._direct.clear()
            self._direct[tuple(key)] = plan
        return plan, given.values

    def _renew(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Drops the plans if captured state has changed; warns if that for some arguments has."""
        changed = self._state.affecting(self, self._state.changed(self._calls))
        before = self._plans.get(Arguments(args, kwargs).key) if changed else None
        if changed:
            self._plans, self._direct = OrderedDict(), {}
        if before is not None:
            if self.of(args, kwargs)[0].content() == before.content():
                self._state.tolerate(self, changed)
            else:
                warn_of_changes(self._f, changed)

    def of(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Compressed, Arguments]:
        """The plan for some arguments, and their leaves."""
        given = Arguments(args, kwargs)
        if current() is not EVAL or any(type(leaf) is Tracer for leaf in given.leaves):
            raise AbstractValueError(
                f"{self._verb} of {describe(self._f)} makes a SciPy array{user_line()}, so it "
                "cannot be part of a traced function. Call it outside of jit, grad and vmap, or "
                "use fg.jacobian, fg.hessian, fg.jvp or fg.hvp here."
            )
        key = given.key
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(given)
            while len(self._plans) > PLANS:
                self._plans.popitem(last=False)
            self._state.keep(self._calls)
        else:
            self._plans.move_to_end(key)
        return plan, given


class SparseFunction(TransformedFunction):
    """The result of `fg.sparse.jacobian` and `hessian`: call it with f's arguments."""

    plans: Plans

    def pattern(self, /, *args: Any, **kwargs: Any) -> Any:
        """The entries that may differ from zero, as a scipy.sparse.csr_array of booleans."""
        return self.plans.of(args, kwargs)[0].pattern.copy()

    def colours(self, /, *args: Any, **kwargs: Any) -> np.ndarray:
        """The group of each column (of each row in reverse mode).

        One product computes all columns of a group; a call may run fewer reverse products instead.
        SciPy takes `jac_sparsity=(pattern, groups)` for finite differences.
        """
        return self.plans.of(args, kwargs)[0].groups.copy()


def jacobian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    *,
    mode: str = "auto",
    pattern: Any = None,
    format: str = "csr",
    check: bool = False,
) -> SparseFunction:
    """The Jacobian of f as a sparse array, by one product with a vector for each colour.

    The pattern is found from the traced program. It holds for every point: values in `if` and in
    boolean masks are refused as under `fg.jit`. Pattern, colours and compiled programs are made
    once for given types of the arguments and values of integers and booleans among them.

    Args:
      f: a pure function of trees of arrays that returns a tree of real arrays.
      argnums: which argument, or arguments, to differentiate with respect to; real.
      mode: "forward" (groups of columns, `fg.jvp`), "reverse" (groups of rows, `fg.vjp`) or "auto":
        the one with fewer products, where one in reverse counts twice.
      pattern: the entries that may differ from zero, if known: a sparse or dense matrix of shape
        (outputs, inputs). None finds them.
      format: of the result: "csr", "csc", "coo", ...
      check: whether to compare each result with one product with a random vector.

    Returns:
      A function with f's arguments. Its result has the shape (outputs, inputs), with elements in C
      order, and the dtype of the output; for trees it is the tree of the output, each leaf replaced
      by the tree of the argument with a block at each leaf. It has the methods `pattern(*args)` and
      `colours(*args)`.

    Raises:
      MissingExtraError: without SciPy.
      ArgumentError: if an input or output is not real, if the pattern is nearly dense and too
        large, or if `check` finds it too narrow.
      AbstractValueError: if called on traced values.

    Warns:
      DensePatternWarning: if more than a quarter of the entries may differ from zero; it names the
        operations that cause it.

    >>> import numpy as np
    >>> J = jacobian(lambda x: x[1:] * x[:-1])
    >>> J(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    >>> J.colours(np.zeros(3))
    array([0, 1, 0])
    """
    return _jacobian(f, argnums, mode, pattern, format, check, jacobian)


def value_and_jacobian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    *,
    mode: str = "auto",
    pattern: Any = None,
    format: str = "csr",
    check: bool = False,
) -> SparseFunction:
    """The function that returns (f(x), Jacobian).

    Args:
      f, argnums, mode, pattern, format, check: as for `fg.sparse.jacobian`.

    >>> import numpy as np
    >>> y, J = value_and_jacobian(np.sin)(np.zeros(3))
    >>> y, J.toarray()
    (array([0., 0., 0.]), array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]]))
    """
    return _jacobian(f, argnums, mode, pattern, format, check, value_and_jacobian)


def _jacobian(
    f: Callable[..., Any],
    argnums: Any,
    mode: str,
    pattern: Any,
    format: str,
    check: bool,
    verb: Callable[..., Any],
) -> SparseFunction:
    scipy_sparse()
    name = f"fg.sparse.{verb.__name__}"
    check_differentiated(f, argnums, name)
    if mode not in ("auto", "forward", "reverse"):
        raise ArgumentError(f'{name} got mode={mode!r}; it is "auto", "forward" or "reverse".')
    plans = Plans(lambda given: jacobian_plan(f, argnums, given, mode, pattern), f, name)
    return _function(verb, f, argnums, plans, format, check, mode=mode, pattern=pattern)


def _function(
    verb: Callable[..., Any], f: Any, argnums: Any, plans: Plans, format: str, check: bool,
    **options: Any,
) -> SparseFunction:  # fmt: skip
    """The result of a verb, which computes the derivative by the plan for its arguments."""

    def run(*args: Any, **kwargs: Any) -> Any:
        plan, values = plans.found(args, kwargs)
        outputs, entries = plan.at(values)
        if check:
            plan.check(values, entries)
        derivative = plan.derivative
        columns = derivative.inputs, derivative.call.inputs
        rows = columns if verb is hessian else (derivative.outputs, derivative.structure)
        types, structures = (rows[0], columns[0]), (rows[1], columns[1])
        blocks = _blocks(plan.matrix(entries), types, structures, format)
        if verb is not value_and_jacobian:
            return blocks
        return pytree.unflatten(derivative.structure, outputs), blocks

    result = SparseFunction(run, verb, f, argnums, format=format, check=check, **options)
    result.plans = plans
    return result


def hessian(
    f: Callable[..., Any],
    argnums: int | str | Sequence[int | str] = 0,
    *,
    pattern: Any = None,
    format: str = "csr",
    check: bool = False,
) -> SparseFunction:
    """The Hessian of a function that returns one number, as a sparse symmetric array.

    Each product is that of `fg.hvp`, forward mode over reverse mode. A star colouring needs fewer
    products than columns that share no row: 2 for an arrow matrix of any size.

    Args:
      f: a pure function of trees of arrays that returns one real number.
      argnums, pattern, format, check: as for `fg.sparse.jacobian`.

    Returns:
      A function with f's arguments. For one array its result has the shape (inputs, inputs); for a
      tree it is the argument's tree, with a tree of blocks at each leaf.

    >>> import numpy as np
    >>> H = hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))
    >>> H(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    scipy_sparse()
    check_differentiated(f, argnums, "fg.sparse.hessian")
    plans = Plans(lambda given: hessian_plan(f, argnums, given, pattern), f, "fg.sparse.hessian")
    return _function(hessian, f, argnums, plans, format, check, pattern=pattern)


def _blocks(
    matrix: Any,
    types: tuple[Sequence[Type], Sequence[Type]],
    structures: tuple[pytree.TreeDef, pytree.TreeDef],
    format: str,
) -> Any:
    """The matrix, or the tree of trees of its blocks."""
    if len(types[0]) == len(types[1]) == 1:
        parts = [[matrix.asformat(format)]]
    else:
        rows, columns = [np.cumsum([0, *(t.size for t in side)]).tolist() for side in types]
        parts = [
            [matrix[a:b, c:d].asformat(format) for c, d in itertools.pairwise(columns)]
            for a, b in itertools.pairwise(rows)
        ]
    return pytree.unflatten(structures[0], [pytree.unflatten(structures[1], row) for row in parts])


def jacobian_pattern(f: Callable[..., Any], *args: Any, argnums: Any = 0, **kwargs: Any) -> Any:
    """The entries of the Jacobian of f that may differ from zero, at any point.

    Args:
      f: a pure function that returns a tree of real arrays.
      args, kwargs: arguments of f; only the types of floating ones matter.
      argnums: which argument, or arguments, to differentiate with respect to.

    Returns:
      A scipy.sparse.csr_array of booleans of shape (outputs, inputs).

    >>> import numpy as np
    >>> jacobian_pattern(np.cumsum, np.zeros(3)).toarray()
    array([[ True, False, False],
           [ True,  True, False],
           [ True,  True,  True]])
    """
    scipy_sparse()
    check_differentiated(f, argnums, "fg.sparse.jacobian_pattern")
    given = Arguments(args, kwargs)
    return found_pattern(Derivative(f, argnums, given, "fg.sparse.jacobian_pattern", forward))


def hessian_pattern(f: Callable[..., Any], *args: Any, argnums: Any = 0, **kwargs: Any) -> Any:
    """The entries of the Hessian of f that may differ from zero, at any point.

    Args:
      f: a function that returns one real number.
      args, kwargs: arguments of f; their shapes and dtypes count.
      argnums: as in `grad`.

    >>> import numpy as np
    >>> hessian_pattern(lambda x: x[0] * x[1] + x[2], np.zeros(3)).toarray()
    array([[False,  True, False],
           [ True, False, False],
           [False, False, False]])
    """
    scipy_sparse()
    check_differentiated(f, argnums, "fg.sparse.hessian_pattern")
    given = Arguments(args, kwargs)
    pattern = found_pattern(Derivative(f, argnums, given, "fg.sparse.hessian_pattern", second))
    return pattern + pattern.T.tocsr()


class IpoptProblem:
    """Objective, constraints and their derivatives, by the names that `cyipopt.Problem` calls.

    Args:
      objective: f(x) -> a number, of a vector x.
      constraints: c(x) -> a vector, or None.
      x: a point, for the types; the patterns hold for every point.

    Pass it as `cyipopt.Problem(n, m, problem_obj=problem, lb=, ub=, cl=, cu=)`.

    >>> problem = IpoptProblem(lambda x: np.sum(x**2), lambda x: x[1:] * x[:-1], np.ones(3))
    >>> problem.gradient(np.ones(3))
    array([2., 2., 2.])
    >>> problem.jacobianstructure()
    (array([0, 0, 1, 1]), array([0, 1, 1, 2]))
    >>> problem.jacobian(np.array([1.0, 2.0, 3.0]))
    array([2., 1., 3., 2.])
    """

    def __init__(
        self,
        objective: Callable[[Any], Any],
        constraints: Callable[[Any], Any] | None,
        x: Any,
    ) -> None:
        def lagrangian(x: Any, multipliers: Any, factor: Any) -> Any:
            value = factor * objective(x)
            return value if constraints is None else value + multipliers @ constraints(x)

        x = np.asarray(x, np.float64)
        self.objective = jit(objective)
        self.gradient = jit(grad(objective))
        self._hessian = hessian(lagrangian)
        count = 0
        if constraints is not None:
            self.constraints = jit(constraints)
            self._jacobian = jacobian(constraints)
            pattern = self._jacobian.pattern(x)
            count = pattern.shape[0]
            self._jacobian_structure = _entries(pattern)
        pattern = self._hessian.pattern(x, np.ones(count), 1.0)
        rows, columns = _entries(pattern)
        self._lower = rows >= columns
        self._hessian_structure = rows[self._lower], columns[self._lower]

    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the constraints' Jacobian."""
        return self._jacobian_structure

    def jacobian(self, x: Any) -> np.ndarray:
        """The entries of the constraints' Jacobian."""
        entries: np.ndarray = self._jacobian(x).data
        return entries

    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the Lagrangian's Hessian (lower triangle)."""
        return self._hessian_structure

    def hessian(self, x: Any, multipliers: Any, factor: float) -> np.ndarray:
        """The entries of the Hessian of `factor * objective + multipliers @ constraints`."""
        entries: np.ndarray = self._hessian(x, multipliers, float(factor)).data
        return entries[self._lower]


def _entries(pattern: Any) -> tuple[np.ndarray, np.ndarray]:
    return rows_of(pattern), np.asarray(pattern.indices, np.int64)
