"""The text of traced values: shown as it is, computed with as the text of the number."""

# ruff: noqa: UP031

from __future__ import annotations

import io
import json
import pickle
import pprint
from decimal import Decimal

import numpy as np
import pytest

import fungrad as fg
from fungrad.errors import AbstractValueError, GradientCutError

stop = fg.stop_gradient
COMPUTED = {
    "len": lambda x: len(str(stop(x))),
    "len of repr": lambda x: len(repr(stop(x))),
    "len of a formatted one": lambda x: len(f"{stop(x)}"),
    "equal": lambda x: 3 if str(stop(x)) == "2.0" else 1,
    "unequal": lambda x: 3 if str(stop(x)) != "2.0" else 1,
    "less": lambda x: 3 if str(stop(x)) < "3" else 1,
    "key": lambda x: {"2.0": 3}.get(str(stop(x)), 1),
    "hash": lambda x: hash(str(stop(x))) % 7,
    "contains": lambda x: 3 if "2" in str(stop(x)) else 1,
    "split": lambda x: len(str(stop(x)).split(".")[1]),
    "slice": lambda x: int(str(stop(x))[:1]),
    "loop": lambda x: sum(c == "2" for c in str(stop(x))),
    "startswith": lambda x: 3 if str(stop(x)).startswith("2") else 1,
    "of an array": lambda x: len(str(stop(x * np.ones(3)))),
    "array2string": lambda x: len(np.array2string(stop(x * np.ones(3)), precision=3)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_with_a_text_is_computed_with_the_numbers(name):
    f = COMPUTED[name]

    def g(x):
        return f(x) * x

    jitted = fg.jit(g)
    for x in (np.float64(2.0), np.float64(3.25), np.float64(2.0)):
        assert jitted(x) == fg.value_and_grad(g)(x)[0] == g(x)
        assert fg.grad(jitted)(x) == fg.jit(fg.grad(g))(x) == f(x)
        assert fg.vmap(g)(np.array([x, x])).tolist() == [g(x)] * 2


@pytest.mark.parametrize("text", [lambda x: f"x = {x}", "x = {}".format], ids=["f", "format"])
def test_a_text_that_contains_a_number_has_it_in_eager_transforms(text):
    f = lambda x: len(text(x)) * x  # noqa: E731
    for x in (np.float64(2.0), np.float64(3.25)):
        assert fg.value_and_grad(f)(x) == (f(x), len(text(x)))
        assert fg.jvp(f, (x,), (1.0,))[0] == f(x)
        assert fg.hessian(lambda x: f(x) * x)(x) == 2 * len(text(x))


def test_a_text_without_a_number_is_an_error():
    with pytest.raises(AbstractValueError, match="text"):
        fg.make_jaxpr(lambda x: len(str(x)) * x)(2.0)
    with pytest.raises(AbstractValueError, match="one value"):
        fg.vmap(lambda x: len(str(x)) * x)(np.array([2.0, 3.25]))
    for transform in (fg.jit, fg.grad, fg.make_jaxpr):
        with pytest.raises(GradientCutError, match="text of a traced value"):
            transform(lambda x: float(str(x)) * x)(2.0)


def test_a_text_is_shown_as_it_is(capsys):
    kept = []

    def f(x):
        print(x, f"{x!s:>60}|", f"{x}", str(x).rjust(60), sep="\n")
        pprint.pprint({"x": x})
        kept.append(str(x))
        return x

    fg.make_jaxpr(f)(2.0)
    words = "Tracer(f64[]"
    assert capsys.readouterr().out.count(words) == 5
    assert kept[0].startswith(words) and len(kept[0]) > 20  # its trace is over
    assert type(pickle.loads(pickle.dumps(kept[0]))) is str


def by_a_name(x):
    text = "%.3f" % x
    return float(text) * x


def from_a_comprehension(x):
    return sum([float(part) for part in ("%.3f %.3f" % (x, x)).split()]) * x


READ = [
    lambda x: float("%.3f" % x) * x,
    lambda x: json.loads('{"x": %.3f}' % x)["x"] * x,
    lambda x: float(Decimal(f"{x:.3f}")) * x,
    lambda x: np.loadtxt(io.StringIO(f"{x:.3f} 1.0"))[0] * x,
    lambda x: float(np.format_float_positional(x, precision=3)) * x,
    lambda x: np.array(["%.3f" % x]).astype(float)[0] * x,
    lambda x: sum(map(float, ("%.3f" % x).split())) * x,
    by_a_name,
    from_a_comprehension,
]


@pytest.mark.parametrize("f", READ)
def test_a_number_that_is_read_from_a_plain_text_is_an_error(f):
    for transform in (fg.grad, fg.jit):
        with pytest.raises(GradientCutError):
            transform(f)(2.0)


def test_a_number_that_is_cut_on_purpose_is_read_from_its_text():
    for f in (lambda x: float("%.1f" % stop(x)) * x, lambda x: float(f"{stop(x):.1f}") * x):
        assert fg.grad(f)(2.04) == fg.jit(fg.grad(f))(2.04) == 2.0


def test_a_text_of_numbers_is_shown_and_stored():
    def f(x):
        text = "%.3f" % x
        print("x = %.3f, %s" % (x, f"{x:.2f} and {float('2'):.1f}"), {text: float("1.0")})
        return x * len("%.3f" % x)

    assert fg.grad(f)(2.0) == fg.jit(fg.grad(f))(2.0) == 5.0
