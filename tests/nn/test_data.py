"""The shipped data set is the published one, and it travels with its source and licence."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from fungrad.data import old_faithful


def test_it_has_the_published_size_and_dtype():
    data = old_faithful()
    for column in data:
        assert column.shape == (272,)
        assert column.dtype == np.float64
        assert column.flags.writeable and column.flags.owndata
        assert np.isfinite(column).all()


def test_it_has_the_published_moments():
    eruptions, waiting = old_faithful()
    # summary(faithful) and cov(faithful) in R
    np.testing.assert_allclose(eruptions.mean(), 3.487783, atol=5e-7)
    np.testing.assert_allclose(waiting.mean(), 70.897059, atol=5e-7)
    assert np.median(eruptions) == 4.0 and np.median(waiting) == 76.0
    assert (eruptions.min(), eruptions.max()) == (1.6, 5.1)
    assert (waiting.min(), waiting.max()) == (43.0, 96.0)
    covariance = np.cov(eruptions, waiting)
    np.testing.assert_allclose(covariance[0], [1.302728, 13.977808], atol=5e-7)
    np.testing.assert_allclose(covariance[1, 1], 184.823312, atol=5e-7)


def test_it_has_the_published_regression_line():
    # lm(eruptions ~ waiting), in every introduction to R: -1.874016 + 0.075628 waiting
    eruptions, waiting = old_faithful()
    slope, intercept = np.polyfit(waiting, eruptions, 1)
    np.testing.assert_allclose([intercept, slope], [-1.874016, 0.075628], atol=5e-7)


def test_the_first_and_last_rows():
    eruptions, waiting = old_faithful()
    np.testing.assert_array_equal(eruptions[:4], [3.6, 1.8, 3.333, 2.283])
    np.testing.assert_array_equal(waiting[-3:], [90.0, 46.0, 74.0])


def test_source_and_licence_travel_with_it():
    note = files("fungrad.data").joinpath("old_faithful.md").read_text(encoding="utf-8")
    for word in ("Härdle", "Azzalini", "Source", "Licence", "CC0-1.0"):
        assert word in note
