"""Functions of one integer as tables."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.tables import (
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


def test_requantisation_along_the_last_axis_or_of_one_kind() -> None:
    x = ramp(1, 2, 50, 2, first=-100)
    compute(lower_requantize, "HzRequantize", [x], output_scale=[3, 200], output_right_shift=[1, 2])
    shared = {"output_scale": [3, 3], "output_right_shift": [1, 1]}
    compute(lower_requantize, "HzRequantize", [x], axis=2, bits=16, **{k: v[:1] for k, v in shared.items()})
    compute(lower_requantize, "HzRequantize", [x.astype(np.int16)], **shared)
    program = Assembler()
    narrow, wide = program.input(x.shape, np.int8), program.input(x.shape, np.int16)
    differ = {"output_scale": [3, 4], "output_right_shift": [1, 1]}
    for tensor, axis in ((narrow, 1), (wide, 3)):
        with pytest.raises(NotLowered, match="its parameters differ along another axis than the last, or for int16"):
            lower_requantize(call("HzRequantize", tensor, axis=axis, **differ), program)
    with pytest.raises(NotLowered, match="its input has rank 2"):
        lower_requantize(call("HzRequantize", program.input((1, 2), np.int8), **shared), program)


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
