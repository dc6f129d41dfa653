"""What a report of fg.digits offers: single precision, pictures, HTML."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fungrad as fg


def model(x):
    wave = np.sin(x)  # large
    small = 1e-4 * np.exp(-x)  # small
    return np.sum(wave) + np.sum(small)  # sums


X = np.linspace(0.0, 3.0, 50)


def texts(sources, report) -> list[str]:
    """The texts of lines of a report."""
    return [line.text for source in sources for line in report.lines if line.line == source.line]


def test_lines_that_may_be_of_single_precision() -> None:
    report = fg.digits(model)(X)
    some = report.single(1e-9)
    assert [text.split("# ")[1] for text in texts(some.single, report)] == ["small"]
    assert 1e-13 < some.measured < 1e-9
    assert len(report.single(1e-3).single) == 3
    assert not report.single(1e-15).single
    assert "float32" in repr(some) and "float64" in repr(some)


def test_single_precision_is_tried_by_rounding() -> None:
    """The measured error is that of a program that rounds these lines itself."""

    def rounded(x):
        single = np.float32
        wave = np.sin(x)
        small = (single(1e-4) * np.exp(-(x.astype(single)))).astype(float)
        return np.sum(wave) + np.sum(small)

    found = fg.digits(model)(X).single(1e-9)
    expected = abs(rounded(X) / model(X) - 1)
    assert found.measured == pytest.approx(expected, rel=2.0)
    assert found.expected == pytest.approx(found.measured, rel=20.0)


def test_loops_can_be_of_single_precision() -> None:
    def f(x):
        def step(total, v):
            return total + v * v, None

        return fg.lax.scan(step, 0.0, x)[0]

    found = fg.digits(f)(X).single(1e-4)
    assert len(found.single) == 1 and 1e-9 < found.measured < 1e-4


def test_single_precision_of_single_precision() -> None:
    with pytest.raises(fg.errors.ArgumentError, match="float32"):
        fg.digits(np.sin)(np.float32(1.0)).single(1e-3)


def cancelling(x):
    c = np.cos(x)
    return (1 - c) / x**2


def test_html_shows_the_source_with_bars() -> None:
    page = fg.digits(cancelling)(1e-5)._repr_html_()
    assert (
        "c = np.cos(x)" in page and "width:100px" in page and "&lt;" not in page.split("<pre>")[0]
    )


def test_a_plot_has_a_bar_at_each_line() -> None:
    matplotlib = pytest.importorskip("matplotlib.figure")
    axes = matplotlib.Figure().subplots()
    report = fg.digits(cancelling)(1e-5)
    assert report.plot(axes) is axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    widths = [bar.get_width() for bar in axes.containers[0]]
    assert labels[int(np.argmax(widths))].startswith("    return (1 - c) / x**2")
    assert max(widths) == pytest.approx(report.lines[0].lost)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(fg.errors.MissingExtraError, match="viz"):
        fg.digits(cancelling)(1e-5).plot()
