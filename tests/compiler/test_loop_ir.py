"""The loop IR, its printer, and its form in a compiled function."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import fungrad as fg
from fungrad import lax
from fungrad.compiler.loop_ir.printer import printed
from fungrad.compiler.loop_ir.program import (
    Block,
    Call,
    Expression,
    For,
    Iterator,
    Local,
    Move,
    Program,
    Return,
    coalesce,
    listed,
    touched,
    value,
)


def run(program, **namespace):
    """The function that a program prints."""
    exec(printed(program), namespace)
    return namespace[program.name]


def define(text, *inputs):
    """A new value, and the node that defines it."""
    found = Local()
    return found, Call(text, inputs, [found])


def test_names_of_dead_values_are_used_again_and_live_ones_kept():
    x, y = Local(), Local()
    a, first = define("{0} + {1}", x, y)
    b, second = define("{0} * {1}", a, a)
    c, third = define("{0} - {1}", b, y)
    program = Program("f", [x, y], [first, second, third, Return(listed([value(c), value(y)]))], {})
    assert run(program)(5.0, 3.0) == [61.0, 3.0]
    text = printed(program)
    assert set(re.findall(r"v\d+", text)) == {"v0", "v1"}
    assert "del" not in text


def test_what_nothing_reads_is_dropped_at_once():
    x = Local()
    _, made = define("np.zeros_like({0})", x)
    text = printed(Program("f", [x], [made, Return(value(x))], {}))
    assert text == "def f(v0):\n    v1 = np.zeros_like(v0)\n    del v1\n    return v0"


def test_names_that_the_next_iteration_reads_are_kept():
    x, y = Local(), Local()
    a, first = define("{0} + 1", x)
    b, second = define("{0} * {1}", a, y)
    c, third = define("{0} - 1", b)
    loop = For(3, [], [first, second, third, Move([(x, c)])])
    program = Program("f", [x, y], [loop, Return(value(x))], {})
    assert run(program)(2, 3) == 80
    assert set(re.findall(r"v\d+", printed(program))) == {"v0", "v1", "v2"}


def test_names_of_globals_are_not_handed_on():
    x, factor = Local(), Local()
    y, scaled = define("{0} * {1}", x, factor)
    program = Program("f", [x], [scaled, Return(value(y))], {factor: "factor"})
    assert run(program, factor=2.0)(3.0) == 6.0
    assert "del" not in printed(program)


def test_carries_move_all_at_once():
    x, y = Local(), Local()
    loop = For(3, [], [Move([(x, y), (y, x)])])
    program = Program("f", [x, y], [loop, Return(listed([value(x), value(y)]))], {})
    assert run(program)(1, 2) == [2, 1]
    assert "    for _ in range(3):\n        v0, v1 = v1, v0\n" in printed(program)


def test_values_are_computed_in_the_variables_that_they_move_to():
    x, y = Local(), Local()
    total, add = define("{0} + {1}", x, y)
    loop = For(3, [], [add, Move([(x, total)])])
    nodes = [loop, Return(value(x))]
    coalesce(nodes, Counter(touched(nodes)))
    program = Program("f", [x, y], nodes, {})
    assert "    for _ in range(3):\n        v0 = v0 + v1\n    del v1\n    return v0" in printed(
        program
    )
    assert run(program)(1, 2) == 7


@pytest.mark.parametrize("moves", ["read between", "read by a move", "read later", "read inside"])
def test_variables_keep_their_values_for_later_readers(moves):
    """Each loop is that of Python's tuples, whether its values may be renamed or not."""
    x, y = Local(), Local()
    total, add = define("{0} + {1}", x, y)
    double, twice = define("{0} * 2", x)
    body = [add, twice, Move([(x, total), (y, double)])]
    expected = lambda x, y: (x + y, x * 2)  # noqa: E731
    if moves == "read by a move":
        body = [add, Move([(x, total), (y, x)])]
        expected = lambda x, y: (x + y, x)  # noqa: E731
    elif moves == "read later":
        body = [add, Move([(x, total), (y, total)])]
        expected = lambda x, y: (x + y, x + y)  # noqa: E731
    elif moves == "read inside":
        inner = [Call("{0} - {1}", [y, x], [y])]
        body = [add, Block((Expression("if {}:", (y,)), inner)), Move([(x, total)])]
        expected = lambda x, y: (x + y, y - x if y else y)  # noqa: E731
    nodes = [For(3, [], body), Return(listed([value(x), value(y)]))]
    coalesce(nodes, Counter(touched(nodes)))
    a, b = 2, 3
    for _ in range(3):
        a, b = expected(a, b)
    assert run(Program("f", [x, y], nodes, {}))(2, 3) == [a, b]


def test_iterators_that_nothing_reads_are_dropped():
    x, xs, ys = Local(), Local("x_"), Local("x_")
    row, unread = Local(), Local()
    total, add = define("{0} + {1}", x, row)
    iterators = [Iterator((row,), value(xs).then("[::-1]")), Iterator((unread,), value(ys))]
    loop = For(2, iterators, [add, Move([(x, total)])])
    program = Program("f", [x, xs, ys], [loop, Return(value(x))], {})
    assert "in x_0[::-1]:" in printed(program)
    assert run(program)(0, [1, 2], None) == 3
    assert loop.inputs.count(ys) == 0 and {x, xs} <= set(loop.inputs)


def test_the_kind_of_each_node_can_be_shown():
    x = Local()
    y, made = define("{0}.T", x)
    program = Program("f", [x], [made, Return(value(y))], {})
    assert printed(program, kinds=True).splitlines()[1:] == [
        "    Call    v0 = v0.T",
        "    Return  return v0",
    ]


# --- in a compiled function -----------------------------------------------------------------------


@pytest.mark.numpy_backend
def test_the_program_shows_the_bodies_of_loops_and_branches():
    def f(w, xs):
        def step(h, x):
            h = np.tanh(w @ h + x)
            return lax.cond(x[0] > 0, lambda h: h * 2, np.sin, h), h

        h, ys = lax.scan(step, np.zeros(100), xs)
        return lax.while_loop(lambda c: c[0] < 10.0, lambda c: np.sin(c) + 2.0 * c, h), ys

    text = fg.jit(f).lower(np.eye(100), np.ones((30, 100))).program
    assert "# scan of run\n" in text and "Call    tanh(" in text and ", y0)" in text
    assert "def branches0(v0):\n    Call    v0 = sin(v0)" in text
    assert "# body of run.while_loop\n" in text and "# cond of run.while_loop\n" in text


@pytest.mark.numpy_backend
def test_the_source_has_the_halves_of_a_gradient_through_loops_and_branches():
    def f(w, x):
        def body(x):
            return lax.cond(x[0] > 0, lambda x: np.tanh(w @ x) - 0.5, np.cos, x)

        return np.sum(lax.while_loop(lambda x: np.sum(x) > 1.0, body, x))

    args = np.full((50, 50), 0.01), np.ones(50)
    lowered = fg.jit(fg.grad(f)).lower(*args)
    for line in (
        "    while cond(v1)[0]:\n",
        "    if v0:\n",
        "        tape0.append((",
        ", ) in reversed(tape",
        "# backward of run.while_loop_pullback\n",
        " = tanh(",
    ):
        assert line in lowered.source, line
    assert "Push    tape0.append((" in lowered.program
    np.testing.assert_array_equal(fg.jit(fg.grad(f))(*args), fg.grad(f)(*args))


@pytest.mark.parametrize("reverse", [False, True])
def test_the_program_and_the_source_have_the_same_lines(reverse):
    def f(x, xs):
        c, ys = lax.scan(lambda c, x: (np.sin(c) * x, c[::-1]), x, xs)
        return np.sum(ys) + np.sum(lax.while_loop(lambda c: c[0] < 2.0, lambda c: c + x, c))

    lowered = fg.jit(fg.grad(f) if reverse else f).lower(np.ones(300), np.ones((9, 300)))
    kinds = ("Call", "Copy", "Move", "Push", "Free", "Return")
    lines = []
    for line in lowered.program.splitlines():
        kind = line.split()[0] if line.strip() else ""
        lines.append(line.replace(f"{kind:<8}", "", 1) if kind in kinds else line)
    assert "\n".join(lines) == lowered.source
