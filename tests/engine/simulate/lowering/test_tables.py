"""Functions of one integer as tables."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.tables import (
    MOST_FACTORS,
    TABLE_UNIT,
    look_up,
    lower_requantize,
    lower_table_of_ramp,
    tables_of_ramp,
)
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, fed, instructions, ramp, run

TABLE = np.arange(-128, 128)[::-1].astype(np.int8)


def test_a_table_of_256_and_one_of_65536() -> None:
    found = compute(lower_table_of_ramp, "HzLut", [ramp(1, 1, 256, 1, first=-128), TABLE])
    np.testing.assert_array_equal(found.ravel(), TABLE)
    wide = {"output_bit": 16, "bound": [0] * 7 + [32767], "table_param": [0] * 384}
    lines = {"scale": [-1] * 8, "bias": [0] * 8, "left_shift": [0] * 8, "right_shift": [0] * 8}
    x = np.array([-32768, -1, 0, 5, 32767], np.int16).reshape(1, 1, 5, 1)
    assert compute(lower_table_of_ramp, "HzLut2Layer", [x], **wide, **lines).ravel().tolist() == [
        32767,
        1,
        0,
        -5,
        -32767,
    ]


def test_channels_that_agree_share_a_table() -> None:
    program = Assembler()
    x = program.input((1, 1, 2, 3), np.int8)
    same = call("HzPRelu", x, alpha_scale=[64] * 3, alpha_shift=[7] * 3)
    assert tables_of_ramp(same, x.dtype, 3).shape == (1, 256)
    other = call("HzPRelu", x, alpha_scale=[64, 64, 65], alpha_shift=[7] * 3)
    assert tables_of_ramp(other, x.dtype, 3).shape == (3, 256)
    compute(
        lower_table_of_ramp, "HzPRelu", [ramp(1, 2, 20, 3, first=-60)], alpha_scale=[64, 1, 65], alpha_shift=[7, 0, 3]
    )


@pytest.mark.parametrize(("size", "units"), [(1, 1), (TABLE_UNIT, 1), (TABLE_UNIT + 1, 2)])
def test_units_are_whole_runs_of_all_tables(size: int, units: int) -> None:
    program = Assembler()
    look_up(program.input((size,), np.int8), np.zeros((1, 256), np.int8), program)
    (step,) = instructions(program)
    assert (step.fields["units"], step.fields["count"]) == (units, TABLE_UNIT)
    look_up(program.input((3 * size,), np.int8), np.zeros((3, 256), np.int8), program)
    assert instructions(program)[1].fields["count"] == TABLE_UNIT // 3 * 3


def test_elements_take_tables_in_turn() -> None:
    program = Assembler()
    feeds = fed(program, np.array([-128, -128, 127, 127], np.int8))
    tables = np.stack([np.arange(256), np.arange(256) + 1000]).astype(np.int16)
    assert run(program, feeds, look_up(feeds[0][0], tables, program)).tolist() == [0, 1000, 255, 1255]


@pytest.mark.parametrize("kind", [np.int8, np.int16])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 2, 50, 2), 3), ((1, 2, 50, 2), 2), ((1, 3, 7), 1), ((5, 4), 0), ((6,), -1)]
)
@pytest.mark.parametrize("bits", [8, 16])
def test_requantisation_along_any_axis(shape: tuple[int, ...], axis: int, kind: type, bits: int) -> None:
    x, count = (ramp(*shape, first=-100) * 3).astype(kind), shape[axis]
    factors, shifts = [3 + 9 * k for k in range(count)], [k % 5 for k in range(count)]
    for scale, shift in ((factors, shifts), ([7] * count, [2] * count), ([32767], [15])):
        compute(
            lower_requantize, "HzRequantize", [x], axis=axis, bits=bits, output_scale=scale, output_right_shift=shift
        )


def test_requantisations_that_are_left_to_the_definition() -> None:
    program = Assembler()
    x = program.input((1, 4, MOST_FACTORS // 4 + 1), np.int8)
    differ = {"output_scale": [3, 4, 5, 6], "output_right_shift": [1]}
    with pytest.raises(NotLowered, match="factors that differ"):
        lower_requantize(call("HzRequantize", x, axis=1, **differ), program)
    with pytest.raises(NotLowered, match="axis 3 of a tensor of int8 and rank 3"):
        lower_requantize(call("HzRequantize", x, axis=3, **differ), program)


def test_what_is_no_function_of_an_integer() -> None:
    program = Assembler()
    x = program.input((1, 1, 2, 3), np.int8)
    refusals = {
        "its input is int32": call("HzLut", program.input((1, 2), np.int32), TABLE),
        "its input is int8 of rank 0": call("HzLut", program.input((), np.int8), TABLE),
        "a parameter is no vector of constants": call("HzLut", x, x),
        "its definition cannot compute every int8 of 3 channels": call("HzLut", x, TABLE[:10]),
    }
    for message, node in refusals.items():
        with pytest.raises(NotLowered, match=message):
            lower_table_of_ramp(node, program)
