"""Transposed convolutions as convolutions of spread pixels, or as blocks of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.simulate.kernels.instructions import InstructionKind
from engine.simulate.lowering.common import NotLowered
from engine.simulate.lowering.transposed import lower_transposed_convolution, turned_weights
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, kinds, ramp

OP = "HzSQuantizedConvTranspose"
STAGE = {"accu_right_shift": [3], "y_quant_scale": [23170], "y_right_shift": [14]}


@pytest.mark.parametrize(
    ("channels", "kernel", "attributes"),
    [
        ((3, 5), (2, 2), {"strides": [2, 2]}),
        ((3, 5), (3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1], "output_padding": [1, 0]}),
        ((4, 2), (2, 2), {"group": 2, "strides": [2, 2]}),
        ((3, 5), (2, 3), {"dilations": [2, 1]}),
    ],
)
def test_every_kind_of_window(channels: tuple[int, int], kernel: tuple[int, int], attributes: dict[str, Any]) -> None:
    x, weights = ramp(1, 3, 4, channels[0], first=-20), ramp(channels[0], *kernel, channels[1], first=-30)
    outputs = channels[1] * attributes.get("group", 1)
    bias = ramp(outputs, dtype=np.int32, first=-2)
    common = {"kernel_shape": kernel, **STAGE, **attributes}
    compute(lower_transposed_convolution, OP, [x, weights, bias], b_left_shift=[2], **common)
    compute(lower_transposed_convolution, OP, [x, weights], use_bias=0, activation="relu", **common)


def written(**attributes: Any) -> list[InstructionKind]:
    program = Assembler()
    x = program.input((1, 3, 4, 3), np.int8)
    node = call(OP, x, ramp(3, 2, 2, 5), use_bias=0, kernel_shape=[2, 2], **STAGE, **attributes)
    lower_transposed_convolution(node, program)
    return kinds(program)


def test_windows_that_do_not_overlap_are_blocks_of_pixels() -> None:
    assert written(strides=[2, 2]) == [InstructionKind.CONVOLUTION, InstructionKind.COPY]
    for apart in (
        {"strides": [2, 1]},
        {"strides": [2, 2], "pads": [0, 0, 1, 0]},
        {"strides": [2, 2], "output_padding": [1, 0]},
    ):
        assert written(**apart) == [InstructionKind.PAD, InstructionKind.COPY, InstructionKind.CONVOLUTION]


def test_pads_reach_no_further_than_the_kernel() -> None:
    assert written(pads=[1, 1, 1, 1])
    with pytest.raises(NotLowered, match="its pads cut off more than the kernel reaches"):
        written(pads=[2, 0, 0, 0])


def test_weights_are_turned_around_within_their_groups() -> None:
    weights = np.arange(2 * 1 * 3 * 2).reshape(2, 1, 3, 2)
    assert turned_weights(weights, 1)[0, 0].tolist() == [[4, 10], [2, 8], [0, 6]]
    assert turned_weights(weights, 2).shape == (4, 1, 3, 1)
    assert turned_weights(weights, 2)[3, 0].ravel().tolist() == [11, 9, 7]


def test_weights_that_do_not_fit_are_left_to_the_definition() -> None:
    program = Assembler()
    x = program.input((1, 2, 2, 3), np.int8)
    node = call(OP, x, ramp(4, 1, 1, 2), use_bias=0, kernel_shape=[1, 1], **STAGE)
    with pytest.raises(NotLowered, match=r"weights \(4, 1, 1, 2\) do not belong to the input's 3 channels"):
        lower_transposed_convolution(node, program)
