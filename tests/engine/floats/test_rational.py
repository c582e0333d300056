"""Tanh and the logistic function of recurrent cells: close to the functions, and what they do at their limits."""

from __future__ import annotations

import numpy as np

from engine.floats.rational import GRU_LIMIT, logistic_of_cells, parts_of_tanh, tanh_of_cells
from engine.floats.recurrent import Floats

AT_LIMITS = [0, -0.0, 9, -9, 8.99, 10, -10, 17.99, 18, -18, 18.01, -30, 1e30, -1e30, np.inf, -np.inf]


def numbers() -> Floats:
    rng = np.random.default_rng(0)
    scaled = [rng.standard_normal(20_000) * scale for scale in (0.01, 1, 5, 20)]
    return np.concatenate([*scaled, AT_LIMITS]).astype(np.float32)


def test_both_are_close_to_the_functions() -> None:
    x = numbers()
    wide = np.clip(x.astype(np.float64), -700, 700)
    for found, expected in ((logistic_of_cells(x), 1 / (1 + np.exp(-wide))), (tanh_of_cells(x), np.tanh(wide))):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=7e-7)


def test_large_numbers_count_as_the_limit() -> None:
    x = np.asarray([11, 1e30, np.inf], np.float32)
    np.testing.assert_array_equal(tanh_of_cells(x), np.repeat(tanh_of_cells(np.asarray([GRU_LIMIT])), 3))


def test_the_tangent_is_the_quotient_of_its_parts() -> None:
    x = numbers()
    above, below = parts_of_tanh(x)
    np.testing.assert_array_equal(tanh_of_cells(x), above / below)


def test_what_is_no_number_stays_none() -> None:
    x = np.full(1, np.nan, np.float32)
    assert all(np.isnan(function(x)).all() for function in (logistic_of_cells, tanh_of_cells))
