"""fg.digits(check=True): runs with many digits beside the program."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from digits_programs import ACCURATE, LOSSES
from test_digits import true_digits

import fungrad as fg

MANY = {**LOSSES, **ACCURATE}


@pytest.mark.parametrize("name", [n for n in MANY if n not in ("orbit", "gram_determinant")])
def test_the_check_finds_the_true_digits(name: str) -> None:
    """(The orbit's functions in single precision, and a product that BLAS knows to be symmetric,
    round otherwise step by step.)"""
    program = MANY[name]
    if any(getattr(a, "dtype", None) == np.float32 and name != "single" for a in program.args):
        pytest.skip("a long run with many digits")
    check = fg.digits(program.f, check=True)(*program.args).check
    ((_, _, true),) = check.outputs
    assert true == pytest.approx(true_digits(program), abs=0.2)


def test_a_branch_that_goes_the_other_way_is_named() -> None:
    def f(x):
        total = x / 10 + x / 5
        if total > 3 * x / 10:  # true by rounding alone
            return x * 2
        return x

    check = fg.digits(f, check=True)(1.0).check
    (branch,) = check.branches
    assert branch.source is not None and branch.primitive == "gt"
    assert "if total > 3 * x / 10" in str(branch)
    assert not check.agrees


def test_estimate_and_truth_part_where_all_digits_are_lost() -> None:
    def f(x):
        for _ in range(90):
            x = 3.9 * x * (1 - x)
        return x

    check = fg.digits(f, check=True)(0.3).check
    assert check.outputs[0][2] < 1
    assert fg.digits(lambda x: x * 2, check=True)(0.3).check.agrees


def test_gradients_loops_and_branches_are_checked() -> None:
    def f(x):
        def step(carry, _):
            return carry * np.sin(carry) + x, None

        y = fg.lax.scan(step, x, None, length=20)[0]
        return fg.lax.cond(y > 0, lambda v: v * v, lambda v: -v, y)

    report = fg.digits(fg.grad(f), check=True)(0.7)
    assert report.check.outputs[0][1] == pytest.approx(report.check.outputs[0][2], abs=1.0)
    assert not report.check.doubtful


def test_operations_without_a_counterpart_are_named() -> None:
    report = fg.digits(lambda a: np.linalg.eigvalsh(a), check=True)(np.diag([1.0, 2.0]))
    assert report.check.doubtful
    assert "own precision" in repr(report)


def test_without_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)
    with pytest.raises(fg.errors.MissingExtraError, match="digits"):
        fg.digits(np.sin, check=True)(1.0)
