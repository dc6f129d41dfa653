"""Gradient descent methods as pairs of plain functions over trees: `fungrad.optimizers`.

An optimizer has `init(params)`, which returns its state, and `update(grads, state, params)`, which
returns the updates to add to the parameters, and the next state. Both are pure, so a whole training
step compiles (`fg.jit`), batches and differentiates. Names, arguments and formulas are optax's.

>>> import fungrad as fg
>>> def loss(params, x, y):
...     return np.mean((params["slope"] * x + params["offset"] - y) ** 2)
>>> x = np.linspace(0.0, 1.0, 20)
>>> optimizer = adam(0.1)
>>> @fg.jit
... def step(params, state):
...     value, grads = fg.value_and_grad(loss)(params, x, 3.0 * x - 1.0)
...     updates, state = optimizer.update(grads, state, params)
...     return apply_updates(params, updates), state, value
>>> params = {"slope": 0.0, "offset": 0.0}
>>> state = optimizer.init(params)
>>> for _ in range(300):
...     params, state, value = step(params, state)
>>> round(float(params["slope"]), 2), round(float(params["offset"]), 2)
(3.0, -1.0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fungrad.errors import ArgumentError
from fungrad.support import pytree
from fungrad.support.lazy import Record

Schedule = Callable[[Any], Any]
"""A learning rate as a function of the number of updates so far."""


class Optimizer(Record):
    """A pair of functions.

    Attributes:
      init: `init(params)`: the first state, a tree.
      update: `update(grads, state, params=None)`: (updates, state). Updates are added to the
        parameters, by `apply_updates`.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """params + updates, leaf by leaf, in the dtypes of the parameters.

    Args:
      params: a tree of arrays. updates: a tree of the same shape.

    >>> apply_updates([np.zeros(1)], [np.ones(1)])
    [array([1.])]
    """
    return pytree.map(lambda p, u: _as(p + u, p), params, updates)


def _as(x: Any, like: Any) -> Any:
    """x in the dtype of a parameter: the dtypes of states and rates must not widen it."""
    return np.asarray(x, np.result_type(like))


def _zeros(params: Any) -> Any:
    return pytree.map(lambda p: np.zeros(np.shape(p), np.result_type(p)), params)


def _rate(learning_rate: float | Schedule, count: Any) -> Any:
    return learning_rate(count) if callable(learning_rate) else learning_rate


def _counted() -> Any:
    return np.zeros((), np.int64)


def _average(averages: Any, values: Any, decay: float) -> Any:
    """decay * averages + (1 - decay) * values: an exponential moving average."""
    return pytree.map(lambda a, v: _as(decay * a + (1 - decay) * v, a), averages, values)


def _unbiased(averages: Any, decay: float, count: Any) -> Any:
    """Averages that started at zero, divided by the sum of their weights."""
    weight = 1 - decay**count
    return pytree.map(lambda a: a / _as(weight, a), averages)


def chain(*optimizers: Optimizer) -> Optimizer:
    """Applies transformations of gradients one after the other.

    Args:
      *optimizers: the first one gets the gradients, the others the updates of the one before.

    >>> optimizer = chain(clip_by_global_norm(1.0), sgd(0.5))
    >>> updates, _ = optimizer.update([np.array([3.0, 4.0])], optimizer.init([np.zeros(2)]))
    >>> updates[0]
    array([-0.3, -0.4])
    """

    def init(params: Any) -> Any:
        return tuple([one.init(params) for one in optimizers])

    def update(grads: Any, state: Any, params: Any = None) -> Any:
        new = []
        for one, old in zip(optimizers, state, strict=True):
            grads, own = one.update(grads, old, params)
            new.append(own)
        return grads, tuple(new)

    return Optimizer(init, update)


def _stateless(of_tree: Callable[[Any, Any], Any]) -> Optimizer:
    return Optimizer(
        lambda params: (), lambda grads, state, params=None: (of_tree(grads, params), state)
    )


def scale(factor: float) -> Optimizer:
    """Multiplies gradients by a number.

    Args:
      factor: the number.

    >>> scale(-0.5).update([np.array([2.0])], ())[0]
    [array([-1.])]
    """
    return _stateless(lambda grads, params: pytree.map(lambda g: _as(factor * g, g), grads))


def scale_by_learning_rate(learning_rate: float | Schedule) -> Optimizer:
    """Multiplies gradients by minus a learning rate, a number or a function of the count.

    Args:
      learning_rate: a number, or a function of the number of updates so far.

    >>> rule = scale_by_learning_rate(0.1)
    >>> rule.update([np.array([2.0])], rule.init([np.zeros(1)]))[0]
    [array([-0.2])]
    """

    def update(grads: Any, count: Any, params: Any = None) -> Any:
        rate = _rate(learning_rate, count)
        return pytree.map(lambda g: _as(-rate * g, g), grads), count + 1

    return Optimizer(lambda params: _counted(), update)


def global_norm(tree: Any) -> Any:
    """The Euclidean norm of all numbers of a tree.

    Args:
      tree: a tree of arrays and numbers.

    >>> float(global_norm({"a": np.array([3.0]), "b": 4.0}))
    5.0
    """
    return np.sqrt(sum(np.sum(np.square(np.abs(leaf))) for leaf in pytree.leaves(tree)))


def clip_by_global_norm(max_norm: float) -> Optimizer:
    """Scales gradients down to a norm, over all leaves, of at most `max_norm`.

    Args:
      max_norm: the largest norm; smaller gradients stay as they are.

    >>> clip_by_global_norm(1.0).update([np.array([3.0, 4.0])], ())[0]
    [array([0.6, 0.8])]
    """

    def clipped(grads: Any, params: Any) -> Any:
        norm = global_norm(grads)
        factor = np.minimum(1.0, max_norm / np.maximum(norm, np.finfo(np.float32).tiny))
        return pytree.map(lambda g: _as(g * factor, g), grads)

    return _stateless(clipped)


def clip(max_delta: float) -> Optimizer:
    """Clips every element of the gradients to [-max_delta, max_delta].

    Args:
      max_delta: the largest size of an element.

    >>> clip(1.0).update([np.array([-3.0, 0.5])], ())[0]
    [array([-1. ,  0.5])]
    """
    return _stateless(
        lambda grads, params: pytree.map(lambda g: np.clip(g, -max_delta, max_delta), grads)
    )


def add_decayed_weights(weight_decay: float, mask: Any = None) -> Optimizer:
    """Adds weight_decay * params to the gradients.

    Args:
      weight_decay: the factor.
      mask: a tree of booleans, like the parameters or a prefix of their tree; where it is False
        (for biases, say) nothing is added.

    >>> w = [np.array([2.0])]
    >>> rule = add_decayed_weights(0.1)
    >>> rule.update([np.array([1.0])], rule.init(w), w)[0]
    [array([1.2])]
    """

    def decayed(grads: Any, params: Any) -> Any:
        if params is None:
            raise ArgumentError(
                "Weight decay needs the parameters: call update(grads, state, params)."
            )
        leaves, treedef = pytree.flatten(params)
        chosen = (
            [True] * len(leaves)
            if mask is None
            else pytree.broadcast_prefix(mask, treedef, "the mask of weight decay")
        )
        added = [
            g + _as(weight_decay * p, g) if on else g
            for g, p, on in zip(
                pytree.match(treedef, grads, "gradient"), leaves, chosen, strict=True
            )
        ]
        return pytree.unflatten(treedef, added)

    return _stateless(decayed)


def trace(decay: float, nesterov: bool = False) -> Optimizer:
    """Momentum: the sum of all gradients so far, weighted by `decay` ** age.

    Args:
      decay: between 0 and 1.
      nesterov: whether the step looks ahead along the momentum (Sutskever et al. 2013).

    >>> rule, g = trace(0.9), [np.array([1.0])]
    >>> first, state = rule.update(g, rule.init(g))
    >>> rule.update(g, state)[0]
    [array([1.9])]
    """

    def add_up(grads: Any, sums: Any) -> Any:
        return pytree.map(lambda g, m: g + _as(decay * m, g), grads, sums)

    def update(grads: Any, sums: Any, params: Any = None) -> Any:
        new = add_up(grads, sums)
        return (add_up(grads, new) if nesterov else new), new

    return Optimizer(_zeros, update)


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Divides the mean of gradients by the root of the mean of their squares (Adam).

    Args:
      b1, b2: the weights of the past in the two means, between 0 and 1.
      eps: what is added to the root.

    >>> rule, w = scale_by_adam(), [np.zeros(2)]
    >>> updates, state = rule.update([np.array([0.1, -3.0])], rule.init(w))
    >>> updates[0].round(6)
    array([ 1., -1.])
    """

    def init(params: Any) -> Any:
        return {"count": _counted(), "mean": _zeros(params), "square": _zeros(params)}

    def update(grads: Any, state: Any, params: Any = None) -> Any:
        count = state["count"] + 1
        mean = _average(state["mean"], grads, b1)
        square = _average(state["square"], pytree.map(np.square, grads), b2)
        updates = pytree.map(
            lambda m, v: m / (np.sqrt(v) + eps),
            _unbiased(mean, b1, count),
            _unbiased(square, b2, count),
        )
        return updates, {"count": count, "mean": mean, "square": square}

    return Optimizer(init, update)


def scale_by_rms(decay: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """Divides gradients by the root of the moving average of their squares.

    Args:
      decay: the weight of the past, between 0 and 1. eps: what is added to the root.

    >>> rule = scale_by_rms(decay=0.0)
    >>> rule.update([np.array([0.1, -3.0])], rule.init([np.zeros(2)]))[0][0].round(6)
    array([ 1., -1.])
    """

    def update(grads: Any, square: Any, params: Any = None) -> Any:
        square = _average(square, pytree.map(np.square, grads), decay)
        return pytree.map(lambda g, v: g / np.sqrt(v + eps), grads, square), square

    return Optimizer(_zeros, update)


def sgd(
    learning_rate: float | Schedule, momentum: float | None = None, nesterov: bool = False
) -> Optimizer:
    """Stochastic gradient descent: params - learning_rate * grads, optionally with momentum.

    Args:
      learning_rate: a number, or a function of the number of updates.
      momentum: the decay of the sum of gradients, between 0 and 1; none by default.
      nesterov: looks ahead along the momentum.

    >>> optimizer = sgd(0.1)
    >>> updates, _ = optimizer.update(np.array([2.0]), optimizer.init(np.zeros(1)))
    >>> updates
    array([-0.2])
    """
    last = scale_by_learning_rate(learning_rate)
    return last if momentum is None else chain(trace(momentum, nesterov), last)


def adam(
    learning_rate: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Adam, after Kingma and Ba (2015), algorithm 1.

    Args:
      learning_rate: a number, or a function of the number of updates.
      b1, b2: the decays of the averages of gradients and of their squares.
      eps: added to the root of the second.

    >>> optimizer = adam(0.1)
    >>> updates, _ = optimizer.update(np.array([2.0, -7.0]), optimizer.init(np.zeros(2)))
    >>> updates.round(6)
    array([-0.1,  0.1])
    """
    return chain(scale_by_adam(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: float | Schedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Any = None,
) -> Optimizer:
    """Adam with decoupled weight decay, after Loshchilov and Hutter (2019).

    Args:
      learning_rate, b1, b2, eps: as `adam`'s.
      weight_decay: learning_rate * weight_decay * params is subtracted from the parameters.
      mask: a tree of booleans: which parameters decay; all by default.

    >>> step = adamw(0.1, weight_decay=0.5)
    >>> params = np.array([2.0])
    >>> updates, _ = step.update(np.zeros(1), step.init(params), params)
    >>> updates
    array([-0.1])
    """
    return chain(
        scale_by_adam(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: float | Schedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    momentum: float | None = None,
) -> Optimizer:
    """RMSprop, after Hinton's lecture 6e (2012).

    Args:
      learning_rate: a number, or a function of the number of updates.
      decay: of the average of squared gradients.
      eps: added to that average, below the root.
      momentum: the decay of the sum of steps; none by default.

    >>> step = rmsprop(0.1)
    >>> step.update(np.ones(1), step.init(np.zeros(1)))[0].round(3)
    array([-0.316])
    """
    after = [] if momentum is None else [trace(momentum)]
    return chain(scale_by_rms(decay, eps), scale_by_learning_rate(learning_rate), *after)


def constant_schedule(value: float) -> Schedule:
    """The same learning rate at each update.

    Args:
      value: the learning rate.

    >>> constant_schedule(0.1)(7)
    0.1
    """
    return lambda count: value


def linear_schedule(init_value: float, end_value: float, transition_steps: int) -> Schedule:
    """A straight line from one rate to another, constant afterwards.

    Args:
      init_value, end_value: the first and the last rate.
      transition_steps: updates between them.

    >>> [float(linear_schedule(1.0, 0.0, 4)(n)) for n in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """

    def rate(count: Any) -> Any:
        share = np.clip(count / transition_steps, 0.0, 1.0)
        return init_value + (end_value - init_value) * share

    return rate


def exponential_decay(
    init_value: float, transition_steps: int, decay_rate: float, staircase: bool = False
) -> Schedule:
    """A rate that decays: init_value * decay_rate ** (count / transition_steps).

    Args:
      init_value: the rate at the first update.
      transition_steps: the number of updates in which it is multiplied by decay_rate once.
      decay_rate: the factor.
      staircase: whether the exponent is rounded down.

    >>> float(exponential_decay(1.0, 10, 0.5)(20))
    0.25
    """

    def rate(count: Any) -> Any:
        exponent = count / transition_steps
        return init_value * decay_rate ** (np.floor(exponent) if staircase else exponent)

    return rate


def cosine_decay_schedule(init_value: float, decay_steps: int, alpha: float = 0.0) -> Schedule:
    """Half a cosine from init_value to alpha * init_value (Loshchilov and Hutter 2017).

    Args:
      init_value: the rate of the first update.
      decay_steps: updates until the last rate.
      alpha: the last rate over the first.

    >>> [round(float(cosine_decay_schedule(1.0, 10)(n)), 3) for n in (0, 5, 10, 11)]
    [1.0, 0.5, 0.0, 0.0]
    """

    def rate(count: Any) -> Any:
        share = np.clip(count / decay_steps, 0.0, 1.0)
        return init_value * ((1 - alpha) * 0.5 * (1 + np.cos(np.pi * share)) + alpha)

    return rate


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
) -> Schedule:
    """A straight line up to peak_value, then half a cosine down to end_value.

    Args:
      init_value, peak_value, end_value: rates at the start, after the line, and at the end.
      warmup_steps: updates of the line.
      decay_steps: updates of both together.

    >>> rate = warmup_cosine_decay_schedule(0.0, 1.0, 2, 4)
    >>> [round(float(rate(n)), 2) for n in range(5)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    down = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha)
    up = linear_schedule(init_value, peak_value, warmup_steps)
    return lambda count: np.where(count < warmup_steps, up(count), down(count - warmup_steps))


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float]
) -> Schedule:
    """A rate that is multiplied by a factor at given counts.

    Args:
      init_value: the first rate.
      boundaries_and_scales: a dict from counts to factors.

    >>> float(piecewise_constant_schedule(1.0, {10: 0.1, 20: 0.5})(20))
    0.05
    """

    def rate(count: Any) -> Any:
        value: Any = init_value
        for boundary, factor in boundaries_and_scales.items():
            value = value * np.where(count >= boundary, factor, 1.0)
        return value

    return rate


__all__ = [
    "Optimizer", "Schedule", "adam", "adamw", "add_decayed_weights", "apply_updates", "chain",
    "clip", "clip_by_global_norm", "constant_schedule", "cosine_decay_schedule",
    "exponential_decay", "global_norm", "linear_schedule", "piecewise_constant_schedule", "rmsprop",
    "scale", "scale_by_adam", "scale_by_learning_rate", "scale_by_rms", "sgd", "trace",
    "warmup_cosine_decay_schedule",
]  # fmt: skip
