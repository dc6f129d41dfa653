"""The tool for GradBench: recorded sessions to 1e-12, the protocol, and cases without recordings.

The recordings are small; inputs that they do not reach (triangles under the points, no rotation,
determinants in parts) are tested here against formulas and finite differences.
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks is no part of the package

from benchmarks.gradbench import (  # noqa: E402
    ba,
    descent,
    det,
    gmm,
    ht,
    kmeans,
    lstm,
    ode,
    peers,
    replay,
    server,
    workloads,
)

RECORDINGS = sorted((ROOT / "tests" / "data" / "gradbench").glob("*.jsonl.gz"))


def test_every_eval_is_recorded():
    assert {path.name.partition(".")[0] for path in RECORDINGS} == set(server.EVALS)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_recorded_sessions(path):
    name = path.name.partition(".")[0]
    found = replay.replay(path)
    assert found
    for function, difference, where in found:
        limit = replay.LIMITS.get((name, function), replay.TOLERANCE)
        assert difference <= limit, (function, where)


def test_the_replay_refuses_nan_and_other_shapes():
    assert next(replay.differences({"a": [1.0, 2]}, {"a": [1, 2.0]}))[1] == 0.0
    for got in ([math.nan, 2.0], [1.0], [math.inf, 1.0], [True, 1.0], {"a": 1.0}, 1.0, None):
        with pytest.raises(ValueError):
            list(replay.differences(got, [1.0, 2.0]))
    assert max(d for _, d in replay.differences([1.0, 2.1], [1.0, 2.0])) > 1e-3


def test_the_protocol_over_pipes():
    messages = [
        {"id": 0, "kind": "start", "eval": "hello"},
        {"id": 1, "kind": "define", "module": "hello"},
        {"id": 2, "kind": "evaluate", "module": "hello", "function": "double", "input": 3.0},
        {"id": 3, "kind": "analysis", "of": 2, "valid": True},
        {"id": 4, "kind": "define", "module": "no_such"},
        {"id": 5, "kind": "evaluate", "module": "hello", "function": "cube", "input": 3.0},
        {"id": 6, "kind": "from the future"},
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gradbench"],
        input=text, capture_output=True, text=True, cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply["id"] for reply in replies] == list(range(7))
    assert replies[1] == {"id": 1, "success": True} and replies[2]["output"] == 6.0
    assert replies[3] == {"id": 3} and replies[6] == {"id": 6}
    assert not replies[4]["success"] and "no_such" in replies[4]["error"]
    assert not replies[5]["success"] and "cube" in replies[5]["error"]


def test_repetitions_and_errors_of_the_users_input():
    message = {"id": 7, "kind": "evaluate", "module": "lse", "function": "primal"}
    asked = {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0.01}
    out = io.StringIO()
    server.serve(io.StringIO(json.dumps(message | {"input": asked}) + "\n"), out)
    reply = json.loads(out.getvalue())
    times = [t["nanoseconds"] for t in reply["timings"]]
    assert len(times) >= 3 and sum(times) >= 1e7 and all(isinstance(t, int) for t in times)
    assert reply["output"] == pytest.approx(math.log(2.0), rel=1e-15)
    assert not server.answer(message | {"input": {"y": []}})["success"]


def test_the_gradient_of_the_method_of_runge_and_kutta():
    """The recording has the exact solution's; a step into the complex plane has the method's."""
    x = np.random.default_rng(0).uniform(size=6)

    def last(x):
        slope = lambda y: np.concatenate([x[:1], x[1:] * y[:-1]])  # noqa: E731
        y, h = np.zeros_like(x), 0.2
        for _ in range(10):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        return y[-1]

    want = [last(x + 1e-30j * row).imag / 1e-30 for row in np.eye(6)]
    run, encode = ode.FUNCTIONS["gradient"]({"x": x, "s": 10})
    np.testing.assert_allclose(encode(run()), want, rtol=1e-12)


@pytest.mark.parametrize("ell", [1, 2, 5, 9])
def test_determinants(ell):
    a = np.random.default_rng(ell).uniform(size=(ell, ell)) + np.eye(ell)
    value, gradient = (
        prepared[0]()
        for prepared in (f({"A": a.ravel(), "ell": ell}) for f in det.FUNCTIONS.values())
    )
    assert value == pytest.approx(np.linalg.det(a), rel=1e-11)
    want = np.linalg.det(a) * np.linalg.inv(a).T
    np.testing.assert_allclose(gradient.reshape(ell, ell), want, rtol=1e-8, atol=1e-10)


def test_mixtures_in_more_dimensions():
    given = workloads.gmm(3, 4, 20) | {"m": 2, "gamma": 1.3}
    q, lower = given["q"], given["l"]
    roots = gmm.triangles(q, lower)
    want = np.zeros((3, 3))
    want[np.diag_indices(3)] = np.exp(q[0])
    want[1, 0], want[2, 0], want[2, 1] = lower[0]  # column by column
    assert np.array_equal(roots[0], want)
    free = {name: given[name] for name in gmm.FREE}
    fg.testing.check_grads(lambda free: gmm.objective(free, given["x"], 2, 1.3), (free,), order=1)


def test_adjustment_without_rotation_and_its_pattern():
    given = workloads.ba(2, 3, 7)
    given["cam"] = [0.0, 0.0, 0.0, *given["cam"][3:]]
    cameras, points, weights, feats = ba.decoded(given)
    x = points[:, 0] - cameras[3:6, 0]
    f, u, v, k1, k2 = cameras[6:, 0]
    e = x[:2] / x[2]
    e = f * e * (1 + k1 * (e @ e) + k2 * (e @ e) ** 2) + [u, v] - feats[:, 0]
    errors, _ = ba.residuals(cameras, points, weights, feats)
    np.testing.assert_allclose(errors[:, 0], weights[0] * e, rtol=1e-12)
    (rows, columns), values = ba.FUNCTIONS["jacobian"](given)[0]()
    matrix = np.zeros((21, 2 * 11 + 3 * 3 + 7))
    for row in range(21):
        for at in range(rows[row], rows[row + 1]):
            matrix[row, columns[at]] = values[at]
    by_camera, by_point, by_weight = fg.jacobian(
        lambda c, p, w: np.concatenate(
            [ba.residuals(c, p, w, feats)[0].T.reshape(-1), ba.residuals(c, p, w, feats)[1]]
        ),
        argnums=(0, 1, 2),
    )(cameras, points, weights)
    dense = [np.swapaxes(m, 1, 2).reshape(21, -1) for m in (by_camera, by_point)]
    np.testing.assert_allclose(matrix, np.concatenate([*dense, by_weight], axis=1), rtol=1e-10)


@pytest.mark.parametrize("points", [5, 60])
def test_hands_with_triangles(points):
    given = workloads.ht(40, points, simple=False)
    run, _ = ht.FUNCTIONS["jacobian"](given)
    found = run()
    assert found.shape == (3 * points, 28)
    f = ht.FUNCTIONS["objective"]

    def moved(by):
        us = given["us"] + by[:2]
        return f(given | {"theta": given["theta"] + by[2:], "us": us})[0]()

    want = [(moved(1e-6 * row) - moved(-1e-6 * row)) / 2e-6 for row in np.eye(28)]
    np.testing.assert_allclose(found, np.transpose(want), rtol=1e-6, atol=1e-6)


def test_networks_of_several_layers():
    given = workloads.lstm(3, 6, b=4)
    names = ("main_params", "extra_params", "state", "sequence")
    arguments = [given[name] for name in names]

    def sigmoid(v):
        return 1.0 / (1.0 + np.exp(-v))

    def plain(main, extra, state, sequence):
        state, total = [np.array(row) for row in state], 0.0
        for t in range(len(sequence) - 1):
            x = sequence[t] * extra[0]
            for i in range(3):
                w, bias = main[2 * i].reshape(4, 4), main[2 * i + 1].reshape(4, 4)
                h, cell = state[2 * i], state[2 * i + 1]
                keep, out = sigmoid(x * w[0] + bias[0]), sigmoid(x * w[2] + bias[2])
                new = sigmoid(h * w[1] + bias[1]) * np.tanh(h * w[3] + bias[3])
                state[2 * i + 1] = cell * keep + new
                x = state[2 * i] = out * np.tanh(state[2 * i + 1])
            y = x * extra[1] + extra[2]
            total += sequence[t + 1] @ (y - np.log(2.0 + np.sum(np.exp(y))))
        return -total / (4 * (len(sequence) - 1))

    assert lstm.objective(*arguments) == pytest.approx(plain(*arguments), rel=1e-13)
    fg.testing.check_grads(
        lambda m, e: lstm.objective(m, e, *arguments[2:]), arguments[:2], order=1
    )


def test_directions_of_centroids():
    given = workloads.kmeans(4, 50, 3)
    points, centroids = given["points"], given["centroids"]
    nearest = np.argmin(((points[:, None] - centroids) ** 2).sum(axis=2), axis=1)
    want = [c - points[nearest == j].mean(axis=0) for j, c in enumerate(centroids)]
    np.testing.assert_allclose(kmeans.FUNCTIONS["dir"](given)[0](), want, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("mode", descent.MODES)
def test_the_descent(mode):
    # With a step of 1e-5 that grows slowly, down to a slope of 1e-5 or a move of 1e-5.
    found = descent.minimum(lambda x: np.sum((x - 0.25) ** 2), np.ones(2), descent.MODES[mode])
    assert np.max(np.abs(found - 0.25)) < 1e-4


SMALL = {
    "lse": {"x": workloads.uniform(50)},
    "kmeans": workloads.kmeans(5, 40, 3),
    "gmm": workloads.gmm(3, 4, 20),
    "lstm": workloads.lstm(2, 12),
    "ba": workloads.ba(3, 5, 17),
    "ht": workloads.ht(50, 20, False),
    "ht simple": workloads.ht(50, 20, True),
}


@pytest.mark.parametrize("label", SMALL)
def test_pytorch_computes_the_same(label):
    pytest.importorskip("torch")
    name = label.split()[0]
    theirs = peers.functions("torch", name)
    assert peers.runs("torch", name) and not peers.runs("torch", "det")
    for function, ours in server.functions_of(name).items():
        (run, encode), (peer, encode_peer) = ours(SMALL[label]), theirs[function](SMALL[label])
        found = list(replay.differences(encode_peer(peer()), encode(run())))
        assert found and max(d for _, d in found) < 1e-12
