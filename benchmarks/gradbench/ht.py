"""The eval `ht`: a hand model fitted to points, and its Jacobian by forward mode.

A vertex is linear in the bones' transforms: `skin` holds what does not depend on the pose, and one
matrix product takes all 26 tangents of the transforms to those of the vertices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fungrad as fg

THETA, FINGERS = 26, 5


def rotations(bend: Any, spread: Any) -> Any:
    """Rz(spread) Rx(bend) as matrices [b, 4, 4]."""
    c, s, cz, sz = np.cos(bend), np.sin(bend), np.cos(spread), np.sin(spread)
    zero, one = np.zeros_like(c), np.ones_like(c)
    entries = [
        cz, -sz * c, sz * s, zero,
        sz, cz * c, -cz * s, zero,
        zero, s, c, zero,
        zero, zero, zero, one,
    ]  # fmt: skip
    return np.transpose(np.stack(entries)).reshape(-1, 4, 4)


def generations(parents: tuple[int, ...]) -> list[list[int]]:
    """The bones by their distance from the root."""
    depth: dict[int, int] = {}
    for bone, parent in enumerate(parents):
        depth[bone] = 0 if parent < 0 else depth[parent] + 1
    return [[b for b in depth if depth[b] == level] for level in range(max(depth.values()) + 1)]


def turn(r: Any) -> Any:
    """The matrix [3, 3] of an axis times an angle; below 1e-4 it is the identity."""
    square = np.sum(r * r)
    turned = square > 1e-8
    angle = np.sqrt(np.where(turned, square, 1.0))
    x, y, z = r / angle
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    matrix = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)
    return np.where(turned, matrix, np.eye(3))


def pose(theta: Any, model: Mapping[str, Any], parents: tuple[int, ...], mirrored: bool) -> Any:
    """The bones' transforms, turned and moved as the whole hand is: [4 * bones + 1, 3]."""
    angles = theta[6:].reshape(FINGERS, 4)
    rigid, nothing = np.zeros(2), np.zeros((FINGERS, 1))
    # A finger has four bones: one rigid, then (bend, spread), bend, bend.
    by_bone = np.concatenate([angles[:, :1], angles[:, 2:], nothing], axis=1)
    bend = np.concatenate([rigid, by_bone.reshape(-1)[:-1], rigid[:1]])
    spread = np.concatenate([angles[:, 1:2], nothing, nothing, nothing], axis=1)
    spread = np.concatenate([rigid, spread.reshape(-1)[:-1], rigid[:1]])
    local = model["base_relatives"] @ rotations(bend, spread)
    levels = generations(parents)
    world = local[np.array(levels[0])]
    order, worlds = list(levels[0]), [world]
    for above, level in itertools.pairwise(levels):
        behind = np.array([above.index(parents[bone]) for bone in level])
        world = world[behind] @ local[np.array(level)]
        order, worlds = order + level, [*worlds, world]
    back = np.array([order.index(bone) for bone in range(len(parents))])
    transforms = np.concatenate(worlds)[back] @ model["inverse_base_absolutes"]
    # What takes homogeneous vertices to space, by coordinate and bone.
    columns = np.transpose(transforms[:, :3, :], (2, 0, 1)).reshape(-1, 3)
    mirror = np.array([-1.0 if mirrored else 1.0, 1.0, 1.0])
    turned = (columns * mirror) @ np.transpose(turn(theta[:3]))
    return np.concatenate([turned, theta[None, 3:6]])


def skin(model: Mapping[str, Any], which: Any) -> Any:
    """Weight times base position of vertices, and a one: [vertices, 4 * bones + 1]."""
    weights, positions = model["weights"], model["base_positions"]
    if which is not None:
        weights, positions = weights[which], positions[which]
    product = positions[:, :, None] * weights[:, None, :]
    return np.concatenate(
        [product.reshape(weights.shape[0], -1), np.ones((weights.shape[0], 1))], axis=1
    )


def corners(model: Mapping[str, Any], data: Mapping[str, Any], simple: bool) -> tuple[Any, Any]:
    """`skin` of the vertices that are needed, and which of its rows belong to each point."""
    which = data["correspondences"] if simple else model["triangles"][data["correspondences"]]
    count = which.shape[0] * (1 if simple else 3)
    if count < model["weights"].shape[0]:
        return skin(model, which.reshape(-1)), np.arange(count).reshape(which.shape)
    return skin(model, None), which


def on_surface(vertices: Any, which: Any, us: Any) -> Any:
    """What vertices have, [vertices, c], at points with barycentric coordinates us, if any."""
    if us.shape[0] == 0:
        return vertices[which]
    u, v = us[:, :1], us[:, 1:]
    a, b, c = (vertices[which[:, corner]] for corner in range(3))
    return u * a + v * b + (1.0 - u - v) * c


def objective(
    theta: Any, us: Any, model: Any, data: Any, parents: tuple[int, ...], mirrored: bool
) -> Any:
    """The differences of the points from the model's, flat."""
    rows, which = corners(model, data, us.shape[0] == 0)
    vertices = rows @ pose(theta, model, parents, mirrored)
    return (data["points"] - on_surface(vertices, which, us)).reshape(-1)


def jacobian(
    theta: Any, us: Any, model: Any, data: Any, parents: tuple[int, ...], mirrored: bool
) -> Any:
    """The rows' derivatives by their own two us, where there are any, and by theta."""
    rows, which = corners(model, data, us.shape[0] == 0)
    moved = -fg.jacfwd(lambda t: pose(t, model, parents, mirrored))(theta)
    by_theta = on_surface(rows @ moved.reshape(rows.shape[1], 3 * THETA), which, us)
    by_theta = by_theta.reshape(-1, THETA)
    if us.shape[0] == 0:
        return by_theta
    vertices = rows @ pose(theta, model, parents, mirrored)
    one, zero = np.ones_like(us[:, :1]), np.zeros_like(us[:, :1])

    def push(u: Any, v: Any) -> Any:
        direction = np.concatenate([u, v], axis=1)
        pushed = fg.jvp(lambda us: on_surface(vertices, which, us), (us,), (direction,))[1]
        return -pushed.reshape(-1, 1)

    return np.concatenate([push(one, zero), push(zero, one), by_theta], axis=1)


def prepared(f: Callable[..., Any]) -> Callable[[Mapping[str, Any]], tuple[Any, Any]]:
    """Decodes pose, model and points for a function of them."""

    def prepare(given: Mapping[str, Any]) -> tuple[Any, Any]:
        theta, us = np.asarray(given["theta"]), np.asarray(given["us"]).reshape(-1, 2)
        given_model, given_data = given["data"]["model"], given["data"]
        names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
        model = {name: np.asarray(given_model[name]) for name in (*names, "triangles")}
        data = {name: np.asarray(given_data[name]) for name in ("correspondences", "points")}
        parents, mirrored = tuple(given_model["parents"]), bool(given_model["is_mirrored"])
        return lambda: f(theta, us, model, data, parents, mirrored), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "objective": prepared(fg.jit(objective, static_argnums=(4, 5))),
    "jacobian": prepared(fg.jit(jacobian, static_argnums=(4, 5))),
}
