"""Means along an axis: requantised sums."""

from __future__ import annotations

import numpy as np

from engine.ops.core.reasons import Code
from engine.ops.reduce_mean import ReduceMeanRule, reduction_stage
from tests.engine.ops.operators import evaluate, float_node, int8, lowered, refused, scaled, tensor

OP = "HzSQuantizedReduceMean"


def test_the_sum_is_floored_multiplied_and_rounded() -> None:
    x = int8(1, 2, 4, -3, -4, -4, shape=(1, 2, 3, 1))
    found = evaluate(OP, [x], axis=2, accu_right_shift=[1], scale=[3], out_shift=[1])
    assert found.ravel().tolist() == [5, -9 + 0]


def test_of_lists_the_first_element_counts() -> None:
    x = int8(1, 2, 3, 4, shape=(1, 1, 2, 2))
    assert evaluate(OP, [x], axis=2, scale=[1, 9], out_shift=[0, 9], accu_right_shift=[0, 9]).ravel().tolist() == [4, 6]


def test_wide_sums_are_not_requantised() -> None:
    x = np.full((1, 1, 30, 1), 127, np.int8)
    assert evaluate(OP, [x], output_bit=32, axis=2, scale=[5]).ravel().tolist() == [30 * 127]
    assert reduction_stage({"output_bit": 32}) is None


def test_the_ratio_holds_the_length_and_lists_are_as_long_as_the_channels() -> None:
    node = float_node("ReduceMean", [tensor("x", 1, 3, 4, 8)], (1, 3, 1, 8), axes=[2])
    made = lowered(ReduceMeanRule(), node, x=scaled(0.5), y=scaled(0.125))
    assert made.attributes["axis"] == 1
    names = ("accu_right_shift", "scale", "out_shift")
    assert [made.attributes[name] for name in names] == [[0] * 3, [1 << 14] * 3, [14] * 3]
    rows = float_node("ReduceMean", [tensor("x", 1, 3, 8)], (1, 3, 1), axes=[-1])
    made = lowered(ReduceMeanRule(), rows, x=scaled(0.5), y=scaled(0.125))
    assert (made.attributes["axis"], made.attributes["out_shift"]) == (2, [15] * 8)


def test_one_axis_is_reduced() -> None:
    node = float_node("ReduceMean", [tensor("x", 1, 4, 8, 8)], (1, 4, 1, 1), axes=[2, 3])
    assert refused(ReduceMeanRule(), node) is Code.ONE_AXIS
