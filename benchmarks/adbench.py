"""ADBench's objectives on its own data: `python -m benchmarks.adbench DIRECTORY`.

The directory is ADBench's `data`, with the folders gmm, ba, lstm and hand. The objectives are those
of `benchmarks.gradbench`. Beside each stands its derivative, worked out by hand in NumPy. All have
one core; times are the least CPU times of calls in turns, after the results were compared.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fungrad as fg
from benchmarks.element_loops import lstm_loss
from benchmarks.gradbench import ba, gmm, ht, lstm
from benchmarks.gradbench.workloads import ba as replicated
from benchmarks.timing import least_cpu_times

Calls = dict[str, Callable[[], Any]]
ROUNDS, SECONDS = 3, 0.1
SIZES = {
    "gmm": ("gmm_d2_K5", "gmm_d10_K25", "gmm_d10_K100", "gmm_d32_K25"),
    "ba": ("ba1_n49_m7776_p31843", "ba4_n372_m47423_p204472"),
    "lstm": ("lstm_l2_c1024", "lstm_l4_c1024", "lstm_l2_c4096", "lstm_l4_c4096"),
    "simple_small": ("hand2_t26_c192", "hand6_t26_c1600", "hand9_t26_c12800"),
    "complicated_small": ("hand2_t26_c192", "hand6_t26_c1600", "hand9_t26_c12800"),
}


def numbers(path: Path) -> list[list[float]]:
    """The numbers of each line that has any."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[float(word) for word in line.split()] for line in lines if line.strip()]


# --- gmm ------------------------------------------------------------------------------------------


def gmm_by_hand(free: Any, x: Any, m: int, gamma: float) -> dict[str, Any]:
    """Responsibilities times what they are responsible for."""
    alpha, mu, q, lower = (free[name] for name in gmm.FREE)
    (n, d), k = x.shape, len(alpha)
    root = gmm.triangles(q, lower)
    moved = (root.reshape(k * d, d) @ x.T).reshape(k, d, n) - root @ mu[:, :, None]
    inner = (alpha + q.sum(1))[:, None] - 0.5 * np.einsum("kdn,kdn->kn", moved, moved)
    weight = np.exp(inner - inner.max(0))
    weight /= weight.sum(0)
    held = weight.sum(1)
    prior = np.exp(alpha - alpha.max())
    moved *= weight[:, None, :]
    each = moved.sum(2)
    by_root = each[:, :, None] * mu[:, None, :]
    by_root -= (moved.reshape(k * d, n) @ x).reshape(k, d, d)
    by_q = by_root[:, range(d), range(d)] * np.exp(q) - gamma**2 * np.exp(2.0 * q)
    columns, rows = np.triu_indices(d, 1)  # below the diagonal, column by column
    return {
        "alpha": held - n * prior / prior.sum(),
        "mu": (each[:, None, :] @ root)[:, 0],
        "q": by_q + held[:, None] + m,
        "l": by_root[:, rows, columns] - gamma**2 * lower,
    }


def of_gmm(path: Path) -> Calls:
    (d, k, n), *lines = numbers(path)
    d, k, n = int(d), int(k), int(n)
    factors = np.array(lines[2 * k : 3 * k])
    free = {"alpha": np.array(lines[:k])[:, 0], "mu": np.array(lines[k : 2 * k])}
    free |= {"q": factors[:, :d], "l": factors[:, d:]}
    x, (gamma, m) = np.array(lines[3 * k : 3 * k + n]), lines[-1]
    derivative = fg.jit(fg.grad(gmm.objective), static_argnums=(2, 3))
    return {
        "fungrad": lambda: derivative(free, x, int(m), gamma),
        "by hand": lambda: gmm_by_hand(free, x, int(m), gamma),
    }


# --- ba -------------------------------------------------------------------------------------------


def ba_by_hand(cameras: Any, points: Any, weights: Any, feats: Any) -> Any:
    """Backpropagation through Rodrigues' rotation, once for each of the two errors."""
    seen = ba.gathered(cameras, points, weights)
    turn, centre, (focal, u0, v0, k1, k2) = seen[0:3], seen[3:6], seen[6:11]
    weight = seen[14]
    point = seen[11:14] - centre
    angle = np.sqrt(np.sum(turn * turn, axis=0))
    cosine, sine = np.cos(angle), np.sin(angle)
    by_sine, by_cosine = sine / angle, (1.0 - cosine) / (angle * angle)
    inner, outer = np.sum(turn * point, axis=0), np.cross(turn, point, axis=0)
    along = by_cosine * inner
    x, y, z = cosine * point + by_sine * outer + along * turn
    flat = x / z, y / z
    radius = flat[0] * flat[0] + flat[1] * flat[1]
    bend = 1.0 + radius * (k1 + k2 * radius)
    stretch = focal * bend
    of_radius = 2.0 * focal * (k1 + 2.0 * k2 * radius)
    slopes = (cosine - by_sine) / angle, (by_sine - 2.0 * by_cosine) / angle
    rows = np.zeros((len(weight), 2, ba.SEEN))
    g = np.empty_like(point)
    for t, place in enumerate((u0, v0)):
        by_stretch = weight * flat[t]
        by_flat = [by_stretch * of_radius * part for part in flat]
        by_flat[t] += weight * stretch
        np.divide(by_flat[0], z, out=g[0])
        np.divide(by_flat[1], z, out=g[1])
        g[2] = -(by_flat[0] * flat[0] + by_flat[1] * flat[1]) / z
        by_along = np.sum(g * turn, axis=0)
        by_inner = by_along * by_cosine
        by_angle = (
            np.sum(g * outer, axis=0) * slopes[0]
            - np.sum(g * point, axis=0) * sine
            + by_along * inner * slopes[1]
        )
        by_point = cosine * g + by_sine * np.cross(g, turn, axis=0) + by_inner * turn
        row = rows[:, t].T
        row[0:3] = by_sine * np.cross(point, g, axis=0)
        row[0:3] += along * g + by_inner * point + by_angle / angle * turn
        row[3:6] = -by_point
        row[6] = by_stretch * bend
        row[7 + t] = weight
        row[9] = by_stretch * focal * radius
        row[10] = row[9] * radius
        row[11:14] = by_point
        row[14] = stretch * flat[t] + place - feats[t]
    return np.concatenate([rows.reshape(-1), -2.0 * weights])


def of_ba(path: Path) -> Calls:
    (n, m, p), camera, point, (weight,), feat = numbers(path)
    given = replicated(int(n), int(m), int(p))
    arguments = ba.decoded(given | {"cam": camera, "x": point, "w": weight, "feat": feat})
    derivative = fg.jit(ba.entries)
    return {
        "fungrad": lambda: derivative(*arguments),
        "by hand": lambda: ba_by_hand(*arguments),
    }


# --- lstm -----------------------------------------------------------------------------------------


def lstm_by_hand(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Backpropagation through time, character by character and layer by layer."""
    steps, layers, b = len(sequence) - 1, len(state) // 2, state.shape[1]
    hidden, cells = list(state[0::2]), list(state[1::2])
    saved, outputs = [], np.empty((steps, b))
    for t in range(steps):
        x = sequence[t] * extra[0]
        for i in range(layers):
            joined = np.concatenate((x, hidden[i], x, hidden[i]))
            gates = joined * main[2 * i] + main[2 * i + 1]
            gates[: 3 * b] = 1.0 / (1.0 + np.exp(-gates[: 3 * b]))
            np.tanh(gates[3 * b :], out=gates[3 * b :])
            forget, taken, out, change = gates.reshape(4, b)
            before = cells[i]
            cells[i] = before * forget + taken * change
            bent = np.tanh(cells[i])
            x = hidden[i] = out * bent
            saved.append((joined, gates, before, bent))
        outputs[t] = x
    raised = np.exp(outputs * extra[1] + extra[2])
    wanted = sequence[1:]
    by_y = raised * (wanted.sum(1) / (2.0 + raised.sum(1)))[:, None]
    by_y -= wanted
    by_y /= steps * b
    by_main, by_extra = np.zeros_like(main), np.zeros_like(extra)
    by_extra[1], by_extra[2] = np.sum(by_y * outputs, 0), by_y.sum(0)
    by_outputs = by_y * extra[1]
    by_hidden, by_cells = np.zeros((layers, b)), np.zeros((layers, b))
    g = np.empty((4, b))
    slope = np.empty((4, b))
    for t in reversed(range(steps)):
        by_x = by_outputs[t]
        for i in reversed(range(layers)):
            joined, gates, before, bent = saved.pop()
            four = gates.reshape(4, b)
            by_h = by_hidden[i] + by_x
            by_cell = by_cells[i] + by_h * four[2] * (1.0 - bent * bent)
            np.multiply(by_cell, before, out=g[0])
            np.multiply(by_cell, four[3], out=g[1])
            np.multiply(by_h, bent, out=g[2])
            np.multiply(by_cell, four[1], out=g[3])
            np.subtract(1.0, four[:3], out=slope[:3])
            slope[:3] *= four[:3]
            slope[3] = 1.0 - four[3] * four[3]
            by_gates = (g * slope).reshape(-1)
            by_cells[i] = by_cell * four[0]
            by_main[2 * i] += by_gates * joined
            by_main[2 * i + 1] += by_gates
            parts = (by_gates * main[2 * i]).reshape(4, b)
            by_x = parts[0] + parts[2]
            by_hidden[i] = parts[1] + parts[3]
        by_extra[0] += by_x * sequence[t]
    return np.concatenate([by_main.reshape(-1), by_extra.reshape(-1)])


def of_lstm(path: Path) -> Calls:
    (layers, _, _), *lines = numbers(path)
    ends = itertools.accumulate((2 * int(layers), 3, 2 * int(layers)), initial=0)
    arguments = [np.array(lines[a:b]) for a, b in itertools.pairwise((*ends, len(lines)))]
    derivative, eager = fg.jit(lstm.gradient), fg.grad(lstm_loss, argnums=(0, 1))
    return {
        "fungrad": lambda: derivative(*arguments),
        "by hand": lambda: lstm_by_hand(*arguments),
        "eager": lambda: np.concatenate([part.reshape(-1) for part in eager(*arguments)]),
        "f, eager": lambda: lstm_loss(*arguments),
    }


# --- hand -----------------------------------------------------------------------------------------


def hand_model(folder: Path) -> dict[str, Any]:
    """The hand's bones, vertices, weights and triangles."""

    def table(name: str) -> list[list[str]]:
        lines = (folder / name).read_text(encoding="utf-8").splitlines()
        return [line.split(":") for line in lines if line]

    bones, vertices = table("bones.txt"), table("vertices.txt")
    weights = np.zeros((len(vertices), len(bones)))
    for weight, vertex in zip(weights, vertices, strict=True):
        for bone, of_bone in zip(vertex[9::2], vertex[10::2], strict=True):
            weight[int(bone)] = float(of_bone)
    frames = np.array([bone[2:34] for bone in bones], float).reshape(-1, 2, 4, 4)
    positions = np.array([v[:3] for v in vertices], float)
    return {
        "parents": [int(bone[1]) for bone in bones], "base_relatives": frames[:, 0],
        "inverse_base_absolutes": frames[:, 1], "weights": weights, "is_mirrored": False,
        "base_positions": np.concatenate([positions, np.ones((len(positions), 1))], axis=1),
        "triangles": np.array(table("triangles.txt"), int),
    }  # fmt: skip


def rotated(bend: Any, spread: Any) -> tuple[Any, Any, Any]:
    """Rz(spread) Rx(bend) and its derivatives by each, as matrices [b, 4, 4]."""
    c, s, cz, sz = np.cos(bend), np.sin(bend), np.cos(spread), np.sin(spread)
    out, by_bend, by_spread = np.zeros((3, len(bend), 4, 4))
    out[:, 0, 0], out[:, 0, 1], out[:, 0, 2] = cz, -sz * c, sz * s
    out[:, 1, 0], out[:, 1, 1], out[:, 1, 2] = sz, cz * c, -cz * s
    out[:, 2, 1], out[:, 2, 2], out[:, 3, 3] = s, c, 1.0
    by_bend[:, 0, 1], by_bend[:, 0, 2] = sz * s, sz * c
    by_bend[:, 1, 1], by_bend[:, 1, 2] = -cz * s, -cz * c
    by_bend[:, 2, 1], by_bend[:, 2, 2] = c, -s
    by_spread[:, 0], by_spread[:, 1] = -out[:, 1], out[:, 0]
    return out, by_bend, by_spread


def turned(r: Any) -> tuple[Any, Any]:
    """The matrix of an axis times an angle, and its three derivatives."""
    angle = np.sqrt(r @ r)
    axis = r / angle
    cross = np.cross(np.eye(3), axis[None, :])
    basis = np.stack([np.cross(np.eye(3), e[None, :]) for e in np.eye(3)])
    sine, cosine = np.sin(angle), np.cos(angle)
    square = cross @ cross
    by_cross = (basis - axis[:, None, None] * cross) / angle
    slope = cosine * cross + sine * square
    by = axis[:, None, None] * slope + sine * by_cross
    by += (1.0 - cosine) * (by_cross @ cross + cross @ by_cross)
    return np.eye(3) + sine * cross + (1.0 - cosine) * square, by


def pose_by_hand(theta: Any, model: Any, parents: tuple[int, ...]) -> tuple[Any, Any]:
    """The transforms [4 * bones + 1, 3] as `ht.pose`, and their derivatives [..., 26]."""
    bones = len(parents)
    bend, spread = np.zeros((2, bones))
    first = np.arange(ht.FINGERS) * 4 + 2  # the bones that bend are those behind a rigid one
    angles = theta[6:].reshape(ht.FINGERS, 4)
    spread[first], bend[first] = angles[:, 1], angles[:, 0]
    bend[first + 1], bend[first + 2] = angles[:, 2], angles[:, 3]
    rotation, by_bend, by_spread = rotated(bend, spread)
    local = model["base_relatives"] @ rotation
    by = np.zeros((bones, ht.THETA, 4, 4))
    of_finger = np.arange(ht.FINGERS) * 4 + 6
    for shift, angle, slope in (
        (0, 0, by_bend),
        (0, 1, by_spread),
        (1, 2, by_bend),
        (2, 3, by_bend),
    ):
        at = first + shift
        by[at, of_finger + angle] = model["base_relatives"][at] @ slope[at]
    world, by_world = local.copy(), by
    for level in ht.generations(parents)[1:]:
        above = np.array([parents[bone] for bone in level])
        by_world[level] = (
            world[above][:, None] @ by[level] + by_world[above] @ local[level][:, None]
        )
        world[level] = world[above] @ local[level]
    back = model["inverse_base_absolutes"]
    columns = (world @ back)[:, :3].transpose(2, 0, 1).reshape(-1, 3)
    by_columns = (by_world @ back[:, None])[:, :, :3].transpose(3, 0, 2, 1)
    turn, by_turn = turned(theta[:3])
    out = np.concatenate([columns @ turn.T, theta[None, 3:6]])
    moved = np.zeros((4 * bones + 1, 3, ht.THETA))
    moved[:-1, :, :3] = np.einsum("cj,kij->cik", columns, by_turn)
    moved[-1, range(3), range(3, 6)] = 1.0
    moved[:-1, :, 6:] = turn @ by_columns.reshape(-1, 3, ht.THETA)[:, :, 6:]
    return out, moved


def ht_by_hand(theta: Any, us: Any, model: Any, data: Any, parents: tuple[int, ...]) -> Any:
    """Forward derivatives of the transforms, then one product with all vertices."""
    rows, which = ht.corners(model, data, us.shape[0] == 0)
    transforms, moved = pose_by_hand(theta, model, parents)
    by_vertices = rows @ moved.reshape(len(moved), -1)
    by_theta = -ht.on_surface(by_vertices, which, us).reshape(-1, ht.THETA)
    if not len(us):
        return by_theta
    a, b, c = (rows @ transforms)[which.T]
    return np.concatenate([(c - a).reshape(-1, 1), (c - b).reshape(-1, 1), by_theta], axis=1)


def of_hand(path: Path) -> Calls:
    """With two more parameters a point where the points lie within triangles."""
    (count, _), *lines = numbers(path)
    table, rest = np.array(lines[: int(count)]), lines[int(count) :]
    us = np.array(rest[: -ht.THETA]).reshape(-1, 2)
    theta = np.array(rest[-ht.THETA :])[:, 0]
    data = {"correspondences": table[:, 0].astype(int), "points": table[:, 1:]}
    model = hand_model(path.parent.parent / "model")
    parents, _ = tuple(model.pop("parents")), model.pop("is_mirrored")
    derivative = fg.jit(ht.jacobian, static_argnums=(4, 5))
    return {
        "fungrad": lambda: derivative(theta, us, model, data, parents, False),
        "by hand": lambda: ht_by_hand(theta, us, model, data, parents),
    }


# --- all ------------------------------------------------------------------------------------------

READERS = {"gmm": of_gmm, "ba": of_ba, "lstm": of_lstm, "hand": of_hand}


def cases(directory: Path) -> Iterator[tuple[str, Calls]]:
    """The cases whose files are there: name, calls."""
    for kind, names in SIZES.items():
        for name in names:
            for path in sorted(directory.rglob(f"{name}.txt")):
                if kind in path.parts:
                    reader = READERS.get(kind, of_hand)
                    yield f"{kind} {name}", reader(path)


def agree(calls: Calls) -> None:
    """Raises where fungrad's derivatives are not those by hand."""
    wanted = calls["by hand"]()
    for name in ("fungrad", "eager"):
        for part in wanted if isinstance(wanted, dict) else (...,):
            if name in calls:
                got, want = calls[name]()[part], wanted[part]
                atol = 1e-9 * np.max(np.abs(want), initial=0.0)
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=atol)


def main(directory: str) -> None:
    """Prints the times in ms and the ratios, case by case."""
    fg.config.num_threads = 1
    for name, calls in cases(Path(directory)):
        agree(calls)
        times = dict(
            zip(calls, least_cpu_times(list(calls.values()), ROUNDS, SECONDS), strict=True)
        )
        line = f"{name:36} {1e3 * times['fungrad']:9.3f} ms, by hand {1e3 * times['by hand']:9.3f}"
        line += f", ratio {times['fungrad'] / times['by hand']:5.2f}"
        if "eager" in times:
            line += f"; eager gradient over f {times['eager'] / times['f, eager']:5.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
