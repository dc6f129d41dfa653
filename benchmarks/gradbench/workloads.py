"""Inputs of the sizes that GradBench runs, made here: random numbers of the same kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

HAND_PARENTS = [-1, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 0, 13, 14, 15, 0, 17, 18, 19, 0]


def gmm(d: int, k: int, n: int) -> dict[str, Any]:
    """A mixture of k components in d dimensions, and n points."""
    r = np.random.default_rng(31337)
    return {
        "d": d, "k": k, "n": n, "m": 0, "gamma": 1.0, "x": r.normal(size=(n, d)),
        "alpha": r.normal(size=k), "mu": r.uniform(size=(k, d)), "q": r.normal(size=(k, d)),
        "l": r.normal(size=(k, d * (d - 1) // 2)),
    }  # fmt: skip


def ba(n: int, m: int, p: int) -> dict[str, Any]:
    """One camera, point and feature, to be replicated."""
    camera = [-0.76, -1.11, -0.85, 34.6, 39.7, 53.9, 419.2, 5.86, -8.52, 0.088, 0.0027]
    point, weight, feat = [7.2, 0.0011, 3.02], 0.417, [271.8, 834.2]
    return {"n": n, "m": m, "p": p, "cam": camera, "x": point, "w": weight, "feat": feat}


def lstm(layers: int, characters: int, b: int = 14) -> dict[str, Any]:
    """A network and a text of random bits."""
    r = np.random.default_rng(31337)
    return {
        "main_params": r.uniform(size=(2 * layers, 4 * b)),
        "extra_params": r.uniform(size=(3, b)),
        "state": r.uniform(size=(2 * layers, b)),
        "sequence": r.integers(2, size=(characters, b)).astype(np.float64),
    }


def ht(vertices: int, points: int, simple: bool) -> dict[str, Any]:
    """A hand of 22 bones with random geometry."""
    r = np.random.default_rng(31337)
    triangles = 2 * vertices - 4
    frames = np.tile(np.eye(4), (22, 1, 1))
    frames[:, :3, 3] = r.normal(size=(22, 3))
    back = np.linalg.inv(frames)
    weights = r.uniform(size=(vertices, 22)) * (r.uniform(size=(vertices, 22)) > 0.85)
    positions = np.concatenate([r.normal(size=(vertices, 3)), np.ones((vertices, 1))], axis=1)
    model = {
        "bone_count": 22, "parents": HAND_PARENTS, "base_relatives": frames,
        "inverse_base_absolutes": back, "base_positions": positions, "weights": weights,
        "triangles": r.integers(vertices, size=(triangles, 3)), "is_mirrored": False,
    }  # fmt: skip
    seen = r.integers(vertices if simple else triangles, size=points)
    data = {"model": model, "correspondences": seen, "points": r.normal(size=(points, 3))}
    us = [] if simple else r.uniform(size=(points, 2)) / 2
    return {"theta": r.normal(size=26), "data": data, "us": us}


def kmeans(k: int, n: int, d: int) -> dict[str, Any]:
    """Uniform points, of which the last are the centroids."""
    points = np.random.default_rng(31337).uniform(size=(n, d))
    return {"points": points, "centroids": points[-k:].copy()}


def uniform(size: int) -> Any:
    """Uniform numbers."""
    return np.random.default_rng(31337).uniform(size=size)


def workloads() -> dict[str, tuple[str, str, str, dict[str, Any]]]:
    """Label -> (eval, its function, its derivative, input)."""
    l2 = lstm(2, 1024)
    return {
        "lse 1.28e6": ("lse", "primal", "gradient", {"x": uniform(1_280_000)}),
        "llsq 16392": ("llsq", "primal", "gradient", {"x": uniform(128), "n": 16392}),
        "ode 1e5,s=100": ("ode", "primal", "gradient", {"x": uniform(100_000), "s": 100}),
        "kmeans 1000,10000,16": ("kmeans", "cost", "dir", kmeans(1000, 10_000, 16)),
        "gmm 32_25_1000": ("gmm", "objective", "jacobian", gmm(32, 25, 1000)),
        "gmm 64_100_1000": ("gmm", "objective", "jacobian", gmm(64, 100, 1000)),
        "lstm l2 c1024": ("lstm", "objective", "jacobian", l2),
        "ba1": ("ba", "objective", "jacobian", ba(49, 7776, 31843)),
        "ht small simple 100": ("ht", "objective", "jacobian", ht(544, 100, True)),
        "ht big complicated 10000": ("ht", "objective", "jacobian", ht(10_000, 10_000, False)),
        "det 9": ("det", "primal", "gradient", {"A": uniform(81), "ell": 9}),
        "det 10": ("det", "primal", "gradient", {"A": uniform(100), "ell": 10}),
        "particle fr": ("particle", "fr", "fr", {"w": 0.0}),
        "particle rr": ("particle", "rr", "rr", {"w": 0.0}),
        "saddle ff": ("saddle", "ff", "ff", {"start": [1.0, 1.0]}),
        "saddle rr": ("saddle", "rr", "rr", {"start": [1.0, 1.0]}),
    }
