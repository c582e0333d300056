"""Reductions over one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.simulate.lowering.common import MAX_SCALE, MAX_SHIFT, NotLowered
from engine.simulate.lowering.reduction import lower_position, lower_reduced_maximum, lower_reduced_sum
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, ramp

X = ramp(2, 3, 4, 5, first=-60)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_every_axis(axis: int) -> None:
    for dtype in (np.int8, np.int16):
        largest = compute(lower_reduced_maximum, "HzQuantizedReduceMax", [X.astype(dtype)], axis=axis)
        assert largest.shape == tuple(1 if index == axis % 4 else dim for index, dim in enumerate(X.shape))
        scaling = {"accu_right_shift": [1, 9], "scale": [3, 9], "out_shift": [1, 9]}
        compute(lower_reduced_sum, "HzSQuantizedReduceMean", [X.astype(dtype)], axis=axis, **scaling)
        compute(lower_reduced_sum, "HzSQuantizedReduceSum", [X.astype(dtype)], axis=axis, output_bit=32)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [3, -1])
def test_positions_along_the_last_axis(axis: int, keepdims: int) -> None:
    for dtype in (np.int8, np.int16):
        compute(lower_position, "HzQuantizedArgMax", [X.astype(dtype)], axis=axis, keepdims=keepdims)
        equal = np.zeros((1, 2, 3, 300), dtype)
        equal[0, 1, :, 199:] = 5
        found = compute(lower_position, "HzQuantizedArgMax", [equal], axis=axis, keepdims=keepdims)
        assert found.ravel().tolist() == [0, 0, 0, -57, -57, -57]


def test_positions_along_other_axes_are_left_to_numpy() -> None:
    program = Assembler()
    node = call("HzQuantizedArgMax", program.input(X.shape, np.int8), axis=1, keepdims=1)
    with pytest.raises(NotLowered, match="axis 1"):
        lower_position(node, program)


def test_wide_maxima_of_negative_numbers() -> None:
    x = np.full((1, 1, 3, 2), -32768, np.int16)
    assert compute(lower_reduced_maximum, "HzQuantizedReduceMax", [x], axis=2).ravel().tolist() == [-32768] * 2


@pytest.mark.parametrize(
    ("attributes", "lowered"),
    [
        ({"accu_right_shift": [MAX_SHIFT]}, True),
        ({"accu_right_shift": [MAX_SHIFT + 1]}, False),
        ({"out_shift": [-1]}, False),
        ({"scale": [-MAX_SCALE]}, True),
        ({"scale": [MAX_SCALE + 1]}, False),
        ({"output_bit": 32}, True),
        ({"output_bit": 12}, False),
    ],
)
def test_parameters_of_the_machine(attributes: dict[str, Any], lowered: bool) -> None:
    program = Assembler()
    node = call("HzSQuantizedReduceSum", program.input(X.shape, np.int8), axis=1, **attributes)
    if lowered:
        assert lower_reduced_sum(node, program).shape == (2, 1, 4, 5)
    else:
        with pytest.raises(NotLowered):
            lower_reduced_sum(node, program)


@pytest.mark.parametrize(
    ("length", "dtype", "lowered"), [(65535, np.int16, True), (65536, np.int16, False), (65536, np.int8, True)]
)
def test_sums_that_fit_32_bits(length: int, dtype: type, lowered: bool) -> None:
    program = Assembler()
    node = call("HzQuantizedReduceMax", program.input((1, length), dtype), axis=1)
    if lowered:
        lower_reduced_maximum(node, program)
    else:
        with pytest.raises(NotLowered, match=f"a sum of {length} values of int16 may not fit 32 bits"):
            lower_reduced_maximum(node, program)


def test_axes_that_are_there() -> None:
    program = Assembler()
    x, wide = program.input((2, 3), np.int8), program.input((2, 3), np.int32)
    for tensor, axis in ((x, 2), (x, -3), (wide, 0)):
        with pytest.raises(NotLowered, match=f"axis {axis} of a tensor"):
            lower_reduced_maximum(call("HzQuantizedReduceMax", tensor, axis=axis), program)
