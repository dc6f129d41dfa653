"""The counted cost of compiled functions: exact figures of small programs with known work."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from single import graphs

import fungrad as fg
from fungrad import lax
from fungrad.extend import elementwise, general
from fungrad.inspect.cost import cost


def cost_of(f, *args):
    return fg.jit(f).lower(*args).cost()


@pytest.fixture
def one_thread():
    before = fg.config.num_threads
    fg.config.num_threads = 1
    yield
    fg.config.num_threads = before


rng = np.random.default_rng(0)
A = rng.standard_normal((6, 6))
SYMMETRIC = A @ A.T + np.eye(6)
TALL = rng.standard_normal((9, 4))
STACK = np.stack([SYMMETRIC] * 3)

WORK = {
    "elementwise": (lambda: (lambda x, y: x * y + y, np.ones(10), np.ones(10)), (20, 0)),
    "broadcast": (lambda: (lambda x, y: x - y, np.ones((4, 1)), np.ones(5)), (20, 0)),
    "transcendental": (lambda: (lambda x: np.exp(np.sqrt(x)), np.ones(10)), (0, 20)),
    "a square": (lambda: (lambda x: x**2, np.ones(10)), (10, 0)),
    "a power": (lambda: (lambda x: x**2.5, np.ones(10)), (0, 10)),
    "complex": (lambda: (lambda x: x * x + x, np.ones(10, complex)), (80, 0)),
    "a reduction": (lambda: (lambda x: np.sum(x, axis=1), np.ones((3, 7))), (18, 0)),
    "an exact sum": (lambda: (lambda x: math.fsum(x), np.ones(8)), (7, 0)),
    "a maximum": (lambda: (lambda x: np.max(x), np.ones(8)), (7, 0)),
    "moves": (lambda: (lambda x: np.reshape(x.T, (6,))[::2], np.ones((2, 3))), (0, 0)),
    "a product": (lambda: (np.matmul, np.ones((2, 3)), np.ones((3, 4))), (48, 0)),
    "products": (lambda: (np.matmul, np.ones((5, 2, 3)), np.ones((5, 3, 4))), (240, 0)),
    "dot": (lambda: (np.dot, np.ones(7), np.ones(7)), (14, 0)),
    "complex product": (lambda: (np.dot, np.ones(7, complex), np.ones(7, complex)), (56, 0)),
    "convolve": (lambda: (np.convolve, np.ones(8), np.ones(3)), (48, 0)),
    "convolve valid": (lambda: (lambda x, y: np.convolve(x, y, "valid"), np.ones(8), np.ones(3)),
                       (36, 0)),
    "sort": (lambda: (np.sort, np.ones((2, 8))), (48, 0)),
    "argsort": (lambda: (np.argsort, np.ones(16)), (64, 0)),
    "search": (lambda: (np.searchsorted, np.arange(7.0), np.ones(5)), (15, 0)),
    "cumsum": (lambda: (lambda x: np.cumsum(x, axis=1), np.ones((2, 5))), (8, 0)),
    "fft": (lambda: (np.fft.fft, np.ones((2, 8), complex)), (240, 0)),
    "rfft": (lambda: (np.fft.rfft, np.ones(16)), (160, 0)),
    "irfft": (lambda: (np.fft.irfft, np.ones(9, complex)), (160, 0)),
    "cholesky": (lambda: (np.linalg.cholesky, SYMMETRIC), (72, 0)),
    "cholesky of a stack": (lambda: (np.linalg.cholesky, STACK), (216, 0)),
    "inv": (lambda: (np.linalg.inv, A), (432, 0)),
    "det": (lambda: (np.linalg.det, A), (144, 0)),
    "solve": (lambda: (np.linalg.solve, A, np.ones((6, 2))), (144 + 144, 0)),
    "qr": (lambda: (lambda a: np.linalg.qr(a), TALL), (round(2 * (2 * 9 * 16 - 2 / 3 * 64)), 0)),
    "eigvalsh": (lambda: (np.linalg.eigvalsh, SYMMETRIC), (288, 0)),
    "eigh": (lambda: (lambda a: np.linalg.eigh(a), SYMMETRIC), (9 * 216, 0)),
    "svdvals": (lambda: (lambda a: np.linalg.svd(a, compute_uv=False), TALL),
                (round(4 * 9 * 16 - 4 / 3 * 64), 0)),
    "svd": (lambda: (lambda a: np.linalg.svd(a, full_matrices=False), TALL),
            (14 * 9 * 16 + 8 * 64, 0)),
    "nothing": (lambda: (lambda x: np.exp(x @ x), np.ones((0, 0))), (0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", WORK)
def test_operations(name):
    make, (flops, transcendentals) = WORK[name]
    found = cost_of(*make())
    assert (found.flops, found.transcendentals) == (flops, transcendentals)
    assert found.unknown == {}


def test_a_loop_counts_its_steps():
    def f(x):
        return lax.scan(lambda c, a: (c * np.sin(a) + 1.0, c), 0.5, x)[0]

    found = cost_of(f, np.ones(50))
    assert (found.flops, found.transcendentals, found.equations) == (100, 50, 4)
    assert found.by_trip == {}
    back = cost_of(fg.grad(f), np.ones(50))
    assert back.transcendentals == 100  # sines forward, cosines for the way back
    assert back.flops > 2 * found.flops


def test_a_loop_in_a_loop():
    def f(x):
        def inner(c, a):
            return c + a, None

        return lax.scan(lambda c, row: (lax.scan(inner, c, row)[0], None), 0.0, x)[0]

    assert cost_of(f, np.ones((3, 7))).flops == 21


def test_a_while_is_counted_for_one_trip():
    def f(x):
        return lax.while_loop(lambda c: c < 100.0, lambda c: c * np.exp(x), x)

    found = cost_of(f, 2.0)
    # exp(x) runs once, after a first comparison; a trip has a comparison and the product
    assert (found.flops, found.transcendentals) == (3, 1)
    assert found.by_trip == {"while_loop": 1}
    assert "one trip" in repr(found)
    back = cost_of(fg.grad(f), 2.0)
    assert set(back.by_trip) == {"while_loop_record", "while_loop_pullback"}


def test_a_branch_counts_as_its_most_expensive():
    def f(x):
        return lax.cond(x[0] > 0, lambda x: np.sin(np.sin(x)), lambda x: np.cos(x), x)

    found = cost_of(f, np.ones(5))
    assert (found.flops, found.transcendentals) == (1, 10)
    assert found.equations > 4
    gradient = cost_of(fg.grad(lambda x: np.sum(f(x))), np.ones(5))
    assert gradient.transcendentals == 20


def test_a_checkpoint_counts_what_is_run_again():
    def layer(x):
        return np.exp(np.sin(x))

    plain = cost_of(fg.value_and_grad(lambda x: np.sum(layer(x))), np.ones(8))
    again = cost_of(fg.value_and_grad(lambda x: np.sum(fg.checkpoint(layer)(x))), np.ones(8))
    assert plain.transcendentals == 24  # the exponential, the sine, and its cosine
    assert again.transcendentals == 40  # the first two again


def test_what_has_no_rule_is_said():
    def f(x):
        return np.sum(fg.pure_callback(np.sin, x, x) + 1.0)

    found = cost_of(f, np.ones(4))
    assert found.flops == 7 and list(found.unknown.values()) == [1]
    (name,) = found.unknown
    assert f"{name}" in repr(found) and "no rule" in repr(found)


def test_primitives_of_ones_own():
    cubed = elementwise("cubed_here", lambda x: x**3, partials=[None])
    mirrored = general("inv", eval=lambda x: x, type=lambda x: x, cuts=True)
    found = cost_of(lambda x: mirrored(cubed(x)), np.ones((2, 2)))
    assert found.transcendentals == 4
    assert found.unknown == {"inv": 1}  # the name alone does not make it fungrad's


def test_bytes_of_equations_and_views():
    found = cost_of(lambda x: np.reshape(np.exp(x), (3, 2)).T, np.ones((2, 3)))
    assert (found.bytes_read, found.bytes_written) == (48, 48)
    found = cost_of(lambda x: x * x, np.ones(4, np.float32))
    assert (found.bytes_read, found.bytes_written) == (16, 16)


def test_the_peak_follows_the_life_of_values():
    def chain(x):
        for _ in range(6):
            x = np.sin(x)
        return np.sum(x)

    peak = cost_of(chain, np.ones(100)).peak
    assert (peak.inputs, peak.constants, peak.intermediates) == (800, 0, 1600)
    held = cost_of(fg.grad(chain), np.ones(100)).peak
    assert held.intermediates >= 5 * 800  # the residuals of the pullback

    table = np.arange(50.0)
    peak = cost_of(lambda x: x + table, np.ones(50)).peak
    assert tuple(peak) == (400, 400, 400, 0)
    assert peak.total == 1200


def test_a_view_shares_the_memory_of_what_it_shows():
    peak = cost_of(lambda x: np.reshape(np.sin(x), (5, 2)), np.ones(10)).peak
    assert (peak.outputs, peak.intermediates) == (80, 0)
    peak = cost_of(lambda x: np.sin(x.T), np.ones((5, 2))).peak
    assert (peak.inputs, peak.outputs, peak.intermediates) == (80, 80, 0)


def test_a_body_adds_its_own_peak():
    def f(x):
        return lax.scan(lambda c, a: (np.sin(c) * a, None), np.ones(100), x)[0]

    peak = cost_of(f, np.ones(3)).peak
    assert peak.outputs == 800
    assert peak.intermediates == 3 * 800  # the sine and the product of a step, and the carry before


def test_the_residuals_of_a_while_are_held():
    def f(x):
        done = lax.while_loop(lambda c: np.sum(c) < 9.0, lambda c: c * np.sin(x), x)
        return np.sum(done)

    peak = cost_of(fg.grad(f), np.ones(100)).peak
    assert peak.intermediates >= 3 * 800


def test_what_each_pass_removed():
    inner = fg.jit(lambda x: np.sin(x) + 1.0)

    def f(x):
        np.cos(x)  # not used
        return inner(fg.stop_gradient(x)) * inner(x)

    found = cost_of(f, np.ones(10))
    passes = {effect.name: effect for effect in found.passes}
    assert passes["inline"].equations == 2
    assert passes["erase_stops"].equations == 1
    removed = sum(effect.transcendentals for effect in found.passes)
    assert removed == 20  # the cosine, and the second sine
    lowered = fg.jit(f).lower(np.ones(10))
    assert found.equations == len(lowered.optimised.equations) == 3
    traced = 4 + 2 * 2 + len([e for e in lowered.graph.equations if e.primitive.name == "cos"])
    assert sum(effect.equations for effect in found.passes) == traced - 3


def test_shown_as_text_as_data_and_by_rich():
    found = cost_of(lambda x: np.exp(x) @ x, np.ones(1000))
    text = repr(found)
    assert text.startswith("cost of <lambda>") and "2,000" in text and "dot_general" in text
    data = json.loads(json.dumps(found.to_dict()))
    assert data["flops"] == 2000 and data["transcendentals"] == 1000
    assert data["peak_bytes"]["total"] == found.peak.total
    assert [row["primitive"] for row in data["by_primitive"]] == ["dot_general", "exp"]
    console = pytest.importorskip("rich.console").Console(width=100)
    with console.capture() as capture:
        console.print(found)
    assert "dot_general" in capture.get() and "2,000" in capture.get()


def test_a_graph_has_a_cost_too():
    graph = fg.make_jaxpr(fg.grad(lambda x: np.sum(x**2)))(np.ones(3))
    assert cost(graph).equations == len(fg.jit(fg.grad(lambda x: np.sum(x**2)))
                                        .lower(np.ones(3)).optimised.equations)  # fmt: skip


WITHOUT_RULE = frozenset(
    "anchors apart cofactors cofactors_along coincide debug_callback external finite frechet "
    "full_rank hermitian_function hermitian_weights invertible left_vectors lu_pivots "
    "matrix_function permutation_of_pivots random_binomial random_bits random_log_gamma "
    "random_poisson share_ties shares solve_banded sparse_eigsh sparse_solve trusted "
    "unitary_factor".split()
)
"""Primitives whose operations nobody counts; a new one gets a rule, or stands here."""


@pytest.mark.slow
def test_every_primitive_has_a_rule_or_is_known_to_have_none():
    unknown = set()
    for name, graph, _ in graphs():
        found = cost(graph)
        assert min(found.flops, found.transcendentals, found.bytes_read, *found.peak) >= 0, name
        unknown |= set(found.unknown)
    assert unknown <= WITHOUT_RULE
