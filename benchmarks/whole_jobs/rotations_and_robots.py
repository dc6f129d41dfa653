"""Rotations and robots: pyquaternion, transforms3d, ikpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.whole_jobs import job, row

RANDOM = np.random.default_rng(0)


def arm():
    from ikpy.chain import Chain
    from ikpy.link import OriginLink, URDFLink

    return Chain(
        name="arm",
        links=[
            OriginLink(),
            URDFLink(
                name="a",
                origin_translation=[0.0, 0.0, 0.3],
                origin_orientation=[0.0, 1.57, 0.0],
                rotation=[0.0, 1.0, 0.0],
            ),
            URDFLink(
                name="b",
                origin_translation=[0.25, 0.0, 0.0],
                origin_orientation=[0.0, 0.0, 0.1],
                rotation=[0.0, 0.0, 1.0],
            ),
            URDFLink(
                name="c",
                origin_translation=[0.22, 0.0, 0.0],
                origin_orientation=[0.0, 0.0, 0.0],
                rotation=[0.0, 1.0, 0.0],
            ),
        ],
        active_links_mask=[False, True, True, True],
    )


@job("pyquaternion", "rotate points by axis and angle", row(0.3, 0.5, 0.8, 1.1))
def rotate_points_by_axis_and_angle() -> Any:
    from pyquaternion import Quaternion

    def f(p):
        q = Quaternion(axis=p[:3], angle=p[3])
        return np.sum((q.rotate(np.array([1.0, 2.0, 3.0])) - np.array([2.0, 1.0, 3.0])) ** 2)

    return f


@job("pyquaternion", "slerp and distance", row(0.4, 0.9, 0.3))
def slerp_and_distance() -> Any:
    from pyquaternion import Quaternion

    goal = Quaternion(axis=[0.0, 1.0, 1.0], angle=0.7)

    def f(p):
        a = Quaternion(axis=[1.0, 0.0, 0.0], angle=p[0])
        b = Quaternion(axis=[0.0, 1.0, 0.0], angle=p[1])
        return Quaternion.absolute_distance(Quaternion.slerp(a, b, amount=p[2]), goal)

    return f


@job("pyquaternion", "integrate a rate", row(0.1, 0.2, 0.3))
def integrate_a_rate() -> Any:
    from pyquaternion import Quaternion

    def f(w):
        q = Quaternion()
        for _ in range(5):
            q.integrate(w, 0.1)
        return q.rotation_matrix @ np.array([1.0, 0.0, 0.0])

    return f


@job("transforms3d", "euler angles to fit a matrix", row(0.3, -0.2, 0.5))
def euler_angles_to_fit_a_matrix() -> Any:
    from transforms3d.euler import euler2mat

    target = euler2mat(0.1, 0.2, 0.3)
    return lambda p: np.sum((euler2mat(p[0], p[1], p[2], "sxyz") - target) ** 2)


@job("transforms3d", "compose an affine", row(0.3, 0.2, 0.1, 1.5, 2.0, 0.5))
def compose_an_affine() -> Any:
    from transforms3d.affines import compose
    from transforms3d.euler import euler2mat

    pts = RANDOM.normal(size=(4, 5))
    pts[3] = 1
    return lambda p: np.sum((compose(p[:3], euler2mat(*p[:3]), p[3:]) @ pts)[:3] ** 2)


@job("transforms3d", "quaternions", row(0.3, 0.4, 0.5, 0.7))
def quaternions_of_transforms3d() -> Any:
    from transforms3d import quaternions as tq

    def f(p):
        q = tq.qmult(tq.axangle2quat(p[:3], p[3]), tq.axangle2quat([1.0, 0.0, 0.0], 0.2))
        return tq.rotate_vector(np.array([1.0, 2.0, 3.0]), q)

    return f


@job("ikpy", "distance of the tool to a goal", row(0.0, 0.3, 0.2, -0.4))
def distance_of_the_tool_to_a_goal() -> Any:
    robot = arm()
    return lambda q: np.sum((robot.forward_kinematics(q)[:3, 3] - np.array([0.2, 0.1, 0.5])) ** 2)


@job("ikpy", "all frames", row(0.3, 0.2, -0.4))
def all_frames() -> Any:
    robot = arm()
    return lambda q: sum(
        np.sum(T[:3, 3] ** 2)
        for T in robot.forward_kinematics(
            robot.active_to_full(q, np.zeros(4)), full_kinematics=True
        )
    )


@job("ikpy", "joint angles by the goal", row(0.45, 0.05, 0.2), first=0.01)
def joint_angles_by_the_goal() -> Any:
    robot = arm()
    return lambda g: robot.forward_kinematics(
        robot.inverse_kinematics(g, initial_position=[0.0, 0.3, 0.2, 0.1])
    )[:3, 3]
