"""Comparisons as the sign of a saturated difference."""

from __future__ import annotations

import numpy as np
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.comparison import lower_comparison
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, fed, kinds

NAMES = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_signs_survive_saturation(name: str, dtype: type) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    pairs = np.array([[least, most], [most, least], [3, 3], [3, 4], [least, least]], dtype).T.reshape(2, 1, 1, 5, 1)
    found = compute(lower_comparison, "HzQuantizedComparison", [*pairs], 2, comparison=name)
    truth = {"Equal": "00101", "Greater": "01000", "GreaterOrEqual": "01101", "Less": "10010", "LessOrEqual": "10111"}
    assert found.ravel().tolist() == [int(bit) for bit in truth[name]]


def test_a_difference_and_a_table() -> None:
    program, x = Assembler(), np.zeros((1, 1, 2, 1), np.int8)
    tensors = [tensor for tensor, _ in fed(program, x, x)]
    lower_comparison(call("HzQuantizedComparison", *tensors, comparison="Less"), program)
    assert kinds(program) == [InstructionKind.ELEMENTWISE, InstructionKind.TABLE]
    with pytest.raises(NotLowered, match="comparison Near"):
        lower_comparison(call("HzQuantizedComparison", *tensors, comparison="Near"), program)
