"""fg.digits: estimates against the truth by mpmath; the lines; loops; inputs."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from digits_programs import ACCURATE, LOSSES, Program

import fungrad as fg
from fungrad.inspect.digits.report import full_digits


def true_digits(program: Program) -> float:
    """The correct digits of a program, by its exact value."""
    found = np.asarray(program.f(*program.args))
    with mp.workdps(60):
        exact = program.exact(*program.args)
        exact = exact if isinstance(exact, list) else [exact]
        pairs = list(zip(found.ravel(), exact, strict=True))
        error = mp.sqrt(mp.fsum((mp.mpf(float(a)) - b) ** 2 for a, b in pairs))
        size = mp.sqrt(mp.fsum(mp.mpf(b) ** 2 for b in exact))
        full = full_digits(found.dtype)
        return min(full, max(0.0, float(-mp.log10(error / size)))) if error else full


@functools.cache
def report_of(name: str) -> Any:
    """What is found for a program of the tables."""
    program = {**LOSSES, **ACCURATE}[name]
    return fg.digits(program.f)(*program.args)


def marked(program: Program) -> list[str]:
    """The lines of a program that lose most."""
    lines = inspect.getsource(program.f).splitlines()
    return [line.strip() for line in lines if "# loses" in line]


def test_estimates_of_lossy_programs_agree_with_the_truth() -> None:
    assert len(LOSSES) >= 40
    apart = {}
    for name, program in LOSSES.items():
        apart[name] = abs(report_of(name).digits - true_digits(program))
    assert sum(d <= 1 for d in apart.values()) >= len(LOSSES) - 3, apart
    assert all(d <= 2 for n, d in apart.items() if not LOSSES[n].chaotic), apart


def test_the_line_that_loses_most_is_named() -> None:
    wrong = {}
    for name, program in LOSSES.items():
        lines = marked(program)
        first = report_of(name).lines[0]
        if lines and first.text not in lines:
            wrong[name] = first
    assert len(wrong) <= 3, wrong


@pytest.mark.parametrize("name", ACCURATE)
def test_accurate_programs_are_called_so(name: str) -> None:
    report = report_of(name)
    assert report.digits > full_digits(np.asarray(report.outputs[0].value).dtype) - 1, report
    assert all(line.lost < 1 for line in report.lines), report


def test_forty_programs_are_accurate() -> None:
    assert len(ACCURATE) >= 40
    assert all(true_digits(p) > 6.2 for p in ACCURATE.values())


def wave(x):
    def step(carry, _):
        q, p = carry
        p = p - 0.01 * np.sin(q)
        q = q + 0.01 * p
        return (q, p), None

    return fg.lax.scan(step, (x, 0.0), None, length=2000)[0][0]


def wave_in_python(x):
    q, p = x, 0.0
    for _ in range(2000):
        p = p - 0.01 * np.sin(q)
        q = q + 0.01 * p
    return q


def wave_by_while(x):
    def step(carry):
        q, p, n = carry
        p = p - 0.01 * np.sin(q)
        return q + 0.01 * p, p, n + 1

    return fg.lax.while_loop(lambda c: c[2] < 2000, step, (x, 0.0, 0))[0]


def wave_by_fori(x):
    def step(_, carry):
        q, p = carry
        p = p - 0.01 * np.sin(q)
        return q + 0.01 * p, p

    return fg.lax.fori_loop(0, 2000, step, (x, 0.0))[0]


@pytest.fixture(scope="module")
def expected() -> Any:
    return fg.digits(wave_in_python)(2.0)


@pytest.mark.parametrize("f", [wave, wave_by_while, wave_by_fori, fg.jit(wave)])
def test_loops_are_analysed_like_python_loops(f, expected) -> None:
    found = fg.digits(f)(2.0)
    assert found.digits == pytest.approx(expected.digits, abs=0.1)
    sines = [line for line in found.lines if "np.sin" in line.text]
    reference = [line for line in expected.lines if "np.sin" in line.text]
    assert sines[0].share == pytest.approx(reference[0].share, abs=0.05)


def cancelling(x):
    return (1 - np.cos(x)) / x**2


def test_gradients_at_any_order() -> None:
    x = 1e-3
    with mp.workdps(60):
        for order in (1, 2):
            f = cancelling
            for _ in range(order):
                f = fg.grad(f)
            exact = mp.diff(lambda t: (1 - mp.cos(t)) / t**2, x, order)
            true = -float(mp.log10(abs((mp.mpf(float(f(x))) - exact) / exact)))
            assert fg.digits(f)(x).digits == pytest.approx(max(true, 0.0), abs=1.0)


def test_vmapped_functions_have_digits_of_each_element() -> None:
    report = fg.digits(fg.vmap(cancelling))(np.array([1e-5, 1e-3, 1.0]))
    single = [fg.digits(cancelling)(x).digits for x in (1e-5, 1e-3, 1.0)]
    assert report.outputs[0].elements == pytest.approx(single, abs=0.3)


def test_large_outputs_by_random_signs() -> None:
    x = np.linspace(1e-5, 2e-5, 200)
    assert fg.digits(cancelling)(x).digits == pytest.approx(
        fg.digits(cancelling)(1.5e-5).digits, abs=0.5
    )


def test_complex_numbers() -> None:
    def f(z):
        return (np.exp(z) - 1) / z

    z = 1e-9 * (1 + 2j)
    with mp.workdps(50):
        exact = (mp.exp(mp.mpc(z)) - 1) / mp.mpc(z)
        true = -float(mp.log10(abs((mp.mpc(complex(f(z))) - exact) / exact)))
    assert fg.digits(f)(z).digits == pytest.approx(true, abs=1.0)


def test_uncertain_inputs() -> None:
    def f(x, y):
        return x - y

    report = fg.digits(f, inputs={"x": 1e-6})(1.0, 0.9)
    assert report.outputs[0].error == pytest.approx(1e-6, rel=1e-6)
    assert report.digits == pytest.approx(5.28, abs=0.1)
    assert fg.digits(f, inputs=8)(1.0, 0.9).outputs[0].error == pytest.approx(6.7e-9, rel=0.1)
    with pytest.raises(fg.errors.ArgumentError, match="'z'"):
        fg.digits(f, inputs={"z": 1.0})(1.0, 0.9)


def test_constants_have_errors_on_demand() -> None:
    def f(x):
        return (x * 0.1 - 0.1) * 1e3

    x = 1 + 2.0**-30
    assert fg.digits(f, constants=True)(x).outputs[0].error > fg.digits(f)(x).outputs[0].error


def test_values_that_are_stopped_have_errors() -> None:
    def f(x):
        return (fg.stop_gradient(np.exp(x)) - 1) / x

    assert fg.digits(f)(3e-9).digits == pytest.approx(7.9, abs=0.5)


def test_exact_programs_have_all_digits() -> None:
    report = fg.digits(lambda x: (x + 1) * 4 - x)(3.0)
    assert report.digits == full_digits(np.float64)
    assert report.outputs[0].error == 0.0


def test_a_report_prints_its_lines() -> None:
    report = fg.digits(cancelling)(1e-5)
    text = repr(report)
    assert "test_digits.py" in text and "(1 - np.cos(x)) / x**2" in text
    assert report.to_dict()["digits"] == report.digits


def test_inside_another_transform() -> None:
    with pytest.raises(fg.errors.ArgumentError, match="outside"):
        fg.grad(lambda x: fg.digits(cancelling)(x).digits)(1.0)


@pytest.mark.skipif(sys.platform == "win32", reason="uses resource")
def test_memory_of_a_scan_grows_by_bytes_a_step() -> None:
    import tracemalloc

    def swings(length):
        def step(c, _):
            q, p = c
            p = p - 0.01 * np.sin(q)
            return (q + 0.01 * p, p), None

        return lambda x: fg.lax.scan(step, (x, 0.0), None, length=length)[0][0]

    fg.digits(swings(10))(0.5)
    tracemalloc.start()
    fg.digits(swings(2_000))(0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5.2e6  # about 2 kB a step by NumPy and Python; 0.2 kB by native code


def test_the_advice_fits() -> None:
    for name, program in LOSSES.items():
        words = [line.split("# loses")[1].strip() for line in marked(program)]
        causes = [advice.cause for advice in report_of(name).advice]
        assert not any(words) or set(words) & set(causes), (name, words, causes)


def test_accurate_programs_get_no_advice() -> None:
    for name in ACCURATE:
        assert not report_of(name).advice


@pytest.mark.parametrize(
    ("f", "args", "cause"),
    [
        (lambda z: np.log(np.sum(np.exp(z))), (np.array([1000.0, 1001.0]),), "logsumexp"),
        (lambda z: np.exp(z) / np.sum(np.exp(z)), (np.array([1000.0, 1001.0]),), "softmax"),
        (lambda x, y: np.sqrt(x * x + y * y), (3e200, 4e200), "hypot"),
        (lambda x: np.exp(x) * 1e-300, (800.0,), "logsumexp"),
    ],
)
def test_overflow_is_explained(f, args, cause) -> None:
    report = fg.digits(f)(*args)
    assert report.digits == 0.0
    assert [advice.cause for advice in report.advice] == [cause]


def by_while(x):
    def step(carry):
        y, n = carry
        return 3.9 * y * (1 - y), n + 1

    return fg.lax.while_loop(lambda c: c[1] < 20, step, (x, 0))[0]


def by_python(x):
    for _ in range(20):
        x = 3.9 * x * (1 - x)
    return x


def by_branches(x):
    for _ in range(20):
        x = fg.lax.cond(x > 2.0, lambda v: v, lambda v: 3.9 * v * (1 - v), x)
    return x


def by_checkpoints(x):
    body = fg.checkpoint(lambda c, _: (3.9 * c * (1 - c), None))
    return fg.lax.scan(body, x, None, length=20)[0]


@pytest.mark.parametrize("f", [by_while, by_branches, by_checkpoints])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_gradients_of_loops_and_branches(f, order: int) -> None:
    expected, found = by_python, f
    for _ in range(order):
        expected, found = fg.grad(expected), fg.grad(found)
    report = fg.digits(found)(0.3)
    assert report.digits == pytest.approx(fg.digits(expected)(0.3).digits, abs=0.4)
    assert not report.remarks


def test_a_branch_and_a_loop_inside_of_a_loop() -> None:
    def f(x):
        def step(c, _):
            inner = fg.lax.while_loop(lambda v: v[1] < 2, lambda v: (v[0] * 0.9, v[1] + 1), (c, 0))
            return fg.lax.cond(c > 0, lambda v: v * 1.1, lambda v: -v, inner[0]), None

        return fg.lax.scan(step, x, None, length=50)[0]

    report = fg.digits(f)(1.0)
    assert 14.0 < report.digits < 15.9 and not report.remarks
    assert {"inner" in line.text or "fg.lax.cond" in line.text for line in report.lines} == {True}
    assert sum(line.share for line in report.lines) == pytest.approx(1.0)


def test_what_is_not_counted_is_said() -> None:
    def f(x):
        return fg.external(lambda v: np.sin(v), vjp=lambda c, y, v: (c * np.cos(v),))(x) * 3.0

    report = fg.digits(f)(1.0)
    assert any("not counted" in remark for remark in report.remarks) and "remarks" in repr(report)


def test_custom_rules_do_not_change_the_value_that_is_analysed() -> None:
    @fg.custom_vjp
    def f(x):
        return (np.exp(x) - 1) / x

    f.defvjp(lambda x: (f(x), None), lambda _, c: (0.0 * c,))
    assert fg.digits(f)(3e-9).digits == pytest.approx(7.9, abs=0.5)


def test_a_product_with_an_inverse_gets_the_advice_on_inverses() -> None:
    points = np.linspace(2.0, 3.0, 30)
    a, b = points[:, None] ** np.arange(6), np.sin(points)
    found = fg.digits(lambda a, b: np.linalg.inv(a.T @ a) @ (a.T @ b))(a, b)
    assert [advice.cause for advice in found.advice] == ["inverse"], found
