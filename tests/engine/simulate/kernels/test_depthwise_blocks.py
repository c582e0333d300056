"""Depthwise windows in blocks of channels: their lanes, rests of channels and of rows, equal to the definition."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

from engine.native.registers import LANES, REGISTERS
from engine.simulate.kernels.depthwise_blocks import make_block_tile
from engine.simulate.kernels.tiles import (
    ACCUMULATOR_BYTES,
    BLOCK,
    BLOCK_FLIP,
    BLOCK_PIXELS,
    BLOCK_ROWS,
    BLOCK_VECTORS,
    BLOCK_WINDOWS,
    CHAIN,
    ORDER,
)
from engine.simulate.lowering.constants import taps_of_blocks
from engine.simulate.lowering.convolution import lower_convolution
from engine.simulate.program import Assembler
from tests.cpu import needs_cpu
from tests.engine.simulate.kernels.test_convolution import OP, WORD_STAGE, noise
from tests.engine.simulate.machine import call, compute, instructions

HAS_BLOCKS = REGISTERS.quads or CHAIN > 1
TILES = {window: make_block_tile(*window) for window in BLOCK_WINDOWS}


@needs_cpu(HAS_BLOCKS, "dot products of four bytes are those of AVX512-VNNI and AVX2")
@pytest.mark.parametrize(("size", "stride"), sorted(BLOCK_WINDOWS))
def test_a_tile_sums_products_of_bytes_in_the_order_of_its_lanes(size: int, stride: int) -> None:
    tile = TILES[size, stride]

    @numba.njit
    def compute_tile(x: int, column: int, offsets: int, w: int, out: int) -> None:
        tile(x, column, offsets, w, out)

    columns = (BLOCK_PIXELS - 1) * stride + size
    x = noise(size, columns + 1, BLOCK, kind=np.int8)
    x = x if REGISTERS.quads else x & 127
    weights = noise(BLOCK, size, size, 1)
    offsets = np.array([row * x.strides[0] + k * BLOCK for row in range(size) for k in range(size)], np.int64)
    taps, out = taps_of_blocks(weights, 1), np.zeros((BLOCK_PIXELS, BLOCK), np.int32)
    compute_tile(x.ctypes.data, BLOCK, offsets.ctypes.data, taps.ctypes.data, out.ctypes.data)
    windows = [x[:, p * stride : p * stride + size].astype(np.int64) + BLOCK_FLIP for p in range(BLOCK_PIXELS)]
    expected = np.einsum("pyxc,cyx->pc", np.stack(windows), weights[..., 0].astype(np.int64))
    np.testing.assert_array_equal(out, expected[:, list(ORDER)])


@pytest.mark.parametrize(("size", "stride"), sorted(BLOCK_WINDOWS))
@pytest.mark.parametrize("channels", [BLOCK, BLOCK + LANES, 2 * BLOCK + 3])
@pytest.mark.parametrize("width", [5, BLOCK_PIXELS * 2, BLOCK_ROWS + 2])
@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("is_signed", ["signed", "unsigned"])
def test_rests_of_channels_and_of_rows(
    size: int, stride: int, channels: int, width: int, activation: str, is_signed: str
) -> None:
    """Also where results saturate, and with the least and the largest integers."""
    bias = (np.arange(channels, dtype=np.int32) - 30) * 100
    constants = [noise(channels, size, size, 1), bias, np.zeros(channels, np.int8)]
    x = noise(1, 5, width, channels, kind=np.int8)
    x[0, 2], constants[0][: BLOCK // 2] = -128, -128
    x = np.abs(np.maximum(x, -127)) if is_signed == "unsigned" else x
    window = {"kernel_shape": [size, size], "strides": [stride, stride], "group": channels, "pads": [size // 2] * 4}
    for shift in (0, 4):
        stage = WORD_STAGE | {"right_shift": [shift]}
        compute(lower_convolution, OP, [x, *constants], activation=activation, **window, **stage)


@pytest.mark.parametrize(
    ("channels", "kind", "changed", "blocks"),
    [
        (2 * BLOCK + 5, np.int8, {}, 2),
        (BLOCK - 1, np.int8, {}, 0),
        (BLOCK, np.int16, {}, 0),
        (BLOCK, np.int8, {"strides": [1, 3]}, 0),
        (BLOCK, np.int8, {"dilations": [1, 2], "pads": [1, 2, 1, 2]}, 0),
        (BLOCK, np.int8, {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1]}, 0),
        (BLOCK, np.int8, {"output_bit": 16}, 0),
    ],
)
def test_which_windows_are_computed_in_blocks(
    channels: int, kind: type, changed: dict[str, object], blocks: int
) -> None:
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "group": channels, "pads": [1] * 4} | WORD_STAGE | changed
    shape = window["kernel_shape"]
    assert isinstance(shape, list)
    constants = [noise(channels, *shape, 1), np.zeros(channels, np.int32), np.zeros(channels, np.int8)]
    for signed in (True, False):
        program = Assembler()
        x = replace(program.input((1, 6, 9, channels), kind), signed=signed)
        lower_convolution(call(OP, x, *constants, **window), program)
        expected = blocks if REGISTERS.quads or (HAS_BLOCKS and not signed) else 0
        assert instructions(program)[-1].fields["panels"] == expected


def test_every_channel_has_a_lane_and_accumulators_have_room() -> None:
    assert sorted(ORDER) == list(range(BLOCK_VECTORS * LANES)) == list(range(BLOCK))
    assert BLOCK_ROWS % BLOCK_PIXELS == 0
    if HAS_BLOCKS:
        assert BLOCK_ROWS * BLOCK * 4 <= ACCUMULATOR_BYTES
