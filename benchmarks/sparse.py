"""Sparse derivatives beside SciPy's grouped differences, dense ones and formulas by hand.

    python -m benchmarks.sparse [--size 100000]

Each row is CPU time, the minimum of interleaved rounds, in evaluations of the function.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize._numdiff import approx_derivative

import fungrad as fg

ROUNDS = 7


def bratu(u: Any) -> Any:
    """The residual of the Bratu equation on a square grid."""
    side = int(np.sqrt(u.size))
    grid = np.pad(np.reshape(u, (side, side)), 1)
    inner = grid[1:-1, 1:-1]
    around = grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2]
    return np.ravel(4 * inner - around - 0.01 * np.exp(inner))


def rosenbrock(x: Any) -> Any:
    """Rosenbrock's function, whose Hessian has three diagonals."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_by_hand(x: np.ndarray) -> Any:
    """The Hessian of Rosenbrock's function from its formula."""
    middle = np.zeros_like(x)
    middle[:-1] = 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    middle[1:] += 200
    side = -400 * x[:-1]
    return scipy.sparse.diags_array([side, middle, side], offsets=[-1, 0, 1], format="csr")


def projected(cameras: Any, points: Any, seen_by: Any, seen: Any) -> Any:
    """Points seen by cameras: rotated by Rodrigues' formula, moved, projected, distorted."""
    camera, point = cameras[seen_by], points[seen]
    turn = camera[:, :3]
    angle = np.sqrt(np.sum(turn**2, axis=1, keepdims=True) + 1e-12)
    axis = turn / angle
    dot = np.sum(point * axis, axis=1, keepdims=True)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = cosine * point + sine * np.cross(axis, point) + dot * (1 - cosine) * axis
    moved = turned + camera[:, 3:6]
    flat = -moved[:, :2] / moved[:, 2:3]
    square = np.sum(flat**2, axis=1)
    scale = camera[:, 6] * (1 + camera[:, 7] * square + camera[:, 8] * square**2)
    return np.ravel(flat * scale[:, None])


def bundle(count: int = 8_000) -> tuple[Callable[[Any], Any], np.ndarray]:
    """Residuals of a bundle adjustment with random cameras and points, and parameters."""
    rng = np.random.default_rng(0)
    cameras, points = count // 400, count // 4
    seen_by, seen = rng.integers(0, cameras, count), rng.integers(0, points, count)
    x = rng.normal(size=9 * cameras + 3 * points)
    start = 9 * cameras

    def residuals(x: Any) -> Any:
        return projected(
            np.reshape(x[:start], (cameras, 9)), np.reshape(x[start:], (points, 3)), seen_by, seen
        )

    return residuals, x


def interleaved(*functions: Callable[[], Any]) -> list[float]:
    """The least CPU time of each function, called in turn."""
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def row(name: str, f: Any, x: np.ndarray, make: Any, rival: Any, rival_name: str) -> None:
    """Prints one case: set-up, one derivative, and its rival, in evaluations of f."""
    start = time.process_time()
    derivative = make(f)
    derivative.pattern(x)
    setup = time.process_time() - start
    derivative(x)
    compiled = fg.jit(f)
    compiled(x)
    one, ours, theirs = interleaved(lambda: compiled(x), lambda: derivative(x), lambda: rival(x))
    colours = int(derivative.colours(x).max()) + 1
    print(
        f"{name:24s} {x.size:9,d} unknowns {colours:3d} colours   set-up {setup / one:6.0f} f   "
        f"derivative {ours / one:6.1f} f   {ours / theirs:5.2f} of {rival_name}"
    )


def differences(f: Any) -> Any:
    """SciPy's differences over groups of columns, given the pattern."""
    plan = fg.sparse.jacobian(f)

    def run(x: np.ndarray) -> Any:
        sparsity = (plan.pattern(x), plan.colours(x))
        return approx_derivative(f, x, method="2-point", sparsity=sparsity)

    return run


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    size = parser.parse_args().size
    side = int(np.sqrt(size))
    x = np.random.default_rng(0).random(side * side)
    row("Bratu, Jacobian", bratu, x, fg.sparse.jacobian, differences(bratu), "grouped differences")
    row("Rosenbrock, Hessian", rosenbrock, x, fg.sparse.hessian, rosenbrock_by_hand, "by hand")
    residuals, parameters = bundle()
    row(
        "bundle adjustment", residuals, parameters, fg.sparse.jacobian, differences(residuals),
        "grouped differences",
    )  # fmt: skip


if __name__ == "__main__":
    main()
