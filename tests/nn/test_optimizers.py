"""Optimizers against their formulas written out, whole steps compiled, and minibatches."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import data, optimizers
from fungrad.errors import ArgumentError

RNG = np.random.default_rng(7)
PARAMS = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2).astype(np.float32)}
GRADS = [
    {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2).astype(np.float32)} for _ in range(6)
]


def trajectory(optimizer, compiled=False):
    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optimizers.apply_updates(params, updates), state

    step = fg.jit(step) if compiled else step
    params, state, found = PARAMS, optimizer.init(PARAMS), []
    for grads in GRADS:
        params, state = step(params, state, grads)
        found.append(params)
    return found


def sgd(p, g, s, t):
    return p - 0.1 * g, s


def momentum(p, g, s, t):
    m = g + 0.9 * s.get("m", 0.0)
    return p - 0.1 * m, {"m": m}


def nesterov(p, g, s, t):
    m = g + 0.9 * s.get("m", 0.0)
    return p - 0.1 * (g + 0.9 * m), {"m": m}


def adam(p, g, s, t, rate=0.1, decay=0.0):
    m = 0.9 * s.get("m", 0.0) + 0.1 * g
    v = 0.999 * s.get("v", 0.0) + 0.001 * g**2
    step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p - rate * (step + decay * p), {"m": m, "v": v}


def adamw(p, g, s, t):
    return adam(p, g, s, t, decay=0.01)


def decaying(p, g, s, t):
    return adam(p, g, s, t, rate=0.1 * 0.5 ** ((t - 1) / 2))


def rmsprop(p, g, s, t):
    v = 0.9 * s.get("v", 0.0) + 0.1 * g**2
    return p - 0.1 * g / np.sqrt(v + 1e-8), {"v": v}


CASES = {
    "sgd": (optimizers.sgd(0.1), sgd),
    "momentum": (optimizers.sgd(0.1, momentum=0.9), momentum),
    "nesterov": (optimizers.sgd(0.1, momentum=0.9, nesterov=True), nesterov),
    "adam": (optimizers.adam(0.1), adam),
    "adamw": (optimizers.adamw(0.1, weight_decay=0.01), adamw),
    "schedule": (optimizers.adam(optimizers.exponential_decay(0.1, 2, 0.5)), decaying),
    "rmsprop": (optimizers.rmsprop(0.1), rmsprop),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_steps_are_the_formulas(name, compiled):
    optimizer, formula = CASES[name]
    found = trajectory(optimizer, compiled)
    for leaf, rtol in (("w", 1e-13), ("b", 2e-5)):
        p, state = PARAMS[leaf].astype(np.float64), {}
        for t, (grads, params) in enumerate(zip(GRADS, found, strict=True), 1):
            p, state = formula(p, grads[leaf].astype(np.float64), state, t)
            np.testing.assert_allclose(params[leaf], p, rtol=rtol)
    assert found[-1]["b"].dtype == np.float32 and found[-1]["w"].dtype == np.float64


def test_states_keep_the_dtypes_of_the_parameters():
    optimizer = optimizers.chain(
        optimizers.clip_by_global_norm(1.0),
        optimizers.adamw(optimizers.warmup_cosine_decay_schedule(0.0, 0.1, 2, 5)),
    )
    state = optimizer.init(PARAMS)
    before = [np.result_type(leaf) for leaf in fg.tree_leaves(state)]
    _, state = optimizer.update(GRADS[0], state, PARAMS)
    assert [np.result_type(leaf) for leaf in fg.tree_leaves(state)] == before


def test_clipping_keeps_directions_and_leaves_short_gradients():
    clip = optimizers.clip_by_global_norm(1.0)
    updates, _ = clip.update(GRADS[0], clip.init(PARAMS))
    assert float(optimizers.global_norm(updates)) == pytest.approx(1.0, rel=1e-6)
    ratio = updates["w"] / GRADS[0]["w"]
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
    short = fg.tree_map(lambda g: g * np.float32(1e-3), GRADS[0])
    updates, _ = clip.update(short, ())
    np.testing.assert_array_equal(updates["w"], short["w"])
    zero, _ = clip.update(fg.tree_map(np.zeros_like, GRADS[0]), ())
    assert not zero["w"].any()
    cut, _ = optimizers.clip(0.5).update(GRADS[0], ())
    np.testing.assert_array_equal(cut["w"], np.clip(GRADS[0]["w"], -0.5, 0.5))


def test_weights_decay_where_the_mask_says():
    optimizer = optimizers.adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
    plain = optimizers.adam(0.1)
    ours, _ = optimizer.update(GRADS[0], optimizer.init(PARAMS), PARAMS)
    theirs, _ = plain.update(GRADS[0], plain.init(PARAMS), PARAMS)
    np.testing.assert_array_equal(ours["b"], theirs["b"])
    np.testing.assert_allclose(ours["w"], theirs["w"] - 0.05 * PARAMS["w"], rtol=1e-12)
    with pytest.raises(ArgumentError, match="needs the parameters"):
        optimizer.update(GRADS[0], optimizer.init(PARAMS))


def test_schedules_go_where_they_say():
    warm = optimizers.warmup_cosine_decay_schedule(0.0, 1.0, 4, 12, 0.1)
    assert [round(float(warm(n)), 6) for n in (0, 2, 4, 8, 12, 99)] == [0, 0.5, 1, 0.55, 0.1, 0.1]
    stairs = optimizers.exponential_decay(1.0, 10, 0.5, staircase=True)
    assert [float(stairs(n)) for n in (0, 9, 10, 19, 20)] == [1, 1, 0.5, 0.5, 0.25]
    pieces = optimizers.piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.5})
    assert [float(pieces(n)) for n in (9, 10, 19, 20)] == [1, 0.5, 0.5, 0.25]
    assert optimizers.constant_schedule(0.3)(17) == 0.3


def test_a_step_is_differentiated_by_its_learning_rate():
    def after(rate):
        optimizer = optimizers.sgd(lambda count: rate, momentum=0.5)
        params, state = 3.0, optimizer.init(3.0)
        for _ in range(3):
            updates, state = optimizer.update(2.0 * params, state, params)
            params = optimizers.apply_updates(params, updates)
        return params

    slope = (after(0.1 + 1e-6) - after(0.1 - 1e-6)) / 2e-6
    assert float(fg.grad(after)(0.1)) == pytest.approx(float(slope), rel=1e-7)


def test_batches_hold_each_row_once_an_epoch():
    x, y = RNG.normal(size=(10, 2)), np.arange(10)
    seen = [b["y"] for b in data.minibatches({"x": x, "y": y}, 5, rng=0, epochs=3)]
    assert len(seen) == 6
    for epoch in range(3):
        rows = np.concatenate(seen[2 * epoch : 2 * epoch + 2])
        assert sorted(rows) == list(range(10)) and rows.tolist() != list(range(10))
    again = [b["y"] for b in data.minibatches({"x": x, "y": y}, 5, rng=0, epochs=3)]
    assert all(np.array_equal(a, b) for a, b in zip(seen, again, strict=True))
    for batch in data.minibatches({"x": x, "y": y}, 4, rng=1):
        np.testing.assert_array_equal(batch["x"], x[batch["y"]])
    assert [len(b) for b in data.minibatches(y, 4)] == [4, 4]
    assert [len(b) for b in data.minibatches(y, 4, drop_last=False)] == [4, 4, 2]


def test_batches_of_arrays_that_do_not_fit():
    with pytest.raises(ArgumentError, match=r"\(3,\), \(4,\)"):
        data.minibatches((np.zeros(3), np.zeros(4)), 2)
    with pytest.raises(ArgumentError, match="batch of 5 rows cannot be made of 3"):
        data.minibatches(np.zeros(3), 5)
