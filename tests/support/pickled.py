"""Decorated functions of a module, to be pickled: test_pickling.py, here and in other processes."""

from __future__ import annotations

import numpy as np

import fungrad as fg

X = np.array([0.5, 1.5, 2.0])


def plain(x):
    return np.sum(np.sin(x) * x)


def stays(x):
    return np.sin(x) * x


@fg.jit
def jitted(x):
    return np.sum(np.cos(x) * x)


@fg.grad
def gradient(x):
    return np.sum(x**3)


@fg.jit
@fg.value_and_grad
def stacked(x):
    return np.sum(np.exp(x))


@fg.checkpoint
def again(x):
    return np.sum(np.sin(np.sin(x)))


@fg.no_gradient("weights")
def stopped(x):
    return np.sum(x * x)


@fg.custom_vjp
def clipped(x):
    return np.sum(x * x)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (np.clip(2 * x * ct, -1, 1),))


@fg.custom_jvp
def own(x, scale=2.0):
    return np.sum(scale * x)


@own.defjvp
def _own_jvp(primals, tangents):
    return own(*primals), 3.0 * np.sum(tangents[0])


@fg.external(vjp=lambda ct, out, x: (ct * 7.0 * np.ones_like(x),), shape=fg.Type((), float))
def outside(x):
    return np.float64(x.sum())


class Model:
    def __init__(self):
        self.weight = 2.0

    @fg.jit
    def method(x):
        return x * 5.0

    @staticmethod
    @fg.vmap
    def mapped(x):
        return x * x


DECORATED = [jitted, gradient, stacked, again, stopped, clipped, own, outside]
