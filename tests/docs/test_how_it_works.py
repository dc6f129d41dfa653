"""docs/how-it-works.md: its program is small, its sessions say what they show, and it agrees with
fungrad.
"""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import fungrad as fg

PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"
BLOCKS = re.findall(r"^```(python|pycon)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PROGRAM = "\n".join(text for language, text in BLOCKS if language == "python")


@pytest.fixture(scope="module")
def small():
    """The names of the small fungrad; the sessions of the page have been run on the way."""
    names: dict = {}
    report: list[str] = []
    for i, (language, text) in enumerate(BLOCKS):
        if language == "python":
            exec(compile(text, f"how-it-works.md, block {i}", "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(text, names, f"block {i}", str(PAGE), 0)
            doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
            names.update(test.globs)
    assert not report, "".join(report)
    return names


def test_the_program_has_at_most_200_lines():
    lines = [line for line in PROGRAM.splitlines() if line.strip()]
    assert len(lines) <= 200
    assert all(len(line) <= 100 for line in lines)


X = np.array([0.3, -0.7, 1.1])
FUNCTIONS = {
    "product": lambda stop: lambda x: np.sum(np.sin(x) * x / (2.0 + np.cos(x))),
    "broadcast": lambda stop: lambda x: np.sum(np.exp(x * np.sum(x, axis=0)) - np.log(3.0 + x)),
    "stopped": lambda stop: lambda x: np.sum(stop(np.tanh(x)) * x - x * x * stop(x)),
    "matrix": lambda stop: lambda x: np.sum(np.sum(x * np.ones((2, 3)), axis=1) * np.ones((4, 1))),
    "negative": lambda stop: lambda x: np.sum(-x * np.tanh(-x)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transform_agrees_with_fungrad(small, name):
    f, g = FUNCTIONS[name](small["stop_gradient"]), FUNCTIONS[name](fg.stop_gradient)
    direction = np.array([1.0, 0.5, -2.0])
    np.testing.assert_allclose(small["vjp"](f, X)[0], fg.vjp(g, X)[0])
    np.testing.assert_allclose(small["grad"](f)(X), fg.grad(g)(X), atol=1e-14)
    np.testing.assert_allclose(
        small["jvp"](f, X, direction), fg.jvp(g, (X,), (direction,)), atol=1e-14
    )
    np.testing.assert_allclose(small["hessian"](f, X), fg.hessian(g)(X), atol=1e-13)
    np.testing.assert_allclose(small["jit"](small["grad"](f))(X), fg.grad(g)(X), atol=1e-14)
    batch = np.stack([X, 0.5 * X])
    np.testing.assert_allclose(
        small["vmap"](small["grad"](f))(batch), fg.vmap(fg.grad(g))(batch), atol=1e-14
    )
    np.testing.assert_allclose(
        small["vmap"](small["jit"](small["grad"](f)))(batch), fg.vmap(fg.grad(g))(batch), atol=1e-14
    )


def test_its_programs_are_those_of_fungrad(small):
    f = lambda x: np.exp(np.sin(x) * x)  # noqa: E731
    _, equations, _ = small["make_jaxpr"](f, 2.0)
    assert [p.name for _, p, _, _ in equations] == [
        equation.primitive.name for equation in fg.make_jaxpr(f)(2.0).equations
    ]
