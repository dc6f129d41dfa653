"""Statistics and physics on whole arrays: mixtures, cameras, bodies, roots."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases.case import LOOP, Case, normal, sums, uniform

SOFTENING = 0.01
TOLERANCE = 1e-12


def mixture(np: Any, ad: Any) -> Any:
    """The log-likelihood of normal distributions with diagonal covariances, and its gradient."""

    def log_likelihood(means: Any, scales: Any, weights: Any, points: Any) -> Any:
        moved = (points[:, None, :] - means) * np.exp(-scales)
        each = weights - np.sum(scales, 1) - 0.5 * np.sum(moved * moved, 2)
        shift = np.max(each, 1, keepdims=True)
        total = np.log(np.sum(np.exp(each - shift), 1)) + shift[:, 0]
        return np.sum(total) - points.shape[0] * np.log(np.sum(np.exp(weights)))

    return ad.value_and_grad(log_likelihood, (0, 1, 2))


def mixture_by_hand(
    means: Any, scales: Any, weights: Any, points: Any
) -> tuple[Any, tuple[Any, ...]]:
    """Responsibilities times what they are responsible for."""
    inverse = np.exp(-scales)
    moved = points[:, None, :] - means
    moved *= inverse
    squares = moved * moved
    each = weights - np.sum(scales, 1) - 0.5 * np.sum(squares, 2)
    shift = np.max(each, 1, keepdims=True)
    responsible = np.exp(each - shift)
    total = np.sum(responsible, 1, keepdims=True)
    responsible /= total
    prior = np.exp(weights)
    value = np.sum(np.log(total)) + np.sum(shift) - len(points) * np.log(np.sum(prior))
    held = np.sum(responsible, 0)
    by_means = np.einsum("nk,nkd->kd", responsible, moved) * inverse
    by_scales = np.einsum("nk,nkd->kd", responsible, squares) - held[:, None]
    return value, (by_means, by_scales, held - len(points) * prior / np.sum(prior))


def mixed(count: int, components: int, width: int) -> tuple[Any, ...]:
    """Means, log-scales, log-weights and points."""
    shape = components, width
    return normal(*shape), normal(*shape, scale=0.1), normal(components), normal(count, width)


def bundle(np: Any, ad: Any) -> Any:
    """Half the squared reprojection errors, and their gradient by cameras and points."""

    def cost(cameras: Any, points: Any, of: Any, at: Any, seen: Any) -> Any:
        camera, point = cameras[of], points[at]
        turn, shift = camera[:, :3], camera[:, 3:6]
        focal, k1, k2 = camera[:, 6], camera[:, 7], camera[:, 8]
        square = np.sum(turn * turn, 1)
        angle = np.sqrt(square)
        by_sine, by_cosine = np.sin(angle) / angle, (1.0 - np.cos(angle)) / square
        along = by_cosine * np.sum(turn * point, 1)
        moved = (
            np.cos(angle)[:, None] * point
            + by_sine[:, None] * np.cross(turn, point)
            + along[:, None] * turn
            + shift
        )
        flat = -moved[:, :2] / moved[:, 2:]
        radius = np.sum(flat * flat, 1)
        stretch = focal * (1.0 + radius * (k1 + k2 * radius))
        return 0.5 * np.sum((stretch[:, None] * flat - seen) ** 2)

    return ad.value_and_grad(cost, (0, 1))


def bundle_by_hand(
    cameras: Any, points: Any, of: Any, at: Any, seen: Any
) -> tuple[Any, tuple[Any, Any]]:
    """Backpropagation through Rodrigues' rotation, and sums over those that see the same."""
    camera, point = cameras[of], points[at]
    turn, shift = camera[:, :3], camera[:, 3:6]
    focal, k1, k2 = camera[:, 6], camera[:, 7], camera[:, 8]
    square = np.sum(turn * turn, 1)
    angle = np.sqrt(square)
    cosine, sine = np.cos(angle), np.sin(angle)
    by_sine, by_cosine = sine / angle, (1.0 - cosine) / square
    inner = np.sum(turn * point, 1)
    outer = np.cross(turn, point)
    along = by_cosine * inner
    moved = cosine[:, None] * point + by_sine[:, None] * outer + along[:, None] * turn + shift
    flat = -moved[:, :2] / moved[:, 2:]
    radius = np.sum(flat * flat, 1)
    bend = 1.0 + radius * (k1 + k2 * radius)
    stretch = focal * bend
    errors = stretch[:, None] * flat - seen
    value = 0.5 * np.sum(errors * errors)

    g_stretch = np.sum(errors * flat, 1)
    g_bend = g_stretch * focal
    g_radius = g_bend * (k1 + 2.0 * k2 * radius)
    g_flat = stretch[:, None] * errors + (2.0 * g_radius)[:, None] * flat
    g_moved = np.empty_like(moved)
    g_moved[:, :2] = -g_flat / moved[:, 2:]
    g_moved[:, 2] = -np.sum(g_flat * flat, 1) / moved[:, 2]
    g_along = np.sum(g_moved * turn, 1)
    g_inner = g_along * by_cosine
    g_angle = (
        np.sum(g_moved * outer, 1) * (cosine - by_sine) / angle
        - np.sum(g_moved * point, 1) * sine
        + g_along * inner * (by_sine - 2.0 * by_cosine) / angle
    )
    g_point = (
        cosine[:, None] * g_moved
        + g_inner[:, None] * turn
        + by_sine[:, None] * np.cross(g_moved, turn)
    )
    g_camera = np.empty_like(camera)
    g_camera[:, :3] = (
        along[:, None] * g_moved
        + g_inner[:, None] * point
        + by_sine[:, None] * np.cross(point, g_moved)
        + (g_angle / angle)[:, None] * turn
    )
    g_camera[:, 3:6] = g_moved
    g_camera[:, 6] = g_stretch * bend
    g_camera[:, 7] = g_bend * radius
    g_camera[:, 8] = g_bend * radius * radius
    return value, (sums(g_camera, of, len(cameras)), sums(g_point, at, len(points)))


def views(cameras: int, points: int, observations: int) -> tuple[Any, ...]:
    """Cameras, points, which camera sees which point, and where."""
    turns = normal(cameras, 3, scale=0.3)
    shifts = np.stack([np.zeros(cameras), np.zeros(cameras), np.full(cameras, -8.0)], 1)
    lens = np.stack([np.full(cameras, 500.0), *normal(2, cameras, seed=1, scale=0.01)], 1)
    generator = np.random.default_rng(2)
    of = generator.integers(0, cameras, observations)
    at = generator.integers(0, points, observations)
    seen = normal(observations, 2, seed=3, scale=50.0)
    return np.concatenate([turns, shifts, lens], 1), normal(points, 3, seed=4), of, at, seen


def bodies(np: Any, ad: Any) -> Any:
    """The energy of bodies under gravity: Hamilton's derivatives, by places and by momenta."""

    def energy(places: Any, momenta: Any, masses: Any) -> Any:
        between = places[:, None, :] - places[None, :, :]
        squares = np.sum(between * between, 2) + SOFTENING
        potential = masses[:, None] * masses[None, :] / np.sqrt(squares)
        return 0.5 * (np.sum(momenta * momenta / masses[:, None]) - np.sum(potential))

    return ad.grad(energy, (0, 1))


def bodies_by_hand(places: Any, momenta: Any, masses: Any) -> tuple[Any, Any]:
    """Newton's forces, and the velocities."""
    between = places[:, None, :] - places
    squares = np.sum(between * between, 2) + SOFTENING
    pulls = masses[:, None] * masses / (squares * np.sqrt(squares))
    return (pulls[:, None, :] @ between)[:, 0], momenta / masses[:, None]


def galaxy(count: int) -> tuple[Any, ...]:
    """Places, momenta and masses."""
    return normal(count, 3), normal(count, 3, seed=1), uniform(count, low=0.5, high=1.5)


def kepler(np: Any, ad: Any) -> Any:
    """Kepler's equation by Newton's method, and the derivative by the eccentricity."""

    def anomaly(eccentricity: Any, mean: Any) -> Any:
        def active(state: Any) -> Any:
            return np.max(np.abs(state[1])) > TOLERANCE

        def step(state: Any) -> Any:
            x, _ = state
            change = (x - eccentricity * np.sin(x) - mean) / (1.0 - eccentricity * np.cos(x))
            return x - change, change

        return ad.lax.while_loop(active, step, (mean, np.ones_like(mean)))[0]

    def both(eccentricity: Any, mean: Any) -> Any:
        return ad.jvp(lambda e: anomaly(e, mean), (eccentricity,), (1.0,))

    return both


def kepler_by_hand(eccentricity: Any, mean: Any) -> tuple[Any, Any]:
    """Newton's method, then the implicit function theorem."""
    x, change = mean, np.ones_like(mean)
    while np.max(np.abs(change)) > TOLERANCE:
        change = (x - eccentricity * np.sin(x) - mean) / (1.0 - eccentricity * np.cos(x))
        x = x - change
    return x, np.sin(x) / (1.0 - eccentricity * np.cos(x))


def orbits(count: int) -> tuple[Any, ...]:
    """An eccentricity and mean anomalies."""
    return 0.4, uniform(count, low=0.1, high=3.0)


CASES = (
    Case(
        "mixture 5000x10x5",
        mixture,
        mixture_by_hand,
        partial(mixed, 5000, 10, 5),
        partial(mixed, 6, 3, 2),
    ),
    Case(
        "bundle adjustment 30000",
        bundle,
        bundle_by_hand,
        partial(views, 50, 5000, 30_000),
        partial(views, 2, 5, 9),
    ),
    Case("n-body 100", bodies, bodies_by_hand, partial(galaxy, 100), partial(galaxy, 4)),
    Case("n-body 500", bodies, bodies_by_hand, partial(galaxy, 500), partial(galaxy, 4)),
    Case(
        "Newton by while_loop 1e+05",
        kepler,
        kepler_by_hand,
        partial(orbits, 100_000),
        partial(orbits, 4),
        without=("PyTorch", "autograd"),
    ),
    Case(
        "Newton by while_loop 3",
        kepler,
        kepler_by_hand,
        partial(orbits, 3),
        partial(orbits, 3),
        kind=LOOP,
        without=("PyTorch", "autograd"),
    ),
)
