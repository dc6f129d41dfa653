"""Laws of composition over random programs: staging, loops, branches and checkpoints change no
number.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import fungrad as fg
from fungrad import lax
from fungrad.testing import programs

BUDGET = settings(max_examples=25)


def close(found, expected, rtol=1e-9):
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol)


def gradient(f, program):
    return fg.grad(f, argnums=tuple(range(len(program.args))))


@pytest.mark.slow
@given(programs())
@BUDGET
def test_jit_commutes_with_grad(program):
    expected = gradient(program, program)(*program.args)
    close(fg.jit(gradient(program, program))(*program.args), expected)
    close(gradient(fg.jit(program), program)(*program.args), expected)
    close(fg.jit(gradient(fg.jit(program), program))(*program.args), expected)


@pytest.mark.slow
@given(programs())
@BUDGET
def test_jit_commutes_with_jvp_and_vmap(program):
    tangents = tuple(np.ones_like(x) for x in program.args)
    expected = fg.jvp(program, program.args, tangents)
    close(fg.jvp(fg.jit(program), program.args, tangents), expected)
    close(fg.jit(lambda *xs: fg.jvp(program, xs, tangents))(*program.args), expected)
    batches = [np.stack([x, x - 0.25]) for x in program.args]
    loop = [program(*[b[i] for b in batches]) for i in range(2)]
    close(fg.vmap(fg.jit(program))(*batches), loop)
    close(fg.jit(fg.vmap(program))(*batches), loop)
    close(
        fg.jit(fg.vmap(gradient(program, program)))(*batches),
        fg.vmap(gradient(fg.jit(program), program))(*batches),
    )


@pytest.mark.slow
@given(programs())
@BUDGET
def test_jit_commutes_with_second_derivatives(program):
    def second(f):
        def total(*xs):
            return sum(np.sum(g) for g in gradient(f, program)(*xs))

        return gradient(total, program)

    expected = second(program)(*program.args)
    close(second(fg.jit(program))(*program.args), expected, 1e-8)
    close(fg.jit(second(program))(*program.args), expected, 1e-8)


@pytest.mark.slow
@given(programs())
@BUDGET
def test_checkpoint_changes_no_number(program):
    expected = gradient(program, program)(*program.args)
    for policy in (fg.checkpoint(program), fg.jit(fg.checkpoint(program))):
        close(gradient(policy, program)(*program.args), expected, 1e-12)
    close(fg.jit(gradient(fg.checkpoint(program), program))(*program.args), expected, 1e-12)


@pytest.mark.slow
@given(programs())
@settings(BUDGET, max_examples=15)
def test_a_scan_is_the_loop(program):
    def step(carry, rest):
        return carry + 0.1 * np.tanh(program(carry, *rest))

    def python(first, *rest):
        for _ in range(3):
            first = step(first, rest)
        return np.sum(first)

    def scanned(checkpoint):
        def f(first, *rest):
            body = lambda c, _: (step(c, rest), None)  # noqa: E731
            return np.sum(lax.scan(body, first, None, length=3, checkpoint=checkpoint)[0])

        return f

    def whiled(first, *rest):
        return np.sum(
            lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, step(c[1], rest)), (0, first))[
                1
            ]
        )

    expected = gradient(python, program)(*program.args)
    for f in (scanned(None), scanned("binomial"), fg.jit(scanned(None)), whiled):
        close([f(*program.args)], [python(*program.args)], 1e-12)
        close(gradient(f, program)(*program.args), expected)
        tangents = tuple(np.ones_like(x) for x in program.args)
        pushed = fg.jvp(f, program.args, tangents)[1]
        close([pushed], [sum(np.sum(g) for g in expected)], 1e-8)


@pytest.mark.slow
@given(programs())
@BUDGET
def test_a_branch_is_the_function(program):
    for taken in (True, False):

        def branched(*xs, taken=taken):
            return lax.cond(
                np.sum(xs[0]) < 1e9 if taken else np.sum(xs[0]) > 1e9,
                lambda *ys: program(*ys) if taken else ys[0].sum(),
                lambda *ys: ys[0].sum() if taken else program(*ys),
                *xs,
            )

        expected = gradient(program, program)(*program.args)
        close(gradient(branched, program)(*program.args), expected)
        close(fg.jit(gradient(branched, program))(*program.args), expected)
