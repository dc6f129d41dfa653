"""The demo's claims hold for several seeds, and it reports a claim that fails."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fungrad import demo
from fungrad.cli.main import main
from fungrad.demo import adversary, boltzmann, claims, mixture


@pytest.fixture(scope="module")
def results():
    return demo.run_all(0)


@pytest.fixture
def found(results, monkeypatch):
    """The demos are not run again: commands show these results."""
    demos = tuple([lambda seed, result=result: result for result in results])
    monkeypatch.setattr(demo, "DEMOS", demos)


@pytest.mark.slow
def test_all_claims_hold(results):
    for result in results:
        assert result.claims and result.found
        for claim in result.claims:
            assert claim.holds, f"{result.title}: {claim}"


def test_the_four_uses_are_there(results):
    titles = " ".join(result.title for result in results)
    for word in ("softmax", "EM", "divergence", "adversarial"):
        assert word in titles


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_claims_do_not_depend_on_the_seed(seed):
    for result in (boltzmann.run(seed), adversary.run(seed)):
        assert all(claim.holds for claim in result.claims), result


@pytest.mark.slow
def test_the_command_prints_what_it_found(found, capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "means 54.615 and 80.091 min" in out and "log-likelihood -1034.002" in out
    assert "FAILED" not in out and "checks hold" in out


@pytest.mark.slow
def test_the_command_prints_json(found, capsys):
    assert main(["demo", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["passed"] is True and len(content["demos"]) == 4


def test_a_claim_that_fails_is_reported(capsys, monkeypatch):
    failing = claims.Result("broken")
    failing.compare("one is two", 1.0, 2.0)
    monkeypatch.setattr(demo, "DEMOS", (lambda seed: failing,))
    assert main(["demo"]) == 1
    assert "FAILED" in capsys.readouterr().out


def test_nan_never_holds():
    result = claims.Result("nan")
    result.compare("nan is one", np.nan, 1.0)
    assert not result.claims[0].holds


def test_without_the_stop_the_gradients_are_others():
    x = mixture.old_faithful().waiting
    gap = claims.relative_gap(
        mixture.fg.grad(mixture.expected_unstopped)(mixture.START, x),
        mixture.gradient_by_hand(mixture.START, x),
    )
    assert gap > 0.1


def test_bars_and_stripes_of_three_by_three_are_fourteen():
    assert boltzmann.bars_and_stripes().shape == (14, 9)
