"""Averages of windows by a truncated reciprocal."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops.average_pool import (
    AveragePoolRule,
    half_of_sides_above,
    halving_windows,
    reciprocal,
    whole_fraction_bits,
)
from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from tests.engine.ops.operators import bound, evaluate, float_node, int8, lowered, refused, results, scaled, tensor


def test_the_gain_error_is_that_of_the_reciprocal() -> None:
    x = np.full((1, 3, 3, 1), 100, np.int8)
    assert evaluate("HzQuantizedAveragePool", [x], kernel_shape=[3, 3]).ravel().tolist() == [(56 * 900) >> 9]


def test_the_product_is_floored_and_padding_counts_as_zero() -> None:
    assert evaluate("HzQuantizedAveragePool", [int8(-1, 0)], kernel_shape=[1, 2]).ravel().tolist() == [-1]
    padded = evaluate("HzQuantizedAveragePool", [int8(90)], kernel_shape=[1, 3], pads=[0, 1, 0, 1])
    assert padded.ravel().tolist() == [(170 * 90) >> 9]


@pytest.mark.parametrize(
    ("scale", "expected"), [(9, (9, 170)), (41, (9, 170)), (30, (30, (1 << 30) // 3)), (31, (31, -((1 << 31) // 3)))]
)
def test_the_reciprocal_is_divided_as_int32_towards_zero(scale: int, expected: tuple[int, int]) -> None:
    assert reciprocal({"scale": scale, "kernel_shape": np.array([1, 3])}) == expected


@pytest.mark.parametrize(("march", "most"), [("bayes-e", 64), ("bernoulli2", 7)])
def test_windows_up_to_a_limit(march: str, most: int) -> None:
    x = tensor("x", 1, 4, 99, 99)
    nodes = [float_node("AveragePool", [x], (1, 4, 9, 9), kernel_shape=[1, side]) for side in (most, most + 1)]
    assert [refused(AveragePoolRule(), node, march) for node in nodes] == [None, Code.WINDOW]
    line = float_node("AveragePool", [tensor("x", 1, 4, 9)], (1, 4, 9), kernel_shape=[3])
    assert refused(AveragePoolRule(), line) is Code.POOLING_2D


def test_the_result_keeps_the_scale() -> None:
    node = float_node("AveragePool", [tensor("x", 1, 4, 8, 8)], (1, 4, 4, 4), kernel_shape=[2, 2], ceil_mode=1)
    assert AveragePoolRule().tie(node) is Tie.OUTPUT_TAKES_INPUT
    made = lowered(AveragePoolRule(), node, x=scaled(0.5))
    assert (made.bits, made.scale) == (8, [0.5])
    assert made.attributes == {
        "kernel_shape": [2, 2],
        "pads": [0, 0, 0, 0],
        "strides": [1, 1],
        "ceil_mode": 1,
        "scale": 9,
        "data_format": "NHWC",
    }


@pytest.mark.parametrize(
    ("pads", "count_include_pad", "gain_error"),
    [([0, 0, 0, 0], 0, 1 - 9 * 56 / 512), ([1, 0, 0, 0], 0, 1 - 56 / 512), ([1, 0, 0, 0], 1, 1 - 9 * 56 / 512)],
)
def test_the_bound_is_the_error_of_the_gain(pads: list[int], count_include_pad: int, gain_error: float) -> None:
    node = float_node("AveragePool", [tensor("x", 1, 4, 8, 8)], (1, 4, 4, 4), count_include_pad=count_include_pad)
    found = bound("HzQuantizedAveragePool", node, [0.5], 0.5, kernel_shape=[3, 3], pads=pads)
    assert float(found) == 0.5 * (gain_error * 128 + 1 + 11 * 2.0**-24 * 128)


def test_the_whole_map_is_summed_and_multiplied_by_a_truncated_reciprocal() -> None:
    """Two channels of a file of the original for a map of 17x17 on bernoulli2, taken in steps to 5x5."""
    first = [1, 7, -15, 1, 7, -5, 6, 9, -11, -9, 5, -10, 9, 0, -1, 2, -4, 7, 0, -3, -3, -11, -3, -1, 0]
    second = [8, -2, -4, 4, 1, 14, -1, 1, 2, -4, 9, -8, -2, -8, -2, -10, -5, -11, -21, 1, -1, -4, -4, -1, -2]
    x = np.array([first, second], np.int8).T.reshape(1, 5, 5, 2)
    (y,) = results("HzQuantizedGlobalAveragePool", [x], scale=11)
    assert y.dtype == np.int8
    assert y.ravel().tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("height", "width", "windows", "bits"),
    [
        (17, 17, [(2, 2), (2, 2)], 11),
        (33, 7, [(2, 1), (2, 1), (2, 1)], 11),
        (22, 11, [(2, 2), (2, 1)], 9),
        (1, 11, [(1, 2)], 9),
        (15, 17, [(2, 2), (2, 2)], 4),
        (13, 13, [(2, 2)], 12),
        (29, 1, [(2, 1), (2, 1), (2, 1)], 8),
        (51, 26, [(2, 2), (2, 2), (2, 1)], 12),
        (17, 30, [(2, 2), (2, 2), (1, 2)], 4),
    ],
)
def test_a_large_map_is_halved_as_the_original_halves_it(
    height: int, width: int, windows: list[tuple[int, int]], bits: int
) -> None:
    """Answers of the original: steps, and fraction bits of the last one."""
    ends = [half_of_sides_above(side, 7) for side in (height, width)]
    assert list(halving_windows((height, width), ends)) == windows
    averaged = int(np.prod(windows))
    assert whole_fraction_bits(height * width, ends[0] * ends[1], averaged) == bits
