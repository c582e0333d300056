"""Compiled element-wise functions: every step in float32."""

from __future__ import annotations

import math

import numpy as np

from engine.floats import elementwise_loops
from engine.floats.compiled import ELEMENTWISE_BLOCK, GELU, ROOT, RSQRT, SWISH
from engine.floats.estimate import ESTIMATES

ROOM = np.empty(ELEMENTWISE_BLOCK, np.int64)


def test_the_loops_are_of_this_module() -> None:
    functions = [loop.function for loop in (SWISH, GELU, RSQRT, ROOT)]
    assert functions == [
        elementwise_loops.swish,
        elementwise_loops.gelu,
        elementwise_loops.rsqrt,
        elementwise_loops.root,
    ]


def computed(*values: float) -> np.ndarray:
    source = np.asarray(values, np.float32)
    result = np.empty_like(source)
    SWISH(source, ROOM, result)
    return result


def test_swish_of_values_without_rounding() -> None:
    assert computed(0.0, 30.0, np.inf).tolist() == [0.0, 30.0, np.inf]


def test_an_exponential_beyond_float32_is_infinite_as_a_step_in_float32_is() -> None:
    """In float64 it would be 2.7e43, and the result -3.8e-42, which float32 can hold."""
    assert computed(-100.0).tolist() == [0.0]


def test_swish_is_x_times_the_reciprocal() -> None:
    x = np.linspace(-8, 8, 501, dtype=np.float32)
    one = np.float32(1)
    np.testing.assert_array_max_ulp(computed(*x), x * (one / (one + np.exp(-x))), 4)


def test_the_reciprocal_root_is_rounded_once() -> None:
    source = np.random.default_rng(3).uniform(1e-6, 40, 4096).astype(np.float32)
    result, epsilon = np.empty_like(source), np.float32(1e-5)
    RSQRT(source, np.asarray([epsilon, 0], np.float32), result)
    np.testing.assert_array_equal(result, (1.0 / np.sqrt((source + epsilon).astype(np.float64))).astype(np.float32))
    twice = np.float32(1) / np.sqrt(source + epsilon)
    assert 0 < np.count_nonzero(result != twice) < source.size / 2
    RSQRT(source, np.asarray([0, epsilon], np.float32), result)
    np.testing.assert_array_equal(result, (1.0 / (np.sqrt(source.astype(np.float64)) + epsilon)).astype(np.float32))


def test_gelu_is_rounded_once() -> None:
    source = np.linspace(-6, 6, 401, dtype=np.float32)
    result = np.empty_like(source)
    GELU(source, ROOM, result)
    exact = [0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))) for x in source.tolist()]
    np.testing.assert_array_equal(result, np.asarray(exact, np.float32))


def test_gelu_is_the_c_librarys_where_a_polynomial_and_the_library_meet() -> None:
    around = [np.float32(2.5 * math.sqrt(2.0)) + np.arange(-6000, 6000, dtype=np.float32) * np.float32(2.4e-7)]
    small = np.float32(2.0) ** -np.arange(0, 140, dtype=np.float32)
    source = np.concatenate([*around, small, np.random.default_rng(4).normal(scale=2, size=5000).astype(np.float32)])
    source = np.concatenate([source, -source])
    result = np.empty_like(source)
    GELU(source, ROOM, result)
    exact = [0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0))) for x in source.tolist()]
    np.testing.assert_array_equal(result.view(np.int32), np.asarray(exact, np.float32).view(np.int32))


def test_gelu_of_infinite_and_undefined_numbers() -> None:
    source = np.asarray([np.inf, np.nan, -np.inf, 1e30, -1e30], np.float32)
    result = np.empty_like(source)
    GELU(source, ROOM, result)
    np.testing.assert_array_equal(result, np.asarray([np.inf, np.nan, np.nan, 1e30, -0.0], np.float32))


ASKED = [9.449049, 6.250954, 6.841799, 8.972137, 5.782924, 7.756857, 8.33651]
"""Numbers of which the original's runtime gave :data:`ANSWERED`."""
ANSWERED = [3.0739305, 2.500191, 2.6156833, 2.9953525, 2.404771, 2.7851133, 2.8873014]


def roots(*values: float) -> np.ndarray:
    source = np.asarray(values, np.float32)
    result = np.empty_like(source)
    ROOT(source, result)
    return result


def test_roots_are_those_of_the_original() -> None:
    """On CPUs with the estimate of those that the original was asked on; the last three of seven are exact anywhere."""
    found, expected = roots(*ASKED), np.asarray(ANSWERED, np.float32)
    np.testing.assert_array_max_ulp(found, expected, 1)
    np.testing.assert_array_equal(found[4:], expected[4:])


def test_roots_of_zero_and_of_what_has_none() -> None:
    found = roots(0.0, -1.0, 1e-40, 4.0, 0.0)
    np.testing.assert_array_equal(found[[0, 2, 4]], [0.0, 0.0, 0.0])
    assert np.isnan(found[1])
    np.testing.assert_array_max_ulp(found[3:4], np.asarray([2.0], np.float32), 1)


def test_roots_of_what_the_step_of_newtons_passes_on() -> None:
    """As the original was asked: an infinity has no root, and a negative number that is not normal an infinite one."""
    found = roots(np.inf, -1e-40, -0.0, np.nan, np.inf)
    of_small = np.inf if ESTIMATES else np.nan
    np.testing.assert_array_equal(found, np.asarray([np.nan, of_small, 0.0, np.nan, np.inf], np.float32))
