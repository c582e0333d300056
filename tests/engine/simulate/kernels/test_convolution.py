"""Convolution kernels: tiles of rows and panels of channels with rests, row windows, partial vectors."""

from __future__ import annotations

import numpy as np
import pytest

from engine.native.registers import LANES
from engine.simulate.kernels import convolution
from engine.simulate.kernels.tiles import LARGEST_TILE_ROWS, MAX_VECTORS, ROW_WINDOWS, ROWS, TILE_ROWS
from engine.simulate.lowering.convolution import KEPT_FROM, lower_convolution
from engine.simulate.program import Assembler
from tests.engine.simulate.machine import call, compute, instructions

OP = "HzSQuantizedConv"
STAGE = {"right_shift": [3], "scale": [23170], "out_shift": [13]}
WORD_STAGE = {"right_shift": [1], "scale": [23170], "out_shift": [22]}
"""As converters choose them: the upper halves of products of int16 hold what is left."""


def noise(*shape: int, kind: type = np.int8) -> np.ndarray:
    """Numbers of 8 bits; with ``np.uint8`` int8 that are not negative."""
    numbers = np.random.default_rng(sum(shape)).integers(-128, 128, shape)
    return (numbers & 127).astype(np.int8) if kind is np.uint8 else numbers.astype(kind)


@pytest.mark.parametrize("channels", [1, 3, LANES // 2, LANES - 1, LANES, 2 * LANES + 1, (MAX_VECTORS + 1) * LANES])
@pytest.mark.parametrize("pixels", [1, ROWS[0] + 1, LARGEST_TILE_ROWS, LARGEST_TILE_ROWS + 1])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_rests_of_tiles_and_panels(channels: int, pixels: int, kind: type) -> None:
    constants = [noise(channels, 1, 1, 5), np.arange(channels, dtype=np.int32) * 100, np.zeros(channels, np.int8)]
    compute(lower_convolution, OP, [noise(1, 1, pixels, 5, kind=kind), *constants], kernel_shape=[1, 1], **STAGE)


@pytest.mark.parametrize("inside", [5, 6, 10, 11, 21, 22])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_pieces_of_a_window_from_a_few_bytes_to_more_than_a_register(inside: int, kind: type) -> None:
    constants = [noise(4, 3, 3, inside), np.arange(4, dtype=np.int32) * 100, np.zeros(4, np.int8)]
    x = noise(1, 4, 7, inside, kind=kind)
    compute(lower_convolution, OP, [x, *constants], kernel_shape=[3, 3], **STAGE | {"right_shift": [6]})


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("width", [3, 4, 5])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_depthwise_windows_with_and_without_a_kernel_of_their_own(width: int, stride: int, kind: type) -> None:
    channels = LANES + 3
    constants = [noise(channels, 2, width, 1), np.zeros(channels, np.int32), np.zeros(channels, np.int8)]
    x = noise(1, 5, 14, channels, kind=kind)
    window = {"kernel_shape": [2, width], "strides": [1, stride], "group": channels, "pads": [1, 1, 0, 2]}
    compute(lower_convolution, OP, [x, *constants], **window, **STAGE)
    program = Assembler()
    lower_convolution(call(OP, program.input(x.shape, x.dtype), *constants, **window, **STAGE), program)
    rows = instructions(program)[-1].fields["rows"]
    assert rows == (2 if kind is not np.int16 and (width, stride) in ROW_WINDOWS else 0)


@pytest.mark.parametrize("channels", [LANES + 3, 4 * LANES + 5])
@pytest.mark.parametrize("kernel", [[3, 3], [5, 5], [2, 4], [1, 3]])
@pytest.mark.parametrize(
    ("strides", "dilations"), [([1, 1], [1, 1]), ([2, 2], [1, 1]), ([3, 1], [2, 1]), ([1, 1], [3, 2])]
)
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_depthwise_windows_of_rows_that_are_padded_when_they_are_reached(
    channels: int, kernel: list[int], strides: list[int], dilations: list[int], kind: type
) -> None:
    """Also where steps are longer than windows, and by any thread from any row on."""
    height = KEPT_FROM * strides[0] + kernel[0] * dilations[0]
    window = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": [2, 1, 1, 3]}
    window |= {"group": channels}
    constants = [noise(channels, *kernel, 1), np.arange(channels, dtype=np.int32), np.zeros(channels, np.int8)]
    x = noise(1, height, 17, channels, kind=kind)
    compute(lower_convolution, OP, [x, *constants], **window, **STAGE)
    program = Assembler()
    lower_convolution(call(OP, program.input(x.shape, x.dtype), *constants, **window, **STAGE), program)
    (step,) = instructions(program)
    assert step.fields["kept"] == (kernel[0] - 1) * dilations[0] + 1


@pytest.mark.parametrize(("pixels", "units"), [(LARGEST_TILE_ROWS, 1), (LARGEST_TILE_ROWS + 1, 2), (8 * TILE_ROWS, 8)])
def test_a_small_image_is_one_tile(pixels: int, units: int) -> None:
    program = Assembler()
    constants = [noise(4, 1, 1, 5), np.zeros(4, np.int32), np.zeros(4, np.int8)]
    lower_convolution(call(OP, program.input((1, 1, pixels, 5), np.int8), *constants, kernel_shape=[1, 1]), program)
    (step,) = instructions(program)
    assert step.fields["units"] == units


def test_a_tile_of_each_width_has_the_rows_that_fit() -> None:
    widths = (convolution.ROWS_1, convolution.ROWS_2, convolution.ROWS_3, convolution.ROWS_4)
    assert widths == tuple(ROWS[min(k, MAX_VECTORS) - 1] for k in (1, 2, 3, 4))
