"""Products of stacks of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.matmul import TILE_ROWS, lower_matmul
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, instructions, ramp

OP = "HzSQuantizedMatmul"
STAGE = {"right_shift": [2], "scale": [23170], "out_shift": [14]}


@pytest.mark.parametrize(
    ("a", "b"), [((3, 5), (5, 7)), ((2, 3, 5), (2, 5, 70)), ((1, 2, 50, 6), (6, 3)), ((2, 1, 4, 9), (1, 3, 9, 2))]
)
@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.int16, np.int8), (np.int16, np.int16)])
def test_stacks_broadcast(a: tuple[int, ...], b: tuple[int, ...], types: tuple[type, type]) -> None:
    inputs = [ramp(*a, dtype=types[0], first=-70), ramp(*b, dtype=types[1], first=-50)]
    compute(lower_matmul, OP, inputs, 2, **STAGE)
    compute(lower_matmul, OP, inputs, 2, rounding_method="FLOOR", output_bit=16, **STAGE)
    compute(lower_matmul, OP, inputs, 2, output_bit=32)
    compute(lower_matmul, OP, inputs, 1, **STAGE)


@pytest.mark.parametrize(("rows", "units"), [(TILE_ROWS, 2), (TILE_ROWS + 1, 4)])
def test_a_unit_is_a_tile_of_rows_of_one_matrix(rows: int, units: int) -> None:
    program = Assembler()
    lower_matmul(call(OP, program.input((2, rows, 3), np.int8), program.input((2, 3, 4), np.int8)), program)
    (step,) = instructions(program)
    assert step.fields["units"] == units


@pytest.mark.parametrize(
    ("a", "b", "attributes", "message"),
    [
        ((2, 3), (4, 2), {}, r"shapes \(2, 3\) and \(4, 2\) have no product"),
        ((3,), (3, 2), {}, "are no matrices"),
        ((0, 3), (3, 2), {}, "are no matrices, or empty"),
        ((2, 3), (3, 2), {"out_shift": [31]}, "lies outside"),
        ((2, 3), (3, 2), {"scale": [32768]}, "lies outside"),
        ((2, 3), (3, 2), {"right_shift": [-1]}, "lies outside"),
        ((2, 3), (3, 2), {"scale": [1, 2, 3]}, "a list of 3 values for 2 channels"),
    ],
)
def test_what_is_left_to_the_definition(
    a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any], message: str
) -> None:
    program = Assembler()
    with pytest.raises(NotLowered, match=message):
        lower_matmul(call(OP, program.input(a, np.int8), program.input(b, np.int8), **attributes), program)


def test_operands_are_small_integers() -> None:
    program = Assembler()
    with pytest.raises(NotLowered, match="its operands are not two tensors of int8 or int16"):
        lower_matmul(call(OP, program.input((2, 3), np.int8), program.input((3, 2), np.int32)), program)
