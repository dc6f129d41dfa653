"""Whole random programs: every transform against finite differences, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import fungrad as fg
from fungrad.testing import check_grads, programs

BUDGET = settings(max_examples=60)


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def positions(program):
    return tuple(range(len(program.args)))


def directions(program):
    random = np.random.default_rng(0)
    return tuple(random.uniform(0.5, 1.5, np.shape(x)) for x in program.args)


@pytest.mark.slow
@given(programs())
@BUDGET
def test_both_modes_agree_with_finite_differences_to_order_two(program):
    check_grads(program, program.args, order=2, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@given(programs(scalar=False))
@BUDGET
def test_so_do_programs_of_many_outputs(program):
    check_grads(program, program.args, order=1, atol=1e-5, rtol=1e-5)


@given(programs())
@BUDGET
def test_reverse_is_the_transpose_of_forward(program):
    tangents = directions(program)
    _, pushed = fg.jvp(program, program.args, tangents)
    gradients = fg.grad(program, argnums=positions(program))(*program.args)
    close(pushed, sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True)))
    for gradient, arg in zip(gradients, program.args, strict=True):
        assert gradient.shape == arg.shape and gradient.dtype == arg.dtype


@pytest.mark.slow
@given(programs())
@BUDGET
def test_forward_over_reverse_is_reverse_over_forward(program):
    where = positions(program)
    tangents = directions(program)
    _, one = fg.jvp(fg.grad(program, argnums=where), program.args, tangents)
    two = fg.grad(lambda *xs: fg.jvp(program, xs, tangents)[1], argnums=where)(*program.args)
    for left, right in zip(one, two, strict=True):
        close(left, right)


@pytest.mark.slow
@given(programs(scalar=False))
@BUDGET
def test_a_staged_program_is_the_program(program):
    graph = fg.check_graph(fg.make_jaxpr(program)(*program.args))
    (staged,) = fg.evaluate(graph, *program.args)
    eager = program(*program.args)
    close(staged, eager, rtol=1e-14)
    assert np.asarray(staged).dtype == np.asarray(eager).dtype == graph.output_types[0].dtype
    assert np.shape(staged) == np.shape(eager) == graph.output_types[0].shape


@pytest.mark.slow
@given(programs())
@BUDGET
def test_a_staged_gradient_is_the_gradient(program):
    gradient = fg.grad(program, argnums=positions(program))
    graph = fg.check_graph(fg.make_jaxpr(gradient)(*program.args))
    assert len(graph.equations) <= 8 * (len(fg.make_jaxpr(program)(*program.args).equations) + 2)
    for left, right in zip(fg.evaluate(graph, *program.args), gradient(*program.args), strict=True):
        close(left, right, rtol=1e-13)


@pytest.mark.slow
@given(programs(scalar=False))
@BUDGET
def test_a_batch_is_the_loop(program):
    batches = [np.stack([x, x + 0.25, x - 0.5]) for x in program.args]
    loop = np.stack([program(*[b[i] for b in batches]) for i in range(3)])
    close(fg.vmap(program)(*batches), loop)
    # one argument batched, the others the same for all
    axes = (0, *[None] * (len(batches) - 1))
    some = [batches[0], *program.args[1:]]
    loop = np.stack([program(batches[0][i], *program.args[1:]) for i in range(3)])
    close(fg.vmap(program, in_axes=axes)(*some), loop)


@pytest.mark.slow
@given(programs())
@BUDGET
def test_a_batch_of_gradients_is_the_gradient_of_the_batch(program):
    where = positions(program)
    batches = [np.stack([x, x + 0.25]) for x in program.args]
    single = fg.vmap(fg.grad(program, argnums=where))(*batches)
    total = fg.grad(lambda *xs: np.sum(fg.vmap(program)(*xs)), argnums=where)(*batches)
    loop = [fg.grad(program, argnums=where)(*[b[i] for b in batches]) for i in range(2)]
    for a, b, c in zip(single, total, zip(*loop, strict=True), strict=True):
        close(a, b)
        close(a, np.stack(c))


@pytest.mark.slow
@given(programs())
@BUDGET
def test_a_stopped_argument_has_no_derivative_and_changes_no_other(program):
    where = positions(program)

    def stopped(first, *rest):
        return program(fg.stop_gradient(first), *rest)

    plain = fg.grad(program, argnums=where)(*program.args)
    found = fg.grad(stopped, argnums=where, unconnected="none")(*program.args)
    assert found[0] is None
    for left, right in zip(found[1:], plain[1:], strict=True):
        close(np.zeros_like(right) if left is None else left, right, rtol=1e-13)
    assert program(*program.args) == stopped(*program.args)
