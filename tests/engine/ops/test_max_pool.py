"""Maxima of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.ops.core.base import Tie
from engine.ops.core.reasons import Code
from engine.ops.max_pool import MaxPoolRule
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, refused, scaled, tensor


def test_padding_never_wins_a_maximum() -> None:
    x = np.full((1, 1, 1, 1), -100, np.int16)
    assert evaluate("HzQuantizedMaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1]).ravel().tolist() == [-100]


def test_ceil_mode_keeps_a_last_window_that_starts_inside() -> None:
    pool = {"kernel_shape": [1, 3], "strides": [1, 2]}
    assert evaluate("HzQuantizedMaxPool", [int8(*range(6))], **pool).ravel().tolist() == [2, 4]
    assert evaluate("HzQuantizedMaxPool", [int8(*range(6))], ceil_mode=1, **pool).ravel().tolist() == [2, 4, 5]


def test_taps_of_a_dilated_window_lie_apart() -> None:
    x = int8(5, 9, 1, 2, 0)
    assert evaluate("HzQuantizedMaxPool", [x], kernel_shape=[1, 2], dilations=[1, 2]).ravel().tolist() == [5, 9, 1]


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"kernel_shape": [64, 1]}, None),
        ({"kernel_shape": [1, 65]}, Code.WINDOW),
        ({"kernel_shape": [3, 3], "dilations": [1, 2]}, Code.DILATION),
    ],
)
def test_whole_windows_up_to_a_limit(attributes: dict[str, Any], code: Code | None) -> None:
    assert (
        refused(MaxPoolRule(), float_node("MaxPool", [tensor("x", 1, 4, 99, 99)], (1, 4, 9, 9), **attributes)) is code
    )


def test_positions_and_lines_are_not_pooled() -> None:
    shape = (1, 4, 9, 9)
    both = float_node("MaxPool", [tensor("x", *shape)], shape, shape, kernel_shape=[1, 1])
    assert refused(MaxPoolRule(), both) is Code.INDICES
    line = float_node("MaxPool", [tensor("x", 1, 4, 9)], (1, 4, 9), kernel_shape=[3])
    assert refused(MaxPoolRule(), line) is Code.POOLING_2D


def test_the_result_keeps_scale_and_width() -> None:
    node = float_node("MaxPool", [tensor("x", 1, 4, 8, 8)], (1, 4, 4, 4), kernel_shape=[2, 2], strides=[2, 2])
    assert (MaxPoolRule().passive, MaxPoolRule().tie(node)) == (True, Tie.OUTPUT_TAKES_INPUT)
    made = lowered(MaxPoolRule(), node, x=scaled(0.5, qtype="int16"))
    assert (made.bits, made.scale, made.attributes["output_bit"]) == (16, [0.5], 16)
    assert "ceil_mode" not in made.attributes
