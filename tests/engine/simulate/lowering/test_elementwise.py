"""Element-wise operators in blocks, in 32 bits or 64; conversions in runs of one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.simulate.kernels import elementwise as ew
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.elementwise import (
    BLOCK,
    CONVERSION_UNIT,
    elementwise_parameters,
    lower_dequantize,
    lower_difference,
    lower_product,
    lower_quantize,
    lower_sum,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, instructions, ramp

SUM, SUB, MUL = "HzSElementwiseAdd", "HzSElementwiseSub", "HzSElementwiseMul"
STAGE = {"accu_right_shift": [1], "output_scale": [3], "output_right_shift": [1]}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1, 2, 3, 4), (1, 2, 3, 4)),
        ((1, 2, 3, 4), (1, 1, 1, 4)),
        ((1, 1, 3, 4), (1, 2, 1, 4)),
        ((1, 2, 3, 4), (1, 2, 3, 1)),
        ((1, 2, 600, 3), (1, 2, 600, 3)),
        ((2, 1, 2, 1, 3), (1, 2, 2, 2, 3)),
        ((5,), (1, 2, 1, 5)),
    ],
)
def test_operands_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for kind in (np.int8, np.int16):
        inputs = [ramp(*a, first=-90), ramp(*b, dtype=kind, first=-40)]
        compute(lower_sum, SUM, inputs, 2, x_shift=[2], e_scale=[5], e_shift=[1], **STAGE)
        compute(lower_difference, SUB, inputs, 2, x_shift=[2], e_scale=[5], **{**STAGE, "output_scale": [-3]})
        compute(lower_product, MUL, inputs, 2, output_bit=16, **STAGE)
        compute(lower_product, MUL, inputs, 1, add_rounding_bias=1, **STAGE)


def test_values_that_leave_32_bits_are_computed_in_64() -> None:
    """2**23 << 15 and more: int16 shifted by 16 does not fit, by 15 it does."""
    for shift, wide in ((15, 0), (16, 1)):
        program = Assembler()
        x = program.input((1, 4), np.int16)
        lower_sum(call(SUM, x, x, x_shift=[shift], e_scale=[0], output_scale=[1]), program)
        (step,) = instructions(program)
        assert step.fields["wide"] == wide
    large = np.full((1, 4), 32767, np.int16)
    compute(
        lower_sum,
        SUM,
        [large, large],
        2,
        x_shift=[31],
        e_scale=[65535],
        e_shift=[31],
        accu_right_shift=[31],
        output_bit=16,
    )


def test_channels_may_have_parameters_of_their_own() -> None:
    x = ramp(1, 2, 700, 2, first=-90)
    lists = {"x_shift": [2, 1], "e_scale": [5, 4], "e_shift": [0, 1], "accu_right_shift": [1, 2]}
    compute(lower_sum, SUM, [x, x], 2, output_scale=[3, 4], output_right_shift=[1, 2], **lists)


@pytest.mark.parametrize(("size", "units"), [(BLOCK, [1]), (BLOCK + 1, [1, 1]), (3 * BLOCK, [3])])
def test_long_rows_are_cut_into_blocks(size: int, units: list[int]) -> None:
    program = Assembler()
    x = program.input((1, size), np.int8)
    lower_sum(call(SUM, x, x), program)
    assert [step.fields["units"] for step in instructions(program)] == units
    assert instructions(program)[-1].operands["y"].start == (size // BLOCK * BLOCK if size % BLOCK else 0)


def test_rounding_is_a_summand() -> None:
    x = Assembler().input((1, 2), np.int8)
    rounded = elementwise_parameters(call(MUL, x, x, output_scale=[3], output_right_shift=[3], accu_right_shift=[1]), 2)
    assert (rounded[ew.HALF].tolist(), rounded[ew.OFFSET].tolist()) == ([4, 4], [0, 0])
    floored = elementwise_parameters(call(MUL, x, x, output_right_shift=[3], rounding_method="FLOOR"), 2)
    assert floored[ew.HALF].tolist() == [0, 0]
    biased = call(MUL, x, x, output_scale=[3], output_right_shift=[3], accu_right_shift=[1], add_rounding_bias=1)
    found = elementwise_parameters(biased, 2)
    assert (found[ew.HALF].tolist(), found[ew.OFFSET].tolist()) == ([0, 0], [3, 3])
    assert elementwise_parameters(call(SUB, x, x, e_scale=[5]), 1, e_sign=-1)[ew.E_SCALE].tolist() == [-5]


@pytest.mark.parametrize(
    ("attributes", "lowered"),
    [
        ({"x_shift": [31]}, True),
        ({"x_shift": [32]}, False),
        ({"e_shift": [-1]}, False),
        ({"output_right_shift": [32]}, False),
        ({"e_scale": [-65535]}, True),
        ({"e_scale": [65536]}, False),
        ({"output_scale": [-65536]}, False),
        ({"output_bit": 32}, False),
    ],
)
def test_parameters_of_the_machine(attributes: dict[str, Any], lowered: bool) -> None:
    program = Assembler()
    x = program.input((1, 2), np.int8)
    if lowered:
        lower_sum(call(SUM, x, x, **attributes), program)
    else:
        with pytest.raises(NotLowered):
            lower_sum(call(SUM, x, x, **attributes), program)


def test_operands_must_fit() -> None:
    program = Assembler()
    x, wide, other = (
        program.input(shape, kind) for shape, kind in (((1, 2), np.int8), ((1, 2), np.int32), ((1, 3), np.int8))
    )
    with pytest.raises(NotLowered, match="its operands are int8 and int32"):
        lower_sum(call(SUM, x, wide), program)
    with pytest.raises(NotLowered, match="do not broadcast"):
        lower_sum(call(SUM, x, other), program)
    with pytest.raises(NotLowered, match="an operand is missing"):
        lower_sum(call(SUM, x, None), program)


@pytest.mark.parametrize(("axis", "count", "along"), [(3, 5, 1), (1, 20, 0), (-1, 5, 1)])
def test_scales_cover_runs_or_elements(axis: int, count: int, along: int) -> None:
    shape = (1, 3, 4, 5)
    scales = np.arange(1, shape[axis] + 1).astype(np.float32) / 8
    x = np.linspace(-20, 20, 60, dtype=np.float32).reshape(shape)
    compute(lower_quantize, "HzQuantize", [x, scales], axis=axis)
    compute(lower_quantize, "HzQuantize", [x, scales], axis=axis, bits=16)
    for kind in (np.int8, np.int16, np.int32):
        compute(lower_dequantize, "HzDequantize", [ramp(*shape, dtype=kind), scales], axis=axis)
    program = Assembler()
    lower_quantize(call("HzQuantize", program.input(shape, np.float32), scales, axis=axis), program)
    (step,) = instructions(program)
    assert (step.fields["count"], step.fields["along"]) == (count, along)


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (7, 7),
        (CONVERSION_UNIT, CONVERSION_UNIT),
        (CONVERSION_UNIT * 2, CONVERSION_UNIT),
        (CONVERSION_UNIT + 1, (CONVERSION_UNIT + 1) // 5),
        (CONVERSION_UNIT + 27, CONVERSION_UNIT + 27),
    ],
)
def test_one_scale_covers_units_that_divide(size: int, count: int) -> None:
    program = Assembler()
    lower_dequantize(call("HzDequantize", program.input((1, size), np.int8), np.ones(1, np.float32)), program)
    assert instructions(program)[0].fields["count"] == count


def test_scales_of_another_number_are_left_to_the_definition() -> None:
    program = Assembler()
    x = program.input((1, 3), np.int8)
    with pytest.raises(NotLowered, match="2 scales for 3 channels"):
        lower_dequantize(call("HzDequantize", x, np.ones(2, np.float32)), program)
    with pytest.raises(NotLowered, match="axis 2 of a tensor of rank 2"):
        lower_dequantize(call("HzDequantize", x, np.ones(3, np.float32), axis=2), program)
    with pytest.raises(NotLowered, match="its input is int8"):
        lower_quantize(call("HzQuantize", x, np.ones(1, np.float32)), program)
    with pytest.raises(NotLowered, match="its input is float32"):
        lower_dequantize(call("HzDequantize", program.input((1, 3), np.float32), np.ones(1, np.float32)), program)
