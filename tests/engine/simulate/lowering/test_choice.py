"""What shares vectors and windows where that takes less time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.tiles import CHAIN, MATRICES, MAX_VECTORS
from engine.simulate.lowering.choice import WIDE_ENOUGH
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.program import Assembler
from tests.cpu import needs_cpu
from tests.engine.simulate.lowering.test_convolution import OP, constants
from tests.engine.simulate.machine import call, compute, instructions, ramp


@needs_cpu(CHAIN != 1, "products of bytes do not depend on what is multiplied")
@pytest.mark.parametrize(
    ("inside", "weight", "signed", "quads"),
    [(64, 127, False, 1), (64, 40, True, 0), (12, 40, False, 1), (12, 127, False, 0)],
)
def test_bytes_are_multiplied_where_none_is_negative_and_it_takes_less_time(
    inside: int, weight: int, signed: bool, quads: int
) -> None:
    """Four times 127 does not fit a chain, so that every other step of bytes stands by itself."""
    program, own = Assembler(), constants(LANES, inside)
    x = replace(program.input((1, 9, 9, inside), np.int8), signed=signed)
    own[0] = np.full_like(own[0], weight)
    lower_convolution(call(OP, x, *own, kernel_shape=[1, 1]), program)
    (step,) = instructions(program)
    assert (step.fields["quads"], step.fields["in_place"]) == (quads, quads)


def test_pixels_lie_beside_each_other_where_vectors_would_be_empty() -> None:
    """12 pixels of 40 channels: two of them fill whole vectors of 16 (80), or the first count that reaches 128."""
    program = Assembler()
    x = program.input((1, 3, 4, 40), np.int8)
    lower_convolution(call(OP, x, *constants(40, 1), kernel_shape=[1, 1], group=40), program)
    (step,) = instructions(program)
    channels = step.operands["x"].shape[3]
    first = next(n for n in (1, 2, 3, 4, 6, 12) if n * 40 % LANES == 0 or n * 40 >= WIDE_ENOUGH)
    assert channels == first * 40


def test_neighbours_share_the_vectors_of_a_depthwise_window() -> None:
    """A row of 64 pixels of one channel becomes vectors; the border grows to whole groups."""
    program = Assembler()
    x = program.input((1, 4, 64, 1), np.int8)
    window = {"kernel_shape": [3, 3], "group": 1, "pads": [1, 1, 1, 1]}
    lower_convolution(call(OP, x, *constants(1, 1, 3, 3), **window), program)
    pad, step = instructions(program)
    channels = step.operands["y"].shape[3]
    assert channels == LANES
    assert pad.operands["y"].shape[2] % channels == 0


@needs_cpu(MAX_VECTORS * LANES >= 16, "the channels of two results are more than a panel has")
def test_neighbours_share_a_window_of_few_bytes() -> None:
    """Of an image, 5 columns of 3 channels are 15 bytes in one piece: what two results of 8 channels read of a row.

    Products of matrices have registers for four results.
    """
    program = Assembler()
    x = program.input((1, 9, 9, 3), np.int8)
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    lower_convolution(call(OP, x, *constants(8, 3, 3, 3), **window, pads=[0, 0, 0, 0]), program)
    x = program.input((1, 9, 25, 3), np.int8)
    lower_convolution(call(OP, x, *constants(8, 3, 3, 3), **window, pads=[1, 1, 1, 1]), program)
    even, _, odd = instructions(program)
    expected = ((1, 4, 1, 32), 27, 8) if MATRICES else ((1, 4, 2, 16), 15, 4)
    assert (even.operands["y"].shape, even.fields["tap_length"], even.fields["stride_w"]) == expected
    assert (odd.operands["y"].shape, odd.fields["tap_length"], odd.fields["stride_w"]) == ((1, 5, 13, 8), 9, 2)


@needs_cpu(REGISTERS.quads, "rows of a window are not gathered in pieces of 32 bytes")
def test_neighbours_share_a_window_of_more_bytes_where_that_takes_less_time() -> None:
    """9 columns of 3 channels are 27 bytes: two results of 8 channels fill a vector, two of 12 leave half of one. Four
    columns of 16 channels fill a register, and two results of 8 channels a vector."""
    program = Assembler()
    window = {"kernel_shape": [7, 7], "strides": [2, 2]}
    for channels in (8, 12):
        x = program.input((1, 13, 13, 3), np.int8)
        lower_convolution(call(OP, x, *constants(channels, 3, 7, 7), **window, pads=[0, 0, 0, 0]), program)
    x = program.input((1, 3, 6, 16), np.int8)
    lower_convolution(call(OP, x, *constants(8, 16, 3, 3), kernel_shape=[3, 3]), program)
    narrow, wide, deep = instructions(program)
    assert (deep.operands["y"].shape, deep.fields["tap_length"]) == ((1, 1, 2, 16), 64)
    expected = ((1, 4, 1, 32), 39) if MATRICES else ((1, 4, 2, 16), 27)
    assert (narrow.operands["y"].shape, narrow.fields["tap_length"]) == expected
    expected = ((1, 4, 1, 48), 39) if MATRICES else ((1, 4, 4, 12), 21)
    assert (wide.operands["y"].shape, wide.fields["tap_length"]) == expected
    x = ramp(1, 9, 13, 3, first=-9)
    compute(lower_convolution, OP, [x, *constants(8, 3, 7, 7)], **window, right_shift=[6], scale=[9], out_shift=[2])
    x = ramp(2, 5, 8, 16, first=-9)
    compute(lower_convolution, OP, [x, *constants(8, 16, 3, 3)], kernel_shape=[3, 3], right_shift=[6], scale=[9])
