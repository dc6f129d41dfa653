"""debug.print and debug.callback: their values, number and order."""

from __future__ import annotations

import numpy as np
import pytest

import fungrad as fg

X = np.array([1.0, 2.0])


def noisy(x):
    fg.debug.print("x={} {label}", x, label="here")
    return np.sin(x)


def lines(capsys):
    return capsys.readouterr().out.splitlines()


ONE = ["x=1.0 here"]
TWO = ["x=1.0 here", "x=2.0 here"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: noisy(1.0), ONE),
        (lambda: fg.grad(noisy)(1.0), ONE),
        (lambda: fg.value_and_grad(noisy)(1.0), ONE),
        (lambda: fg.jvp(noisy, (1.0,), (1.0,)), ONE),
        (lambda: fg.grad(fg.grad(noisy))(1.0), ONE),
        (lambda: fg.jit(noisy)(1.0), ONE),
        (lambda: fg.jit(fg.grad(noisy))(1.0), ONE),
        (lambda: fg.grad(fg.jit(noisy))(1.0), ONE),
        (lambda: fg.jvp(fg.jit(noisy), (1.0,), (1.0,)), ONE),
        (lambda: fg.vmap(noisy)(X), TWO),
        (lambda: fg.jit(fg.vmap(noisy))(X), TWO),
        (lambda: fg.vmap(fg.jit(noisy))(X), TWO),
        (lambda: fg.vmap(fg.grad(noisy))(X), TWO),
        (lambda: fg.vmap(fg.vmap(noisy))(X[None]), TWO),
        (lambda: fg.grad(fg.checkpoint(noisy))(1.0), ONE),
        (lambda: fg.grad(fg.checkpoint(fg.checkpoint(noisy), policy=fg.save_dots))(1.0), ONE),
        (lambda: fg.jit(fg.grad(fg.checkpoint(noisy)))(1.0), ONE),
        (lambda: fg.grad(fg.jit(fg.checkpoint(noisy)))(1.0), ONE),
        (lambda: fg.grad(fg.jit(fg.checkpoint(fg.jit(noisy))))(1.0), ONE),
        (lambda: fg.lax.scan(lambda c, x: (c, noisy(x)), 0.0, X), TWO),
        (lambda: fg.grad(lambda x: np.sum(fg.lax.map(noisy, x)))(X), TWO),
        (lambda: fg.jit(lambda x: fg.lax.cond(x > 0, noisy, np.cos, x))(1.0), ONE),
        (lambda: fg.jit(lambda x: fg.lax.cond(x > 0, noisy, np.cos, x))(-1.0), []),
    ],
)  # fmt: skip
def test_how_often(call, expected, capsys):
    call()
    assert lines(capsys) == expected


def test_jit_prints_at_run_time_and_not_while_tracing(capsys):
    f = fg.jit(noisy)
    f.lower(1.0)
    assert lines(capsys) == []
    f(1.0), f(2.0)
    assert lines(capsys) == TWO


def test_no_pass_drops_it(capsys):
    @fg.jit
    def f(x):
        fg.jit(noisy)(x)  # whose result is not used
        return x

    f(1.0)
    fg.grad(f)(1.0)
    assert lines(capsys) == ONE * 2
    fg.jit(lambda x: (noisy(x), noisy(x)))(1.0)
    assert lines(capsys) == ONE * 2


def test_in_the_order_of_the_program(capsys):
    @fg.jit
    def f(x):
        fg.debug.print("first {}", x + 1)
        fg.debug.print("second {}", x, ordered=True)
        return x

    f(1.0)
    assert lines(capsys) == ["first 2.0", "second 1.0"]


def test_trees_and_other_objects(capsys):
    fg.grad(lambda p: fg.debug.print("{p} {0} {1}", "text", None, p=p) or p["w"])({"w": 3.0})
    assert lines(capsys) == ["{'w': 3.0} text None"]


def test_callback_gets_arrays():
    seen = []

    def f(x):
        fg.debug.callback(lambda v, n: seen.append((type(v), v.sum(), n)), x, n=3)
        return np.sum(x)

    fg.jit(fg.grad(f))(X)
    assert seen == [(np.ndarray, 3.0, 3)]


def test_it_is_no_part_of_the_derivative():
    graph = fg.make_jaxpr(fg.grad(noisy))(1.0)
    assert str(graph).count("debug_callback") == 1


def test_what_a_callback_raises_is_raised():
    def refuse(v):
        raise ZeroDivisionError("on purpose")

    def f(x):
        fg.debug.callback(refuse, x)
        return x

    for transform in (lambda g: g, fg.jit, fg.grad, fg.vmap):
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            transform(f)(np.ones(1) if transform is fg.vmap else 1.0)
