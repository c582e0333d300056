"""Eigen's logarithm, as the loops that call it give it."""

from __future__ import annotations

import numpy as np

from engine.floats import logarithm
from engine.floats.compiled import LOGARITHM


def logarithms(numbers: list[float]) -> np.ndarray:
    source = np.asarray(numbers * 4, np.float32)  # whole fours
    result = np.empty_like(source)
    LOGARITHM(source, result)
    return result[: len(numbers)]


def test_it_is_within_a_unit_of_the_last_place() -> None:
    numbers = np.exp(np.random.default_rng(3).uniform(-87, 88, 1000)).astype(np.float32)
    found = logarithms(numbers.tolist())
    exact = np.log(numbers.astype(np.float64))
    assert np.max(np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))) < 1.01


def test_what_has_no_logarithm() -> None:
    found = logarithms([0.0, -0.0, -1.0, np.inf, np.nan, 1.0])
    np.testing.assert_array_equal(found, [-np.inf, -np.inf, np.nan, np.inf, np.nan, 0.0])


def test_subnormal_numbers_count_as_the_least_normal_one() -> None:
    assert logarithms([1e-40])[0] == logarithms([2.0**-126])[0]


def test_polynomial_is_the_rest_of_the_series() -> None:
    x = np.asarray([-0.29, -0.1, 0.1, 0.25, 0.41])
    expected = (np.log1p(x) - x + x**2 / 2) / x**3
    np.testing.assert_allclose(np.polyval(np.asarray(logarithm.POLYNOMIAL, np.float64), x), expected, rtol=2e-5)
