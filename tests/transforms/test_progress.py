"""callback= of loops: called once a step, eager and compiled, and no part of any derivative."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.errors import StructureMismatchError

W = 1.1


class Seen(list):
    """The arguments of a callback: the number of steps done, and the carry."""

    def __call__(self, done, carry):
        assert type(done) is int
        self.append((done, carry))

    @property
    def steps(self):
        return [done for done, _ in self]


def scanned(w, callback=None, **options):
    body = lambda c, x: (np.tanh(w * c) + x, c)  # noqa: E731
    return lax.scan(body, 0.5, np.arange(3.0), callback=callback, **options)[0]


def counted(w, callback=None):
    return lax.fori_loop(2, 5, lambda i, c: np.sin(w * c) + i, 0.5, callback=callback)


def bounded(w, callback=None):
    return lax.fori_loop(0, np.array(3), lambda i, c: np.sin(w * c) + i, 0.5, callback=callback)


def searched(w, callback=None, **options):
    return lax.while_loop(
        lambda c: c < 10.0, lambda c: c * c + w, 1.2, callback=callback, **options
    )


LOOPS = (scanned, counted, bounded, searched)
TRANSFORMS = {
    "eager": lambda f: f,
    "jit": fg.jit,
    "grad": fg.grad,
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "derivative": lambda f: lambda w: fg.jvp(f, (w,), (1.0,))[1],
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_once_a_step_and_nothing_changes(loop, transform):
    seen = Seen()
    make = TRANSFORMS[transform]
    expected = make(loop)(W)
    assert make(lambda w: loop(w, seen))(W) == expected
    assert seen.steps == list(range(1, len(seen) + 1)) and len(seen) >= 3
    np.testing.assert_allclose(seen[-1][1], loop(W), rtol=1e-15)


def test_a_compiled_loop_calls_it_at_each_run():
    seen = Seen()
    run = fg.jit(lambda w: scanned(w, seen))
    run(W), run(W)
    assert seen.steps == [1, 2, 3, 1, 2, 3]


@pytest.mark.parametrize("checkpoint", ["binomial", 16])
@pytest.mark.parametrize("loop", [scanned, searched])
def test_steps_that_are_run_again_are_not_told_again(loop, checkpoint):
    seen = Seen()
    gradient = fg.grad(lambda w: loop(w, seen, checkpoint=checkpoint))(W)
    np.testing.assert_allclose(gradient, fg.grad(loop)(W), rtol=1e-14)
    assert seen.steps == [1, 2, 3][: len(seen)] and len(seen) == 3


def test_prints_inside_of_a_checkpointed_loop_come_once(capsys):
    def body(c, x):
        fg.debug.print("{}", x)
        return np.tanh(c * W) + x, None

    fg.grad(lambda c: lax.scan(body, c, np.arange(3), checkpoint="binomial")[0])(0.5)
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_a_callback_may_keep_and_change_what_it_gets():
    start, xs = np.linspace(-1.0, 1.0, 25).reshape(5, 5), np.linspace(0.0, 1.0, 100)
    kept, changed = [], []

    def change(step, carry):
        carry *= 0.0
        changed.append(step)

    def step(c, x):
        return np.tanh(c @ c.T + x), np.sum(c)

    carries, carry = [], start
    for x in xs:
        carry = np.tanh(carry @ carry.T + x)
        carries.append(carry)
    keep = lambda step, carry: kept.append(carry)  # noqa: E731
    for told in (keep, change):
        run = fg.jit(lambda s, xs, told=told: lax.scan(step, s, xs, callback=told)[0])
        np.testing.assert_allclose(run(start, xs), carries[-1])
    np.testing.assert_allclose(kept, carries)
    assert len(changed) == 100


def test_the_carry_is_the_users_tree():
    seen = Seen()
    lax.fori_loop(0, 2, lambda i, c: {"a": c["a"] + i, "b": c["b"]}, {"a": 1.0, "b": np.ones(2)},
                  callback=seen)  # fmt: skip
    assert seen[1][1]["a"] == 2.0 and seen[1][1]["b"].shape == (2,)
    assert isinstance(seen[1][1]["b"], np.ndarray)


def test_under_vmap_each_example_tells():
    seen = Seen()
    fg.vmap(lambda w: scanned(w, seen))(np.array([1.0, 2.0]))
    assert seen.steps == [1, 1, 2, 2, 3, 3]


def test_off_it_leaves_the_program_alone():
    plain = fg.make_jaxpr(lambda w: scanned(w))(W)
    told = fg.make_jaxpr(lambda w: scanned(w, Seen()))(W)
    assert "debug_callback" not in str(plain) and "debug_callback" in str(told)


def test_what_it_raises_ends_the_loop():
    def stop(done, carry):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fg.jit(lambda w: scanned(w, stop))(W)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda seen: lax.scan(lambda c, x: c, 0.0, np.arange(3.0), callback=seen),
        lambda seen: lax.while_loop(lambda c: c < 3.0, lambda c: (c, c), 0.0, callback=seen),
    ],
)
def test_errors_name_the_users_function(wrong):
    with pytest.raises(StructureMismatchError, match=r"test_progress\.py"):
        wrong(Seen())
