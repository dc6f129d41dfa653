"""The evals that GradBench has of PyTorch, written for it: eager, float64, on the CPU.

Loops are Python's, gradients `torch.autograd`'s. Where GradBench's own tool takes a Jacobian row by
row or observation by observation, minutes at these sizes, one backward pass here serves all
observations (ba), and forward mode all rows (ht). It has no other evals, and so has none here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.gradbench import ba as pattern_of

Prepared = tuple[Callable[[], Any], Callable[[Any], Any]]


def tensor(value: Any, active: bool = False) -> Any:
    """Doubles, that gradients are asked for or not."""
    return torch.tensor(np.asarray(value, np.float64), requires_grad=active)


def gradients(f: Callable[..., Any], active: Sequence[Any], *others: Any) -> Any:
    """The gradient of a number by some tensors."""
    return torch.autograd.grad(f(*active, *others), active)


# --- lse, kmeans ----------------------------------------------------------------------------------


def logsumexp(x: Any) -> Any:
    """log(sum(exp(x)))."""
    top = torch.max(x)
    return top + torch.log(torch.sum(torch.exp(x - top)))


def lse(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The function, or its gradient."""

    def prepare(given: Mapping[str, Any]) -> Prepared:
        x = tensor(given["x"], derivative)
        run = (lambda: gradients(logsumexp, (x,))[0]) if derivative else lambda: logsumexp(x)
        return run, lambda out: out.tolist()

    return prepare


def cost(centroids: Any, points: Any) -> Any:
    """The sum of the squared distances of the points from their nearest centroids."""
    squares = (points**2).sum(1)[:, None] + (centroids**2).sum(1)[None, :]
    return torch.min(squares - 2.0 * points @ centroids.T, dim=1).values.sum()


def direction(centroids: Any, points: Any) -> Any:
    """The gradient, divided by the product of the Hessian with ones."""
    (slope,) = torch.autograd.grad(cost(centroids, points), centroids, create_graph=True)
    (diagonal,) = torch.autograd.grad(slope, centroids, torch.ones_like(centroids))
    return slope.detach() / diagonal


def kmeans(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The cost, or Newton's direction."""

    def prepare(given: Mapping[str, Any]) -> Prepared:
        points, centroids = tensor(given["points"]), tensor(given["centroids"], derivative)
        f = direction if derivative else cost
        return lambda: f(centroids, points), lambda out: out.tolist()

    return prepare


# --- gmm ------------------------------------------------------------------------------------------


def gmm_objective(alpha: Any, mu: Any, q: Any, low: Any, x: Any, m: int, gamma: float) -> Any:
    """The log-posterior of a mixture of normal distributions with a Wishart prior."""
    (n, d), k = x.shape, alpha.shape[0]
    columns, rows = torch.triu_indices(d, d, 1)
    below = torch.zeros(k, d, d, dtype=x.dtype)
    below[:, rows, columns] = low
    centred = x[:, None, :] - mu
    moved = torch.exp(q) * centred + torch.einsum("kij,nkj->nki", below, centred)
    inner = alpha + q.sum(1) - 0.5 * (moved**2).sum(2)
    half = torch.tensor(0.5 * (d + m + 1), dtype=x.dtype)
    wishart = (d + m + 1) * d * math.log(gamma / math.sqrt(2.0))
    return (
        -n * (0.5 * d * math.log(2.0 * math.pi) + torch.logsumexp(alpha, 0))
        + torch.logsumexp(inner, 1).sum()
        + k * (wishart - torch.special.multigammaln(half, d))
        - 0.5 * gamma**2 * (torch.exp(2.0 * q).sum() + (low**2).sum())
        + m * q.sum()
    )


def gmm(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The objective, or its gradient."""
    names = ("alpha", "mu", "q", "l")

    def prepare(given: Mapping[str, Any]) -> Prepared:
        free = [tensor(given[name], derivative) for name in names]
        free[3] = free[3].detach().reshape(given["k"], -1).requires_grad_(derivative)
        fixed = tensor(given["x"]), given["m"], given["gamma"]
        if not derivative:
            return lambda: gmm_objective(*free, *fixed), float

        def encode(out: Any) -> Any:
            return {name: part.tolist() for name, part in zip(names, out, strict=True)}

        return lambda: gradients(gmm_objective, free, *fixed), encode

    return prepare


# --- lstm -----------------------------------------------------------------------------------------


def lstm_objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The mean negative log-likelihood of each character, given those before it."""
    layers, b = state.shape[0] // 2, state.shape[1]
    weights = [row.split(b) for row in main[0::2]]
    biases = [row.split(b) for row in main[1::2]]
    hidden, cells = list(state[0::2]), list(state[1::2])
    outputs = []
    for character in sequence[:-1]:
        x = character * extra[0]
        for i in range(layers):
            (of_forget, of_in, of_out, of_change), bias = weights[i], biases[i]
            forget = torch.sigmoid(x * of_forget + bias[0])
            taken = torch.sigmoid(hidden[i] * of_in + bias[1])
            out = torch.sigmoid(x * of_out + bias[2])
            change = torch.tanh(hidden[i] * of_change + bias[3])
            cells[i] = cells[i] * forget + taken * change
            x = hidden[i] = out * torch.tanh(cells[i])
        outputs.append(x)
    y = torch.stack(outputs) * extra[1] + extra[2]
    norm = torch.log(2.0 + torch.exp(y).sum(1, keepdim=True))
    return -(sequence[1:] * (y - norm)).sum() / (b * (sequence.shape[0] - 1))


def lstm(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The objective, or its gradient."""

    def prepare(given: Mapping[str, Any]) -> Prepared:
        free = [tensor(given[name], derivative) for name in ("main_params", "extra_params")]
        fixed = [tensor(given[name]) for name in ("state", "sequence")]
        if not derivative:
            return lambda: lstm_objective(*free, *fixed), float

        def run() -> Any:
            return torch.cat([part.reshape(-1) for part in gradients(lstm_objective, free, *fixed)])

        return run, lambda out: out.tolist()

    return prepare


# --- ba -------------------------------------------------------------------------------------------


def projected(seen: Any, feats: Any) -> Any:
    """The weighted reprojection errors [p, 2] of observations with parameters [p, 15]."""
    rotation, centre, focal, shift, k1, k2, point, weight = seen.split([3, 3, 1, 2, 1, 1, 3, 1], 1)
    moved = point - centre
    square = (rotation**2).sum(1, keepdim=True)
    turned = square > 0.0
    angle = torch.sqrt(torch.where(turned, square, 1.0))
    axis = rotation / angle
    cross = torch.linalg.cross(axis, moved)
    along = axis * (axis * moved).sum(1, keepdim=True) * (1.0 - torch.cos(angle))
    rotated = moved * torch.cos(angle) + cross * torch.sin(angle) + along
    rotated = torch.where(turned, rotated, moved + torch.linalg.cross(rotation, moved))
    flat = rotated[:, :2] / rotated[:, 2:]
    radius = (flat**2).sum(1, keepdim=True)
    stretched = flat * (1.0 + k1 * radius + k2 * radius * radius)
    return weight * (focal * stretched + shift - feats)


def ba(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The errors, or their sparse Jacobian."""

    def prepare(given: Mapping[str, Any]) -> Prepared:
        counts = n, m, p = given["n"], given["m"], given["p"]
        cameras, points = tensor(given["cam"]).tile(n, 1), tensor(given["x"]).tile(m, 1)
        weights, feats = tensor(given["w"]).tile(p, 1), tensor(given["feat"]).tile(p, 1)

        def gathered() -> Any:
            which = torch.arange(p)
            return torch.cat([cameras[which % n], points[which % m], weights], 1)

        def errors() -> Any:
            return projected(gathered(), feats), 1.0 - weights**2

        def jacobian() -> Any:
            seen = gathered().requires_grad_()
            sums = projected(seen, feats).sum(0)
            (first,) = torch.autograd.grad(sums[0], seen, retain_graph=True)
            (second,) = torch.autograd.grad(sums[1], seen)
            values = torch.cat([torch.stack([first, second], 1).flatten(), -2.0 * weights[:, 0]])
            return pattern_of.pattern(*counts), values

        def encode(out: Any) -> Any:
            if derivative:
                (rows, columns), values = out
                parts = {"rows": rows, "cols": columns, "vals": values}
                return {key: [*part[:30].tolist(), part[-1].item()] for key, part in parts.items()}
            found, of_weights = out
            return {
                "reproj_error": {"elements": found[0].tolist(), "repeated": p},
                "w_err": {"element": float(of_weights[0]), "repeated": p},
            }

        return jacobian if derivative else errors, encode

    return prepare


# --- ht -------------------------------------------------------------------------------------------


def turn(r: Any) -> Any:
    """The matrix [3, 3] of an axis times an angle; below 1e-4 it is the identity."""
    square = (r * r).sum()
    turned = square > 1e-8
    angle = torch.sqrt(torch.where(turned, square, 1.0))
    x, y, z = r / angle
    zero, one = torch.zeros_like(x), torch.eye(3, dtype=r.dtype)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    matrix = one + torch.sin(angle) * cross + (1.0 - torch.cos(angle)) * (cross @ cross)
    return torch.where(turned, matrix, one)


def bone_rotations(theta: Any) -> Any:
    """Rz(spread) Rx(bend) of the 22 bones, [22, 4, 4]."""
    angles, nothing = theta[6:].reshape(5, 4), torch.zeros(5, 1, dtype=theta.dtype)
    rigid = torch.zeros(2, dtype=theta.dtype)
    bends = torch.cat([angles[:, :1], angles[:, 2:], nothing], 1).reshape(-1)
    spreads = torch.cat([angles[:, 1:2], nothing, nothing, nothing], 1).reshape(-1)
    bend, spread = torch.cat([rigid, bends]), torch.cat([rigid, spreads])
    c, s, cz, sz = torch.cos(bend), torch.sin(bend), torch.cos(spread), torch.sin(spread)
    o, e = torch.zeros_like(c), torch.ones_like(c)
    rows = [cz, -sz * c, sz * s, o, sz, cz * c, -cz * s, o, o, s, c, o, o, o, o, e]
    return torch.stack(rows, 1).reshape(-1, 4, 4)


class Hand:
    """A model and the points that it is fitted to."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        model = data["model"]
        self.parents = list(model["parents"])
        self.relatives, self.back = (
            tensor(model[name]) for name in ("base_relatives", "inverse_base_absolutes")
        )
        self.positions, self.weights = tensor(model["base_positions"]), tensor(model["weights"])
        self.mirror = tensor([-1.0 if model["is_mirrored"] else 1.0, 1.0, 1.0])
        self.triangles = torch.tensor(np.asarray(model["triangles"]))
        self.points = tensor(data["points"])
        self.seen = torch.tensor(np.asarray(data["correspondences"]))

    def vertices(self, theta: Any) -> Any:
        """The vertices of a pose, [vertices, 3]."""
        local = self.relatives @ bone_rotations(theta)
        world: list[Any] = []
        for bone, parent in enumerate(self.parents):
            world.append(local[bone] if parent < 0 else world[parent] @ local[bone])
        transforms = (torch.stack(world) @ self.back)[:, :3]
        blended = (self.weights @ transforms.reshape(len(world), 12)).reshape(-1, 3, 4)
        found = (blended @ self.positions[:, :, None])[:, :, 0] * self.mirror
        return found @ turn(theta[:3]).T + theta[3:6]

    def objective(self, theta: Any, us: Any) -> Any:
        """The differences of the points from the model's, flat."""
        vertices = self.vertices(theta)
        if us.shape[0] == 0:
            return (self.points - vertices[self.seen]).reshape(-1)
        a, b, c = (vertices[self.triangles[self.seen][:, i]] for i in range(3))
        u, v = us[:, :1], us[:, 1:]
        return (self.points - (u * a + v * b + (1.0 - u - v) * c)).reshape(-1)

    def jacobian(self, theta: Any, us: Any) -> Any:
        """By forward mode: two directions for the us, 26 for theta."""
        by_theta = torch.func.jacfwd(self.objective)(theta, us)
        if us.shape[0] == 0:
            return by_theta
        columns = [
            torch.func.jvp(lambda v: self.objective(theta, v), (us,), (along.expand_as(us),))[1]
            for along in torch.eye(2, dtype=us.dtype)
        ]
        return torch.cat([torch.stack(columns, 1), by_theta], 1)


def ht(derivative: bool) -> Callable[[Mapping[str, Any]], Prepared]:
    """The differences, or their Jacobian."""

    def prepare(given: Mapping[str, Any]) -> Prepared:
        hand, theta = Hand(given["data"]), tensor(given["theta"])
        us = tensor(given["us"]).reshape(-1, 2)
        f = hand.jacobian if derivative else hand.objective
        return lambda: f(theta, us), lambda out: out.tolist()

    return prepare


FUNCTIONS = {
    "lse": {"primal": lse(False), "gradient": lse(True)},
    "kmeans": {"cost": kmeans(False), "dir": kmeans(True)},
    "gmm": {"objective": gmm(False), "jacobian": gmm(True)},
    "lstm": {"objective": lstm(False), "jacobian": lstm(True)},
    "ba": {"objective": ba(False), "jacobian": ba(True)},
    "ht": {"objective": ht(False), "jacobian": ht(True)},
}
