"""Sums along an axis: means but for the ratio."""

from __future__ import annotations

import numpy as np

from engine.ops.core.reasons import Code
from engine.ops.reduce_sum import ReduceSumRule
from tests.engine.ops.operators import bound, evaluate, float_node, int8, lowered, refused, scaled, tensor

OP = "HzSQuantizedReduceSum"


def test_a_sum_is_requantised_or_left_as_it_is() -> None:
    x = int8(1, 2, 4, shape=(1, 1, 3, 1))
    assert evaluate(OP, [x], axis=2, accu_right_shift=[1], scale=[3], out_shift=[1]).item() == 5
    assert evaluate(OP, [x], axis=2, output_bit=32).item() == 7


def test_the_ratio_is_that_of_the_scales() -> None:
    node = float_node("ReduceSum", [tensor("x", 1, 3, 4, 8)], (1, 3, 1, 8), axes=[2])
    made = lowered(ReduceSumRule(), node, x=scaled(0.5), y=scaled(0.5))
    assert (made.op_type, made.attributes["scale"], made.attributes["out_shift"]) == (OP, [1 << 14] * 3, [14] * 3)
    several = float_node("ReduceSum", [tensor("x", 1, 3, 4, 8)], (1, 3, 1, 1), axes=[2, 3])
    assert refused(ReduceSumRule(), several) is Code.ONE_AXIS


def test_the_bound_is_of_a_sum_and_not_of_a_mean() -> None:
    node = float_node("ReduceSum", [tensor("x", 1, 4, 2, 2)], (1, 4, 1, 2))
    found = bound(OP, node, [0.5], 0.5, shapes=((1, 2, 2, 4), (1, 1, 2, 4)), axis=1, output_bit=32)
    np.testing.assert_allclose(found, 0.5 * 256 * 2.0**-24 * (1 + 4), rtol=1e-12)
