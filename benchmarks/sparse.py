"""Sparse derivatives beside SciPy's grouped differences, dense ones and formulas by hand.

    python -m benchmarks.sparse [--size 100000]

Each row is CPU time, the minimum of interleaved rounds, in evaluations of the function as it is
written; set-up is the second one in its process. asdex and CasADi are compared where installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
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


def bratu_of(exp: Callable[[Any], Any], pad: Any) -> Callable[[Any], Any]:
    """`bratu` with the functions of another library."""

    def residual(u: Any) -> Any:
        side = int(np.sqrt(u.shape[0]))
        grid = pad(u.reshape((side, side)), 1)
        inner = grid[1:-1, 1:-1]
        around = grid[2:, 1:-1] + grid[:-2, 1:-1] + grid[1:-1, 2:] + grid[1:-1, :-2]
        return (4 * inner - around - 0.01 * exp(inner)).reshape(-1)

    return residual


def casadi_bratu(u: Any) -> Any:
    """`bratu` in CasADi's words, of an SX column."""
    import casadi as ca

    side = int(np.sqrt(u.shape[0]))
    inner = ca.reshape(u, side, side)
    row, column = ca.SX(1, side), ca.SX(side, 1)
    around = ca.vertcat(inner[1:, :], row) + ca.vertcat(row, inner[:-1, :])
    around += ca.horzcat(inner[:, 1:], column) + ca.horzcat(column, inner[:, :-1])
    return ca.reshape(4 * inner - around - 0.01 * ca.exp(inner), -1, 1)


def casadi_rosenbrock(x: Any) -> Any:
    """`rosenbrock` in CasADi's words."""
    import casadi as ca

    return ca.sum1(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


CONTROLS = 20
"""The time steps of `dynamics`."""


def dynamics(join: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The constraints of an optimal control problem of the Van der Pol oscillator, of positions,
    speeds and controls, with a library's function that joins vectors.
    """

    def constraints(z: Any) -> Any:
        count = CONTROLS + 1
        p, v, u = z[:count], z[count : 2 * count], z[2 * count :]
        speed = v[1:] - v[:-1] - 0.1 * ((1 - p[:-1] ** 2) * v[:-1] - p[:-1] + u)
        return join([p[1:] - p[:-1] - 0.1 * v[:-1], speed])

    return constraints


def lagrangian(join: Callable[[Any], Any], total: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Its Lagrangian at multipliers 0.5."""
    constraints = dynamics(join)
    return lambda z: total(z**2) + total(0.5 * constraints(z))


def in_casadi(z: Any, order: int) -> Any:
    """`dynamics`, or `lagrangian`, in CasADi's words."""
    import casadi as ca

    join = lambda parts: ca.vertcat(*parts)  # noqa: E731
    return dynamics(join)(z) if order == 1 else lagrangian(join, ca.sum1)(z)


class _Peer:
    """A derivative of another library: in its own form, and as SciPy's."""

    def __init__(self, run: Callable[[np.ndarray], Any], matrix: Callable[[Any], Any]) -> None:
        self.run = run
        self.matrix = matrix


def casadi_derivative(f: Any, order: int, x: np.ndarray) -> _Peer:
    """CasADi's compiled Jacobian or Hessian, as a function of an ndarray, made now."""
    import casadi as ca

    u = ca.SX.sym("u", x.size)
    matrix = ca.jacobian(f(u), u) if order == 1 else ca.hessian(f(u), u)[0]
    run = ca.Function("derivative", [u], [matrix])
    return _Peer(run, lambda found: found.sparse())


def asdex_derivative(f: Any, order: int, x: np.ndarray) -> _Peer:
    """asdex's sparse Jacobian or Hessian of a function of jax.numpy, set up and compiled now."""
    import asdex
    import jax

    jax.config.update("jax_enable_x64", True)
    make = asdex.jacobian if order == 1 else asdex.hessian
    run = jax.jit(make(f, x))
    jax.block_until_ready(run(x))

    def matrix(found: Any) -> Any:
        rows, columns = np.asarray(found.indices).T
        return scipy.sparse.csr_array((np.asarray(found.data), (rows, columns)), found.shape)

    return _Peer(lambda x: jax.block_until_ready(run(x)), matrix)


def fungrad_derivative(f: Any, order: int, x: np.ndarray) -> Callable[[np.ndarray], Any]:
    """fungrad's, with its pattern, its colours and its compiled programs made now."""
    derivative = fg.sparse.jacobian(f) if order == 1 else fg.sparse.hessian(f)
    derivative(x)
    return derivative


def interleaved(*functions: Callable[[], Any]) -> list[float]:
    """The least CPU time of each function, called in turn."""
    best = [np.inf] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - start)
    return best


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `make`, and its CPU time."""
    start = time.process_time()
    made = make()
    return made, time.process_time() - start


def row(name: str, f: Any, x: np.ndarray, make: Any, rival: Any, rival_name: str) -> None:
    """Prints one case: set-up, one derivative, and its rival, in evaluations of f."""

    def prepared() -> Any:
        derivative = make(f)
        derivative.pattern(x)
        return derivative

    prepared()  # imports what it needs
    derivative, setup = timed(prepared)
    derivative(x)
    one, ours, theirs = interleaved(lambda: f(x), lambda: derivative(x), lambda: rival(x))
    colours = int(derivative.colours(x).max()) + 1
    print(
        f"{name:24s} {x.size:9,d} unknowns {colours:3d} colours   set-up {setup / one:6.0f} f   "
        f"derivative {ours / one:6.1f} f   {ours / theirs:5.2f} of {rival_name}"
    )


def peers(name: str, order: int, x: np.ndarray, of: dict[str, Any]) -> None:
    """Prints set-up and one derivative of each library, over fungrad's, and checks the values."""
    makers = {"asdex": asdex_derivative, "CasADi": casadi_derivative}
    fungrad_derivative(of["fungrad"], order, x)  # imports what it needs
    ours, setup = timed(lambda: fungrad_derivative(of["fungrad"], order, x))
    for peer, make in makers.items():
        if importlib.util.find_spec(peer.lower()) is None:
            print(f"{name:24s} {peer} is not installed and left out")
            continue
        make(of[peer], order, x[:100])
        theirs, their_setup = timed(lambda m=make, p=peer: m(of[p], order, x))
        matrix = scipy.sparse.csr_array(theirs.matrix(theirs.run(x)))
        apart = abs(matrix - ours(x)).max()
        assert apart <= 1e-12 * abs(matrix).max(), (name, peer, apart)
        one, other = interleaved(lambda: ours(x), lambda run=theirs.run: run(x))
        print(
            f"{name:24s} over {peer:7s} set-up {setup:6.3f} s of {their_setup:6.2f} s "
            f"({setup / their_setup:.3f})   derivative {1e3 * one:6.3f} ms of "
            f"{1e3 * other:6.3f} ms ({one / other:.2f})   values apart {apart:.0e}"
        )


def memory(size: int) -> None:
    """Prints the peak of memory of this process after a Jacobian and a Hessian of `size`."""
    side = int(np.sqrt(size))
    x = np.random.default_rng(0).random(side * side)
    entries = fg.sparse.jacobian(bratu)(x).nnz + fg.sparse.hessian(rosenbrock)(x).nnz
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{x.size:,} unknowns, {entries:,} entries: a peak of {peak:.2f} GiB")


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
    libraries: dict[str, Any] = {}
    if importlib.util.find_spec("asdex") is not None:
        import jax.numpy as jnp

        libraries = {"asdex": bratu_of(jnp.exp, jnp.pad)}
    peers("Bratu, Jacobian", 1, x, {"fungrad": bratu, "CasADi": casadi_bratu, **libraries})
    if libraries:
        libraries = {
            "asdex": lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        }
    peers(
        "Rosenbrock, Hessian",
        2,
        x,
        {"fungrad": rosenbrock, "CasADi": casadi_rosenbrock, **libraries},
    )
    z = np.random.default_rng(0).random(3 * CONTROLS + 2)
    f, of = dynamics(np.concatenate), {}
    if importlib.util.find_spec("asdex") is not None:
        of = {"asdex": dynamics(jnp.concatenate)}
    peers("control, Jacobian", 1, z, {"fungrad": f, "CasADi": lambda z: in_casadi(z, 1), **of})
    f = lagrangian(np.concatenate, np.sum)
    if of:
        of = {"asdex": lagrangian(jnp.concatenate, jnp.sum)}
    peers("control, Hessian", 2, z, {"fungrad": f, "CasADi": lambda z: in_casadi(z, 2), **of})
    memory(10 * size)


if __name__ == "__main__":
    main()
