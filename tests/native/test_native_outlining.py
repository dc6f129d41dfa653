"""Long basic blocks become calls of short functions, and give the same numbers."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from fuzz.oracle_native import is_native

import fungrad as fg
from fungrad.compiler.cost_model import costs, tuned
from fungrad.compiler.native.llvm_ir import Function, Module
from fungrad.compiler.native.machine_code import build
from fungrad.compiler.native.outlining import outlined

LENGTH, LONG = tuned.outlined_lines, tuned.block_lines


@pytest.fixture(autouse=True)
def native(monkeypatch):
    monkeypatch.setattr(fg.config, "backend", "native")
    monkeypatch.setattr(costs, "rerolled_equations", 1 << 60)


def sines(code, x, count):
    for _ in range(count):
        x = code.mul(code.add(x, 0.25), 0.75)
    return x


def run(module, name, x, result=ctypes.c_double):
    built = build(module)
    return ctypes.CFUNCTYPE(result, type(x))(built.address(name))(x)


def long_function(count, module=None):
    """A function whose values cross from piece to piece, and stay for later blocks."""
    module = module or Module()
    code = Function(module, "long", "double", [("double", "x")])
    (x,) = code.parameters
    early = code.mul(x, 3.0)
    wide = code.new(f"insertelement <2 x double> splat (double 0x3FF0000000000000), {x}, i32 0",
                    "double", 2)  # fmt: skip
    large = code.compare("ogt", x, 1.0)
    variable = code.variable("double")
    code.set(variable, early)
    y = sines(code, x, count)
    total = code.add(code.add(y, early), code.lane(wide, 0))
    total = code.select(large, total, code.neg(total))
    return module, code, code.add(total, code.get(variable))


def expected(x, count):
    y = x
    for _ in range(count):
        y = (y + 0.25) * 0.75
    total = y + 3.0 * x + x
    return (total if x > 1.0 else -total) + 3.0 * x


@pytest.mark.parametrize("count", [10, LONG // 2 - 50, LONG, 3 * LONG + 1])
@pytest.mark.parametrize("x", [0.5, 2.0])
def test_values_that_cross_pieces_are_the_same(count, x):
    module, code, total = long_function(count)
    code.ret(total)
    assert ("call void @long.0.0(" in module.text()) == (2 * count > LONG)
    assert run(module, "long", ctypes.c_double(x)) == expected(x, count)


def test_values_of_a_long_block_are_read_in_later_blocks():
    module, code, total = long_function(LONG)
    yes = code.compare("olt", total, 0.0)
    code.if_else(yes, lambda: code.ret(code.neg(total)) or code.begin(code.label("dead")))
    code.ret(total)
    for x in (0.5, 2.0):
        found = run(module, "long", ctypes.c_double(x))
        assert found == abs(expected(x, LONG))


def test_values_of_earlier_blocks_and_phis_are_read_in_a_long_one():
    module = Module()
    code = Function(module, "long", "double", [("double", "x")])
    (x,) = code.parameters
    before = code.mul(x, 5.0)
    (chosen,) = code.rarely(code.compare("olt", x, 0.0), [x], lambda: [code.neg(x)])
    code.ret(code.add(sines(code, chosen, LONG), before))
    for value in (0.75, -0.75):
        y = abs(value)
        for _ in range(LONG):
            y = (y + 0.25) * 0.75
        assert run(module, "long", ctypes.c_double(value)) == y + 5.0 * value


def test_long_blocks_in_loops_run_at_each_step():
    module = Module()
    code = Function(module, "long", "double", [("double", "x")])
    state = code.variable("double")
    code.set(state, code.parameters[0])
    code.for_range(0, 3, lambda i: code.set(
        state, code.add(sines(code, code.get(state), LONG), code.convert("sitofp", i, "double"))
    ))  # fmt: skip
    code.ret(code.get(state))
    x = 0.3
    for i in range(3):
        for _ in range(LONG):
            x = (x + 0.25) * 0.75
        x += i
    assert run(module, "long", ctypes.c_double(0.3)) == x


def test_every_piece_is_short():
    module, code, total = long_function(5 * LONG)
    code.ret(total)
    sizes = [text.count(" = f") for text in module.text().split("\n}\n")]
    assert len(sizes) > 2 * 5 * LONG // LENGTH
    assert max(sizes) <= LENGTH


def test_a_function_of_short_blocks_is_not_changed():
    lines = ["  %v1 = fadd double %x, %x", "  ret double %v1"]
    assert outlined("f", ["  %m = alloca double"], lines, {"%v1": "double", "%x": "double"}) == (
        ["  %m = alloca double", *lines], "", [],
    )  # fmt: skip


def test_two_modules_with_long_functions_are_joined():
    one, first, total = long_function(LONG)
    first.ret(total)
    other, second, total = long_function(LONG + 1)
    second.ret(total)
    names = one.absorb(other)
    assert names["long"] != "long"
    assert run(one, "long", ctypes.c_double(2.0)) == expected(2.0, LONG)
    assert run(one, names["long"], ctypes.c_double(2.0)) == expected(2.0, LONG + 1)


PROGRAM = (
    f"import sys; sys.path[:0] = {sys.path!r}"
    + """
from test_native_outlining import long_function
module, code, total = long_function(4000)
code.ret(total)
print(module.text())
"""
)


def test_the_text_does_not_depend_on_the_hashes_of_strings():
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        found.add(run.stdout)
    assert len(found) == 1


# Programs.


def euler(steps):
    def f(x, v):
        for _ in range(steps):
            x, v = x + 0.01 * v, v - 0.01 * np.sin(x)
        return x * v + np.cosh(v)

    return f


def chain(steps):
    def f(x):
        for _ in range(steps):
            x = np.sin(x * x) + 0.1
        return np.sum(x)

    return f


MATRIX = np.random.default_rng(0).normal(size=(4, 4))
WIDE = np.random.default_rng(0).normal(size=(12, 12)) / 12


def recurrent(steps, matrix=MATRIX):
    def f(x):
        for _ in range(steps):
            x = x + 0.01 * np.tanh(matrix @ x)
        return np.sum(x * x)

    return f


def integers(steps):
    def f(n, x):
        for i in range(steps):
            n = (n * 3 + i) % 1009
            x = np.where(n > 500, x * 1.001, x - 0.001 * n)
        return x

    return f


def loop_of_long_steps(x, y):
    def step(carry, _):
        x, v = carry
        return (euler(150)(x, v), np.sin(x)), x

    (x, v), xs = fg.lax.scan(step, (x, y), None, length=5)
    return x + v + np.sum(np.asarray(xs))


CASES = {
    "scalars": (euler(150), (0.3, 0.4)),
    "many numbers": (chain(300), (np.linspace(0.1, 1.0, 10),)),
    "vectors": (chain(60), (np.linspace(0.1, 1.0, 1000),)),
    "float32": (chain(60), (np.linspace(0.1, 1.0, 1000, dtype=np.float32),)),
    "products": (recurrent(50), (np.linspace(0.1, 1.0, 4),)),
    "wide products": (recurrent(8, WIDE), (np.linspace(0.1, 1.0, 12),)),
    "steps of a scan": (loop_of_long_steps, (0.3, 0.4)),
}


@pytest.mark.parametrize("case", CASES)
def test_long_programs_are_native(case):
    f, args = CASES[case]
    every = tuple(range(len(args)))
    compiled = fg.jit(fg.value_and_grad(f, every))
    value, gradients = compiled(*args)
    assert any(map(is_native, compiled.lower(*args).parts))
    plain, eager = fg.value_and_grad(f, every)(*args)
    close = 1e-4 if np.asarray(args[0]).dtype == np.float32 else 1e-9
    np.testing.assert_allclose(value, plain, rtol=close)
    for found, wanted in zip(gradients, eager, strict=True):
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close * np.max(np.abs(wanted)))


def test_a_long_program_of_integers_is_numpys():
    f = integers(150)
    n, x = np.int64(7), 1.5
    run = fg.jit(f)
    assert run(n, x) == f(n, x)
    assert any(map(is_native, run.lower(n, x).parts))


@pytest.mark.parametrize("x", [np.nan, np.inf, -0.0, 5e-324, 1e308])
def test_special_values_in_long_programs(x):
    xs = np.full(9, x)
    with np.errstate(all="ignore"):
        found = fg.jit(chain(80))(xs)
        np.testing.assert_allclose(found, chain(80)(xs), rtol=1e-12)
