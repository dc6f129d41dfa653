"""Control flow as functions of Python functions and trees, with JAX's signatures.

Each stages its functions once, checks that the types fit, and calls a structural primitive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fungrad import debugging
from fungrad.control_flow import scan as structural_scan
from fungrad.control_flow import switch as branch
from fungrad.control_flow import while_loop as loop
from fungrad.control_flow.loop_reverse import check_checkpoint
from fungrad.errors import ArgumentError, StructureMismatchError
from fungrad.ir.graph import Graph, Variable
from fungrad.ir.types import Type
from fungrad.lax.carry_types import carry_body, check_same, check_tree, shared, strong_leaf
from fungrad.numpy.protocol.implements import as_array
from fungrad.retracing.graph_transforms import stage_variant
from fungrad.retracing.interned import interned
from fungrad.retracing.staging import Staged, names_of, stage_tree, types_of
from fungrad.support import pytree
from fungrad.tracing.interpreter import evaluate
from fungrad.tracing.source_location import describe, user_line
from fungrad.tracing.trace import is_integer, typeof
from fungrad.tracing.transformed_function import boundary
from fungrad.transforms.vmap_and_staging import vmap

_NOTHING: tuple[list[Any], pytree.TreeDef, list[Type]] = ([], pytree.structure(()), [])


@boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    checkpoint: str | int | None = None,
    callback: Callable[[int, Any], Any] | None = None,
) -> Any:
    """Applies a body to a carry as long as a condition on it holds.

    Args:
      cond_fun: carry -> one boolean.
      body_fun: carry -> the next carry, a tree of the same structure, shapes and dtypes.
      init_val: the first carry.
      checkpoint: the values that reverse mode keeps: None, the residuals of each step; "binomial",
        O(log n) carries, and each step runs O(log n) times; a number of bytes, as many carries as
        fit.
      callback: as in `scan`.

    Returns:
      The first carry for which the condition does not hold. Both modes of differentiation work,
      for any number of steps.

    Raises:
      StructureMismatchError: if the body does not return a carry, or the condition a boolean.

    >>> import numpy as np, fungrad as fg
    >>> def newton_sqrt(a):
    ...     step = lambda x: 0.5 * (x + a / x)
    ...     return while_loop(lambda x: np.abs(x * x - a) > 1e-12, step, a)
    >>> round(float(fg.grad(newton_sqrt)(4.0)), 9)
    0.25
    """
    check_checkpoint(checkpoint)
    if callback is not None:
        told = _told(lambda carry, _: (body_fun(carry), None), body_fun, callback)
        following = functools.wraps(body_fun)(lambda numbered: told(numbered, None)[0])
        return while_loop(
            lambda c: cond_fun(c[1]), following, (0, init_val), checkpoint=checkpoint
        )[1]  # fmt: skip
    body, carry, treedef, types = carry_body(
        body_fun, lambda both: body_fun(both[0]), init_val, _NOTHING, "the body of while_loop"
    )
    what = f"The body {describe(body_fun)} of while_loop has to return a carry like the one it gets"
    check_tree(what, treedef, body.out)
    check_same(what, "carry in", "carry out", types, body.types, treedef)
    cond = _condition(cond_fun, treedef, types)
    out = loop.while_loop(
        *cond.captured, *body.captured, *carry,
        cond=cond.graph, body=body.graph, counts=(len(cond.captured), len(body.captured)),
        checkpoint=checkpoint,
    )  # fmt: skip
    return pytree.unflatten(treedef, out)


def _condition(cond_fun: Callable[[Any], Any], treedef: Any, types: Sequence[Type]) -> Staged:
    """The staged condition of a while_loop, checked to be one boolean."""
    names = names_of(treedef, "carry")
    cond = shared(
        stage_tree(
            cond_fun, cond_fun, treedef, types, names, "the condition of while_loop", rows=set()
        )
    )
    if len(cond.types) != 1 or cond.types[0].shape != () or cond.types[0].dtype != np.bool_:
        raise StructureMismatchError(
            f"The condition {describe(cond_fun)} of while_loop has to return one "
            f"boolean{user_line()}, but it returned {cond.types}."
        )
    return cond


@boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | None = None,
    callback: Callable[[int, Any], Any] | None = None,
) -> Any:
    """Applies `carry = body_fun(i, carry)` for i = lower, ..., upper - 1.

    With known bounds it is a scan, with traced ones a while_loop; both are differentiable.

    Args:
      lower, upper: integers; upper is exclusive.
      body_fun: (i, value) -> the next value.
      init_val: a tree, the first value.
      unroll, callback: as in `scan`.

    >>> int(fori_loop(0, 5, lambda i, total: total + i, 0))
    10
    """
    if is_integer(lower) and is_integer(upper):
        whole = np.result_type(np.asarray(lower), np.asarray(upper))
        (_, result), _ = scan(
            functools.wraps(body_fun)(lambda c, _: ((c[0] + 1, body_fun(*c)), None)),
            (whole.type(lower), init_val),
            length=max(int(upper) - int(lower), 0),
            unroll=unroll or 1,
            callback=None if callback is None else lambda step, c: callback(step, c[1]),
        )
        return result
    first = np.int64(lower) if issubclass(type(lower), int) else lower
    _, _, result = while_loop(
        lambda c: c[0] < c[1],
        functools.wraps(body_fun)(lambda c: (c[0] + 1, c[1], body_fun(c[0], c[2]))),
        (first, upper, init_val),
        callback=None if callback is None else lambda step, c: callback(step, c[2]),
    )
    return result


@boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    checkpoint: str | int | None = None,
    callback: Callable[[int, Any], Any] | None = None,
) -> tuple[Any, Any]:
    """Applies `carry, y = f(carry, x)` along the leading axis of xs, and stacks the ys.

    Args:
      f: (carry, x) -> (next carry, y); the next carry has the structure, shapes and dtypes of the
        carry.
      init: the first carry, a tree.
      xs: a tree of arrays with a common length of axis 0; None with `length` steps and x = None.
      length: the number of steps; needed if xs is None.
      reverse: whether to go from the last x to the first; ys stay in the order of xs.
      unroll: how many steps a backend may run at once; does not change values.
      checkpoint: the values that reverse mode keeps: None, the residuals of each step; "binomial",
        O(log n) carries, and each step runs O(log n) times; a number of bytes, as many carries as
        fit.
      callback: called as `callback(number of steps done, carry)` after each step, with a number
        and arrays, for its side effects (a progress bar); also in a compiled loop, and in the
        forward pass of a derivative. Under `vmap` of the carry it is called for each example.

    Returns:
      (the last carry, the stacked ys).

    Raises:
      StructureMismatchError: if f returns a carry of another structure or type.

    >>> import numpy as np
    >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, np.arange(1.0, 4.0))
    >>> float(total), sums
    (6.0, array([1., 3., 6.]))
    """
    check_checkpoint(checkpoint)
    if callback is not None:
        (_, last), stacked = scan(
            _told(f, f, callback), (0, init), xs, length, reverse, unroll, checkpoint=checkpoint
        )
        return last, stacked
    x_leaves, x_def, x_types = types_of(xs, "xs")
    count = _scan_length(x_types, x_def, length)
    slices = [Type(t.shape[1:], t.dtype) for t in x_types]
    body, carry, treedef = _step(f, init, x_def, slices)
    n = len(carry)
    out = structural_scan.scan(
        *body.captured, *carry, *x_leaves,
        body=body.graph, counts=(len(body.captured), n), length=count, reverse=bool(reverse),
        unroll=int(unroll), checkpoint=checkpoint,
    )  # fmt: skip
    return pytree.unflatten(treedef, out[:n]), pytree.unflatten(body.out.children[1], out[n:])


def _step(f: Any, init: Any, x_def: Any, slices: list[Type]) -> tuple[Staged, list[Any], Any]:
    """The staged body of a scan, with the carry checked; the first carry, and its structure."""
    body, carry, treedef, types = carry_body(
        f, lambda both: _pair(f, f(*both)), init, ([], x_def, slices), "the body of scan"
    )
    what = f"The body {describe(f)} of scan has to return a carry like the one it gets"
    check_tree(what, treedef, body.out.children[0])
    check_same(what, "carry in", "carry out", types, body.types[: len(carry)], treedef)
    return body, carry, treedef


def _told(f: Callable[..., Any], named: Any, callback: Callable[[int, Any], Any]) -> Any:
    """A body that counts its steps in the carry, and calls the callback after each; errors show
    the name of the user's function.
    """

    @functools.wraps(named)
    def body(numbered: Any, x: Any) -> Any:
        count, carry = numbered
        after, y = _pair(named, f(carry, x))
        debugging.callback(lambda done, value: callback(int(done), value), count + 1, after)
        return (count + 1, after), y

    return body


def _pair(f: Any, out: Any) -> Any:
    """The results of a body, checked to be a carry and a y."""
    if not (isinstance(out, tuple) and len(out) == 2):
        described = f"{len(out)} values" if isinstance(out, tuple) else f"{type(out).__name__}"
        raise StructureMismatchError(
            f"The body {describe(f)} of scan has to return a pair (carry, y), but it returned "
            f"{described}{user_line()}."
        )
    return out


def _scan_length(types: Sequence[Type], treedef: Any, length: int | None) -> int:
    """The number of steps by xs and `length`."""
    lengths = {} if length is None else {int(length): "length"}
    for type_, path in zip(types, pytree.paths(treedef), strict=True):
        if not type_.shape:
            raise ArgumentError(
                f"xs{path} of scan has no axis to scan over{user_line()}: it is {type_}."
            )
        lengths.setdefault(type_.shape[0], f"xs{path}")
    if len(lengths) != 1:
        told = (
            ", ".join(f"{name}: {n}" for n, name in lengths.items())
            or "neither xs nor length was given"
        )
        raise ArgumentError(f"scan needs one number of steps{user_line()} ({told}).")
    return next(iter(lengths))


@boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Applies f to each slice of xs along axis 0, one after the other, and stacks the results.

    With `batch_size` as many slices at once by vmap: less memory than vmap of all, less time than
    one by one.

    Args:
      f: a function of one slice; it returns a tree of arrays.
      xs: a tree of arrays with the same length of axis 0.
      batch_size: the number of slices at once; None for one. It need not divide the length.

    >>> import numpy as np
    >>> map(lambda x: x**2, np.arange(3.0))
    array([0., 1., 4.])
    """
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ArgumentError(
            f"lax.map was called with batch_size={batch_size!r}{user_line()}, which has to be a "
            "whole number, 1 or more; leave it out to go one by one."
        )
    _, treedef, types = types_of(xs, "xs")
    count = _scan_length(types, treedef, None)
    whole = count - count % batch_size
    batched = pytree.map(lambda x: x[:whole].reshape(-1, batch_size, *x.shape[1:]), xs)
    parts = scan(lambda _, x: ((), vmap(f)(x)), (), batched)[1]
    done = pytree.map(lambda y: y.reshape(-1, *y.shape[2:]), parts)
    if whole == count:
        return done
    rest = vmap(f)(pytree.map(lambda x: x[whole:], xs))
    return pytree.map(lambda a, b: np.concatenate([a, b]), done, rest)


# --- branches
# ----------------------------------------------------------------------------------------------


@boundary
def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Applies `true_fun` to the operands where `pred` holds, else `false_fun`.

    Args:
      pred: one boolean or number, traced or not.
      true_fun, false_fun: functions of the operands that return trees of the same structure and
        types.
      *operands: trees of arrays.

    Raises:
      StructureMismatchError: if the branches return different types.

    >>> float(cond(True, lambda x: x + 1, lambda x: x - 1, 3.0))
    4.0
    """
    pred = as_array(pred)
    type_ = typeof(pred)
    if type_.shape != ():
        raise ArgumentError(
            f"The predicate of cond has to be one boolean, not {type_}{user_line()}."
        )
    index = pred if type_.dtype == np.bool_ else pred != 0
    return _switch(index, [false_fun, true_fun], operands, "cond", ("false_fun", "true_fun"))


@boundary
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Applies the branch number `index` to the operands.

    Args:
      index: an integer, clamped to the branches.
      branches: functions of the operands that return the same types.
      *operands: the arguments of the branch.

    Raises:
      StructureMismatchError: if the branches return different types.

    >>> float(switch(1, [lambda x: x, lambda x: 2 * x], 3.0))
    6.0
    """
    index = as_array(index)
    type_ = typeof(index)
    if type_.shape != () or type_.dtype.kind not in "iu":
        raise ArgumentError(f"The index of switch has to be one integer, not {type_}{user_line()}.")
    if not branches:
        raise ArgumentError("switch needs at least one branch.")
    names = tuple(f"branch {i}" for i in range(len(branches)))
    return _switch(index, branches, operands, "switch", names)


def _switch(
    index: Any,
    functions: Sequence[Callable[..., Any]],
    operands: Any,
    what: str,
    names: Sequence[str],
) -> Any:
    """Applies one of several functions of the same operands, each staged once."""
    leaves, treedef, types = types_of(operands, "operands")
    where = names_of(treedef, "operands")

    def staged_branch(f: Callable[..., Any]) -> Staged:
        return stage_tree(f, lambda args: f(*args), treedef, types, where, f"a branch of {what}")

    staged = [staged_branch(f) for f in functions]
    first = staged[0]
    message = f"The branches of {what} have to return the same types"
    for name, other in zip(names[1:], staged[1:], strict=True):
        if other.out != first.out:
            raise StructureMismatchError(
                f"{message}{user_line()}: the structures differ, first at "
                f"{pytree.difference(first.out, other.out)}.\n  {names[0]}: {first.out}\n  {name}: "
                f"{other.out}"
            )
    wanted = [_common(column) for column in zip(*(s.types for s in staged), strict=True)]
    for name, other in zip(names[1:], staged[1:], strict=True):
        if any(t is None for t in wanted):
            check_same(message, names[0], name, first.types, other.types, first.out)
    captured = [value for s in staged for value in s.captured]
    graphs = []
    start = 0
    for s in staged:
        graphs.append(_branch(s, captured, start, wanted))
        start += len(s.captured)
    out = branch.switch(index, *captured, *leaves, branches=tuple(graphs))
    return pytree.unflatten(first.out, out)


def _common(types: Sequence[Type]) -> Type | None:
    """The common type of an output in all branches (Python numbers take the arrays' type), or
    None.
    """
    firm = {(t.shape, t.dtype) for t in types if not t.weak}
    if not firm:
        return types[0] if len(set(types)) == 1 else None
    shape, dtype = next(iter(firm))
    fits = len(firm) == 1 and all(
        not t.weak or (shape == () and np.can_cast(t.dtype, dtype, "same_kind")) for t in types
    )
    return Type(shape, dtype) if fits else None


def _branch(staged: Staged, captured: Sequence[Any], start: int, wanted: Sequence[Any]) -> Graph:
    """The Graph of a branch as a function of the captured values of all branches, and the
    operands.
    """
    own = len(staged.captured)
    others = [Variable(typeof(value)) for value in captured]
    graph = staged.graph
    inputs = (*others[:start], *graph.inputs[:own], *others[start + own :], *graph.inputs[own:])
    whole = interned(graph.replace(inputs=inputs))
    if list(graph.output_types) == list(wanted):
        return whole
    return stage_variant(
        whole, "cast", whole.input_types,
        lambda *xs: [strong_leaf(x, t) for x, t in zip(evaluate(whole, xs), wanted, strict=True)],
        "a branch",
    )  # fmt: skip


__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
