"""Another scale or width."""

from __future__ import annotations

from engine.ops.requantize import Requantize
from tests.engine.ops.operators import evaluate, int8


def test_products_are_rounded_half_up_and_saturated() -> None:
    x = int8(-3, -1, 1, 3, 100)
    found = evaluate(Requantize.op_type, [x], output_scale=[3], output_right_shift=[1])
    assert found.ravel().tolist() == [-4, -1, 2, 5, 127]
    wide = evaluate(Requantize.op_type, [x], bits=16, output_scale=[600], output_right_shift=[0])
    assert wide.ravel().tolist() == [-1800, -600, 600, 1800, 32767]


def test_multipliers_stand_along_their_axis() -> None:
    x = int8(1, 2, 3, 4, shape=(1, 1, 2, 2))
    factors = {"output_scale": [1, 10], "output_right_shift": [0, 1]}
    assert evaluate(Requantize.op_type, [x], axis=3, **factors).ravel().tolist() == [1, 10, 3, 20]
    assert evaluate(Requantize.op_type, [x], axis=2, **factors).ravel().tolist() == [1, 2, 15, 20]


def test_channels_come_last_where_nothing_else_is_said() -> None:
    x = int8(1, 2, 3, 4, shape=(1, 1, 2, 2))
    found = evaluate(Requantize.op_type, [x], output_scale=[1, 10], output_right_shift=[0, 0])
    assert found.ravel().tolist() == [1, 20, 3, 40]
